"""Pods that bounds of queues hold back: a little room retries few of them, in the order of turns, and forgets none."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podwright.api.kube_scheduler_configuration import default_profile
from podwright.core.cycle import Placement, Rejection, schedule
from podwright.core.framework.cluster_events import QUEUE, Action, ClusterEvent
from podwright.core.framework.framework import Framework
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import PodInfo, parse_pod
from podwright.core.objects.pod_group import KIND, WORKLOAD_API
from podwright.core.plugins import PLUGINS
from podwright.core.queue import SchedulingQueue
from podwright.core.queue.queued_pod import QueuedPod
from podwright.core.queue.room import HeldBack, unchecked
from podwright.core.queue.scheduling_queue import NAMES_PER_TURN, POD_LEFT
from podwright.core.queues import tree
from podwright.core.queues.bound import Bound
from podwright.core.queues.bounds import Bounds
from podwright.core.queues.queues import QUEUE_LABEL, QUEUE_QUOTA, USER_LABEL, QueueRules, queues_of
from podwright.core.queues.shares import UNBOUNDED
from podwright.core.queues.tree import Quota
from podwright.simulator.world import World
from support.costs.operation_counts import own_calls
from support.objects.builders import in_group, make_node, make_pod, make_pod_group
from support.properties import examples
from support.queue.kit import Clock

GPU = "nvidia.com/gpu"


@pytest.fixture(autouse=True, scope="module")
def _shares_at_once():
    """The order follows shares at once, instead of when computing them again costs little."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree, "CLAIMS_PER_STEP", 10**9)
        yield


class Team:
    """Pods of queues at their limits, on a node with `gpus`. With a guarantee, that is also the limit of each user."""

    def __init__(self, gpus: int = 1000, guarantee: int = 0, **limits: int) -> None:
        self.guarantee = guarantee
        self.clock = Clock()
        self.world = World(clock=self.clock)
        self.cache = self.world.cache
        self.cache.set_node(parse_node(make_node("n", allocatable={GPU: str(gpus), "pods": "10000"})))
        self.framework = Framework(default_profile("podwright", PLUGINS, self.world.features), PLUGINS, self.world)
        framework = self.framework
        self.queue = SchedulingQueue(
            self.clock, framework.sort_key, framework.pre_enqueue, lambda _pod: framework.hints
        )
        self.queues = queues_of(self.cache)
        self.queues.set(QueueRules("all"))
        self.limits: dict[str, int] = {}
        for name, limit in limits.items():
            self.limit(name, limit)
        self.queue.order_by(self.queues.turns)
        self.attempts: list[str] = []
        self.named: dict[str, Bound | None] = {}
        """By uid: the bound that the last rejection named."""

    def limit(self, name: str, gpus: int) -> None:
        parent = "" if name == "all" else "all"
        self.limits[name] = gpus
        quotas = {GPU: Quota(limit=gpus, guarantee=self.guarantee)}
        firm = 1 if self.guarantee else None
        limits = {GPU: self.guarantee} if self.guarantee else {}
        self.queues.set(QueueRules(name, parent, quotas=quotas, user_limits=limits, firm_priority=firm))
        self.queue.move(ClusterEvent(QUEUE, Action.UPDATE_OTHER))

    def submit(
        self, name: str, queue: str, gpus: int = 1, *, nowhere: bool = False, priority: int = 0, user: str = ""
    ) -> PodInfo:
        spec: dict[str, Any] = {"nodeSelector": {"no": "node"}} if nowhere else {}
        spec["preemptionPolicy"] = "Never"
        labels = {QUEUE_LABEL: queue, **({USER_LABEL: user} if user else {})}
        pod = parse_pod(make_pod(name, labels=labels, requests={GPU: str(gpus)}, spec=spec, priority=priority))
        self.cache.groups.add_waiting(pod)
        self.queue.add(pod)
        return pod

    def run(self) -> list[str]:
        """Attempts all that are due. Returns the names of the pods that are tried."""
        self.attempts.clear()
        while (queued := self.queue.pop()) is not None:
            self.attempts.append(queued.pod.name)
            decision = schedule(self.framework, self.cache, queued.pod, lambda _n: 0)
            if isinstance(decision, Placement):
                self.cache.assume(queued.pod, decision.node_name)
                self.queue.done(queued.uid)
                self.cache.groups.remove_waiting(queued.uid)
            else:
                assert isinstance(decision, Rejection)
                self.named[queued.uid] = self.queues.bounds.of(queued.pod)
                self.queue.reject(queued, decision.status_plugins, decision.pending_plugins)
        return [*self.attempts]

    def leave(self, uid: str) -> None:
        info = self.cache.placement(uid)
        assert info is not None
        pod = info.pods[uid]
        self.cache.remove_pod(uid)
        self.queue.move(POD_LEFT, pod, None)

    def withdraw(self, uid: str) -> None:
        self.queue.delete(uid)
        self.cache.groups.remove_waiting(uid)

    def holds(self, named: Bound, pod: PodInfo) -> bool:
        """True if this bound holds the pod back, as counted from the pods."""
        pods = [each for info in self.cache.nodes.values() for each in info.pods.values()]
        of_queue = [each for each in pods if named.queue in (each.labels[QUEUE_LABEL], "all")]
        limit = self.limits[named.queue] if named.kind == "limit" else self.guarantee
        if named.kind == "user":
            of_queue = [each for each in of_queue if each.labels.get(USER_LABEL) == pod.labels[USER_LABEL]]
        elif named.kind == "guarantee":
            of_queue = [each for each in of_queue if each.priority >= 1]
        return limit != UNBOUNDED and limit < named.requested + sum(each.requests.amounts[GPU] for each in of_queue)

    @property
    def placed(self) -> list[str]:
        return [pod.uid for info in self.cache.nodes.values() for pod in info.pods.values()]


