"""Attempts at pods whose policy has extenders."""

import asyncio

import pytest

from podwright.api.configuration.load import load_configuration
from podwright.api.permissions import PolicySettings
from podwright.engine.extended_attempts import ROUNDS, TAKEN
from podwright.engine.gangs.attempts import NO_EXTENDERS
from podwright.engine.ports import ExtenderError, FilterAnswer, NodeVictims
from support.engine.kit import OURS, Rig, deciding, on_node, ours, settle, values
from support.objects.builders import in_group, make_pod_group

URL = "http://extender"


class FakeExtender:
    """Answers with what the functions return, once `gate` is open. A function may raise ExtenderError."""

    def __init__(self, defined):
        self.defined = defined
        self.filters = lambda pod, nodes: FilterAnswer(kept=nodes, failed={}, unresolvable={})
        self.scores = lambda pod, nodes: {}
        self.victims = lambda pod, victims: victims
        self.binds = lambda pod, node: None
        self.gate = asyncio.Event()
        self.asked = []
        self.out = self.most_out = 0

    async def _answer(self, verb, pod, subject, function):
        self.asked.append((verb, pod.name, subject))
        self.out += 1
        self.most_out = max(self.most_out, self.out)
        try:
            await self.gate.wait()
        finally:
            self.out -= 1
        return function(pod, subject)

    async def filter(self, pod, nodes, raw):
        return await self._answer("filter", pod, nodes, self.filters)

    async def prioritize(self, pod, nodes, raw):
        return await self._answer("prioritize", pod, nodes, self.scores)

    async def preempt(self, pod, victims, raw):
        return await self._answer("preempt", pod, victims, self.victims)

    async def bind(self, pod, node_name):
        return await self._answer("bind", pod, node_name, self.binds)

    async def close(self):
        pass

    def verbs(self, pod):
        return [verb for verb, name, _ in self.asked if name == pod]


FILTER = {"filterVerb": "filter"}
ALL = {**FILTER, "prioritizeVerb": "prioritize", "preemptVerb": "preempt", "weight": 1}


def rig_with(*extenders, attempts=32, profile="{}"):
    """An engine whose policy has these extenders, and a fake of each."""
    lines = "".join(f"- {{urlPrefix: '{URL}/{i}', {_flow(each)}}}\n" for i, each in enumerate(extenders))
    text = (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f"profiles: [{{schedulerName: {OURS}}}]\nextenders:\n{lines}"
    )
    configuration = load_configuration(text.encode())
    fakes = {name: FakeExtender(defined) for name, defined in configuration.extenders.items()}
    settings = PolicySettings(configuration=configuration, extenders=configuration.extenders)
    rig = Rig(extenders=fakes, policies=settings, attempts_at_extenders=attempts)
    for fake in fakes.values():
        fake.gate.set()
    return (rig, *fakes.values())


def _flow(settings):
    return ", ".join(f"{key}: {value}" for key, value in settings.items())


def keeping(*names, failed=None, unresolvable=None):
    return lambda pod, nodes: FilterAnswer(kept=names, failed=failed or {}, unresolvable=unresolvable or {})


def failing(text):
    def fail(pod, subject):
        raise ExtenderError(text)

    return fail


async def test_only_nodes_that_the_extender_keeps_are_taken():
    rig, extender = rig_with(FILTER)
    extender.filters = keeping("b")
    for name in "abc":
        rig.node(name)
    rig.pod("web")
    async with deciding(rig):
        assert rig.placed_on("web") == "b"
    assert extender.asked == [("filter", "web", ("a", "b", "c"))]


async def test_extenders_filter_in_turn_and_those_that_may_be_ignored_come_last():
    rig, ignorable, first = rig_with({**FILTER, "ignorable": "true"}, FILTER)
    first.filters = keeping("b", "c")
    ignorable.filters = keeping("c")
    for name in "abc":
        rig.node(name)
    rig.pod("web")
    async with deciding(rig):
        assert rig.placed_on("web") == "c"
    assert first.asked[0][2] == ("a", "b", "c")
    assert ignorable.asked[0][2] == ("b", "c")


