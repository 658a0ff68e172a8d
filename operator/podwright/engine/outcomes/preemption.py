"""Carries preemption out: victims are evicted, the preemptor waits for them, and lower nominations to its nodes are
cleared.

    carry_out ─► lower nominations cleared ─► victims' binding cycles stopped, the others evicted
        ─► last eviction done ─► preemptor released

The preemptor is a pod, or the waiting members of a pod group. While evictions are in progress, the plugin that asked
for them holds the preemptor in PreEnqueue, so that it does not preempt again when its first victim is gone. A victim
counts as terminating as soon as its eviction is decided, so that the pods nominated to its node wait for it. It is
evicted once: other preemptors that need its room wait for the same eviction. Source of the rules: kube-scheduler's
asynchronous preemption.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, Final

from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import HoldsPreemptors, PostFilterResult
from podwright.core.gangs.decisions import GangPreemption
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import PodGroup
from podwright.core.preemption.queue_claims import has_queue
from podwright.core.preemption.units import disruptions, partial_losses
from podwright.core.queue.queued_pod import Place
from podwright.core.state.nominator import reservation_of
from podwright.engine.intake.assigned_pods import AssignedPods
from podwright.engine.ports import Ports, Regarding, Verdict, kind_of, preempted_by, preempting
from podwright.engine.process.steps import Steps, beside
from podwright.engine.records.metrics import (
    GROUP_PREEMPTION_VICTIMS,
    PREEMPTION_DISRUPTIONS,
    PREEMPTION_PDB_VIOLATIONS,
    PREEMPTION_VICTIMS,
)
from podwright.engine.state import EngineState

DEFAULT_PREEMPTION: Final = "DefaultPreemption"
PREEMPTED: Final = "PreemptionByScheduler"
WHOLE_CLUSTER: Final = "cluster"
"""The node name in kube-scheduler's events when a pod group preempts."""


@dataclass(frozen=True, slots=True)
class _Preemptor:
    """`key`: the pod's uid, or the group's key; `uids`: the pods that wait for the victims; `nodes`: where they are
    nominated to; `subject` and `node_name`: the pod or group, and its node, in events; `within_budgets`: see `Evictor`,
    it has a queue.
    """

    key: str
    uids: tuple[str, ...]
    nodes: AbstractSet[str]
    subject: PodInfo | Regarding
    node_name: str
    within_budgets: bool

    @property
    def kind(self) -> str:
        return kind_of(self.subject)


