"""Pods whose claims come after them, or whose gates go: the policy decides about them again, before the claims tell
where they are.
"""

from __future__ import annotations

import pytest

from podwright.core.objects.pod import parse_pod
from podwright.core.state.cache import Cache
from podwright.engine.shadow.awaited_claims import AwaitedClaims
from podwright.engine.shadow.comparison import ComparisonOutcome
from podwright.engine.shadow.tally import Skip
from support.engine.kit import deciding, settle
from support.engine.shadows import ShadowRig, shadow_policy, theirs
from support.objects.builders import make_pod

EPHEMERAL = {"volumes": [{"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]}
MOUNTS = {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "web-data"}}]}
DEVICES = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "template"}]}


@pytest.fixture
async def rig():
    found = ShadowRig()
    found.node("a", allocatable={"cpu": "4"})
    found.node("b", allocatable={"cpu": "8"})
    async with deciding(found):
        for name, mode in (("late", "WaitForFirstConsumer"), ("now", "Immediate")):
            found.engine.objects("StorageClass").put(
                {"metadata": {"name": name}, "provisioner": "example.com/x", "volumeBindingMode": mode}
            )
        yield found


def owned(raw):
    owner = {"apiVersion": "v1", "kind": "Pod", "name": raw["metadata"]["name"], "uid": raw["metadata"]["uid"]}
    return {"ownerReferences": [{**owner, "controller": True}]}


def volume_claim(raw, storage_class="late", **spec):
    return {
        "metadata": {"name": "web-data", "namespace": "default", "uid": "web-data", **owned(raw)},
        "spec": {"storageClassName": storage_class, "accessModes": ["ReadWriteOnce"], **spec},
        "status": {"phase": "Pending"},
    }


def puts(rig, kind, raw):
    rig.engine.objects(kind).put(raw)


@pytest.mark.parametrize("spec", [EPHEMERAL, MOUNTS], ids=["ephemeral", "mounted"])
async def test_a_volume_claim_that_comes_after_its_pod(rig, spec):
    await rig.apply(shadow_policy())
    raw = await rig.appears(theirs("web", requests={"cpu": "1"}, spec=spec))
    puts(rig, "PersistentVolumeClaim", volume_claim(raw))
    await settle()
    await rig.placed(raw, "b")
    assert (rig.outcomes(), rig.tally().skipped) == ({ComparisonOutcome.AGREED: 1}, {})


async def test_a_volume_claim_that_has_to_be_bound_first(rig):
    await rig.apply(shadow_policy())
    raw = theirs("web", requests={"cpu": "1"}, spec=MOUNTS)
    puts(rig, "PersistentVolumeClaim", volume_claim(raw, "now"))
    await rig.appears(raw)
    bound = volume_claim(raw, "now", volumeName="pv")
    bound["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    puts(
        rig,
        "PersistentVolume",
        {
            "metadata": {"name": "pv", "uid": "pv"},
            "spec": {"claimRef": {"name": "web-data", "namespace": "default", "uid": "web-data"}},
        },
    )
    puts(rig, "PersistentVolumeClaim", bound)
    await settle()
    await rig.placed(raw, "b")
    assert (rig.outcomes(), rig.tally().skipped) == ({ComparisonOutcome.AGREED: 1}, {})


@pytest.mark.parametrize("claim_first", [False, True])
async def test_a_claim_for_devices_that_is_made_of_a_template(rig, claim_first):
    await rig.apply(shadow_policy())
    raw = await rig.appears(theirs("web", requests={"cpu": "1"}, spec=DEVICES))
    claim = {
        "metadata": {"name": "web-gpu", "namespace": "default", "uid": "c", **owned(raw)},
        "spec": {"devices": {"requests": []}},
    }
    told = {**raw, "status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "web-gpu"}]}}
    if claim_first:
        puts(rig, "ResourceClaim", claim)
        await settle()
    await rig.appears(told)
    if not claim_first:
        puts(rig, "ResourceClaim", claim)
        await settle()
    await rig.placed(told, "b")
    assert (rig.outcomes(), rig.tally().skipped) == ({ComparisonOutcome.AGREED: 1}, {})


async def test_a_pod_with_claims_whose_gates_go(rig):
    await rig.apply(shadow_policy())
    raw = theirs("web", requests={"cpu": "1"}, spec=MOUNTS)
    puts(rig, "PersistentVolumeClaim", volume_claim(raw))
    await rig.appears({**raw, "spec": {**raw["spec"], "schedulingGates": [{"name": "wait"}]}})
    await rig.appears(raw)
    await rig.placed(raw, "b")
    assert (rig.outcomes(), rig.tally().skipped) == ({ComparisonOutcome.AGREED: 1}, {})


async def test_a_pod_that_got_its_claim_and_its_node_at_once_is_not_judged(rig):
    await rig.apply(shadow_policy())
    raw = await rig.appears(theirs("web", requests={"cpu": "1"}, spec=EPHEMERAL))
    puts(rig, "PersistentVolumeClaim", volume_claim(raw))
    await rig.placed(raw, "b")
    assert (rig.outcomes(), rig.tally().skipped) == ({}, {Skip.UNSEEN: 1})


async def test_that_no_node_is_found_for_other_reasons_counts(rig):
    rule = {"name": "none", "expression": "false", "message": "never"}
    await rig.apply(shadow_policy(rules={"filters": [rule]}))
    raw = theirs("web", requests={"cpu": "1"}, spec=MOUNTS)
    puts(rig, "PersistentVolumeClaim", volume_claim(raw))
    await rig.appears(raw)
    await rig.placed(raw, "b")
    assert (rig.outcomes(), rig.tally().skipped) == ({ComparisonOutcome.UNPLACED: 1}, {})


async def test_a_policy_of_the_same_name_does_not_answer_as_the_one_before_it(rig):
    """The pods stay, because another policy looks at them."""
    other = shadow_policy("other")
    await rig.apply(other, shadow_policy(strategy={"type": "MostAllocated"}))
    raw = theirs("web", requests={"cpu": "1"}, spec=MOUNTS)
    puts(rig, "PersistentVolumeClaim", volume_claim(raw))
    await rig.appears(raw)
    rig.engine.policies.remove("eye")
    rig.engine.policies_changed()
    await settle()
    await rig.apply(other, shadow_policy())
    await rig.placed(raw, "b")
    assert rig.outcomes() == {ComparisonOutcome.AGREED: 1}


def test_nothing_is_kept_of_pods_that_do_not_wait_any_more():
    cache, changed = Cache(), []
    claims = AwaitedClaims(cache, changed=changed.append)
    pods = [parse_pod(make_pod(name, spec=MOUNTS)) for name in ("x", "y")]
    assert [claims.note(pod) for pod in pods] == [True, True]
    claims.forget("default/x")
    cache.set_object("PersistentVolumeClaim", volume_claim(make_pod("y")))
    cache.set_object("ResourceClaim", {"metadata": {"name": "web-data", "namespace": "default"}})
    assert (changed, len(claims)) == (["default/y"], 1)
    claims.forget("default/y")
    claims.forget("default/unknown")
    cache.remove_object("PersistentVolumeClaim", "web-data", "default")
    assert (changed, len(claims)) == (["default/y"], 0)
