"""Cached verdicts equal the verdicts of a framework without a cache, whatever changes in between."""

from __future__ import annotations

import random

import pytest

from podwright.api.kube_scheduler_configuration import default_profile
from podwright.core.cycle import Rejection, schedule
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import CycleState
from podwright.core.framework.verdict_cache import MAX_NODES, MAX_VERDICTS, VerdictCache
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins import PLUGINS
from podwright.core.state.nodeinfo import NodeInfo
from podwright.simulator.world import World
from support.objects.builders import make_node, make_pod
from support.plugins.kit import NOW


def node(name, cpu="4", **more):
    return make_node(name, allocatable={"cpu": cpu}, **more)


def placed(name, on, priority=0, cpu="1", start="2023-01-01T00:00:00Z", **more):
    status = {"phase": "Running", **({"startTime": start} if start else {})}
    return parse_pod(make_pod(name, node=on, priority=priority, requests={"cpu": cpu}, status=status, **more))


def urgent(name="urgent", cpu="3", priority=100, **more):
    return parse_pod(make_pod(name, priority=priority, requests={"cpu": cpu}, **more), keep_raw=True)


class FullCluster:
    """A cluster of full nodes, and a framework whose cache lives on."""

    def __init__(self, nodes=3):
        self.world = World(clock=lambda: NOW)
        self.cache = self.world.cache
        for number in range(nodes):
            self.cache.set_node(parse_node(node(f"n{number}")))
            for which in range(4):
                self.cache.set_pod(placed(f"p{number}-{which}", f"n{number}", which % 2))
        self.framework = self.fresh()

    def fresh(self):
        return Framework(default_profile("podwright", PLUGINS, self.world.features), PLUGINS, self.world)

    def decide(self, pod, framework=None):
        return schedule(framework or self.framework, self.cache, pod, lambda _n: 0)

    def searched(self, pod, framework):
        """The complete result of a dry run, independent of the node it starts with."""
        decision = self.decide(pod, framework)
        if not isinstance(decision, Rejection):
            return decision.node_name, decision.feasible
        run = decision.post_filter.details if decision.post_filter else None
        found = run and (
            {name: ([v.uid for v in c.victims], c.violations) for name, c in run.candidates.items()},
            run.rejected,
        )
        return decision.filter_message, found


def test_a_framework_with_a_cache_decides_like_a_fresh_one_after_any_history():
    chance = random.Random(3)
    cluster = FullCluster(5)
    cache = cluster.cache
    for step in range(300):
        name = f"n{chance.randrange(5)}"
        match chance.randrange(7):
            case 0:
                cache.set_node(
                    parse_node(node(name, chance.choice(["3", "4", "6"]), labels={"x": chance.choice("ab")}))
                )
            case 1:
                cache.set_pod(placed(f"new{step}", name, chance.randrange(3), chance.choice(["1", "2"])))
            case 2 if cache.nodes[name].pods:
                cache.remove_pod(chance.choice(list(cache.nodes[name].pods)))
            case 3:
                cache.nominator.add(urgent(f"rival{chance.randrange(4)}", "1", chance.choice([50, 100, 200])), name)
            case 4:
                cache.nominator.remove(f"uid-rival{chance.randrange(4)}")
            case 5 if cache.nodes[name].pods:
                known = chance.choice(list(cache.nodes[name].pods.values()))
                start = chance.choice([None, "2022-01-01T00:00:00Z", "2023-05-01T00:00:00Z"])
                cache.set_pod(placed(known.name, name, known.priority, "1", start))
            case 6:
                budget = {"metadata": {"name": "b", "namespace": "default"}, "spec": {"selector": {}}, "status": {}}
                if cache.store.list("PodDisruptionBudget"):
                    cache.remove_object("PodDisruptionBudget", "b", "default")
                else:
                    cache.set_object("PodDisruptionBudget", budget)
        more = chance.choice([{}, {"spec": {"nodeSelector": {"x": "a"}}}])
        pod = urgent("one", chance.choice(["2", "3"]), chance.choice([2, 100]), **more)
        assert cluster.searched(pod, cluster.framework) == cluster.searched(pod, cluster.fresh()), f"step {step}"


@pytest.fixture
def counted(monkeypatch):
    """The nodes on which victims were searched."""
    from podwright.core.plugins import default_preemption

    made = []
    search = default_preemption.select_victims

    def select_victims(*args):
        made.append(args[3].name)
        return search(*args)

    monkeypatch.setattr(default_preemption, "select_victims", select_victims)
    return made


def test_a_node_is_searched_once_for_pods_with_the_same_verdict_key(counted):
    cluster = FullCluster()
    for number in range(4):
        cluster.decide(urgent(f"urgent{number}"))
    assert sorted(counted) == ["n0", "n1", "n2"]


def test_a_node_is_searched_again_when_a_pod_on_it_changes(counted):
    cluster = FullCluster()
    cluster.decide(urgent())
    counted.clear()
    cluster.cache.set_pod(placed("p1-0", "n1", 0, "1", "2024-01-01T00:00:00Z"))
    cluster.decide(urgent())
    assert counted == ["n1"]


def test_verdicts_that_depend_on_other_nodes_are_not_cached():
    cluster = FullCluster()
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    for pod, cached in ((urgent(), True), (urgent(spec={"affinity": affinity}), False)):
        state = CycleState()
        cluster.framework.pre_filter(state, pod)
        assert (cluster.framework.verdict_key(state, pod) is not None) is cached


def test_twenty_kinds_of_pods_in_turns_find_their_verdicts_again():
    cache = VerdictCache()
    kept = [cache.of(kind) for kind in range(20)]
    assert all(cache.of(kind) is verdicts for kind, verdicts in enumerate(kept))


def test_the_verdicts_of_all_kinds_of_pods_together_are_bounded():
    cache = VerdictCache()
    nodes = [NodeInfo(f"n{number}") for number in range(MAX_NODES)]
    full = [cache.of(kind) for kind in range(MAX_VERDICTS // MAX_NODES)]
    for verdicts in full:
        for each in nodes:
            verdicts.put(each, (), None)
    cache.of("another")
    assert cache.of(0) is not full[0]
