"""Preemption carried out: victims go, the preemptor waits for them, and nobody of less importance keeps a promise of its node.

    carry_out ─► lower nominations cleared ─► victims in flight cancelled, the others evicted ─► last answer ─► preemptor released

The preemptor is a pod, or the waiting members of a pod group. While evictions are under way the plugin that asked for them
holds it in PreEnqueue, so that it does not preempt again for the first victim that goes. Source of the rules:
kube-scheduler's asynchronous preemption.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import HoldsPreemptors, PostFilterResult
from podwright.core.gangs.decisions import GangPreemption
from podwright.core.objects.pod import PodInfo
from podwright.core.preemption.units import disruptions
from podwright.core.queue.queued_pod import Place
from podwright.engine.intake.assigned_pods import AssignedPods
from podwright.engine.metrics.preemption import PreemptionMetrics
from podwright.engine.ports import Ports, Regarding, kind_of, preempted_by, preempting
from podwright.engine.state import EngineState

PREEMPTING: Final = "DefaultPreemption"
WHOLE_CLUSTER: Final = "cluster"
"""Where kube-scheduler says that a pod group preempts."""


@dataclass(frozen=True, slots=True)
class _Preemptor:
    """`key`: the pod's uid, or the group's key; `uids`: the pods that are tried again in any case; `told`: what people are told
    that it is; `where`: on which node.
    """

    key: str
    uids: tuple[str, ...]
    told: PodInfo | Regarding
    where: str

    @property
    def kind(self) -> str:
        return kind_of(self.told)


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
        self._by_preemptor = PreemptionMetrics(ports.metrics.registry)
        self._assigned = assigned

    def carry_out(self, framework: Framework, pod: PodInfo, wanted: PostFilterResult) -> None:
        """The pod is nominated to a node; its victims are to make room."""
        preemptor = _Preemptor(pod.uid, (pod.uid,), pod, wanted.nominated_node)
        self._metrics.preemption_victims.observe(len(wanted.victims))
        self._by_preemptor.violated(preemptor.kind, wanted.violations)
        self._clear_lower((wanted.nominated_node,), pod.priority, {pod.uid})
        self._make_room(framework, preemptor, wanted.victims)

    def carry_out_gang(self, framework: Framework, members: Sequence[PodInfo], preemption: GangPreemption) -> None:
        """The group's waiting members are nominated; all of them wait for the victims together.

        Without victims the group waits for those of an earlier preemption.
        """
        group = self._cache.groups.of(members[0]) if members else None
        if group is None or not preemption.victims:
            return
        uids = tuple(member.uid for member in members)
        for member in members:
            if node_name := preemption.nominations.get(member.uid):
                self._cache.nominator.add(member, node_name)
                self._status.write(member, None, node_name)
        self._clear_lower(set(preemption.nominations.values()), members[0].priority, set(uids))
        preemptor = _Preemptor(group.key, uids, Regarding.group(group, members[0].scheduler_name), WHOLE_CLUSTER)
        self._by_preemptor.group_victims.observe(len(preemption.victims))
        self._by_preemptor.violated(preemptor.kind, preemption.violations)
        self._make_room(framework, preemptor, preemption.victims)

    def _clear_lower(self, nodes: Iterable[str], priority: int, spared: AbstractSet[str]) -> None:
        """Nobody of lower priority keeps a promise of these nodes."""
        nominator = self._cache.nominator
        for node_name in nodes:
            for lower in [p for p in nominator.on(node_name) if p.priority < priority and p.uid not in spared]:
                nominator.remove(lower.uid)
                self._status.write(lower, None, "")

    def _make_room(self, framework: Framework, preemptor: _Preemptor, victims: Sequence[PodInfo]) -> None:
        _, units = disruptions(victims, self._cache.groups)
        self._by_preemptor.disrupted(preemptor.kind, units)
        holders = [plugin for plugin in framework.post_filter_plugins if isinstance(plugin, HoldsPreemptors)]
        by = getattr(holders[0], "name", PREEMPTING) if holders else PREEMPTING
        going = [victim for victim in victims if not self._cancelled(victim, preemptor, by)]
        whole, _ = disruptions(going, self._cache.groups)
        for group in whole:
            self._groups.disrupted(group, preempting(preemptor.told))
        remaining = [victim for victim in going if not victim.terminating]
        if remaining:
            self._evict(holders, preemptor, remaining)

    def _cancelled(self, victim: PodInfo, preemptor: _Preemptor, by: str) -> bool:
        """Whether the victim was not bound yet and is not going to be, so that nothing has to be deleted."""
        if victim.terminating or not self._binding_cycles.preempt(victim.uid, by):
            return False
        note = f"{preempted_by(preemptor.told, preemptor.where)} (in kube-scheduler memory)."
        self._recorder.record(victim, "Normal", "Preempted", "Preempting", note, preemptor.told)
        return True

    def _evict(self, holders: Sequence[Any], preemptor: _Preemptor, victims: list[PodInfo]) -> None:
        started = self._clock()
        for holder in holders:
            holder.started(preemptor.key)
        awaited = {victim.uid for victim in victims}
        failed: list[str] = []

        def answered(victim: str, begun: bool) -> None:
            awaited.discard(victim)
            if begun:
                self._assigned.evicted(victim)
            else:
                failed.append(victim)
            if not awaited:
                for holder in holders:
                    holder.finished(preemptor.key)
                result, seconds = "error" if failed else "success", self._clock() - started
                self._metrics.preempted(result, seconds)
                self._by_preemptor.executed(preemptor.kind, result, seconds)
                there = any(self._cache.placement(one.uid) is not None for one in victims)
                for uid in preemptor.uids:
                    self._release(uid, failed=bool(failed), there=there)
                self._release_latecomers(preemptor)

        for victim in victims:
            self._evictor.evict(victim, preemptor.told, preemptor.where, partial(answered, victim.uid))

    def _release(self, uid: str, *, failed: bool, there: bool) -> None:
        """The preemptor need not be held any more. Mostly its last victim is still `there`, and its end will be an event;
        of a failure, and of an end that came while the preemptor was held, nobody will tell it.

        What refused one eviction may refuse the next, so a failure has the backoff of an error.
        """
        queued = self._queue.get(uid)
        if failed:
            self._queue.fail_waiting(uid)
            self._wake()
        elif queued is not None and queued.place is Place.GATED and not there:
            self._queue.activate(uid)
            self._wake()

    def _release_latecomers(self, preemptor: _Preemptor) -> None:
        """Members that came while their group was held: nothing else wakes them."""
        for uid in list(self._cache.groups.members(preemptor.key).waiting):
            queued = self._queue.get(uid)
            if uid not in preemptor.uids and queued is not None and queued.place is Place.GATED:
                self._queue.activate(uid)
                self._wake()
