"""The exceptions that guards around third-party code let through. Everything else that such code raises is contained,
even a BaseException.

In a method that is not awaited, a CancelledError is the plugin's own: a task is cancelled at an `await` only. For
awaited methods see `framework.built_plugins`.
"""

from __future__ import annotations

import dis
from typing import Final


class ControlFlowError(BaseException):
    """The base of what Podwright itself raises through the code of plugins."""


CONTROL_FLOW: Final = (ControlFlowError, KeyboardInterrupt)
_RAISE: Final = dis.opmap["RAISE_VARARGS"]


def passes_through(error: BaseException) -> bool:
    """True if a guard around third-party code lets the exception through: Podwright's own, and the user's Ctrl-C.

    A KeyboardInterrupt that a `raise` in that code raises is not the user's: a signal is handled between other
    instructions.
    """
    if not isinstance(error, KeyboardInterrupt):
        return isinstance(error, ControlFlowError)
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return last is None or last.tb_frame.f_code.co_code[last.tb_lasti] != _RAISE


def may_interrupt(error: BaseException) -> bool:
    """True if the exception breaks off a coroutine, if nothing is known of the task that runs it."""
    return isinstance(error, GeneratorExit) or any(kind.__name__ == "CancelledError" for kind in type(error).__mro__)
