"""Whatever policy the API server accepts: its own condition says what is wrong with it, and no other policy and no pod
notices.

PODWRIGHT_GENERATED_POLICIES=5000 generates that many, instead of some dozens.
"""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from podwright.api.policy_result import ApplyResult
from podwright.api.scheduler_policy import KIND
from podwright.kube.policies.kinds import PolicyKind
from support.engine.kit import Rig, deciding, settle
from support.policies.controlled import controlled, policy
from support.policies.generated import HOSTILE, Policies, ruled
from support.policies.local import delegating, local_policy
from support.properties import case_count
from support.waiting import until

COUNT = case_count("PODWRIGHT_GENERATED_POLICIES", 60)
ALL = {"plugins": ["*"], "rules": True, "maxRules": 64, "maxWeight": 100, "strategies": ["MostAllocated", "Random"]}


def specs(kind):
    policies = Policies(7, kind)
    return [*map(ruled, HOSTILE), *(policies.spec() for _ in range(COUNT))]


def sound(result: ApplyResult):
    """The result is about the policy's content, and not about a fault of the operator."""
    assert "internal error" not in result.message
    return result


class World:
    """An engine that decides on two nodes, with a controller of SchedulerPolicies."""

    def __init__(self, rig, controller, caplog):
        self.rig, self.controller, self.caplog = rig, controller, caplog
        self.policy_set = rig.engine.policies.policy_set
        self.accepted = self.placed = 0

    async def decide(self, result, number):
        """A pod gets a node or a reason under the policy with this result, and the next policy becomes active."""
        self.accepted += sound(result).accepted
        raw = self.rig.pod(f"pod-{number}")
        await until(lambda: not self.rig.counts.get("active"))
        await settle()
        self.placed += any(name == f"pod-{number}" for name, _ in self.rig.cluster.bound)
        self.rig.engine.pending.drop(raw["metadata"]["uid"], raw)
        assert not [record for record in self.caplog.records if record.levelname in ("ERROR", "CRITICAL")]
        assert "internal error" not in " ".join(note for _, _, note in self.rig.recorder.events)
        self.controller.apply(policy("next", uid=f"next-{number}"))
        assert self.policy_set.decider("next") in self.policy_set.active
        self.controller.remove("next")


@asynccontextmanager
async def deciding_world(caplog):
    rig = Rig()
    for node in ("a", "b"):
        rig.node(node, labels={"zone": node, "tier": "gold"})
    async with controlled(rig=rig) as world, deciding(rig):
        yield (found := World(rig, world.controller, caplog))
    assert found.accepted > COUNT / 4, "too few policies were accepted to say anything"
    assert found.placed > COUNT / 10


async def test_each_scheduler_policy_stays_alone_with_its_errors(caplog):
    async with deciding_world(caplog) as world:
        for number, spec in enumerate(specs(KIND)):
            raw = {"metadata": {"name": "p", "uid": f"u{number}", "generation": 1}, "spec": spec}
            world.controller.take_event({"type": "ADDED", "object": raw})
            await until(lambda uid=f"u{number}": world.policy_set.uid_of("p") == uid)
            await world.decide(world.policy_set.result_of("p"), number)


async def test_each_local_policy_stays_alone_with_its_errors(caplog):
    async with deciding_world(caplog) as world:
        world.controller.apply(delegating(delegation=ALL))
        for number, spec in enumerate(specs("LocalSchedulerPolicy")):
            raw = local_policy("p", "default", uid=f"u{number}", **{k: v for k, v in spec.items() if k != "byName"})
            await world.decide(world.rig.engine.policies.apply_local(raw), number)


class Broken(PolicyKind):
    """Cannot apply the policies of this name: a mistake in the operator."""

    def apply(self, raw):
        if raw["metadata"]["name"] == "bad":
            raise ZeroDivisionError("a mistake")
        return super().apply(raw)


class BrokenChecks(PolicyKind):
    """Cannot check the local policies of this name again."""

    def check(self, key):
        if key == "team-a/bad":
            self.policies.check(key)  # as far as it got
            raise ZeroDivisionError("a mistake")
        return super().check(key)


async def test_what_applying_a_policy_raises_is_its_own_condition(caplog):
    rig = Rig()
    async with controlled(rig=rig, kind=Broken(rig.engine)) as world:
        for name in ("bad", "good", "bad", "better"):
            world.controller.take_event({"type": "ADDED", "object": policy(name, uid=name)})
        await world.becomes(lambda: {each.name for each in world.active} == {"good", "better"})
        await world.becomes(lambda: world.controller.counts() == {("accepted",): 2, ("refused",): 1})
        await world.becomes(lambda: len({request.path for request in world.script.requests}) == 3)
        messages = {
            request.path.split("/")[-2]: request.body[-1]["value"]["conditions"][0]["message"]
            for request in world.script.requests
        }
        assert "ZeroDivisionError: a mistake" in messages["bad"]
        assert "cannot apply policy bad" in caplog.text


async def test_what_checking_a_local_policy_raises_is_its_own_condition():
    rig = Rig()
    rig.engine.policies.apply(delegating())
    async with controlled(rig=rig, kind=BrokenChecks(rig.engine, local=True)) as world:
        for name in ("bad", "good"):
            world.controller.apply(local_policy(name, strategy={"type": "Random"}))
        rig.engine.policies.apply(delegating(generation=2, delegation={"strategies": ["MostAllocated"]}))
        await world.becomes(lambda: world.controller.counts() == {("accepted",): 0, ("refused",): 2})


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_expression_is_refused_or_has_a_value_of_its_own(text):
    sound(Rig().engine.policies.apply({"metadata": {"name": "p", "uid": "u", "generation": 1}, "spec": ruled(text)}))


class Unreported:
    """Cannot say whether the policy `bad` is shadowed by another one."""

    def __init__(self, policies):
        self._policies = policies

    def __getattr__(self, name):
        return getattr(self._policies, name)

    def shadowed_by(self, key):
        if key == "bad":
            raise ZeroDivisionError("a mistake")
        return self._policies.shadowed_by(key)


async def test_a_status_that_cannot_be_made_keeps_no_other_from_being_written(caplog):
    rig = Rig()
    kind = PolicyKind(rig.engine)
    kind.policies = Unreported(kind.policies)
    async with controlled(rig=rig, kind=kind) as world:
        for name in ("bad", "good"):
            world.controller.take_event({"type": "ADDED", "object": policy(name, uid=name)})
        await world.becomes(lambda: [each.path.split("/")[-2] for each in world.script.requests] == ["good"])
    assert caplog.text.count("cannot tell the status of policy bad") == 1
