"""Answers in short steps of the scheduler's loop: few of one kind at a time."""

import asyncio

import pytest

from podwright.kube.serve.answers.steps import MOST_ANSWERS
from support.serve.kit import Told, get, serving
from support.waiting import patience


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        pytest.param("about_pod", "/debug/explain?namespace=team&pod=web", id="explanations"),
        pytest.param("shadow", "/debug/shadow", id="reports of policies in shadow mode"),
    ],
)
async def test_few_answers_of_a_kind_are_computed_at_once(kind, path):
    running, go_on = asyncio.Event(), False
    count = 0

    def steps(*_names):
        nonlocal count
        count += 1
        if count == MOST_ANSWERS:
            running.set()
        while not go_on:
            yield
        return {"answer": True}

    async with serving(Told(**{kind: steps})) as server:
        waiting = [asyncio.create_task(get(server, path)) for _ in range(MOST_ANSWERS)]
        async with patience():
            await running.wait()
        status, headers, _ = await get(server, path)
        assert (status, headers["retry-after"]) == (503, "1")
        go_on = True
        assert {found[0] for found in await asyncio.gather(*waiting)} == {200}
        assert (await get(server, path))[0] == 200
