"""40 queues of teams whose demand changes, with real ReplicaSets and budgets, and a ledger of what their pods hold.

Each pod takes one GPU, of which shares are whole numbers, so at rest queues have their shares. The ledger follows the
API server's pods, and checks each of their states as it comes. It uses nothing of Podwright's cache or queues.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from random import Random
from typing import Any

from podwright.core.objects.pod import parse_time
from podwright.core.queues.shares import UNBOUNDED, Claim
from podwright.testing import node, wait_until
from support.control_plane import operator_process as kit
from support.faults.arena import Arena
from support.queues.reference import shares_of_tree

QUEUES = "/apis/podwright.dev/v1alpha1/schedulingqueues"
LABEL = "podwright.dev/queue"
DEPARTMENTS, LEAVES = 4, 9
NODES, GPUS = 12, 8
GPU = "nvidia.com/gpu"
ROOM = {"requests": {GPU: "1"}, "limits": {GPU: "1"}}
LONERS = 4
"""Pods without a queue. Queues share what they leave."""
MOST = 8
"""The most pods that a team wants."""
_CONTROLLERS = ("replicaset-controller", "disruption-controller")
_BOUND = re.compile(r"(\S+) holds \d+ of (\d+) nvidia\.com/gpu")


@dataclass(frozen=True)
class Team:
    """A queue. `kept`: how many of its pods a PodDisruptionBudget keeps from evictions. `runtime`: for how many seconds
    they run before others take their room back.
    """

    name: str
    parent: str
    guarantee: int
    limit: int
    weight: int
    priority: int
    kept: int = 0
    runtime: int = 0

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
        for t in range(LEAVES):
            guarantee = random.randint(0, 2)
            kept = random.randint(0, guarantee) if t % 2 else 0
            limit = random.choice([UNBOUNDED, 4, 6])
            weight, priority = random.randint(0, 3), random.choice([100, 100, 200])
            yield Team(f"d{d}-t{t}", f"d{d}", guarantee, limit, weight, priority, kept, 5 * (t % 3 == 1))


def _queue(raw: Mapping[str, Any]) -> str:
    return str(raw["metadata"].get("labels", {}).get(LABEL, ""))


class QueueLedger:
    """The amounts that pods hold, after each change of a pod. `violations`: broken rules. `evicted`: uids of evicted
    pods.

    `changed`: when a pod was last bound, evicted, created or deleted, in `time.monotonic()`.
    """

    def __init__(self, teams: Sequence[Team], wanted: Mapping[str, int]) -> None:
        """`wanted`: how many pods each team wants now."""
        self._teams = {team.name: team for team in teams}
        self._wanted = wanted
        self._pods: dict[str, Mapping[str, Any]] = {}
        self.violations: list[str] = []
        self.evicted: set[str] = set()
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
        if before is None or raw["spec"].get("nodeName") != before["spec"].get("nodeName"):
            self.changed = time.monotonic()
            if raw["spec"].get("nodeName"):
                self._check_limits(raw)
        # The disruption controller sets a condition to False of which nothing has come.
        disrupted = kit.condition(raw, "DisruptionTarget").get("status") == "True"
        evicted = raw["metadata"].get("deletionTimestamp") and disrupted
        if evicted and uid not in self.evicted:
            self.evicted.add(uid)
            self.changed = time.monotonic()
            self._check_eviction(raw)

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
        if (left := self.held(staying=True)[team.name]) < min(team.guarantee, self._wanted[team.name]):
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
        path, name = [], _queue(raw)
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
        self.leaves = [team for team in self.teams if team.parent]
        self.wanted = {team.name: self.random.randint(team.kept, MOST) for team in self.leaves}
        self.ledger = QueueLedger(self.teams, self.wanted)
        self.outdated = 0
        """How many pods named a bound that no longer held when the world rested."""

    @contextmanager
    def living(self) -> Iterator[None]:
        """Queues, nodes with kubelets, ReplicaSets with a controller, and budgets exist during the block."""
        cluster = self.arena.cluster
        self.arena.ledger.listeners.append(self.ledger.record)
        kit.wait_listed(cluster, "schedulingqueues")
        cluster.bulk.create(team.manifest() for team in self.teams)
        cluster.bulk.create(map(self._node, range(NODES)))
        cluster.bulk.create(self._pod(f"loner{i}", nodeName="n0") for i in range(LONERS))
        cluster.bulk.create(self._budget(team) for team in self.leaves if team.kept)
        processes = [cluster.start_kwok(), cluster.start_controller_manager(_CONTROLLERS)]
        try:
            cluster.bulk.create(self._replica_set(team) for team in self.leaves)
            yield
        finally:
            processes[1].stop()
            cluster.client.request("DELETE", self._path("apps/v1", "replicasets"))
            cluster.client.request("DELETE", self._path("policy/v1", "poddisruptionbudgets"))
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
        """They want all the pods that a team may want, and take their room back."""
        self._scale(teams, MOST)

    def _scale(self, teams: Sequence[Team], count: int) -> None:
        for team in teams:
            self.wanted[team.name] = count
            self.arena.cluster.client.patch(self._replica_set(team), {"spec": {"replicas": count}})

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
        assert not (lacking := self.lacking()), f"held, guarantee and share of queues that lack something: {lacking}"
        self._wait_statuses(self.shares())
        self._check_messages()

    def lacking(self) -> dict[str, tuple[int, int, int]]:
        """Returns what queues hold, their guarantees within their demand, and their shares: of queues that lack a part
        of the guarantee, or more than a unit of the share, which rounding may move.
        """
        held, shares = self.ledger.held(staying=True), self.shares()
        found = {
            team.name: (held[team.name], min(team.guarantee, self.wanted[team.name]), shares[team.name])
            for team in self.leaves
        }
        return {name: (has, kept, share) for name, (has, kept, share) in found.items() if has < max(kept, share - 1)}

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
            assert bound or "Insufficient nvidia.com/gpu" in message, message
            path = self.ledger.path(raw)
            at_limit = [name for name in path if teams[name].limit == held[name]]
            assert at_limit or sum(held[name] for name in tops) == NODES * GPUS - LONERS, (
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

    def _replica_set(self, team: Team) -> dict[str, Any]:
        labels = {"app": team.name, LABEL: team.name}
        pod = self._pod("any")
        return {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": team.name, "namespace": self.arena.namespace},
            "spec": {
                "replicas": self.wanted[team.name],
                "selector": {"matchLabels": {"app": team.name}},
                "template": {"metadata": {"labels": labels}, "spec": pod["spec"]},
            },
        }

    def _budget(self, team: Team) -> dict[str, Any]:
        return {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": team.name, "namespace": self.arena.namespace},
            "spec": {"minAvailable": team.kept, "selector": {"matchLabels": {"app": team.name}}},
        }

    def _path(self, api: str, plural: str) -> str:
        return f"/apis/{api}/namespaces/{self.arena.namespace}/{plural}"