def waiting_team(count: int = 200) -> Team:
    team = Team(a=3)
    for number in range(3 + count):
        team.submit(f"a{number:03}", "a")
        team.clock.now += 1
    assert len(team.run()) == 3 + count
    return team


def test_one_pod_that_leaves_retries_one():
    team = waiting_team()
    team.leave("default/a000")
    assert team.run() == ["a003"]


def test_a_larger_limit_retries_as_many_as_it_admits():
    team = waiting_team()
    team.limit("a", 7)
    assert team.run() == ["a003", "a004", "a005", "a006"]


def test_pods_that_leave_one_after_the_other_retry_one_each():
    team = waiting_team()
    for name in ("a000", "a001"):
        team.leave(f"default/{name}")
    assert team.run() == ["a003", "a004"]


def test_room_that_a_pod_does_not_use_is_offered_to_the_next():
    team = Team(a=1)
    team.submit("first", "a")
    for number in range(3):
        team.clock.now += 1
        team.submit(f"nowhere{number}", "a", nowhere=True)
    for number in range(5):
        team.clock.now += 1
        team.submit(f"next{number}", "a")
    team.run()
    team.leave("default/first")
    assert team.run() == ["nowhere0", "nowhere1", "nowhere2", "next0"]
    assert team.placed == ["default/next0"]


def test_room_that_many_in_a_row_do_not_use_is_offered_without_a_look_at_all_others():
    def ranked(count: int) -> int:
        team = Team(a=1)
        team.submit("first", "a")
        for number in range(count):
            team.clock.now += 1
            team.submit(f"nowhere{number:03}", "a", nowhere=True)
        team.run()
        with mock.patch.object(team.queues.turns, "kind_of", side_effect=team.queues.turns.kind_of) as looked_at:
            team.leave("default/first")
            assert team.run() == [f"nowhere{number:03}" for number in range(count)]
        return looked_at.call_count

    assert ranked(120) <= 4 * ranked(40)


def test_room_that_is_offered_also_goes_to_pods_that_begin_to_wait_meanwhile():
    team = Team(a=1)
    team.submit("first", "a")
    for number in range(3):
        team.clock.now += 1
        team.submit(f"nowhere{number}", "a", nowhere=True)
    team.run()
    team.clock.now += 1
    team.submit("late", "a")
    late = team.queue.pop()
    team.leave("default/first")
    queued = team.queue.pop()
    assert queued.pod.name == "nowhere0"
    team.queue.reject(queued, {"NodeAffinity"})  # the room is offered to the next
    assert team.queue.pop().pod.name == "nowhere1"
    team.queue.reject(late, {"QueueQuota"})
    assert "late" in team.run() or "default/late" in team.placed


