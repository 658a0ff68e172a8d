"""Promises to queues, over generated histories: nobody takes what a queue keeps, nothing is evicted in vain, minimum
runtimes and budgets hold, and evictions end when the world rests. So they do while gangs gather room, which is held for
those that wait, on nodes that exist.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from podwright.core.queues.rules import QueueRules
from support.gangs.highs import by_highs
from support.properties import case_count
from support.queues.histories import IN_FLAVORS, History
from support.queues.reclaims import GPU, queue

HISTORIES = case_count("PODWRIGHT_RECLAIMS", 4)
"""Each has 100 steps, and rounds of the scheduler between them."""
GATHERS = 36
"""The seed of a history in which gangs gather room."""


@pytest.mark.parametrize(
    "resources",
    [(GPU,), (GPU, "cpu"), IN_FLAVORS, (*IN_FLAVORS, GPU, "cpu")],
    ids=["GPUs alone", "GPUs and CPU", "GPUs in flavors", "GPUs in flavors and of all nodes, and CPU"],
)
@pytest.mark.parametrize("seed", range(HISTORIES))
@pytest.mark.parametrize("solve", [None, by_highs], ids=["as they are found", "the fewest"])
def test_evictions_keep_the_promises_and_end(seed, resources, solve):
    history = History(seed, resources)
    history.solve = solve
    history.happen(0.3)


@pytest.mark.parametrize("seed", [GATHERS, *range(100, 99 + HISTORIES)])
def test_they_do_beside_gangs_that_gather_room(seed):
    history = History(seed, (GPU, "cpu"), gathers=True)
    history.happen(0.5)
    assert history.gathered or seed != GATHERS


def history(*queues: QueueRules, gpus: int, seed: int, deep: bool) -> History:
    """`deep`: each queue at the top is below one of its own that says the same."""
    if deep:
        top = [rules for rules in queues if not rules.parent]
        queues = (
            *(replace(rules, name=f"above-{rules.name}") for rules in top),
            *(replace(rules, parent=rules.parent or f"above-{rules.name}") for rules in queues),
        )
    made = History(seed, queues=queues)
    made.node(gpus)
    return made


SEEDS = pytest.mark.parametrize("seed", range(4))
"""Of the order in which waiting pods are tried, and of the time that victims take to end."""


@SEEDS
@pytest.mark.parametrize("deep", [False, True], ids=["flat", "deep"])
class TestLoopsOfPeers:
    def test_a_pod_that_exceeds_the_share_of_its_queue_is_not_evicted_if_the_queue_would_have_less(self, seed, deep):
        """volcano #4947: the queue with 3 of 8 runs a pod of 4. The other one, with 5, runs 1 and wants 4 more."""
        world = history(
            queue("one", gpu={"guarantee": 3}), queue("two", gpu={"guarantee": 5}), gpus=8, seed=seed, deep=deep
        )
        world.waits("one", 4)
        world.waits("two", 1)
        world.settle()
        world.waits("two", 4)
        world.settle()
        assert (world.evictions, world.held("one"), world.held("two")) == (0, 4, 1)

    def test_an_evicted_pod_does_not_return_before_its_preemptor(self, seed, deep):
        """The same in smaller pods: then the share is taken back, once."""
        world = history(
            queue("one", gpu={"guarantee": 3}), queue("two", gpu={"guarantee": 5}), gpus=8, seed=seed, deep=deep
        )
        for _ in range(4):
            world.waits("one")
        world.waits("two")
        world.settle()
        world.waits("two", 4)
        world.settle()
        assert (world.evictions, world.held("one"), world.held("two")) == (1, 3, 5)

    def test_a_guaranteed_queue_in_a_department_gets_its_room_once(self, seed, deep):
        """kueue #3779: beside a department with a guarantee of everything, two others use what it leaves."""
        queues = [queue("guaranteed", gpu={"guarantee": 6}), queue("g", "guaranteed"), queue("a"), queue("b")]
        world = history(*queues, gpus=6, seed=seed, deep=deep)
        for name, gpus in (("a", 2), ("a", 2), ("b", 1), ("b", 1)):
            world.waits(name, gpus)
        world.settle()
        world.waits("g", 1)
        world.settle()
        assert world.evictions == 1
        world.waits("g", 2)
        world.settle()
        assert (world.held("g"), world.evictions) == (3, 2)

    def test_a_queue_above_its_guarantee_takes_nothing_from_one_within_its_share(self, seed, deep):
        """kueue #3779, the second form: a queue far above its guarantee wants one more from a small one."""
        queues = [queue("a", gpu={"guarantee": 3}), queue("b", gpu={"guarantee": 3}), queue("effort")]
        world = history(*queues, gpus=6, seed=seed, deep=deep)
        world.waits("a", 5, 10)
        world.waits("effort")
        world.settle()
        world.waits("a", 1, 10)
        world.settle()
        assert (world.evictions, world.held("a"), world.held("effort")) == (0, 5, 1)

    def test_gangs_take_half_of_the_cluster_from_gangs(self, seed, deep):
        """kueue #7101: four gangs of two fill the cluster. Of the other project's gangs of six, five, four and three,
        that of four fits its share, or that of three.
        """
        world = history(queue("one"), queue("two"), gpus=8, seed=seed, deep=deep)
        for _ in range(4):
            world.gang_waits("one", 2)
        world.settle()
        for size in (6, 5):
            world.gang_waits("two", size)
        world.settle()
        assert world.evictions == 0
        world.gang_waits("two", 4)
        world.settle()
        world.gang_waits("two", 3)
        world.settle()
        assert (world.evictions, world.held("one"), world.held("two")) == (4, 4, 4)

    def test_taking_from_the_own_queue_does_not_excuse_taking_from_others(self, seed, deep):
        """kueue #14543: pods of lower priority in its own queue make room for a gang, until these are spared again."""
        queues = [queue("x"), queue("y"), queue("x1", "x"), queue("x2", "x")]
        world = history(*queues, gpus=8, seed=seed, deep=deep)
        for _ in range(5):
            world.waits("x1")
        for _ in range(3):
            world.waits("y")
        world.settle()
        world.waits("y")
        world.gang_waits("x2", 2)
        world.settle()
        assert (world.held("y"), world.held("x2"), world.held("x1")) == (4, 2, 2)
        assert world.evictions == 3
