"""Pods that name a policy in their annotation: the policy decides about them if it lets them, otherwise they wait and
are told why.
"""

from __future__ import annotations

import pytest

from podwright.api.compile import BUILT_IN
from podwright.api.permissions import PolicySettings
from podwright.core.objects.pod_group import KIND, WORKLOAD_API
from support.engine.kit import Rig, deciding, ours, settle
from support.objects.builders import in_group, make_pod_group, make_policy

FALLS_BACK = PolicySettings(waits_for_bad_policies=False)
HIGH = {"podSelector": {"matchLabels": {"tier": "high"}}}


def names(policy):
    """The options of a pod that names the policy."""
    return {"metadata": {"annotations": {"podwright.dev/policy": policy}}}


def policy(name="gold", generation=1, **spec):
    return make_policy(name, generation, name, **spec)


def rig(*policies, **options):
    found = Rig(**options)
    found.node("a")
    for raw in policies:
        found.engine.policies.apply(raw)
    return found


async def change(r, raw):
    r.engine.policies.apply(raw)
    r.engine.policies_changed()
    await settle()


@pytest.mark.parametrize(
    ("by_name", "names_it", "decider"),
    [
        pytest.param("Allowed", True, "gold@1", id="the policy that it names, whatever the precedence of others"),
        pytest.param("Required", True, "gold@1", id="a policy for pods that name it only"),
        pytest.param("Allowed", False, "first@1", id="without the annotation, precedence decides"),
        pytest.param("Required", False, "first@1", id="without the annotation, the policy does not count"),
    ],
)
async def test_which_policy_decides_about_a_pod(by_name, names_it, decider):
    r = rig(policy(byName=by_name), policy("first", precedence=1))
    r.pod("web", **(names("gold") if names_it else {}))
    async with deciding(r):
        assert r.cluster.bound == [("web", "a")]
    assert f'"policy":"{decider.partition("@")[0]}"' in next(iter(r.cluster.annotations[0].values())).replace(" ", "")


def test_a_policy_for_pods_that_name_it_takes_no_other_pod():
    r = rig(policy(byName="Required"))
    r.pod("web")
    assert r.engine.policies.of(r.engine.queue.get("default/web").pod).compiled.name == BUILT_IN


@pytest.mark.parametrize(
    ("policies", "reason"),
    [
        pytest.param([], "does not exist for the pod's scheduler name", id="no such policy"),
        pytest.param([policy(schedulerName="other", byName="Allowed")], "does not exist for the pod's scheduler name", id="a policy for another scheduler name"),
        pytest.param([policy()], "does not let pods name it: its spec.byName is Never", id="a policy that takes pods by itself only"),
        pytest.param([policy(mode="Shadow")], "is in shadow mode, so it takes no pods", id="a policy in shadow mode"),
        pytest.param([policy(byName="Allowed", match=HIGH)], "does not match the pod", id="a policy for other pods"),
    ],
)  # fmt: skip
async def test_a_pod_waits_if_the_policy_does_not_take_it_and_its_event_says_why(policies, reason):
    r = rig(*policies)
    r.pod("web", **names("gold"))
    r.pod("other")
    async with deciding(r):
        assert r.cluster.bound == [("other", "a")]
        note = f"the pod waits because its annotation podwright.dev/policy names policy 'gold', which {reason}"
        assert r.recorder.notes("FailedScheduling") == [note]
        (verdict,) = [verdict for name, verdict, _ in r.status.written if name == "web"]
        assert (verdict.reason, verdict.message) == ("SchedulerError", note)
        await change(r, policy(generation=2, byName="Allowed"))
        assert r.cluster.bound[1:] == [("web", "a")], "it is retried at once"


async def test_a_pod_may_name_a_policy_that_was_refused_and_waits_for_it():
    r = rig(policy(byName="Required", strategy={"type": "Guess"}))
    r.pod("web", **names("gold"))
    r.pod("other")
    async with deciding(r):
        assert r.cluster.bound == [("other", "a")]
        (note,) = r.recorder.notes("FailedScheduling")
        assert note.startswith(
            "the pod waits because policy gold, generation 1, was not accepted: spec.strategy.type: "
        )


async def test_another_name_in_the_annotation_counts_at_once():
    r = rig(policy(byName="Allowed"))
    r.pod("web", **names("golden"))
    async with deciding(r):
        assert r.cluster.bound == []
        r.engine.pending.put(ours("web", **names("gold")))
        await settle()
        assert r.cluster.bound == [("web", "a")]


async def test_a_pod_that_no_node_fits_is_tried_under_the_policy_that_it_names_now():
    r = rig(policy(byName="Required"))
    big = {"requests": {"cpu": "1000"}}
    r.pod("web", **big)
    async with deciding(r):
        r.now += 20
        r.engine.pending.put(ours("web", **big, **names("gold")))
        await settle()
        queued = r.engine.queue.get("default/web")
        assert (queued.attempts, queued.policy) == (2, "gold@1")


async def test_with_fallback_the_next_policy_decides_and_an_event_says_so():
    r = rig(policy("first"), policies=FALLS_BACK)
    r.pod("web", **names("gold"))
    async with deciding(r):
        assert r.cluster.bound == [("web", "a")]
    (note,) = r.recorder.notes("PolicyNotAccepted")
    assert note == (
        "policy first decides about the pod because its annotation podwright.dev/policy names policy 'gold', which does not exist "
        "for the pod's scheduler name"
    )


@pytest.mark.parametrize(
    "named",
    [
        pytest.param(["gold", "gold"], id="all name it"),
        pytest.param(["gold", ""], id="the first names it"),
        pytest.param(["", "gold"], id="the second names it"),
    ],
)
async def test_the_members_of_a_group_wait_together(named):
    r = rig()
    r.engine.cache.groups.serve(WORKLOAD_API)
    r.engine.objects(KIND).put(make_pod_group("gang", 2))
    for index, name in enumerate(named):
        r.pod(f"m{index}", spec=in_group("gang"), **names(name))
    async with deciding(r):
        assert r.cluster.bound == []
        notes = r.recorder.notes("FailedScheduling")
        assert notes
        assert all("names policy 'gold', which does not exist for the pod's scheduler name" in note for note in notes)


def test_an_overlong_name_is_cut():
    r = rig()
    r.pod("web", **names("x" * 300_000))
    assert len(r.engine.queue.get("default/web").pod.policy) == 254


@pytest.mark.parametrize(
    "annotations", [{"podwright.dev/policy": 7}, {"podwright.dev/policy": ""}, ["x"], None], ids=str
)
def test_an_annotation_that_names_nothing_is_ignored(annotations):
    r = rig()
    r.pod("web", metadata={"annotations": annotations})
    assert r.engine.policies.of(r.engine.queue.get("default/web").pod).compiled.name == BUILT_IN


async def test_pods_that_name_a_thousand_policies_need_no_memory_of_their_own():
    r = rig(policy())
    for number in range(1_000):
        r.pod(f"p{number}", **names(f"n{number}"))
    deciders = {id(r.engine.policies.of(r.engine.queue.get(f"default/p{number}").pod)) for number in range(1_000)}
    assert len(deciders) == 1
