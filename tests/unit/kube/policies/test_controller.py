"""The controller of policies: events in any order and repeatedly, and a status that is written when it changes."""

from __future__ import annotations

import asyncio

import pytest

from podwright.api.policy_status import status_of
from podwright.core.framework.interface import FilterPlugin, Plugin
from podwright.core.framework.status import unschedulable
from podwright.engine.policies.policy_events import PolicyEvents
from podwright.kube.client.retry import RetryPolicy
from podwright.kube.policies import controller as module
from podwright.kube.policies import statuses
from podwright.kube.policies.kinds import PolicyKind
from podwright.kube.write import object_status
from support.engine.kit import Rig, custom_policy, deciding
from support.http.kit import says
from support.policies.controlled import controlled, policy
from support.waiting import patience, until


def status_in(request):
    test, change = request.body
    assert (test["op"], test["path"], change["op"], change["path"]) == ("test", "/metadata/uid", "add", "/status")
    return change["value"]


def accepted(request):
    return {c["type"]: c["status"] for c in status_in(request)["conditions"]}["Accepted"]


async def test_a_valid_policy_becomes_active_and_its_status_is_accepted():
    async with controlled() as world:
        world.controller.take_event({"type": "ADDED", "object": policy()})
        assert [p.name for p in world.active] == ["p"]
        (request,) = await world.requests(1)
        assert (request.method, request.path) == ("PATCH", "/apis/podwright.dev/v1alpha1/schedulerpolicies/p/status")
        assert accepted(request) == "True"


async def test_policies_are_counted_by_whether_their_newest_generation_is_accepted():
    async with controlled() as world:
        assert world.controller.counts() == {("accepted",): 0, ("refused",): 0}
        world.controller.apply(policy())
        world.controller.apply(policy("q", uid="v", strategy="Nope"))
        assert world.controller.counts() == {("accepted",): 1, ("refused",): 1}
        world.controller.apply(policy(generation=2, strategy="Nope"))
        assert world.controller.counts() == {("accepted",): 0, ("refused",): 2}
        world.controller.remove("q")
        assert world.controller.counts() == {("accepted",): 0, ("refused",): 1}


async def test_an_unchanged_status_is_not_written_again():
    async with controlled() as world:
        world.controller.apply(policy())
        (request,) = await world.requests(1)
        world.controller.take_event({"type": "MODIFIED", "object": policy(status=status_in(request))})
        world.controller.take_event({"type": None, "object": policy(status=status_in(request))})
        await world.requests(1)


async def test_the_last_accepted_spec_replaces_the_one_before_and_is_tied_to_the_uid():
    async with controlled() as world:
        world.controller.apply(policy(match={"podSelector": {"matchLabels": {"x": "1"}}}))
        world.controller.apply(policy(generation=2))
        world.controller.apply(policy(generation=3, strategy="Guess"))
        (request,) = await world.requests(1)
        assert request.headers["Content-Type"] == "application/json-patch+json"
        assert request.body[0]["value"] == "u"
        assert status_in(request)["lastAccepted"] == {"generation": 2, "spec": {"strategy": {"type": "Random"}}}


async def test_after_a_restart_the_last_accepted_generation_is_active_and_nothing_is_written():
    async with controlled() as world:
        world.controller.apply(policy())
        world.controller.apply(policy(generation=2, strategy="Guess"))
        status = status_in((await world.requests(1))[0])
    async with controlled(listed(policy(generation=2, strategy="Guess", status=status))) as world:
        await world.controller.relist()
        assert [p.generation for p in world.active] == [1]
        await world.requests(1)


async def test_a_kind_that_is_not_served_is_named(caplog):
    async with controlled() as found:
        await found.controller.start()
    assert (
        "SchedulerPolicies are off (/apis/podwright.dev/v1alpha1/schedulerpolicies: the API server does not serve it): "
        "the built-in default policy decides"
    ) in caplog.messages


async def test_rights_that_are_granted_later_are_noticed(monkeypatch, caplog):
    monkeypatch.setattr(module, "ACCESS_SECONDS", 0.001)
    no, yes = (says(201, {"status": {"allowed": allowed}}) for allowed in (False, True))
    answers = {"list": [no, says(422), no, yes], "watch": [no, yes, yes, yes]}

    async def answer(request):
        return await answers[(await request.json())["spec"]["resourceAttributes"]["verb"]].pop(0)(request)

    async with controlled(*[answer] * 8) as world, patience():
        caplog.set_level("INFO")
        await world.controller.wait_until_readable()
        assert not any(answers.values())
    assert "cannot ask whether policies can be read" in caplog.text


