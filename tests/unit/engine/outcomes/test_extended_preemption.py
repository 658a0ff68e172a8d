"""Preemption under a policy with extenders."""

import json
from dataclasses import replace

import pytest

from podwright.engine.ports import NodeVictims
from support.engine.kit import deciding, on_node, ours, settle
from support.extender.fakes import ALL, URL, failing, keeping, rig_with


def crowded(*extenders):
    """Two nodes, each full of one pod of low priority, and a pod of high priority."""
    rig, *fakes = rig_with(*(extenders or (ALL,)))
    for name in "ab":
        rig.node(name, allocatable={"cpu": "1", "memory": "8Gi", "pods": "10"})
        rig.engine.assigned.put(ours(f"low-{name}", uid=f"low-{name}", requests={"cpu": "1"}, spec={"nodeName": name}))
    rig.pod("high", requests={"cpu": "1"}, priority=10)
    return (rig, *fakes)


async def test_an_extender_chooses_among_candidates():
    rig, extender = crowded()
    extender.victims = lambda pod, victims: {"b": victims["b"]}
    async with deciding(rig):
        pass
    assert rig.evictor.evicted == [("low-b", "high", "b")]
    ((_, _, asked),) = extender.asked
    assert asked == {name: NodeVictims([f"low-{name}"], 0) for name in "ab"}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        pytest.param({}, "preemption: no candidate node for preemption", id="no node"),
        pytest.param(
            {"a": NodeVictims([], 0)}, 'preemption: expected at least one victim pod on node "a"', id="no victims"
        ),
        pytest.param(
            {"ghost": NodeVictims(["low-a"], 0)},
            'preemption: nodeinfo not found for node name "ghost"',
            id="an unknown node",
        ),
        pytest.param(
            {"a": NodeVictims(["low-b"], 0)},
            f"preemption: extender: {URL}/0 claims to preempt pod (UID: &{{low-b}}) on node: a, but the pod is not found on that node",
            id="a pod of another node",
        ),
    ],
)
async def test_an_answer_that_cannot_be_used_ends_preemption(answer, words):
    rig, extender = crowded()
    extender.victims = lambda pod, victims: answer
    async with deciding(rig):
        pass
    assert rig.evictor.evicted == []
    (note,) = rig.recorder.notes("FailedScheduling")
    assert note == f"0/2 nodes are available: 2 Insufficient cpu. {words}"


async def test_an_ignorable_extender_that_fails_leaves_the_candidates_as_they_are():
    rig, extender = crowded({**ALL, "ignorable": "true"})
    extender.victims = failing("out of order")
    async with deciding(rig):
        pass
    assert len(rig.evictor.evicted) == 1


async def test_preemption_is_no_help_where_an_extender_is_the_only_one_to_reject():
    rig, extender = rig_with(ALL)
    rig.node("a")
    rig.engine.assigned.put(on_node(ours("low"), "a"))
    extender.filters = keeping(failed={"a": "no device"})
    rig.pod("high", priority=10)
    async with deciding(rig):
        pass
    assert rig.evictor.evicted == []
    assert rig.recorder.notes("FailedScheduling") == [
        '0/1 nodes are available: 1 no device. preemption: expected at least one victim pod on node "a"'
    ]


@pytest.mark.parametrize("answer", [{"failed": {"a": "no"}}, {"unresolvable": {"a": "never"}}, {}])
async def test_pods_are_evicted_from_another_node_than_the_one_that_an_extender_rejected(answer):
    rig, extender = crowded()
    rig.engine.assigned.drop("low-a", None)
    rig.engine.assigned.put(on_node(ours("low-a", uid="low-a"), "a"))
    extender.filters = keeping(**answer)
    async with deciding(rig):
        pass
    assert [node for _, _, node in rig.evictor.evicted] == ["b"]


async def test_the_pod_is_tried_again_if_the_victims_are_gone_but_not_their_room():
    rig, extender = crowded()
    extender.gate.clear()
    async with deciding(rig):
        for name in "ab":
            rig.engine.assigned.drop(f"low-{name}", None)
            rig.engine.assigned.put(on_node(ours(f"equal-{name}", requests={"cpu": "1"}, priority=10), name))
        extender.gate.set()
        await settle()
    assert rig.evictor.evicted == []
    notes = rig.recorder.notes("FailedScheduling")
    assert notes
    assert all(note.endswith("2 No preemption victims found for incoming pod.") for note in notes)


