"""Pods of a policy of which no generation was accepted: they are told so, and wait for it or are placed by another
policy.
"""

from __future__ import annotations

import pytest

from podwright.api.permissions import PolicySettings
from podwright.core.objects.pod_group import KIND, WORKLOAD_API
from support.engine.kit import Rig, custom_policy, deciding, settle, values
from support.objects.builders import in_group, make_pod_group, make_policy
from support.policies.local import delegating, local_policy

STRICT = {"tier": "strict"}
FALLS_BACK = PolicySettings(waits_for_bad_policies=False)


def policy(name="strict", generation=1, *, good=False, **spec):
    match = {"podSelector": {"matchLabels": STRICT}}
    strategy = {"type": "Random" if good else "Guess"}
    return make_policy(name, generation, name, **{"match": match, "strategy": strategy, **spec})


def rig(*policies, **options):
    found = Rig(**options)
    found.node("a")
    for raw in policies:
        found.engine.policies.apply(raw)
    return found


async def change(r, raw):
    """Applies a policy as its controller does."""
    r.engine.policies.apply(raw)
    r.engine.policies_changed()
    await settle()


async def test_a_pod_of_a_refused_policy_waits_and_its_event_says_why():
    r = rig(policy(generation=3))
    r.pod("web", labels=STRICT)
    r.pod("other")
    async with deciding(r):
        assert r.cluster.bound == [("other", "a")]
        assert r.counts == {"unschedulable": 1}
        (note,) = r.recorder.notes("FailedScheduling")
        assert note.startswith(
            "the pod waits because policy strict, generation 3, was not accepted: spec.strategy.type: "
        )
        assert r.recorder.policies[r.recorder.events.index(("web", "FailedScheduling", note))] == "strict@3"
        (verdict,) = [verdict for name, verdict, _ in r.status.written if name == "web"]
        assert (verdict.reason, verdict.message) == ("SchedulerError", note)
        assert values(r, "scheduler_unschedulable_pods") == {("SchedulerPolicy", "podwright"): 1.0}


async def test_events_of_the_cluster_do_not_retry_a_pod_that_waits_for_a_policy():
    r = rig(policy())
    r.pod("web", labels=STRICT)
    async with deciding(r):
        for name in "bcd":
            r.node(name)
        await settle()
        assert r.engine.queue.get("default/web").attempts == 1


@pytest.mark.parametrize("how", ["it is accepted", "it is deleted", "it gives up the pod", "another policy goes first"])
async def test_the_pod_is_retried_at_once_when_it_need_not_wait_any_more(how):
    r = rig(policy())
    r.pod("web", labels=STRICT)
    async with deciding(r):
        assert r.cluster.bound == []
        if how == "it is accepted":
            await change(r, policy(generation=2, good=True))
        elif how == "it is deleted":
            r.engine.policies.remove("strict")
            r.engine.policies_changed()
            await settle()
        elif how == "it gives up the pod":
            await change(r, policy(generation=2, match={"podSelector": {"matchLabels": {"tier": "none"}}}))
        else:
            await change(r, policy("first", good=True, precedence=1))
        assert r.cluster.bound == [("web", "a")]


async def test_a_new_refused_generation_tells_the_pod_again_and_that_of_another_policy_does_not():
    r = rig(policy(), policy("elsewhere", match={"podSelector": {"matchLabels": {"tier": "x"}}}))
    r.pod("web", labels=STRICT)
    async with deciding(r):
        await change(r, policy("elsewhere", 2, match={"podSelector": {"matchLabels": {"tier": "y"}}}))
        assert len(r.recorder.notes("FailedScheduling")) == 1
        await change(r, policy(generation=2))
        assert "generation 2, was not accepted" in r.recorder.notes("FailedScheduling")[1]


async def test_the_last_accepted_generation_stays_in_force_and_no_pod_waits():
    r = rig(policy(good=True))
    r.engine.policies.apply(policy(generation=2))
    r.pod("web", labels=STRICT)
    async with deciding(r):
        assert r.cluster.bound == [("web", "a")]


