"""Costly pods and gangs are decided in a child, on the cluster as it was, and carried out on the cluster as it is."""

from __future__ import annotations

import asyncio

import pytest

from podwright.core.framework.interface import FilterPlugin, Plugin
from podwright.core.framework.status import unresolvable
from podwright.core.objects.pod_group import VOLCANO_API, VOLCANO_KIND, WORKLOAD_API
from podwright.core.queue.active_pods import SHARE
from podwright.engine.planning.planning import (
    CONFLICTS,
    LOOP_SECONDS,
    ORDINARY_SECONDS,
    QUIET_SECONDS,
    STILL_CHANGING,
    Planning,
)
from podwright.engine.process import steps
from podwright.engine.process.forks import CHILD_SECONDS, Forks
from podwright.engine.process.slice import SLICE_SECONDS
from podwright.engine.records.metrics import PLUGIN_EXCEPTIONS
from support.engine.kit import Rig, custom_policy, deciding, on_node, ours, settle, values
from support.engine.long_work import MEMBERS, Clock, FakeChildren, a_preemptor, evicted, full_nodes
from support.hostile import objects
from support.objects.builders import in_group, make_pod_group
from support.waiting import until

COSTLY = objects.many_tolerations(3_000)
HALF = {"cpu": "5"}
"""A node has room for one pod of this size, of 8 CPUs."""


@pytest.fixture
def rig():
    return Rig(gates={"GenericWorkload": True}, children=FakeChildren())


def costly(rig, name, **options):
    return rig.pod(name, spec=dict(COSTLY), **options)


def take(rig, node):
    """Another pod comes to this node, and takes the most of it."""
    rig.engine.assigned.put(on_node(ours(f"on-{node}", requests=HALF), node))


def gang(rig, count, minimum=None, **options):
    rig.engine.objects("PodGroup").put(make_pod_group("gang", minimum or count, **options))
    for number in range(count):
        rig.pod(f"m{number}", requests=HALF, spec={**in_group(), **COSTLY})


async def while_time_passes(rig, holds):
    """Waits until this holds. Meanwhile the lane opens again."""

    def has_come():
        rig.now += 0.1
        rig.engine.wake()
        return holds()

    await until(has_come)


async def ended(rig, *, failed=0, bound=0):
    async with deciding(rig):
        await while_time_passes(
            rig, lambda: len(rig.recorder.notes("FailedScheduling")) >= failed and len(rig.cluster.bound) >= bound
        )
        await settle()


async def test_a_pod_gets_the_node_that_the_child_has_chosen(rig):
    rig.node("a")
    costly(rig, "big")
    await ended(rig, bound=1)
    assert rig.cluster.bound == [("big", "a")]
    assert rig.children.seconds == [CHILD_SECONDS]


async def test_pods_of_one_child_see_each_other(rig):
    for name in "ab":
        rig.node(name)
    for name in ("x", "y", "z"):
        costly(rig, name, requests=HALF)
    await ended(rig, bound=2, failed=1)
    assert rig.children.started == 1
    assert sorted(node for _, node in rig.cluster.bound) == ["a", "b"]
    assert rig.recorder.notes("FailedScheduling")[0].startswith("0/2 nodes are available: 2 Insufficient cpu.")


async def test_an_attempt_that_takes_longer_than_a_slice_goes_to_a_child():
    rig = Rig(children=FakeChildren())
    rig.clock = rig.children.clock = Clock()
    a_preemptor(rig)
    await ended(rig, failed=1)
    assert rig.children.started == 1
    assert len(evicted(rig)) == 1
    assert rig.engine.queue.get("default/high").attempts == 1, "the attempt in the loop does not count"


async def test_a_gang_that_takes_longer_than_a_slice_goes_to_a_child():
    rig = Rig(children=FakeChildren())
    rig.clock = rig.children.clock = Clock()
    full_nodes(rig)
    async with deciding(rig):
        await while_time_passes(rig, lambda: evicted(rig) == {f"low{i}" for i in range(MEMBERS)})
    assert rig.children.started == 1


