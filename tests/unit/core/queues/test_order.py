"""Active pods of queues: the queue under its share first, then the one under its guarantee, then by priority and use."""

import pytest

from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.queues.queues import QUEUE_LABEL, QueueRules, queues_of
from podwright.core.queues.tree import Quota
from podwright.core.state.cache import Cache
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
        self.queue.order_by(self.queues)

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


def test_pods_keep_their_turn_when_the_first_queue_comes_and_the_last_one_goes():
    teams = Teams(a=("", 100, Quota()))
    for name in ("first", "second", "third"):
        teams.submit(name, "a")
        teams.clock.now += 1
    teams.queue.order_by(None)
    assert teams.queue.pop().pod.name == "first"
    teams.queue.order_by(teams.queues)
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
