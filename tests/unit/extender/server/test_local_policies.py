"""The additions of LocalSchedulerPolicies have a time budget in the extender, too."""

from __future__ import annotations

import pytest

from podwright.core.framework.interface import FilterPlugin, Plugin, ScorePlugin
from podwright.core.framework.status import unschedulable
from podwright.core.objects.pod import parse_pod
from podwright.engine.records.local_budgets import OVER_SECONDS
from podwright.extender.wire import MetaVictims
from support.engine.kit import on_node, ours
from support.extender.kit import ExtenderRig
from support.objects.builders import make_pod
from support.policies.local import delegating, local_policy
from support.steps import run_steps

NAMES = ["a", "b", "c"]


class Slow(Plugin, FilterPlugin, ScorePlugin):
    """Takes as long as the test says for each verb, keeps pods off node b and prefers node c."""

    name = "Slow"
    seconds = 0.0
    rig = None

    def filter(self, _state, _pod, node):
        self._take(node)
        return unschedulable("not b") if node.name == "b" else None

    def score(self, _state, _pod, node):
        self._take(node)
        return 100 if node.name == "c" else 0

    def _take(self, node):
        if node.name == "a" and self.rig is not None:
            self.rig.now += self.seconds


@pytest.fixture
def rig(monkeypatch):
    found = ExtenderRig("a", "b", "c", plugins={"Slow": Slow})
    monkeypatch.setattr(Slow, "rig", found.rig)
    monkeypatch.setattr(Slow, "seconds", 0.0)
    delegation = {"plugins": ["Slow"], "decisionBudget": "1ms"}
    assert found.policies.apply(delegating(delegation=delegation)).accepted
    plugins = {"filter": {"enabled": [{"name": "Slow"}]}, "score": {"enabled": [{"name": "Slow", "weight": 10}]}}
    assert found.policies.apply_local(local_policy(strategy={"type": "Custom"}, plugins=plugins)).accepted
    found.rig.engine.policies_changed({"team-a"})
    return found


def decide(rig, name):
    """Asks about a pod as kube-scheduler does. Returns the positions that are kept, and their scores."""
    asking = parse_pod(ours(name, namespace="team-a"))
    kept = rig.verdicts.filter(asking, "", NAMES).kept
    return kept.tolist(), rig.verdicts.prioritize(asking, "", [NAMES[at] for at in kept]).tolist()


def seconds_for(each):
    Slow.seconds = each


def test_a_local_policy_within_its_budget_counts_however_many_pods_come(rig):
    seconds_for(0.0004)
    for number in range(200):
        rig.rig.now += 1.0
        assert decide(rig, f"p{number}") == ([0, 2], [0, 10])


def test_the_scores_of_a_local_policy_over_its_budget_count_nothing_for_a_while_and_its_filters_hold(rig):
    assert decide(rig, "before") == ([0, 2], [0, 10])
    seconds_for(0.0006)  # in each of the two calls
    found = []
    for number in range(300):
        rig.rig.now += 1.0 if not found or found[-1][1] == [0, 10] else 0.0
        found.append(decide(rig, f"p{number}"))
    assert {tuple(kept) for kept, _ in found} == {(0, 2)}
    muted = next(number for number, (_, scores) in enumerate(found) if scores == [10, 10])
    assert 50 < muted < 200
    assert all(scores == [10, 10] for _, scores in found[muted:])
    assert "more than 1 ms in a decision" in rig.rig.engine.budgets.problem("team-a/ours")
    seconds_for(0.0)
    rig.rig.now += OVER_SECONDS[0]
    assert decide(rig, "afterwards") == ([0, 2], [0, 10])


def test_what_preemption_takes_counts_to_the_decision(rig):
    for name in "abc":
        rig.rig.engine.assigned.put(on_node(make_pod(f"low-{name}", uid=f"low-{name}", priority=1), name))
    asking = parse_pod(ours("asks", namespace="team-a", priority=10))
    seconds_for(0.05)
    victims = {"a": MetaVictims(("low-a",), 0)}
    run_steps(rig.verdicts.preempt(asking, "", victims, 0.0))
    assert rig.rig.engine.budgets.problem("team-a/ours")
