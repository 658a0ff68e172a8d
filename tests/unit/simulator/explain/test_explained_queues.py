"""Explanations of queues, besides the causes and changes of `queue_situations`."""

import pytest

from podwright.core.objects.pod import parse_pod
from podwright.simulator.explain.explanation import explain_pod
from podwright.simulator.explain.results import PodState, as_object
from podwright.simulator.explain.targets import TargetError, explain_target, parse_target
from podwright.simulator.loaded import load
from podwright.simulator.redaction import redacted
from podwright.simulator.snapshot import Snapshot
from support.explain.objects import cluster, gang, node
from support.explain.queue_situations import GPU, NODES, TREE, limit, runs, waits
from support.objects.builders import in_group
from support.objects.queues import queue
from support.simulator.kit import copy_of


def explained(given, name, *, changes=True):
    items = given.items()
    return explain_target(
        given.load(), Snapshot(objects=items), parse_target(f"squeue/{name}", "default"), changes=changes
    )


FULL = cluster(NODES, [runs("a1", "a", "4"), runs("b1", "b", "2"), waits("a", "1"), waits("b", "1", "later")], TREE)


def test_a_queue_says_what_it_and_those_below_have_and_what_their_pods_wait_for():
    found = explained(FULL, "ml")
    assert (found.kind, found.name, found.pods, found.placed, found.waiting) == ("SchedulingQueue", "ml", 4, 2, 2)
    assert [(row.name, row.depth, row.of(GPU).allocated, row.of(GPU).share) for row in found.queue] == [
        ("ml", 0, 6, 7),
        ("a", 1, 4, 4),
        ("b", 1, 2, 3),
    ]
    assert [cause.reason for cause in found.causes] == ["QueueLimit", "FitsNow"]
    assert found.first.name == "default/waiting"
    assert any("raise the limit of queue a" in change.text for change in found.first.changes)
    assert as_object(found)["queue"][1]["firstWaiting"] == {
        "pod": "default/waiting",
        "message": "a holds 4 of 4 nvidia.com/gpu; ml has 2 free of 8",
    }


def test_only_the_pods_of_the_queue_and_of_those_below_are_its():
    assert explained(FULL, "b", changes=False).pods == 2
    assert [row.name for row in explained(FULL, "b", changes=False).queue] == ["b"]


def test_an_invalid_queue_is_explained_too():
    (row,) = explained(cluster(NODES, [waits("x")], [queue("x", parent="gone")]), "x").queue
    assert row.problem == "spec.parent: queue 'gone' does not exist"
    (row,) = explained(cluster(NODES, [waits("x")], [queue("x", priority="high")]), "x").queue
    assert row.problem == "spec.priority: expected a whole number, got string 'high'"


@pytest.mark.parametrize("word", ["queue", "squeue", "schedulingqueues", "SchedulingQueue", "queues.podwright.dev"])
def test_kubectls_words_name_queues(word):
    assert str(parse_target(f"{word}/ml", "default")) == "SchedulingQueue ml"


def test_a_queue_that_is_not_there_has_a_hint():
    with pytest.raises(TargetError, match=r"SchedulingQueue mk is not in the cluster; did you mean 'ml'\?"):
        explained(FULL, "mk")


def test_a_pod_whose_queue_exists_gets_no_hint_about_its_name():
    given = cluster(NODES, [waits("lab")], [limit("lab", state="Hold"), limit("labs")])
    assert given.explain(waits("lab"), changes=False).causes[0].text.endswith("queue lab is in state Hold")


def test_a_pod_without_room_says_how_its_queue_stands():
    one = [node("one", allocatable={GPU: "4"})]
    given = cluster(one, [runs("a1", "a", "4"), waits("a")], [limit("a"), limit("b")])
    assert "its queue a has 4 of its share of 4 nvidia.com/gpu" in given.explain(waits("a")).notes


def test_what_fits_now_is_not_promised_to_a_pod_that_its_queue_forbids():
    assert FULL.explain(waits("a"), changes=False).state is PodState.PENDING
    assert FULL.explain(waits("b", "1", "later"), changes=False).state is PodState.FITS


def test_a_search_leaves_queues_as_they_were():
    loaded = FULL.load()
    before, pod = copy_of(loaded), waits("a")
    assert explain_pod(loaded, parse_pod(pod, keep_raw=True), raw=pod).changes
    assert copy_of(loaded) == before


