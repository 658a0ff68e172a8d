"""Members of groups of Volcano, KAI and Grove have the priority of the PriorityClass that their group names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pytest

from podwright.core.objects.pod import parse_pod
from podwright.core.objects.pod_group import (
    APIS,
    GROVE_KIND,
    GROVE_LABEL,
    KAI_API,
    KAI_KIND,
    VOLCANO_API,
    VOLCANO_KIND,
)
from podwright.core.queues.queues import QueueRules, queues_of
from podwright.core.queues.tree import Quota
from podwright.engine.attempts.gangs.group_changes import CLASS_NOT_FOUND, INCOMPLETE_SECONDS, RANKED_AT_ONCE
from podwright.engine.planning.placing import still_preempts
from support.engine.kit import Rig, deciding, on_node, ours, settle
from support.engine.long_work import Clock, FakeChildren
from support.hostile.objects import many_tolerations
from support.waiting import until

ALL: Final = {"cpu": "8"}
SPECS: Final = {
    VOLCANO_KIND: {"minMember": 2},
    KAI_KIND: {"minMember": 2},
    GROVE_KIND: {"podgroups": [{"name": "p", "minReplicas": 2}]},
}
METADATA: Final[dict[str, Any]] = {
    VOLCANO_KIND: {"annotations": {"scheduling.k8s.io/group-name": "gang"}},
    KAI_KIND: {"annotations": {"pod-group-name": "gang"}},
    GROVE_KIND: {"labels": {GROVE_LABEL: "gang", "grove.io/podclique": "p"}},
}
PAIR: Final = ("m0", "m1")


def rig_with(kind: str = VOLCANO_KIND, nodes: int = 2, **options: Any) -> Rig:
    """Nodes of 8 CPUs, and the classes `high` of 100 and `low` of -100."""
    rig = Rig(**options)
    rig.engine.cache.groups.serve(APIS[kind])
    for index in range(nodes):
        rig.node(f"n{index}")
    for name, value in (("high", 100), ("low", -100)):
        a_class(rig, name, value)
    return rig


def a_class(rig: Rig, name: str, value: object) -> None:
    rig.engine.objects("PriorityClass").put({"metadata": {"name": name}, "value": value})


def group(rig: Rig, name: object = "high", kind: str = VOLCANO_KIND, uid: str = "gang", **spec: Any) -> None:
    metadata = {"name": "gang", "namespace": "default", "uid": uid}
    rig.engine.objects(kind).put({"metadata": metadata, "spec": {**SPECS[kind], "priorityClassName": name, **spec}})


def members(rig: Rig, kind: str = VOLCANO_KIND, names: Sequence[str] = PAIR, **options: Any) -> None:
    for name in names:
        rig.pod(name, requests=ALL, metadata=METADATA[kind], **options)


def running(rig: Rig, kind: str = VOLCANO_KIND, **options: Any) -> None:
    for index, name in enumerate(PAIR):
        rig.engine.assigned.put(on_node(ours(name, requests=ALL, metadata=METADATA[kind], **options), f"n{index}"))


def priorities(rig: Rig, names: Sequence[str] = PAIR) -> list[int]:
    found = []
    for name in names:
        uid = f"default/{name}"
        placed, queued = rig.engine.cache.placement(uid), rig.engine.queue.get(uid)
        found.append(queued.pod.priority if placed is None else placed.pods[uid].priority)
    return found


async def housekeeping(rig: Rig) -> list[str]:
    rig.engine.group_changes.report_incomplete()
    rig.now += INCOMPLETE_SECONDS
    rig.engine.group_changes.report_incomplete()
    return rig.recorder.notes(CLASS_NOT_FOUND)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["the group comes first", "the pods come first"])
@pytest.mark.parametrize("kind", [VOLCANO_KIND, KAI_KIND, GROVE_KIND])
async def test_the_queue_has_a_group_before_pods_of_lower_priority(kind, order):
    rig = rig_with(kind)
    steps = [lambda: group(rig, kind=kind), lambda: members(rig, kind)]
    rig.pod("plain", requests=ALL, priority=50)
    for step in order:
        steps[step]()
    await settle()
    async with deciding(rig):
        assert [name for name, _ in rig.cluster.bound] == [*PAIR]


async def test_a_group_is_after_pods_of_higher_priority_whatever_its_own_pods_have():
    rig = rig_with()
    group(rig, "low")
    members(rig, priority=1000)
    rig.pod("plain", requests=ALL)
    async with deciding(rig):
        assert [name for name, _ in rig.cluster.bound] == ["plain"]


async def test_members_of_different_priorities_are_one_gang_in_a_group_with_a_class():
    rig = rig_with()
    group(rig)
    members(rig, names=PAIR[:1], priority=5)
    members(rig, names=PAIR[1:], priority=7)
    async with deciding(rig):
        assert len(rig.cluster.bound) == 2


@pytest.mark.parametrize(("name", "evicted"), [("high", {"a", "b"}), ("low", set()), (None, set())])
async def test_a_group_preempts_by_its_class(name, evicted):
    rig = rig_with()
    for index, victim in enumerate("ab"):
        rig.engine.assigned.put(on_node(ours(victim, requests=ALL, priority=50), f"n{index}"))
    group(rig, name)
    members(rig)
    async with deciding(rig):
        assert {victim for victim, *_ in rig.evictor.evicted} == evicted


@pytest.mark.parametrize(("name", "own", "evicted"), [("high", 0, set()), ("low", 100, {*PAIR}), (None, 0, {*PAIR})])
async def test_a_group_is_evicted_by_its_class(name, own, evicted):
    rig = rig_with()
    group(rig, name)
    running(rig, priority=own)
    rig.pod("urgent", requests=ALL, priority=50)
    async with deciding(rig):
        assert {victim for victim, *_ in rig.evictor.evicted} == evicted


class TestChanges:
    @pytest.mark.parametrize("place", [members, running], ids=["they wait", "they run"])
    async def test_members_follow_the_class_and_the_group(self, place):
        rig = rig_with(nodes=2 if place is running else 0)
        place(rig, priority=3)
        steps = [
            (lambda: group(rig, "later"), 3),
            (lambda: a_class(rig, "later", 70), 70),
            (lambda: group(rig, "low"), -100),
            (lambda: group(rig, "high"), 100),
            (lambda: a_class(rig, "high", 80), 80),
            (lambda: rig.engine.objects("PriorityClass").drop("/high", None), 3),
            (lambda: a_class(rig, "high", 90), 90),
            (lambda: group(rig, ""), 3),
            (lambda: group(rig, "high"), 90),
            (lambda: rig.engine.objects(VOLCANO_KIND).drop("default/gang", None), 3),
        ]
        async with deciding(rig):
            for step, expected in steps:
                step()
                await settle()
                assert priorities(rig) == [expected, expected]

    async def test_a_pod_that_waits_is_tried_again_when_that_of_a_running_group_falls(self):
        rig = rig_with()
        group(rig, "high")
        running(rig)
        rig.pod("urgent", requests=ALL, priority=50)
        async with deciding(rig):
            assert rig.counts == {"unschedulable": 1}
            group(rig, "low")
            await settle()
            rig.now += 20
            rig.engine.wake()
            await settle()
            assert {victim for victim, *_ in rig.evictor.evicted} == {*PAIR}

    @pytest.mark.parametrize("change", ["the priority falls", "a member goes"])
    async def test_what_follows_for_nominated_members_of_a_large_gang_comes_in_steps(self, change, monkeypatch):
        rig, moves, names = rig_with(nodes=1), [], [f"m{index}" for index in range(30)]
        group(rig, minMember=len(names))
        members(rig, names=names)
        for name in names:
            rig.engine.cache.nominator.add(rig.engine.queue.get(f"default/{name}").pod, "n0")
        await settle()
        rig.clock = Clock()
        if change == "a member goes":
            rig.engine.pending.drop("default/m0", None)
        else:
            group(rig, "low", minMember=len(names))
        monkeypatch.setattr(rig.engine.queue, "move", lambda *_, **__: moves.append(""))
        rig.engine.group_changes.process()
        assert 0 < len(moves) < 10
        await settle()
        assert len(moves) == len(names) - (change == "a member goes")

    @pytest.mark.parametrize("name", ["later", "high"], ids=["the class comes", "the class goes"])
    async def test_a_large_gang_has_no_error_while_its_members_get_another_priority(self, name):
        rig = rig_with(nodes=2)
        count = 2 * RANKED_AT_ONCE
        group(rig, name, minMember=count)
        async with deciding(rig):
            members(rig, names=[f"m{index}" for index in range(count - 1)])
            await settle()
            if name == "later":
                a_class(rig, name, 70)
            else:
                rig.engine.objects("PriorityClass").drop(f"/{name}", None)
            members(rig, names=["last"])
            await settle()
            assert rig.engine.queue.get("default/last").errors == 0
            assert not [text for text in rig.recorder.notes("FailedScheduling") if "same priority" in text]

    async def test_members_follow_before_the_watch_shows_that_they_are_bound(self):
        rig = rig_with()
        group(rig, "low")
        async with deciding(rig):
            members(rig)
            await settle()
            group(rig, "high")
            rig.pod("urgent", requests=ALL, priority=50)
            await settle()
            assert ([name for name, _ in rig.cluster.bound], rig.evictor.evicted) == ([*PAIR], [])
            assert [rig.engine.cache.is_assumed(f"default/{name}") for name in PAIR] == [True, True]

    async def test_a_gang_that_waits_is_tried_again_when_its_priority_rises(self):
        rig = rig_with()
        for index, victim in enumerate("ab"):
            rig.engine.assigned.put(on_node(ours(victim, requests=ALL, priority=50), f"n{index}"))
        group(rig, "low")
        members(rig)
        async with deciding(rig):
            assert rig.evictor.evicted == []
            group(rig, "high")
            await settle()
            rig.now += 20
            rig.engine.wake()
            await settle()
            assert {victim for victim, *_ in rig.evictor.evicted} == {"a", "b"}

    async def test_its_nomination_keeps_pods_off_only_while_it_has_the_higher_priority(self):
        rig = rig_with()
        rig.evictor.waits = True
        for index, victim in enumerate("ab"):
            rig.engine.assigned.put(on_node(ours(victim, requests=ALL), f"n{index}"))
        group(rig)
        members(rig)
        async with deciding(rig):
            assert len(rig.engine.cache.nominator) == 2
            rig.engine.assigned.drop("default/a", None)
            rig.pod("plain", requests=ALL, priority=50)
            await settle()
            assert rig.cluster.bound == []
            group(rig, "low")
            await settle()
            rig.now += 20
            rig.engine.wake()
            await settle()
            assert rig.cluster.bound == [("plain", "n0")]

    async def test_a_large_gang_gets_its_priority_in_steps(self):
        rig = rig_with(nodes=0)
        names = [f"m{index}" for index in range(3 * RANKED_AT_ONCE)]
        members(rig, names=names)
        changes = rig.engine.group_changes
        group(rig, minMember=len(names))
        changes.process()
        assert priorities(rig, names).count(100) == RANKED_AT_ONCE
        for _ in range(2):
            changes.process()
        assert priorities(rig, names) == [100] * len(names)


class TestWhileAChildPlans:
    @staticmethod
    def rig(value: int) -> Rig:
        """The class that the group names has another value while the first child plans."""
        children = FakeChildren()
        rig = rig_with(children=children)

        def meanwhile(child: int) -> None:
            if child == 1:
                a_class(rig, "later", value)
                rig.engine.group_changes.process()

        children.meanwhile = meanwhile
        return rig

    async def test_victims_get_another_priority(self):
        rig = self.rig(100)
        a_class(rig, "later", -100)
        group(rig, "later")
        running(rig)
        async with deciding(rig):
            rig.pod("urgent", requests=ALL, priority=50, spec=many_tolerations(3_000))
            await until(lambda: rig.counts == {"unschedulable": 1})
        assert (rig.evictor.evicted, rig.children.started) == ([], 2)

    async def test_the_preemptor_gets_another_priority(self):
        rig = self.rig(-100)
        a_class(rig, "later", 100)
        group(rig, "later")
        for index, victim in enumerate("ab"):
            rig.engine.assigned.put(on_node(ours(victim, requests=ALL, priority=50), f"n{index}"))
        async with deciding(rig):
            members(rig, spec=many_tolerations(3_000))
            await until(lambda: rig.counts == {"unschedulable": 2})
        assert (rig.evictor.evicted, rig.children.started) == ([], 2)

    def test_a_victim_gets_another_priority_while_the_plan_is_carried_out(self):
        rig = rig_with()
        group(rig, "low")
        running(rig)
        victim = rig.engine.cache.placement("default/m0").pods["default/m0"]
        preemptor = parse_pod(ours("urgent", priority=50))
        assert still_preempts(preemptor, ["n0"], [victim], {}, rig.engine.cache)
        group(rig, "high")
        rig.engine.group_changes.process()
        assert not still_preempts(preemptor, ["n0"], [victim], {}, rig.engine.cache)


async def test_all_running_members_have_it_before_the_first_decision():
    rig = rig_with(nodes=0)
    names = [f"m{index}" for index in range(2 * RANKED_AT_ONCE + 2)]
    for name in names:
        rig.node(name)
        rig.engine.assigned.put(on_node(ours(name, requests=ALL, metadata=METADATA[VOLCANO_KIND]), name))
    rig.pod("urgent", requests=ALL, priority=50)
    group(rig)
    async with deciding(rig):
        assert (rig.evictor.evicted, rig.counts) == ([], {"unschedulable": 1})


async def test_pods_of_a_group_of_kai_are_firm_by_its_class_where_the_queue_says_from_which_priority():
    rig = rig_with(KAI_KIND)
    queues = queues_of(rig.engine.cache)
    queues.set(QueueRules("train", quotas={"cpu": Quota(guarantee=8000)}, firm_priority=100))
    group(rig, "low", KAI_KIND, queue="train")
    running(rig, KAI_KIND)
    await settle()
    held = queues.usage("train")
    assert (held["cpu"], dict(queues.queue("train").firm)) == (16000, {})
    group(rig, "high", KAI_KIND, queue="train")
    await settle()
    assert queues.queue("train").firm["cpu"] == 16000


class TestUnknownClass:
    @pytest.mark.parametrize("kind", [VOLCANO_KIND, KAI_KIND, GROVE_KIND])
    async def test_one_event_names_the_group_the_field_and_the_class(self, kind):
        rig = rig_with(kind)
        async with deciding(rig):
            group(rig, "gone", kind)
            members(rig, kind, names=PAIR[:1])
            await settle()
            expected = [
                "spec.priorityClassName: there is no PriorityClass 'gone', so the pods have their own priorities"
            ]
            assert await housekeeping(rig) == expected
            assert await housekeeping(rig) == expected
            assert {name for name, reason, _ in rig.recorder.events if reason == CLASS_NOT_FOUND} == {"gang"}

    @pytest.mark.parametrize("name", ["high", "", 7, None, ["high"]])
    async def test_there_is_none_for_a_known_class_or_no_name(self, name):
        rig = rig_with()
        async with deciding(rig):
            group(rig, name)
            members(rig, names=PAIR[:1])
            await settle()
            assert await housekeeping(rig) == []

    async def test_there_is_none_if_the_class_comes_in_time(self):
        rig = rig_with()
        async with deciding(rig):
            group(rig, "later")
            members(rig, names=PAIR[:1])
            await settle()
            a_class(rig, "later", 5)
            await settle()
            assert await housekeeping(rig) == []

    async def test_a_group_that_is_made_anew_again_and_again_has_one_until_its_pods_are_gone(self):
        rig = rig_with(nodes=0)
        async with deciding(rig):
            for count in (1, 2):
                members(rig)
                for number in range(5):
                    group(rig, "gone", uid=f"gang-{number}")
                    await settle()
                    assert len(await housekeeping(rig)) == count
                    rig.engine.objects(VOLCANO_KIND).drop("default/gang", None)
                    await settle()
                for name in PAIR:
                    rig.engine.pending.drop(f"default/{name}", None)
                await settle()

    async def test_there_is_none_while_no_classes_can_be_read(self):
        rig = Rig()
        async with deciding(rig):
            group(rig, "high")
            members(rig, names=PAIR[:1])
            await settle()
            assert await housekeeping(rig) == []
            a_class(rig, "other", 5)
            assert len(await housekeeping(rig)) == 1

    async def test_it_comes_once_a_pod_waits_again(self):
        rig = rig_with()
        async with deciding(rig):
            group(rig, "gone")
            members(rig, names=PAIR[:1])
            await settle()
            rig.engine.pending.drop("default/m0", None)
            assert await housekeeping(rig) == []
            members(rig, names=PAIR[:1])
            await settle()
            assert len(await housekeeping(rig)) == 1

    async def test_a_name_may_be_long(self):
        rig = rig_with(nodes=0)
        async with deciding(rig):
            group(rig, "x" * 100_000)
            members(rig)
            await settle()
            (note,) = await housekeeping(rig)
            assert len(note) < 250

    @pytest.mark.parametrize("value", [None, "7", 1.5, True, {}])
    async def test_a_class_without_a_whole_number_counts_as_unknown(self, value):
        rig = rig_with(nodes=0)
        a_class(rig, "odd", value)
        group(rig, "odd")
        members(rig, priority=3)
        await settle()
        assert priorities(rig) == [3, 3]


@pytest.mark.parametrize("api", [VOLCANO_API, KAI_API])
async def test_without_the_api_pods_have_their_own_priority(api):
    rig = rig_with(nodes=0)
    kind = VOLCANO_KIND if api == VOLCANO_API else KAI_KIND
    group(rig, kind=kind)
    members(rig, kind, priority=3)
    rig.engine.objects(kind).drop("default/gang", None)
    rig.engine.cache.groups.withdraw(api)
    await settle()
    assert priorities(rig) == [3, 3]