async def test_a_gated_pod_gets_no_event_about_a_refused_policy():
    r = rig(policy())
    r.pod("web", labels=STRICT, spec={"schedulingGates": [{"name": "later"}]})
    async with deciding(r):
        assert (r.counts, r.recorder.events) == ({"gated": 1}, [])


async def test_a_pod_whose_scheduler_name_only_a_refused_policy_serves_gets_an_event():
    r = rig(policy(schedulerName="ml"))
    r.pod("web", spec={"schedulerName": "ml"})
    async with deciding(r):
        assert "policy strict, generation 1, was not accepted" in r.recorder.notes("FailedScheduling")[0]
        await change(r, policy(generation=2, good=True, schedulerName="ml"))
        assert r.cluster.bound == [("web", "a")]


async def test_a_pod_of_a_scheduler_name_that_is_not_allowed_is_left_alone():
    r = rig(policy(schedulerName="ml", good=True), policies=PolicySettings(allowed_scheduler_names=("other",)))
    r.pod("web", spec={"schedulerName": "ml"})
    async with deciding(r):
        assert (r.counts, r.recorder.events, r.status.written) == ({}, [], [])


class TestFallingBack:
    async def test_the_pod_is_placed_and_gets_an_event_about_the_refused_policy(self):
        r = rig(policy(generation=3), policies=FALLS_BACK)
        r.pod("web", labels=STRICT)
        r.pod("other")
        async with deciding(r):
            assert r.cluster.bound == [("web", "a"), ("other", "a")]
            (note,) = r.recorder.notes("PolicyNotAccepted")
            assert note.startswith(
                "policy built-in-default decides about the pod because policy strict, generation 3, was not accepted: spec.strat"
            )

    async def test_the_next_policy_that_matches_decides(self):
        r = rig(policy(precedence=2), {**custom_policy("score", "RandomScore"), "status": {}}, policies=FALLS_BACK)
        r.pod("web", labels=STRICT)
        async with deciding(r):
            assert '"policy":"custom"' in r.cluster.annotations[0]["podwright.dev/decision"]
            assert r.recorder.notes("PolicyNotAccepted")[0].startswith("policy custom decides about the pod because")


class TestGangs:
    def gang(self, r, labels):
        r.engine.cache.groups.serve(WORKLOAD_API)
        r.engine.objects(KIND).put(make_pod_group("gang", len(labels)))
        for index, each in enumerate(labels):
            r.pod(f"m{index}", labels=each, spec=in_group("gang"))

    async def test_all_members_wait_until_the_policy_is_accepted(self):
        r = rig(policy())
        self.gang(r, [STRICT] * 3)
        async with deciding(r):
            assert r.counts == {"unschedulable": 3}
            (*_, (name, reason, message)) = r.groups.written
            assert (name, reason) == ("gang", "SchedulerError")
            assert message.startswith("the pod group waits because policy strict, generation 1, was not accepted: ")
            assert len(r.recorder.notes("FailedScheduling")) == 3
            await change(r, policy(generation=2, good=True))
            assert len(r.cluster.bound) == 3

    @pytest.mark.parametrize("first", [0, 1])
    async def test_no_member_is_placed_if_only_some_are_under_a_refused_policy(self, first):
        r = rig(policy(schedulerName="ml"))
        r.engine.cache.groups.serve(WORKLOAD_API)
        r.engine.objects(KIND).put(make_pod_group("gang", 2))
        for index, name in enumerate(["ml", "podwright"] if first else ["podwright", "ml"]):
            r.pod(f"m{index}", labels=STRICT, spec={**in_group("gang"), "schedulerName": name})
        async with deciding(r):
            assert r.cluster.bound == []
            assert r.recorder.notes("FailedScheduling")


async def test_an_event_names_the_policy_and_generation_that_decided():
    r = rig(policy(generation=4, good=True))
    r.pod("web", labels=STRICT, requests={"cpu": "1000"})
    r.pod("other", requests={"cpu": "1000"})
    async with deciding(r):
        assert dict(zip((name for name, *_ in r.recorder.events), r.recorder.policies, strict=True)) == {
            "web": "strict@4",
            "other": "built-in-default@0",
        }


