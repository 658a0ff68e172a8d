"""The promises of the bounds of capacity to those that wait meanwhile."""

from __future__ import annotations

import random
from copy import copy
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podwright.api.kube_scheduler_configuration import default_profile
from podwright.core.framework.framework import Framework
from podwright.core.gangs import kept_rooms
from podwright.core.gangs.capacity_bounds import CapacityBounds
from podwright.core.gangs.kept_rooms import KeptRoom
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins import PLUGINS
from podwright.core.state.transaction import CacheTransaction
from podwright.simulator.world import World
from support.objects.builders import make_node, make_pod
from support.properties import examples

MEMBERS = 20


def test_an_attempt_may_pause_at_each_member_in_each_pass_over_members_that_differ():
    world = World()
    world.cache.set_node(parse_node(make_node("n", allocatable={"cpu": "4"})))
    framework = Framework(default_profile("podwright", PLUGINS, world.features), PLUGINS, world)
    pods = [parse_pod(make_pod(f"p{i}", requests={"cpu": "1", "memory": f"{i + 1}Mi"})) for i in range(MEMBERS)]
    bounds = CapacityBounds(framework, world.cache, pods)
    points = []
    world.cache.deadline.check = lambda: points.append(1)
    assert bounds.total() == 4
    assert len(points) == 3 * MEMBERS + 2 * 3, "the bounds, their sums by domain, and the sum of all, by resource"


@given(
    nodes=st.lists(st.integers(0, 7), min_size=1, max_size=3),
    members=st.lists(st.integers(0, 5), min_size=1, max_size=5),
    unit=st.sampled_from([1, (1 << 53) + 1, 1 << 60]),
)
@settings(max_examples=examples(200))
def test_a_bound_is_never_smaller_than_what_fits(nodes, members, unit):
    world = World()
    for index, free in enumerate(nodes):
        world.cache.set_node(parse_node(make_node(f"n{index}", allocatable={"memory": str(free * unit)})))
    framework = Framework(default_profile("podwright", PLUGINS, world.features), PLUGINS, world)
    pods = [
        parse_pod(make_pod(f"p{index}", requests={"memory": str(amount * unit)}))
        for index, amount in enumerate(members)
    ]
    fit = max(
        sum(place >= 0 for place in places)
        for places in product(range(-1, len(nodes)), repeat=len(members))
        if all(
            sum(amount for amount, place in zip(members, places, strict=True) if place == index) <= free
            for index, free in enumerate(nodes)
        )
    )
    assert fit <= CapacityBounds(framework, world.cache, pods).total()


class Racks:
    """Nodes in racks and zones, whose rooms are kept however few they are."""

    def __init__(self, nodes: int, monkeypatch):
        monkeypatch.setattr(kept_rooms, "LEAST_NODES", 0)
        self.world = World()
        self.cache = self.world.cache
        for index in range(nodes):
            self.put(index)
        self.framework = Framework(default_profile("podwright", PLUGINS, self.world.features), PLUGINS, self.world)
        fitted, tolerating = {"cpu": "2"}, {"tolerations": [{"operator": "Exists"}]}
        self.kinds = [
            [parse_pod(make_pod(f"a{index}", requests=fitted)) for index in range(3)],
            [parse_pod(make_pod(f"b{index}", requests=fitted, spec=tolerating)) for index in range(2)],
            [parse_pod(make_pod(f"c{index}", requests={"cpu": str(1 + index)})) for index in range(3)],
        ]

    def put(self, index: int, **options) -> None:
        labels = {"rack": f"r{index // 4}", "zone": f"z{index // 16}"} if index % 5 else {}
        self.cache.set_node(parse_node(make_node(f"n{index}", labels=labels, allocatable={"cpu": "8"}, **options)))

    def rooms(self, pods):
        """What is known about the domains, and who rejects."""
        bounds = CapacityBounds(self.framework, self.cache, pods)
        levels = self.cache.topologies.levels(("zone", "rack"))
        found = [[each.tolist() for each in room] for room in bounds.per_domain(levels)]
        return found, bounds.rejecting_plugins


