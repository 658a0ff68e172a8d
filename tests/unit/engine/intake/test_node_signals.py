"""What sources of signals say waits for the end of a quiet time, as what watches bring does."""

from __future__ import annotations

import asyncio

import pytest

from podwright.api.configuration.signals import load_signals
from podwright.api.permissions import PolicySettings
from podwright.core.state.signals.signals import Sample, Taken
from podwright.engine.pauses import quiet
from podwright.engine.pauses.quiet import LONGEST_SECONDS
from support.engine.kit import Rig, settle
from support.engine.sliced import MEMBERS, Clock, decided, evicted, full_nodes

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
    rig.engine.slices.quiet.begin(1.0)
    version = rig.engine.cache.version
    taking = asyncio.create_task(signals.take("load", {"n0": Sample(7.0)}, signals.now))
    await settle()
    assert rig.engine.cache.version == version
    rig.engine.slices.quiet.end()
    rig.engine.slices.quiet.begin(1.0)
    await settle()
    assert rig.engine.cache.version == version, "another quiet time began before the task had its turn"
    rig.engine.slices.quiet.end()
    assert await taking == Taken(new=1)
    assert load(rig) == 7.0


async def test_no_time_passes_for_samples_in_a_quiet_time(rig):
    signals = rig.engine.node_signals
    await signals.take("load", {"n0": Sample(7.0)}, signals.now)
    rig.engine.slices.quiet.begin(1.0)
    rig.now += 61.0
    signals.tick()
    assert load(rig) == 7.0
    rig.engine.slices.quiet.end()
    signals.tick()
    assert load(rig) == 0.0


async def test_a_gang_is_decided_while_a_source_answers_all_the_time(rig, monkeypatch):
    monkeypatch.setattr(quiet, "SHORTEST_SECONDS", LONGEST_SECONDS)
    rig.clock = Clock()
    full_nodes(rig)
    signals, tasks = rig.engine.node_signals, []

    def change(turn: int) -> None:
        tasks.append(asyncio.create_task(signals.take("load", {"n0": Sample(float(turn % 90))}, signals.now)))
        signals.tick()

    await decided(rig, change)
    await asyncio.gather(*tasks)
    assert evicted(rig) == {f"low{i}" for i in range(MEMBERS)}
