"""Reports parts of ResourceSlices, classes and taint rules that cannot be understood: once in the log, and in the
metric of invalid objects. DynamicResources writes events for pods that wait.
"""

from __future__ import annotations

from collections.abc import Callable

from podwright.core.objects.errors import InvalidObjectError
from podwright.core.state.cache import Cache


def report_unreadable_devices(cache: Cache, report: Callable[[str, str, Exception], object]) -> None:
    """Starts to report. `report`: called with kind and name of the object."""

    def tell(problem: InvalidObjectError) -> None:
        report(problem.kind, problem.name, problem)

    cache.devices.unreadable.on_problem = tell
