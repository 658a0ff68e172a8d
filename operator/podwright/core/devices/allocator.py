"""Allocator: problems and their verdicts, shared by the plugins of all profiles. `allocator_of` is the one of a
cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from podwright.core.devices.choice import AS_KUBE_SCHEDULER, DeviceChoice
from podwright.core.devices.counters import AvailableCounters
from podwright.core.devices.meter import SearchMeter
from podwright.core.devices.problem import AllocationProblem, AllocationProblems, Signature
from podwright.core.devices.selectors import Matcher, Selectors
from podwright.core.devices.verdicts import DeviceVerdicts
from podwright.core.objects.compaction import RecentCache
from podwright.core.objects.devices.claims import ClaimSpec
from podwright.core.objects.devices.classes import DeviceClass
from podwright.core.state.cache import Cache

MAX_PROBLEMS: Final = 256
MAX_VERDICTS: Final = 64
MAX_BYTES: Final = 64 << 20
_BYTES_PER_NODE: Final = 17
_BYTES_OF_FITS: Final = 13


class Allocator:
    """See the module."""

    def __init__(self, cache: Cache) -> None:
        from podwright.core.devices.compiling import compile_expression  # noqa: PLC0415 -- CEL takes long

        self._cache = cache
        devices = cache.devices
        self._counters = AvailableCounters(devices.claims.usage)
        self._meter = SearchMeter(cache.deadline)
        self._problems = AllocationProblems(devices, Selectors(compile_expression, devices.index.numbers, self._meter))
        self._known: RecentCache[tuple[tuple[ClaimSpec, ...], tuple[DeviceClass | None, ...]], AllocationProblem] = (
            RecentCache(MAX_PROBLEMS)
        )
        self._verdicts: RecentCache[tuple[Signature, DeviceChoice], DeviceVerdicts] = RecentCache(
            MAX_VERDICTS // 2, MAX_BYTES // 2
        )

    def problem(self, specs: Sequence[ClaimSpec]) -> AllocationProblem:
        """The problem of claims with these specs, with their classes as they are now."""
        classes = self._problems.classes_of(specs)
        key = tuple(specs), classes
        found = self._known.get(key)
        if found is None:
            found = self._problems.prepare(specs, classes)
            self._known.put(key, found)
        return found

    def matcher(self, device_class: DeviceClass) -> Matcher | None:
        """Returns the matcher of a class's devices; None if the class has a selector of an unknown kind."""
        self._meter.allow("", None)
        return self._problems.matcher(device_class)

    def verdicts(self, problem: AllocationProblem, choice: DeviceChoice = AS_KUBE_SCHEDULER) -> DeviceVerdicts:
        """The verdicts for a problem and all problems that differ from it only in names. `choice`: of the policy that
        decides.
        """
        key = problem.signature, choice
        found = self._verdicts.get(key)
        if found is None:
            found = DeviceVerdicts(problem, self._cache, self._counters, self._meter, choice)
            of_fits = 0 if choice.scoring == "Default" else _BYTES_OF_FITS
            self._verdicts.put(key, found, self._cache.table.size * (_BYTES_PER_NODE + of_fits))
        return found


def allocator_of(cache: Cache) -> Allocator:
    """The allocator of a cache."""
    return cache.extension(Allocator, lambda: Allocator(cache))
