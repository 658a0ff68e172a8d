"""What wakes the engine when nothing happens: time."""

from __future__ import annotations

import asyncio

import pytest

from podwright.core.framework.interface import EnqueueExtensions, FilterPlugin, Plugin
from podwright.core.framework.status import unschedulable
from podwright.core.queue import Waits
from podwright.engine import engine
from support.engine.kit import Rig, deciding, settle


class Moody(Plugin, FilterPlugin, EnqueueExtensions):
    """Answers as the test says; nothing that happens changes its mind."""

    name = "Moody"
    answer = None

    def filter(self, _state, _pod, _node):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def hints(self):
        return []


def moody(**options):
    rig = Rig({"Moody": type("Moody", (Moody,), {})}, **options)
    policy = {
        "metadata": {"name": "moody", "uid": "moody", "generation": 1},
        "spec": {"strategy": {"type": "Custom"}, "plugins": {"filter": {"enabled": [{"name": "Moody"}]}}},
    }
    assert rig.engine.policies.apply(policy).accepted
    rig.node("a")
    return rig


@pytest.fixture
def impatient(monkeypatch):
    """The engine looks at the queue more often than once in a second, so that the test need not wait for that."""
    monkeypatch.setattr(engine, "FLUSH_SECONDS", 0.01)


async def until_bound(rig):
    async with asyncio.timeout(20):
        while not rig.cluster.bound:  # noqa: ASYNC110 -- it is the engine's own timer that is waited for
            await asyncio.sleep(0.005)


@pytest.mark.usefixtures("impatient")
async def test_a_backoff_that_is_over_is_noticed_though_nothing_happens():
    rig = moody()
    moods = rig.engine.policies.of(rig_pod(rig)).framework.plugins["Moody"]
    moods.answer = RuntimeError("not in the mood")
    async with deciding(rig):
        assert rig.counts == {"backoff": 1}
        moods.answer = None
        rig.now += 3
        await until_bound(rig)


@pytest.mark.usefixtures("impatient")
async def test_a_pod_that_nothing_has_helped_is_tried_again_after_as_long_as_the_engine_was_told():
    rig = moody(waits=Waits(max_unschedulable=60))
    moods = rig.engine.policies.of(rig_pod(rig)).framework.plugins["Moody"]
    moods.answer = unschedulable("not in the mood")
    async with deciding(rig):
        assert rig.counts == {"unschedulable": 1}
        moods.answer = None
        rig.now += 59
        rig.engine.wake()
        await settle()
        assert rig.counts == {"unschedulable": 1}
        rig.now += 31
        await until_bound(rig)


def rig_pod(rig):
    rig.pod("web")
    return rig.engine.queue.get("default/web").pod
