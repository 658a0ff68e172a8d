"""Expressions of changed policies are compiled beside the loop, which goes on meanwhile; and only once."""

from __future__ import annotations

import asyncio
import itertools
import threading
from contextlib import contextmanager

import pytest

from podwright.api.compiled_rules import uncompiled
from podwright.api.spec.bounds import MAX_SPEC_BYTES
from podwright.api.spec.rules import MAX_EXPRESSION
from podwright.core.plugins.rules import expression as module
from support.http.kit import says
from support.policies.controlled import controlled, policy
from support.waiting import PATIENCE_SECONDS, patience

numbers = itertools.count()


def fresh() -> str:
    """An expression that nobody has compiled yet."""
    return f"node.name != 'x{next(numbers)}'"


def ruled(*texts, name="p", generation=1, uid="u"):
    return policy(
        name,
        generation,
        uid,
        rules={"filters": [{"name": f"f{i}", "expression": text} for i, text in enumerate(texts)]},
    )


@contextmanager
def blocked(monkeypatch):
    """Has every compilation wait until `released` is set. Yields it, with the names of the threads that compile."""
    released, threads = threading.Event(), []
    whole = module.Expression.__init__

    def waiting(self, text, **given):
        threads.append(threading.current_thread().name)
        assert released.wait(PATIENCE_SECONDS)
        whole(self, text, **given)

    with monkeypatch.context() as patched:
        patched.setattr(module.Expression, "__init__", waiting)
        yield released, threads


async def until_compiling(threads):
    async with patience():
        while not threads:
            await asyncio.sleep(0.001)


async def test_the_loop_goes_on_while_a_changed_policy_is_compiled(monkeypatch):
    with blocked(monkeypatch) as (released, threads):
        async with controlled() as it:
            it.controller.take_event({"type": "ADDED", "object": ruled(fresh(), fresh())})
            await until_compiling(threads)
            await asyncio.sleep(0.01)
            assert not it.active
            it.controller.take_event({"type": "ADDED", "object": policy("other")})
            released.set()
            await it.becomes(lambda: len(it.active) == 2)
    assert len(threads) == 2
    assert all(name.startswith("podwright expressions") for name in threads)


async def test_a_policy_that_is_deleted_while_it_is_compiled_is_not_applied(monkeypatch):
    with blocked(monkeypatch) as (released, threads):
        async with controlled() as it:
            raw = ruled(fresh())
            it.controller.take_event({"type": "ADDED", "object": raw})
            await until_compiling(threads)
            it.controller.take_event({"type": "DELETED", "object": raw})
            released.set()
            it.controller.take_event({"type": "ADDED", "object": policy("later")})
            await it.becomes(lambda: it.active)
            assert [each.name for each in it.active] == ["later"]


async def test_only_the_newest_of_the_changes_that_come_meanwhile_is_applied(monkeypatch):
    with blocked(monkeypatch) as (released, threads):
        async with controlled() as it:
            applied = []
            whole = it.engine.policies.apply
            monkeypatch.setattr(it.engine.policies, "apply", lambda raw: applied.append(raw) or whole(raw))
            it.controller.take_event({"type": "ADDED", "object": ruled(fresh())})
            await until_compiling(threads)
            for generation in (2, 3):
                it.controller.take_event({"type": "MODIFIED", "object": ruled(fresh(), generation=generation)})
            released.set()
            await it.becomes(lambda: it.active)
            assert [each.generation for each in it.active] == [3]
            assert [raw["metadata"]["generation"] for raw in applied] == [3]


async def test_an_expression_that_is_refused_is_compiled_once(monkeypatch):
    threads: list[str] = []
    whole = module.Expression.__init__

    def counting(self, text, **given):
        threads.append(threading.current_thread().name)
        whole(self, text, **given)

    monkeypatch.setattr(module.Expression, "__init__", counting)
    async with controlled() as it:
        text = f"node.nmae == 'x{next(numbers)}'"
        for generation in (1, 2, 3):
            it.controller.take_event({"type": "ADDED", "object": ruled(text, generation=generation)})
            await it.becomes(lambda generation=generation: it.controller.counts()[("refused",)] == 1 and generation)
            await it.requests(generation)
        written = it.script.requests[-1].body[1]["value"]["conditions"][0]
        assert "undefined field 'nmae'" in written["message"]
    assert len(threads) == 1


async def test_listed_policies_are_compiled_beside_the_loop_too(monkeypatch):
    with blocked(monkeypatch) as (released, threads):
        answer = says(200, {"metadata": {}, "items": [ruled(fresh(), name="a"), ruled(fresh(), name="b")]})
        async with controlled(default=answer) as it:
            listing = asyncio.create_task(it.controller.relist())
            await until_compiling(threads)
            await asyncio.sleep(0.01)
            assert not it.active
            released.set()
            await listing
            assert len(it.active) == 2
    assert all(name.startswith("podwright expressions") for name in threads)


@pytest.mark.parametrize(
    "spec",
    [
        None,
        [],
        {"rules": []},
        {"rules": {"filters": "x", "scores": None}},
        {"rules": {"filters": [None, 5, {}, {"expression": 5}, {"expression": ["x"]}]}},
        {"rules": {"filters": [{"expression": "x" * (MAX_EXPRESSION + 1)}]}},
        {"rules": {"filters": [{"expression": fresh()}], "x": "x" * MAX_SPEC_BYTES}},
    ],
)
def test_nothing_is_compiled_of_a_spec_that_is_refused_anyway(spec):
    assert list(uncompiled(spec)) == []


def test_only_as_many_expressions_are_compiled_as_a_policy_may_have():
    listed = [{"expression": fresh()} for _ in range(100)]
    assert len(list(uncompiled({"rules": {"filters": listed, "scores": listed}}))) == 128


async def test_a_mistake_in_compiling_an_expression_refuses_its_policy_alone(monkeypatch):
    whole, bad, good = module.Expression.__init__, fresh(), fresh()

    def broken(self, text, **given):
        if text == bad:
            raise ZeroDivisionError("a mistake")
        whole(self, text, **given)

    monkeypatch.setattr(module.Expression, "__init__", broken)
    async with controlled() as it:
        it.controller.take_event({"type": "ADDED", "object": ruled(bad, name="bad", uid="v")})
        it.controller.take_event({"type": "ADDED", "object": ruled(good)})
        await it.becomes(lambda: [each.name for each in it.active] == ["p"])
        await it.becomes(lambda: it.controller.counts() == {("accepted",): 1, ("refused",): 1})
        refused = it.engine.policies.policy_set.result_of("bad")
        assert "internal error: ZeroDivisionError: a mistake" in refused.message