async def test_a_child_gives_each_search_half_of_the_time_that_is_left(monkeypatch):
    rig = Rig(children=FakeChildren())
    rig.clock = rig.children.clock = clock = Clock()
    late, deadline = [], rig.engine.cache.deadline
    answer = vars(Planning)["_answer"]

    def slow(self, number, job):
        for part in (0.4, 0.2):
            clock.take(part * CHILD_SECONDS)
            late.append(deadline.is_late())
        return answer(self, number, job)

    monkeypatch.setattr(Planning, "_answer", slow)
    a_preemptor(rig)
    await ended(rig, failed=1)
    assert late == [False, True]
    assert not deadline.is_late()


async def test_a_gang_that_took_long_to_choose_victims_is_retried_in_the_loop_at_once():
    rig = Rig(children=FakeChildren())
    rig.clock = rig.children.clock = Clock()
    rig.clock.step = 2 * SLICE_SECONDS
    rig.evictor.waits = True
    full_nodes(rig)
    async with deciding(rig):
        await while_time_passes(rig, lambda: len(evicted(rig)) == MEMBERS)
        rig.clock.runs = False
        for name in evicted(rig):
            rig.evictor.answers[name](True)
        for name in evicted(rig):
            rig.engine.assigned.drop(f"default/{name}", None)
        await settle()
        assert len(rig.cluster.bound) == MEMBERS
    assert rig.children.started == 1, "only for the victims"


@pytest.mark.parametrize("changed", [False, True])
async def test_what_only_depends_on_a_node_is_checked_again_if_the_node_has_changed(rig, changed):
    rig.node("a")
    rig.node("b", taints=[{"key": "x", "effect": "NoSchedule"}])

    def meanwhile(child):
        if changed and child == 1:
            rig.node("a", unschedulable=True)
            rig.node("b")

    rig.children.meanwhile = meanwhile
    rig.pod("big", requests=HALF, spec=objects.many_tolerations(3_000))
    await ended(rig, bound=1)
    assert rig.cluster.bound == [("big", "b" if changed else "a")]
    assert rig.children.started == (2 if changed else 1)


class TestKindsOfPods:
    """The cause of one long attempt makes the next ones long, too: the loop tries it once, and not for each pod."""

    @pytest.fixture
    def rig(self, monkeypatch):
        rig = Rig(children=FakeChildren())
        rig.clock = rig.children.clock = Clock()
        rig.node("a")
        raw = {"metadata": {"name": "ruled", "uid": "ruled", "generation": 1}}
        raw["spec"] = {"schedulerName": "ruled", "rules": {"filters": [{"name": "any", "expression": "true"}]}}
        result = rig.engine.policies.apply(raw)
        assert result.accepted, result.message
        rig.begun = []
        for policy in (rig.engine.policies.named("ruled"), rig.engine.policies.default):
            framework = policy.framework
            plugin = next(each for each in framework.filter_plugins if each.name == "NodeName")
            monkeypatch.setattr(plugin, "filter_all", self.slow(rig, plugin.filter_all))
        return rig

    def slow(self, rig, filter_all):
        def slowly(state, pod, table):
            if rig.engine.cache.deadline.check is not None:
                rig.begun.append(pod.name)
            for _ in range(10):
                rig.engine.cache.deadline.point()
            return filter_all(state, pod, table)

        return slowly

    @pytest.mark.parametrize(("scheduler", "in_the_loop"), [("ruled", ["p0"]), ("podwright", ["p0", "p1", "p2"])])
    async def test_rules_that_took_long_once_are_left_to_children(self, rig, scheduler, in_the_loop):
        for number in range(3):
            rig.pod(f"p{number}", spec={"schedulerName": scheduler})
        async with deciding(rig):
            await until(lambda: (rig.clock.take(0.1), rig.engine.wake(), len(rig.cluster.bound) == 3)[-1])
        assert rig.begun == in_the_loop
        if scheduler == "ruled":
            assert rig.engine.activities.of("ruled").longest > 0, "that of a child"

    async def test_the_longest_decision_in_the_loop_is_known(self, rig, monkeypatch):
        (plugin,) = [
            each for each in rig.engine.policies.named("ruled").framework.filter_plugins if each.name == "PolicyRules"
        ]
        filter_all = plugin.filter_all
        monkeypatch.setattr(rig.clock, "runs", False)
        monkeypatch.setattr(plugin, "filter_all", lambda *given: (rig.clock.take(0.01), filter_all(*given))[-1])
        rig.pod("p", spec={"schedulerName": "ruled"})
        async with deciding(rig):
            await until(lambda: rig.cluster.bound)
        assert rig.children.started == 0
        assert rig.engine.activities.of("ruled").longest == pytest.approx(0.01)


