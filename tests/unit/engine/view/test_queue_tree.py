"""The queues of teams as the page gets them: in the order of a tree, and bounded."""

from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.queues.queues import QUEUE_LABEL, QueueRules, queues_of
from podwright.core.queues.tree import Quota
from podwright.core.state.cache import Cache
from podwright.engine.process.steps import at_once
from podwright.engine.view.queues import (
    MOST_QUEUES,
    MOST_RESOURCES,
    QueueLine,
    QueueTreeView,
    queue_tree,
)
from support.objects.builders import make_node, make_pod
from support.page.teams import GPU, teams


def test_a_tree_has_what_each_queue_has_and_may_have():
    cache = Cache()
    teams(cache)
    found = at_once(queue_tree(queues_of(cache)))
    assert found.resources == (GPU, "cpu")
    assert [(line.name, line.depth, line.state, line.waiting, line.amounts[:1]) for line in found.lines] == [
        ("ml", 0, "Open", 12, ((30, 40, 32, 40, (("web", 2),)),)),
        ("ml-products", 1, "Open", 12, ((6, 22, 16, None, (("ml-research", 10),)),)),
        ("ml-products-nightly", 2, "Hold", 0, ((0, 0, 0, None, ()),)),
        ("ml-products-training", 2, "Open", 12, ((6, 22, 0, None, ()),)),
        ("ml-research", 1, "Open", 0, ((24, 18, 12, None, (("ml-products", 10),)),)),
        ("web", 0, "Open", 0, ((2, 2, 0, 8, (("ml", 2),)),)),
        ("lost", 0, "", 0, ()),
    ]
    assert found.lines[-1].problem == "spec.parent: queue 'nowhere' does not exist"
    assert found.count == 7


def test_without_queues_there_is_nothing():
    assert at_once(queue_tree(queues_of(Cache()))) == QueueTreeView((), (), 0)


def test_if_no_queue_names_a_resource_there_is_what_their_pods_have():
    cache, queues = Cache(), (QueueRules("a"), QueueRules("b", "a"))
    cache.set_node(parse_node(make_node("n")))
    cache.set_pod(parse_pod(make_pod("p", labels={QUEUE_LABEL: "b"}, requests={"cpu": "1", GPU: "2"}, node="n")))
    for queue in queues:
        queues_of(cache).set(queue)
    found = at_once(queue_tree(queues_of(cache)))
    assert found.resources == (GPU, "cpu")
    assert [line.amounts for line in found.lines] == [((2, 0, 0, None, ()), (1000, 0, 0, None, ()))] * 2


def test_many_queues_and_resources_are_bounded_and_read_in_steps():
    cache = Cache()
    cache.set_node(parse_node(make_node("n")))
    queues = queues_of(cache)
    for index in range(MOST_QUEUES + 100):
        quotas = {f"example.com/r{index % 9}": Quota(limit=1), "cpu": Quota()}
        queues.set(QueueRules(f"q{index:04}", quotas=quotas))
    queues.set(QueueRules("a-first", "q0000"))
    reading, steps = queue_tree(queues), 0
    try:
        while True:
            next(reading)
            steps += 1
    except StopIteration as end:
        found = end.value
    assert len(found.lines) == MOST_QUEUES
    assert found.count == MOST_QUEUES + 101
    assert [line.name for line in found.lines[:3]] == ["q0000", "a-first", "q0001"]
    assert len(found.resources) == MOST_RESOURCES
    assert steps >= 2 * MOST_QUEUES


def test_a_queue_that_goes_between_two_steps_is_left_out():
    queues = queues_of(Cache())
    for index in range(10):
        queues.set(QueueRules(f"q{index:04}"))
    reading = queue_tree(queues)
    for _ in range(15):
        next(reading)
    queues.remove("q0009")
    assert len(at_once(reading).lines) == 9


def test_a_queue_that_was_never_valid_is_there_with_its_problem():
    queues = queues_of(Cache())
    queues.refuse("a", "SchedulingQueue a: spec: a value is required")
    found = at_once(queue_tree(queues))
    assert [(line.name, line.problem) for line in found.lines] == [
        ("a", "SchedulingQueue a: spec: a value is required")
    ]
    assert found.count == 1


def test_a_text_is_cut():
    queues = queues_of(Cache())
    queues.set(QueueRules("a", "x" * 5000))
    (line,) = at_once(queue_tree(queues)).lines
    assert isinstance(line, QueueLine)
    assert len(line.problem) == 300