async def test_the_scores_of_all_extenders_are_added():
    rig, first, second = rig_with(ALL, ALL)
    first.scores = lambda pod, nodes: {"a": 1_000, "b": 600, "unknown": 10**6}
    second.scores = lambda pod, nodes: {"b": 600}
    for name in "abc":
        rig.node(name)
    rig.pod("web")
    async with deciding(rig):
        assert rig.placed_on("web") == "b"


async def test_scores_wrap_around_as_in_go():
    rig, extender = rig_with(ALL)
    extender.scores = lambda pod, nodes: {"a": 2**63, "b": 0}
    for name in "ab":
        rig.node(name)
    rig.pod("web")
    async with deciding(rig):
        assert rig.placed_on("web") == "b"


async def test_an_error_of_prioritize_is_ignored():
    rig, broken, other = rig_with(ALL, ALL)
    broken.scores = failing("no scores")
    other.scores = lambda pod, nodes: {"b": 1_000}
    for name in "ab":
        rig.node(name)
    rig.pod("web")
    async with deciding(rig):
        assert rig.placed_on("web") == "b"
    assert rig.recorder.notes("FailedScheduling") == []


async def test_a_single_node_is_not_scored():
    rig, extender = rig_with(ALL)
    extender.filters = keeping("a")
    for name in "ab":
        rig.node(name)
    rig.pod("web")
    async with deciding(rig):
        assert rig.placed_on("web") == "a"
    assert extender.verbs("web") == ["filter"]


async def test_an_error_of_filter_fails_the_attempt():
    rig, extender = rig_with(FILTER)
    extender.filters = failing("out of order")
    rig.node("a")
    rig.pod("web")
    async with deciding(rig):
        assert rig.placed_on("web") == ""
    assert rig.recorder.notes("FailedScheduling") == ["out of order"]
    assert rig.status.written[-1][1].reason == "SchedulerError"
    assert rig.counts == {"backoff": 1}


async def test_an_ignorable_extender_is_skipped():
    rig, extender = rig_with({**FILTER, "ignorable": "true"})
    extender.filters = failing("out of order")
    rig.node("a")
    rig.pod("web")
    async with deciding(rig):
        assert rig.placed_on("web") == "a"


async def test_reasons_of_extenders_and_of_filters_are_counted_together():
    rig, extender = rig_with(FILTER)
    extender.filters = keeping(
        failed={"a": "no device", "ghost": "haunted", "full": "broken"}, unresolvable={"b": "never"}
    )
    for name in "ab":
        rig.node(name)
    rig.node("full", allocatable={"cpu": "0", "memory": "1Gi", "pods": "10"})
    rig.pod("web", requests={"cpu": "1"})
    async with deciding(rig):
        pass
    (note,) = rig.recorder.notes("FailedScheduling")
    assert note.startswith("0/3 nodes are available: 1 broken, 1 haunted, 1 never, 1 no device.")
    assert rig.engine.queue.get("default/web").unschedulable_plugins >= {"Extender"}


async def test_any_event_may_help_a_pod_that_an_extender_rejected():
    rig, extender = rig_with(FILTER)
    extender.filters = keeping()
    rig.node("a")
    rig.pod("web")
    async with deciding(rig):
        assert rig.counts == {"unschedulable": 1}
        rig.engine.objects("Service").put({"metadata": {"name": "s", "namespace": "default"}})
        assert rig.counts != {"unschedulable": 1}


async def test_other_pods_go_on_while_one_is_out():
    rig, extender = rig_with({**FILTER, "managedResources": "[{name: example.com/gpu}]"})
    extender.gate.clear()
    rig.node("a", allocatable={"cpu": "4", "memory": "8Gi", "pods": "10", "example.com/gpu": "4"})
    rig.pod("out", requests={"example.com/gpu": "1"})
    rig.pod("web")
    async with deciding(rig):
        assert rig.placed_on("out") == ""
        assert rig.placed_on("web") == "a"
        extender.gate.set()
        await settle()
        assert rig.placed_on("out") == "a"
    assert extender.verbs("web") == []