def test_pods_that_differ_are_not_told_why_they_wait_until_they_are_tried():
    """A pod that leaves makes no texts for those that go on waiting, and looks at few of them at a time."""
    team, count = Team(a=1), 2000
    team.submit("first", "a")
    for number in range(count):
        team.clock.now += 1
        team.submit(f"other{number}", "a", 2 + number)
    team.run()
    with own_calls() as found:
        team.leave("default/first")
        team.queue.pop()
    assert not found["_over_limit"]
    assert found["Turns.still_holds"] <= NAMES_PER_TURN
    assert not found["Bounds._limit"], "that the limit they named still holds is clear without a look at the others"


def test_the_bounds_of_many_pods_that_give_way_are_found_in_turns():
    team, count = Team(all=-1, a=2), 2 * NAMES_PER_TURN + 5
    for number in range(2 + count):
        team.clock.now += 1
        team.submit(f"a{number:04}", "a", 1 + number // 2)
    team.run()
    team.limit("all", 2)
    team.limit("a", -1)
    team.clock.now += 10
    while team.queue.next_wakeup() == team.clock.now:
        team.run()
    held = {bound.queue for uid, bound in team.named.items() if uid in team.queue.uids()}
    assert held == {"all"}


def test_room_of_a_pod_that_is_deleted_before_its_attempt_is_offered_to_the_next():
    team = waiting_team(5)
    team.leave("default/a000")
    team.withdraw("default/a003")
    assert team.queue.next_wakeup() == team.clock.now
    assert team.run() == ["a004"]


def test_a_pod_that_is_too_large_leaves_the_room_to_smaller_ones():
    team = Team(a=4)
    for number in range(4):
        team.submit(f"a{number}", "a")
    team.run()
    team.submit("large", "a", 2, priority=9)
    team.submit("small0", "a")
    team.submit("small1", "a")
    team.run()
    team.leave("default/a0")
    assert team.run() == ["small0"]


def test_a_pod_that_requests_less_since_it_named_its_bound_is_not_left_out_with_others_that_named_the_same():
    team = Team(a=4)
    for number in range(4):
        team.submit(f"a{number}", "a")
    team.run()
    for name in ("other", "smaller"):
        team.submit(name, "a", 2)
    team.run()
    assert team.queue.get("default/other").bound == team.queue.get("default/smaller").bound
    smaller = parse_pod(make_pod("smaller", labels={QUEUE_LABEL: "a"}, requests={GPU: "1"}))
    team.cache.groups.add_waiting(smaller)
    team.queue.update(smaller)
    team.leave("default/a0")
    assert team.run() == ["smaller"]


def test_queues_below_one_limit_are_retried_in_the_order_of_turns():
    team = Team(all=4, a=-1, b=-1)
    for number in range(4):
        team.submit(f"a{number}", "a")
    team.run()
    for name in "ab":
        for number in range(4, 8):
            team.submit(f"{name}{number}", name)
    team.run()
    for number in range(2):
        team.leave(f"default/a{number}")
    assert team.run() == ["b4", "b5"]
    team.limit("all", 6)
    assert sorted(team.run()) == ["a4", "b6"]


def test_a_limit_of_many_queues_looks_at_few_queues_for_each_pod_that_it_admits():
    """Each pod of one queue changes the turn of all queues below the limit."""
    team, queues = Team(all=0), 60
    for number in range(queues):
        team.limit(f"q{number}", -1)
        team.submit(f"p{number}", f"q{number}")
    team.run()
    with mock.patch.object(team.queues.turns, "turn_key", side_effect=team.queues.turns.turn_key) as key:
        team.limit("all", queues)
    assert len(team.run()) == queues
    assert key.call_count <= 6 * queues


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 2**32))
def test_the_next_pod_is_of_the_queue_whose_turn_it_is_at_each_level(seed):
    choose = random.Random(seed)
    team = Team(all=0)
    parents = {name: choose.choice(["all", "m0", "m1"]) for name in ("q0", "q1", "q2", "q3", "q4")}
    for name, parent in {"m0": "all", "m1": "all", **parents}.items():
        quotas = {GPU: Quota(guarantee=choose.randrange(3), limit=choose.choice([UNBOUNDED, UNBOUNDED, 4]))}
        team.queues.set(QueueRules(name, parent, choose.choice([100, 200]), quotas))
    for number in range(30):
        team.submit(f"p{number}", choose.choice([*parents]), choose.randrange(1, 3), priority=choose.randrange(2))
    team.run()
    team.queues.set(QueueRules("all", quotas={GPU: Quota(limit=choose.randrange(1, 40))}))
    held = [team.queue.get(uid) for uid in team.queue.uids()]

    def rank(queued: QueuedPod) -> Any:
        return team.framework.sort_key(queued.pod, queued.timestamp)

    def turn(queued: QueuedPod) -> Any:
        path = [*reversed(team.queues.turns.turn_path(queued.pod))]
        return [(team.queues.turns.turn_key(name), name) for name in path], rank(queued)

    for queued in HeldBack(held, rank=rank, turns=team.queues.turns).in_turn(unchecked, held.__contains__):
        assert turn(queued) == min(turn(each) for each in held if team.queues.turns.admits(each.pod))
        held.remove(queued)
        team.queues.turns.try_again(queued.pod)
    assert not any(team.queues.turns.admits(each.pod) for each in held)


