"""Replays a stream under one policy after the other. Start here.

    replay ─► for each policy: load the initial cluster ─► events by time: pods come, run and leave ─► Scheduling
        ─► Meter ─► Scorecard

Decisions are those of the scheduler: see `podwright.simulator.scheduling`. They take no time. A pod that is preempted
is recreated at once, and then runs for its whole time.
"""

from __future__ import annotations

import heapq
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from podwright.api.rebalance_policy import REBALANCE_KIND, parse_rebalance_policy
from podwright.api.scheduler_policy import KIND, identity_of
from podwright.api.scheduling_queue import QUEUE_KIND
from podwright.core.gangs.run_times import run_times_of
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.raw import Raw
from podwright.core.objects.readable import parse_known_node
from podwright.core.objects.resources import CPU
from podwright.core.queue import Waits
from podwright.core.rebalance.rules import Move, RebalanceRules
from podwright.engine.intake.object_changes import ASSIGNED_POD_DELETE, NODE_DELETE, node_event
from podwright.simulator.carrying import Committed
from podwright.simulator.hypotheses.queue_changes import drained_pods
from podwright.simulator.loaded import LoadedCluster, LoadOptions, load
from podwright.simulator.manifests import place_of
from podwright.simulator.replay.meter import Meter, Prices
from podwright.simulator.replay.parked import Parked
from podwright.simulator.replay.queue_meter import QueueMeter
from podwright.simulator.replay.rebalancing import ReplayedRebalancing
from podwright.simulator.replay.scorecard import Scorecard, mean_sample
from podwright.simulator.replay.stream import Arrival, Event, NodeUpdate, PodLeaves, ReplayStream
from podwright.simulator.replay.task_lists import GPU
from podwright.simulator.replay.waiting import waiting_times
from podwright.simulator.scheduling import Landed, Preempted, Scheduling
from podwright.simulator.snapshot import Snapshot
from podwright.simulator.trial import created_anew
from podwright.simulator.tried_policies import enforced

SAMPLES: Final = 240
"""How many samples a replay takes by default."""
BUILT_IN: Final = "built-in"
"""The name of the candidate without SchedulerPolicies."""
_NO_FLUSH: Final = Waits(max_unschedulable=math.inf)
"""Only events retry pods: a stream may last for months."""
_PROGRESS_EVERY: Final = 32
_REBALANCES: Final = "rebalance/"
"""With the name of a RebalancePolicy: that it plans, among the times at which pods leave."""


class ReplayError(ValueError):
    """A replay cannot be run. The message names the policy and the field."""


@dataclass(frozen=True, slots=True)
class ReplayCandidate:
    """The rules to replay under: SchedulerPolicies, RebalancePolicies, and SchedulingQueues in place of those of the
    same name in the stream. Without a SchedulerPolicy: kube-scheduler's default profile.
    """

    name: str
    policies: Sequence[Raw] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """`resource`: whose fragmentation to measure, empty: GPUs if there are any, else CPU. `prices`: of an hour of a
    node.
    """

    load: LoadOptions = field(default_factory=LoadOptions)
    prices: Prices = field(default_factory=Prices)
    resource: str = ""
    samples: int = SAMPLES
    seed: int = 0


Progress = Callable[[str, int, int], object]
"""Called with the candidate's name, how many events are done, and how many there are."""


def replay(
    stream: ReplayStream,
    candidates: Iterable[ReplayCandidate],
    options: ReplayOptions | None = None,
    progress: Progress = lambda *_: None,
) -> list[Scorecard]:
    """Replays the stream. Returns the scorecards, in the order of the candidates. Raises ReplayError for a policy that
    is not accepted.
    """
    options = options or ReplayOptions()
    # All are checked before the first one runs for minutes.
    clusters = [(candidate, _cluster(stream, candidate, options)) for candidate in candidates]
    return [_Replay(stream, candidate, cluster, options).run(progress) for candidate, cluster in clusters]


def _cluster(stream: ReplayStream, candidate: ReplayCandidate, options: ReplayOptions) -> LoadedCluster:
    queues = {identity_of(raw)[0]: raw for raw in candidate.policies if raw.get("kind") == QUEUE_KIND}
    objects = [raw for raw in stream.initial if raw.get("kind") != KIND and not _replaced(raw, queues)]
    objects += queues.values()
    cluster = load(Snapshot(objects=objects, taken_at=stream.start), options.load)
    for raw in candidate.policies:
        if raw.get("kind") in (QUEUE_KIND, REBALANCE_KIND):
            continue
        result = cluster.policies.apply(enforced(raw))
        if not result.accepted:
            where = place_of(raw, candidate.name)
            raise ReplayError(f"{where}: policy {result.name}: {result.message}")
    cluster.policies_changed()
    for name, raw in queues.items():
        if problem := next((each for each in cluster.problems if each.startswith(f"{QUEUE_KIND} {name}:")), ""):
            raise ReplayError(f"{place_of(raw, candidate.name)}: {problem}")
    return cluster


