"""What an explanation says of queues, besides the causes and changes of `queue_situations`."""

import pytest

from podwright.core.objects.pod import parse_pod
from podwright.simulator.explain.explanation import explain_pod
from podwright.simulator.explain.results import State, as_object
from podwright.simulator.explain.targets import TargetError, explain_target, parse_target
from podwright.simulator.snapshot import Snapshot
from support.explain.objects import cluster, node
from support.explain.queue_situations import GPU, NODES, TREE, limit, runs, waits
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


@pytest.mark.parametrize("word", ["queue", "squeue", "schedulingqueues", "SchedulingQueue", "queues.podwright.dev"])
def test_kubectls_words_name_queues(word):
    assert str(parse_target(f"{word}/ml", "default")) == "SchedulingQueue ml"


def test_a_queue_that_is_not_there_has_a_hint():
    with pytest.raises(TargetError, match=r"SchedulingQueue mk is not in the cluster; did you mean 'ml'\?"):
        explained(FULL, "mk")


def test_a_pod_without_room_says_how_its_queue_stands():
    one = [node("one", allocatable={GPU: "4"})]
    given = cluster(one, [runs("a1", "a", "4"), waits("a")], [limit("a"), limit("b")])
    assert "its queue a has 4 of its share of 4 nvidia.com/gpu" in given.explain(waits("a")).notes


def test_what_fits_now_is_not_promised_to_a_pod_that_its_queue_forbids():
    assert FULL.explain(waits("a"), changes=False).state is State.PENDING
    assert FULL.explain(waits("b", "1", "later"), changes=False).state is State.FITS


def test_a_search_leaves_queues_as_they_were():
    loaded = FULL.load()
    before, pod = copy_of(loaded), waits("a")
    assert explain_pod(loaded, parse_pod(pod, keep_raw=True), raw=pod).changes
    assert copy_of(loaded) == before
