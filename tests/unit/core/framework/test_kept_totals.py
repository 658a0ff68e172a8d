"""Decisions with kept totals equal those that add up and compare all rows."""

import random
import sys
from functools import partial

import numpy as np
import pytest
from benchmarks.core.decisions import different, plain, spread

from podwright.api.kube_scheduler_configuration import default_profile
from podwright.core.cycle import Placement, schedule
from podwright.core.framework import kept_totals
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import CycleState, Feasible
from podwright.core.framework.kept_totals import KeptTotal
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins import PLUGINS
from podwright.core.plugins.resources import row_cache
from podwright.simulator.world import World
from support.objects.builders import make_node
from support.properties import examples

NODES = 60
KINDS = (plain, plain, plain, spread, different)


def a_node(index, draw):
    images = [{"names": ["registry.example/app:1"], "sizeBytes": 500 << 20}] if draw.random() < 0.3 else []
    labels = {"kubernetes.io/hostname": f"n{index}", "topology.kubernetes.io/zone": f"z{index % 3}"}
    cpus = {"cpu": draw.choice(["2", "4", "4", "4"])}
    return parse_node(make_node(f"n{index}", labels=labels, allocatable=cpus, images=images))


def changed(cache, draw, number):
    """Something else than a decision."""
    placed = cache.assumed_pods()
    match draw.randrange(20):
        case 0:
            cache.set_node(a_node(draw.randrange(NODES), draw))
        case 1:
            index = draw.randrange(NODES)
            cache.remove_node(f"n{index}")
            if number < 100 or draw.random() < 0.5:
                cache.set_node(a_node(index, draw))
        case 2 | 3 | 4 | 5 | 6 | 7 if placed:
            cache.forget(draw.choice(placed).uid)
        case 8 if placed:
            for pod in placed[: len(placed) // 2]:
                cache.forget(pod.uid)


def share_of(share, count):
    return int(share * count)


def decisions(monkeypatch, seed):
    """Pairs of a decision with kept totals and one without, in a cluster that changes."""
    draw, world = random.Random(seed), World()
    cache = world.cache
    for index in range(NODES):
        cache.set_node(a_node(index, draw))
    frameworks = [Framework(default_profile("podwright", PLUGINS, world.features), PLUGINS, world) for _ in range(2)]
    for number in range(150):
        changed(cache, draw, number)
        kind = draw.choice(KINDS)
        pod = parse_pod(kind(draw.randrange(3) if kind is plain else number, f"p{number}"))
        made, below = [], partial(share_of, draw.random())
        for framework, size in zip(frameworks, (1, sys.maxsize), strict=True):
            monkeypatch.setattr(kept_totals, "KEPT_SIZE", size)
            made.append(schedule(framework, cache, pod, below))
        yield made
        if isinstance(made[0], Placement):
            cache.assume(pod, made[0].node_name)


@pytest.mark.parametrize("seed", range(examples(20)))
def test_decisions_are_those_of_a_pass_over_all_rows(monkeypatch, seed):
    monkeypatch.setattr(row_cache, "MAX_ARRAYS", 3)  # few, so that templates take over the arrays of others
    used = []
    update = KeptTotal.update
    monkeypatch.setattr(KeptTotal, "update", lambda *args: used.append(args) or update(*args))
    for kept, full in decisions(monkeypatch, seed):
        assert type(kept) is type(full)
        if isinstance(kept, Placement):
            assert (kept.node_name, kept.score, kept.runner_up) == (full.node_name, full.score, full.runner_up)
    assert len(used) > 20


def test_of_many_that_are_the_greatest_each_gets_its_turn(monkeypatch):
    """So many leave that what is left of them is copied now and then."""
    monkeypatch.setattr(kept_totals, "KEPT_SIZE", 1)
    world, chosen = World(), []
    for index in range(300):
        world.cache.set_node(parse_node(make_node(f"n{index}", allocatable={"cpu": "1"})))
    framework = Framework(default_profile("podwright", PLUGINS, world.features), PLUGINS, world)
    for number in range(300):
        pod = parse_pod(plain(0, f"p{number}"))
        found = schedule(framework, world.cache, pod, lambda count: count // 2)
        chosen.append(found.node_name)
        world.cache.assume(pod, found.node_name)
    left, expected = [f"n{index}" for index in range(300)], []
    while left:
        expected.append(left.pop(len(left) // 2))
    assert chosen == expected


def test_a_second_score_of_fewer_nodes_forgets_which_were_the_greatest_of_all(monkeypatch):
    monkeypatch.setattr(kept_totals, "KEPT_SIZE", 2)
    world, state = World(), CycleState()
    for index in range(3):
        world.cache.set_node(parse_node(make_node(f"n{index}")))
    table, pod = world.cache.table, parse_pod(plain(0, "p"))
    framework = Framework(default_profile("podwright", PLUGINS, world.features), PLUGINS, world)
    for _ in range(2):
        framework.score(state, pod, Feasible.passing(table, table.valid))
    assert list(state.best) == [0, 1, 2]
    framework.score(state, pod, Feasible(table, np.array([1, 2])))
    assert state.best is None
