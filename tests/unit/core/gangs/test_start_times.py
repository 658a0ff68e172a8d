"""When and where a gang that finds no room could start first."""

from __future__ import annotations

import random
from dataclasses import replace
from math import inf
from unittest import mock

import pytest

from podwright.core.gangs.decisions import GangPlacement
from podwright.core.gangs.plan import GangPlanner
from podwright.core.gangs.run_times import run_times_of
from podwright.core.gangs.start_times import earliest_start
from podwright.core.objects.selectors import parse_label_selector
from podwright.core.state.reservations import Reservation, Slot
from podwright.core.state.transaction import CacheTransaction
from support.gangs.kit import ZONE
from support.objects.builders import in_group
from support.queues.reclaims import GPU, NOW, QueuedCluster, queue


class Cluster(QueuedCluster):
    def __init__(self, nodes):
        super().__init__(nodes, [queue("q")])

    def until(self, name, node, gpus, seconds):
        """A running pod that ends in so many seconds; None: it does not say."""
        pod = self.runs(name, "q", node, gpus, since=100)
        if seconds is None:
            return pod
        pod = replace(pod, run_limit=100.0 + seconds)
        self.cache.set_pod(pod)
        return pod

    def planner(self, name, members, gpus, affinity=None, **options):
        self.group(name, members)
        spec = {**in_group(name), **({"affinity": affinity} if affinity else {})}
        for index in range(members):
            self.cache.groups.add_waiting(self.waits(f"{name}-{index}", "q", gpus, spec=spec, **options))
        group = next(group for group in self.cache.groups.all() if group.name == name)
        planner = GangPlanner(framework=self.framework, cache=self.cache, group=group, below=lambda _n: 0)
        return planner, self.cache.groups.members(group.key).unplaced()

    def start(self, planner, members):
        running = [pod for info in self.cache.nodes.values() for pod in info.pods.values()]
        return earliest_start(planner, members, running, NOW)


def test_the_gang_starts_where_the_pods_end_first():
    cluster = Cluster([4, 4, 4])
    for node, seconds in (("n0", 900), ("n1", 300), ("n2", 600)):
        cluster.until(f"p-{node}", node, 4, seconds)
    found = cluster.start(*cluster.planner("gang", 2, 4))
    assert found.at == NOW + 600
    assert set(found.nodes.values()) == {"n1", "n2"}


def test_pods_that_do_not_say_when_they_end_go_last_the_oldest_first():
    cluster = Cluster([4, 4])
    cluster.until("unknown", "n0", 4, None)
    cluster.until("known", "n1", 4, 5000)
    assert cluster.start(*cluster.planner("one", 1, 4)).at == NOW + 5000
    found = cluster.start(*cluster.planner("two", 2, 4))
    assert found.at == inf
    assert set(found.nodes.values()) == {"n0", "n1"}


def test_a_start_is_not_sure_if_a_pod_may_run_for_longer():
    cluster = Cluster([4])
    cluster.until("p", "n0", 4, 60)
    assert cluster.start(*cluster.planner("sure", 1, 4)).sure
    cluster.cache.set_pod(replace(cluster.cache.nodes["n0"].pods["default/p"], run_limit=0.0, run_time="160s"))
    found = cluster.start(*cluster.planner("expected", 1, 4))
    assert (found.at, found.sure) == (NOW + 60, False)
    cluster.cache.set_pod(replace(cluster.cache.nodes["n0"].pods["default/p"], run_limit=3600.0, run_time="160s"))
    found = cluster.start(*cluster.planner("limited", 1, 4))
    assert (found.at, found.sure) == (NOW + 60, False)


def test_a_gang_that_fits_now_starts_now():
    cluster = Cluster([4])
    assert cluster.start(*cluster.planner("gang", 2, 2)).at == NOW


def test_a_gang_that_never_fits_has_no_start():
    cluster = Cluster([4, 4])
    cluster.until("p", "n0", 2, 60)
    assert cluster.start(*cluster.planner("gang", 3, 4)) is None


def test_one_plan_is_enough_where_counting_says_when_there_is_room():
    cluster = Cluster([4] * 20)
    for index in range(20):
        cluster.until(f"p{index}", f"n{index}", 4, 60 * (index + 1))
    planner, members = cluster.planner("gang", 7, 4)
    with mock.patch.object(GangPlanner, "plan", autospec=True, side_effect=GangPlanner.plan) as plan:
        assert cluster.start(planner, members).at == NOW + 420
    assert plan.call_count == 1


@pytest.mark.parametrize(("beside", "other", "ended"), [(0, 7, set()), (4, 8, {"default/beside"})])
def test_pods_with_slots_of_a_reservation_keep_no_more_room_than_they_take(beside, other, ended):
    cluster = Cluster([8, 8])
    slots = [Slot("n0", {GPU: 4}), Slot("n1", {GPU: 1})]
    of_service = parse_label_selector({"matchLabels": {"app": "service"}}, "")
    cluster.cache.reservations.set(Reservation("r", "default", inf, slots, of_service))
    cluster.runs("service", "q", "n0", 4, labels={"app": "service"})
    if beside:
        cluster.until("beside", "n0", beside, 100)
    cluster.until("other", "n1", other, 5000)
    found = cluster.start(*cluster.planner("gang", 1, 4))
    assert (found.at, {*found.nodes.values()}, found.ended) == (NOW + 100 * len(ended), {"n0"}, ended)


def test_room_that_members_cannot_use_together_does_not_count():
    """They are to be in different zones, which counting does not see."""
    cluster = Cluster([4] * 3)
    for index, seconds in enumerate((300, 100, 200)):
        cluster.until(f"p{index}", f"n{index}", 4, seconds)
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "apart"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    found = cluster.start(*cluster.planner("gang", 2, 2, labels={"app": "apart"}, affinity=apart))
    assert (found.at, {*found.nodes.values()}, len(found.ended)) == (NOW + 200, {"n1", "n2"}, 2)
    assert cluster.start(*cluster.planner("large", 3, 2, labels={"app": "apart"}, affinity=apart)) is None


@pytest.mark.parametrize("seed", range(8))
def test_no_earlier_start_is_possible_and_the_cache_stays_as_it_was(seed):
    chance = random.Random(seed)
    cluster = Cluster([4] * 5)
    for number in range(12):
        node = f"n{chance.randrange(5)}"
        used = sum(pod.requests.amounts.get(GPU, 0) for pod in cluster.cache.nodes[node].pods.values())
        gpus = chance.randint(1, 2)
        if used + gpus <= 4:
            cluster.until(f"p{number}", node, gpus, chance.choice([60, 120, 300, 600]))
    planner, members = cluster.planner("gang", chance.randint(2, 4), chance.randint(2, 4))
    before = {name: [*info.pods] for name, info in cluster.cache.nodes.items()}
    found = cluster.start(planner, members)
    assert {name: [*info.pods] for name, info in cluster.cache.nodes.items()} == before
    assert found is not None

    def fits_at(time):
        with CacheTransaction(cluster.cache) as transaction:
            ended = [
                pod
                for info in cluster.cache.nodes.values()
                for pod in info.pods.values()
                if run_times_of(cluster.cache).end_of(pod, NOW) <= time
            ]
            transaction.remove(ended)
            return isinstance(planner.plan(members), GangPlacement)

    assert fits_at(found.at)
    assert found.at == NOW or not fits_at(found.at - 1)
