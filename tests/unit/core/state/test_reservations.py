"""Reservations: room that is held on nodes, for whom, and against whom."""

from __future__ import annotations

import random

import pytest

from podwright.core.cycle import Placement, Rejection
from podwright.core.objects.selectors import parse_label_selector
from podwright.core.queues.queues import QUEUE_LABEL
from podwright.core.state.reservations import Replaced, Reservation, Slot
from podwright.core.state.transaction import CacheTransaction
from support.queues.reclaims import GPU, NOW, QueuedCluster, queue

OURS = parse_label_selector({"matchLabels": {"for": "it"}}, "")
IT = {"for": "it"}


def reservation(*slots, name="held", priority=1000, until=NOW + 60, selector=OURS):
    return Reservation(name, "default", until, [Slot(node, {GPU: gpus}) for node, gpus in slots], selector, priority)


@pytest.fixture
def cluster():
    made = QueuedCluster([2, 2], [])
    made.cache.reservations.set(reservation(("n0", 2)))
    return made


def node_of(cluster, pod):
    decision = cluster.decide(pod)
    return decision.node_name if isinstance(decision, Placement) else None


def test_other_pods_leave_room_and_those_it_is_for_go_there(cluster):
    assert node_of(cluster, cluster.pod("a", "", 2, priority=1000)) == "n1"
    assert node_of(cluster, cluster.pod("b", "", 2, labels=IT)) == "n0"
    assert node_of(cluster, cluster.pod("c", "", 2, labels=IT, namespace="other")) == "n1"


def test_a_more_important_pod_does_not_leave_room(cluster):
    cluster.runs("x", "", "n1", 2, priority=2000)
    assert node_of(cluster, cluster.pod("a", "", 1, priority=1000)) is None
    assert node_of(cluster, cluster.pod("b", "", 1, priority=1001)) == "n0"


def test_a_pod_of_a_queue_leaves_room_whatever_its_priority(cluster):
    cluster.queues.set(queue("a"))
    cluster.runs("x", "", "n1", 2)
    assert node_of(cluster, cluster.waits("a", "a", 1, priority=2000)) is None


def test_nobody_is_preempted_for_a_reserved_node(cluster):
    cluster.runs("x", "", "n1", 2, priority=1000)
    low = cluster.runs("low", "", "n0", 1, priority=0)
    decision = cluster.decide(cluster.pod("a", "", 1, priority=900))
    assert isinstance(decision, Rejection)
    assert not cluster.victims(cluster.pod("a", "", 1, priority=900))
    cluster.cache.reservations.remove("held")
    assert isinstance(cluster.decide(cluster.pod("b", "", 1, priority=900)), Placement)
    assert low.name == "low"


def test_slots_are_held_one_after_the_other_while_the_cache_changes_between(cluster):
    reservations = cluster.cache.reservations
    steps = reservations.begin(reservation(("n1", 1), ("n1", 1), name="long"))
    next(steps)
    assert reservations.counts("long") == (1, 0, 0)
    cluster.runs("before", "", "n1", 1, labels=IT)
    assert reservations.counts("long") == (0, 1, 0)
    next(steps)
    assert reservations.counts("long") == (1, 1, 0)
    cluster.runs("after", "", "n1", 1, labels=IT)
    assert [*steps] == [None]
    assert reservations.counts("long") == (0, 2, 0)


def test_a_reservation_that_is_removed_while_its_slots_are_held_leaves_none(cluster):
    reservations = cluster.cache.reservations
    steps = reservations.begin(reservation(("n1", 1), ("n1", 1), name="long"))
    next(steps)
    reservations.remove("long")
    assert [*steps] == []
    assert {*cluster.cache.nominator.nodes()} == {"n0"}


def test_a_pod_takes_a_slot_and_gives_it_back_when_it_goes(cluster):
    cache = cluster.cache
    cluster.runs("it", "", "n0", 2, labels=IT)
    assert cache.reservations.counts("held") == (0, 1, 0)
    assert not cache.nominator
    cache.remove_pod("default/it")
    assert cache.reservations.counts("held") == (1, 0, 0)
    assert node_of(cluster, cluster.pod("a", "", 2)) == "n1"


def test_a_pod_that_runs_there_already_has_its_slot():
    cluster = QueuedCluster([2], [])
    cluster.runs("it", "", "n0", 1, labels=IT)
    cluster.cache.reservations.set(reservation(("n0", 1), ("n0", 1)))
    assert cluster.cache.reservations.counts("held") == (1, 1, 0)
    assert node_of(cluster, cluster.pod("a", "", 1)) is None
    assert node_of(cluster, cluster.pod("b", "", 1, labels=IT)) == "n0"


