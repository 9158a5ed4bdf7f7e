"""What the process that workers are forked from imports before them; see `processes.prepare`."""

import ctypes
import signal
from contextlib import suppress

from .importing import import_largest, no_collection

DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of Linux, for a command that ends while this imports

with suppress(Exception):
    ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
with suppress(Exception), no_collection():  # a worker imports it again, and tells of the trouble
    import_largest()
    from discreg import selection as selection

    from . import comparison as comparison
    from . import preprocessing as preprocessing
    from . import workers as workers
