"""LocalSchedulerPolicies in the engine: who decides, what a slow one costs others, and what is counted."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from podwright.core.framework.cluster_events import NODE, Action, ClusterEvent, EventHint, Hint
from podwright.core.framework.interface import FilterPlugin, Plugin, ScorePlugin
from podwright.core.framework.status import unschedulable
from podwright.core.queue.active_pods import CLOSED
from podwright.engine.planning.planning import ORDINARY_SECONDS
from podwright.engine.records import local_budgets
from podwright.engine.records.local_budgets import BURST, FORGIVEN_AFTER, OVER_SECONDS, LocalBudgets
from support.engine.kit import Rig, deciding, settle, values
from support.engine.long_work import FakeChildren
from support.policies.local import delegating, local_policy
from support.waiting import until

BUDGET = 0.001
OURS = "team-a/ours"


class Heavy(Plugin, FilterPlugin, ScorePlugin):
    """A delegated plugin that takes as long as the test says, keeps pods off node b and prefers node c."""

    name = "Heavy"
    seconds = 0.0
    rig = None
    filtered = scored = 0

    def filter(self, _state, _pod, node):
        type(self).filtered += 1
        self._take()
        return unschedulable("not b") if node.name == "b" else None

    def score(self, _state, _pod, node):
        type(self).scored += 1
        self._take()
        return 100 if node.name == "c" else 0

    def _take(self):
        if self.rig is not None:
            self.rig.now += self.seconds


HEAVY = {
    "strategy": {"type": "Custom"},
    "plugins": {"filter": {"enabled": [{"name": "Heavy"}]}, "score": {"enabled": [{"name": "Heavy", "weight": 10}]}},
}


@pytest.fixture
def rig(monkeypatch):
    monkeypatch.setattr(Heavy, "filtered", 0)
    monkeypatch.setattr(Heavy, "scored", 0)
    found = Rig({"Heavy": Heavy})
    monkeypatch.setattr(Heavy, "rig", found)
    monkeypatch.setattr(Heavy, "seconds", 0.0)
    for name in "abc":
        found.node(name)
    delegation = {"plugins": ["Heavy"], "strategies": ["Random"], "decisionBudget": "1ms"}
    assert found.engine.policies.apply(delegating(delegation=delegation)).accepted
    return found


def apply(r, **spec):
    result = r.engine.policies.apply_local(local_policy(**spec))
    assert result.accepted, result.message
    r.engine.policies_changed({"team-a"})


async def place(r, name, namespace="team-a"):
    """Decides about one pod. Returns its node."""
    r.pod(name, namespace=namespace)
    await decided(r, name)
    return dict(r.cluster.bound).get(name)


async def decided(r, name):
    """Returns when the pod is bound, or the loop has had the time: after a decision in the lane it pauses for some
    milliseconds.
    """
    for _ in range(10):
        await settle()
        if name in dict(r.cluster.bound):
            return
        await asyncio.sleep(0.01)


async def test_what_a_local_policy_adds_holds_for_the_pods_of_its_namespace_only(rig):
    apply(rig, **HEAVY)
    async with deciding(rig):
        assert await place(rig, "ours") == "c"
        assert '"policy":"team-a/ours"' in rig.cluster.annotations[-1]["podwright.dev/decision"].replace(" ", "")
        before = Heavy.filtered
        assert await place(rig, "theirs", "team-b") is not None
        assert Heavy.filtered == before


async def test_a_refused_local_policy_makes_its_pods_wait_and_no_others(rig):
    result = rig.engine.policies.apply_local(local_policy(strategy={"type": "MostAllocated"}))
    async with deciding(rig):
        assert await place(rig, "ours") is None
        assert await place(rig, "theirs", "team-b") is not None
        (note,) = rig.recorder.notes("FailedScheduling")
        assert note == f"the pod waits because policy team-a/ours, generation 1, was not accepted: {result.message}"
        rig.engine.policies.remove(OURS)
        rig.engine.policies_changed({"team-b"})
        await settle()
        assert "ours" not in dict(rig.cluster.bound), "its namespace was not said to have changed"
        rig.engine.policies_changed({"team-a"})
        await settle()
        assert "ours" in dict(rig.cluster.bound)


async def test_over_its_budget_the_scores_of_a_policy_count_0_its_filters_hold_and_its_pods_wait_for_others(rig):
    apply(rig, **HEAVY)
    async with deciding(rig):
        assert await place(rig, "first") == "c"
        scored = Heavy.scored
        Heavy.seconds = BUDGET * BURST
        assert await place(rig, "heavy") == "a", "its scores count 0 at once"
        Heavy.seconds = 0.0
        rig.pod("slow", namespace="team-a")
        rig.pod("other", namespace="team-b")
        await decided(rig, "other")
        assert Heavy.scored == scored
        (note,) = rig.recorder.notes("PolicyOverBudget")
        assert note.startswith(
            "policy team-a/ours is over its time budget (what it adds took more than 1 ms in a decision"
        )
        rig.now += 10
        rig.engine.wake()
        await decided(rig, "slow")
        assert [name for name, _ in rig.cluster.bound] == ["first", "heavy", "other", "slow"]
        assert dict(rig.cluster.bound)["slow"] != "b", "its filter holds"
        assert values(rig, "podwright_local_policies_over_budget") == {(): 1.0}
        assert values(rig, "podwright_local_policy_slowed_pods_total") == {(): 1.0}
        assert "took more than 1 ms" in rig.engine.policies.work_of(OURS).over_budget
        rig.now += OVER_SECONDS[0]
        assert await place(rig, "later") == "c"
        assert rig.engine.policies.work_of(OURS).over_budget == ""


async def test_a_policy_that_is_over_its_budget_again_and_again_is_so_for_longer_each_time(rig):
    apply(rig, **HEAVY)
    (account,) = rig.engine.budgets.accounts
    Heavy.seconds = BUDGET * BURST
    penalties = []
    async with deciding(rig):
        for number in range(4):
            await place(rig, f"p{number}")
            penalties.append(account.penalty)
            rig.now = max(rig.now, account.over_until) + 10
    assert penalties == [60.0, 120.0, 240.0, 480.0]


async def test_the_first_decision_under_a_new_policy_takes_place_in_the_lane(rig):
    apply(rig, **HEAVY)
    (account,) = rig.engine.budgets.accounts
    rig.pod("other", namespace="team-b", priority=-1)
    rig.pod("ours", namespace="team-a")
    async with deciding(rig):
        await decided(rig, "ours")
        assert [name for name, _ in rig.cluster.bound] == ["other", "ours"]
        assert not account.trusted
        assert await place(rig, "next") == "c"
        assert account.trusted
        assert rig.recorder.notes("PolicyOverBudget") == []


async def test_a_policy_within_its_budget_is_never_slowed(rig):
    apply(rig, **HEAVY)
    Heavy.seconds = BUDGET / 10
    async with deciding(rig):
        for number in range(100):
            rig.now += 1.0
            assert await place(rig, f"p{number}") is not None
        assert rig.recorder.notes("PolicyOverBudget") == []


async def test_all_local_policies_together_get_a_share_of_the_time(rig):
    apply(rig, **HEAVY)
    Heavy.seconds = 0.9 * BUDGET / 6  # it filters and scores three nodes
    async with deciding(rig):
        for number in range(25):
            rig.now += 0.05
            await place(rig, f"p{number}")
        assert rig.recorder.notes("PolicyOverBudget") == [], "under 2 % of the time"
        for number in range(250):
            rig.now += 0.004
            await place(rig, f"q{number}")
            if rig.recorder.notes("PolicyOverBudget"):
                break
        (note,) = rig.recorder.notes("PolicyOverBudget")
        assert "of the time; all local policies together get 5%" in note


async def test_what_local_policies_take_outside_the_lane_closes_it_for_as_long_as_an_attempt_in_it(rig):
    apply(rig, **HEAVY)
    async with deciding(rig):
        await place(rig, "trusted")
        rig.now += 100
        opens_at = rig.engine.queue.lane_opens_at
        assert opens_at < rig.now
        Heavy.seconds = 0.9 * BUDGET / 5  # it filters three nodes, and scores two
        assert await place(rig, "measured") is not None
        Heavy.seconds = 0.0
        assert await place(rig, "settles") is not None
        assert rig.engine.queue.lane_opens_at == pytest.approx(rig.now + 0.9 * BUDGET * CLOSED)


async def test_decisions_in_the_lane_are_not_counted_twice(rig, monkeypatch):
    children = FakeChildren()
    children.clock = rig
    monkeypatch.setattr(rig.children, "start", children.start)
    apply(rig, **HEAVY)
    Heavy.seconds = 0.9 * BUDGET / 6
    async with deciding(rig):
        await place(rig, "on-trial")
        opens_at = rig.engine.queue.lane_opens_at
        assert opens_at == pytest.approx(rig.now + ORDINARY_SECONDS * CLOSED)
        rig.now += 100
        Heavy.seconds = 0.0
        await place(rig, "settles")
        assert rig.engine.queue.lane_opens_at == opens_at


async def test_decisions_and_faults_are_counted_by_policy(rig, monkeypatch):
    apply(rig, **HEAVY)
    async with deciding(rig):
        await place(rig, "ours")
        await place(rig, "theirs", "team-b")
        monkeypatch.setattr(Heavy, "rig", property(lambda _self: 1 / 0))
        await place(rig, "failing")
    decisions = values(rig, "podwright_policy_decisions_total")
    assert (decisions["team-a/ours",], decisions["gold",]) == (2.0, 1.0)
    work = rig.engine.policies.work_of(OURS)
    assert (work.decisions, work.evaluation_errors) == (2, 1)
    ((at, text),) = work.faults
    assert at == rig.now
    assert text.startswith("plugin Heavy raised ZeroDivisionError")
    assert values(rig, "podwright_policy_pending_pods") == {("team-a/ours",): 1.0}
    rig.engine.policies.remove(OURS)
    assert ("team-a/ours",) not in values(rig, "podwright_policy_decisions_total")


RULED = {"rules": True, "maxRules": 3, "strategies": ["Random"]}


def ruled(*filters, scores=()):
    """A local policy with these expressions."""
    named = [{"name": f"f{i}", "expression": text, "message": f"node(s) failed f{i}"} for i, text in enumerate(filters)]
    weighed = [{"name": f"s{i}", "expression": text, "weight": 10} for i, text in enumerate(scores)]
    return {"rules": {"filters": named, "scores": weighed}}


@pytest.fixture
def cluster():
    """Three nodes, and a policy that keeps pods off node a, prefers node b and delegates rules."""
    found = Rig()
    for name in "abc":
        found.node(name, labels={"name": name})
    base = {
        "filters": [{"name": "not-a", "expression": "node.labels.name != 'a'", "message": "node(s) are node a"}],
        "scores": [{"name": "b", "expression": "node.labels.name == 'b' ? 100 : 0", "weight": 10}],
    }
    result = found.engine.policies.apply(delegating(delegation=RULED, rules=base))
    assert result.accepted, result.message
    return found


async def test_filters_of_the_cluster_always_hold_and_those_of_the_team_are_added(cluster):
    apply(cluster, **ruled("node.labels.name != 'b'"))
    async with deciding(cluster):
        assert await place(cluster, "ours") == "c"
        assert await place(cluster, "theirs", "team-b") == "b"
        cluster.engine.policies.apply_local(local_policy(generation=2, **ruled("node.labels.name == 'a'")))
        assert await place(cluster, "nowhere") is None
    (note,) = cluster.recorder.notes("FailedScheduling")
    assert note.startswith("0/3 nodes are available: 1 node(s) are node a, 2 node(s) failed f0.")


async def test_scores_of_the_team_replace_those_of_the_clusters_rules(cluster):
    apply(cluster, **ruled(scores=["node.labels.name == 'c' ? 100 : 0"]))
    async with deciding(cluster):
        assert await place(cluster, "ours") == "c"
        assert await place(cluster, "theirs", "team-b") == "b"


async def test_functions_that_count_pods_see_only_those_of_the_namespace(cluster):
    apply(cluster, **ruled("podsOnNode('app=x') == 0"))
    async with deciding(cluster):
        cluster.pod("other", namespace="team-b", labels={"app": "x"})
        await settle()
        assert dict(cluster.cluster.bound)["other"] == "b"
        assert await place(cluster, "ours") == "b", "the other team's pod is not seen"
        cluster.pod("own", namespace="team-a", labels={"app": "x"})
        await decided(cluster, "own")
        assert dict(cluster.cluster.bound)["own"] == "b"
        assert await place(cluster, "next") == "c", "its own pod is"


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("node.labels.name ==", "spec.rules.filters[0].expression: line 1, column 20: "),
        ("node.nmae == 'a'", "spec.rules.filters[0].expression: line 1, column 5: "),
        ("1 + 1", "spec.rules.filters[0].expression: "),
    ],
)
def test_an_invalid_rule_is_refused_where_the_team_looks(cluster, expression, problem):
    result = cluster.engine.policies.apply_local(local_policy(**ruled(expression)))
    assert (result.accepted, result.reason) == (False, "Invalid")
    assert result.message.startswith(problem)


async def test_errors_of_a_rule_are_faults_of_the_policy(cluster):
    apply(cluster, **ruled("node.labels['missing'] == 'x'"))
    async with deciding(cluster):
        assert await place(cluster, "ours") is None
    work = cluster.engine.policies.work_of(OURS)
    assert work.evaluation_errors >= 1
    ((_, text),) = work.faults
    assert text.startswith("rule f0 failed on node ")
    assert cluster.engine.policies.work_of("gold").evaluation_errors == 0


async def test_rules_that_take_too_long_put_the_policy_over_its_budget(cluster):
    apply(cluster, **ruled("node.labels.name != 'b'", scores=["node.labels.name == 'c' ? 100 : 0"]))
    async with deciding(cluster):
        assert await place(cluster, "first") == "c"
        (account,) = cluster.engine.budgets.accounts
        account.spent += 1.0
        cluster.pod("slow", namespace="team-a")
        await until(lambda: cluster.recorder.notes("PolicyOverBudget"))
        assert len(cluster.recorder.notes("PolicyOverBudget")) == 1
        cluster.now += 10
        cluster.engine.wake()
        await decided(cluster, "slow")
        assert dict(cluster.cluster.bound)["slow"] == "c", "the filters of both hold"


def test_nothing_is_kept_of_policies_that_are_gone(rig):
    for generation in range(1, 20):
        rig.engine.policies.apply_local(local_policy(generation=generation, **HEAVY))
        rig.engine.policies.apply_local(local_policy("bad", generation=generation, strategy={"type": "NodeName"}))
        rig.engine.policies.apply(delegating(generation=generation + 1, delegation={"plugins": ["Heavy"]}))
        for key in [*rig.engine.policies.policy_set.local.due]:
            rig.engine.policies.check_local(key)
    built = {active.compiled.name for active in rig.engine.policies.built}
    assert built == {"built-in-default", "gold", OURS}
    assert len(rig.engine.policies.built) == 3


@pytest.mark.parametrize("name", ["ours", "another"])
async def test_a_policy_that_is_deleted_and_made_again_keeps_its_penalty(rig, name):
    apply(rig, **HEAVY)
    Heavy.seconds = BUDGET * BURST
    async with deciding(rig):
        await place(rig, "first")
        (account,) = rig.engine.budgets.accounts
        until = account.over_until
        rig.engine.policies.remove(OURS)
        assert list(rig.engine.budgets.accounts) == []
        again = rig.engine.budgets.account(f"team-a/{name}", "owner", BUDGET)
        assert (again.muted, again.over_until, again.penalty) == (True, until, 60.0)
        assert "took more than 1 ms" in rig.engine.budgets.problem(f"team-a/{name}")
        rig.now = until + 60.0 * FORGIVEN_AFTER + 1
        rig.engine.budgets.forget(f"team-a/{name}")
        fresh = rig.engine.budgets.account(f"team-a/{name}", "owner", BUDGET)
        assert (fresh.muted, fresh.penalty) == (False, 0.0)


def test_the_penalties_of_policies_that_are_gone_are_bounded_and_those_of_their_namespace(monkeypatch):
    monkeypatch.setattr(local_budgets, "MAX_PENALTIES", 3)
    budgets = LocalBudgets(lambda: 100.0, lambda: 0.0)
    for number in range(5):
        account = budgets.account(f"team-{number}/p", "owner", 0.001)
        account.spent = 1.0
        budgets.begin(account, in_lane=True)
        budgets.forget(account.key)
    assert [budgets.account(f"team-{number}/q", "owner", 0.001).muted for number in range(5)] == [
        False,
        False,
        True,
        True,
        True,
    ]


def test_hints_are_never_part_of_a_decision_in_the_lane():
    now, charged = [100.0], []

    def hint(*_args):
        now[0] += 0.01
        return Hint.QUEUE

    budgets = LocalBudgets(lambda: now[0], lambda: now[0], charge_lane=charged.append)
    account = budgets.account("team-a/p", "owner", 1.0)
    framework = SimpleNamespace(hints={"P": [EventHint(ClusterEvent(NODE, Action.ADD), hint)]}, plugins={"P": object()})
    budgets.watch(account, framework, ["P"])
    assert budgets.begin(account, in_lane=True)
    assert framework.hints["P"][0].function(None, None, None) is Hint.QUEUE
    assert charged == []
    budgets.begin(account, in_lane=True)
    assert charged == [pytest.approx(0.01)]
