"""Many pods that come or go together change all counts as they would one by one."""

from __future__ import annotations

import random

import pytest

from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.objects.selectors import NOTHING, parse_label_selector
from podwright.core.preemption.placed_priorities import PlacedPriorities
from podwright.core.state.cache import Cache
from podwright.core.state.observers import MANY, batch_of, one_by_one
from podwright.core.state.podindex.matches import MatchIndex
from podwright.core.state.podindex.pod_selector import PodSelector
from support.objects.builders import make_node, make_pod

ROWS = 8
SELECTORS = [
    PodSelector(parse_label_selector(raw, "selector"), frozenset(["default"]), NOTHING)
    for raw in (
        {},
        {"matchLabels": {"app": "a"}},
        {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["b"]}]},
    )
]


def pods(count, seed=0):
    chance = random.Random(seed)
    return [
        (
            parse_pod(
                make_pod(
                    f"p{number}",
                    namespace=chance.choice(["default", "default", "other"]),
                    labels={"app": chance.choice("abc")},
                    priority=chance.randrange(3),
                )
            ),
            chance.randrange(ROWS),
        )
        for number in range(count)
    ]


def cache():
    made = Cache()
    for number in range(ROWS):
        made.set_node(parse_node(make_node(f"n{number}")))
    return made


def columns(index):
    return [index.counter((selector,)).column(ROWS).tolist() for selector in SELECTORS]


@pytest.mark.parametrize("read_between", [True, False])
def test_counts_after_batches_equal_a_recount(read_between):
    index, recount = (MatchIndex(cache().table, lambda _name: {}) for _ in range(2))
    staying, moving = pods(30, 1), pods(200, 2)
    for pod, slot in staying + moving:
        index.pod_added(pod, slot)
    before = columns(index)
    batch = batch_of(index, moving)
    for present in (False, True, False):
        batch(present)
        if read_between:
            columns(index)
    one_by_one(recount, staying)(True)
    assert columns(index) == columns(recount)
    batch(True)
    assert columns(index) == before


def test_the_priorities_of_placed_pods_follow_batches():
    priorities, low = PlacedPriorities(), [each for each in pods(100) if each[0].priority == 0]
    high = [each for each in pods(100) if each[0].priority == 2]
    one_by_one(priorities, low + high)(True)
    batch_of(priorities, low)(False)
    assert not priorities.any_below(1)
    assert priorities.any_below(3)
    batch_of(priorities, low)(True)
    assert priorities.any_below(1)


def test_each_observer_learns_of_many_pods_that_are_removed_and_restored():
    made = cache()
    spec = {"containers": [{"name": "c", "image": "i", "ports": [{"hostPort": 80, "containerPort": 80}]}]}
    for number in range(2 * MANY):
        made.set_pod(parse_pod(make_pod(f"p{number}", node=f"n{number % ROWS}", labels={"app": "a"}, spec=spec)))
    index = made.pods_index
    counts = [index.counter((SELECTORS[1],)).column(ROWS).tolist()]
    by_node = {name: list(info.pods.values()) for name, info in made.nodes.items()}
    made.remove_pods(by_node)
    assert index.counter((SELECTORS[1],)).column(ROWS).tolist() == [0] * ROWS
    made.restore_pods(by_node, ())
    assert [index.counter((SELECTORS[1],)).column(ROWS).tolist()] == counts