class Preemptions:
    """See the module."""

    def __init__(self, state: EngineState, ports: Ports, assigned: AssignedPods) -> None:
        self._cache = state.cache
        self._queue = state.queue
        self._binding_cycles = state.binding_cycles
        self._clock = state.clock
        self._wake = state.wake
        self._recorder = ports.recorder
        self._status = ports.status
        self._evictor = ports.evictor
        self._groups = ports.groups
        self._metrics = ports.metrics
        self._assigned = assigned
        self._evictions: dict[str, list[Callable[[bool], None]]] = {}
        """Evictions in progress, by the victim's uid: what to call with their result."""

    def carry_out(self, framework: Framework, pod: PodInfo, wanted: PostFilterResult) -> None:
        """Evicts the victims in favour of a pod that is nominated to their node."""
        node_name = wanted.nominated_node
        preemptor = _Preemptor(pod.uid, (pod.uid,), {node_name}, pod, node_name, has_queue(self._cache, pod))
        self._metrics.observe(PREEMPTION_VICTIMS, len(wanted.victims))
        self._count_violations(preemptor, wanted.violations)
        self.hold_room((pod,))
        deque(self._clear_lower_nominations((node_name,), pod, {pod.uid}), 0)
        deque(self._remove_victims(framework, preemptor, wanted.victims, lambda: True), 0)

    def carry_out_gang(
        self,
        framework: Framework,
        group: PodGroup,
        members: Sequence[PodInfo],
        preemption: GangPreemption,
        still_preempts: Callable[[], bool],
    ) -> Steps[bool]:
        """Evicts the victims in favour of the group's nominated members, in steps; these wait for them together. Before
        Binding cycles are stopped, and before the first eviction, `still_preempts` is asked once more. Returns False if
        it says no: then no pod is evicted.

        Does nothing without victims: then the group waits for those of an earlier preemption.
        """
        if not members or not preemption.victims:
            return True
        uids, nodes = tuple(member.uid for member in members), {*preemption.nominations.values()}
        yield from self._clear_lower_nominations(nodes, members[0], {*uids})
        if not still_preempts():
            return False
        subject = Regarding.group(group, members[0].scheduler_name)
        preemptor = _Preemptor(group.key, uids, nodes, subject, WHOLE_CLUSTER, has_queue(self._cache, members[0]))
        self._metrics.observe(GROUP_PREEMPTION_VICTIMS, len(preemption.victims))
        self._count_violations(preemptor, preemption.violations)
        return (yield from self._remove_victims(framework, preemptor, preemption.victims, still_preempts))

    def _count_violations(self, preemptor: _Preemptor, violations: int) -> None:
        if violations:
            self._metrics.count(PREEMPTION_PDB_VIOLATIONS, preemptor.kind, by=violations)

    def hold_room(self, pods: Sequence[PodInfo]) -> None:
        """The pods, of one queue, hold the room that they are nominated to. Without a queue, their priority says it."""
        if pods and has_queue(self._cache, pods[0]):
            self._cache.nominator.hold_room(pod.uid for pod in pods)

    def _clear_lower_nominations(self, nodes: Iterable[str], pod: PodInfo, spared: AbstractSet[str]) -> Steps[None]:
        """Clears the nominations to these nodes of pods that leave room for this one."""
        nominator = self._cache.nominator
        for node_name in nodes:
            for lower in [p for p in nominator.behind(pod, node_name) if p.uid not in spared]:
                if reservation_of(lower):
                    self._cache.reservations.give_way(lower, pod)
                    continue
                nominator.remove(lower.uid)
                self._status.write(lower, None, "")
            yield

    def _remove_victims(
        self,
        framework: Framework,
        preemptor: _Preemptor,
        victims: Sequence[PodInfo],
        still_preempts: Callable[[], bool],
    ) -> Steps[bool]:
        _, units = disruptions(victims, self._cache.groups)
        if units:
            self._metrics.observe(PREEMPTION_DISRUPTIONS, units, preemptor.kind)
        holders = [plugin for plugin in framework.post_filter_plugins if isinstance(plugin, HoldsPreemptors)]
        by = getattr(holders[0], "name", DEFAULT_PREEMPTION) if holders else DEFAULT_PREEMPTION
        bound = [victim for victim in victims if not self._cancelled(victim, preemptor, by)]
        whole_groups, _ = disruptions(bound, self._cache.groups)
        for group in whole_groups:
            for named in self._cache.groups.named_by_pods(group):
                self._groups.disrupted(named, preempting(preemptor.subject))
        for group, lost in partial_losses(bound, self._cache.groups):
            left = f"{self._cache.groups.placed(group.key) - lost} of minCount ({group.min_count}) are left"
            message = f"{lost} of the pods of the pod group are preempted, {left}"
            self._groups.below_minimum(group, Verdict(PREEMPTED, message))
        remaining = [victim for victim in bound if victim.uid in self._evictions or not self._is_terminating(victim)]
        return not remaining or (yield from self._evict(holders, preemptor, remaining, still_preempts))

    def _cancelled(self, victim: PodInfo, preemptor: _Preemptor, by: str) -> bool:
        """True if the victim's binding cycle could be stopped, so that no pod has to be deleted."""
        if victim.uid in self._evictions or victim.terminating or not self._binding_cycles.preempt(victim.uid, by):
            return False
        note = f"{preempted_by(preemptor.subject, preemptor.node_name)} (in kube-scheduler memory)."
        self._recorder.record(
            victim, "Normal", "Preempted", "Preempting", note, reporter=preemptor.subject.scheduler_name
        )
        return True

    def _is_terminating(self, victim: PodInfo) -> bool:
        """True if the victim is terminating by now. It may have been chosen in an older version."""
        known = self._cache.placement(victim.uid)
        return victim.terminating if known is None else known.pods[victim.uid].terminating

    def _evict(
        self,
        holders: Sequence[Any],
        preemptor: _Preemptor,
        victims: list[PodInfo],
        still_preempts: Callable[[], bool],
    ) -> Steps[bool]:
        started = self._clock()
        for holder in holders:
            holder.started(preemptor.key)
        awaited = {victim.uid for victim in victims}
        failed: list[str] = []

        def eviction_done(victim: str, deleted: bool) -> None:
            awaited.discard(victim)
            if not deleted:
                failed.append(victim)
            if awaited:
                return
            for holder in holders:
                holder.finished(preemptor.key)
            result, seconds = "error" if failed else "success", self._clock() - started
            self._metrics.preemption_took(preemptor.kind, result, seconds)
            # Only those on its own nodes: the room of others may be held, so that their deletion retries nobody else.
            places = (self._cache.placement(victim.uid) for victim in victims)
            still_there = any(place is not None and place.name in preemptor.nodes for place in places)
            beside(self._release_all(preemptor, failed=bool(failed), still_there=still_there), self._clock)

        for uid in preemptor.uids:
            if (queued := self._queue.get(uid)) is not None and queued.place in (Place.ACTIVE, Place.BACKOFF):
                self._queue.recheck_gate(uid)  # an event has helped it meanwhile, but it may not be tried by itself
        for uid in preemptor.uids:
            yield
            self._queue.recheck_gate(uid)  # so that the events of deleted victims do not ask each member
        if not still_preempts():
            for holder in holders:
                holder.finished(preemptor.key)
            return False
        for victim in victims:
            self._start_eviction(victim, preemptor, partial(eviction_done, victim.uid))
            yield
        return True

    def _start_eviction(self, victim: PodInfo, preemptor: _Preemptor, done: Callable[[bool], None]) -> None:
        """Evicts the victim, or waits for the eviction that another preemptor has started. `done`: see `Evictor`."""
        uid = victim.uid
        if uid in self._evictions:
            self._evictions[uid].append(done)
            return
        self._evictions[uid] = [done]
        self._assigned.eviction_started(uid)
        ended = partial(self._eviction_ended, uid)
        self._evictor.evict(
            victim, preemptor.subject, preemptor.node_name, ended, within_budgets=preemptor.within_budgets
        )

    def _eviction_ended(self, victim: str, deleted: bool) -> None:
        self._assigned.eviction_ended(victim, deleted=deleted)
        for done in self._evictions.pop(victim):
            done(deleted)

    def _release_all(self, preemptor: _Preemptor, *, failed: bool, still_there: bool) -> Steps[None]:
        for uid in preemptor.uids:
            self._release(uid, failed=failed, still_there=still_there)
            yield
        self._release_new_members(preemptor)

    def _release(self, uid: str, *, failed: bool, still_there: bool) -> None:
        """Requeues the preemptor if no event will do so. Usually a victim is `still_there`, and the event of its
        deletion requeues the preemptor.

        No event follows a failure, or a deletion that finished while the preemptor was held. A failed eviction is
        likely to fail again, so it gets the backoff of an error.
        """
        queued = self._queue.get(uid)
        if failed:
            self._queue.fail_waiting(uid)
            self._wake()
        elif still_there:
            self._queue.recheck_gate(uid)
        elif queued is not None and queued.place is Place.GATED:
            self._queue.activate(uid)
            self._wake()

    def _release_new_members(self, preemptor: _Preemptor) -> None:
        """Activates the members that joined the group while it was held, because no event will do so."""
        held = set(preemptor.uids)
        for uid in list(self._cache.groups.members(preemptor.key).waiting):
            queued = self._queue.get(uid)
            if uid not in held and queued is not None and queued.place is Place.GATED:
                self._queue.activate(uid)
                self._wake()
