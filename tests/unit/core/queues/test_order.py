"""Active pods of queues: the queue under its share first, then the one under its guarantee, then by priority and
use.
"""

from random import Random

import pytest

from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.queue import fair_pods, scheduling_queue
from podwright.core.queues import tree
from podwright.core.queues.queues import QUEUE_LABEL, QueueRules, queues_of
from podwright.core.queues.tree import Quota
from podwright.core.state.cache import Cache
from podwright.engine.process.steps import at_once
from support.hostile import objects
from support.objects.builders import make_node, make_pod
from support.queue.kit import Harness

GPU = "nvidia.com/gpu"


class Teams(Harness):
    """A queue of pods that queues order, on one node with 8 GPUs."""

    def __init__(self, **quotas):
        super().__init__()
        self.cache = Cache()
        self.cache.set_node(parse_node(make_node("n", allocatable={GPU: "8"})))
        self.queues = queues_of(self.cache)
        for name, (parent, priority, quota) in quotas.items():
            self.queues.set(QueueRules(name, parent, priority, {GPU: quota}))
        self.queue.order_by(self.queues.turns)

    def submit(self, name, queue, priority=0, requests=None):
        labels = {QUEUE_LABEL: queue} if queue else {}
        pod = parse_pod(make_pod(name, labels=labels, requests=requests or {GPU: "1"}, priority=priority))
        self.cache.groups.add_waiting(pod)
        self.queue.add(pod)

    def schedule(self):
        """Places all pods in their order, and returns their names."""
        names = []
        while (queued := self.queue.pop()) is not None:
            names.append(queued.pod.name)
            self.cache.assume(queued.pod, "n")
        return names


def test_queues_of_equal_rights_take_turns_however_many_pods_one_has():
    teams = Teams(a=("", 100, Quota()), b=("", 100, Quota()))
    for number in range(4):
        teams.submit(f"a{number}", "a")
    for number in range(2):
        teams.submit(f"b{number}", "b")
    assert teams.schedule() == ["a0", "b0", "a1", "b1", "a2", "a3"]


def test_a_queue_under_its_share_goes_before_one_of_higher_priority_above_its_share():
    teams = Teams(high=("", 200, Quota(limit=1)), low=("", 100, Quota()))
    for number in range(2):
        teams.submit(f"high{number}", "high")
        teams.submit(f"low{number}", "low")
    assert teams.schedule() == ["high0", "low0", "low1", "high1"]


def test_dominant_shares_follow_the_capacity(monkeypatch):
    monkeypatch.setattr(tree, "CLAIMS_PER_STEP", 10**9)
    teams = Teams(a=("", 100, Quota()), b=("", 100, Quota()))
    teams.queues.set(QueueRules("c", "", 100, {"cpu": Quota(), GPU: Quota()}))
    teams.cache.set_node(parse_node(make_node("n", allocatable={GPU: "8", "cpu": "10"})))
    teams.submit("a0", "a", requests={GPU: "2"})
    teams.submit("b0", "b", requests={"cpu": "2"})
    teams.schedule()
    for name, queue, requests in (("a1", "a", {GPU: "1"}), ("b1", "b", {"cpu": "1"}), ("b2", "b", {"cpu": "1"})):
        teams.submit(name, queue, requests=requests)
    assert teams.queue.pop().pod.name == "b1", "2 of 10 are less than 2 of 8"
    teams.cache.set_node(parse_node(make_node("m", allocatable={GPU: "16"})))
    assert teams.queue.pop().pod.name == "a1", "2 of 24 are less than 2 of 10"


def test_of_many_queues_each_is_ordered_by_a_new_capacity_after_some_turns_however_often_it_changes(monkeypatch):
    monkeypatch.setattr(fair_pods, "KEYS_PER_STEP", 2)
    names = [f"q{number}" for number in range(9)]
    teams = Teams(**{name: ("", 100, Quota()) for name in names})
    teams.queues.set(QueueRules("c", "", 100, {"cpu": Quota(), GPU: Quota()}))
    teams.cache.set_node(parse_node(make_node("n", allocatable={GPU: "90", "cpu": "10"})))
    for turn in range(3):
        teams.submit(f"c-{turn}", "c", requests={"cpu": "1"})
        for name in names:
            teams.submit(f"{name}-{turn}", name, requests={GPU: "1"})
        if not turn:
            teams.schedule()
    teams.queues.shared_out()
    popped = [teams.queue.pop().pod.name]
    for number in range(10):
        teams.cache.set_node(parse_node(make_node(f"m{number}", allocatable={"cpu": "1000"})))
        teams.queues.shared_out()
        popped.append(teams.queue.pop().pod.name)
    assert "c-1" in popped, "1 of 10,000 is less than 1 of 90"


