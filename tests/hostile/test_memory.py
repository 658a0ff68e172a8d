"""Objects with names and values of their own come and go. What they needed is free again once they are gone."""

from __future__ import annotations

import logging
import os

import pytest

from support.hostile.waves import AT_ONCE, WAVES, Wave, roll, tide

NODES = 500
VALUES = int(os.environ.get("PODWRIGHT_WAVES", "10000"))
"""How many names and values come and go in each wave. `make fuzz` has ten times as many."""
GROWTH = 1.2
"""Memory in use afterwards may be this many times that before, which is about two megabytes."""

pytestmark = pytest.mark.slow
each_wave = pytest.mark.parametrize("wave", [pytest.param(wave, id=wave.name) for wave in WAVES])


@pytest.fixture(autouse=True)
def no_log(caplog: pytest.LogCaptureFixture) -> None:
    """The capture of log lines would keep them."""
    caplog.set_level(logging.CRITICAL, "podwright")


async def in_use(wave: Wave, values: int) -> tuple[int, int]:
    """The bytes in use before and after a wave with as many names and values.

    A small wave comes first: rows of the node table stay, as many as there were nodes at one time. If too much stays,
    another wave must not add as much again: a table that all tests of the process share may have grown, once.
    """
    async with tide(NODES) as running:
        await roll(running, wave, 10**7, min(AT_ONCE, 2_000 // wave.values))
        before = await running.in_use()
        await roll(running, wave, 0, values // wave.values)
        after = await running.in_use()
        if after > GROWTH * before:
            await roll(running, wave, 2 * 10**7, values // wave.values)
            after = before + await running.in_use() - after
        return before, after


@each_wave
async def test_values_that_come_and_go_leave_no_memory_behind(wave):
    before, after = await in_use(wave, VALUES)
    assert after <= GROWTH * before, (before, after)
