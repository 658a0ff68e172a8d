"""DynamicResources: gives pods the devices that their ResourceClaims ask for.

    PreEnqueue: the claims exist ─► PreFilter: their classes exist
                ─► Filter: which nodes can serve them (`core.devices.verdicts`)
        ─► Score: preferred alternatives ─► Reserve: allocates on the chosen node, which counts at once
            ─► PreBind: writes it (`claim_writes`)

The answers and texts are kube-scheduler's. A claim that is allocated already restricts the nodes. Extended resources
for which a DeviceClass stands get one claim together, which is created in PreBind. Source: kube-scheduler's plugin
DynamicResources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from podwright.core.devices.choice import AllocationOrder, DeviceChoice, Preempting, Scoring
from podwright.core.devices.verdicts import STEPS_PER_SECOND
from podwright.core.framework.cluster_events import EventHint
from podwright.core.framework.cost import Cost
from podwright.core.framework.errors import PluginError
from podwright.core.framework.explaining import Why
from podwright.core.framework.interface import (
    CycleState,
    Diagnosis,
    EnqueueExtensions,
    Feasible,
    FilterPlugin,
    FilterResult,
    FollowUp,
    Handle,
    Int64s,
    Plugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterExtensions,
    PreFilterPlugin,
    ReservePlugin,
    Scope,
    ScorePlugin,
)
from podwright.core.framework.status import SKIP, Code, Status, unresolvable, unschedulable
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.devices.claims import Allocation, ResourceClaim
from podwright.core.objects.durations import parse_duration
from podwright.core.objects.pod import PodInfo
from podwright.core.plugins.devices.claim_writes import (
    ClaimWriteError,
    ClaimWrites,
    Deallocation,
    Deletion,
    Release,
    tell,
)
from podwright.core.plugins.devices.cycle_claims import CycleClaims
from podwright.core.plugins.devices.evaluation import (
    FREEABLE,
    NOT_ALLOCATABLE,
    NOT_AVAILABLE,
    STATUSES,
    DeviceEvaluationError,
    Evaluation,
)
from podwright.core.plugins.devices.explained import ELSEWHERE, why_elsewhere, why_nowhere
from podwright.core.plugins.devices.freed import waits_for_release
from podwright.core.plugins.devices.hints import device_hints
from podwright.core.plugins.devices.node_requests import extended_resources
from podwright.core.plugins.devices.plans import AllocationPlan, plan_of, reserved_claims
from podwright.core.plugins.devices.pod_claims import ClaimsError, claims_of, consumer_of
from podwright.core.plugins.devices.reservation import DeviceReservation, hold, release
from podwright.core.state.cache import Cache
from podwright.core.state.columns.table import NodeTable
from podwright.core.state.nodeinfo import NodeInfo

X = TypeVar("X")
Y = TypeVar("Y")
SOON_SECONDS: Final = 10.0
"""How long after a pod the claims of its templates may come, before an event says that they are missing."""


@dataclass(frozen=True, slots=True)
class DynamicResourcesArgs:
    """`filter_timeout` bounds the search for devices on one node; "0s": no bound. `binding_timeout`: how long devices
    may take to become ready.

    `allocation`, `scoring`, `preemption`: see core/devices/choice.py. OWN_KEYS: what kube-scheduler's args do not have.
    """

    OWN_KEYS: ClassVar[tuple[str, ...]] = ("allocation", "scoring", "preemption")

    filter_timeout: str = "10s"
    binding_timeout: str = "10m0s"
    allocation: AllocationOrder = "FirstFit"
    scoring: Scoring = "Default"
    preemption: Preempting = "Default"

    def validate(self, where: str) -> Iterable[tuple[str, str]]:
        """The problems that kube-scheduler would report, as (field path, problem)."""
        yield from _too_short(self.filter_timeout, 0.0, f"{where}.filterTimeout", "must be zero or positive")
        yield from _too_short(self.binding_timeout, 1.0, f"{where}.bindingTimeout", "must be at least 1 second")


def _too_short(text: str, least: float, where: str, problem: str) -> Iterable[tuple[str, str]]:
    try:
        if parse_duration(text) < least:
            yield where, f'Invalid value: "{text}": {problem}'
    except ValueError as error:
        yield where, str(error)


class DynamicResources(
    Plugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreFilterExtensions,
    FilterPlugin,
    PostFilterPlugin,
    ScorePlugin,
    ReservePlugin,
    PreBindPlugin,
    EnqueueExtensions,
):
    """See the module."""

    name = "DynamicResources"
    reason = "Devices"
    scope = Scope.NODE
    feature_gate = "DynamicResourceAllocation"
    args_type = DynamicResourcesArgs
    normalizes_numbers = True
    zero_stays = True

    def __init__(self, args: Any, handle: Handle) -> None:
        args = args or DynamicResourcesArgs()
        super().__init__(args, handle)
        features = handle.features
        self._enabled = features.enabled(self.feature_gate)
        self._extended_resources = features.enabled("DRAExtendedResource")
        seconds = parse_duration(args.filter_timeout)
        limited = seconds > 0 and features.enabled("DRASchedulerFilterTimeout")
        self._evaluation = Evaluation(
            handle,
            steps=int(seconds * STEPS_PER_SECOND) if limited else None,
            binding_timeout=parse_duration(args.binding_timeout),
            choice=DeviceChoice(args.allocation, args.scoring),
        )
        self._binding_timeout = parse_duration(args.binding_timeout)
        self._writing: set[str] = set()

    @staticmethod
    def pre_filter_disabled(pod: PodInfo, cache: Cache) -> Status | None:
        """Rejects a pod that would start without its devices."""
        return _needs_devices(pod, cache, "the profile disables DynamicResources")

    def why_not_here(self, pod: PodInfo, node: NodeInfo, message: str) -> Why:
        found = self._claims_now(pod)
        if found is None:
            return Why()
        if message in STATUSES[NOT_AVAILABLE].reasons:
            return why_elsewhere(self.handle.cache, found.claims, node)
        here = self._evaluation.devices_here(found, node.slot) if message in STATUSES[NOT_ALLOCATABLE].reasons else None
        return Why() if here is None else here.why(node.slot)

    def remoteness_of(self, pod: PodInfo, table: NodeTable) -> NDArray[np.float64] | float:
        found = self._claims_now(pod)
        here = None if found is None else self._evaluation.devices_here(found, int(np.argmax(table.valid)))
        return ELSEWHERE if here is None else here.remoteness()

    def _claims_now(self, pod: PodInfo) -> CycleClaims | None:
        state = CycleState()
        self.pre_filter(state, pod)
        found: CycleClaims | None = state.data.get(self.name)
        return found

    def why_nowhere(self, pod: PodInfo, message: str) -> Why:
        return why_nowhere(self.handle.cache, pod, message)

    def costs(self, pod: PodInfo) -> Iterable[Cost]:
        return (Cost(len(pod.resource_claims), "resource claims", 20e-6),) if pod.resource_claims else ()

    def hints(self) -> Sequence[EventHint]:
        return device_hints(self.handle.cache.devices.claims)

    # Before the filters

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        if not pod.resource_claims or not self._enabled:
            return None
        try:
            claims_of(pod, self.handle.cache.devices.claims)
        except ClaimsError as error:
            return unresolvable(str(error))
        return None

    def tells_gate(self, pod: PodInfo) -> bool:
        """For claims that a controller is about to make, an event would come for each pod."""
        try:
            claims_of(pod, self.handle.cache.devices.claims)
        except ClaimsError as error:
            return not error.soon or self.handle.now() - pod.creation > SOON_SECONDS
        return False

    def pre_filter(self, state: CycleState, pod: PodInfo) -> Status | None:
        cache = self.handle.cache
        if not self._enabled:
            return _needs_devices(pod, cache, "the feature gate DynamicResourceAllocation is off") or SKIP
        state.data[self.name] = None
        if not pod.resource_claims and not pod.requests.qualified:
            return SKIP
        extended = extended_resources(pod, cache.devices) if self._extended_resources else None
        if not pod.resource_claims and extended is None:
            return SKIP
        known = cache.devices.claims
        try:
            claims = claims_of(pod, known)
        except ClaimsError as error:
            return unresolvable(str(error))
        if not claims and extended is None:
            return SKIP
        found = CycleClaims(claims, extended, None if extended is None else known.created_for(pod.uid), {})
        for position, claim in enumerate(claims):
            if claim.allocation is None and (status := self._not_yet(found, position, pod)) is not None:
                return status
        found.frees = self.args.preemption == "FreeDevices" and not waits_for_release(pod, cache)
        state.data[self.name] = found
        return None

    def _not_yet(self, found: CycleClaims, position: int, pod: PodInfo) -> Status | None:
        """Why a claim cannot be allocated now."""
        claim = found.claims[position]
        in_flight = self.handle.cache.devices.claims.in_flight(claim.uid)
        if in_flight is not None:
            if not pod.group or in_flight.group != pod.group:
                return unresolvable(f"resource claim {claim.key} is in the process of being allocated")
            found.shared[position] = in_flight.allocation
            return None
        for request in claim.spec.requests:
            if not request.asks:
                return unresolvable(f"resource claim {claim.key}, request {request.name}: unknown request type")
            for ask in request.asks:
                if not ask.device_class:
                    raise PluginError(self.name, "preFilter", f"request {ask.reference}: unsupported request type")
                if self.handle.cache.devices.device_class(ask.device_class) is None:
                    return unresolvable(f"request {ask.reference}: device class {ask.device_class} does not exist")
        return None

    # Filter

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        found = self._claims_of(state, pod)
        slot = self.handle.cache.table.slot_of(node.name)
        if found is None or slot is None:
            return None
        if found.removed:
            code = self._guarded(self._evaluation.code_without, found, slot)
        else:
            rows = np.zeros(self.handle.cache.table.size, np.bool_)
            rows[slot] = True
            code = int(self._guarded(self._evaluation.codes, found, rows)[slot])
        return (FREEABLE if found.frees else STATUSES)[code] if code else None

    def prepare(self, pod: PodInfo) -> None:
        """Searches all nodes. If that fails, the plan fails as well, and says why."""
        state = CycleState()
        with suppress(PluginError):
            if self.pre_filter(state, pod) is None:
                self.filter_all(state, pod, self.handle.cache.table)

    def filter_all(self, state: CycleState, pod: PodInfo, table: NodeTable) -> FilterResult | None:
        found = self._claims_of(state, pod)
        if found is None:
            return None
        rows = table.valid if state.left is None else state.left
        codes = self._guarded(self._evaluation.codes, found, rows)
        return FilterResult(codes == 0, lambda: (codes, FREEABLE if found.frees else STATUSES))

    def add_pod(self, state: CycleState, _pod: PodInfo, added: PodInfo, _node: NodeInfo) -> None:
        found: CycleClaims | None = state.data.get(self.name)
        if found is not None:
            found.removed.pop(added.uid, None)

    def remove_pod(self, state: CycleState, _pod: PodInfo, removed: PodInfo, _node: NodeInfo) -> None:
        found: CycleClaims | None = state.data.get(self.name)
        if found is not None and found.frees:
            found.removed[removed.uid] = removed

    def _claims_of(self, state: CycleState, pod: PodInfo) -> CycleClaims | None:
        """None: the pod has no claims. If the profile disables PreFilter, no pod with claims comes here."""
        found: CycleClaims | None = state.data.get(self.name)
        if found is None and pod.resource_claims and self.name not in state.data:
            raise PluginError(self.name, "filter", "not found")
        return found

    def _guarded(self, evaluate: Callable[[CycleClaims, X], Y], found: CycleClaims, where: X) -> Y:
        try:
            return evaluate(found, where)
        except DeviceEvaluationError as error:
            raise PluginError(self.name, "filter", str(error)) from error

    # PostFilter

    def post_filter(
        self, state: CycleState, pod: PodInfo, _diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        """Deallocates a claim that is of no use to the pod, so that it can get other devices. Fails, as in
        kube-scheduler, if another plugin rejected the pod before this plugin's PreFilter ran.
        """
        if not self._enabled:
            return None, unschedulable()
        if self.name not in state.data:
            return None, Status(Code.ERROR, ("not found",))
        found: CycleClaims | None = state.data[self.name]
        if found is None:
            return None, unschedulable()
        if unreadable := self.handle.cache.devices.unreadable.summary():
            state.follow_ups.append(partial(tell, self.handle, pod, unreadable))
        taken = _to_take(found, pod, self.handle)
        if taken is None:
            return None, unschedulable()
        state.follow_ups.append(taken)
        done = "deletion" if isinstance(taken, Deletion) else "deallocation"
        return None, unschedulable(f"{done} of ResourceClaim completed")

    def group_waits(self, state: CycleState, pod: PodInfo) -> Sequence[FollowUp]:
        """As `post_filter` does for a pod alone. Source: `PodGroupPostFilter` in kube-scheduler's plugin
        DynamicResources.
        """
        found: CycleClaims | None = state.data.get(self.name)
        if not self._enabled or found is None:
            return ()
        taken = _to_take(found, pod, self.handle)
        return _unused_by_group(found, pod, self.handle) if taken is None else (taken,)

    # Score

    def score(self, state: CycleState, _pod: PodInfo, node: NodeInfo) -> int:
        slot = self.handle.cache.table.slot_of(node.name)
        found: CycleClaims | None = state.data.get(self.name)
        if found is None or slot is None:
            return 0
        scores = self._evaluation.scores(found, np.array([slot], np.intp))
        return scores if isinstance(scores, int) else int(scores[0])

    def score_all(self, state: CycleState, _pod: PodInfo, feasible: Feasible) -> Int64s | int:
        found: CycleClaims | None = state.data.get(self.name)
        return 0 if found is None else self._evaluation.scores(found, feasible.slots)

    def normalize(self, _state: CycleState, _pod: PodInfo, scores: Int64s | int, _feasible: Feasible) -> Int64s | int:
        return self._evaluation.normalized(scores)

    # Reserve

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        found: CycleClaims | None = state.data.get(self.name)
        if found is None:
            return None
        known, node = self.handle.cache.devices.claims, self.handle.cache.present(node_name)
        if node is None:
            return Status(Code.ERROR, (f'node "{node_name}" not found',))
        if found.reservation is not None:
            release(found.reservation, known, pod.uid)
        reservation = found.reservation = DeviceReservation(node_name)
        try:
            allocated = self._evaluation.solve(found, node_name)
        except DeviceEvaluationError as error:
            return Status(Code.ERROR, (str(error),))
        for position, allocation in {**found.shared, **allocated}.items():
            hold(reservation, position, found.claim(position, node.present), allocation, known, pod)
        state.devices = _names_of(found, allocated)
        return None

    def plan(self, state: CycleState, node_name: str) -> AllocationPlan | None:
        """Plans what is written if the pod goes to this node, which must be feasible; None for a pod without claims.
        Changes nothing.

        Raises PluginError.
        """
        found: CycleClaims | None = state.data.get(self.name)
        node = self.handle.cache.present(node_name)
        if found is None or node is None:
            return None
        try:
            allocated = self._evaluation.solve(found, node_name)
        except DeviceEvaluationError as error:
            raise PluginError(self.name, "reserve", str(error)) from error
        return plan_of(found, {**found.shared, **allocated}, node.present)

    def reserved(self, state: CycleState, node_name: str) -> Sequence[tuple[ResourceClaim, Allocation | None]]:
        """All claims of a pod for which Reserve has run, each with the allocation that is in flight for it. See
        `reserved_claims`.
        """
        found: CycleClaims | None = state.data.get(self.name)
        node = self.handle.cache.present(node_name)
        if found is None or found.reservation is None or node is None:
            return ()
        return reserved_claims(found, found.reservation.allocations, node.present)

    def unreserve(self, state: CycleState, pod: PodInfo, _node_name: str) -> None:
        found: CycleClaims | None = state.data.get(self.name)
        if found is None or found.reservation is None:
            return
        release(found.reservation, self.handle.cache.devices.claims, pod.uid)
        if found.writes is not None and found.writes.any:
            state.follow_ups.append(partial(found.writes.undo, pod))

    # PreBind

    def pre_bind_pre_flight(self, state: CycleState, _pod: PodInfo, _node_name: str) -> Status | None:
        return SKIP if state.data.get(self.name) is None else None

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Writes the allocations and reservations, and waits for binding conditions."""
        found: CycleClaims | None = state.data.get(self.name)
        node = self.handle.cache.present(node_name)
        if found is None:
            return None
        if node is None or found.reservation is None:
            return Status(Code.ERROR, (f'node "{node_name}" not found',))
        found.writes = writes = ClaimWrites(self.handle, found, pod, self._writing)
        try:
            await writes.write(node.present)
            release(
                found.reservation, self.handle.cache.devices.claims, pod.uid
            )  # the written claims count by themselves
            await writes.confirm()
            await writes.wait(self._binding_timeout)
        except ClaimWriteError as error:
            return Status(Code.ERROR, (str(error),))
        return None


