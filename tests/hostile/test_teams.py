"""Hostile LocalSchedulerPolicies: each is refused with a clear message or bounded, and the pods of other teams are all
decided.
"""

from __future__ import annotations

import asyncio

import pytest

from podwright.api.spec.bounds import MAX_SPEC_VALUES
from support.hostile.teams import OTHER, TEAMS, Teams, hostile_specs
from support.policies.local import local_policy

REFUSED = {
    "an expression of 100 kB": "spec.rules.filters[0].expression: too long: 99977 characters, the maximum is 10240",
    "1,000 rules": f"spec: too large: it consists of more than {MAX_SPEC_VALUES} values",
    "a regular expression that grows": "spec.rules.filters[0].expression: line 1, column 25: ",
    "deep nesting": "spec.rules.filters[0].expression: ",
    "a deep object": "spec: nested too deeply: the maximum is 32 levels",
    "more than is delegated": "spec.strategy.type: NodeName is not delegated: SchedulerPolicy gold delegates only ",
}
SPECS = dict(hostile_specs())


@pytest.fixture
def teams():
    return Teams(nodes=30)


async def until(holds, seconds=60):
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_bounded_is_refused_with_the_field(teams, name):
    result = teams.rig.engine.policies.apply_local(local_policy("hostile", "team-0", **SPECS[name]))
    assert not result.accepted
    assert result.message.startswith(REFUSED[name])


def test_all_expressions_of_a_policy_together_are_bounded(teams):
    text = "node.labels.name != 'x' && " * 300 + "true"
    rules = {"filters": [{"name": f"f{i}", "expression": text} for i in range(3)]}
    result = teams.rig.engine.policies.apply_local(local_policy("hostile", "team-0", rules=rules))
    assert result.message.startswith("spec.rules: the expressions have more than 16384 characters together")


async def test_beside_a_hundred_hostile_policies_all_pods_of_another_team_are_decided(teams):
    teams.write_hostile_policies()
    for number in range(300):
        teams.put(f"h{number}", f"team-{number % TEAMS}", "a1")
        teams.put(f"p{number}", OTHER, "a1")
    engine, bound = teams.rig.engine, teams.rig.cluster.bound
    loop = asyncio.create_task(engine.run())
    try:
        await until(lambda: sum(name.startswith("p") for name, _ in bound) == 300)
    finally:
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)
        await engine.stop(0)
    assert teams.rig.recorder.notes("FailedScheduling") != [], "pods of refused policies say why they wait"
    decisions = engine.policies.work_of(f"{OTHER}/ordinary").decisions
    assert decisions == 300, "and none of them was tried twice"


async def test_a_hostile_policy_is_measured_in_the_lane_before_its_pods_go_with_the_others(teams):
    teams.apply(local_policy("hostile", "team-0", **SPECS["errors on all nodes"]))
    (account,) = (account for account in teams.rig.engine.budgets.accounts if account.key == "team-0/hostile")
    teams.put("h0", "team-0", "a1")
    teams.put("p0", OTHER, "a1")
    engine = teams.rig.engine
    loop = asyncio.create_task(engine.run())
    try:
        await until(lambda: engine.queue.get("h0").attempts == 1 and engine.queue.get("h0").policy)
    finally:
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)
        await engine.stop(0)
    assert account.spent > 0 or account.times
    assert not account.trusted
