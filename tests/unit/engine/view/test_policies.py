"""The policies as rows, and one of them in full."""

from podwright.engine.process.steps import at_once
from podwright.engine.view import policies as view
from podwright.engine.view.policies import about_policy, policy_rows
from support.engine.kit import Rig, deciding
from support.objects.builders import make_policy
from support.steps import run_steps


def policy(name, generation=1, **spec):
    match = {"podSelector": {"matchLabels": {"app": name}}}
    return make_policy(name, generation, name, **{"match": match, **spec})


def rows(rig):
    return at_once(policy_rows(rig.engine.policies))


def test_the_built_in_policy_is_always_there():
    (row,) = rows(Rig()).rows
    assert (row.name, row.state, row.scheduler_name) == ("built-in-default", "Built in", "podwright")
    assert about_policy(Rig().engine.policies, "built-in-default", faults=True)["state"] == "Built in"


def test_states_and_order():
    rig = Rig()
    apply = rig.engine.policies.apply
    apply(policy("low"))
    apply(policy("high", precedence=5))
    apply(policy("edited"))
    apply(policy("edited", generation=2, strategy={"type": "Nope"}))
    apply(policy("wrong", strategy={"type": "Nope"}))
    found = [(row.name, row.state, row.generation) for row in rows(rig).rows]
    assert found == [
        ("high", "Active", 1),
        ("edited", "Rejected", 1),
        ("low", "Active", 1),
        ("wrong", "Waits", None),
        ("built-in-default", "Built in", 0),
    ]
    about = about_policy(rig.engine.policies, "edited", faults=True)
    assert (about["generation"], about["newest"], about["spec"]["match"]) == (1, 2, policy("edited")["spec"]["match"])
    assert "spec.strategy.type" in about["message"]


async def test_decisions_are_counted():
    rig = Rig()
    rig.node("a")
    rig.engine.policies.apply(policy("web"))
    rig.pod("p", labels={"app": "web"})
    async with deciding(rig):
        pass
    assert {row.name: row.decisions for row in rows(rig).rows} == {"web": 1, "built-in-default": 0}


def test_faults_are_only_for_some():
    rig = Rig()
    rig.engine.policies.apply(policy("web"))
    rig.engine.activities.fault("web", "rule r failed")
    assert [text for _, text in about_policy(rig.engine.policies, "web", faults=True)["faults"]] == ["rule r failed"]
    assert "faults" not in about_policy(rig.engine.policies, "web", faults=False)


def test_a_plugin_that_is_switched_off_is_a_problem():
    rig = Rig()
    policies = rig.engine.policies
    policies.apply(policy("web"))
    policies.switch_off(policies.policy_set.active_generation_of("web"), "ImageLocality", "it was too slow")
    (problem,) = about_policy(policies, "web", faults=False)["problems"]
    assert "ImageLocality" in problem
    assert "it was too slow" in problem


def test_few_of_many_policies_are_listed_in_short_steps(monkeypatch):
    monkeypatch.setattr(view, "MOST_POLICIES", 6)
    rig = Rig()
    for number in range(10):
        rig.engine.policies.apply(policy(f"p{number}"))
    found, steps = run_steps(policy_rows(rig.engine.policies))
    assert (steps, len(found.rows), found.count) == (6, 7, 11)


def test_an_unknown_policy_has_no_answer():
    assert about_policy(Rig().engine.policies, "none", faults=True) == {}
    assert about_policy(Rig().engine.policies, "team/none", faults=True) == {}