async def test_an_invalid_generation_is_reported_and_the_valid_one_stays_active():
    async with controlled() as world:
        world.controller.apply(policy())
        await world.requests(1)
        world.controller.apply(policy(generation=2, strategy="Guess"))
        _, second = await world.requests(2)
        assert accepted(second) == "False"
        assert [p.generation for p in world.active] == [1]


class Raising(Plugin, FilterPlugin):
    name = "Raising"

    def filter(self, _state, pod, _node):
        return len(pod.name) / 0


async def test_a_plugin_that_raises_is_in_the_status_of_its_policy_until_the_policy_changes():
    rig = Rig({"Raising": Raising})
    rig.node("a")
    async with controlled(rig=rig) as world:
        world.controller.apply(custom_policy("filter", "Raising"))
        await world.requests(1)
        for name in ("one", "two"):
            rig.pod(name)
            rig.engine.pod_attempts.schedule_one(rig.engine.queue.pop())
        _, second = await world.requests(2)
        failed = {c["type"]: c for c in status_in(second)["conditions"]}["PluginFailed"]
        assert (failed["status"], failed["reason"]) == ("True", "ExceptionRaised")
        assert failed["message"].startswith(
            "plugin Raising raised ZeroDivisionError: division by zero (test_controller.py, line "
        )
        assert failed["message"].endswith(", in filter) at filter")
        changed = custom_policy("filter", "Raising", generation=2)
        changed["spec"]["precedence"] = 1
        world.controller.apply(changed)
        *_, third = await world.requests(3)
        assert [c["type"] for c in status_in(third)["conditions"]] == ["Accepted", "Active"]


async def test_a_policy_that_shadows_another_changes_the_status_of_both():
    async with controlled() as world:
        world.controller.apply(policy("z"))
        await world.requests(1)
        world.controller.apply(policy("a"))
        written = await world.requests(3)
        assert {request.path.split("/")[-2] for request in written[1:]} == {"a", "z"}


async def test_a_deleted_policy_is_not_active():
    async with controlled() as world:
        world.controller.apply(policy())
        world.controller.take_event({"type": "DELETED", "object": policy()})
        assert world.active == []


async def test_newly_served_names_are_reported_once():
    async with controlled() as world:
        world.controller.apply(policy(schedulerName="other"))
        world.controller.apply(policy("q", schedulerName="other"))
        assert world.names_served == [frozenset({"other"})]


@pytest.mark.parametrize("status", [500, 409, 429])
async def test_a_failed_status_write_is_retried(monkeypatch, status):
    monkeypatch.setattr(object_status, "RETRY", RetryPolicy(shortest=0.01, longest=0.01))
    async with controlled(says(status)) as world:
        world.controller.apply(policy())
        first, second = await world.requests(2)
        assert first.body == second.body


async def test_the_pause_between_failed_status_writes_grows(monkeypatch):
    monkeypatch.setattr(object_status, "RETRY", RetryPolicy(shortest=0.01, longest=60.0))
    async with controlled(default=says(500)) as world:
        world.controller.apply(policy())
        await asyncio.sleep(0.4)
        assert len(world.script.requests) <= 7
        await until(lambda: len(world.script.requests) >= 2)


async def test_only_a_new_generation_is_written_before_the_pause_is_over(monkeypatch):
    monkeypatch.setattr(object_status, "RETRY", RetryPolicy(shortest=60.0, longest=60.0))
    async with controlled(default=says(500)) as world:
        world.controller.apply(policy())
        await world.requests(1)
        world.controller.take_event({"type": None, "object": policy()})
        await world.requests(1)
        world.controller.apply(policy(generation=2, strategy="NodeName"))
        await world.requests(2)


@pytest.mark.parametrize("status", [403, 422, 500])
async def test_a_failed_status_write_does_not_delay_that_of_another_policy(monkeypatch, status):
    monkeypatch.setattr(object_status, "RETRY", RetryPolicy(shortest=60.0, longest=60.0))
    async with controlled(says(status)) as world:
        world.controller.apply(policy("a", schedulerName="a"))
        await world.requests(1)
        world.controller.apply(policy("b", schedulerName="b"))
        assert [request.path.split("/")[-2] for request in await world.requests(2)] == ["a", "b"]


class Built(Plugin, FilterPlugin):
    """Counts how often it is built."""

    name = "Built"
    count = 0

    def __init__(self, args, handle):
        super().__init__(args, handle)
        type(self).count += 1

    def filter(self, _state, _pod, _node):
        return unschedulable("never")


