"""The exception for mistakes in the user's input; the command imports it for its help."""

from __future__ import annotations


class InputError(ValueError):
    """A mistake in a file, an option or a call; the message says how to correct it.

    The command prints the message without a traceback.
    """
