"""40 queues of teams whose demand changes, with real ReplicaSets and budgets, and a ledger of what their pods hold.

Each pod takes one GPU, of which shares are whole numbers, so at rest queues have their shares. The pods of some teams
are gangs. Shares of these are whole gangs: those of departments may not borrow, those at the top do. The ledger follows
the API server's pods, and checks each of their states as it comes. It uses nothing of Podwright's cache or queues.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from math import inf
from pathlib import Path
from random import Random
from typing import Any

from podwright.core.objects.pod import parse_time
from podwright.core.objects.pod_group import GROUP_LABEL
from podwright.core.queues.shares import UNBOUNDED, Claim
from podwright.testing import node, wait_until
from support.control_plane import operator_process as kit
from support.faults.arena import Arena
from support.queues.reference import shares_of_tree

QUEUES = "/apis/podwright.dev/v1alpha1/schedulingqueues"
LABEL = "podwright.dev/queue"
CRD = Path(__file__).parents[3] / "crds" / "gangs" / "scheduling.x-k8s.io_podgroups.yaml"
GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"
DEPARTMENTS, LEAVES, GANG_TEAMS = 4, 8, 4
NODES, GPUS = 12, 8
GPU = "nvidia.com/gpu"
ROOM = {"requests": {GPU: "1"}, "limits": {GPU: "1"}}
LONERS = 4
"""Pods without a queue. Queues share what they leave."""
MOST = 8
"""The most pods that a team wants."""
_CONTROLLERS = ("replicaset-controller", "disruption-controller")
_EVENTS_LATE = 30
"""After so many seconds, an eviction without an event is no longer expected to get a pod a place."""
_BOUND = re.compile(r"(\S+) holds \d+ of (\d+) nvidia\.com/gpu")


@dataclass(frozen=True)
class Team:
    """A queue. `kept`: how many of its pods a PodDisruptionBudget keeps from evictions. `runtime`: for how many seconds
    they run before others take their room back. `gang`: how many pods start together.
    """

    name: str
    parent: str
    guarantee: int
    limit: int
    weight: int
    priority: int
    kept: int = 0
    runtime: int = 0
    gang: int = 1

    def manifest(self) -> dict[str, Any]:
        quota = {"guarantee": self.guarantee, "weight": self.weight}
        if self.limit != UNBOUNDED:
            quota["limit"] = self.limit
        spec = {
            "priority": self.priority,
            "resources": {GPU: quota},
            "reclaimMinRuntime": f"{self.runtime}s",
            **({"parent": self.parent} if self.parent else {}),
        }
        return {
            "apiVersion": "podwright.dev/v1alpha1",
            "kind": "SchedulingQueue",
            "metadata": {"name": self.name},
            "spec": spec,
        }


def _teams(random: Random) -> Iterator[Team]:
    for d in range(DEPARTMENTS):
        yield Team(
            f"d{d}", "", 18, random.choice([UNBOUNDED, 32]), random.randint(1, 3), random.choice([100, 100, 200])
        )
        yield Team(f"d{d}-t0", f"d{d}", 4, 4, 1, 100, gang=2)
        for t in range(1, LEAVES):
            guarantee = random.randint(0, 2)
            kept = random.randint(0, guarantee) if t % 2 else 0
            limit = random.choice([UNBOUNDED, 4, 6])
            weight, priority = random.randint(0, 3), random.choice([100, 100, 200])
            yield Team(f"d{d}-t{t}", f"d{d}", guarantee, limit, weight, priority, kept, 5 * (t % 3 == 1))
    for g in range(GANG_TEAMS):
        yield Team(f"g{g}", "", 4, UNBOUNDED, 0, 100, runtime=5 * (g % 2), gang=4)


def _queue(raw: Mapping[str, Any]) -> str:
    return str(raw["metadata"].get("labels", {}).get(LABEL, ""))


def _unit(raw: Mapping[str, Any]) -> str:
    """The pod's group, or its uid."""
    return str(raw["metadata"].get("labels", {}).get(GROUP_LABEL, raw["metadata"]["uid"]))


