"""Attempts at pods whose policy has extenders."""

import pytest

from podwright.core.objects.pod import parse_pod
from podwright.engine.attempts.extended import ROUNDS, TAKEN
from podwright.engine.attempts.gangs.attempts import NO_EXTENDERS
from podwright.engine.ports import FilterAnswer
from podwright.engine.records.log_fields import fields_of
from support.engine.kit import deciding, on_node, ours, settle, values
from support.extender.fakes import ALL, FILTER, URL, failing, keeping, rig_with
from support.objects.builders import in_group, make_pod_group


def submit_web(rig, nodes):
    """Adds nodes, named by one letter each, and submits the pod `web`."""
    for name in nodes:
        rig.node(name)
    rig.pod("web")


async def test_only_nodes_that_the_extender_keeps_are_taken():
    rig, extender = rig_with(FILTER)
    extender.filters = keeping("b")
    submit_web(rig, "abc")
    async with deciding(rig):
        assert rig.placed_on("web") == "b"
    assert extender.asked == [("filter", "web", ("a", "b", "c"))]


async def test_extenders_filter_in_turn_and_those_that_may_be_ignored_come_last():
    rig, ignorable, first = rig_with({**FILTER, "ignorable": "true"}, FILTER)
    first.filters = keeping("b", "c")
    ignorable.filters = keeping("c")
    submit_web(rig, "abc")
    async with deciding(rig):
        assert rig.placed_on("web") == "c"
    assert first.asked[0][2] == ("a", "b", "c")
    assert ignorable.asked[0][2] == ("b", "c")


async def test_the_scores_of_all_extenders_are_added():
    rig, first, second = rig_with(ALL, ALL)
    first.scores = lambda pod, nodes: {"a": 1_000, "b": 600, "unknown": 10**6}
    second.scores = lambda pod, nodes: {"b": 600}
    submit_web(rig, "abc")
    async with deciding(rig):
        assert rig.placed_on("web") == "b"


async def test_scores_wrap_around_as_in_go():
    rig, extender = rig_with(ALL)
    extender.scores = lambda pod, nodes: {"a": 2**63, "b": 0}
    submit_web(rig, "ab")
    async with deciding(rig):
        assert rig.placed_on("web") == "b"


async def test_an_error_of_prioritize_is_ignored():
    rig, broken, other = rig_with(ALL, ALL)
    broken.scores = failing("no scores")
    other.scores = lambda pod, nodes: {"b": 1_000}
    submit_web(rig, "ab")
    async with deciding(rig):
        assert rig.placed_on("web") == "b"
    assert rig.recorder.notes("FailedScheduling") == []


async def test_a_single_node_is_not_scored():
    rig, extender = rig_with(ALL)
    extender.filters = keeping("a")
    submit_web(rig, "ab")
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


async def test_answers_wait_while_it_is_quiet_for_another_attempt():
    rig, extender = rig_with(FILTER)
    rig.node("a")
    extender.gate.clear()
    rig.pod("web")
    quiet = rig.engine.planning.quiet
    async with deciding(rig):
        quiet.begin()
        extender.gate.set()
        await settle()
        assert not rig.placed_on("web")
        quiet.end()
        await settle()
        assert rig.placed_on("web") == "a"


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


async def test_a_pod_that_is_being_deleted_while_it_is_out_is_not_placed():
    rig, extender = rig_with(FILTER)
    extender.gate.clear()
    rig.node("a")
    rig.pod("web")
    async with deciding(rig):
        rig.pod("web", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z", "uid": "default/web"})
        extender.gate.set()
        await settle()
        assert rig.engine.cache.pod_count == 0
        assert len(rig.engine.queue) == 0
    (note,) = rig.recorder.notes("FailedScheduling")
    assert note.startswith("skip schedule deleting pod")


async def test_a_pod_about_which_another_policy_decides_meanwhile_is_decided_by_that_one():
    rig, extender = rig_with(FILTER)
    extender.gate.clear()
    rig.node("a")
    rig.pod("web")
    async with deciding(rig):
        rig.engine.policies.apply({"metadata": {"name": "plain", "uid": "plain", "generation": 1}, "spec": {}})
        rig.engine.policies_changed()
        extender.filters = keeping()
        extender.gate.set()
        await settle()
        assert rig.placed_on("web") == "a"
    assert len(extender.asked) == 1
    assert rig.cluster.annotations[0]["podwright.dev/decision"].count("plain") == 1


async def test_pods_that_are_held_for_an_extender_go_on_when_their_policy_changes():
    rig, extender = rig_with(FILTER, attempts=1)
    extender.gate.clear()
    rig.node("a")
    for name in ("out", "held"):
        rig.pod(name)
    async with deciding(rig):
        rig.engine.policies.apply({"metadata": {"name": "plain", "uid": "plain", "generation": 1}, "spec": {}})
        rig.engine.policies_changed()
        await settle()
        assert rig.placed_on("held") == "a"
        assert rig.placed_on("out") == ""


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
    submit_web(rig, "ab")
    async with deciding(rig):
        pass
    name = f"{URL}/0"
    counted = values(rig, "podwright_extender_call_duration_seconds_count")
    assert counted == {(name, "filter", "success"): 1, (name, "prioritize", "error"): 1}


async def test_the_log_names_an_extender_that_fails(caplog):
    rig, extender = rig_with(ALL)
    extender.scores = failing("no scores")
    submit_web(rig, "ab")
    async with deciding(rig):
        pass
    logged = [fields_of(record) for record in caplog.records if record.message == "an extender failed"]
    assert logged == [{"extender": f"{URL}/0", "verb": "prioritize", "err": "no scores"}]


# Pods that come back

GPU = "example.com/gpu"


async def test_a_pod_that_is_read_back_as_pending_is_sent_to_its_extender_again():
    rig, extender = rig_with({**FILTER, "bindVerb": "bind", "managedResources": f"[{{name: {GPU}}}]"})
    rig.node("a", allocatable={"cpu": "4", "memory": "8Gi", "pods": "10", GPU: "4"})
    raw = rig.pod("web", requests={GPU: "1"})
    rig.cluster.objects["Pod", "web"] = raw
    async with deciding(rig):
        rig.now += 60  # the extender says that it has bound the pod, and has not
        await rig.engine.binding_executor.read_back_overdue()
        await settle()
    assert extender.verbs("web") == ["filter", "bind"] * 2
    assert rig.cluster.bound == []


async def test_an_attempt_at_a_pod_whose_object_was_not_kept_fails():
    rig, extender = rig_with({**FILTER, "managedResources": f"[{{name: {GPU}}}]"})
    rig.node("a")
    raw = ours("web", requests={GPU: "1"})
    rig.engine.queue.update(parse_pod(raw))
    async with deciding(rig):
        assert rig.placed_on("web") == ""
    assert extender.asked == []
    (note,) = rig.recorder.notes("FailedScheduling")
    assert note.endswith("pod default/web cannot be sent to extenders, because its object was not kept")
    assert rig.counts == {"backoff": 1}


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