def test_a_queue_below_its_guarantee_gets_its_turn_soon_whatever_has_changed_the_capacity_of_many():
    teams = Teams()
    teams.cache.set_node(parse_node(make_node("n", allocatable={"cpu": "2000", "pods": "5000"})))
    for number in range(1000):
        quota = Quota(guarantee=500_000 if number == 1 else 1000 if number else 0)
        teams.queues.set(QueueRules(f"q{number}", "", 100, {"cpu": quota}))
    for number in range(200):
        teams.submit(f"a{number}", "q0", requests={"cpu": "1"})

    def place(times):
        for attempt in range(times):
            queued = teams.queue.pop()
            if queued.pod.name.startswith("b"):
                return attempt
            teams.cache.assume(queued.pod, "n")
        return times

    place(50)
    for name in ("x", "y"):
        outside = parse_pod(make_pod(name, requests={"cpu": "1"}, node="n"))
        teams.cache.set_pod(outside)
        teams.queues.shared_out()
        teams.queue.pop()
    teams.submit("b", "q1", requests={"cpu": "1"})
    assert place(100) < 64


def test_a_pod_whose_queue_cannot_be_found_stops_no_others_and_gets_its_attempt():
    teams = Teams(a=("", 100, Quota()), b=("", 100, Quota()))
    for name, queue in (("a0", "a"), ("bad", ""), ("b0", "b")):
        teams.submit(name, queue)

    def choice(pod):
        raise RuntimeError(pod.name)

    teams.queues.membership.choice_by_policy = choice
    assert sorted(teams.queue.pop().pod.name for _ in range(3)) == ["a0", "b0", "bad"]
    assert teams.queue.pop() is None


def test_a_queue_whose_key_cannot_be_read_leaves_no_empty_queue_in_the_way(monkeypatch):
    teams = Teams(top=("", 100, Quota()), a=("top", 100, Quota()), b=("", 100, Quota()))
    teams.submit("a0", "a")
    teams.submit("b0", "b")
    key = teams.queues.turns.order_key

    def order_key(name):
        if name == "a":
            raise KeyError(name)
        return key(name)

    monkeypatch.setattr(teams.queues.turns, "order_key", order_key)
    assert sorted(teams.queue.pop().pod.name for _ in range(2)) == ["a0", "b0"]


def test_pods_at_bounds_take_turns_by_shares_also_if_no_pod_was_beside_another():
    teams = Teams(a=("", 100, Quota()), b=("", 200, Quota(weight=0)))
    teams.submit("b0", "b")
    assert teams.schedule() == ["b0"]
    pods = [parse_pod(make_pod(f"{name}1", labels={QUEUE_LABEL: name}, requests={GPU: "1"})) for name in "ab"]
    for pod in pods:
        teams.cache.groups.add_waiting(pod)
    assert teams.queues.turns.turn_key("a") < teams.queues.turns.turn_key("b"), "a is below its share"


def test_a_pod_that_asks_for_what_the_cluster_does_not_have_does_not_put_its_queue_last():
    teams = Teams(a=("", 200, Quota()), b=("", 100, Quota()))
    teams.queues.set(QueueRules("c", "", 100, {"example.com/fpga": Quota(), GPU: Quota()}))
    teams.submit("b0", "b")
    teams.submit("c0", "c")
    teams.submit("a0", "a")
    teams.submit("a1", "a", requests={"example.com/fpga": "1"})
    assert teams.queue.pop().pod.name == "a0"
    teams.submit("c1", "c", requests={"example.com/fpga": "1"})
    teams.queue.delete("default/c0")
    teams.cache.groups.remove_waiting("default/c0")
    assert teams.queue.pop().pod.name == "a1"
    assert [teams.queue.pop().pod.name for _ in range(2)] == ["b0", "c1"]


def test_shares_are_compared_at_each_level_from_the_top():
    teams = Teams(
        ml=("", 100, Quota(guarantee=6)),
        web=("", 100, Quota(guarantee=2)),
        train=("ml", 100, Quota(weight=0)),
        serve=("ml", 100, Quota(guarantee=6)),
    )
    for number in range(3):
        for name in ("train", "web", "serve"):
            teams.submit(f"{name}{number}", name)
    assert teams.schedule() == ["serve0", "web0", "serve1", "web1", "serve2", "train0", "train1", "train2", "web2"]


def test_pods_without_a_queue_go_by_priority_and_time_beside_the_pod_whose_turn_it_is():
    teams = Teams(a=("", 100, Quota()), b=("", 100, Quota()))
    teams.submit("a0", "a")
    teams.submit("urgent", "", priority=9)
    teams.clock.now += 1
    teams.submit("plain", "")
    teams.clock.now += 1
    teams.submit("b0", "b")
    teams.submit("nowhere", "gone", priority=1)
    assert teams.schedule() == ["urgent", "nowhere", "a0", "plain", "b0"]