async def test_a_pod_is_not_placed_where_the_room_was_taken_meanwhile():
    rig, extender = rig_with(FILTER)
    for name in "ab":
        rig.node(name, allocatable={"cpu": "1"})
    extender.filters = lambda pod, nodes: FilterAnswer(kept=nodes[:1], failed={}, unresolvable={})
    extender.gate.clear()
    rig.pod("web", requests={"cpu": "1"})
    async with deciding(rig):
        rig.engine.assigned.put(on_node(ours("other", requests={"cpu": "1"}), "a"))
        extender.gate.set()
        await settle()
        assert rig.placed_on("web") == "b"
    assert [nodes for _, _, nodes in extender.asked] == [("a", "b"), ("b",)]
    assert rig.recorder.notes("FailedScheduling") == []


async def test_a_pod_whose_room_is_taken_again_and_again_fails_after_some_rounds():
    rig, extender = rig_with(FILTER)
    for name in "ab":
        rig.node(name, allocatable={"cpu": "1"})
    rig.engine.assigned.put(on_node(ours("on-b", requests={"cpu": "1"}), "b"))

    def keep_and_take(pod, nodes):
        (kept,) = nodes
        (other,) = {"a", "b"} - {kept}
        rig.engine.assigned.drop(f"default/on-{other}", None)
        rig.engine.assigned.put(on_node(ours(f"on-{kept}", requests={"cpu": "1"}), kept))
        return FilterAnswer(kept=nodes, failed={}, unresolvable={})

    extender.filters = keep_and_take
    rig.pod("web", requests={"cpu": "1"})
    async with deciding(rig):
        await settle()
        await settle()
    assert len(extender.asked) == ROUNDS
    assert rig.recorder.notes("FailedScheduling") == [TAKEN]
    assert rig.counts == {"backoff": 1}


@pytest.mark.parametrize("attempts", [1, 3])
async def test_no_more_attempts_are_out_than_the_limit(attempts):
    rig, extender = rig_with(FILTER, attempts=attempts)
    extender.gate.clear()
    rig.node("a", allocatable={"cpu": "100", "memory": "80Gi", "pods": "100"})
    for number in range(9):
        rig.pod(f"web-{number}")
    async with deciding(rig):
        assert extender.out == attempts
        assert rig.counts == {"active": 9 - attempts}
        extender.gate.set()
        for _ in range(9):
            await settle()
        assert rig.engine.cache.pod_count == 9
    assert extender.most_out == attempts


async def test_with_a_limit_of_1_pods_are_asked_about_in_the_queues_order():
    rig, extender = rig_with(FILTER, attempts=1)
    extender.gate.clear()
    rig.node("a", allocatable={"cpu": "100", "memory": "80Gi", "pods": "100"})
    rig.pod("first")
    async with deciding(rig):
        rig.pod("low", priority=1)
        rig.pod("middle", priority=2)
        await settle()
        rig.pod("high", priority=3)
        await settle()
        extender.gate.set()
        for _ in range(5):
            await settle()
    assert [name for _, name, _ in extender.asked] == ["first", "high", "middle", "low"]


async def test_a_pod_that_is_deleted_while_it_is_out_is_not_placed():
    rig, extender = rig_with(FILTER)
    extender.gate.clear()
    rig.node("a")
    raw = rig.pod("web")
    async with deciding(rig):
        rig.engine.pending.drop(raw["metadata"]["uid"], raw)
        extender.gate.set()
        await settle()
        assert rig.engine.cache.pod_count == 0
    assert rig.recorder.notes("FailedScheduling") == []


async def test_a_pod_that_is_bound_by_another_while_it_is_out_is_dropped():
    rig, extender = rig_with(FILTER)
    extender.gate.clear()
    rig.node("a")
    raw = rig.pod("web")
    async with deciding(rig):
        rig.confirm(raw, "a")
        extender.gate.set()
        await settle()
        assert rig.placed_on("web") == "a"
        assert len(rig.engine.queue) == 0
    assert rig.cluster.bound == []


