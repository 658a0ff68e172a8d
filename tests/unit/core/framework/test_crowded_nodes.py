"""Verdicts on nodes with nominated pods equal those of filters that run on a copy of the node and of the pod's
state.
"""

from __future__ import annotations

import random

import pytest

from podwright.api.kube_scheduler_configuration import convert_profile, default_profile
from podwright.core.cycle import find_feasible
from podwright.core.framework.crowded_nodes import CrowdedNodes
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import (
    CycleState,
    FilterPlugin,
    Plugin,
    PreFilterExtensions,
    PreFilterPlugin,
    Scope,
)
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins import PLUGINS
from podwright.simulator.world import World
from support.objects.builders import make_node, make_pod
from support.plugins.kit import NOW
from support.plugins.pod_affinity import HOSTNAME, ZONE, away, near, term

NAMES = [f"n{number}" for number in range(6)]


def spread(key):
    selector = {"matchLabels": {"app": "x"}}
    constraint = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return {"topologySpreadConstraints": [constraint]}


SPECS = [
    {},
    away(term(HOSTNAME, "x")),
    away(term(ZONE, "y")),
    away(term(HOSTNAME, "x", namespaceSelector={"matchLabels": {"team": "a"}})),
    away(term(HOSTNAME, "x", namespaceSelector={"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]})),
    away(term(ZONE, "x", namespaces=["other"]), term(HOSTNAME, "y")),
    away(*(term(HOSTNAME, app) for app in "abcdxy")),
    near(term(ZONE, "x")),
    {"affinity": {**near(term(ZONE, "y"))["affinity"], **away(term(HOSTNAME, "x"))["affinity"]}},
    spread(HOSTNAME),
    {**spread(ZONE), **away(term(HOSTNAME, "y"))},
    {"nodeSelector": {ZONE: "a"}},
]
AMOUNTS = [
    *[{}] * 3,
    {"memory": "1Gi"},
    {"memory": "3Gi", "example.com/gpu": "1"},
    {"memory": "7Ei"},
    {"memory": "1536Pi"},
]


class Cluster:
    def __init__(self, seed):
        self.chance = chance = random.Random(seed)
        self.world = World(clock=lambda: NOW)
        self.cache = self.world.cache
        self.framework = Framework(default_profile("podwright", PLUGINS, self.world.features), PLUGINS, self.world)
        for name, team in (("default", "a"), ("other", "b")):
            self.cache.set_object("Namespace", {"metadata": {"name": name, "labels": {"team": team}}})
        for number, name in enumerate(NAMES):
            zone = {} if number == len(NAMES) - 1 else {ZONE: chance.choice("ab")}
            labels = {HOSTNAME: name, **zone}
            amounts = {"cpu": chance.choice(["1", "4"]), "memory": chance.choice(["1Gi", "4Gi", "7Ei"])}
            allowed = chance.choice(["3", "110"])
            self.cache.set_node(parse_node(make_node(name, labels=labels, allocatable={**amounts, "pods": allowed})))

    def pod(self, name, *, on=None, priority=None):
        chance = self.chance
        spec = dict(chance.choice(SPECS))
        if not chance.randrange(4):
            spec["containers"] = [
                {"name": "c", "image": "i", "ports": [{"hostPort": chance.choice([80, 81]), "containerPort": 80}]}
            ]
        more = {} if on is None else {"node": on, "status": {"phase": "Running"}}
        return parse_pod(
            make_pod(
                name,
                namespace=chance.choice(["default", "other", "unknown"]),
                labels={"app": chance.choice("xy")},
                priority=chance.choice([0, 10]) if priority is None else priority,
                requests={"cpu": chance.choice(["100m", "1", "2"]), **chance.choice(AMOUNTS)},
                spec=spec,
                **more,
            )
        )

    def change(self, step):
        chance, cache = self.chance, self.cache
        node = chance.choice(NAMES)
        match chance.randrange(4):
            case 0:
                cache.set_pod(self.pod(f"p{step}", on=node))
            case 1 if cache.nodes[node].pods:
                cache.remove_pod(chance.choice(list(cache.nodes[node].pods)))
            case 2:
                cache.nominator.add(self.pod(f"rival{chance.randrange(9)}"), node)
            case 3 if rivals := [*cache.nominator.on(node)]:
                cache.nominator.remove(chance.choice(rivals).uid)


@pytest.mark.parametrize("seed", range(4))
def test_a_verdict_equals_that_of_filters_on_copies(seed):
    cluster = Cluster(seed)
    cache, framework, seen = cluster.cache, cluster.framework, set()
    for step in range(200):
        cluster.change(step)
        pod, state = cluster.pod("one", priority=5), CycleState()
        if framework.pre_filter(state, pod).status is not None:
            continue
        crowded = CrowdedNodes(framework, state, pod)
        for name in NAMES:
            info, others = cache.nodes[name], framework.nominated_before(pod, name)
            expected = framework.filter_crowded_node(state, pod, info, others)
            assert crowded.verdict(info, others) == expected, f"step {step}, {name}"
            seen.add(None if expected is None else (expected.plugin, bool(others)))
    assert {None, ("InterPodAffinity", True), ("PodTopologySpread", True), ("NodeResourcesFit", True)} <= seen


@pytest.mark.parametrize("seed", range(4))
def test_each_rejected_node_has_the_status_of_the_node_by_itself(seed):
    cluster = Cluster(seed)
    cache, framework = cluster.cache, cluster.framework
    for step in range(100):
        cluster.change(step)
        pod, state = cluster.pod("one", priority=5), CycleState()
        if not step % 3:
            cache.nominator.add(pod, cluster.chance.choice(NAMES))
        search = find_feasible(framework, cache, pod, state)
        if search.diagnosis.pre_filter is not None:
            continue
        statuses = search.diagnosis.statuses()
        assert sum(search.diagnosis.plugins().values()) == len(statuses)
        for name in NAMES:
            info = cache.nodes[name]
            expected = framework.filter_node_with_nominated(state, pod, info)
            assert statuses.get(info.slot) == expected, f"step {step}, {name}"
            assert (info.slot in search.feasible.slots) == (expected is None)


def test_nominated_pods_are_compared_with_an_ordinary_pod_on_all_nodes_at_once(monkeypatch):
    cluster = Cluster(0)
    for number, name in enumerate(NAMES):
        cluster.cache.nominator.add(parse_pod(make_pod(f"rival{number}", priority=10, requests={"cpu": "3500m"})), name)
    pod = parse_pod(make_pod("one", requests={"cpu": "750m"}))
    expected = find_feasible(cluster.framework, cluster.cache, pod, CycleState()).diagnosis.message()
    assert expected == "0/6 nodes are available: 6 Insufficient cpu."
    monkeypatch.setattr(CrowdedNodes, "verdict", lambda *_args: pytest.fail("a node was checked by itself"))
    for cpu in ("750m", "800m"):
        pod = parse_pod(make_pod("other", requests={"cpu": cpu}))
        search = find_feasible(cluster.framework, cluster.cache, pod, CycleState())
        assert search.diagnosis.message() == expected
    cluster.cache.nominator.remove("default/rival0")
    assert find_feasible(cluster.framework, cluster.cache, pod, CycleState()).feasible.slots.tolist() == [
        cluster.cache.nodes[NAMES[0]].slot
    ]


def test_anti_affinity_beside_nominated_pods_copies_no_state(monkeypatch):
    cluster = Cluster(0)
    for number, name in enumerate(NAMES):
        rival = make_pod(f"rival{number}", labels={"app": "y"}, priority=10, spec=away(term(HOSTNAME, "x")))
        cluster.cache.nominator.add(parse_pod(rival), name)
    copies = []
    monkeypatch.setattr(CycleState, "clone", lambda state: copies.append(state) or state)
    pod = parse_pod(make_pod("one", labels={"app": "x"}, spec=away(term(HOSTNAME, "z"))))
    search = find_feasible(cluster.framework, cluster.cache, pod, CycleState())
    assert (
        search.diagnosis.message()
        == "0/6 nodes are available: 6 node(s) didn't satisfy existing pods anti-affinity rules."
    )
    assert copies == []


def test_a_plugin_of_others_that_counts_pods_is_told_of_each_nominated_pod():
    told = []

    class Counting(Plugin, PreFilterPlugin, PreFilterExtensions, FilterPlugin):
        name = "Counting"
        scope = Scope.CLUSTER

        def pre_filter(self, state, pod):
            return None

        def add_pod(self, state, pod, added, node):
            told.append((added.name, node.name))

        def remove_pod(self, state, pod, removed, node):
            raise AssertionError("nothing is removed")

        def filter(self, state, pod, node):
            return None

    cluster = Cluster(0)
    classes = {**PLUGINS, "Counting": Counting}
    profile = convert_profile(
        {"plugins": {"multiPoint": {"enabled": [{"name": "Counting"}]}}}, "", classes, cluster.world.features
    )
    framework = Framework(profile, classes, cluster.world)
    rival = parse_pod(make_pod("rival", priority=10, requests={"cpu": "64"}))
    cluster.cache.nominator.add(rival, "n1")
    pod = parse_pod(make_pod("one", spec=away(term(HOSTNAME, "z")), requests={"cpu": "1"}))
    find_feasible(framework, cluster.cache, pod, CycleState())
    assert told == [("rival", "n1")], "although NodeResourcesFit rejects the node first"