class TestStorms:
    """Policies that change all the time."""

    @pytest.fixture
    def rig(self, monkeypatch):
        monkeypatch.setattr(Built, "count", 0)
        rig = Rig({"Built": Built})
        rig.node("a")
        return rig

    def edit(self, number, name="custom"):
        raw = custom_policy("filter", "Built", generation=number)
        raw["metadata"] |= {"name": name, "uid": name, "resourceVersion": str(number)}
        return raw

    async def test_a_thousand_edits_at_once_are_applied_twice_and_written_twice(self, rig, monkeypatch):
        monkeypatch.setattr(object_status, "STATUS_SECONDS", 0.05)
        async with controlled(rig=rig) as world:
            for number in range(1, 1_001):
                world.controller.take_event({"type": "MODIFIED", "object": self.edit(number)})
            await world.becomes(lambda: [p.generation for p in world.active] == [1_000])
            assert Built.count == 2
            _, second = await world.requests(2)
            assert status_in(second)["observedGeneration"] == 1_000

    async def test_between_two_changes_others_have_their_share_of_the_time(self, rig):
        kind = PolicyKind(rig.engine)
        kind.pause_factor = 1e9
        async with controlled(rig=rig, kind=kind) as world:
            for number in range(1, 10):
                world.controller.take_event({"type": "ADDED", "object": self.edit(1, f"p{number}")})
            await until(lambda: world.active)
            await asyncio.sleep(0.05)
            assert [p.name for p in world.active] == ["p1"]

    async def test_every_policy_gets_its_turn_while_another_one_changes_all_the_time(self, rig):
        async with controlled(rig=rig) as world:
            for number in range(1, 301):
                world.controller.take_event({"type": "MODIFIED", "object": self.edit(number)})
                if number == 100:
                    world.controller.take_event({"type": "ADDED", "object": self.edit(1, "other")})
                await asyncio.sleep(0)
            await world.becomes(lambda: {p.name: p.generation for p in world.active} == {"custom": 300, "other": 1})

    async def test_a_policy_deleted_while_its_change_waits_is_not_applied(self, rig):
        async with controlled(rig=rig) as world:
            for number in (1, 2):
                world.controller.take_event({"type": "MODIFIED", "object": self.edit(number)})
            world.controller.take_event({"type": "DELETED", "object": self.edit(2)})
            world.controller.take_event({"type": "ADDED", "object": self.edit(1, "other")})
            await world.becomes(lambda: [p.name for p in world.active] == ["other"])
            assert Built.count == 2

    async def test_an_edit_storm_retries_only_the_pods_of_that_policy(self, rig):
        match = {"podSelector": {"matchLabels": {"x": "1"}}}
        rig.pod("theirs", labels={"x": "1"}, requests={"cpu": "1000"})
        rig.pod("other", requests={"cpu": "1000"})
        async with controlled(rig=rig) as world, deciding(rig):
            for number in range(1, 101):
                raw = self.edit(number)
                raw["spec"]["match"] = match
                rig.now += 2
                world.controller.take_event({"type": "MODIFIED", "object": raw})
                await asyncio.sleep(0)
            await world.becomes(lambda: [p.generation for p in world.active] == [100])
            assert rig.engine.queue.get("default/other").attempts == 1
            assert rig.engine.queue.get("default/theirs").attempts >= 2

    async def test_a_status_is_looked_at_without_encoding_the_policies_that_have_not_changed(self, rig, monkeypatch):
        built = []

        def counted(policies, applied, *rest):
            built.append(applied.name)
            return status_of(policies, applied, *rest)

        monkeypatch.setattr(statuses, "status_of", counted)
        async with controlled(rig=rig) as world:
            for number in range(20):
                world.controller.apply(
                    policy(f"p{number:02}", uid=str(number), match={"podSelector": {"matchLabels": {"x": str(number)}}})
                )
            await world.requests(20)
            built.clear()
            world.controller.apply(
                policy("p05", uid="5", generation=2, match={"podSelector": {"matchLabels": {"x": "other"}}})
            )
            await world.requests(21)
            assert built == ["p05"]

    async def test_failed_writes_of_a_status_are_not_repeated_for_each_edit(self, rig, monkeypatch):
        monkeypatch.setattr(object_status, "STATUS_SECONDS", 60.0)
        async with controlled(rig=rig, default=says(500)) as world:
            for number in range(1, 101):
                world.controller.apply(self.edit(number))
                await asyncio.sleep(0)
            await asyncio.sleep(0.1)
            assert len(world.script.requests) <= 2

    async def test_a_status_that_is_no_json_does_not_stop_those_of_others(self):
        async with controlled() as world:
            last = {"generation": 1, "spec": {"n": 1 << 70}}
            world.controller.apply(policy("a", strategy="Guess", status={"lastAccepted": last}))
            world.controller.apply(policy("b", uid="b"))
            (request,) = await world.requests(1)
            assert request.path.endswith("/b/status")


