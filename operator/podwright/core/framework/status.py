"""Status: the result of a plugin's method. Plugins return expected outcomes as values; an exception is a fault."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from podwright.core.objects.dataclass import dataclass


class Code(IntEnum):
    """kube-scheduler's status codes."""

    SUCCESS = 0
    ERROR = 1
    UNSCHEDULABLE = 2
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    WAIT = 4
    SKIP = 5
    PENDING = 6

    @property
    def text(self) -> str:
        """kube-scheduler's spelling: UnschedulableAndUnresolvable."""
        return _TEXTS[self]


_TEXTS: Final = {
    Code.SUCCESS: "Success",
    Code.ERROR: "Error",
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "UnschedulableAndUnresolvable",
    Code.WAIT: "Wait",
    Code.SKIP: "Skip",
    Code.PENDING: "Pending",
}


@dataclass(frozen=True, slots=True)
class Status:
    """A code, the reasons for the user, and the plugin's name, which the framework fills in.

    If a method can return None instead of a Status, None means success.
    """

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def rejected(self) -> bool:
        """True if the plugin rejected the pod. That is an expected outcome, not a fault."""
        return self.code in (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING)

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)

    def by(self, plugin: str) -> Status:
        """The same status with the plugin's name, unless it has one already."""
        return self if self.plugin else Status(self.code, self.reasons, plugin)


SKIP: Final = Status(Code.SKIP)


def unschedulable(*reasons: str) -> Status:
    """A rejection that evicting pods may resolve."""
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    """A rejection that evicting pods cannot resolve."""
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)
