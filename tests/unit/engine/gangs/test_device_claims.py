"""A group that is not placed gives back devices that are of no use to it, as a pod alone does in PostFilter."""

from __future__ import annotations

from typing import Any

import pytest

from podwright.core.objects.pod_group import KIND, WORKLOAD_API
from support.engine.kit import Rig, deciding, settle
from support.objects.builders import in_group, make_pod_group
from support.objects.devices import allocated, claiming, exactly, make_claim, make_class, make_device, make_slice

GONE = allocated("gpu-0", node="gone")


def rig_with(*claims: dict[str, Any], **group: Any) -> tuple[Rig, list[str]]:
    """Two nodes with a device each, and a group of two. Returns also the names of the claims that lose their devices."""
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