@pytest.mark.parametrize("seed", range(20))
def test_rooms_that_are_kept_are_those_that_are_computed_anew(monkeypatch, seed):
    choose, racks = random.Random(seed), Racks(40, monkeypatch)
    cache, placed = racks.cache, []

    def change(*, nodes: bool) -> None:
        index = choose.randrange(40)
        taint = [{"key": "k", "value": "v", "effect": "NoSchedule"}] if choose.random() < 0.5 else []
        match choose.randrange(8 if nodes else 6):
            case 7:
                racks.put(index, taints=taint)
            case 6 if f"n{index}" in cache.nodes:
                cache.remove_node(f"n{index}")
            case 4 | 5 if placed:
                cache.forget(placed.pop(choose.randrange(len(placed))))
            case _ if f"n{index}" in cache.nodes:
                pod = parse_pod(make_pod(f"p{choose.random()}", requests={"cpu": str(choose.randint(1, 3))}))
                cache.assume(pod, f"n{index}")
                placed.append(pod.uid)

    def compare() -> None:
        pods = [pod for kind in racks.kinds if choose.random() < 0.6 for pod in kind] or racks.kinds[0]
        kept = racks.rooms(pods)
        with monkeypatch.context() as patch:
            patch.setattr(kept_rooms, "LEAST_NODES", 1_000)
            assert kept == racks.rooms(pods)

    for _ in range(60):
        for _ in range(choose.randrange(4)):
            change(nodes=choose.random() < 0.2)
        compare()
        with CacheTransaction(cache) as transaction:
            for name in choose.sample(sorted(cache.nodes), 2):
                transaction.assume(parse_pod(make_pod(f"t{choose.random()}", requests={"cpu": "1"})), name)
            compare()


def test_without_a_filter_of_resources_rooms_are_kept_by_the_number_of_members(monkeypatch):
    racks = Racks(20, monkeypatch)
    racks.framework.filter_plugins = [
        each for each in racks.framework.filter_plugins if each.name != "NodeResourcesFit"
    ]
    few, many = ([parse_pod(make_pod(f"{count}-{index}")) for index in range(count)] for count in (2, 50))
    racks.rooms(few)
    kept = racks.rooms(many)
    monkeypatch.setattr(kept_rooms, "LEAST_NODES", 1_000)
    assert kept == racks.rooms(many)


def test_rooms_are_kept_also_beside_a_plugin_that_has_no_hash(monkeypatch):
    racks = Racks(20, monkeypatch)
    (plugin,) = (each for each in racks.framework.filter_plugins if each.name == "NodeUnschedulable")

    class Mine(type(plugin)):
        __hash__ = None

    mine = copy(plugin)
    mine.__class__ = Mine
    racks.framework.filter_plugins = [*racks.framework.filter_plugins, mine]
    assert racks.rooms(racks.kinds[0]) == racks.rooms(racks.kinds[0])


def test_rooms_are_computed_again_only_where_rows_changed(monkeypatch):
    racks, computed, update = Racks(80, monkeypatch), [], KeptRoom.update

    def counted(room, log, fitting):
        update(room, log, lambda rows: (computed.append(np.arange(80)[rows].tolist()), fitting(rows))[1])

    monkeypatch.setattr(KeptRoom, "update", counted)
    for name in ("", "n3", "", "n3"):
        if name:
            racks.cache.assume(parse_pod(make_pod(f"p{len(computed)}", requests={"cpu": "1"})), name)
        racks.rooms(racks.kinds[0])
    assert computed == [[*range(80)], [3], [3]]


def test_what_a_plan_has_read_stays_as_it_was(monkeypatch):
    racks = Racks(80, monkeypatch)
    levels = racks.cache.topologies.levels(("zone", "rack"))

    def rooms():
        return CapacityBounds(racks.framework, racks.cache, racks.kinds[0]).per_domain(levels)

    ((zones, _), _), before = rooms(), racks.rooms(racks.kinds[0])[0][0][0]
    racks.cache.assume(parse_pod(make_pod("p", requests={"cpu": "8"})), "n1")
    assert rooms()[0][0].tolist() != before
    assert zones.tolist() == before
