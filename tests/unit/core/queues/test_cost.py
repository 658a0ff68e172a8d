"""The cost of queues of teams for a decision, in calls, which do not vary between runs."""

import pytest
from benchmarks.core.decisions import plain

from podwright.api.queue_status import amounts_in
from podwright.core.objects.pod import parse_pod
from podwright.core.queue.fair_pods import MANY, PODS_PER_STEP, FairPods
from podwright.core.queue.queued_pod import QueuedPod
from podwright.core.queues.queues import QUEUE_LABEL, QueueRules, queues_of
from podwright.core.queues.tree import CLAIMS_PER_STEP, QueueSpec, QueueTree, Quota
from podwright.core.state.cache import Cache
from support.costs.call_counts import calls_of
from support.costs.operation_counts import count_calls, own_calls
from support.objects.builders import make_pod

NODES = 250
FURTHER, FURTHER_IN_QUEUE = 10, 26
"""The most further calls of Python functions for a pod without a queue, and for one in a queue of the second level."""
BESIDE_FLAVORS, IN_FLAVORS = 15, 85
"""The most further calls for these pods while any queue has quotas in flavors, and for one that counts in a flavor."""


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


def declare_flavors(resource):
    """Two flavors, in which one of ten queues has quotas of a resource."""

    def change(world):
        declare(10)(world)
        quotas = {name: Quota(limit=10**9) for name in ("cpu", f"{resource}@a", f"{resource}@b")}
        flavors = {"a": {"zone": "zone-0"}, "b": {"zone": "zone-1"}}
        queues_of(world.cache).set(QueueRules("q1", "q0", quotas=quotas, flavors=flavors))

    return change


def test_flavors_cost_little_for_pods_that_do_not_count_in_them():
    assert calls(plain, declare_flavors("cpu")) <= calls(plain, declare(10)) + BESIDE_FLAVORS
    in_none = calls(in_queue, declare(10))
    assert calls(in_queue, declare_flavors("nvidia.com/gpu")) <= in_none + BESIDE_FLAVORS
    assert in_none < calls(in_queue, declare_flavors("cpu")) <= in_none + IN_FLAVORS


@pytest.mark.parametrize("resource", [None, "cpu", "nvidia.com/gpu"])
def test_what_members_of_a_gang_request_is_asked_once_for_those_that_are_alike(resource):
    """`resource`: which a flavor bounds. Each member costs the two calls that find its queue."""
    quotas = {name: Quota(limit=10**6) for name in ("cpu", f"{resource}@a") if resource or name == "cpu"}

    def calls_of(count):
        queues = queues_of(Cache())
        queues.set(QueueRules("q", quotas=quotas, flavors={"a": {"zone": "a"}} if resource else {}))
        raws = [make_pod(f"m{number}", labels={QUEUE_LABEL: "q"}, requests={"cpu": "1"}) for number in range(count)]
        pods = [*map(parse_pod, raws)]
        for pod in pods:
            queues.add_waiting(pod)
        assert queues.bounds.of(pods[0]) is None  # all are counted
        with own_calls() as found:
            assert queues.bounds.together(pods, count) is None
        return found.total()

    assert calls_of(200) <= calls_of(100) + 200


def many_queues(count):
    """So many queues at the top, with as many below the first one, and a waiting pod in each."""
    queues = queues_of(Cache())
    for number in range(count):
        for name, parent in ((f"q{number}", ""), (f"below{number}", "q0")):
            queues.set(QueueRules(name, parent, quotas={"cpu": Quota(guarantee=1, limit=10**6)}))
            labels = {QUEUE_LABEL: name}
            queues.add_waiting(parse_pod(make_pod(f"p-{name}", labels=labels, requests={"cpu": "1"})))
    queues.shared_out()
    return queues


CHANGES = {
    "an edit": lambda queues: queues.set(QueueRules("q5", quotas={"cpu": Quota(guarantee=7)})),
    "another priority": lambda queues: queues.set(QueueRules("q5", "", 5, {"cpu": Quota()})),
    "a new queue": lambda queues: queues.set(QueueRules("new", "q0", quotas={"cpu": Quota()})),
    "another parent": lambda queues: queues.set(QueueRules("below5", "q1", quotas={"cpu": Quota()})),
    "a queue that is deleted": lambda queues: queues.remove("below5"),
    "one that lends less": lambda queues: queues.set(lends("below5", "q0", 0)),
    "one that lends all again": lambda queues: [queues.set(lends("below5", "q0", most)) for most in (0, 1)],
    "one that lends less elsewhere": lambda queues: [queues.set(lends("below5", top, 0)) for top in ("q0", "q1")],
    "an edit beside one that lends less": lambda queues: [
        queues.set(lends("below5", "q0", 0)),
        queues.set(QueueRules("q5", quotas={"cpu": Quota(guarantee=7)})),
    ],
}


def lends(name, parent, most):
    return QueueRules(name, parent, quotas={"cpu": Quota(guarantee=1, limit=10**6)}, lending={"cpu": most})


