"""What queues of teams cost a decision, in calls, which do not vary between runs."""

from benchmarks.core.decisions import plain

from podwright.core.queues.queues import QUEUE_LABEL, QueueRules, queues_of
from podwright.core.queues.tree import Quota
from support.costs.operation_counts import count_calls

NODES = 250
FURTHER, FURTHER_IN_QUEUE = 10, 40
"""The most further calls of Python functions for a pod without a queue, and for one in a queue of the second level."""


def declare(count):
    def change(world):
        for number in range(count):
            parent = "q0" if number else ""
            queues_of(world.cache).set(QueueRules(f"q{number}", parent, quotas={"cpu": Quota(limit=10**9)}))

    return change


def declare_and_remove(world):
    declare(10)(world)
    for number in reversed(range(10)):
        queues_of(world.cache).remove(f"q{number}")


def in_queue(index, name):
    raw = plain(index, name)
    raw["metadata"]["labels"][QUEUE_LABEL] = "q1"
    return raw


def calls(pending, change=lambda _world: None):
    return count_calls(plain, pending, NODES, change)[0]


def test_without_queues_no_call_is_added_also_after_the_last_one_is_gone():
    assert calls(plain, declare_and_remove) == calls(plain)


def test_the_calls_for_a_pod_do_not_depend_on_the_number_of_queues():
    before = calls(plain)
    assert calls(plain, declare(10)) == calls(plain, declare(1000)) <= before + FURTHER
    assert calls(in_queue, declare(10)) == calls(in_queue, declare(1000)) <= before + FURTHER_IN_QUEUE
