"""What changes the pod, its policy or its group while an attempt is paused, and does not show in the cache; and what a pause leaves behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from podwright.core.framework.interface import Plugin, ReservePlugin
from podwright.core.framework.status import Code, Status
from podwright.core.objects.pod_group import KIND, WORKLOAD_API
from podwright.core.queue.queued_pod import Place
from support.engine.kit import Rig, custom_policy, deciding, on_node, ours, settle
from support.engine.sliced import ALL, MEMBERS, Clock, Others, a_preemptor, evicted, full_nodes
from support.objects.builders import in_group, make_pod_group
from support.waiting import patience


@pytest.fixture
def rig() -> Rig:
    made = Rig()
    made.clock = Clock()
    return made


async def paused(rig: Rig, act: Callable[[], Any], until: Callable[[], Any]) -> None:
    """Lets the engine decide. `act` is called once, while an attempt is paused."""
    task = asyncio.create_task(Others(rig, lambda turn: act() if turn == 3 else None).run())
    async with deciding(rig), patience():
        await task
        while not until():
            await asyncio.sleep(0.01)
        await settle()


class TestWhatTheCacheDoesNotShow:
    """A paused attempt also starts anew, or ends, if its pod or policy changes."""

    async def test_a_pod_that_is_terminating_by_then_evicts_nobody(self, rig):
        raw = a_preemptor(rig)
        metadata = {**raw["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
        await paused(
            rig,
            lambda: rig.engine.pending.put({**raw, "metadata": metadata}),
            until=lambda: rig.engine.queue.get("default/high") is None,
        )
        assert not rig.evictor.evicted

    async def test_another_policy_decides_by_then(self, rig):
        a_preemptor(rig)
        evicts_nobody = custom_policy("score", "NodeAffinity")
        evicts_nobody["spec"]["plugins"]["postFilter"] = {"disabled": [{"name": "*"}]}

        def switch() -> None:
            assert rig.engine.policies.apply(evicts_nobody).accepted
            rig.engine.policies_changed()

        await paused(rig, switch, until=lambda: rig.recorder.policies)
        assert not rig.evictor.evicted
        assert rig.recorder.policies == ["custom@1"]

    async def test_the_pod_is_decided_about_as_it_is_by_then(self, rig):
        raw = a_preemptor(rig)
        rig.node("small", allocatable={"cpu": "1"})
        small = ours("high", requests={"cpu": "1"}, priority=10)
        small["metadata"] = {**raw["metadata"], "resourceVersion": "1000"}
        await paused(rig, lambda: rig.engine.pending.put(small), until=lambda: rig.cluster.bound)
        assert not rig.evictor.evicted
        assert rig.cluster.bound == [("high", "small")]

    async def test_a_group_that_is_deleted_while_another_goes_before_it_is_not_placed(self, rig):
        """The attempt at a group begins with those at partially placed ones, which may pause."""
        groups = rig.engine.cache.groups
        groups.serve(WORKLOAD_API)
        full_nodes(rig)
        for i in range(MEMBERS):
            rig.engine.pending.drop(f"default/m{i}", None)
        rig.node("room", labels={"for": "later"})
        rig.engine.objects(KIND).put(make_pod_group("later", 2))
        places = []

        def leave(turn: int) -> None:
            if turn == 3:
                places.append(rig.engine.queue.get("default/l0").place)
                rig.engine.objects(KIND).drop("default/later", None)

        async with deciding(rig):
            for i in range(2):
                rig.pod(f"l{i}", priority=10, spec={"nodeSelector": {"for": "later"}, **in_group("later")})
            for i in range(MEMBERS - 1):
                rig.pod(f"m{i}", requests=ALL, priority=10, spec=in_group())
            rig.engine.assigned.put(on_node(ours("placed", priority=10, spec=in_group()), "room"))
            assert [group.name for group in groups.partially_placed] == ["gang"]
            task = asyncio.create_task(Others(rig, leave).run())
            await asyncio.wait((task,), timeout=5)
            await settle()
        assert places == [Place.IN_FLIGHT]
        assert len(evicted(rig)) == MEMBERS - 1
        assert not rig.cluster.bound


class Fickle(Plugin, ReservePlugin):
    """Refuses every pod that it has seen before, once."""

    name = "Fickle"
    fails = False
    seen: ClassVar[dict[str, int]] = {}

    def reserve(self, _state, pod, _node_name):
        self.seen[pod.uid] = self.seen.get(pod.uid, 0) + 1
        if self.seen[pod.uid] != 2:
            return None
        if self.fails:
            raise RuntimeError("not again")
        return Status(Code.UNSCHEDULABLE, ("not again",))

    def unreserve(self, _state, _pod, _node_name):
        pass


@pytest.mark.parametrize("fails", [False, True], ids=["refuses", "raises"])
async def test_a_plugin_that_does_not_reserve_again_what_it_has_leaves_nothing_behind(monkeypatch, fails):
    monkeypatch.setattr(Fickle, "seen", {})
    monkeypatch.setattr(Fickle, "fails", fails)
    rig = Rig(plugins={Fickle.name: Fickle})
    rig.clock = Clock()
    assert rig.engine.policies.apply(custom_policy("reserve", Fickle.name)).accepted
    full_nodes(rig)
    before = {name: list(info.pods) for name, info in rig.engine.cache.nodes.items()}
    async with deciding(rig), patience():
        while not rig.recorder.notes("FailedScheduling"):
            await asyncio.sleep(0.01)
        rig.clock.runs = False
    assert max(Fickle.seen.values()) > 1
    assert {name: list(info.pods) for name, info in rig.engine.cache.nodes.items()} == before
