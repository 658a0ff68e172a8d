"""Which local policies of a namespace take the pods of others, and what their statuses say about it."""

from __future__ import annotations

from podwright.api.policy_status import status_of
from support.policies.local import delegating, local_policy
from support.policies.policy_sets import build, chosen, pod

RANDOM = {"strategy": {"type": "Random"}}
WEB = {"podSelector": {"matchLabels": {"app": "web"}}}
DB = {"podSelector": {"matchLabels": {"app": "db"}}}


class Team:
    """The policies of namespaces below a SchedulerPolicy that delegates something."""

    def __init__(self):
        self.policies = build(delegating())

    def apply(self, name, namespace="team-a", **spec):
        raw = local_policy(
            name, namespace, created=spec.pop("created", ""), generation=spec.pop("generation", 1), **RANDOM, **spec
        )
        return self.policies.local.apply(raw)

    def remove(self, key):
        self.policies.local.remove(key)

    def condition(self, key, kind):
        local = self.policies.local
        found = status_of(local, local.result_of(key), None, "2026-01-01T00:00:00Z")["conditions"]
        return next(((each["reason"], each["message"]) for each in found if each["type"] == kind), None)

    def active(self, key):
        return self.condition(key, "Active")


def test_a_policy_whose_pods_another_takes_says_so():
    team = Team()
    team.apply("all", precedence=5)
    team.apply("web", match=WEB)
    assert chosen(team.policies, pod({"app": "web"}, namespace="team-a")) == "team-a/all"
    assert team.active("team-a/web") == (
        "Shadowed",
        "Policy team-a/all goes first and takes every pod that this one would take.",
    )
    assert team.active("team-a/all")[0] == "InForce"
    team.apply("all", precedence=5, match=DB, generation=2)
    assert team.active("team-a/web")[0] == "InForce"


def test_policies_of_equal_precedence_that_may_match_the_same_pods_say_so():
    team = Team()
    team.apply("young", match=WEB, created="2026-02-01T00:00:00Z")
    team.apply("old", match={"priorityClasses": ["high"]}, created="2026-01-01T00:00:00Z")
    team.apply("other", match=DB, created="2026-03-01T00:00:00Z")
    reason, message = team.condition("team-a/young", "Conflict")
    assert reason == "EqualPrecedence"
    assert message.startswith(
        "This policy goes after team-a/old: they have the same precedence, 0, and some pods may match both."
    )
    assert "before team-a/young, team-a/other:" in team.condition("team-a/old", "Conflict")[1]
    assert "after team-a/old:" in team.condition("team-a/other", "Conflict")[1]
    team.remove("team-a/old")
    assert team.condition("team-a/young", "Conflict") is None


def test_policies_of_other_namespaces_names_and_precedences_are_no_conflict():
    team = Team()
    team.apply("one")
    team.apply("one", namespace="team-b")
    team.apply("two", precedence=1, match=WEB)
    team.apply("three", schedulerName="podwright-other")
    assert team.condition("team-a/one", "Conflict") is None
    assert team.condition("team-b/one", "Conflict") is None
    assert team.active("team-a/one")[0] == "InForce"


def test_a_policy_that_is_not_in_force_takes_no_pods_of_others():
    team = Team()
    assert not team.apply("bad", precedence=5, plugins={"score": {"enabled": [{"name": "NoSuch"}]}}).accepted
    team.apply("web", match=WEB)
    assert team.active("team-a/web")[0] == "InForce"


def test_only_policies_in_force_are_compared(monkeypatch):
    team = Team()
    for i in range(40):
        team.apply(f"p{i:02}", created=f"2026-01-01T00:{i:02}:00Z")
    assert team.active("team-a/p15")[0] == "Shadowed"
    assert team.active("team-a/p30")[0] == "NotAccepted"
    message = team.condition("team-a/p15", "Conflict")[1]
    assert message.count("team-a/") == 5
    assert "and there are others" in message
