"""The status of a policy: its conditions, and the generation that was accepted last."""

from __future__ import annotations

import pytest

from podwright.api.policy_set import PolicySet
from podwright.api.policy_status import ShadowWork, Work, basis_of, status_of
from podwright.core.framework.features import Features
from support.engine.stand_ins import STAND_INS

GOOD = {"strategy": {"type": "MostAllocated"}}
BAD = {"strategy": {"type": "Best"}}
SHADOW = {"mode": "Shadow", "schedulerName": "default-scheduler"}
NOON, LATER = "2026-01-01T12:00:00Z", "2026-01-01T13:00:00Z"


def policy(name, spec, generation=1):
    return {"metadata": {"name": name, "generation": generation, "uid": f"u-{name}"}, "spec": spec}


def build(*raws):
    policies = PolicySet(STAND_INS, Features())
    for raw in raws:
        policies.apply(raw)
    return policies


def select_pods(**labels):
    return {"podSelector": {"matchLabels": labels}}


def conditions(policies, raw, previous=None, now=NOON):
    status = status_of(policies, policies.apply(raw), previous, now)
    return status, {c["type"]: (c["status"], c["reason"], c["lastTransitionTime"]) for c in status["conditions"]}


def test_the_status_of_a_valid_policy():
    status, found = conditions(build(), policy("a", GOOD, generation=4))
    assert status["observedGeneration"] == 4
    assert [c["observedGeneration"] for c in status["conditions"]] == [4, 4]
    assert found == {"Accepted": ("True", "Accepted", NOON), "Active": ("True", "InForce", NOON)}


def test_the_status_of_a_policy_that_was_never_accepted():
    status, found = conditions(build(), policy("a", BAD))
    assert status["conditions"][1]["message"] == (
        "No generation of this policy was accepted. The pods that it would decide about wait."
    )
    assert found == {"Accepted": ("False", "Invalid", NOON), "Active": ("False", "NotAccepted", NOON)}


def test_policies_of_equal_precedence_that_may_match_the_same_pods_say_so():
    policies = build(policy("b", {"match": select_pods(x="1")}), policy("c", {"match": select_pods(y="1")}))
    status, found = conditions(policies, policy("a", {"match": select_pods(z="1")}))
    assert found["Conflict"] == ("True", "EqualPrecedence", NOON)
    assert status["conditions"][2]["message"] == (
        "This policy goes before b, c: they have the same precedence, 0, and some pods may match both. The older policy goes first, "
        "then the first name."
    )
    status, _ = conditions(policies, policy("b", {"match": select_pods(x="1")}))
    assert status["conditions"][2]["message"].startswith("This policy goes after a and before c: they have")
    before = basis_of(policies, policies.apply(policy("b", {"match": select_pods(x="1")})))
    policies.remove("c")
    assert basis_of(policies, policies.apply(policy("b", {"match": select_pods(x="1")}))) != before
    policies.apply(policy("b", {"match": select_pods(x="1"), "precedence": 1}, generation=2))
    assert "Conflict" not in conditions(policies, policy("a", {"match": select_pods(z="1")}))[1]


def test_of_many_conflicts_the_status_names_a_few():
    policies = build(*(policy(f"p{number}", {"match": select_pods(x="1")}) for number in range(9)))
    status, _ = conditions(policies, policy("q", {"match": select_pods(x="1")}))
    message = status["conditions"][2]["message"]
    assert message.startswith(
        "This policy goes after p0, p1, p2, p3, p4, and there are others: they have the same precedence"
    )


