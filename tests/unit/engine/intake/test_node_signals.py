"""Answers of signal sources wait for the end of a quiet time, as watch events do."""

from __future__ import annotations

import asyncio

import pytest

from podwright.api.configuration.signals import load_signals
from podwright.api.permissions import PolicySettings
from podwright.core.state.signals.signals import Sample, Taken
from support.engine.kit import Rig, settle

LOAD = b"signals: [{name: load, staleness: 60s, prometheus: {url: 'http://prometheus.example', query: up}}]"


@pytest.fixture
def rig() -> Rig:
    made = Rig(policies=PolicySettings(signals=load_signals(LOAD)))
    made.node("n0")
    return made


def load(rig):
    return rig.engine.cache.signals.value("load", "n0")


async def test_samples_wait_for_the_end_of_a_quiet_time(rig):
    signals = rig.engine.node_signals
    rig.engine.planning.quiet.begin()
    version = rig.engine.cache.version
    taking = asyncio.create_task(signals.take("load", {"n0": Sample(7.0)}, signals.now))
    await settle()
    assert rig.engine.cache.version == version
    rig.engine.planning.quiet.end()
    rig.engine.planning.quiet.begin()
    await settle()
    assert rig.engine.cache.version == version, "another quiet time began before the task had its turn"
    rig.engine.planning.quiet.end()
    assert await taking == Taken(new=1)
    assert load(rig) == 7.0


async def test_no_time_passes_for_samples_in_a_quiet_time(rig):
    signals = rig.engine.node_signals
    await signals.take("load", {"n0": Sample(7.0)}, signals.now)
    rig.engine.planning.quiet.begin()
    rig.now += 61.0
    signals.tick()
    assert load(rig) == 7.0
    rig.engine.planning.quiet.end()
    signals.tick()
    assert load(rig) == 0.0