async def test_shutdown_breaks_off_what_is_out():
    rig, extender = rig_with(FILTER)
    extender.gate.clear()
    rig.node("a")
    rig.pod("web")
    async with deciding(rig):
        assert extender.out == 1
    assert extender.out == 0
    assert rig.cluster.bound == []


async def test_a_rejected_nominated_node_is_followed_by_all_nodes():
    rig, extender = rig_with(FILTER)
    extender.filters = lambda pod, nodes: FilterAnswer(
        kept=[name for name in nodes if name != "a"], failed={}, unresolvable={}
    )
    for name in "ab":
        rig.node(name)
    rig.pod("web", status={"nominatedNodeName": "a"})
    async with deciding(rig):
        assert rig.placed_on("web") == "b"
    assert [nodes for _, _, nodes in extender.asked] == [("a",), ("a", "b")]


async def test_an_extender_binds():
    rig, extender = rig_with({"bindVerb": "bind"})
    rig.node("a")
    rig.pod("web")
    async with deciding(rig):
        assert rig.placed_on("web") == "a"
    assert extender.asked == [("bind", "web", "a")]
    assert rig.cluster.bound == []


async def test_an_error_of_bind_fails_the_binding():
    rig, extender = rig_with({"bindVerb": "bind"})
    extender.binds = failing("cannot bind")
    rig.node("a")
    raw = rig.pod("web")
    rig.cluster.objects["Pod", "web"] = raw
    async with deciding(rig):
        assert rig.placed_on("web") == ""
    assert rig.recorder.notes("FailedScheduling") == ["cannot bind"]


async def test_a_plugin_binds_if_an_ignorable_extender_fails():
    rig, extender = rig_with({"bindVerb": "bind", "ignorable": "true"})
    extender.binds = failing("cannot bind")
    rig.node("a")
    rig.pod("web")
    async with deciding(rig):
        assert rig.placed_on("web") == "a"
    assert rig.cluster.bound == [("web", "a")]


async def test_calls_are_measured():
    rig, extender = rig_with(ALL)
    extender.scores = failing("no scores")
    for name in "ab":
        rig.node(name)
    rig.pod("web")
    async with deciding(rig):
        pass
    name = f"{URL}/0"
    counted = values(rig, "podwright_extender_call_duration_seconds_count")
    assert counted == {(name, "filter", "success"): 1, (name, "prioritize", "error"): 1}


# Preemption


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


async def test_nothing_is_evicted_if_the_pod_fits_once_the_extender_has_answered():
    rig, extender = crowded()
    extender.gate.clear()
    async with deciding(rig):
        rig.node("c", allocatable={"cpu": "1", "memory": "8Gi", "pods": "10"})
        extender.gate.set()
        await settle()
        assert rig.placed_on("high") == "c"
    assert rig.evictor.evicted == []


# Pod groups


async def test_pod_groups_wait_for_a_policy_without_extenders():
    rig, extender = rig_with(FILTER)
    rig.node("a")
    rig.engine.objects("PodGroup").put(make_pod_group(min_count=1))
    rig.pod("member", spec=in_group())
    async with deciding(rig):
        assert rig.counts == {"unschedulable": 1}
    assert rig.groups.written == [("gang", "Unschedulable", NO_EXTENDERS)]
    assert rig.status.written[-1][1].message == NO_EXTENDERS
    assert extender.asked == []


async def test_pod_groups_in_which_no_extender_is_interested_are_placed():
    rig, extender = rig_with({**FILTER, "managedResources": "[{name: example.com/gpu}]"})
    rig.node("a")
    rig.engine.objects("PodGroup").put(make_pod_group(min_count=1))
    rig.pod("member", spec=in_group())
    async with deciding(rig):
        assert rig.placed_on("member") == "a"
    assert extender.asked == []