def test_a_pod_elsewhere_takes_no_slot(cluster):
    cluster.runs("it", "", "n1", 2, labels=IT)
    assert cluster.cache.reservations.counts("held") == (1, 0, 0)


def test_a_transaction_that_is_rolled_back_leaves_the_slots_as_they_were(cluster):
    cache = cluster.cache
    with CacheTransaction(cache) as transaction:
        transaction.assume(cluster.pod("it", "", 2, labels=IT), "n0")
        assert cache.reservations.counts("held") == (0, 1, 0)
    assert cache.reservations.counts("held") == (1, 0, 0)
    assert [slot.uid for slot in cache.nominator.on("n0")] == ["reservation/held/0"]


def test_a_slot_gives_way_only_to_a_more_important_pod_that_it_is_not_for(cluster):
    [slot] = cluster.cache.nominator.on("n0")
    reservations = cluster.cache.reservations
    reservations.give_way(slot, cluster.pod("equal", "", priority=1000))
    reservations.give_way(slot, cluster.pod("ours", "", priority=2000, labels=IT))
    assert reservations.counts("held") == (1, 0, 0)


def test_further_slots_are_free_and_those_that_are_taken_stay_so(cluster):
    cluster.runs("it", "", "n0", 2, labels=IT)
    reservations = cluster.cache.reservations
    reservations.extend("held", [Slot("n0", {GPU: 1}), Slot("n1", {GPU: 2})], NOW + 120)
    assert reservations.counts("held") == (2, 1, 0)
    assert node_of(cluster, cluster.pod("other", "", 2)) is None
    assert node_of(cluster, cluster.pod("b", "", 2, labels=IT)) == "n1"
    assert (reservations.expired(NOW + 119), reservations.expired(NOW + 120)) == ([], ["held"])


def test_a_slot_that_is_lost_stays_lost_when_the_same_reservation_comes_again(cluster):
    [slot] = cluster.cache.nominator.on("n0")
    reservations = cluster.cache.reservations
    reservations.give_way(slot, cluster.pod("high", "", priority=2000))
    assert reservations.set(reservation(("n0", 2))) == ()
    assert reservations.counts("held") == (0, 0, 1)
    reservations.set(reservation(("n0", 1)))
    assert reservations.counts("held") == (1, 0, 0)


def test_all_nodes_of_free_slots_are_tried():
    cluster = QueuedCluster([2, 2, 2], [])
    cluster.runs("full", "", "n0", 2)
    cluster.cache.reservations.set(reservation(("missing", 2), ("n0", 2), ("n2", 2)))
    assert node_of(cluster, cluster.pod("it", "", 2, labels=IT)) == "n2"


def test_slots_count_for_no_queue():
    cluster = QueuedCluster([4], [queue("q", gpu={"limit": 4})])
    cluster.cache.set_object("Namespace", {"metadata": {"name": "default", "labels": {QUEUE_LABEL: "q"}}})
    cluster.queues.membership.choice_by_policy = lambda pod: "q" if pod.scheduler_name == "default-scheduler" else ""
    cluster.cache.reservations.set(Reservation("held", "other", NOW + 60, [Slot("n0", {GPU: 4})]))
    assert cluster.queues.bounds.of(cluster.waits("p", "q", 4)) is None


@pytest.mark.parametrize("seed", range(30))
def test_any_transaction_leaves_slots_and_nominations_in_their_order(seed):
    chance = random.Random(seed)
    cluster = QueuedCluster([4, 4, 4], [])
    cache, table = cluster.cache, cluster.cache.reservations
    for number in range(chance.randint(1, 3)):
        slots = [(f"n{chance.randrange(3)}", 1) for _ in range(chance.randint(1, 4))]
        table.set(reservation(*slots, name=f"r{number}"))
    for number in range(6):
        cluster.runs(f"p{number}", "", f"n{chance.randrange(3)}", 1, labels=chance.choice([IT, {}]))

    def state():
        order = {name: [pod.uid for pod in cache.nominator.on(name)] for name in sorted(cache.nominator.nodes())}
        return [table.counts(f"r{number}") for number in range(len(table))], order

    before = state()
    with CacheTransaction(cache) as transaction:
        checkpoints = []
        for step in range(12):
            match chance.randrange(4):
                case 0:
                    placed = [pod for info in cache.nodes.values() for pod in info.pods.values()]
                    transaction.remove(chance.sample(placed, min(len(placed), chance.randint(1, 3))))
                case 1:
                    transaction.assume(cluster.pod(f"new{step}", "", 1, labels=IT), f"n{chance.randrange(3)}")
                case 2:
                    checkpoints.append((transaction.checkpoint(), state()))
                case 3 if checkpoints:
                    point, then = checkpoints.pop()
                    transaction.rollback(point)
                    assert state() == then
    assert state() == before


