"""Verdicts: whether the nodes can serve a problem, kept for each node as long as nothing about its devices changes.

So a decision searches only on nodes whose devices have changed since the last pod with the same claims. A search that
was interrupted goes on where it was.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.devices.choice import AS_KUBE_SCHEDULER, DeviceChoice
from podwright.core.devices.counters import AvailableCounters
from podwright.core.devices.errors import AllocationError, SearchTimeoutError
from podwright.core.devices.measures import Fit, KnownMeasures, Measures
from podwright.core.devices.meter import SearchMeter
from podwright.core.devices.node_fits import NodeFits
from podwright.core.devices.offer import Offer
from podwright.core.devices.problem import AllocationProblem
from podwright.core.devices.search import DeviceSearch
from podwright.core.objects.compaction import RecentCache
from podwright.core.objects.dataclass import dataclass
from podwright.core.state.cache import Cache
from podwright.core.state.devices.usage import DeviceUsage

UNKNOWN: Final = 0
FITS: Final = 1
TOO_FEW: Final = 2
INVALID_POOLS: Final = 3
FAILS: Final = 4
"""Codes. FAILS: the attempt as a whole fails, see `DeviceVerdicts.error`."""

STEPS_AT_ONCE: Final = 256
HARD: Final = 512
"""The results of searches with more steps than this are shared with equivalent nodes."""
STEPS_PER_SECOND: Final = 300_000
"""How many steps of a search count as a second of the filter's timeout, on every machine, so that decisions can be
reproduced.
"""
STEPS_OF_START: Final = 24
"""How many steps the start of a search counts as."""
STEPS_OF_DEVICE: Final = 6
"""How many steps it counts as to gather a device for the first time."""
STEPS_BETWEEN_PAUSES: Final = 3_072
"""How many steps of short searches on many nodes run between two points."""
NODES_AT_ONCE: Final = 50
"""An attempt that cannot pause may take this many times the steps that it may take on one node. The next attempt
continues from there.
"""
MAX_PAUSED: Final = 16
MAX_ALIKE: Final = 64
MAX_ERRORS: Final = 64
MOST_PREFERRED: Final = 8
"""The score of the first alternative of a request. Source: `FirstAvailableDeviceRequestMaxSize` in
k8s.io/api/resource/v1.
"""

Codes = NDArray[np.int8]
Bools = NDArray[np.bool_]
Int64s = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """How many steps a search on one node may take: in all, and in one attempt that cannot pause. None: no limit."""

    steps: int | None
    steps_at_once: int | None


@dataclass(frozen=True, slots=True)
class _Result:
    """The result of a search. `fit`: None if there is no solution, or if the policy does not need it."""

    solved: bool
    preference: int
    fit: Fit | None


class DeviceVerdicts:
    """The verdicts for one problem and all problems that differ from it only in names, for one way to choose among
    devices.

    Where names matter, the problem is an argument.
    """

    def __init__(
        self,
        problem: AllocationProblem,
        cache: Cache,
        counters: AvailableCounters,
        meter: SearchMeter,
        choice: DeviceChoice = AS_KUBE_SCHEDULER,
    ) -> None:
        """`meter`: of the problem's selectors."""
        self._problem = problem
        self._meter = meter
        self._choice = choice
        self._known = KnownMeasures(cache.devices.claims.usage)
        self._fits = None if choice.scoring == "Default" else NodeFits(choice.scoring)
        self._cache = cache
        self._counters = counters
        self._codes: Codes = np.zeros(0, np.int8)
        self._scores: Int64s = np.zeros(0, np.int64)
        self._versions: Int64s = np.zeros(0, np.int64)
        self._errors: RecentCache[tuple[AllocationProblem, int], tuple[int, AllocationError]] = RecentCache(MAX_ERRORS)
        """By problem and row: the version of the node's devices, and the error."""
        self._paused: dict[int, tuple[int, DeviceSearch]] = {}
        """By row: the version of the node's devices, and a search that has not ended."""
        self._alike: RecentCache[Hashable, _Result] = RecentCache(MAX_ALIKE)
        """The results of hard searches, by what they depend on."""
        self.searches = 0
        """How many searches were begun."""
        self.steps = 0
        """How many steps the searches have taken that have ended or were interrupted."""
        self._scored = any(request.alternatives for claim in problem.claims for request in claim.requests)

    def codes(self, rows: Bools, limits: SearchLimits) -> Codes:
        """int8[nodes]: the codes of these rows; others may be UNKNOWN or outdated. Read-only.

        The index must be fresh. May pause. Raises SearchTimeoutError with the name of the node.
        """
        index = self._cache.devices.index
        self._grow(self._cache.table.size)
        outdated = self._versions != index.versions
        self._codes[outdated] = UNKNOWN
        self._versions[outdated] = index.versions[outdated]
        began = paused = self._spent
        for slot in np.flatnonzero(rows & (self._codes == UNKNOWN)).tolist():
            self._decide(slot, limits)
            if self._spent - paused > STEPS_BETWEEN_PAUSES:
                paused = self._spent
                # Else the first attempt for a new template, which searches all nodes, would often have to start over.
                self._cache.deadline.point()
            if limits.steps_at_once is not None and self._spent - began > NODES_AT_ONCE * limits.steps_at_once:
                raise SearchTimeoutError(self._cache.table.names[slot])
        return self._codes

    def code(self, slot: int, limits: SearchLimits) -> int:
        """The code of one row. See `codes`."""
        rows = np.zeros(self._cache.table.size, np.bool_)
        rows[slot] = True
        return int(self.codes(rows, limits)[slot])

    def error(self, problem: AllocationProblem, slot: int, limits: SearchLimits) -> AllocationError:
        """Why the code of the row is FAILS. May pause. Raises SearchTimeoutError."""
        version, known = self._errors.get((problem, slot)) or (-1, None)
        if known is not None and version == self._versions[slot]:
            return known
        try:
            self._run(self._start(problem, slot, limits), slot, limits)
        except AllocationError as error:
            self._keep(error, problem, slot)
            return error
        raise AssertionError("the search of a row with the code FAILS does not fail")

    @property
    def scores(self) -> Int64s:
        """int64[nodes]: how preferred the chosen alternatives are, in rows with the code FITS."""
        return self._scores

    def fits(self, slots: NDArray[np.intp]) -> Int64s | int:
        """int64[slots]: scores from 0 to 100 of rows with the code FITS, by what the policy's choice says; 0 if it says
        nothing.
        """
        return 0 if self._fits is None else self._fits.scores(slots, self._codes == FITS)

    def solve(self, problem: AllocationProblem, slot: int, limits: SearchLimits) -> DeviceSearch:
        """The solved search of a row with the code FITS. Raises AllocationError or SearchTimeoutError if devices have
        changed.
        """
        search = self._start(problem, slot, limits)
        self._run(search, slot, limits)
        if not search.solved:
            raise AllocationError("devices have changed since the node was chosen")
        return search

    def would_fit(self, problem: AllocationProblem, slot: int, usage: DeviceUsage, steps: int) -> bool:
        """True if the node in this row could serve the claims with this use of devices. False if the search takes more
        than `steps`. Raises AllocationError.
        """
        try:
            search = self._start(problem, slot, SearchLimits(steps, steps), usage)
            return search.run(steps) and bool(search.solved)
        except SearchTimeoutError:
            return False

    # Internals

    @property
    def _spent(self) -> int:
        """All steps, including those for the start of searches and for gathering devices."""
        return self.steps + STEPS_OF_START * self.searches + STEPS_OF_DEVICE * self._cache.devices.index.gathered

    def _grow(self, size: int) -> None:
        missing = size - len(self._codes)
        if missing > 0:
            self._codes = np.pad(self._codes, (0, missing))
            self._scores = np.pad(self._scores, (0, missing))
            self._versions = np.pad(self._versions, (0, missing), constant_values=-1)
            if self._fits is not None:
                self._fits.grow(missing)

    def _decide(self, slot: int, limits: SearchLimits) -> None:
        try:
            result = self._solved(slot, limits)
        except AllocationError as error:
            self._keep(error, self._problem, slot)
            self._codes[slot] = FAILS
            return
        if result.solved:
            self._codes[slot] = FITS
            self._scores[slot] = result.preference
            if self._fits is not None and result.fit is not None:
                self._fits.note(slot, result.fit)
            return
        pools = self._cache.devices.index.pools_of(slot)
        self._codes[slot] = INVALID_POOLS if any(pool.invalid for pool in pools) else TOO_FEW

    def _keep(self, error: AllocationError, problem: AllocationProblem, slot: int) -> None:
        self._errors.put((problem, slot), (int(self._versions[slot]), error.with_traceback(None)))

    def _solved(self, slot: int, limits: SearchLimits) -> _Result:
        version = int(self._versions[slot])
        known, paused = self._paused.pop(slot, (-1, None))
        if paused is not None and known == version:
            search = paused
            self._allow(slot, limits)
        else:
            search = self._start(self._problem, slot, limits)
        before = search.steps
        try:
            return self._result(search, slot, limits)
        finally:
            self.steps += search.steps - before

    def _result(self, search: DeviceSearch, slot: int, limits: SearchLimits) -> _Result:
        alike = None
        if not search.run(HARD):
            alike = search.signature(shapes=self._choice != AS_KUBE_SCHEDULER)
            found = None if alike is None else self._alike.get(alike)
            if found is not None:
                return found
            self._run_to_end(search, slot, limits)
        preference, fit = 0, None
        if search.solved and self._scored:
            preference = _score(search)
        if search.solved and self._fits is not None:
            fit = Measures(search.offer, self._counters, self._known).fit(search.solution)
        result = _Result(bool(search.solved), preference, fit)
        if alike is not None:
            self._alike.put(alike, result)
        return result

    def _run_to_end(self, search: DeviceSearch, slot: int, limits: SearchLimits) -> None:
        """Runs the search to its end, or keeps it for a later attempt. While it is paused, no other attempt can use
        it.
        """
        try:
            self._run(search, slot, limits)
        except AllocationError:
            raise
        except BaseException:
            if len(self._paused) >= MAX_PAUSED:
                self._paused.clear()
            if search.can_go_on:
                self._paused[slot] = int(self._versions[slot]), search
            raise

    def _allow(self, slot: int, limits: SearchLimits) -> None:
        """Sets what evaluations for this row may cost."""
        steps = min((each for each in (limits.steps, limits.steps_at_once) if each is not None), default=None)
        self._meter.allow(self._cache.table.names[slot], steps)

    def _start(
        self, problem: AllocationProblem, slot: int, limits: SearchLimits, usage: DeviceUsage | None = None
    ) -> DeviceSearch:
        """`usage`: instead of that of the cache."""
        self._allow(slot, limits)
        cache = self._cache
        node = cache.table.nodes[slot]
        self.searches += 1
        assert node is not None, f"row {slot} has no node"
        devices = cache.devices
        offer = Offer(problem, node, devices.index.pools_of(slot), usage or devices.claims.usage)
        counters = self._counters if usage is None else AvailableCounters(usage)
        if self._choice.allocation == "FirstFit":
            return DeviceSearch(offer, counters, self._meter)
        known = self._known if usage is None else KnownMeasures(usage)
        measures = Measures(offer, counters, known)
        return DeviceSearch(offer, counters, self._meter, partial(measures.order, allocation=self._choice.allocation))

    def _run(self, search: DeviceSearch, slot: int, limits: SearchLimits) -> None:
        began = search.steps
        while not search.run(STEPS_AT_ONCE):
            if limits.steps is not None and search.steps > limits.steps:
                raise SearchTimeoutError(self._cache.table.names[slot])
            if limits.steps_at_once is not None and search.steps - began > limits.steps_at_once:
                raise SearchTimeoutError(self._cache.table.names[slot])
            self._meter.pause()


def _score(search: DeviceSearch) -> int:
    """Source: `computeScore` in kube-scheduler's plugin DynamicResources."""
    total = 0
    for claim, picks in zip(search.offer.problem.claims, search.solution, strict=True):
        picked = {id(pick.ask) for pick in picks}
        for request in claim.requests:
            if request.alternatives:
                total += sum(MOST_PREFERRED - i for i, ask in enumerate(request.asks) if id(ask) in picked)
    return total
