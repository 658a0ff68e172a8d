"""Decisions with kept totals equal those that add up and compare all rows."""

import random
import sys
from functools import partial

import numpy as np
import pytest
from benchmarks.core.decisions import different, plain, spread

from podwright.api.kube_scheduler_configuration import convert_profile, default_profile
from podwright.core import cycle
from podwright.core.cycle import Placement, schedule
from podwright.core.framework import interface, kept_totals
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import CycleState, Feasible
from podwright.core.framework.kept_totals import KeptTotal, KeptTotals
from podwright.core.objects.compaction import compact_all
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins import PLUGINS
from podwright.core.plugins.resources import row_cache
from podwright.core.state.columns.change_log import ChangeLog
from podwright.core.state.transaction import CacheTransaction
from podwright.simulator.world import NOW, World
from support.conformance.files import FILES, sample
from support.objects.builders import make_node
from support.properties import examples

NODES = 60


def tolerant(index, name):
    """A plain pod that tolerates what keeps others off."""
    raw = plain(index % 3, name)
    raw["spec"]["tolerations"] = [{"operator": "Exists", "effect": "NoSchedule"}]
    return raw


def selective(index, name):
    """A plain pod that needs one zone, and prefers some nodes."""
    raw = plain(index % 3, name)
    raw["spec"]["nodeSelector"] = {"topology.kubernetes.io/zone": f"z{index % 3}"}
    return raw