def test_a_pod_for_which_room_is_held_does_not_wait_for_its_turn():
    team = Team(a=1)
    team.submit("first", "a")
    team.run()
    for name in ("earlier", "claimant"):
        team.submit(name, "a")
        team.clock.now += 1
    team.run()
    team.cache.nominator.add(team.queue.get("default/claimant").pod, "n")
    team.leave("default/first")
    assert team.run() == ["claimant"]


@pytest.mark.parametrize("whose", ["eve's", "firm"])
def test_bounds_of_some_pods_of_a_queue_hold_back_no_others(whose):
    """Others that request the same wait beside 20 pods at the limit of one user, or at the guarantee for firm pods."""
    team = Team(a=2)
    rules = QueueRules("a", "all", quotas={GPU: Quota(guarantee=1, limit=2)}, user_limits={GPU: 1}, firm_priority=5)
    team.queues.set(rules)
    some = {"user": "eve"} if whose == "eve's" else {"priority": 5}
    team.submit("first", "a", **some)
    team.submit("second", "a", user="bob")
    team.run()
    for number in range(20):
        team.submit(f"some{number:02}", "a", **some)
        team.clock.now += 1
    team.submit("other", "a", user="ann")
    team.run()
    team.leave("default/second")
    assert team.run() == ["other"]
    team.leave("default/first")
    assert team.run() == ["some00"]


class TestForgetsNone:
    """After whatever happens, each pod that waits for a bound is held back by one."""

    @settings(max_examples=examples(60), deadline=None)
    @given(st.integers(0, 2**32))
    def test_over_generated_histories(self, seed):
        choose = random.Random(seed)
        team = Team(gpus=12, guarantee=choose.choice([0, 3]), all=choose.choice([-1, 6, 8]), a=3, b=4)
        count = 0
        for _ in range(examples(60)):
            match choose.randrange(6):
                case 0 | 1 | 2:
                    count += 1
                    options = {
                        "nowhere": choose.random() < 0.3,
                        "priority": choose.randrange(2),
                        "user": choose.choice(["", "ann", "bob"]),
                    }
                    team.submit(f"p{count}", choose.choice("ab"), choose.randrange(1, 4), **options)
                case 3 if team.placed:
                    team.leave(choose.choice(team.placed))
                case 4 if team.queue.uids():
                    team.withdraw(choose.choice(team.queue.uids()))
                case 5 if choose.random() < 0.3:
                    team.limit(choose.choice(["a", "b", "all"]), choose.choice([-1, 2, 3, 5, 9]))
            team.clock.now += 0.1
            if choose.random() < 0.7:
                team.run()
        team.clock.now += 30
        team.run()
        for uid in team.queue.uids():
            queued = team.queue.get(uid)
            bound = team.queues.bounds.of(queued.pod)
            assert bound is not None or "QueueQuota" not in queued.unschedulable_plugins, queued
            if bound is not None and "QueueQuota" in queued.unschedulable_plugins:
                named = team.named[uid]
                assert team.holds(named, queued.pod), (named, bound)


