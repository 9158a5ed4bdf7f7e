"""What the process that workers are forked from imports before them; see `processes.prepare`."""

import atexit
import ctypes
import os
import signal
from contextlib import suppress

from .importing import import_largest, no_collection
from .processes import IS_SERVER

DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of Linux, for a command that ends while this imports

if os.environ.pop(IS_SERVER, None):
    # At its end there is nothing left to do but to take apart what was imported.
    atexit.register(os._exit, 0)
    with suppress(Exception):
        ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
with suppress(Exception), no_collection():  # a worker imports it again, and tells of the trouble
    import_largest()
    from discreg.representation import DRMClassifierCV as DRMClassifierCV
    from discreg.retargeted import GReLSRClassifierCV as GReLSRClassifierCV
    from discreg.tables import preprocessing as preprocessing

    from . import comparison as comparison
    from . import workers as workers
