"""RebalancePolicies as they come in, and the statuses that are written about them."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from podwright.api import crd
from podwright.core.objects.times import rfc3339
from podwright.kube.rebalance.door import RebalanceDoor, recent_of
from podwright.kube.write import object_status
from podwright.sandbox.schemas import Schema
from support.engine.kit import Rig, deciding, on_node, ours, settle
from support.http.kit import api, says
from support.rebalance.kit import budget, policy
from support.waiting import until

SCHEMA = Schema(crd.crd("RebalancePolicy")["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}


class Known:
    def __init__(self, http, script):
        self.rig = Rig()
        self.script = script
        self.door = RebalanceDoor(
            http, self.rig.engine, recorder=self.rig.recorder, scheduler_name="podwright", clock=lambda: self.rig.now
        )
        for name in ("n0", "n1"):
            self.rig.node(name)
        for name, on in (("a", "n0"), ("b", "n0"), ("c", "n1")):
            raw = ours(name, requests={"cpu": "1"}, metadata={"ownerReferences": [OWNER]})
            self.rig.engine.assigned.put(on_node(raw, on))

    def status(self, name="tidy"):
        found = [each for each in self.script.requests if each.path.endswith(f"/{name}/status")]
        return found[-1].body[1]["value"] if found else {}

    def reason(self, kind="Active", name="tidy"):
        return next((each["reason"] for each in self.status(name).get("conditions", ()) if each["type"] == kind), "")


@asynccontextmanager
async def known():
    async with api(default=says(200, {})) as (http, script):
        made = Known(http, script)
        running = asyncio.create_task(made.door.run())
        yield made
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(object_status, "STATUS_SECONDS", 0.005)


async def test_the_status_shows_the_plan():
    async with known() as it:
        it.door.put(policy(cooldown="0s"))
        async with deciding(it.rig):
            it.rig.engine.rebalancing.begin()
            await settle()
        await until(lambda: it.status().get("plan"))
        plan = it.status()["plan"]
        assert (plan["gain"], plan["moves"], plan["moved"], plan["empties"]) == (1, 1, 0, 1)
        assert plan["first"] == [{"pod": "default/c", "source": "n1", "target": "n0"}]
        assert plan["exact"] == ""
        assert it.reason() == "Planning"
        assert SCHEMA.problems({**policy(), "status": it.status()}) == []


async def test_a_goal_that_cannot_be_reached_is_told_in_the_status_and_by_one_event():
    async with known() as it:
        it.door.put(policy(goals=[{"type": "EmptyNodes", "count": 9}, {"type": "MakeRoom", "requests": {"cpu": 1000}, "count": 2}]))  # fmt: skip
        async with deciding(it.rig):
            it.rig.engine.rebalancing.begin()
            await settle()
            await until(lambda: it.status().get("plan"))
            nodes, pods = it.status()["plan"]["heldBack"][:2]
            assert nodes == "7 nodes: asked for by goal EmptyNodes, but no other node offers as much"
            assert pods == "2 pods: asked for by goal MakeRoom, but no node is as large"
            it.rig.now += 600
            it.rig.engine.rebalancing.begin()
            await settle()
            await until(lambda: it.status()["plan"]["time"] == rfc3339(it.rig.now))
        assert it.rig.recorder.notes("RebalanceGoalOutOfReach") == [f"{nodes}; {pods}"]


async def test_budgets_of_nothing_and_pods_of_the_system_are_told_in_the_status_and_by_an_event_each():
    async with known() as it:
        it.rig.engine.objects("PodDisruptionBudget").put(budget(0, "c"))
        for name, on, more in (("c", "n1", {"labels": {"app": "c"}}), ("dns", "n0", {"namespace": "kube-system"})):
            raw = ours(name, requests={"cpu": "1"}, metadata={"ownerReferences": [OWNER], **more})
            it.rig.engine.assigned.put(on_node(raw, on))
        selector = {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}
        it.door.put(policy(mode="Enforce", cooldown="0s", match={"podSelector": selector}))
        async with deciding(it.rig):
            it.rig.engine.rebalancing.begin()
            await settle()
            await until(lambda: it.status().get("plan"))
        held, system = it.status()["plan"]["heldBack"][:2]
        assert system == "1 pod: selected by `match`, but of the system, whose pods never move"
        assert held == "1 pod: considered, but selected by a PodDisruptionBudget that allows no disruption"
        assert it.rig.recorder.notes("RebalanceOfSystemPods") == [system]
        assert it.rig.recorder.notes("RebalanceWithoutBudget") == [held]
        assert it.rig.evictor.evicted == []


async def test_an_invalid_policy_plans_nothing_and_says_why():
    async with known() as it:
        it.door.put(policy())
        it.door.put(policy(maxMoves=0))
        await until(lambda: it.reason("Accepted") == "Invalid")
        assert it.reason() == "NotAccepted"
        assert "tidy" not in it.rig.engine.rebalancing.known
        assert [reason for _, reason, _ in it.rig.recorder.events] == ["RebalancePolicyNotAccepted"]


async def test_a_policy_that_is_invalid_for_a_while_goes_on_counting_its_moves():
    async with known() as it:
        status = {"recentMoves": 3, "recent": [{"since": rfc3339(it.rig.now), "moves": 3}]}
        it.door.put({**policy(), "status": status})
        it.door.put({**policy(maxMoves=0), "status": status})
        await until(lambda: it.reason("Accepted") == "Invalid")
        assert it.status()["recentMoves"] == 3
        it.door.put({**policy(), "status": it.status()})
        assert it.rig.engine.rebalancing.count_recent(it.rig.engine.rebalancing.known["tidy"]) == 3


async def test_what_another_instance_has_spared_stays_and_is_told_in_the_status():
    async with known() as it:
        given = [{"uid": "web", "until": rfc3339(it.rig.now + 9e6)}, {"uid": "gone", "until": rfc3339(it.rig.now - 1)}]
        it.door.put({**policy(mode="Enforce", cooldown="0s"), "status": {"spared": given}})
        async with deciding(it.rig):
            it.rig.engine.rebalancing.begin()
            await settle()
            await until(lambda: it.status().get("plan"))
        assert it.rig.evictor.evicted == []
        assert "did not create a moved pod again" in str(it.status()["plan"]["heldBack"])
        assert it.status()["spared"] == [{"uid": "web", "until": rfc3339(it.rig.now + 86_400)}], "at most a day"
        assert SCHEMA.problems({**policy(), "status": it.status()}) == []


async def test_the_status_has_a_bounded_list_of_what_is_spared():
    async with known() as it:
        it.rig.engine.rebalancing.moves.spare({f"u{i}": it.rig.now + 1 + i for i in range(99)} | {"u" * 254: 1e10})
        it.door.put(policy())
        await until(lambda: it.status().get("spared"))
        assert [each["uid"] for each in it.status()["spared"]] == [f"u{i}" for i in range(98, 34, -1)]
        assert SCHEMA.problems({**policy(), "status": it.status()}) == []


@pytest.mark.parametrize("spared", [5, {"uid": "a"}, [5, {"until": 5}, {"uid": "a", "until": 5}, {"until": "x"}]])
def test_a_list_of_what_is_spared_that_is_none_spares_nothing(spared):
    assert recent_of({"spared": spared}).spared == {}


def test_a_gain_beyond_32_bits_can_be_written():
    """10,000 rooms of weight 1,000,000 are more than an int32, which the API server would refuse."""
    schema = crd.crd("RebalancePolicy")["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    plan = schema["properties"]["status"]["properties"]["plan"]["properties"]
    assert (plan["gain"]["format"], plan["gained"]["format"]) == ("int64", "int64")


async def test_the_second_of_two_that_could_undo_each_other_is_refused():
    async with known() as it:
        it.door.put(policy("first", mode="Enforce"))
        it.door.put(policy("second", mode="Enforce", goals=[{"type": "RepairViolations"}]))
        await until(lambda: it.reason(name="second"))
        assert (it.reason(name="first"), it.reason(name="second")) == ("Enforcing", "Conflict")
        (note,) = it.rig.recorder.notes("RebalancePolicyNotAccepted")
        assert "the older policy first has other goals" in note
        it.door.drop("first", None)
        await until(lambda: it.reason(name="second") == "Enforcing")


async def test_a_policy_that_is_gone_is_forgotten():
    async with known() as it:
        it.door.put(policy())
        it.door.drop("tidy", None)
        assert "tidy" not in it.rig.engine.rebalancing.known


@pytest.mark.parametrize(
    ("status", "spans"),
    [
        pytest.param({"recent": [{"since": "1970-01-01T00:15:00Z", "moves": 3}]}, [(900.0, 3)], id="of another instance"),
        pytest.param(None, [], id="none"),
        pytest.param("nonsense", [], id="a text"),
        pytest.param({"recent": {"since": 5}}, [], id="no list"),
        pytest.param({"recent": [5, {"since": 5, "moves": 3}]}, [], id="no time"),
        pytest.param({"recent": [{"since": "1970-01-01T00:15:00Z", "moves": "x"}]}, [], id="no number"),
        pytest.param({"recent": [{"since": "1970-01-01T00:15:00Z", "moves": -3}]}, [(900.0, 0)], id="a negative number"),
        pytest.param({"recent": [{"since": "1970-01-01T00:15:00Z", "moves": 1}] * 99}, [(900.0, 16)], id="a long list"),
    ],
)  # fmt: skip
def test_the_moves_of_the_last_hour_are_read_from_the_status(status, spans):
    assert recent_of(status).spans(1000.0) == spans