@pytest.mark.parametrize("seed", range(10))
def test_pods_and_queues_may_come_and_go_while_pods_are_put_in_their_queues(monkeypatch, seed):
    monkeypatch.setattr(fair_pods, "MANY", 3)
    monkeypatch.setattr(fair_pods, "PODS_PER_STEP", 2)
    teams, random, left = Teams(a=("", 100, Quota()), b=("", 100, Quota())), Random(seed), {}
    for number in range(120):
        action = random.randrange(8)
        if action < 4:
            left[f"p{number}"] = random.choice("ab")
            teams.submit(f"p{number}", left[f"p{number}"], priority=random.randrange(3))
        elif action == 4 and left:
            name = random.choice([*left])
            teams.queue.delete(f"default/{name}")
            del left[name]
        elif action == 5 and left:
            name = random.choice([*left])
            teams.submit(name, left[name], priority=random.randrange(3))
        elif action == 6 and random.random() < 0.3:
            parent = random.choice(["", "above"])
            teams.queues.set(QueueRules("above"))
            teams.queues.set(QueueRules("a", parent))
        elif teams.queue.is_unsorted:
            next(teams.queue.sort())
        assert {queued.pod.name for queued in teams.queue.active()} == left.keys()
    popped = []
    while (queued := teams.queue.pop()) is not None:
        popped.append(queued.pod)
    assert sorted(pod.name for pod in popped) == sorted(left)
    for queue in "ab":
        priorities = [-pod.priority for pod in popped if left[pod.name] == queue]
        assert priorities == sorted(priorities)


def test_pods_are_popped_while_queues_and_the_capacity_change_all_the_time(monkeypatch):
    monkeypatch.setattr(scheduling_queue, "MANY", 3)
    monkeypatch.setattr(fair_pods, "MANY", 3)
    monkeypatch.setattr(fair_pods, "PODS_PER_STEP", 2)
    monkeypatch.setattr(tree, "CLAIMS_PER_STEP", 10**9)
    teams, popped = Teams(a=("", 100, Quota()), b=("", 100, Quota()), c=("", 100, Quota())), []
    for number in range(60):
        teams.submit(f"p{number}", "abc"[number % 3])
    for number in range(600):
        if number % 4 == 0:
            teams.queues.remove("c")
        elif number % 4 == 2:
            teams.queues.set(QueueRules("c"))
        teams.cache.set_node(parse_node(make_node("n", allocatable={GPU: str(8 + number % 2)})))
        if (queued := teams.queue.pop(if_sorted=True)) is None:
            next(teams.queue.sort(), None)
        else:
            popped.append(queued.pod.name)
    assert len(popped) == 60


def test_many_pods_whose_backoff_ends_are_put_in_their_queues_in_steps(monkeypatch):
    monkeypatch.setattr(scheduling_queue, "MANY", 3)
    monkeypatch.setattr(fair_pods, "MANY", 3)
    teams = Teams(a=("", 100, Quota()))
    for number in range(20):
        teams.submit(f"p{number}", "a", priority=number)
    for queued in [teams.queue.pop() for _ in range(20)]:
        teams.queue.fault(queued)
    teams.clock.now += 100
    assert teams.queue.pop(if_sorted=True) is None
    assert teams.queue.counts() == {"active": 4, "backoff": 16, "unschedulable": 0, "gated": 0}
    at_once(teams.queue.sort())
    assert teams.queue.counts()["backoff"] == 0
    assert teams.queue.pop(if_sorted=True).pod.name == "p19"


def test_many_pods_are_not_put_in_their_queues_at_once_to_decide_costly_pods_together(monkeypatch):
    monkeypatch.setattr(scheduling_queue, "MANY", 3)
    monkeypatch.setattr(fair_pods, "MANY", 3)
    teams = Teams(a=("", 100, Quota()))
    for number in range(3):
        spec = objects.required_anti_affinity(1_000)
        teams.queue.add(parse_pod(make_pod(f"big{number}", spec=spec, priority=10), keep_raw=True))
    assert teams.queue.pop().pod.name == "big0"
    assert teams.queue.pop_costly().pod.name == "big1"
    for number in range(4):
        teams.submit(f"p{number}", "a")
    assert teams.queue.pop_costly() is None
    at_once(teams.queue.sort())
    assert teams.queue.pop_costly().pod.name == "big2"


def test_pods_keep_their_turn_when_the_first_queue_comes_and_the_last_one_goes():
    teams = Teams(a=("", 100, Quota()))
    for name in ("first", "second", "third"):
        teams.submit(name, "a")
        teams.clock.now += 1
    teams.queue.order_by(None)
    assert teams.queue.pop().pod.name == "first"
    teams.queue.order_by(teams.queues.turns)
    teams.queue.delete("default/second")
    assert teams.schedule() == ["third"]


@pytest.mark.parametrize("parent", ["", "b"])
def test_an_edit_of_the_tree_moves_the_queues_with_active_pods(parent):
    teams = Teams(a=("", 100, Quota()), b=("", 100, Quota(limit=1)), c=("", 100, Quota(limit=1)))
    for name in ("a", "c"):
        teams.submit(name, name)
    teams.queues.set(QueueRules("a", parent, 100))
    teams.queues.set(QueueRules("c", "", 200))
    assert teams.schedule() == ["c", "a"]