@dataclass(frozen=True)
class Eviction:
    """`path`: the victim's queue and those above; `at`: when it was seen, in `time.monotonic()`; `left`: what queues
    had then that stays; `guaranteed`: see `QueueLedger.guaranteed`.
    """

    name: str
    path: Sequence[str]
    at: float
    left: Mapping[str, int]
    guaranteed: Mapping[str, int]


class QueueLedger:
    """The amounts that pods hold, after each change of a pod. `violations`: broken rules. `evicted`: evictions by the
    pod's uid. `placed`: when a pod, by its uid, or a whole gang, by its name, got its nodes.

    `changed`: when a pod was last bound, evicted, created or deleted, in `time.monotonic()`.
    """

    def __init__(self, teams: Sequence[Team], wanted: Mapping[str, int]) -> None:
        """`wanted`: how many pods each team wants now."""
        self._teams = {team.name: team for team in teams}
        self._wanted = wanted
        self._pods: dict[str, Mapping[str, Any]] = {}
        self.violations: list[str] = []
        self.evicted: dict[str, Eviction] = {}
        self.placed: dict[str, list[float]] = {}
        self._queues: dict[str, str] = {}
        """The queue of each unit that there was."""
        self._seen: dict[str, float] = {}
        """When each pod, by its uid, was seen first."""
        self.scaled_down: dict[str, Sequence[str]] = {}
        """The paths of pods, by uid, that left nodes without an eviction. Evictions that were decided before may come
        after that, so until whoever scales down has seen these end and clears it, `Eviction.left` has them.
        """
        self.changed = time.monotonic()

    def record(self, kind: str, raw: Mapping[str, Any]) -> None:
        """An event of the API server's pods, which come in order."""
        uid = raw["metadata"]["uid"]
        before = self._pods.get(uid)
        if kind == "DELETED":
            self._pods.pop(uid, None)
            self.changed = time.monotonic()
            return
        self._pods[uid] = raw
        self._queues[_unit(raw)] = _queue(raw)
        self._seen.setdefault(uid, time.monotonic())
        if before is None or raw["spec"].get("nodeName") != before["spec"].get("nodeName"):
            self.changed = time.monotonic()
            if raw["spec"].get("nodeName"):
                self._check_limits(raw)
                self._note_placed(raw)
        # The disruption controller sets a condition to False of which nothing has come.
        disrupted = kit.condition(raw, "DisruptionTarget").get("status") == "True"
        if uid in self.evicted or not (raw["metadata"].get("deletionTimestamp") and raw["spec"].get("nodeName")):
            return
        if not disrupted or self._wanted.get(_queue(raw)) == 0:  # an interrupted eviction may have marked it before
            self.scaled_down[uid] = self.path(raw)
        else:
            self.changed = time.monotonic()
            left = self.held(staying=True) + Counter(chain.from_iterable([*self.scaled_down.values()]))
            name = raw["metadata"]["name"]
            self.evicted[uid] = Eviction(name, self.path(raw), self.changed, left, self.guaranteed())
            self._check_eviction(raw)

    def _note_placed(self, bound: Mapping[str, Any]) -> None:
        """The pod, or with it the minimum of its gang, has got a node."""
        unit, team = _unit(bound), self._teams.get(_queue(bound))
        if team is not None and self.on_nodes()[unit] == team.gang:
            self.placed.setdefault(unit, []).append(self.changed)

    def on_nodes(self) -> Counter[str]:
        """How many pods of each unit are on nodes and stay."""
        pods = [*self._pods.values()]
        return Counter(
            _unit(raw) for raw in pods if raw["spec"].get("nodeName") and "deletionTimestamp" not in raw["metadata"]
        )

    def guaranteed(self) -> Mapping[str, int]:
        """By queue: its guarantee, or what it requests if that is less."""
        asked = Counter(self._wanted)
        for team in reversed(self._teams.values()):  # those above come before
            asked[team.name] = asked[team.name] if team.limit == UNBOUNDED else min(asked[team.name], team.limit)
            asked[team.parent] += asked[team.name]
        return {team.name: min(team.guarantee, asked[team.name]) for team in self._teams.values()}

    def wrong(self, claims: Mapping[str, str], since: float) -> Iterator[str]:
        """Evictions that took from the guarantee of a queue above the victim's, or for which, without a fault `since`,
        their claimant got no place. `claims`: by uid of the victim, the unit that it was evicted for, if that is known.
        """
        waiting: dict[str, float] = {}
        for uid, raw in [*self._pods.items()]:  # a gang that was scaled down meanwhile may have claimed in vain
            if not raw["spec"].get("nodeName"):
                waiting[_unit(raw)] = min(self._seen[uid], waiting.get(_unit(raw), inf))
        evicted = dict(self.evicted)
        for uid, each in evicted.items():
            if (unit := claims.get(uid)) is None:
                continue
            for name in set(each.path[1:]) - set(self._path(self._queues[unit])):
                left = each.left[name] + sum(
                    self._promised(other, claims.get(victim), name, each.at) for victim, other in evicted.items()
                )
                if left < each.guaranteed[name]:
                    yield f"the eviction of {each.name} for {unit} left {left} of {each.guaranteed[name]} of {name}"
            if each.at > since and waiting.get(unit, inf) < each.at and max(self.placed.get(unit, [0])) < each.at:
                yield f"{each.name} was evicted for {unit} of {self._queues[unit]}, which has no place"

    def _promised(self, eviction: Eviction, unit: str | None, name: str, at: float) -> bool:
        """True if the eviction was to get a pod of this queue a place, and had not by then. Also if nobody knows."""
        if not (name in eviction.path and eviction.at <= at):
            return False
        if unit is None:
            return at - eviction.at < _EVENTS_LATE
        placed = any(eviction.at <= when <= at for when in self.placed.get(unit, ()))
        return not placed and name in self._path(self._queues[unit])

    def _check_limits(self, bound: Mapping[str, Any]) -> None:
        held = self.held()
        for name in self.path(bound):
            limit = self._teams[name].limit
            if limit != UNBOUNDED and held[name] > limit:
                self.violations.append(
                    f"{bound['metadata']['name']} was bound, so {name} holds {held[name]} of {limit}"
                )
        where = bound["spec"]["nodeName"]
        count = sum(raw["spec"].get("nodeName") == where for raw in [*self._pods.values()])
        if count > GPUS:
            self.violations.append(f"{bound['metadata']['name']} was bound to {where}, which has {count} pods")

    def _check_eviction(self, victim: Mapping[str, Any]) -> None:
        team, name = self._teams.get(_queue(victim)), victim["metadata"]["name"]
        if team is None:
            self.violations.append(f"{name} was evicted, and has no queue")
            return
        if (left := self.held(staying=True, ready=True)[team.name]) < team.kept:
            self.violations.append(f"an eviction left {left} pods of {team.name}, and its budget keeps {team.kept}")
        made = self.evicted[victim["metadata"]["uid"]]
        if (left := made.left[team.name]) < made.guaranteed[team.name]:
            self.violations.append(f"an eviction left {left} of {team.guarantee} guaranteed pods of {team.name}")
        started = parse_time(victim.get("status", {}).get("startTime"), "status.startTime")
        if started is not None and time.time() - started < team.runtime:
            self.violations.append(f"{name} of {team.name} was evicted before it had run for {team.runtime} s")

    def held(self, *, staying: bool = False, ready: bool = False) -> Counter[str]:
        """How many pods on nodes each queue has. `staying`: without those that are deleted."""
        held: Counter[str] = Counter()
        for raw in [*self._pods.values()]:
            if (
                raw["spec"].get("nodeName")
                and not (staying and raw["metadata"].get("deletionTimestamp"))
                and not (ready and kit.condition(raw, "Ready").get("status") != "True")
            ):
                held.update(self.path(raw))
        return held

    def path(self, raw: Mapping[str, Any]) -> list[str]:
        return self._path(_queue(raw))

    def _path(self, name: str) -> list[str]:
        path = []
        while name:
            path.append(name)
            name = self._teams[name].parent
        return path