def preferring(index, name):
    """A plain pod whose scores are scaled by the greatest of a feasible node."""
    raw = plain(index % 3, name)
    term = {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z0"]}]}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "preference": term}]}
    raw["spec"]["affinity"] = {"nodeAffinity": preferred}
    return raw


KINDS = (*[plain] * 6, *[tolerant, selective] * 2, preferring, spread, different)

EFFECTS = (*["", "NoSchedule"] * 60, "PreferNoSchedule")
"""Of taints; "": the node is cordoned. While any has PreferNoSchedule, no totals are kept for most pods."""


def a_node(index, draw, closed=0.0):
    """`closed`: the share of nodes that are cordoned or have a taint."""
    images = [{"names": ["registry.example/app:1"], "sizeBytes": 500 << 20}] if draw.random() < 0.3 else []
    labels = {"kubernetes.io/hostname": f"n{index}", "topology.kubernetes.io/zone": f"z{draw.randrange(3)}"}
    cpus = {"cpu": draw.choice(["2", "4", "4", "4"])}
    why = draw.choice(EFFECTS) if draw.random() < closed else None
    taints = [{"key": "reserved", "effect": why}] if why else []
    return parse_node(
        make_node(f"n{index}", labels=labels, allocatable=cpus, images=images, unschedulable=why == "", taints=taints)
    )


def changed(cache, draw, number, closed):
    """Something else than a decision."""
    placed = cache.assumed_pods()
    match draw.randrange(20):
        case 0:
            cache.set_node(a_node(draw.randrange(NODES), draw, closed))
        case 1:
            index = draw.randrange(NODES)
            cache.remove_node(f"n{index}")
            if number < 200 or draw.random() < 0.5:
                cache.set_node(a_node(index, draw, closed))
        case 2 | 3 | 4 | 5 | 6 | 7 if placed:
            cache.forget(draw.choice(placed).uid)
        case 8 if placed:
            for pod in placed[: len(placed) // 2]:
                cache.forget(pod.uid)
        case 9:
            compact_all()
        case 10:  # all labels flap
            for index in range(NODES if number < 200 else 0):
                cache.set_node(a_node(index, draw, closed))


def share_of(share, count):
    return int(share * count)


def both_ways(monkeypatch, frameworks, pod, draw):
    """The decision with kept totals, and that with passes over all rows. The same is drawn for both."""
    below = partial(share_of, draw.random())
    monkeypatch.setattr(cycle, "KEPT_SIZE", 1)
    for framework, size in zip(frameworks, (1, sys.maxsize), strict=True):
        monkeypatch.setattr(kept_totals, "KEPT_SIZE", size)
        yield schedule(framework, framework.handle.cache, pod, below, preempt=False)


def assert_same(kept, full):
    assert type(kept) is type(full)
    if isinstance(kept, Placement):
        assert (kept.node_name, kept.score, kept.runner_up) == (full.node_name, full.score, full.runner_up)
    else:
        assert kept.message == full.message


def calls(monkeypatch, name):
    """A list that grows whenever a method of kept totals is called."""
    called, method = [], getattr(KeptTotal, name)
    monkeypatch.setattr(KeptTotal, name, lambda *args: called.append(args) or method(*args))
    return called


def copied(node, number):
    """The node of a case, or another like it."""
    if not number:
        return node
    name = f"{node['metadata']['name']}-{number}"
    labels = {**node["metadata"].get("labels", {}), "kubernetes.io/hostname": name}
    return {**node, "metadata": {**node["metadata"], "name": name, "labels": labels}}


def weighted(weight):
    """A profile with this weight of NodeResourcesFit."""
    fit = {"name": "NodeResourcesFit"}
    return {"plugins": {"score": {"disabled": [fit], "enabled": [{**fit, "weight": weight}]}}}


def decisions(monkeypatch, seed, closed):
    """Pairs of a decision with kept totals and one without, in a cluster that changes."""
    draw, world = random.Random(seed), World()
    cache = world.cache
    for index in range(NODES):
        cache.set_node(a_node(index, draw, closed))
    policies = [
        Framework(convert_profile(weighted(weight), "", PLUGINS, world.features), PLUGINS, world)
        for weight in (1, 1, 2, 400)
    ]
    for number in range(300):
        changed(cache, draw, number, closed)
        kind = draw.choice(KINDS)
        pod = parse_pod(kind(draw.randrange(3) if kind is plain else number, f"p{number}"))
        policy, tried_out = draw.choice(policies), draw.random() < 0.1
        with CacheTransaction(cache) as transaction:
            if tried_out:
                infos = [info for info in cache.nodes.values() if info.node]
                transaction.remove([pod for info in draw.sample(infos, 5) for pod in info.pods.values()])
            made = list(both_ways(monkeypatch, [policy, policy], pod, draw))
        yield made
        if isinstance(made[0], Placement) and not tried_out:
            cache.assume(pod, made[0].node_name)


@pytest.mark.parametrize("seed", range(examples(20)))
def test_decisions_are_those_of_a_pass_over_all_rows(monkeypatch, seed):
    """Nodes are cordoned, get and lose taints, fill up, leave and come back."""
    monkeypatch.setattr(interface, "FILLED_SIZE", 1)
    monkeypatch.setattr(row_cache, "MAX_ARRAYS", 4)  # few, so that templates take over the arrays of others
    monkeypatch.setattr(row_cache, "MAX_TIMES", 1)
    monkeypatch.setattr(kept_totals, "_MOST_GONE", 3)
    used = calls(monkeypatch, "update")
    for kept, full in decisions(monkeypatch, seed, (0.0, 0.05, 0.4)[seed % 3]):
        assert_same(kept, full)
    assert len(used) > 10
    assert any(alive is not None for _total, _log, alive in used)


def with_more_nodes(case):
    """A framework of the case, whose cluster has eight of each node, feasible or not."""
    world = World(clock=lambda: NOW)
    world.fill({**case, "nodes": [copied(node, number) for node in case["nodes"] for number in range(8)]})
    profile = {key: case[key] for key in ("plugins", "pluginConfig") if case.get(key)}
    return Framework(convert_profile(profile, "", PLUGINS, world.features), PLUGINS, world)


def test_the_pods_of_conformance_cases_are_decided_alike(monkeypatch):
    """The pod comes again and again, while others leave."""
    monkeypatch.setattr(interface, "FILLED_SIZE", 1)
    partly = calls(monkeypatch, "_change")
    for case in [case for path in FILES for case in sample(path, 30) if "scores" in case.get("expect", ())]:
        draw, framework = random.Random(case["id"]), with_more_nodes(case)
        cache = framework.handle.cache
        for arrival in range(8):
            pod = parse_pod({**case["pod"], "metadata": {**case["pod"]["metadata"], "uid": f"again-{arrival}"}})
            kept, full = both_ways(monkeypatch, [framework] * 2, pod, draw)
            assert_same(kept, full)
            if isinstance(kept, Placement):
                cache.assume(pod, kept.node_name)
            if placed := sorted(cache.confirmed()):
                cache.remove_pod(draw.choice(placed))
    assert len(partly) > 100


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


def test_pods_that_all_differ_displace_no_totals(monkeypatch):
    """A total that was asked for once is only remembered for a while."""
    monkeypatch.setattr(kept_totals, "MAX_TOTALS", 8)
    known, asked = KeptTotals(), [[(np.zeros(3, np.int16), weight)] for weight in range(1, 40)]
    template = asked.pop()
    assert known.get(template, 0, np.int16) is None
    total = known.get(template, 0, np.int16)
    assert not any(known.get(parts, 0, np.int16) for parts in asked)
    assert total is not None
    assert known.get(template, 0, np.int16) is total
    assert known.get(asked[-1], 0, np.int16) is not None
    assert known.get(asked[0], 0, np.int16) is None  # of too long ago
    compact_all()
    assert known.get(asked[0], 0, np.int16) is None


def test_the_same_arrays_have_another_total_with_other_weights_or_a_constant():
    known, scores = KeptTotals(), np.array([1, 2, 1], np.int16)
    log, totals = ChangeLog(), []
    for weight, constant in ((1, 0), (3, 0), (1, 4)) * 2:
        if (total := known.get([(scores, weight)], constant, np.int16)) is not None:
            total.update(log)
            totals.append(total.total.tolist())
    assert totals == [[1, 2, 1], [3, 6, 3], [5, 6, 5]]


@pytest.mark.parametrize("pools", [2, 100])
def test_templates_that_are_kept_off_different_nodes_do_not_turn_each_others_rows(monkeypatch, pools):
    """Where it is few nodes, they share a total."""
    monkeypatch.setattr(kept_totals, "KEPT_SIZE", 1)
    monkeypatch.setattr(interface, "FILLED_SIZE", 1)
    world = World()
    for index in range(200):
        world.cache.set_node(parse_node(make_node(f"n{index}", labels={"pool": str(index % pools)})))
    framework = Framework(default_profile("podwright", PLUGINS, world.features), PLUGINS, world)
    for number in range(16):
        if number == 8:  # each template came twice, and had its total made once
            added, used = calls(monkeypatch, "_added_up"), calls(monkeypatch, "update")
        raw, pool = plain(0, f"p{number}"), str(number % 4 // 2)
        there = {"key": "pool", "operator": "In" if pools == 2 else "NotIn", "values": [pool]}
        required = {"nodeSelectorTerms": [{"matchExpressions": [there]}]}
        raw["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
        assert isinstance(schedule(framework, world.cache, parse_pod(raw), lambda _: 0), Placement)
    assert len({total for total, *_ in used}) == (2 if pools == 2 else 1)
    assert not [rows for _, rows, _ in added if isinstance(rows, slice)]


def test_wide_totals_count_as_such(monkeypatch):
    monkeypatch.setattr(kept_totals, "MAX_BYTES", 2 * 16 * 100)
    for dtype, kept in ((np.int16, True), (np.int64, True), (np.int64, False)):
        known, parts = KeptTotals(), [(np.zeros(100 if kept else 101, np.int16), 1)]
        known.get(parts, 0, dtype)
        first = known.get(parts, 0, dtype)
        assert first is not None
        assert (known.get(parts, 0, dtype) is first) is kept


def test_what_is_of_all_nodes_does_not_stay_with_the_pod(monkeypatch):
    """The state stays until the pod is bound, which may take long."""
    monkeypatch.setattr(kept_totals, "KEPT_SIZE", 1)
    world, used = World(), calls(monkeypatch, "update")
    framework = Framework(default_profile("podwright", PLUGINS, world.features), PLUGINS, world)
    for closed in (False, False, False, True):
        for index in range(3):
            world.cache.set_node(parse_node(make_node(f"n{index}", unschedulable=closed and index == 2)))
        found = schedule(framework, world.cache, parse_pod(plain(0, "p")), lambda _count: 0)
        assert (found.state.best, found.state.left) == (None, None)
    assert used


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
