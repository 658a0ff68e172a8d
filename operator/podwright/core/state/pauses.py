"""Pauses: the points at which a long attempt lets other work go on, and what then happens to its transactions.

    attempt ─► point() ─► transactions are suspended ─► other work ─► nothing has changed: they are resumed, and the attempt goes on
                                                              └─► the cache has changed: InputsChangedError, and the attempt starts anew

Invariant: while an attempt is paused, the cache is as if the attempt had not begun. So no other code sees half of an attempt, and no
attempt sees half of a change. `engine.pauses.slices` decides when to pause. Without it, a point costs one function call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from podwright.core.objects.control_flow import ControlFlowError


class InputsChangedError(ControlFlowError):
    """The state on which a paused attempt depends has changed. It does not inherit Exception, so that no guard around a plugin catches it."""


def never() -> None:
    """A point that never pauses."""


class Suspendable(Protocol):
    """A transaction."""

    def suspend(self) -> None: ...
    def resume(self) -> None: ...


class Pauses:
    """See the module. The cache has one."""

    def __init__(self) -> None:
        self.pause: Callable[[], None] | None = None
        """Called at each point; None: attempts run whole. It may call `suspend`, and then `resume` or raise InputsChangedError."""
        self.rarely = False
        """Whether `pause` is called at a point where the attempt should pause rarely."""
        self.must_end_soon = False
        """Whether others wait for an attempt that cannot pause, as in the engine."""
        self._open: list[Suspendable] = []

    @property
    def can_pause(self) -> bool:
        """Whether `point_in_plugin` may pause."""
        return self.pause is not None and not self._open

    def point(self) -> None:
        """A place in a long loop where the attempt may pause. Raises InputsChangedError if it must start anew.

        The caller may hold copies of what it has read, but no iterator over a part of the cache. If a transaction is open, it may hold no part of an
        index either: the index may drop it when the transaction is suspended, and make another one when it is resumed.
        """
        if self.pause is not None:
            self.pause()

    def point_in_plugin(self) -> None:
        """The same within a plugin's call, where the attempt holds parts of indexes: it does not pause if a transaction is open."""
        if self.pause is not None and not self._open:
            self.pause()

    def rare_point_in_plugin(self) -> None:
        """The same where much work would have to be done again. So it pauses only after a longer time."""
        self.rarely = True
        try:
            self.point_in_plugin()
        finally:
            self.rarely = False

    def opened(self, transaction: Suspendable) -> None:
        self._open.append(transaction)

    def closed(self, transaction: Suspendable) -> None:
        self._open.remove(transaction)

    def suspend(self) -> None:
        """Rolls all open transactions back, the innermost first."""
        for transaction in reversed(self._open):
            transaction.suspend()

    def resume(self) -> None:
        """Repeats the changes of all open transactions. The cache must be as it was after `suspend`.

        Raises InputsChangedError if a change cannot be repeated.
        """
        for transaction in self._open:
            transaction.resume()
