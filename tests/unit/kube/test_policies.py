"""Policies taken in and told about: in any order, again and again, with a status that is written when it changes."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from podwright.kube import policies as module
from podwright.kube.client.retry import RetryPolicy
from podwright.kube.policies import PolicyKeeper
from support.engine.kit import Rig
from support.http.kit import api, says


@asynccontextmanager
async def keeping(*answers, default=None):
    rig, served = Rig(), []
    async with api(*answers, default=default or says(200, {})) as (http, script):
        keeper = PolicyKeeper(http, rig.engine, lambda: 1_700_000_000.0, served.append)
        keeper.served_names = served
        keeper.engine = rig.engine
        task = asyncio.create_task(keeper.run())
        try:
            yield keeper, script
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def policy(name="p", generation=1, uid="u", strategy=None, status=None, **spec):
    raw = {
        "metadata": {"name": name, "uid": uid, "generation": generation},
        "spec": {"strategy": {"type": strategy or "Random"}, **spec},
    }
    return {**raw, "status": status} if status is not None else raw


async def requests(script, count):
    async with asyncio.timeout(5):
        while len(script.requests) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    await asyncio.sleep(0.02)
    assert len(script.requests) == count
    return script.requests


def status_in(request):
    test, change = request.body
    assert (test["op"], test["path"], change["op"], change["path"]) == ("test", "/metadata/uid", "add", "/status")
    return change["value"]


def accepted(request):
    return {c["type"]: c["status"] for c in status_in(request)["conditions"]}["Accepted"]


async def test_a_good_policy_is_in_force_and_says_so():
    async with keeping() as (keeper, script):
        keeper.take_event({"type": "ADDED", "object": policy()})
        assert [p.name for p in keeper.engine.policies.policy_set.active] == ["p"]
        (request,) = await requests(script, 1)
        assert (request.method, request.path) == ("PATCH", "/apis/podwright.dev/v1alpha1/schedulerpolicies/p/status")
        assert accepted(request) == "True"


async def test_the_status_is_not_written_again():
    async with keeping() as (keeper, script):
        keeper.apply(policy())
        (request,) = await requests(script, 1)
        keeper.take_event({"type": "MODIFIED", "object": policy(status=status_in(request))})
        keeper.take_event({"type": None, "object": policy(status=status_in(request))})
        await requests(script, 1)


async def test_what_was_accepted_last_is_remembered_whole_and_for_this_policy_alone():
    async with keeping() as (keeper, script):
        keeper.apply(policy(match={"podSelector": {"matchLabels": {"x": "1"}}}))
        keeper.apply(policy(generation=2))
        keeper.apply(policy(generation=3, strategy="Guess"))
        (request,) = await requests(script, 1)
        assert request.headers["Content-Type"] == "application/json-patch+json"
        assert request.body[0]["value"] == "u"
        assert status_in(request)["lastAccepted"] == {"generation": 2, "spec": {"strategy": {"type": "Random"}}}


async def test_after_a_restart_it_stays_in_force_and_nothing_is_written():
    async with keeping() as (keeper, script):
        keeper.apply(policy())
        keeper.apply(policy(generation=2, strategy="Guess"))
        status = status_in((await requests(script, 1))[0])
    async with keeping(listed(policy(generation=2, strategy="Guess", status=status))) as (keeper, script):
        await keeper.load()
        assert [p.generation for p in keeper.engine.policies.policy_set.active] == [1]
        await requests(script, 1)


async def test_rights_that_are_granted_later_are_noticed(monkeypatch, caplog):
    monkeypatch.setattr(module, "ASK_SECONDS", 0.001)
    no, yes = (says(201, {"status": {"allowed": allowed}}) for allowed in (False, True))
    async with keeping(no, no, says(422), yes, no, yes, yes) as (keeper, script):
        caplog.set_level("INFO")
        await keeper.until_allowed()
        asked = [request.body["spec"]["resourceAttributes"]["verb"] for request in script.requests]
        assert asked == ["list", "watch", "list", "list", "watch", "list", "watch"]
    assert "cannot ask whether policies may be read" in caplog.text


async def test_a_bad_generation_is_reported_and_the_good_one_stays():
    async with keeping() as (keeper, script):
        keeper.apply(policy())
        await requests(script, 1)
        keeper.apply(policy(generation=2, strategy="Guess"))
        _, second = await requests(script, 2)
        assert accepted(second) == "False"
        assert [p.generation for p in keeper.engine.policies.policy_set.active] == [1]


async def test_one_that_shadows_another_changes_the_status_of_both():
    async with keeping() as (keeper, script):
        keeper.apply(policy("z"))
        await requests(script, 1)
        keeper.apply(policy("a"))
        written = await requests(script, 3)
        assert {request.path.split("/")[-2] for request in written[1:]} == {"a", "z"}


async def test_a_deleted_policy_is_forgotten():
    async with keeping() as (keeper, _):
        keeper.apply(policy())
        keeper.take_event({"type": "DELETED", "object": policy()})
        assert keeper.engine.policies.policy_set.active == []


async def test_names_that_come_to_be_served_are_told_once():
    async with keeping() as (keeper, _):
        keeper.apply(policy(schedulerName="other"))
        keeper.apply(policy("q", schedulerName="other"))
        assert keeper.served_names == [frozenset({"other"})]


@pytest.mark.parametrize("status", [500, 409, 429])
async def test_a_status_that_could_not_be_written_is_tried_again(monkeypatch, status):
    monkeypatch.setattr(module, "STATUS_RETRY", RetryPolicy(shortest=0.01, longest=0.01))
    async with keeping(says(status)) as (keeper, script):
        keeper.apply(policy())
        first, second = await requests(script, 2)
        assert first.body == second.body


@pytest.mark.parametrize("status", [403, 404, 422])
async def test_a_status_that_will_not_be_taken_is_let_go(monkeypatch, status):
    monkeypatch.setattr(module, "STATUS_RETRY", RetryPolicy(shortest=0.01, longest=0.01))
    async with keeping(default=says(status)) as (keeper, script):
        keeper.apply(policy())
        await requests(script, 1)


def listed(*items):
    return says(200, {"metadata": {}, "items": list(items)})


class TestLoading:
    async def test_what_is_there_comes_into_force_and_what_is_not_goes(self):
        async with keeping(listed(policy("a"), policy("b")), default=listed(policy("b"))) as (keeper, _):
            await keeper.load()
            assert {p.name for p in keeper.engine.policies.policy_set.active} == {"a", "b"}
            await keeper.load()
            assert {p.name for p in keeper.engine.policies.policy_set.active} == {"b"}

    async def test_without_the_kind_there_is_no_policy(self):
        async with keeping(listed(policy("a")), default=says(404)) as (keeper, _):
            await keeper.load()
            await keeper.load()
            assert keeper.engine.policies.policy_set.active == []
            assert not keeper.appeared.is_set()

    async def test_it_is_told_when_the_kind_appears(self):
        async with keeping(says(404), default=listed(policy("a"))) as (keeper, _):
            await keeper.load()
            assert not keeper.appeared.is_set()
            await keeper.load()
            assert keeper.appeared.is_set()

    async def test_a_list_that_is_older_than_the_watch_changes_nothing(self):
        async with keeping() as (keeper, script):
            keeper.apply(policy("a", generation=3))
            await requests(script, 1)

            async def slow(_request):
                keeper.apply(policy("new"))
                return await listed(policy("a", generation=2))(_request)

            script.answers.append(slow)
            await keeper.load()
            assert {p.name: p.generation for p in keeper.engine.policies.policy_set.active} == {"a": 3, "new": 1}

    async def test_one_that_was_made_again_under_its_name_is_taken(self):
        async with keeping() as (keeper, script):
            keeper.apply(policy("a", generation=3))
            await requests(script, 1)
            script.answers.append(listed(policy("a", generation=1, uid="other")))
            await keeper.load()
            assert [p.source.uid for p in keeper.engine.policies.policy_set.active] == ["other"]

    async def test_one_that_went_while_it_was_listed_does_not_come_back(self):
        async with keeping() as (keeper, script):
            keeper.apply(policy("a"))
            await requests(script, 1)

            async def slow(_request):
                keeper.take_event({"type": "DELETED", "object": policy("a")})
                keeper.take_event({"type": "ADDED", "object": policy("b", uid="b")})
                return await listed(policy("a"), policy("b", uid="b"))(_request)

            script.answers.append(slow)
            await keeper.load()
            assert [p.name for p in keeper.engine.policies.policy_set.active] == ["b"]

    async def test_one_that_took_the_place_of_one_that_was_listed_stays(self):
        async with keeping() as (keeper, script):
            keeper.apply(policy("a"))
            await requests(script, 1)

            async def slow(_request):
                keeper.take_event({"type": "DELETED", "object": policy("a")})
                keeper.take_event({"type": "ADDED", "object": policy("a", uid="next")})
                return await listed(policy("a"))(_request)

            script.answers.append(slow)
            await keeper.load()
            assert [p.source.uid for p in keeper.engine.policies.policy_set.active] == ["next"]

    async def test_the_end_of_one_does_not_take_its_namesake_that_a_list_brought(self):
        async with keeping() as (keeper, script):
            keeper.apply(policy("a"))
            await requests(script, 1)
            script.answers.append(listed(policy("a", uid="next")))
            await keeper.load()
            keeper.take_event({"type": "DELETED", "object": policy("a")})
            assert [p.source.uid for p in keeper.engine.policies.policy_set.active] == ["next"]
