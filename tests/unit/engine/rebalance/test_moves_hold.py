"""Promises of moves, over generated clusters and histories: while a plan is carried out, pods come and go, evictions
are refused, and controllers are slow or create something else. A budget allows one disruption less from each eviction
until the pod that comes in place is ready.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from podwright.core.objects.pod import belongs_to_node
from podwright.core.objects.pod_group import PLUGINS_API, PLUGINS_KIND
from podwright.core.objects.times import rfc3339
from podwright.core.preemption.budgets import Budgets, StoredBudgets
from podwright.engine.rebalance import moves
from podwright.engine.rebalance.recent import RecentMoves
from support.engine.kit import Rig, deciding, on_node, settle
from support.properties import case_count
from support.rebalance.fragmented import READY
from support.rebalance.kit import ZONE, budget, generated_objects, rules, shared

HISTORIES = max(1, case_count("PODWRIGHT_REBALANCES", 40) // 4)
START = 1_700_000_000.0


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(moves, "POLL_SECONDS", 0.0)


class Evictions:
    """Answers at once, and refuses some. `forbidden`: what was asked for though a budget forbids it."""

    def __init__(self, world):
        self.world = world
        self.evicted = Counter()
        self.forbidden = []

    def evict(self, victim, _by, _node, done, **_):
        world = self.world
        if not Budgets(StoredBudgets(world.cache.store).rules(), by_eviction=True).spend([victim]):
            self.forbidden.append(victim.key)  # an error here would only end the plan
        refused = world.random.random() < world.trouble
        self.evicted[victim.owner.uid] += not refused
        if not refused:
            world.ages.append(world.rig.now - victim.creation)
            world.leaving.append(victim)
            world.allow(victim.labels["app"], -1)
        done(not refused)


class World:
    """`trouble`: how often something comes between."""

    def __init__(self, seed, trouble, **spec):
        self.random, self.trouble = Random(seed), trouble
        evictions = Evictions(self)
        self.rig = Rig(evictor=evictions)
        self.rig.now = START
        self.evictions, self.engine, self.cache = evictions, self.rig.engine, self.rig.engine.cache
        self.leaving, self.ages, self.raws, self.made = [], [], {}, 0
        self.budgets, self.allowed, self.starting, self.failing = {}, {}, [], []
        self.rules = rules(**{"mode": "Enforce", "interval": "60s", "maxMoves": 1000, **spec})
        self.engine.cache.groups.serve(PLUGINS_API)
        gangs = "gangs" in spec["goals"][0]
        objects = generated_objects(self.random, gangs=gangs)
        if spec["goals"][0]["type"] == "FewestFragments":
            *objects, sharing = shared(self.random, objects)
            assert self.engine.policies.apply(sharing).accepted
        tight = self.random.random() < 0.5
        for raw in [*objects, *(budget(1, f"app{app}", f"budget{app}") for app in range(5) if tight)]:
            self.put(raw)
        self.engine.rebalancing.set(self.rules, RecentMoves())

    def put(self, raw):
        kind = raw["kind"]
        if kind == "Node":
            self.engine.nodes.put(raw)
        elif kind == "Pod":
            if raw["spec"].get("nodeName"):
                raw["status"] = READY
            self.raws[raw["metadata"]["uid"]] = raw
            (self.engine.assigned if raw["spec"].get("nodeName") else self.engine.pending).put(raw)
        else:
            if kind == "PodDisruptionBudget":
                app = raw["spec"]["selector"]["matchLabels"]["app"]
                self.budgets[app], self.allowed[app] = raw, raw["status"]["disruptionsAllowed"]
            self.engine.objects(PLUGINS_KIND if kind == "PodGroup" else kind).put(raw)

    def allow(self, app, more):
        """The budget of these pods, if there is one, allows so many more disruptions."""
        if app in self.budgets:
            self.allowed[app] += more
            raw = {**self.budgets[app], "status": {"disruptionsAllowed": max(0, self.allowed[app])}}
            self.engine.objects("PodDisruptionBudget").put(raw)

    def empty_nodes(self):
        return sum(all(map(belongs_to_node, info.pods.values())) for info in self.cache.nodes.values())

    async def step(self):
        """Something happens, and everybody reacts."""
        self.rig.now += 5
        if self.random.random() < self.trouble:
            self.intervene()
        for victim in self.leaving[:]:
            if self.random.random() < 0.7:  # gone; its controller reacts
                self.leaving.remove(victim)
                self.engine.assigned.drop(victim.uid, None)
                if self.random.random() >= self.trouble:
                    self.create(victim)
        for app in self.failing[:]:
            if self.random.random() < 0.3:
                self.failing.remove(app)
                self.allow(app, 1)
        for raw in self.starting[:]:
            if self.random.random() < 0.7:
                self.starting.remove(raw)
                self.put(raw)
                self.allow(raw["metadata"]["labels"]["app"], 1)
        self.engine.reservations.expire()
        self.engine.rebalancing.begin()
        self.engine.activate_all()
        await settle()
        for uid in [uid for uid in self.raws if self.cache.is_assumed(uid)]:  # the watch shows what was bound
            where = self.cache.placement(uid).name
            self.rig.confirm(self.raws[uid], where)
            if uid.startswith("again-"):
                self.starting.append(on_node(self.raws[uid], where))
        await settle()
        assert not self.overcommitted()

    def create(self, victim):
        self.made += 1
        name = f"again-{self.made}"
        raw = self.raws[victim.uid]
        spec = {key: value for key, value in raw["spec"].items() if key != "nodeName"}
        metadata = {**raw["metadata"], "name": name, "uid": name, "creationTimestamp": rfc3339(self.rig.now)}
        self.put({**raw, "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}})

    def intervene(self):
        """A pod of somebody else comes, with or without a node, or one is not ready whose like moves."""
        if moving := [victim.labels["app"] for victim in self.leaving]:
            self.failing.append(self.random.choice(moving))
            self.allow(self.failing[-1], -1)
            return
        self.made += 1
        name = f"other-{self.made}"
        base = {"kind": "Pod", "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {}}}
        container = {"name": "c", "resources": {"requests": {"cpu": self.random.choice(("100m", "1"))}}}
        raw = {**base, "spec": {"containers": [container], "schedulerName": "podwright"}, "status": {}}
        nodes = [info for info in self.cache.nodes.values() if info.allocatable("cpu") - info.requested["cpu"] >= 1000]
        if nodes and self.random.random() < 0.5 and not len(self.cache.reservations):
            raw = on_node(raw, self.random.choice(nodes).name)
        self.put(raw)

    def overcommitted(self):
        return [
            (info.name, resource)
            for info in self.cache.nodes.values()
            for resource, amount in info.requested.items()
            if amount > info.allocatable(resource)
        ]

    @property
    def pending(self):
        return [*self.engine.queue.uids()]


GOALS = (
    [{"type": "EmptyNodes"}],
    [{"type": "EmptyNodes", "weight": 2}, {"type": "RepairViolations", "weight": 3}],
    [{"type": "MakeRoom", "requests": {"cpu": 4}, "count": 9}],
    [{"type": "FewestFragments", "weight": 30}],
    [{"type": "MakeRoom", "requests": {"cpu": 4}, "topologyKey": ZONE, "count": 2, "domains": 1}],
    [{"type": "MakeRoom", "gangs": ["*"]}],
)


@pytest.mark.parametrize("seed", range(HISTORIES))
async def test_undisturbed_every_moved_pod_runs_at_its_place_and_moves_end(seed):
    world = World(
        seed,
        0.0,
        goals=GOALS[seed % len(GOALS)],
        maxMovesAtOnce=1 + seed // len(GOALS) % 4,
        maxMovesAtOncePerOwner=1 + seed // len(GOALS) % 4,
    )
    async with deciding(world.rig):
        world.engine.activate_all()
        await settle()
        before, empty = world.pending, world.empty_nodes()
        plans, still = [], 0
        for _ in range(300):
            await world.step()
            progress = world.engine.rebalancing.known["tidy"].progress
            if progress is not None and (not plans or plans[-1] is not progress):
                plans.append(progress)
                still = 0 if progress.plan.steps and not world.rules.is_in_vain(progress.plan) else still + 1
            if still >= 3:
                break
        else:
            pytest.fail("plans did not end")
    for progress in plans:
        plan = progress.plan
        promised = (0, 0) if world.rules.is_in_vain(plan) else (len(plan.moves), plan.gain)
        assert (len(progress.moved), progress.gained) == promised, progress.ended
    if world.rules.weights.keys() == {"EmptyNodes"}:
        assert sum(progress.gained for progress in plans) == world.empty_nodes() - empty
    assert {*world.pending} <= {*before}
    assert all(age >= world.rules.cooldown for age in world.ages)
    assert world.evictions.forbidden == []
    assert len(world.cache.reservations) == 0


@pytest.mark.parametrize("seed", range(HISTORIES))
async def test_whatever_comes_between_no_promise_is_broken(seed):
    world = World(
        seed,
        0.2,
        goals=GOALS[seed % len(GOALS)],
        maxMovesAtOnce=1 + seed // len(GOALS) % 4,
        maxMovesAtOncePerOwner=1 + seed // len(GOALS) % 4,
    )
    async with deciding(world.rig):
        for _ in range(100):
            await world.step()
        world.trouble = 0.0
        world.engine.rebalancing.set(replace(world.rules, mode="Stop", generation=5), RecentMoves())
        for _ in range(20):
            await world.step()
    assert all(age >= world.rules.cooldown for age in world.ages)
    assert world.evictions.forbidden == []
    assert len(world.cache.reservations) == 0
