"""Long answers are rendered at most once a second, whoever asks."""

from __future__ import annotations

import asyncio
import os
import zlib

import pytest

from podwright.kube.serve.answers import pages
from podwright.kube.serve.answers.pages import PIECE, LongAnswer, decompressed


class Rendered:
    """A text whose renderings are counted. With `held`, a rendering waits."""

    def __init__(self, *parts):
        self.parts = parts
        self.times = 0
        self.now = 100.0
        self.held = asyncio.Event()
        self.held.set()

    async def __call__(self):
        self.times += 1
        for part in self.parts:
            await self.held.wait()
            yield part

    def clock(self):
        return self.now


@pytest.fixture
def waits(monkeypatch):
    """How long renderings were put off."""
    found = []
    sleep = asyncio.sleep

    async def record(seconds):
        found.append(seconds)
        await sleep(0)

    monkeypatch.setattr(pages.asyncio, "sleep", record)
    return found


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param((), id="nothing"),
        pytest.param((b"one ", b"", b"two"), id="parts"),
        pytest.param((b"x" * 10_000_000,), id="a long part that compresses well"),
        pytest.param((os.urandom(3 * PIECE + 1),), id="a part that does not compress"),
    ],
)
async def test_the_text_comes_back(parts):
    body = await LongAnswer(Rendered(*parts), lambda: 0.0).body()
    pieces = list(decompressed(body))
    assert b"".join(pieces) == b"".join(parts)
    assert max(map(len, pieces), default=0) <= PIECE
    assert zlib.decompress(b"".join(body), 31) == b"".join(parts)


async def test_readers_share_a_rendering_and_the_next_waits_for_the_second_to_end(waits):
    render = Rendered(b"text")
    page = LongAnswer(render, render.clock)
    await asyncio.gather(*(page.body() for _ in range(10)))
    assert (render.times, waits) == (1, [0])
    render.now += 0.25
    await asyncio.gather(*(page.body() for _ in range(10)))
    assert (render.times, waits) == (2, [0, 0.75])
    render.now += 5
    await page.body()
    assert render.times == 3
    assert waits[2] < 0


async def test_a_rendering_outlives_the_reader_that_began_it(waits):
    render = Rendered(b"text")
    render.held.clear()
    page = LongAnswer(render, render.clock)
    first, second = (asyncio.ensure_future(page.body()) for _ in range(2))
    while not render.times:
        await asyncio.wait({first}, timeout=0)
    first.cancel()
    render.held.set()
    assert b"".join(decompressed(await second)) == b"text"
    assert render.times == 1


async def test_after_an_error_the_next_reader_begins_anew(waits):
    async def fails():
        raise ValueError("once")
        yield b""

    render = Rendered(b"text")
    answers = [render(), fails()]
    page = LongAnswer(answers.pop, render.clock)
    with pytest.raises(ValueError, match="once"):
        await page.body()
    assert b"".join(decompressed(await page.body())) == b"text"
