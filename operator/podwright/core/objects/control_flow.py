"""The exceptions that guards around third-party code let through. Everything else that such code raises is contained, even a BaseException.

In a method that is not awaited, a CancelledError is the plugin's own: a task is cancelled at an `await` only. For awaited methods see
`framework.built_plugins`.
"""

from __future__ import annotations

from typing import Final


class ControlFlowError(BaseException):
    """The base of what Podwright itself raises through the code of plugins."""


CONTROL_FLOW: Final = (ControlFlowError, KeyboardInterrupt)


def may_interrupt(error: BaseException) -> bool:
    """Whether the exception breaks off a coroutine, if nothing is known of the task that runs it."""
    return isinstance(error, GeneratorExit) or any(kind.__name__ == "CancelledError" for kind in type(error).__mro__)