@pytest.mark.parametrize("lost", [(), (QueueRules("lost", "nowhere"), QueueRules("below-lost", "lost"))])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_of_one_queue_costs_the_same_beside_many(change, lost):
    """Also beside queues that are `lost`: invalid."""

    def calls_of(count):
        queues = many_queues(count)
        for rules in lost:
            queues.set(rules)
        queues.names()
        with own_calls() as found:
            change(queues)
            assert queues.get("q1") is not None
            queues.bounds.of(parse_pod(make_pod("p", labels={QUEUE_LABEL: "q1"}, requests={"cpu": "1"})))
        return found.total()

    assert calls_of(200) <= calls_of(20) + 20


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda queues, number: queues.remove(f"q{number}"), id="parents are deleted"),
        pytest.param(
            lambda queues, number: queues.set(QueueRules(f"q{number}", "q0")), id="queues change their parents"
        ),
        pytest.param(lambda queues, number: queues.set(QueueRules(f"q{number}", state="Hold")), id="queues are shut"),
    ],
)
def test_many_changes_build_the_tree_once(change):
    def calls_of(count):
        queues = many_queues(100)
        for number in range(100):
            queues.set(QueueRules(f"leaf{number}", f"q{number}", quotas={"cpu": Quota()}))
        queues.shared_out()
        with own_calls() as found:
            for number in range(1, count + 1):
                change(queues, number)
            queues.names()
        return found["QueueTree.__init__"], found.total()

    (built, few), (built_too, many) = calls_of(5), calls_of(50)
    assert built <= 1 >= built_too
    assert many < few + 100 * 45


def test_the_capacity_of_many_flavors_is_one_sum_over_nodes_for_each_resource():
    """Also for the statuses of all queues at the top. With many flavors, shares are computed less often."""
    queues, resources = queues_of(Cache()), ("cpu", "memory")
    names = [f"q{number}" for number in range(20)]
    for name in names:
        flavors = {f"{name}-{number}": {"kubernetes.io/hostname": name} for number in range(10)}
        quotas = {f"{resource}@{flavor}": Quota(limit=8) for resource in resources for flavor in flavors}
        queues.set(QueueRules(name, quotas=quotas, flavors=flavors))
    with own_calls() as found:
        tree = queues.shared_out()
        for name in names:
            amounts_in(queues, name)
    assert found["NodeTable.requested"] == len(resources)
    assert found["Flavors.nodes_of"] == 0
    tree.steps = len(tree.resources) // CLAIMS_PER_STEP
    assert not tree.worth_sharing_out


def test_shares_of_resources_that_single_queues_request_cost_in_proportion_to_them():
    def calls(count):
        names = {f"q{queue}": [f"r{queue}-{number}" for number in range(8)] for queue in range(count)}
        specs = [QueueSpec(name, quotas=dict.fromkeys(resources, Quota())) for name, resources in names.items()]
        tree = QueueTree(specs, {resource: 4 for each in names.values() for resource in each})
        for name, resources in names.items():
            tree.add_demand(name, dict.fromkeys(resources, 8))
        return calls_of(tree.compute_shares)

    assert calls(80) <= 2.2 * calls(40)


def test_pods_that_come_while_queues_are_listed_build_no_tree():
    """Also where queues come before those above them, so that each is invalid at first."""
    cache = Cache()
    queues = queues_of(cache)
    queues.set(QueueRules("top"))
    order = FairPods(queues.turns)
    with own_calls() as found:
        for number in range(50):
            queues.set(QueueRules(f"q{number}", f"above{number}"))
            pod = parse_pod(make_pod(f"p{number}", labels={QUEUE_LABEL: f"q{number}"}, requests={"cpu": "1"}))
            queues.add_waiting(pod)
            order.push(pod.uid, number, QueuedPod(pod=pod, queued_at=0.0, timestamp=0.0))
            queues.set(QueueRules(f"above{number}", "top"))
        popped = [order.pop().pod.name for _ in range(50)]
    assert popped == [f"p{number}" for number in range(50)]
    assert found["QueueTree.__init__"] == 1
    assert not order


def test_many_pods_are_put_in_their_queues_in_steps_also_after_queues_have_moved():
    queues = many_queues(20)
    order = FairPods(queues.turns)
    for number in range(3000):
        pod = parse_pod(make_pod(f"p{number}", labels={QUEUE_LABEL: f"below{number % 3}"}))
        order.push(pod.uid, number, QueuedPod(pod=pod, queued_at=0.0, timestamp=0.0))

    def most_calls():
        steps, most = order.sort(), 0
        while order.is_unsorted:
            with own_calls() as found:
                next(steps)
            most = max(most, found.total())
        return most

    most_calls()  # builds the tree
    assert most_calls() == 0
    with own_calls() as found:
        assert order.pop().pod.name == "p0"
    assert found["FairPods._put"] <= MANY
    queues.set(QueueRules("below0", "q2"))
    assert 0 < most_calls() < 30 * PODS_PER_STEP
    assert sorted(order.pop().pod.name for _ in range(2999)) == sorted(f"p{number}" for number in range(1, 3000))


def test_whose_turn_it_is_is_not_asked_for_a_pod_without_others():
    queues = many_queues(20)
    order = FairPods(queues.turns)
    with own_calls() as found:
        for number, name in enumerate(("q1", "below1", "nowhere")):
            pod = parse_pod(make_pod(f"p{number}", labels={QUEUE_LABEL: name}, requests={"cpu": "1"}))
            order.push(pod.uid, number, QueuedPod(pod=pod, queued_at=0.0, timestamp=0.0))
            assert order.pop().pod is pod
            assert order.pop() is None
    assert (found["Turns.order_key"], found["FairPods._line"]) == (0, 0)
    assert not order


def test_shares_cost_what_is_requested_and_not_what_is_named():
    """Each queue names a resource of its own, as with flavors of its own, and its pod requests this one."""

    def claims(count):
        specs = [QueueSpec(f"q{i}", "", quotas={f"example.com/r{i}": Quota(guarantee=1)}) for i in range(count)]
        tree = QueueTree(specs, {f"example.com/r{i}": 8 for i in range(count)})
        for i in range(count):
            tree.add_demand(f"q{i}", {f"example.com/r{i}": 2})
        with own_calls() as found:
            shares = tree.shares()
        assert shares["q0"] == {f"example.com/r{i}": 2 if i == 0 else 0 for i in range(count)}
        return found["_claim"]

    assert (claims(10), claims(100)) == (10, 100)