TENS = str([*range(10)])


@pytest.mark.parametrize(
    ("expression", "children"),
    [(f"{TENS}.all(a, {TENS}.all(b, {TENS}.all(c, node.name != 'x')))", 1), ("!('x' in node.labels)", 0)],
    ids=["costly", "ordinary"],
)
async def test_a_rule_that_is_estimated_to_take_long_goes_to_a_child_without_an_attempt(rig, expression, children):
    for number in range(300):
        rig.node(f"n{number}")
    raw = {"metadata": {"name": "ruled", "uid": "ruled", "generation": 1}}
    raw["spec"] = {"schedulerName": "ruled", "rules": {"filters": [{"name": "any", "expression": expression}]}}
    assert rig.engine.policies.apply(raw).accepted
    rig.pod("p", spec={"schedulerName": "ruled"})
    await ended(rig, bound=1)
    assert rig.children.started == children


async def test_ordinary_pods_are_bound_while_a_child_decides(rig):
    rig.node("a")
    going = asyncio.Event()

    class Waiting(FakeChildren):
        async def _messages(self, messages, child):
            await going.wait()
            for message in messages:
                yield message

    rig.children.start = Waiting().start
    costly(rig, "big")
    async with deciding(rig):
        rig.pod("small")
        await until(lambda: rig.cluster.bound == [("small", "a")])
        costly(rig, "big-too")
        await settle()
        assert rig.engine.queue.costly == 1, "one child at a time"
        going.set()
    await ended(rig, bound=3)


async def test_a_placement_that_does_not_fit_any_more_is_decided_again(rig):
    for name in "ab":
        rig.node(name)
    rig.children.meanwhile = lambda child: take(rig, "a") if child == 1 else None
    costly(rig, "big", requests=HALF)
    await ended(rig, bound=1)
    assert rig.cluster.bound == [("big", "b")]
    assert rig.children.started == 2
    assert not rig.recorder.notes("FailedScheduling")
    assert rig.engine.cache.placement("default/big").name == "b"


async def test_a_pod_whose_plans_never_fit_is_planned_in_a_quiet_time(rig):
    nodes = [f"n{number}" for number in range(CONFLICTS + 1)]
    for name in nodes:
        rig.node(name)

    def meanwhile(child):
        if not rig.intake.held:
            take(rig, nodes[child - 1])

    rig.children.meanwhile = meanwhile
    costly(rig, "big", requests=HALF)
    await ended(rig, bound=1)
    assert rig.cluster.bound == [("big", nodes[-1])]
    assert rig.children.seconds == [*[CHILD_SECONDS] * CONFLICTS, QUIET_SECONDS]
    assert (rig.intake.times, rig.intake.held) == (1, False)


async def test_no_other_pod_is_decided_in_a_quiet_time(rig):
    rig.node("a")
    seen = []

    class Waiting(FakeChildren):
        async def _messages(self, messages, child):
            rig.pod("small")
            await settle()
            seen.append([*rig.cluster.bound])
            for message in messages:
                yield message

    rig.children.start = Waiting().start
    costly(rig, "big")
    rig.engine.queue.get("default/big").conflicts = CONFLICTS
    await ended(rig, bound=2)
    assert seen == [[]]
    assert sorted(rig.cluster.bound) == [("big", "a"), ("small", "a")]