def test_a_pod_names_another_bound_when_its_own_gives_way_to_that():
    team = Team(all=-1, a=2)
    for number in range(3):
        team.submit(f"a{number}", "a")
    team.run()
    team.limit("all", 2)
    assert team.run() == []
    assert team.named["default/a2"].queue == "a"
    team.limit("a", 9)
    team.clock.now += 10
    assert team.run() == ["a2"]
    assert team.named["default/a2"].queue == "all"


@pytest.mark.parametrize("gone", [True, False], ids=["with the last queue", "by another tree"])
def test_retried_pods_count_nowhere_when_queues_change(gone):
    team = waiting_team(5)
    team.leave("default/a000")
    if gone:
        for name in ("a", "all"):
            team.queues.remove(name)
        team.queues.set(QueueRules("all"))
    else:
        team.queues.set(QueueRules("b", "all"))
    team.limit("a", 4)
    team.run()
    assert len(team.placed) == 4


class TestGangs:
    """A gang of four pods is above the limit of its queue."""

    @pytest.fixture
    def team(self):
        team = Team(a=3)
        groups = team.cache.groups
        groups.serve(WORKLOAD_API)
        team.cache.set_object(KIND, make_pod_group(min_count=4))
        raws = [make_pod(f"m{n}", labels={QUEUE_LABEL: "a"}, requests={GPU: "1"}, spec=in_group()) for n in range(4)]
        for pod in map(parse_pod, raws):
            groups.add_waiting(pod)
        for pod in map(parse_pod, raws):
            team.queue.add(pod)
            team.queue.reject(team.queue.pop(), {QUEUE_QUOTA})
        team.clock.now += 60
        assert self.retried(team) == []
        return team

    def retried(self, team):
        team.queue.move(ClusterEvent(QUEUE, Action.UPDATE_OTHER))
        return sorted(queued.pod.name for queued in team.queue.active())

    def test_members_that_need_less_together_are_retried(self, team):
        team.cache.set_object(KIND, make_pod_group(min_count=3))
        assert self.retried(team) == ["m0", "m1", "m2", "m3"]

    def test_one_that_leaves_the_gang_is_not_held_back_with_it(self, team):
        other = team.submit("other", "a", 3)
        team.cache.assume(other, "n")
        alone = replace(team.queue.get("default/m0").pod, group="")
        team.cache.groups.add_waiting(alone)
        team.queue.update(alone)
        team.queue.delete(other.uid)
        team.cache.forget(other.uid)
        assert self.retried(team) == ["m0"]