def _rebalance_rules(candidate: ReplayCandidate) -> Sequence[RebalanceRules]:
    """Raises ReplayError."""
    try:
        return [parse_rebalance_policy(raw) for raw in candidate.policies if raw.get("kind") == REBALANCE_KIND]
    except InvalidObjectError as error:
        raise ReplayError(f"{candidate.name}: {error}") from error


def _replaced(raw: Raw, queues: Mapping[str, Raw]) -> bool:
    """True if the candidate has a queue of this name."""
    return raw.get("kind") == QUEUE_KIND and identity_of(raw)[0] in queues


@dataclass(slots=True)
class _Job:
    """A pod of the stream. `pod`: the pod without a node; `since`: when it began to wait, `waited`: the seconds until
    its first placement.
    """

    arrival: Arrival
    pod: PodInfo
    since: float
    waited: float | None = None


class _Replay:
    """One replay, of one candidate."""

    def __init__(
        self, stream: ReplayStream, candidate: ReplayCandidate, cluster: LoadedCluster, options: ReplayOptions
    ) -> None:
        self._stream = stream
        self._candidate = candidate
        self._cluster = cluster
        self._cache = cluster.cache
        self._committed = Committed(cluster)
        self._scheduling = Scheduling(cluster, self._committed, seed=options.seed, waits=_NO_FLUSH)
        self._scheduling.on_landed = self._landed
        self._scheduling.on_preempted = self._preempted
        self._scheduling.on_rejected = self._rejected
        self._parked = Parked(cluster, self._scheduling.add, self._scheduling.queue.delete)
        pods = [event.pod for event in stream.events if isinstance(event, Arrival)]
        offers_gpus = cluster.cache.table.offers(GPU)
        self._meter = Meter(
            cluster.cache,
            pods,
            options.prices,
            resource=options.resource or (GPU if offers_gpus else CPU),
            start=stream.start,
            every=(stream.end - stream.start) / max(options.samples, 1),
        )
        self._queue_meter = QueueMeter(cluster.queues, pods, self._meter.resource)
        self._meter.on_sample = self._queue_meter.sample
        self._jobs: dict[str, _Job] = {}
        self._waits: list[float] = []
        self._placed = 0
        self._departures: list[tuple[float, int, str, bool]] = []
        """(time, a number that keeps their order, the pod's uid, only if it waits then): pods that will leave. Without
        a uid: the shortest time for which a pod of a queue runs is over, so that others may take its place, or that of
        a reservation.
        """
        self._reasons: Counter[str] = Counter()
        """The reasons of pods that left without a node, with how many."""
        self._number = 0
        self._successors: dict[str, str] = {}
        """By the uid of a pod of the start that lost its node: the uid of the pod that replaced it."""
        self._again: list[_Job] = []
        """Victims that are recreated once the decision is carried out."""
        for reservation in cluster.cache.reservations.all():
            self._departs(reservation.until, "")
        self._moved: list[PodInfo] = []
        """Pods that have just been moved, as they were."""
        self._rebalanced: dict[str, ReplayedRebalancing] = {}
        for rules in _rebalance_rules(candidate):
            made = ReplayedRebalancing(
                cluster, rules, move=self._move, waiting=self._waiting_pods, settled=self._moved_away
            )
            self._rebalanced[f"{_REBALANCES}{rules.name}"] = made
            self._departs(stream.start + rules.interval, f"{_REBALANCES}{rules.name}")
        self._serves = cluster.policies.serves
        served = [str((raw.get("spec") or {}).get("schedulerName") or "") for raw in candidate.policies]
        self._scheduler_name = next(filter(None, served), options.load.settings.scheduler_name)

    def run(self, progress: Progress) -> Scorecard:
        began = time.process_time()
        name, total = self._candidate.name, len(self._stream.events)
        self._drain()
        for done, event in enumerate(self._stream.events):
            self._depart_until(event.time)
            self._advance(event.time)
            self._happens(event)
            self._schedule()
            if not done % _PROGRESS_EVERY:
                progress(name, done, total)
        self._depart_until(self._stream.end)
        self._advance(self._stream.end)
        progress(name, total, total)
        return self._scorecard(time.process_time() - began)

    # Events

    def _drain(self) -> None:
        """Pods leave queues in state Drain, and wait there. They are pods of the start, because such queues start no
        pods.
        """
        for pod, goes in drained_pods(self._cluster):
            if not goes:
                continue
            info = self._cache.nodes[pod.node_name]
            self._committed.evict((pod,))
            if info.node is not None:
                self._meter.left(pod, info.node)
            self._come_again(pod)
        self._bring_back()

    def _depart_until(self, until: float) -> None:
        """Lets pods leave whose time has come. Each departure may make room for others."""
        departures = self._departures
        while departures and departures[0][0] <= until:
            at = departures[0][0]
            self._advance(at)
            while departures and departures[0][0] == at:
                _, _, uid, if_pending = heapq.heappop(departures)
                if uid in self._rebalanced:
                    self._rebalance(uid)
                elif uid:
                    self._leave(uid, if_pending=if_pending)
                else:
                    self._retry_claims()
            self._schedule()

    def _advance(self, to: float) -> None:
        """Advances the time, and makes the attempts that become due."""
        clock = self._cluster.clock
        while self._scheduling.is_due_later and (wakeup := self._scheduling.queue.next_wakeup()) is not None:
            if wakeup >= to:
                break
            self._pass_time(max(clock.now + 0.001, wakeup))
            self._schedule()
        self._pass_time(max(clock.now, to))

    def _pass_time(self, to: float) -> None:
        """Nothing else happens until then. Large gangs get the room that the scheduler would have held for them
        meanwhile.
        """
        clock = self._cluster.clock
        self._meter.advance(to)
        before, clock.now = clock.now, to
        self._give_back(self._cache.reservations.expired(to))
        if before == to:
            return
        if before == self._stream.start:
            self._give_back(self._scheduling.gangs.take_over())
        for reservation in self._scheduling.gather():
            self._departs(reservation.until, "")

    def _happens(self, event: Event) -> None:
        if isinstance(event, Arrival):
            self._arrive(event)
        elif isinstance(event, PodLeaves):
            self._leave(self._successors.pop(event.uid, event.uid))
        else:
            self._change_node(event)

    def _arrive(self, arrival: Arrival) -> None:
        pod = arrival.pod
        if not self._serves(pod.scheduler_name):
            pod = replace(pod, scheduler_name=self._scheduler_name)
        self._wait_for_node(_Job(arrival, pod, arrival.time))
        if arrival.gives_up_at is not None:
            self._departs(arrival.gives_up_at, pod.uid, if_pending=True)
        if arrival.leaves_at is not None:
            self._departs(arrival.leaves_at, pod.uid)

    def _wait_for_node(self, job: _Job) -> None:
        self._meter.waiting += 1
        self._jobs[job.pod.uid] = job
        job.pod = self._committed.add_pending(job.pod)
        if not self._parked.joins(job.pod):
            self._scheduling.add(job.pod)

    def _departs(self, at: float, uid: str, *, if_pending: bool = False) -> None:
        self._number += 1
        heapq.heappush(self._departures, (at, self._number, uid, if_pending))

    def _leave(self, uid: str, *, if_pending: bool = False) -> None:
        info = self._cache.placement(uid)
        if info is None:
            self._give_up(uid)
        elif not if_pending:
            pod = info.pods[uid]
            if pod.start_time is not None:
                run_times_of(self._cache).ended(pod, self._cluster.clock.now - pod.start_time)
            freed = self._committed.evict((pod,))
            if info.node is not None:
                self._meter.left(pod, info.node)
            self._jobs.pop(uid, None)
            self._scheduling.happened(ASSIGNED_POD_DELETE, pod.on(info.name), None)
            self._scheduling.claims_changed(freed)
            self._parked.node_changed(info.name)

    def _give_back(self, names: Iterable[str]) -> None:
        """Gives back the room of these reservations."""
        for name in names:
            for slot in self._cache.reservations.remove(name):
                self._scheduling.happened(ASSIGNED_POD_DELETE, slot.on(slot.nominated_node_name), None)
                self._parked.node_changed(slot.nominated_node_name)

    def _retry_claims(self) -> None:
        """Tries pods again that may take room back now, which no event tells."""
        for uid in self._cluster.queues.turns.due_claims():
            self._scheduling.queue.activate(uid)

    def _protections_of(self, pod: PodInfo) -> Iterable[float]:
        """For how long the pod runs before its own queue, another one, or any pod may take its place."""
        queues = self._cluster.queues
        path = queues.path(queues.queue_of(pod))
        above = [rules for name in path if (rules := queues.get(name)) is not None]
        times = {
            max(found) for found in zip(*((r.preempt_min_runtime, r.reclaim_min_runtime) for r in above), strict=True)
        }
        longest = queues.max_runtime(path[0]) + 0.001 if path else math.inf  # it must have run for longer than that
        return (times | {longest}) - {0.0, math.inf}

    def _give_up(self, uid: str) -> None:
        """The pod leaves without a node."""
        job = self._jobs.pop(uid, None)
        if job is None:
            return
        self._meter.waiting -= 1
        message = self._why_waits(uid)
        self._scheduling.outcome.pending.pop(uid, None)
        self._parked.gone(uid)
        if job.waited is None:
            self._waits.append(self._cluster.clock.now - job.since)
            self._queue_meter.waited(job.pod, self._waits[-1], placed=False)
            self._reasons[message or ""] += 1
        self._scheduling.queue.delete(uid)
        self._scheduling.claims_changed(self._committed.drop_pending(job.pod))

    def _why_waits(self, uid: str) -> str | None:
        pending = self._scheduling.why_waits(uid)
        return self._parked.why_waits(uid) or (None if pending is None else pending.message)

    def _change_node(self, event: NodeUpdate) -> None:
        info = self._cache.present(event.name)
        before = None if info is None else info.node
        if event.raw is None:
            if info is None or before is None:
                return
            pods = [*info.pods.values()]
            freed = self._committed.evict(pods)
            for pod in pods:
                self._meter.left(pod, before)
                self._come_again(pod)
            self._cache.remove_node(event.name)
            self._meter.node_removed(before)
            self._scheduling.happened(NODE_DELETE, before, None)
            self._scheduling.claims_changed(freed)
            self._bring_back()
            return
        node, _ = parse_known_node(event.raw)
        self._cache.set_node(node)
        if info is not None and before is not None:
            for pod in info.pods.values():
                self._meter.left(pod, before)
            self._meter.node_removed(before)
        self._meter.node_added(node)
        for pod in self._cache.nodes[node.name].pods.values():
            self._meter.landed(pod, node)
        change = node_event(before, node)
        if change is not None:
            self._scheduling.happened(change, before, node)
            self._parked.node_changed(node.name)

    # Decisions

    def _schedule(self) -> None:
        self._cluster.cache.signals.tick()
        self._scheduling.run()
        while self._again:
            self._bring_back()
            self._scheduling.run()
        if released := [*filter(None, self._scheduling.gangs.release(self._cluster.clock.now))]:
            self._give_back(released)
            self._schedule()

    def _landed(self, landed: Landed) -> None:
        info = self._cache.nodes[landed.node_name]
        if info.node is not None:
            self._meter.landed(landed.pod, info.node)
        self._meter.waiting -= 1
        job, now = self._jobs[landed.pod.uid], self._cluster.clock.now
        if job.waited is None:
            job.waited = now - job.since
            self._waits.append(job.waited)
            self._queue_meter.waited(landed.pod, job.waited, placed=True)
            self._placed += 1
        if job.arrival.runs_for is not None:
            self._departs(now + job.arrival.runs_for, landed.pod.uid)
        for seconds in self._protections_of(landed.pod) if self._cluster.queues.active else ():
            self._departs(now + seconds, "")
        self._parked.gone(landed.pod.uid, landed.node_name)
        # Decisions that are kept would grow with the stream.
        self._scheduling.outcome.landed.pop(landed.pod.uid, None)

    def _rejected(self, pod: PodInfo, plugins: frozenset[str]) -> None:
        if self._parked.park(pod, plugins, self._scheduling.outcome.pending[pod.uid].message):
            self._scheduling.queue.delete(pod.uid)

    def _preempted(self, preempted: Preempted) -> None:
        info = self._cache.nodes.get(preempted.node_name)
        if info is not None and info.node is not None:
            self._meter.left(preempted.pod, info.node)
        self._parked.node_changed(preempted.node_name)
        self._queue_meter.preempted(preempted.pod)
        self._come_again(preempted.pod)

    def _come_again(self, pod: PodInfo) -> None:
        """Lets a pod that lost its node wait for another one, under a new uid."""
        job = self._jobs.pop(pod.uid, None)
        now = self._cluster.clock.now
        if job is None:  # it is a pod of the start
            job = _Job(Arrival(now, pod), pod, now, waited=0.0)
        self._number += 1
        made = created_anew(self._cluster, pod, pod.name, f"{job.arrival.pod.uid}/{self._number}")
        if job.arrival.leaves_at is not None:
            self._departs(job.arrival.leaves_at, made.uid)
        elif job.arrival.runs_for is None:
            self._successors[job.arrival.pod.uid] = made.uid
        self._again.append(_Job(job.arrival, made, now, waited=job.waited))

    # Rebalancing

    def _rebalance(self, uid: str) -> None:
        """A RebalancePolicy plans, as again after its interval."""
        self._schedule()
        rebalanced = self._rebalanced[uid]
        rebalanced.plan()
        if (after := self._cluster.clock.now + rebalanced.rules.interval) <= self._stream.end:
            self._departs(after, uid)

    def _move(self, move: Move) -> bool:
        """The pod leaves its node, and comes again with a place on the other one. Returns whether it is there."""
        info = self._cache.nodes[move.source]
        pod = info.pods[move.uid]
        self._committed.evict((pod,))
        if info.node is not None:
            self._meter.left(pod, info.node)
        self._come_again(pod)
        self._moved.append(pod)
        (job,), self._again = self._again, []
        job.pod = replace(job.pod, creation=self._cluster.clock.now, nominated_node_name=move.target)
        self._wait_for_node(job)
        self._committed.nominate(job.pod, move.target)
        self._scheduling.queue.activate(job.pod.uid)
        self._scheduling.run()
        where = self._cache.placement(job.pod.uid)
        return where is not None and where.name == move.target

    def _moved_away(self) -> None:
        """Others may use the room that pods have left."""
        moved, self._moved = self._moved, []
        for pod in moved:
            self._scheduling.happened(ASSIGNED_POD_DELETE, pod, None)
            self._parked.node_changed(pod.node_name)
        self._schedule()

    def _waiting_pods(self) -> Sequence[PodInfo]:
        return [job.pod for uid, job in self._jobs.items() if self._cache.placement(uid) is None]

    def _bring_back(self) -> None:
        again, self._again = self._again, []
        for job in again:
            self._wait_for_node(job)

    # Results

    def _scorecard(self, cpu_seconds: float) -> Scorecard:
        meter, outcome = self._meter, self._scheduling.outcome
        left = [job for job in self._jobs.values() if job.waited is None]
        why = (self._why_waits(job.pod.uid) for job in left)
        waits = self._waits + [self._stream.end - job.since for job in left]
        for job in left:
            self._queue_meter.waited(job.pod, self._stream.end - job.since, placed=False)
        hours = meter.seconds or 1.0
        reasons = self._reasons + Counter(message for message in why if message is not None)
        return Scorecard(
            policy=self._candidate.name,
            notes=self._cluster.params_notes,
            resource=meter.resource,
            arrived=self._stream.arrivals,
            placed=self._placed,
            never_placed=self._stream.arrivals - self._placed,
            preemptions=len(outcome.preempted),
            waiting=waiting_times(waits),
            allocation=_shares(meter.allocated, meter.offered),
            peak_allocation=dict(meter.peak_allocation),
            utilisation=_shares(meter.allocated, meter.offered_in_use),
            fragmentation=mean_sample(meter, "fragmentation"),
            spread=mean_sample(meter, "spread"),
            nodes=meter.node_seconds / hours,
            nodes_in_use=meter.node_seconds_in_use / hours,
            most_nodes_in_use=meter.most_nodes_in_use,
            nodes_off=(meter.node_seconds - meter.node_seconds_in_use) / hours,
            cost=meter.cost,
            cost_of_all=meter.cost_of_all,
            attempts=outcome.attempts,
            cpu_seconds=cpu_seconds,
            samples=meter.samples,
            unplaced=dict(reasons.most_common(10)),
            queues=self._queue_meter.figures(),
            queue_samples=self._queue_meter.samples,
            rebalancing=[each.figures for each in self._rebalanced.values()],
            gangs=self._cache.groups.waiting(),
        )


def _shares(parts: Mapping[str, float], wholes: Mapping[str, float]) -> dict[str, float]:
    return {resource: part / wholes[resource] if wholes[resource] else 0.0 for resource, part in parts.items()}
