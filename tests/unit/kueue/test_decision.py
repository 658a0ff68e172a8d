"""The decision about a whole Workload, on an engine's cache."""

from __future__ import annotations

import pytest

from podwright.kueue.decision import Fits, Lacks, beyond, decide
from support.engine.kit import Rig
from support.kueue.stand_in import pod_set
from support.kueue.workloads import workload


@pytest.fixture
def rig():
    made = Rig()
    for index in range(4):
        made.node(f"n{index}", allocatable={"cpu": "4", "pods": "10"}, labels={"rack": f"r{index // 2}"})
    return made


def answer(rig, *pod_sets, **options):
    before = {name: [*info.pods] for name, info in rig.engine.cache.nodes.items()}
    found = decide(rig.engine.cache, rig.engine.policies, workload(*pod_sets, **options), {}, lambda n: n - 1)
    assert {name: [*info.pods] for name, info in rig.engine.cache.nodes.items()} == before
    return found


def test_all_pod_sets_get_nodes_beside_one_another(rig):
    found = answer(rig, pod_set("a", 3, cpu="3"), pod_set("b", 5, cpu="1"))
    assert isinstance(found, Fits)
    assert [(each.name, each.label, sum(each.slots.values()), each.requests) for each in found.placed] == [
        ("a", "u-0", 3, {"cpu": "3"}),
        ("b", "u-1", 5, {"cpu": "1"}),
    ]
    three, one = (each.slots for each in found.placed)
    assert all(3 * three.get(name, 0) + one.get(name, 0) <= 4 for name in rig.engine.cache.nodes)
    assert found.message(held=True) == f"fits now: 8 pods on {len({*three, *one})} nodes, held for the pods"


def test_the_message_names_the_pod_set_what_is_missing_the_nearest_node_and_what_helps(rig):
    rig.confirm(rig.pod("there", requests={"cpu": "1"}), "n0")
    found = answer(rig, pod_set("a", 1), pod_set("b", 4, cpu="4"))
    assert isinstance(found, Lacks)
    assert not found.never
    assert found.message.startswith('pod set "b": ')
    assert "of 4 pods fit" in found.message
    assert "too few" in found.message
    assert "Nearest: n" in found.message
    assert "What would help: " in found.message


def test_the_end_of_other_pods_is_named_as_help_only_if_the_pod_then_fits(rig):
    for index in range(4):
        rig.confirm(rig.pod(f"there-{index}", requests={"cpu": "1"}), f"n{index}")
    assert "the end of pods on n" in answer(rig, pod_set(cpu="4")).message
    assert "the end of pods" not in answer(rig, pod_set(cpu="5")).message


def test_only_what_no_node_can_take_as_it_is_can_never_fit(rig):
    rig.confirm(rig.pod("there", requests={"cpu": "4"}), "n0")
    assert answer(rig, pod_set(cpu="5")).never
    assert answer(rig, pod_set(nodeSelector={"rack": "none"})).never
    assert not answer(rig, pod_set(count=4, cpu="4")).never
    rig.node("n1", allocatable={"cpu": "4", "pods": "10"}, unschedulable=True)
    assert not answer(rig, pod_set(cpu="5")).never


def test_a_required_topology_is_kept(rig):
    rig.confirm(rig.pod("there", requests={"cpu": "3"}), "n0")
    found = answer(rig, pod_set(count=2, cpu="4", request={"required": "rack"}))
    assert found.placed[0].slots == {"n2": 1, "n3": 1}
    found = answer(rig, pod_set(count=3, cpu="4", request={"required": "rack"}))
    assert "in any domain of rack" in found.message


def test_a_policy_that_does_not_exist_is_named(rig):
    made = pod_set()
    made["template"]["metadata"] = {"annotations": {"podwright.dev/policy": "ghost"}}
    assert "ghost" in answer(rig, made).message


def test_no_pods_fit_anywhere_and_too_many_fit_nowhere(rig):
    assert answer(rig, pod_set(count=0)) == answer(Rig(), pod_set(count=0)) == Fits([])
    assert isinstance(answer(Rig(), pod_set()), Lacks)
    assert beyond(rig.engine.cache, 41)
    assert not beyond(rig.engine.cache, 40)
    assert not beyond(Rig().engine.cache, 1)


def test_pods_are_on_the_nodes_of_their_assigned_domains(rig):
    domains = {
        "domainCount": 2,
        "valuesPerLevel": [{"individual": {"prefix": "r", "roots": ["0", "1"]}}],
        "podCounts": {"individual": [1, 2]},
    }
    assigned = {"topologyAssignment": {"levels": ["rack"], "slices": [domains]}, "count": 3}
    found = answer(rig, pod_set(count=3, cpu="3"), assignments={"main": assigned})
    assert sum(found.placed[0].slots.get(name, 0) for name in ("n2", "n3")) == 2


def test_what_cannot_be_understood_is_said_and_can_never_fit(rig):
    broken = {"topologyAssignment": {"levels": ["rack"], "slices": [{"domainCount": 2_000_000_000}]}}
    found = answer(rig, pod_set(), assignments={"main": broken})
    assert (type(found), found.never) == (Lacks, True)
    assert "valuesPerLevel" in found.message
    assert answer(rig, pod_set(cpu="much")).never


def test_a_topology_of_two_billion_domains_costs_no_more_than_its_pods(rig):
    domains = {"domainCount": 2**31 - 1, "valuesPerLevel": [{"universal": "r0"}], "podCounts": {"universal": 2**31 - 1}}
    assigned = {"topologyAssignment": {"levels": ["rack"], "slices": [domains]}, "count": 2}
    found = answer(rig, pod_set(count=2), assignments={"main": assigned})
    assert sum(found.placed[0].slots.get(name, 0) for name in ("n0", "n1")) == 2