def running(name, seconds=None, owner="", phase="Running", expected="", **options):
    """A pod of queue a with 4 GPUs that started at 12:00, and may run for so long."""
    raw = runs(name, "a", "4", **options)
    if expected:
        raw["metadata"]["annotations"] = {"podwright.dev/run-time": expected}
    if seconds:
        raw["spec"]["activeDeadlineSeconds"] = seconds
    if owner:
        reference = {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": owner, "controller": True}
        raw["metadata"]["ownerReferences"] = [reference]
    raw["status"] = {"phase": phase, "startTime": "2026-01-01T12:00:00Z"}
    return raw


@pytest.mark.parametrize(
    ("pods", "text", "at"),
    [
        pytest.param(
            [running("a1", 3600)],
            "within 1h0m0s, once default/a1 has ended",
            "2026-01-01T13:00:00Z",
            id="a declared end",
        ),
        pytest.param(
            [running("a1", 3600, expected="20m")],
            "in 20m0s if pods run for as long as is expected, once default/a1 has ended",
            "2026-01-01T12:20:00Z",
            id="an expected end before the declared one",
        ),
        pytest.param(
            [running("a1", owner="job"), running("before", owner="job", phase="Succeeded")],
            "in 10m0s if pods run for as long as is expected, once default/a1 has ended",
            "2026-01-01T12:10:00Z",
            id="the time of the owner's earlier pods",
        ),
        pytest.param(
            [running("a1")], "unknown: nobody knows when default/a1 ends, which would have to.", None, id="no time"
        ),
    ],
)
def test_a_waiting_pod_says_when_it_could_start(pods, text, at):
    for each in pods:
        if each["status"]["phase"] == "Succeeded":
            ended = {"terminated": {"finishedAt": "2026-01-01T12:10:00Z", "message": "secret"}}
            each["status"]["containerStatuses"] = [{"name": "c", "state": ended}]
    given = cluster(NODES, [*pods, waits("a")], TREE)
    noon = 1_767_268_800.0
    items = [redacted(str(each["kind"]), each) for each in given.items()]
    assert "secret" not in str(items)
    loaded = load(Snapshot(objects=items, taken_at=noon))
    pod = waits("a")
    before = copy_of(loaded)
    found = explain_pod(loaded, parse_pod(pod, keep_raw=True), raw=pod)
    assert found.start is not None
    assert found.start.text.startswith(text)
    assert as_object(found)["start"].get("at") == at
    assert copy_of(loaded) == before
    waiting = [change.text for change in found.changes if change.text.startswith("wait until")]
    if at:
        assert any("(expected in " in each for each in waiting), waiting


ENTITLED = queue("b", resources={GPU: {"guarantee": 2}})


@pytest.mark.parametrize(
    ("queues", "of", "deadline", "text", "at"),
    [
        pytest.param(
            [queue("a", reclaimMinRuntime="30m"), ENTITLED],
            "b",
            None,
            "in 20m0s, when reclaimMinRuntime no longer protects default/a1, which it preempts then",
            "2026-01-01T12:30:00Z",
            id="of another queue",
        ),
        pytest.param(
            [queue("a", preemptMinRuntime="1h", resources={GPU: {"guarantee": 4}})],
            "a",
            None,
            "in 50m0s, when preemptMinRuntime no longer protects default/a1, which it preempts then",
            "2026-01-01T13:00:00Z",
            id="of its own queue",
        ),
        pytest.param(
            [queue("a", reclaimMinRuntime="30m"), ENTITLED],
            "b",
            900,
            "within 5m0s, once default/a1 has ended",
            "2026-01-01T12:15:00Z",
            id="after its end",
        ),
        pytest.param(
            [limit("a"), ENTITLED],
            "b",
            3600,
            "as soon as default/a1, which it preempts, has ended",
            "2026-01-01T12:10:00Z",
            id="of a queue without one",
        ),
    ],
)
@pytest.mark.parametrize("grouped", [False, True], ids=["pod", "group"])
def test_a_pod_waits_for_the_min_runtime_of_its_victim(queues, of, deadline, text, at, grouped):
    one, spec = [node("one", allocatable={GPU: "4"})], in_group("gang") if grouped else {}
    pod = waits(of, "2", priority=1, spec=spec)
    given = cluster(one, [running("a1", deadline), pod], queues, [gang(1)] if grouped else [])
    loaded = load(Snapshot(objects=given.items(), taken_at=1_767_268_800.0 + 600))
    before = copy_of(loaded)
    found = explain_pod(loaded, parse_pod(pod, keep_raw=True), raw=pod)
    assert (found.start.text, found.start.at) == (text, at)
    assert copy_of(loaded) == before


def test_what_never_fits_has_no_start():
    given = cluster(NODES, [running("a1", 3600), waits("a", "9")], TREE)
    assert given.explain(waits("a", "9")).start.text == "unknown: it would not start even if all running pods had ended"


def test_a_group_could_start_when_enough_pods_have_ended():
    members = [waits("a", "2", f"m-{i}", spec=in_group("gang")) for i in range(2)]
    given = cluster(NODES, [running("a1", 3600), *members], TREE, [gang(2)])
    assert "once default/a1 has ended" in given.explain(members[0]).start.text


def test_a_pod_without_queue_and_group_has_no_estimate():
    one = [node("one", allocatable={GPU: "4"})]
    given = cluster(one, [runs("a1", "", "4"), waits("")], TREE)
    assert given.explain(waits("")).start is None


class TestFlavors:
    QUEUE = queue(
        "ml",
        flavors=[{"name": "h100", "nodeSelector": {"model": "H100"}, "resources": {GPU: {"limit": 2}}}],
    )
    NODES = (node("h", labels={"model": "H100"}, allocatable={GPU: "8", "cpu": "8", "pods": "110"}),)

    def test_the_limit_of_a_flavor_that_would_help_is_named_and_proved(self):
        given = cluster(self.NODES, [runs("a1", "ml", "2", "h"), waits("ml", "1")], [self.QUEUE])
        found = given.explain(waits("ml", "1"))
        assert found.causes[0].reason == "QueueLimit"
        assert "ml holds 2 of 2 nvidia.com/gpu@h100" in found.causes[0].text
        (raised,) = [change for change in found.changes if "raise the limit" in change.text]
        assert raised.text == "raise the limit of queue ml by 1 nvidia.com/gpu@h100, from 2 to 3"
        [flavor] = raised.edits[0].object["spec"]["flavors"]
        assert flavor == {**self.QUEUE["spec"]["flavors"][0], "resources": {GPU: {"limit": "3"}}}
        assert any("wait until default/a1 ends" in change.text for change in found.changes)

    def test_a_node_that_is_refused_beside_one_that_is_too_small_says_so(self):
        small = node("s", allocatable={GPU: "0", "cpu": "8", "pods": "110"})
        other = node("o", allocatable={GPU: "1", "cpu": "8", "pods": "110"})
        given = cluster(
            [*self.NODES, small, other],
            [runs("a1", "ml", "2", "h"), runs("b1", "other", "1", "o"), waits("ml", "1")],
            [self.QUEUE, queue("other")],
        )
        found = given.explain(waits("ml", "1"))
        texts = [cause.text for cause in found.causes]
        assert any("nvidia.com/gpu@h100" in text for text in texts), texts


@pytest.mark.parametrize("grouped", [False, True], ids=["pod", "group"])
def test_room_that_is_held_for_others_is_named_as_the_cause(grouped):
    held = {
        "apiVersion": "podwright.dev/v1alpha1", "kind": "Reservation",
        "metadata": {"name": "gang-u", "creationTimestamp": "2026-01-01T12:00:00Z"},
        "spec": {
            "namespace": "x", "podGroup": {"apiGroup": "scheduling.k8s.io", "name": "g", "uid": "u"}, "duration": "1h",
            "slots": [{"node": "one", "requests": {GPU: "3"}}],
        },
    }  # fmt: skip
    one = [node("one", allocatable={GPU: "4"})]
    spec = in_group("gang") if grouped else {}
    pods = [waits("b", "2", f"p-{i}", spec=spec) for i in range(2 if grouped else 1)]
    given = cluster(one, pods, [*TREE, held], [gang(2)] if grouped else [])
    items = given.items()
    loaded = load(Snapshot(objects=items, taken_at=1_767_268_800.0))
    assert loaded.problems == []
    before = copy_of(loaded)
    cause = explain_pod(loaded, parse_pod(pods[0], keep_raw=True), raw=pods[0]).cause
    assert (cause.reason, cause.text) == (
        "RoomHeld",
        "there would be room on one, which is held by Reservation gang-u for pod group x/g until 2026-01-01T13:00:00Z",
    )
    assert copy_of(loaded) == before
    later = load(Snapshot(objects=items, taken_at=1_767_268_800.0 + 3600))
    assert explain_pod(later, parse_pod(pods[0], keep_raw=True), raw=pods[0]).state is PodState.FITS