def test_a_lost_slot_is_not_held_any_more(cluster):
    [slot] = cluster.cache.nominator.on("n0")
    cluster.cache.reservations.give_way(slot, cluster.pod("high", "", priority=2000))
    assert cluster.cache.reservations.counts("held") == (0, 0, 1)
    assert node_of(cluster, cluster.pod("a", "", 2)) in ("n0", "n1")
    assert not cluster.cache.nominator


def test_a_changed_reservation_holds_its_new_slots_only(cluster):
    [gone] = cluster.cache.reservations.set(reservation(("n1", 2)))
    assert gone.nominated_node_name == "n0"
    assert node_of(cluster, cluster.pod("a", "", 2)) == "n0"


def test_reservations_expire_and_nothing_is_left(cluster):
    reservations, cache = cluster.cache.reservations, cluster.cache
    assert (reservations.expired(NOW + 59), reservations.expired(NOW + 60)) == ([], ["held"])
    reservations.remove("held")
    assert (len(reservations), len(cache.nominator), cache.nominator.usable_by) == (0, 0, None)
    reservations.remove("held")


def test_a_slot_on_a_node_that_does_not_exist_waits_for_it(cluster):
    cluster.cache.reservations.set(reservation(("later", 2)))
    assert node_of(cluster, cluster.pod("it", "", 2, labels=IT)) in ("n0", "n1")


@pytest.mark.parametrize("seed", range(6))
def test_slots_are_free_or_taken_once_after_any_history(seed):
    chance = random.Random(seed)
    cluster = QueuedCluster([4, 4, 4], [])
    cache, table = cluster.cache, cluster.cache.reservations
    for step in range(150):
        match chance.randrange(5):
            case 0:
                slots = [(f"n{chance.randrange(4)}", 1) for _ in range(chance.randrange(4))]
                selector = OURS if chance.random() < 0.7 else parse_label_selector({}, "")
                table.set(reservation(*slots, name=f"r{chance.randrange(3)}", selector=selector))
            case 1:
                table.remove(f"r{chance.randrange(3)}")
            case 2 | 3:
                labels = IT if chance.random() < 0.6 else {}
                cluster.runs(f"p{step}", "", f"n{chance.randrange(3)}", 1, labels=labels)
            case 4:
                placed = [uid for info in cache.nodes.values() for uid in info.pods]
                if placed:
                    cache.remove_pod(chance.choice(placed))
        slots = 0
        for name in [f"r{number}" for number in range(3)]:
            found = table.get(name)
            if found is not None:
                assert sum(table.counts(name)) == len(found.slots)
                slots += table.counts(name)[0]
        assert len(cache.nominator) == slots


class TestAPlaceForWhatAControllerCreates:
    """The place of a pod that is about to be moved from n1 to n0, where another pod of its controller runs."""

    @pytest.fixture
    def moved(self, cluster):
        self.metadata = metadata = {
            "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}]
        }
        self.made = lambda name, **more: cluster.pod(name, "", 1, metadata=metadata, labels={"app": "web"}, **more)
        cluster.cache.reservations.remove("held")
        cluster.cache.set_pod(self.made("sibling").on("n0"))
        left = self.made("left").on("n1")
        cluster.cache.set_pod(left)
        held = Reservation(
            "place",
            "default",
            NOW + 60,
            [Slot("n0", {GPU: 1})],
            replaced=Replaced.of(left, cluster.cache.present("n0").pods.values()),
        )
        cluster.cache.reservations.set(held)
        return left

    def test_it_is_free_although_siblings_are_there(self, cluster, moved):
        assert cluster.cache.reservations.counts("place") == (1, 0, 0)
        assert not cluster.cache.reservations.taken_by("place")

    def test_only_the_pod_in_its_place_goes_there(self, cluster, moved):
        assert node_of(cluster, self.made("again")) == "n0"
        assert node_of(cluster, cluster.pod("other", "", 1, labels={"app": "web"})) == "n1"

    def test_it_is_taken_by_that_pod_and_free_when_the_pod_goes(self, cluster, moved):
        again = self.made("again")
        cluster.cache.assume(again, "n0")
        assert [*cluster.cache.reservations.taken_by("place")] == [again.uid]
        cluster.cache.forget(again.uid)
        assert cluster.cache.reservations.counts("place") == (1, 0, 0)

    @pytest.mark.parametrize(
        "change", [{"labels": {"app": "web", "v": "2"}}, {"gpus": 2}, {"metadata": {}}], ids=["labels", "size", "owner"]
    )
    def test_it_is_not_for_pods_of_another_template(self, cluster, moved, change):
        given = {"labels": {"app": "web"}, "metadata": self.metadata, **change}
        pod = cluster.pod("again", "", given.pop("gpus", 1), **given)
        assert not cluster.cache.reservations.get("place").is_for(pod)