async def test_nothing_is_evicted_if_the_pod_fits_once_the_extender_has_answered():
    rig, extender = crowded()
    extender.gate.clear()
    async with deciding(rig):
        rig.node("c", allocatable={"cpu": "1", "memory": "8Gi", "pods": "10"})
        extender.gate.set()
        await settle()
        assert rig.placed_on("high") == "c"
    assert rig.evictor.evicted == []


def preferring(node):
    """An extender that agrees to preemption on this node, if it is asked about it."""
    return lambda pod, victims: {name: each for name, each in victims.items() if name == node} or victims


@pytest.mark.parametrize(("answer", "rounds"), [(preferring("a"), 3), (lambda pod, victims: victims, 2)])
async def test_preemptors_that_are_out_at_the_same_time_take_different_victims(answer, rounds):
    rig, extender = crowded()
    rig.evictor.waits = True
    rig.pod("other", requests={"cpu": "1"}, priority=10)
    extender.victims = answer
    extender.gate.clear()
    async with deciding(rig):
        assert extender.out == 2
        extender.gate.set()
        await settle()
    assert sorted(victim for victim, _, _ in rig.evictor.evicted) == ["low-a", "low-b"]
    assert {preemptor for _, preemptor, _ in rig.evictor.evicted} == {"high", "other"}
    assert len(extender.asked) == rounds


async def test_a_preemptor_whose_victims_another_one_has_taken_waits_if_there_are_no_others():
    rig, extender = crowded()
    rig.evictor.waits = True
    rig.engine.nodes.drop("b", None)
    rig.pod("other", requests={"cpu": "1"}, priority=10)
    extender.gate.clear()
    async with deciding(rig):
        assert extender.out == 2
        extender.gate.set()
        await settle()
    assert rig.evictor.evicted == [("low-a", "high", "a")]
    nominated = {name: node for name, _, node in rig.status.written}
    assert nominated == {"high": "a", "other": ""}


async def test_a_more_important_preemptor_takes_over_what_is_being_evicted():
    rig, extender = crowded()
    rig.evictor.waits = True
    rig.engine.nodes.drop("b", None)
    rig.pod("urgent", requests={"cpu": "1"}, priority=20)
    extender.gate.clear()
    async with deciding(rig):
        assert extender.out == 2
        rig.engine.assigned.eviction_started("low-a")
        extender.gate.set()
        await settle()
    assert rig.engine.cache.nominator.node_of("default/urgent") == "a"
    assert rig.engine.cache.nominator.node_of("default/high") == ""


async def test_a_node_that_needs_other_victims_by_now_is_asked_about_again():
    rig, extender = crowded()
    rig.engine.nodes.drop("b", None)
    rig.engine.assigned.put(on_node(ours("small", uid="small"), "a"))
    extender.gate.clear()
    async with deciding(rig):
        rig.engine.assigned.drop("small", None)
        extender.gate.set()
        await settle()
    assert len(extender.asked) == 2
    assert [victim for victim, _, _ in rig.evictor.evicted] == ["low-a"]


async def test_a_victim_whose_priority_rises_meanwhile_stays():
    """Its group names another PriorityClass."""
    rig, extender = crowded()
    cache = rig.engine.cache

    def answer(_pod, victims):
        known = cache.placement("low-b").pods["low-b"]
        cache.replace_pod(replace(known, priority=100))
        return {name: victims[name] for name in victims if name == "b"}

    extender.victims = answer
    async with deciding(rig):
        pass
    assert "low-b" not in {victim for victim, *_ in rig.evictor.evicted}


async def test_a_victim_that_is_only_assumed_is_sent_whole():
    rig, extender = rig_with(ALL)
    rig.node("a", allocatable={"cpu": "1", "memory": "8Gi", "pods": "10"})
    rig.pod("low", requests={"cpu": "1"})
    sent = []

    async def preempt(pod, victims, raw):
        sent.extend(json.loads(raw.pod(uid)) for each in victims.values() for uid in each.uids)
        return victims

    extender.preempt = preempt
    async with deciding(rig):
        assert rig.engine.cache.is_assumed("default/low")
        rig.pod("high", requests={"cpu": "1"}, priority=10)
        await settle()
    assert [(pod["metadata"]["name"], pod["spec"]["nodeName"]) for pod in sent] == [("low", "a")]