def _to_take(found: CycleClaims, pod: PodInfo, handle: Handle) -> Deallocation | Deletion | None:
    """The follow-up for a claim that is of no use to the pod: its deallocation or deletion. None if there is no such
    claim.
    """
    for position in sorted(found.unavailable):
        claim = found.claims[position]
        consumer = consumer_of(claim, pod, handle.cache.groups)
        in_use = position in found.shared or (consumer.group and handle.cache.groups.members(consumer.group).placed)
        if not in_use and set(claim.reserved_for) <= {consumer.uid}:
            return Deallocation(handle, claim)
    return None if found.stale is None else Deletion(handle, found.stale)


def _unused_by_group(found: CycleClaims, pod: PodInfo, handle: Handle) -> Sequence[Release]:
    """The follow-ups for claims that are reserved for the pod's group, none of whose pods has a node."""
    groups = handle.cache.groups
    consumers = [(claim, consumer_of(claim, pod, groups)) for claim in found.claims]
    return [
        Release(handle, claim, consumer.uid)
        for claim, consumer in consumers
        if consumer.group and consumer.uid in claim.reserved_for and not groups.members(consumer.group).placed
    ]


def _names_of(found: CycleClaims, allocated: Mapping[int, Allocation]) -> Sequence[str]:
    """The devices of all claims, as driver/pool/device."""
    known = {**{i: found.allocation(i) for i in range(len(found.claims))}, **allocated}
    devices = (device for allocation in known.values() if allocation is not None for device in allocation.devices)
    return tuple("/".join(device.device_id) for device in devices)


def _needs_devices(pod: PodInfo, cache: Cache, why: str) -> Status | None:
    """Rejects a pod that needs devices if the plugin does not run."""
    if pod.resource_claims:
        names = ", ".join(claim.name for claim in pod.resource_claims)
        return unresolvable(f"{why}, and the pod has resource claims ({names})")
    found = extended_resources(pod, cache.devices)
    if found is None:
        return None
    for resource, name in found.classes.items():
        if not cache.table.offers(resource):
            return unresolvable(f"{why}, and no node offers {resource} (DeviceClass {name})")
    return None