class TestManyGangs:
    """Gangs of two pods each, at the limit of a queue in which one pod of another queue has all."""

    def team(self, *priorities: int) -> Team:
        team = Team(a=2, b=2, all=2)
        self.holder = team.submit("holder", "b", 2)
        team.run()
        team.cache.groups.serve(WORKLOAD_API)
        for number, priority in enumerate(priorities):
            group = f"g{number}"
            team.cache.set_object(KIND, make_pod_group(group, min_count=2))
            spec = {**in_group(group), "priority": priority}
            raws = [make_pod(f"{group}-{n}", labels={QUEUE_LABEL: "a"}, requests={GPU: "1"}, spec=spec) for n in (0, 1)]
            for pod in map(parse_pod, raws):
                team.cache.groups.add_waiting(pod)
            for pod in map(parse_pod, raws):
                team.queue.add(pod)
        while (queued := team.queue.pop()) is not None:
            team.queue.reject(queued, {QUEUE_QUOTA})
        team.clock.now += 60
        return team

    def retried(self, team: Team) -> list[str]:
        return sorted(queued.pod.name for queued in team.queue.active())

    def promise(self, team: Team, queue: str, gpus: int) -> PodInfo:
        """The holder's room, or a part of it, is promised to another pod."""
        claimant = parse_pod(make_pod("claimant", labels={QUEUE_LABEL: queue}, requests={GPU: str(gpus)}))
        team.cache.nominator.add(claimant, "n")
        team.cache.remove_pod(self.holder.uid)
        return claimant

    @pytest.mark.parametrize("gpus", [1, 2], ids=["a part of the room", "all of the room"])
    @pytest.mark.parametrize(("queue", "asked"), [("b", False), ("a", True)], ids=["another queue", "their own queue"])
    def test_gangs_are_not_asked_while_their_room_is_promised_to_another_queue(self, queue, asked, gpus):
        team = self.team(0, 0)
        first = team.queue.get("default/g0-0")
        claimant = self.promise(team, queue, gpus)
        assert team.queues.turns.refuses(first.bound, first.pod) == (not asked)
        with mock.patch.object(Bounds, "of", autospec=True, side_effect=Bounds.of) as of:
            team.queue.move(POD_LEFT, self.holder, None)
        assert of.called == asked
        team.cache.nominator.remove(claimant.uid)
        team.queue.move(POD_LEFT, claimant, None)
        assert self.retried(team) == ["g0-0", "g0-1"]

    def test_whether_a_bound_refuses_its_gangs_is_asked_once_for_all_of_them(self):
        def asked(count: int) -> int:
            team = self.team(*[0] * count)
            with own_calls() as found:
                team.leave(self.holder.uid)
            assert self.retried(team) == ["g0-0", "g0-1"]
            return found["Turns.refuses"]

        assert asked(40) == asked(4)

    def test_the_first_gang_gets_the_room_and_the_next_one_what_it_does_not_use(self):
        team = self.team(0, 5, 9)
        team.leave(self.holder.uid)
        for gang in ("g2", "g1", "g0"):
            first = team.queue.pop()
            assert [first.pod.name, *self.retried(team)] == [f"{gang}-0", f"{gang}-1"]
            for queued in (first, team.queue.pop()):
                team.queue.reject(queued, {QUEUE_QUOTA, "Other"})
        assert team.queue.pop() is None

    @pytest.mark.parametrize("tried", [False, True], ids=["left out of the event", "tried since"])
    def test_a_promise_that_ends_without_an_event_is_offered_to_gangs(self, tried):
        team = self.team(0)
        claimant = self.promise(team, "b", 1)
        team.queue.move(POD_LEFT, self.holder, None)
        if tried:
            team.queue.activate("default/g0-0")
            team.queue.reject(team.queue.pop(), {QUEUE_QUOTA})
            team.clock.now += 60
        assert team.queue.pop() is None
        team.cache.nominator.remove(claimant.uid)
        assert team.queue.pop().pod.group.endswith("g0")

    @pytest.mark.parametrize("queue", ["other", ""], ids=["another queue", "no queue"])
    def test_a_promise_that_a_pod_takes_along_is_offered_to_the_gangs_of_the_queue_that_it_leaves(self, queue):
        team = self.team(0)
        team.queues.set(QueueRules("other"))
        claimant = self.promise(team, "b", 1)
        team.cache.groups.add_waiting(claimant)
        team.queue.move(POD_LEFT, self.holder, None)
        assert team.queue.pop() is None
        changed = parse_pod(make_pod("claimant", labels={QUEUE_LABEL: queue} if queue else {}, requests={GPU: "1"}))
        for _ in range(2):  # a further change comes before anybody has looked
            team.cache.groups.add_waiting(changed)
        assert team.queue.pop().pod.group.endswith("g0")

    def test_a_promise_that_was_kept_is_offered_to_nobody(self):
        team = self.team(0)
        claimant = self.promise(team, "b", 2)
        team.cache.assume(claimant, "n")
        team.cache.nominator.remove(claimant.uid)
        with mock.patch.object(HeldBack, "in_turn") as in_turn:
            assert team.queue.pop() is None
        assert not in_turn.called

    def test_a_gang_that_failed_on_promised_room_names_the_limit(self):
        team = self.team(0)
        claimant = self.promise(team, "b", 1)
        team.queue.activate("default/g0-0")
        queued = team.queue.pop()
        team.queues.turns.try_again(queued.pod)
        team.queue.reject(queued, {QUEUE_QUOTA})
        assert queued.bound is not None
        assert team.queues.turns.refuses(queued.bound, queued.pod)
        team.cache.nominator.remove(claimant.uid)
        team.queue.move(POD_LEFT, claimant, None)
        assert self.retried(team) == ["g0-0", "g0-1"]
