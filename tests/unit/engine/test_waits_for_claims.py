"""Pods that wait for claims: an event of a claim costs the pods that do not name it nothing."""

from __future__ import annotations

import pytest

from podwright.core.plugins.devices import hints
from support.engine.kit import Rig
from support.objects.devices import claiming, exactly, make_claim, make_class

FROM_TEMPLATE = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "template"}]}


def rig_with(pods: int) -> Rig:
    rig = Rig()
    rig.node("n")
    rig.engine.objects("DeviceClass").put(make_class("gpu"))
    for number in range(pods):
        rig.pod(f"waits-{number}", spec=claiming(f"claim-{number}"))
    assert rig.counts == {"gated": pods}
    return rig


def made(rig: Rig, number: int, **options) -> None:
    rig.engine.objects("ResourceClaim").put(make_claim(f"claim-{number}", exactly(), **options))


def test_a_claim_that_comes_is_compared_with_the_pods_that_name_it(monkeypatch):
    rig, asked, claims_of = rig_with(50), [], hints.claims_of
    monkeypatch.setattr(hints, "claims_of", lambda pod, claims: asked.append(pod.name) or claims_of(pod, claims))
    for number in range(100):
        made(rig, number)
    assert rig.counts == {"active": 50}
    assert set(asked) == {f"waits-{number}" for number in range(50)}
    assert len(asked) <= 2 * 50, "once for the event, once for its label"


def test_devices_that_are_freed_are_a_chance_for_all_pods(monkeypatch):
    rig, asked, claims_of = rig_with(5), [], hints.claims_of
    monkeypatch.setattr(hints, "claims_of", lambda pod, claims: asked.append(pod.name) or claims_of(pod, claims))
    status = {"allocation": {"devices": {"results": []}}}
    made(rig, 100, status=status)
    assert asked == []
    made(rig, 100)
    assert len(asked) == 5


@pytest.mark.parametrize("order", [("claim", "status"), ("status", "claim")], ids=" first, then ".join)
def test_a_pod_of_a_template_enters_the_queue_whatever_comes_first(order):
    rig = Rig()
    rig.node("n")
    rig.engine.objects("DeviceClass").put(make_class("gpu"))
    uid = rig.pod("p", spec=FROM_TEMPLATE)["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": True}
    for what in order:
        assert rig.counts == {"gated": 1}
        if what == "claim":
            rig.engine.objects("ResourceClaim").put(make_claim("made", exactly(), ownerReferences=[owner]))
        else:
            rig.pod(
                "p",
                spec=FROM_TEMPLATE,
                status={"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "made"}]},
            )
    assert rig.counts == {"active": 1}