@pytest.mark.parametrize("gone", ["deleted", "terminating"])
async def test_a_victim_that_is_going_already_is_not_evicted(rig, gone):
    rig.node("a")
    low = on_node(ours("low", requests=HALF, priority=0), "a")
    rig.engine.assigned.put(low)

    def meanwhile(child):
        if gone == "deleted" and child == 1:
            rig.engine.assigned.drop("default/low", None)
        elif child == 1:
            rig.engine.assigned.put(
                {**low, "metadata": {**low["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
            )

    rig.children.meanwhile = meanwhile
    costly(rig, "high", requests=HALF, priority=10)
    await ended(rig, **({"bound": 1} if gone == "deleted" else {"failed": 1}))
    assert not evicted(rig)
    assert rig.placed_on("high") == ("a" if gone == "deleted" else "")


@pytest.mark.parametrize("count", [1, 2], ids=["pod", "gang"])
async def test_room_that_another_preemptor_got_meanwhile_is_not_planned_with(rig, count):
    """Its victims have not ended yet."""
    rig.engine.cache.groups.serve(WORKLOAD_API)
    rig.evictor.waits = True
    for name in "abcd"[: 2 * count]:
        rig.node(name)
        rig.engine.assigned.put(on_node(ours(f"low-{name}", requests=HALF, priority=0), name))

    class Meanwhile(FakeChildren):
        async def _messages(self, messages, child):
            for index in range(count if child == 1 else 0):
                rig.pod(f"other{index}", requests=HALF, priority=10)
            await settle()
            for message in messages:
                yield message

    rig.children.start = Meanwhile().start
    rig.engine.objects("PodGroup").put(make_pod_group("gang", count, priority=10))
    for index in range(count):
        rig.pod(f"m{index}", requests=HALF, priority=10, spec={**COSTLY, **(in_group() if count > 1 else {})})
    async with deciding(rig):
        await while_time_passes(rig, lambda: len(evicted(rig)) == 2 * count)
    assert len(rig.evictor.evicted) == 2 * count, "each victim once"
    nominated = [
        rig.engine.cache.nominator.node_of(f"default/{kind}{i}") for kind in ("m", "other") for i in range(count)
    ]
    assert sorted(nominated) == [*"abcd"[: 2 * count]]


async def test_an_event_while_a_child_chooses_victims_does_not_try_a_member_by_itself():
    """It would lose its nomination."""
    rig = Rig(children=FakeChildren())
    rig.clock = rig.children.clock = Clock()
    rig.evictor.waits = True
    full_nodes(rig)
    rig.node("other")
    for name, cpu in (("stays", "7"), ("ends", "1")):
        rig.engine.assigned.put(on_node(ours(name, requests={"cpu": cpu}, priority=100), "other"))
    rig.children.meanwhile = lambda _child: rig.engine.assigned.drop("default/ends", None)
    async with deciding(rig):
        await while_time_passes(rig, lambda: len(evicted(rig)) == MEMBERS)
        await settle()
    assert rig.engine.queue.counts()["gated"] == MEMBERS
    assert len(rig.engine.cache.nominator) == MEMBERS


async def test_a_plan_that_does_not_even_fit_in_a_quiet_time_fails(rig):
    rig.node("a")
    rig.children.meanwhile = lambda _child: take(rig, "a")
    costly(rig, "big", requests=HALF)
    rig.engine.queue.get("default/big").conflicts = CONFLICTS
    await ended(rig, failed=1)
    assert rig.recorder.notes("FailedScheduling") == [STILL_CHANGING]


async def test_an_event_that_helps_is_not_lost_while_a_child_decides(rig):
    rig.node("a", allocatable={"cpu": "1"})
    rig.children.meanwhile = lambda child: rig.node("b") if child == 1 else None
    costly(rig, "big", requests=HALF)
    async with deciding(rig):
        await until(lambda: rig.children.started == 1 and rig.recorder.notes("FailedScheduling"))
        rig.now += 20.0
        rig.engine.wake()
        await until(lambda: rig.cluster.bound == [("big", "b")])


async def test_a_deleted_pod_has_no_decision(rig):
    rig.node("a")
    raw = costly(rig, "big")
    rig.children.meanwhile = lambda _child: rig.engine.pending.drop("default/big", raw)
    async with deciding(rig):
        await until(lambda: rig.children.started == 1 and not rig.engine.queue.lane_is_busy)
        await settle()
    assert not rig.cluster.bound
    assert not rig.counts


class TestGangs:
    async def test_all_members_get_the_nodes_of_the_plan(self, rig):
        for name in "abc":
            rig.node(name)
        gang(rig, 3)
        await ended(rig, bound=3)
        assert rig.children.started == 1
        assert sorted(node for _, node in rig.cluster.bound) == ["a", "b", "c"]
        assert rig.groups.written[-1] == ("gang", "", "")

    async def test_a_member_whose_node_is_taken_gets_another_one(self, rig):
        for name in "abcd":
            rig.node(name)
        rig.children.meanwhile = lambda _child: take(rig, "a")
        gang(rig, 3)
        await ended(rig, bound=3)
        assert rig.children.started == 1
        assert sorted(node for _, node in rig.cluster.bound) == ["b", "c", "d"]

    async def test_no_member_is_bound_if_too_few_have_room_left(self, rig):
        for name in "abc":
            rig.node(name)

        def meanwhile(child):
            if child == 1:
                take(rig, "a")

        rig.children.meanwhile = meanwhile
        gang(rig, 3)
        async with deciding(rig):
            await while_time_passes(rig, lambda: rig.groups.written)
            assert rig.children.started >= 2
            assert not rig.cluster.bound
            assert rig.engine.cache.groups.placed("scheduling.k8s.io/default/gang") == 0
            rig.engine.assigned.drop("default/on-a", None)
            await while_time_passes(rig, lambda: len(rig.cluster.bound) == 3)

    @pytest.mark.parametrize(
        ("minimum", "lost", "bound"),
        [
            (1, "", {"a0", "a1", "b0", "b1", "a2"}),
            (1, "b1", {"a0", "a1", "a2"}),
            (4, "b1", set()),
        ],
        ids=["no node is lost", "one part is enough", "only with a part that lost one are there enough"],
    )
    async def test_a_part_that_loses_a_node_does_not_start_below_its_minimum(self, rig, minimum, lost, bound):
        rig.children.meanwhile = lambda child: lost and child == 1 and take(rig, lost)
        policy = {"name": "p", "subGroupSize": 2, "minSubGroups": 1, "matchLabelKeys": ["part"]}
        spec = {"minMember": minimum, "subGroupPolicy": [policy]}
        rig.engine.objects(VOLCANO_KIND).put({"metadata": {"name": "gang", "namespace": "default"}, "spec": spec})
        for name in ("a0", "a1", "b0", "b1", "a2"):
            rig.node(name, labels={"for": name})
            rig.pod(
                name,
                requests=HALF,
                spec={**COSTLY, "nodeSelector": {"for": name}},
                metadata={"labels": {"part": name[0]}, "annotations": {"scheduling.k8s.io/group-name": "gang"}},
            )
        async with deciding(rig):
            await while_time_passes(rig, lambda: rig.children.started >= 2 or len(rig.cluster.bound) == 5)
            await settle()
            assert {name for name, _ in rig.cluster.bound} == bound
            members = rig.engine.cache.groups.members(f"{VOLCANO_API}:default/gang")
            assert {pod.name for pod in members.placed.values()} == bound

    @pytest.mark.parametrize(
        ("priority", "pays"), [(None, 0), (0, 0), (10, 3)], ids=["placed", "preempting", "rejected"]
    )
    async def test_the_lane_pays_nothing_for_what_ordinary_members_do_once(self, rig, priority, pays):
        for name in "abc":
            rig.node(name)
        if priority is not None:
            rig.engine.assigned.put(on_node(ours("on-a", requests=HALF, priority=priority), "a"))
        async with deciding(rig):
            rig.engine.objects("PodGroup").put(make_pod_group("gang", 3, priority=10))
            for number in range(3):
                rig.pod(f"m{number}", requests=HALF, priority=10, spec=in_group())
                rig.engine.queue.get(f"default/m{number}").slow = True
            await until(lambda: rig.groups.written and not rig.engine.queue.lane_is_busy)
            assert rig.children.started == 1
            assert rig.engine.queue.lane_opens_at == pytest.approx(rig.now + pays * ORDINARY_SECONDS / SHARE)

    async def test_members_that_wait_for_the_rest_of_the_plan_are_not_nominated(self, rig, monkeypatch):
        monkeypatch.setattr(steps, "SLICE_SECONDS", 0.0)
        for name in "abc":
            rig.node(name)
        gang(rig, 3)
        await ended(rig, bound=3)
        assert rig.status.written == []

    async def test_members_beyond_the_minimum_wait_for_room(self, rig):
        for name in "ab":
            rig.node(name)
        gang(rig, 3, minimum=2)
        await ended(rig, bound=2, failed=1)
        assert len(rig.cluster.bound) == 2


class TestWithoutAChild:
    async def test_the_loop_decides(self, rig):
        rig.node("a")
        rig.children.refuse = "too little memory is left for a child process"
        costly(rig, "big")
        await ended(rig, bound=1)
        assert rig.cluster.bound == [("big", "a")]

    async def test_a_decision_that_holds_the_loop_too_long_fails(self):
        rig = Rig(children=FakeChildren())
        rig.children.refuse = "too little memory is left for a child process"
        rig.clock = Clock()
        rig.clock.step = LOOP_SECONDS
        a_preemptor(rig)
        await ended(rig, failed=1)
        (note,) = set(rig.recorder.notes("FailedScheduling"))
        assert note == "too little memory is left for a child process, and the decision takes more than 2 s"
        assert not evicted(rig)

    async def test_a_child_that_ends_fails_the_pod_that_it_was_at_and_gives_the_others_back(self, rig):
        rig.node("a")
        rig.children.end = "it took more than 60 s"

        def meanwhile(child):
            rig.children.end = "it took more than 60 s" if child == 1 else ""

        rig.children.meanwhile = meanwhile
        for name in ("x", "y"):
            costly(rig, name)
        await ended(rig, bound=1, failed=1)
        assert rig.recorder.notes("FailedScheduling") == ["the process that decides ended: it took more than 60 s"]
        assert [name for name, _ in rig.cluster.bound] == ["y"]


class Broken(Plugin, FilterPlugin):
    """Raises for pods whose name says so, and rejects others."""

    name = "Broken"

    def filter(self, _state, pod, _node):
        if pod.name.startswith("broken"):
            raise RuntimeError("of the plugin")
        return unresolvable("none of mine")


async def test_a_real_child_reports_what_its_plugins_did():
    rig = Rig({"Broken": Broken}, children=Forks())
    rig.node("a")
    assert rig.engine.policies.apply(custom_policy("filter", "Broken")).accepted
    costly(rig, "broken")
    costly(rig, "other")
    await ended(rig, failed=2)
    notes = sorted(rig.recorder.notes("FailedScheduling"))
    assert notes[0].startswith("0/1 nodes are available: 1 none of mine.")
    assert "of the plugin" in notes[1]
    assert values(rig, "podwright_plugin_exceptions_total") == {("Broken", "Filter"): 1.0}
    assert PLUGIN_EXCEPTIONS.name == "podwright_plugin_exceptions"
    policy = rig.engine.policies.named("custom").compiled
    assert "of the plugin" in rig.engine.plugin_exceptions.summary(policy)
