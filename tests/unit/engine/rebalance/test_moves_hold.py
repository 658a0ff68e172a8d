"""Promises of moves, over generated clusters and histories: while a plan is carried out, pods come and go, evictions
are refused, and controllers are slow or create something else.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from podwright.core.objects.pod_group import PLUGINS_API, PLUGINS_KIND
from podwright.core.preemption.budgets import Budgets, StoredBudgets
from podwright.engine.rebalance import moves
from podwright.engine.rebalance.recent import RecentMoves
from podwright.kube.client.times import rfc3339
from support.engine.kit import Rig, deciding, on_node, settle
from support.rebalance.kit import generated_objects, rules

HISTORIES = int(os.environ.get("PODWRIGHT_REBALANCES", "40")) // 4
START = 1_700_000_000.0


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(moves, "POLL_SECONDS", 0.0)


class Evictions:
    """Answers at once: refuses what a budget forbids, and some others. Checks that budgets hold."""

    def __init__(self, world):
        self.world = world
        self.evicted = Counter()

    def evict(self, victim, _by, _node, done, **_):
        world = self.world
        allowed = Budgets(StoredBudgets(world.cache.store).rules(), by_eviction=True).spend([victim])
        assert allowed, "no eviction is asked for that a budget forbids"
        refused = world.random.random() < world.trouble
        self.evicted[victim.owner.uid] += not refused
        if not refused:
            world.ages.append(world.rig.now - victim.creation)
            world.leaving.append(victim)
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
        self.rules = rules(**{"mode": "Enforce", "interval": "60s", "maxMoves": 1000, **spec})
        self.engine.cache.groups.serve(PLUGINS_API)
        gangs = "gangs" in spec["goals"][0]
        for raw in generated_objects(self.random, gangs=gangs):
            self.put(raw)
        self.engine.rebalancing.set(self.rules, RecentMoves())

    def put(self, raw):
        kind = raw["kind"]
        if kind == "Node":
            self.engine.nodes.put(raw)
        elif kind == "Pod":
            self.raws[raw["metadata"]["uid"]] = raw
            (self.engine.assigned if raw["spec"].get("nodeName") else self.engine.pending).put(raw)
        else:
            self.engine.objects(PLUGINS_KIND if kind == "PodGroup" else kind).put(raw)

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
        self.engine.reservations.expire()
        self.engine.rebalancing.begin()
        self.engine.activate_all()
        await settle()
        for uid in [uid for uid in self.raws if self.cache.is_assumed(uid)]:  # the watch shows what was bound
            self.rig.confirm(self.raws[uid], self.cache.placement(uid).name)
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
        """A pod of somebody else comes, with or without a node."""
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
    [{"type": "MakeRoom", "gangs": ["*"]}],
)


@pytest.mark.parametrize("seed", range(HISTORIES))
async def test_undisturbed_every_moved_pod_runs_at_its_place_and_moves_end(seed):
    world = World(
        seed, 0.0, goals=GOALS[seed % 4], maxMovesAtOnce=1 + seed // 4 % 2, maxMovesAtOncePerOwner=1 + seed // 4 % 2
    )
    before = world.pending
    async with deciding(world.rig):
        plans, still = [], 0
        for _ in range(300):
            await world.step()
            progress = world.engine.rebalancing.progress("tidy")
            if progress is not None and (not plans or plans[-1] is not progress):
                plans.append(progress)
                still = 0 if progress.plan.steps else still + 1
            if still >= 3:
                break
        else:
            pytest.fail("plans did not end")
    for progress in plans:
        assert (progress.moved, progress.gained) == (len(progress.plan.moves), progress.plan.gain), progress.ended
    assert {*world.pending} <= {*before}
    assert all(age >= world.rules.cooldown for age in world.ages)
    assert len(world.cache.reservations) == 0


@pytest.mark.parametrize("seed", range(HISTORIES))
async def test_whatever_comes_between_no_promise_is_broken(seed):
    world = World(
        seed, 0.2, goals=GOALS[seed % 4], maxMovesAtOnce=1 + seed // 4 % 2, maxMovesAtOncePerOwner=1 + seed // 4 % 2
    )
    async with deciding(world.rig):
        for _ in range(100):
            await world.step()
        world.trouble = 0.0
        world.engine.rebalancing.set(replace(world.rules, mode="Stop", generation=5), RecentMoves())
        for _ in range(20):
            await world.step()
    assert all(age >= world.rules.cooldown for age in world.ages)
    assert len(world.cache.reservations) == 0
