"""Status: what a plugin says. Expected outcomes are values; an exception is a fault of the plugin."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final


class Code(IntEnum):
    """kube-scheduler's codes, by its names."""

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
    """A code, the reasons that people read, and the plugin (stamped by the runtime).

    Where a method may return a Status or None, None is success.
    """

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def rejected(self) -> bool:
        """The pod was turned down; this is no fault."""
        return self.code in (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING)

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)

    def by(self, plugin: str) -> Status:
        """The same, stamped with the plugin's name unless it has one."""
        return self if self.plugin else Status(self.code, self.reasons, plugin)


SKIP: Final = Status(Code.SKIP)


def unschedulable(*reasons: str) -> Status:
    """Rejected; removing pods may help."""
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    """Rejected; removing pods cannot help."""
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)
