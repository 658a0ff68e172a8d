"""A group that is not placed gives back devices that are of no use to it, as a pod alone does in PostFilter."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from podwright.core.objects.pod_group import KIND, WORKLOAD_API
from support.engine.kit import Rig, deciding, on_node, ours, settle
from support.objects.builders import in_group, make_pod_group
from support.objects.devices import allocated, claiming, exactly, make_claim, make_class, make_device, make_slice

GONE = allocated("gpu-0", node="gone")


def rig_with(*claims: dict[str, Any], **group: Any) -> tuple[Rig, list[str]]:
    """Two nodes with a device each, and a group of two. Returns also the names of the claims that lose their
    devices.
    """
    rig, freed = Rig(), []
    rig.engine.cache.groups.serve(WORKLOAD_API)
    rig.engine.objects("DeviceClass").put(make_class("gpu"))
    for node in ("a", "b"):
        rig.node(node, labels={"zone": node})
        rig.engine.objects("ResourceSlice").put(make_slice(node, [make_device("gpu-0")], node=node))
    for claim in claims:
        rig.engine.objects("ResourceClaim").put(claim)
    rig.engine.objects(KIND).put(make_pod_group(min_count=2, **group))

    async def update(_kind: str, raw: Any, _subresource: str = "") -> Any:
        assert not (raw.get("status") or {}).get("allocation")
        freed.append(raw["metadata"]["name"])
        return raw

    rig.cluster.update = update
    return rig, freed


def members(rig: Rig, *claims: str) -> None:
    for number, claim in enumerate(claims):
        rig.pod(f"p{number}", spec={**in_group(), **claiming(claim)})


async def test_a_claim_with_a_device_of_a_node_that_is_gone_loses_it():
    rig, freed = rig_with(make_claim("lost", exactly(), status=GONE), make_claim("open", exactly()))
    members(rig, "lost", "open")
    async with deciding(rig):
        await settle()
        assert rig.cluster.bound == []
        assert freed == ["lost"]


async def test_a_claim_that_members_share_loses_its_device_once():
    rig, freed = rig_with(make_claim("lost", exactly(), status=GONE))
    members(rig, "lost", "lost")
    async with deciding(rig):
        await settle()
        assert freed == ["lost"]


@pytest.mark.parametrize(
    ("claim", "group"),
    [
        pytest.param(make_claim("lost", exactly(), status=allocated("gpu-0", node="gone", reserved_for=["other"])), {}, id="another pod uses it"),
        pytest.param(make_claim("lost", exactly(), status=GONE), {"schedulingConstraints": {"topology": [{"key": "zone"}]}}, id="the group must be in one domain"),
    ],
)  # fmt: skip
async def test_a_claim_keeps_its_device_if(claim, group):
    rig, freed = rig_with(claim, make_claim("open", exactly()), **group)
    members(rig, "lost", "open")
    async with deciding(rig):
        await settle()
        assert rig.cluster.bound == []
        assert freed == []


class TestClaimsOfTheGroup:
    GROUP: ClassVar = {"resourceClaims": [{"name": "mine", "resourceClaimName": "mine"}]}

    def rig(self, status: dict[str, Any]) -> tuple[Rig, list[str], list[Any]]:
        reserved = [{"apiGroup": WORKLOAD_API, "resource": "podgroups", "name": "gang", "uid": "group-gang"}]
        claim = make_claim("mine", exactly(), status={**status, "reservedFor": reserved})
        rig, freed = rig_with(claim, **self.GROUP)
        released = []

        async def patch(_kind: str, name: str, _namespace: str, change: Any, _subresource: str = "") -> Any:
            released.append(change["status"]["reservedFor"])
            return {**claim, "status": status}

        rig.cluster.patch = patch
        return rig, freed, released

    async def test_a_group_without_a_node_gives_back_a_device_of_no_use(self):
        rig, freed, released = self.rig(GONE)
        members(rig, "mine", "mine")
        async with deciding(rig):
            await settle()
            assert (rig.cluster.bound, freed, released) == ([], ["mine"], [])

    async def test_a_group_that_does_not_fit_does_not_keep_its_claim_reserved(self):
        rig, freed, released = self.rig(allocated("gpu-0"))
        for number in range(2):
            rig.pod(f"p{number}", requests={"cpu": "9"}, spec={**in_group(), **claiming("mine")})
        async with deciding(rig):
            await settle()
            assert (rig.cluster.bound, freed) == ([], [])
            assert released == [[{"$patch": "delete", "uid": "group-gang"}]], "once for all members"

    @pytest.mark.parametrize("status", [GONE, allocated("gpu-0")], ids=["of no use", "usable"])
    async def test_a_claim_that_a_member_uses_stays(self, status):
        rig, freed, released = self.rig(status)
        rig.engine.assigned.put(on_node(ours("there", spec={**in_group(), **claiming("mine")}), "b"))
        for number in range(2):
            rig.pod(f"p{number}", requests={"cpu": "9"}, spec={**in_group(), **claiming("mine")})
        async with deciding(rig):
            await settle()
            assert (rig.cluster.bound, freed, released) == ([], [], [])
