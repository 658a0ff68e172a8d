"""A call whose head was seen before, which is answered without aiohttp."""

from __future__ import annotations

import pytest

from podwright.extender.server.endpoints import ExtenderEndpoints
from support.engine.kit import ours
from support.extender.kit import ExtenderRig
from support.objects.builders import make_node


def args(names=("a", "b"), **options):
    return {"Pod": ours("asks", **options), "Nodes": None, "NodeNames": list(names)}


@pytest.fixture
def rig():
    return ExtenderRig("a", "b")


@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt", "bind"])
async def test_the_second_request_of_a_connection_gets_the_answer_of_a_first(rig, verb, monkeypatch):
    again, found = [], ExtenderEndpoints.answer_again

    async def recorded(*asked):
        again.append(await found(*asked))
        return again[-1]

    monkeypatch.setattr(ExtenderEndpoints, "answer_again", recorded)
    bodies = [
        args(),
        args(["a", "x"]),
        args(requests={"cpu": "900"}),
        {"Pod": None, "NodeNames": ["a"]},
        {},
        [],
        b" ",
        b"{",
    ]
    bodies += [
        {"Pod": {"spec": 1}, "NodeNames": []},
        {"Pod": ours("asks"), "Nodes": {"items": [make_node("a")]}},
        b"[" * 100_000,
        b'{"Pod": ' + b" " * 70_000,
    ]
    for body in bodies:
        answers = []
        for before in ([], [{"NodeNames": ["b"]}]):
            async with rig.serving() as caller:
                for each in before:
                    await caller.post(f"/{verb}", each)
                count = len(again)
                answers.append(await caller.post(f"/{verb}", body))
        assert answers[0] == answers[1]
        assert len(again) == count + 1
    assert all(answer is not None for answer in again) == (verb == "filter")
    assert any(answer is not None for answer in again)