async def test_listed_policies_that_have_not_changed_are_not_looked_at_again(monkeypatch):
    monkeypatch.setattr(Built, "count", 0)
    raw = custom_policy("filter", "Built") | {"status": {}}
    raw["metadata"]["resourceVersion"] = "7"
    async with controlled(default=listed(raw), rig=Rig({"Built": Built})) as world:
        asked = []
        monkeypatch.setattr(
            world.controller, "apply", lambda raw, apply=world.controller.apply: asked.append(1) or apply(raw)
        )
        for _ in range(3):
            await world.controller.relist()
        assert (asked, Built.count) == ([1], 1)


def listed(*items):
    return says(200, {"metadata": {}, "items": list(items)})


class TestRelisting:
    async def test_listed_policies_are_applied_and_missing_ones_removed(self):
        async with controlled(listed(policy("a"), policy("b")), default=listed(policy("b"))) as world:
            await world.controller.relist()
            assert {p.name for p in world.active} == {"a", "b"}
            await world.controller.relist()
            assert {p.name for p in world.active} == {"b"}

    async def test_without_the_kind_there_are_no_policies(self):
        async with controlled(listed(policy("a")), default=says(404)) as world:
            await world.controller.relist()
            await world.controller.relist()
            assert world.active == []
            assert not world.controller.appeared.is_set()

    async def test_watchers_are_notified_when_the_kind_appears(self):
        async with controlled(says(404), default=listed(policy("a"))) as world:
            await world.controller.relist()
            assert not world.controller.appeared.is_set()
            await world.controller.relist()
            assert world.controller.appeared.is_set()

    async def test_events_during_the_list_win(self):
        async with controlled() as world:
            world.controller.apply(policy("a", generation=3))
            await world.requests(1)

            async def slow(_request):
                world.controller.apply(policy("new"))
                return await listed(policy("a", generation=2))(_request)

            world.script.answers.append(slow)
            await world.controller.relist()
            assert {p.name: p.generation for p in world.active} == {"a": 3, "new": 1}

    async def test_a_policy_recreated_under_its_name_is_applied(self):
        async with controlled() as world:
            world.controller.apply(policy("a", generation=3))
            await world.requests(1)
            world.script.answers.append(listed(policy("a", generation=1, uid="other", precedence=2)))
            await world.controller.relist()
            assert [p.spec.precedence for p in world.active] == [2]

    async def test_a_policy_deleted_during_the_list_stays_deleted(self):
        async with controlled() as world:
            world.controller.apply(policy("a"))
            await world.requests(1)

            async def slow(_request):
                world.controller.take_event({"type": "DELETED", "object": policy("a")})
                world.controller.take_event({"type": "ADDED", "object": policy("b", uid="b")})
                return await listed(policy("a"), policy("b", uid="b"))(_request)

            world.script.answers.append(slow)
            await world.controller.relist()
            await world.becomes(lambda: [p.name for p in world.active] == ["b"])

    async def test_a_policy_recreated_during_the_list_stays(self):
        async with controlled() as world:
            world.controller.apply(policy("a"))
            await world.requests(1)

            async def slow(_request):
                world.controller.take_event({"type": "DELETED", "object": policy("a")})
                world.controller.take_event({"type": "ADDED", "object": policy("a", uid="next", precedence=2)})
                return await listed(policy("a"))(_request)

            world.script.answers.append(slow)
            await world.controller.relist()
            await world.becomes(lambda: [p.spec.precedence for p in world.active] == [2])

    async def test_a_late_deletion_does_not_remove_the_recreated_policy(self):
        async with controlled() as world:
            world.controller.apply(policy("a"))
            await world.requests(1)
            world.script.answers.append(listed(policy("a", uid="next", precedence=2)))
            await world.controller.relist()
            world.controller.take_event({"type": "DELETED", "object": policy("a")})
            assert [p.spec.precedence for p in world.active] == [2]


async def test_a_refused_policy_has_an_event_of_each_generation():
    rig = Rig()
    events = PolicyEvents(rig.engine.policies, rig.recorder, scheduler_name="podwright", own=lambda: None)
    async with controlled(rig=rig, events=events) as world:
        for generation, strategy in ((1, "Random"), (2, "Nope"), (2, "Nope"), (3, "Nope"), (4, "Random")):
            world.controller.apply(policy(generation=generation, strategy=strategy))
    assert [(name, reason) for name, reason, _ in rig.recorder.events] == [("p", "PolicyNotAccepted")] * 2
    assert "spec.strategy.type: 'Nope' is not one of" in rig.recorder.events[0][2]
    assert "Generation 1 stays in force" in rig.recorder.events[0][2]
