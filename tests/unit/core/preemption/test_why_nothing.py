"""The message for a pod or gang of a queue when nobody, or not enough, may be evicted for it."""

from __future__ import annotations

import pytest

from podwright.core.gangs.rules import without_counts
from support.costs.operation_counts import own_calls
from support.queues.reclaims import QueuedCluster, queue

RUNTIMES = {"reclaim_min_runtime": 7200.0, "preempt_min_runtime": 7200.0}
FIRM = {"firm_priority": 100}


def two(gpus=4, a=None, b=None, **options):
    """Queues a and b of equal weight on a node."""
    return QueuedCluster([gpus], [queue("a", gpu=a), queue("b", gpu=b, **options)])


def fill(cluster, of, count, **options):
    for number in range(count):
        cluster.runs(f"{of}{number}", of, "n0", **options)


def told(cluster, pod):
    decision = cluster.decide(pod)
    assert decision.victims == ()
    return decision.message.partition("preemption: ")[2]


@pytest.mark.parametrize(
    ("held", "gpus", "numbers"), [(2, 1, "2 of 2"), (3, 1, "3 of 2"), (1, 2, "1 of 2, and the pod requests 2")]
)
def test_a_pod_of_a_queue_at_its_share_is_told_what_it_has_and_its_share(held, gpus, numbers):
    cluster = two()
    fill(cluster, "a", held)
    fill(cluster, "b", 4 - held)
    cluster.waits("more", "b")
    assert told(cluster, cluster.waits("waits", "a", gpus)) == f"a is at its share of nvidia.com/gpu ({numbers})"


def test_the_queue_above_is_named_if_that_one_is_at_its_share():
    cluster = QueuedCluster([4], [queue("top"), queue("a", "top"), queue("c", "top"), queue("b")])
    cluster.runs("c0", "c", "n0", 2)
    cluster.runs("b0", "b", "n0", 2)
    cluster.waits("more", "b")
    assert told(cluster, cluster.waits("waits", "a")) == (
        "top is at its share of nvidia.com/gpu (2 of 2); c keeps its share of nvidia.com/gpu (1)"
    )


def test_a_guarantee_above_the_share_is_called_so():
    cluster = two(a={"guarantee": 4}, b={"guarantee": 4})
    fill(cluster, "b", 4)
    assert told(cluster, cluster.waits("waits", "a")) == "b keeps its guarantee of nvidia.com/gpu (4)"


@pytest.mark.parametrize(
    ("options", "pods", "expected"),
    [
        pytest.param(
            RUNTIMES,
            {},
            "are protected by reclaimMinRuntime (4, the first until 2023-11-14T23:13:20Z)",
            id="min runtime",
        ),
        pytest.param({}, {"labels": {"app": "x"}}, "are protected by PodDisruptionBudgets (4)", id="a budget"),
        pytest.param(FIRM, {"priority": 100}, "are not preemptible (4)", id="priority"),
    ],
)
def test_what_protects_pods_of_another_queue_is_told_with_how_many(options, pods, expected):
    cluster = two(**options)
    cluster.allow("x", 0)
    fill(cluster, "b", 4, **pods)
    waiting = cluster.waits("waits", "a")
    assert told(cluster, waiting) == f"pods of b {expected}"
    without = QueuedCluster([4], [queue("a"), queue("b")])
    fill(without, "b", 4)
    assert len(without.victims(without.waits("waits", "a"))) == 1


def test_what_protects_pods_of_the_own_queue_is_told_and_nothing_of_others_at_its_share():
    cluster = QueuedCluster([4], [queue("a", **RUNTIMES), queue("b", **RUNTIMES)])
    fill(cluster, "a", 2)
    fill(cluster, "b", 2)
    cluster.waits("more", "b")
    assert told(cluster, cluster.waits("waits", "a", priority=1)) == (
        "a is at its share of nvidia.com/gpu (2 of 2); "
        "pods of a are protected by preemptMinRuntime (2, the first until 2023-11-14T23:13:20Z)"
    )


def test_a_pod_for_which_too_few_may_be_evicted_is_told_what_keeps_the_others():
    cluster = two(8)
    fill(cluster, "b", 8, labels={"app": "x"})
    cluster.allow("x", 1)
    assert told(cluster, cluster.waits("waits", "a", 4)) == (
        "0/1 nodes are available: 1 Insufficient nvidia.com/gpu; pods of b are protected by PodDisruptionBudgets (7)"
    )


def test_a_limit_and_nodes_that_do_not_match_are_not_explained_by_shares():
    cluster = two(a={"limit": 2})
    fill(cluster, "a", 2)
    waiting = cluster.waits("waits", "a")
    assert told(cluster, waiting) == "No preemption victims found for incoming pod"
    cluster = two()
    fill(cluster, "a", 2)
    fill(cluster, "b", 2)
    cluster.waits("more", "b")
    elsewhere = cluster.waits("waits", "a", spec={"nodeSelector": {"there": "none"}})
    assert told(cluster, elsewhere) == "No preemption victims found for incoming pod"


@pytest.mark.parametrize(
    ("held", "options", "expected"),
    [
        (0, RUNTIMES, "pods of b are protected by reclaimMinRuntime (4, the first until 2023-11-14T23:13:20Z)"),
        (2, {}, "a is at its share of nvidia.com/gpu (2 of 2)"),
        (1, {}, "a is at its share of nvidia.com/gpu (1 of 2, and the pod group requests 2)"),
    ],
)
def test_a_gang_is_told_the_same(held, options, expected):
    cluster = two(**options)
    fill(cluster, "a", held)
    fill(cluster, "b", 4 - held)
    cluster.waits("more", "b")
    cluster.gang("g", "a", 2)
    assert cluster.decide_gang("g").message.endswith(f"pod group preemption: {expected}")


def test_messages_without_numbers_stay_while_the_cause_does():
    cluster = two(8)
    fill(cluster, "b", 8, labels={"app": "x"})
    waiting, found = cluster.waits("waits", "a", 4), set()
    for allowed in (0, 1, 2):
        cluster.allow("x", allowed)
        found.add(without_counts(told(cluster, waiting)).rpartition("; ")[2])
    assert found == {"pods of b are protected by PodDisruptionBudgets"}
    assert (
        without_counts("minCount (4) is not yet satisfied: 2 scheduled, 0 remaining")
        == "minCount (4) is not yet satisfied"
    )


def test_the_words_are_made_once_for_all_that_was_looked_at():
    def calls(pods):
        cluster = two(pods, **RUNTIMES)
        fill(cluster, "b", pods)
        waiting = cluster.waits("waits", "a")
        told(cluster, waiting)
        with own_calls() as found:
            told(cluster, waiting)
        return found["_text"], found["at_share"]

    assert calls(4) == calls(40) == (1, 0)
