"""Members of pod groups that ask for another scheduler are found where a group stays incomplete."""

from __future__ import annotations

from typing import Any

import pytest

from podwright.core.framework.interface import ClusterError
from podwright.core.objects.pod_group import KIND, WORKLOAD_API
from podwright.kube.pod_groups.foreign_pod_lister import ForeignPodLister
from support.engine.kit import OURS, Rig, settle
from support.http.kit import api, page, says
from support.objects.builders import in_group, make_pod, make_pod_group


def theirs(name: str, group: str = "gang") -> dict[str, Any]:
    return make_pod(name, spec={**in_group(group), "schedulerName": "other"})


def rig_with(members: int, min_count: int = 2) -> Rig:
    rig = Rig()
    rig.engine.cache.groups.serve(WORKLOAD_API)
    rig.engine.objects(KIND).put(make_pod_group("gang", min_count))
    for index in range(members):
        rig.pod(f"m{index}", spec=in_group())
    return rig


async def test_the_status_of_an_incomplete_group_names_its_foreign_pods():
    rig = rig_with(1)
    pages = [page(make_pod("loner"), following="more"), page(theirs("b"))]
    async with api(*pages, page()) as (http, script):
        lister = ForeignPodLister(http, rig.engine)
        await lister.refresh()
        assert script.requests == []
        await lister.refresh()
        await settle()
        ((group, reason, message),) = rig.groups.written
        assert (group, reason) == ("gang", "SchedulerError")
        assert 'got: "other" of pod default/b' in message
        first, second = script.requests
        assert first.path == "/api/v1/namespaces/default/pods"
        assert set(first.query["fieldSelector"].split(",")) == {"spec.nodeName=", f"spec.schedulerName!={OURS}"}
        assert second.query == {**first.query, "continue": "more"}
        await lister.refresh()
        assert len(rig.engine.foreign_pods) == 0


async def test_namespaces_with_known_foreign_pods_are_listed_again():
    rig = rig_with(2)
    rig.engine.pending.put(theirs("b"))
    async with api(page()) as (http, script):
        await ForeignPodLister(http, rig.engine).refresh()
        assert len(script.requests) == 1
        assert len(rig.engine.foreign_pods) == 0


@pytest.mark.parametrize("members", [pytest.param(0, id="without members"), pytest.param(2, id="complete")])
async def test_namespaces_without_incomplete_groups_are_not_listed(members):
    rig = rig_with(members)
    async with api() as (http, script):
        lister = ForeignPodLister(http, rig.engine)
        for _ in range(3):
            await lister.refresh()
        assert script.requests == []


async def test_a_round_that_fails_removes_no_foreign_pod():
    rig = rig_with(1)
    rig.engine.pending.put(theirs("b"))
    async with api(page(theirs("b"), following="more"), says(500)) as (http, _):
        with pytest.raises(ClusterError):
            await ForeignPodLister(http, rig.engine).refresh()
    assert len(rig.engine.foreign_pods) == 1