def test_the_status_keeps_the_generation_that_was_accepted_last():
    policies = build()
    first, _ = conditions(policies, policy("a", GOOD))
    assert first["lastAccepted"] == {"generation": 1, "spec": GOOD}
    second, _ = conditions(policies, policy("a", BAD, generation=2), first)
    assert second["lastAccepted"] == {"generation": 1, "spec": GOOD}
    assert "lastAccepted" not in conditions(build(), policy("a", BAD))[0]
    spec = {"pluginConfig": [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": None}}]}
    assert conditions(policies, policy("a", spec, generation=3), second)[0]["lastAccepted"] == {
        "generation": 3,
        "spec": spec,
    }


def test_a_restart_does_not_change_the_status():
    policies = build(policy("a", GOOD))
    bad = policy("a", BAD, generation=2)
    before, _ = conditions(policies, bad)
    again, found = conditions(build(), {**bad, "status": before}, before, LATER)
    assert again == before
    assert found["Active"] == ("True", "LastGoodGeneration", NOON)


def test_the_status_keeps_a_last_accepted_generation_that_cannot_be_accepted_now():
    last = {"generation": 1, "spec": {"pluginConfig": [{"name": "Gone"}]}}
    raw = {**policy("a", BAD, generation=2), "status": {"lastAccepted": last}}
    status, found = conditions(build(), raw, {"lastAccepted": last})
    assert status["lastAccepted"] == last
    assert found["Active"][:2] == ("False", "NotAccepted")
    assert status["conditions"][1]["message"] == (
        "Generation 1 was accepted before, but cannot be accepted now. The pods that it would decide about wait."
    )


def test_a_condition_keeps_its_transition_time_while_its_status_stays_the_same():
    policies = build()
    first, _ = conditions(policies, policy("a", GOOD))
    assert conditions(policies, policy("a", GOOD), first, LATER)[0] == first, "nothing to write"
    second, found = conditions(policies, policy("a", BAD, generation=2), first, LATER)
    assert found == {"Accepted": ("False", "Invalid", LATER), "Active": ("True", "LastGoodGeneration", NOON)}
    assert "Generation 1 is in force" in second["conditions"][1]["message"]


def test_a_policy_is_shadowed_by_one_that_takes_all_of_its_pods():
    policies = build(policy("all", {"precedence": 5}))
    _, found = conditions(policies, policy("some", {"match": select_pods(x="1")}))
    assert found["Active"] == ("False", "Shadowed", NOON)
    assert found["Accepted"][0] == "True"
    policies.remove("all")
    assert conditions(policies, policy("some", {"match": select_pods(x="1")}))[1]["Active"][:2] == ("True", "InForce")


def test_a_policy_does_not_shadow_those_of_another_scheduler_name():
    policies = build(policy("all", {"precedence": 5, "schedulerName": "other"}))
    assert conditions(policies, policy("some", {}))[1]["Active"][:2] == ("True", "InForce")


@pytest.mark.parametrize(
    "previous",
    [
        pytest.param({"conditions": "x"}, id="conditions that are a string"),
        pytest.param({"conditions": [1, {"type": "Accepted"}]}, id="conditions without times"),
    ],
)
def test_a_malformed_status_is_replaced(previous):
    assert conditions(build(), policy("a", GOOD), previous)[1]["Accepted"] == ("True", "Accepted", NOON)


class TestShadowMode:
    def test_it_is_not_active_and_says_why(self):
        status, found = conditions(build(), policy("eye", SHADOW))
        assert found == {"Accepted": ("True", "Accepted", NOON), "Active": ("False", "ShadowMode", NOON)}
        assert status["conditions"][1]["message"].startswith("Generation 1 is in shadow mode: it takes no pods")

    def test_it_conflicts_with_nobody_and_is_shadowed_by_nobody(self):
        policies = build(policy("a", GOOD), policy("b", GOOD))
        _, found = conditions(policies, policy("eye", {"mode": "Shadow"}))
        assert "Conflict" not in found
        assert found["Active"][1] == "ShadowMode"
        _, found = conditions(policies, policy("b", GOOD))
        assert found["Active"][1] == "Shadowed"

    def test_without_an_accepted_generation_no_pods_wait_for_it(self):
        status, found = conditions(build(), policy("eye", {**SHADOW, **BAD}))
        assert found["Active"][1] == "NotAccepted"
        assert status["conditions"][1]["message"] == "No generation of this policy was accepted."

    @pytest.mark.parametrize(
        ("work", "agreement"),
        [
            pytest.param(ShadowWork(since=0.0, tied=4), {}, id="nothing but ties"),
            pytest.param(ShadowWork(since=0.0, agreed=3), {"agreement": "100 %"}, id="all"),
            pytest.param(ShadowWork(since=0.0, disagreed=3), {"agreement": "0 %"}, id="none"),
            pytest.param(ShadowWork(since=0.0, agreed=99_999, disagreed=1), {"agreement": "99.99 %"}, id="almost all"),
            pytest.param(ShadowWork(since=0.0, agreed=1, disagreed=99_999), {"agreement": "0.01 %"}, id="almost none"),
            pytest.param(ShadowWork(since=0.0, agreed=1, disagreed=2), {"agreement": "33.33 %"}, id="a third"),
        ],
    )
    def test_its_status_says_how_far_it_agrees(self, work, agreement):
        policies = build()
        result = policies.apply(policy("eye", SHADOW))
        status = status_of(policies, result, None, NOON, Work(shadow=work))
        counts = {"agreed": work.agreed, "tied": work.tied, "disagreed": work.disagreed}
        assert status["shadow"] == {"since": "1970-01-01T00:00:00Z", **counts, **agreement}