async def test_a_changed_policy_retries_only_the_pods_about_which_it_decides():
    r = rig(policy(good=True), policy("elsewhere", good=True, match={"podSelector": {"matchLabels": {"tier": "x"}}}))
    big = {"requests": {"cpu": "1000"}}
    r.pod("strict", labels=STRICT, **big)
    r.pod("elsewhere", labels={"tier": "x"}, **big)
    r.pod("free", **big)
    r.pod("gated", labels=STRICT, spec={"schedulingGates": [{"name": "later"}]})

    def attempts():
        return {
            name: r.engine.queue.get(f"default/{name}").attempts for name in ("strict", "elsewhere", "free", "gated")
        }

    async with deciding(r):
        assert attempts() == {"strict": 1, "elsewhere": 1, "free": 1, "gated": 0}
        r.now += 20
        await change(r, policy(generation=2, good=True, precedence=1))
        assert attempts() == {"strict": 2, "elsewhere": 1, "free": 1, "gated": 0}


async def test_many_pods_are_reconsidered_in_slices_and_a_change_meanwhile_counts():
    r = rig(policy(good=True))
    for index in range(20):
        r.pod(f"p{index}", labels=STRICT, requests={"cpu": "1000"})
    async with deciding(r):
        assert r.counts == {"unschedulable": 20}
        r.now += 20
        now = r.now
        steps = iter(range(1_000_000))
        r.clock = lambda: now + 0.001 * next(steps)
        r.engine.policies.apply(policy(generation=2, good=True, precedence=1))
        r.engine.policies_changed()
        assert 0 < r.engine.queue.counts()["unschedulable"] < 20
        r.engine.policies.apply(policy(generation=3, good=True))
        r.engine.policies_changed()
        for _ in range(10):
            await settle()
        assert {r.engine.queue.get(f"default/p{index}").policy for index in range(20)} == {"strict@3"}


TENS = str([*range(10)])
LOOPS = f"{TENS}.all(a, {TENS}.all(b, {TENS}.all(c, node.name != 'x' || %d < a)))"
RULES = {"filters": [{"name": f"r{number}", "expression": LOOPS % number} for number in range(64)]}


class TestWorkOfRules:
    """Rules that the cluster at hand could not bear are refused when they are applied, and never later."""

    PROBLEM = (
        "spec.rules: the rules may cost 67239040 on the nodes of this cluster, the maximum is 60000000: "
        "rule 'r0' may cost 9551 on each of 110 nodes"
    )

    @pytest.fixture
    def rig(self):
        return Rig()

    def add_nodes(self, rig):
        for number in range(110):
            rig.node(f"n{number}")

    def raw(self, status=None):
        raw = make_policy("strict", 1, "strict", rules=RULES)
        return raw if status is None else {**raw, "status": status}

    def test_a_policy_is_refused_with_the_rule_its_cost_and_the_bound(self, rig):
        self.add_nodes(rig)
        result = rig.engine.policies.apply(self.raw())
        assert (result.accepted, result.reason) == (False, "NotAllowed")
        assert self.PROBLEM in result.message

    def test_a_policy_that_was_accepted_stays_in_force_on_more_nodes_and_after_a_restart(self, rig):
        assert rig.engine.policies.apply(self.raw()).accepted, "no nodes yet"
        self.add_nodes(rig)
        assert rig.engine.policies.apply(self.raw()).accepted
        restarted = Rig()
        self.add_nodes(restarted)
        status = {"lastAccepted": {"generation": 1, "spec": self.raw()["spec"]}}
        assert restarted.engine.policies.apply(self.raw(status)).accepted

    def test_the_same_holds_for_a_local_policy(self, rig):
        assert rig.engine.policies.apply(delegating(delegation={"rules": True, "maxRules": 64})).accepted
        raw = local_policy(rules=RULES)
        self.add_nodes(rig)
        result = rig.engine.policies.apply_local(raw)
        assert not result.accepted
        assert self.PROBLEM in result.message
        raw = {
            **raw,
            "status": {"lastAccepted": {"generation": 1, "spec": raw["spec"]}},
            "metadata": {**raw["metadata"], "uid": "new"},
        }
        assert rig.engine.policies.apply_local(raw).accepted