class QueuedTeams:
    """See the module."""

    def __init__(self, arena: Arena, seed: int) -> None:
        self.arena = arena
        self.random = Random(seed)
        self.teams = list(_teams(self.random))
        self.leaves = [team for team in self.teams if team.parent or team.gang > 1]
        self.wanted = {team.name: self.random.randint(team.kept, MOST // team.gang) * team.gang for team in self.leaves}
        self.ledger = QueueLedger(self.teams, self.wanted)
        self.calm_since = 0.0
        """No fault has come since then, in `time.monotonic()`."""
        self.outdated = 0
        """How many pods named a bound that no longer held when the world rested."""

    @contextmanager
    def living(self) -> Iterator[None]:
        """Queues, nodes with kubelets, ReplicaSets with a controller, and budgets exist during the block."""
        cluster = self.arena.cluster
        self.arena.ledger.listeners.append(self.ledger.record)
        cluster.apply(CRD)
        wait_until(lambda: cluster.client.raw("GET", GROUPS)[0] == 200, 30, "the API server serves pod groups")
        kit.wait_listed(cluster, "schedulingqueues")
        cluster.bulk.create(team.manifest() for team in self.teams)
        cluster.bulk.create(group for team in self.leaves for group in self._groups(team))
        cluster.bulk.create(map(self._node, range(NODES)))
        cluster.bulk.create(self._pod(f"loner{i}", nodeName="n0") for i in range(LONERS))
        cluster.bulk.create(self._budget(team) for team in self.leaves if team.kept)
        processes = [cluster.start_kwok(), cluster.start_controller_manager(_CONTROLLERS)]
        try:
            cluster.bulk.create(each for team in self.leaves for each in self._replica_sets(team))
            yield
        finally:
            processes[1].stop()
            cluster.client.request("DELETE", self._path("apps/v1", "replicasets"))
            cluster.client.request("DELETE", self._path("policy/v1", "poddisruptionbudgets"))
            cluster.client.request("DELETE", self._path("scheduling.x-k8s.io/v1alpha1", "podgroups"))
            self.arena.delete_pods()
            processes[0].stop()
            cluster.client.request("DELETE", QUEUES)

    def pause(self) -> Sequence[Team]:
        """A third of the teams want no pods, so others get their room. Those with a budget never scale down, which
        would not ask the budget.
        """
        paused = self.random.sample([team for team in self.leaves if not team.kept], len(self.leaves) // 3)
        self._scale(paused, 0)
        return paused

    def resume(self, teams: Sequence[Team]) -> None:
        """They want all the pods that a team may want, and take their room back. Nothing is under way by now."""
        self.ledger.scaled_down.clear()
        self._scale(teams, MOST)

    def _scale(self, teams: Sequence[Team], count: int) -> None:
        for team in teams:
            self.wanted[team.name] = count
            for each in self._replica_sets(team):
                self.arena.cluster.client.patch(each, {"spec": {"replicas": each["spec"]["replicas"]}})

    def wait_at_rest(self, seconds: float) -> None:
        """Wait until all pods exist, and nothing has happened to them for so long."""

        def at_rest() -> bool:
            return time.monotonic() - self.ledger.changed > seconds and self._wanted() == self.wanted

        wait_until(at_rest, 120, "evictions and bindings end")

    def budgets_of_interrupted_evictions(self) -> int:
        """How many budgets hold an eviction of a pod that is still there, as they do for two minutes: the disruption
        controller's `DeletionTimeout`.
        """
        there = {raw["metadata"]["name"] for raw in kit.pods(self.arena.cluster, self.arena.namespace)}
        budgets = self.arena.cluster.client.items(self._path("policy/v1", "poddisruptionbudgets"))
        return sum(bool(there & (raw.get("status", {}).get("disruptedPods") or {}).keys()) for raw in budgets)

    def wait_shared(self) -> None:
        """Wait until all queues have their shares. A queue that may take more back by now is asked every 30 s, and a
        budget allows nothing for two minutes that an interrupted eviction has used up.
        """
        with suppress(TimeoutError):
            wait_until(lambda: self._wanted() == self.wanted and not self.lacking(), 60, "queues have their shares")
        assert not (lacking := self.lacking()), f"held, guarantee and share of queues that lack something: {lacking}"

    def verify(self) -> None:
        """Check what must hold when the world rests."""
        assert not self.ledger.violations, self.ledger.violations
        assert not (crowded := kit.over_committed(self.arena.cluster)), crowded
        assert not (parts := self._parts()), f"pods on nodes of gangs that are not whole: {parts}"
        self._check_claims()
        assert not (lacking := self.lacking()), f"held, guarantee and share of queues that lack something: {lacking}"
        self._wait_statuses(self.shares())
        self._check_messages()

    def lacking(self) -> dict[str, tuple[int, int, int]]:
        """Returns what queues hold, their guarantees within their demand, and their shares: of queues, at every level,
        that lack a part of the guarantee, or more than a unit of the share, which rounding may move.
        """
        held, shares, guaranteed = self.ledger.held(staying=True), self.shares(), self.ledger.guaranteed()
        found = {team.name: (held[team.name], guaranteed[team.name], shares[team.name]) for team in self.teams}
        return {name: (has, kept, share) for name, (has, kept, share) in found.items() if has < max(kept, share - 1)}

    def claims(self) -> Mapping[str, str]:
        """By uid of an evicted pod: the pod's uid or the gang that it was evicted for, as its event says."""
        cluster, namespace = self.arena.cluster, self.arena.namespace
        gangs = {raw["metadata"]["uid"]: raw["metadata"]["name"] for raw in cluster.client.items(GROUPS)}
        said = {event["regarding"]["uid"]: event["note"] for event in kit.events(cluster, namespace, "Preempted")}
        named = {uid: note.split(" on node ")[0].rpartition(" ")[2] for uid, note in said.items()}
        return {uid: gangs.get(unit, unit) for uid, unit in named.items()}

    def _check_claims(self) -> None:
        """Evictions since the last fault have events, which are posted some time later."""
        evicted = self.ledger.evicted
        recent = {uid for uid, eviction in evicted.items() if eviction.at > self.calm_since}
        wait_until(lambda: recent <= self.claims().keys(), 30, "each eviction has an event")
        wrong = [*self.ledger.wrong(self.claims(), self.calm_since)]
        assert not wrong, wrong

    def _parts(self) -> dict[str, int]:
        placed = self.ledger.on_nodes()
        sizes = {group["metadata"]["name"]: team.gang for team in self.leaves for group in self._groups(team)}
        return {name: placed[name] for name, size in sizes.items() if 0 < placed[name] < size}

    def shares(self) -> dict[str, int]:
        """By queue, as the reference has them."""
        claims = {
            team.name: Claim(team.name, team.priority, team.guarantee, team.weight, self.wanted.get(team.name, 0))
            for team in self.teams
        }
        limits = {team.name: team.limit for team in self.teams}
        return shares_of_tree(NODES * GPUS - LONERS, claims, limits, {team.name: team.parent for team in self.teams})

    def _wait_statuses(self, shares: Mapping[str, int]) -> None:
        """Statuses are written some time later."""

        def wrong() -> dict[str, tuple[str, int]]:
            said = {
                raw["metadata"]["name"]: raw.get("status", {}).get("share", {}).get(GPU, "0")
                for raw in self.arena.cluster.client.items(QUEUES)
            }
            return {name: (text, shares[name]) for name, text in said.items() if text != str(shares[name])}

        with suppress(TimeoutError):
            wait_until(lambda: not wrong(), 30, "statuses have the shares of the reference")
        assert not (found := wrong()), f"share of the status, and of the reference: {found}"

    def _check_messages(self) -> None:
        """Each pod that waits has a reason to, and says what it waits for."""
        teams, held = {team.name: team for team in self.teams}, self.ledger.held()
        tops = [team.name for team in self.teams if not team.parent]
        self.outdated = 0
        for raw in kit.pods(self.arena.cluster, self.arena.namespace):
            if raw["spec"].get("nodeName"):
                continue
            found = kit.condition(raw)
            assert found.get("reason") in ("Unschedulable", "WaitingForQuota"), (
                f"{raw['metadata']['name']} waits without a reason: {found}"
            )
            message = found.get("message", "")
            bound = _BOUND.search(message)
            path = self.ledger.path(raw)
            least = teams[path[0]].gang
            lacks = ["Insufficient nvidia.com/gpu"] + [f"minCount ({least}) cannot be satisfied"] * (least > 1)
            assert bound or any(text in message for text in lacks), message
            at_limit = [name for name in path if UNBOUNDED != teams[name].limit < held[name] + least]
            assert at_limit or sum(held[name] for name in tops) + least > NODES * GPUS - LONERS, (
                f"{raw['metadata']['name']} waits although nothing forbids it: {message}"
            )
            # A bound that no longer holds is named until the pod is tried again, which another bound may delay.
            assert not bound or teams[bound[1]].limit == int(bound[2]), message
            self.outdated += bool(bound) and bound[1] not in at_limit

    def _wanted(self) -> dict[str, int]:
        pods = kit.pods(self.arena.cluster, self.arena.namespace)
        found = Counter(_queue(raw) for raw in pods)
        return {name: found[name] for name in self.wanted}

    @staticmethod
    def _node(number: int) -> dict[str, Any]:
        body = node(f"n{number}")
        for amounts in (body["status"]["capacity"], body["status"]["allocatable"]):
            amounts[GPU] = str(GPUS)
        return body

    def _pod(self, name: str, **spec: Any) -> dict[str, Any]:
        body = self.arena.pod(name, **spec)
        body["spec"]["containers"][0]["resources"] = ROOM
        return body

    def _replica_sets(self, team: Team) -> Iterator[dict[str, Any]]:
        """One, or one for each gang."""
        for name, count in self._parts_of(team):
            labels = {"app": team.name, LABEL: team.name, "set": name}
            if team.gang > 1:
                labels[GROUP_LABEL] = name
            yield {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "metadata": {"name": name, "namespace": self.arena.namespace},
                "spec": {
                    "replicas": count,
                    "selector": {"matchLabels": {"set": name}},
                    "template": {"metadata": {"labels": labels}, "spec": self._pod("any")["spec"]},
                },
            }

    def _groups(self, team: Team) -> Iterator[dict[str, Any]]:
        for name, _ in self._parts_of(team) if team.gang > 1 else ():
            yield {
                "apiVersion": "scheduling.x-k8s.io/v1alpha1",
                "kind": "PodGroup",
                "metadata": {"name": name, "namespace": self.arena.namespace},
                "spec": {"minMember": team.gang},
            }

    def _parts_of(self, team: Team) -> Iterator[tuple[str, int]]:
        """The names of the team's ReplicaSets, and how many pods each wants."""
        wanted = self.wanted[team.name]
        if team.gang == 1:
            return iter([(team.name, wanted)])
        return ((f"{team.name}-{first}", team.gang * (first < wanted)) for first in range(0, MOST, team.gang))

    def _budget(self, team: Team) -> dict[str, Any]:
        return {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": team.name, "namespace": self.arena.namespace},
            "spec": {"minAvailable": team.kept, "selector": {"matchLabels": {"app": team.name}}},
        }

    def _path(self, api: str, plural: str) -> str:
        return f"/apis/{api}/namespaces/{self.arena.namespace}/{plural}"
