"""Timers wake an idle engine."""

from __future__ import annotations

import asyncio

import pytest

from podwright.core.framework.interface import EnqueueExtensions, FilterPlugin, Plugin
from podwright.core.framework.status import unschedulable
from podwright.core.queue import Waits
from podwright.engine import engine
from support.engine.kit import Rig, deciding, settle
from support.waiting import patience


class Scripted(Plugin, FilterPlugin, EnqueueExtensions):
    """Returns or raises `answer`. No event helps a pod that it rejected."""

    name = "Scripted"
    answer = None

    def filter(self, _state, _pod, _node):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def hints(self):
        return []


def scripted(**options):
    rig = Rig({"Scripted": type("Scripted", (Scripted,), {})}, **options)
    policy = {
        "metadata": {"name": "scripted", "uid": "scripted", "generation": 1},
        "spec": {"strategy": {"type": "Custom"}, "plugins": {"filter": {"enabled": [{"name": "Scripted"}]}}},
    }
    assert rig.engine.policies.apply(policy).accepted
    rig.node("a")
    return rig


@pytest.fixture
def short_flush(monkeypatch):
    """Flushes the queue more often than once a second, so that tests need not wait for it."""
    monkeypatch.setattr(engine, "FLUSH_SECONDS", 0.01)


async def until_bound(rig):
    async with patience():
        while not rig.cluster.bound:
            await asyncio.sleep(0.005)


@pytest.mark.usefixtures("short_flush")
async def test_a_pod_is_retried_when_its_backoff_ends_without_any_event():
    rig = scripted()
    plugin = rig.engine.policies.of(rig_pod(rig)).framework.plugins["Scripted"]
    plugin.answer = RuntimeError("no")
    async with deciding(rig):
        assert rig.counts == {"backoff": 1}
        plugin.answer = None
        rig.now += 3
        await until_bound(rig)


@pytest.mark.usefixtures("short_flush")
async def test_an_unschedulable_pod_is_retried_after_the_configured_maximum_wait():
    rig = scripted(waits=Waits(max_unschedulable=60))
    plugin = rig.engine.policies.of(rig_pod(rig)).framework.plugins["Scripted"]
    plugin.answer = unschedulable("no")
    async with deciding(rig):
        assert rig.counts == {"unschedulable": 1}
        plugin.answer = None
        rig.now += 59
        rig.engine.wake()
        await settle()
        assert rig.counts == {"unschedulable": 1}
        rig.now += 31
        await until_bound(rig)


def rig_pod(rig):
    rig.pod("web")
    return rig.engine.queue.get("default/web").pod
