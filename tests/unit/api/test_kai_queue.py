"""KAI's queues: units, -1, what is not given, and what is refused."""

from __future__ import annotations

from math import inf, nan

import pytest

from podwright.api.kai_queue import parse_kai_queue
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.quantity import MAX_INT64
from podwright.core.queues.tree import Quota
from podwright.kube.kinds import KAI_QUEUE
from support.objects.queues import other_queue

GPU = "nvidia.com/gpu"
NOTHING = Quota(guarantee=0, limit=0, weight=0)


def parse(**spec):
    return parse_kai_queue(other_queue(KAI_QUEUE, "team-a", **spec))


def test_a_queue_in_units_of_kai():
    found = parse(
        displayName="Team A",
        parentQueue="research",
        priority=200,
        preemptMinRuntime="20s",
        reclaimMinRuntime="1h30m",
        resources={
            "cpu": {"quota": 2000, "overQuotaWeight": 1, "limit": 4000},
            "memory": {"quota": 4096, "overQuotaWeight": 2, "limit": 8192},
            "gpu": {"quota": 2, "overQuotaWeight": 3, "limit": 4},
        },
    )
    assert (found.name, found.parent, found.priority) == ("team-a", "research", 200)
    assert (found.preempt_min_runtime, found.reclaim_min_runtime, found.firm_priority) == (20, 5400, 100)
    assert found.quotas == {
        "cpu": Quota(2000, 4000, 1),
        "memory": Quota(4_096_000_000, 8_192_000_000, 2),
        GPU: Quota(2, 4, 3),
    }


def test_minus_one_is_no_bound_and_zero_is_nothing():
    found = parse(resources={"cpu": {"quota": -1, "limit": -1}, "gpu": {"quota": 0, "limit": -1, "overQuotaWeight": 1}})
    assert found.quotas == {"cpu": Quota(-1, -1, 0), GPU: Quota(0, -1, 1), "memory": NOTHING}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="no resources"),
        pytest.param({"spec": None}, id="no spec"),
        pytest.param({"resources": None}, id="resources are null"),
        pytest.param({"resources": {"gpu": {}, "cpu": None}}, id="resources without amounts"),
    ],
)
def test_what_is_not_given_is_nothing(spec):
    found = parse(**spec)
    assert found.quotas == {"cpu": NOTHING, "memory": NOTHING, GPU: NOTHING}
    assert (found.parent, found.priority, found.reclaim_min_runtime) == ("", 100, 0)


@pytest.mark.parametrize(
    ("resource", "amount", "expected"),
    [
        pytest.param("gpu", 0.5, 0, id="half a GPU is no whole one"),
        pytest.param("gpu", 1.5, 1, id="of one and a half, one is whole"),
        pytest.param("cpu", 250.9, 250, id="a thousandth of a CPU is the smallest part"),
        pytest.param("memory", 0.29, 290_000, id="a part of a megabyte is whole bytes"),
        pytest.param("gpu", 1e300, MAX_INT64, id="more than there can be"),
    ],
)
def test_fractions_are_cut_off(resource, amount, expected):
    found = parse(resources={resource: {"quota": amount, "limit": amount}})
    name = GPU if resource == "gpu" else resource
    assert (found.quotas[name].guarantee, found.quotas[name].limit) == (expected, expected)


def test_fields_of_later_versions_are_ignored():
    found = parse(color="blue", resources={"npu": {"quota": 1}, "gpu": {"quota": 1, "limit": 1, "burst": 3}})
    assert found.quotas[GPU] == Quota(1, 1, 0)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        pytest.param({"spec": []}, "spec", id="spec is a list"),
        pytest.param({"resources": []}, "spec.resources", id="resources are a list"),
        pytest.param({"resources": {"gpu": 4}}, "spec.resources.gpu", id="a resource is a number"),
        pytest.param({"resources": {"gpu": {"quota": "4"}}}, "spec.resources.gpu.quota", id="a quota is a string"),
        pytest.param({"resources": {"cpu": {"limit": -2}}}, "spec.resources.cpu.limit", id="a limit below -1"),
        pytest.param({"resources": {"memory": {"quota": -0.5}}}, "spec.resources.memory.quota", id="between -1 and 0"),
        pytest.param({"resources": {"gpu": {"limit": inf}}}, "spec.resources.gpu.limit", id="an infinite limit"),
        pytest.param(
            {"resources": {"gpu": {"quota": nan}}}, "spec.resources.gpu.quota", id="a quota that is no number"
        ),
        pytest.param(
            {"resources": {"cpu": {"overQuotaWeight": inf}}},
            "spec.resources.cpu.overQuotaWeight",
            id="an infinite weight",
        ),
        pytest.param({"priority": 1.5}, "spec.priority", id="a priority with a fraction"),
        pytest.param({"parentQueue": 3}, "spec.parentQueue", id="a parent that is a number"),
        pytest.param({"reclaimMinRuntime": "soon"}, "spec.reclaimMinRuntime", id="no duration"),
    ],
)
def test_a_wrong_field_is_named(spec, field):
    with pytest.raises(InvalidObjectError) as caught:
        parse(**spec)
    assert (caught.value.kind, caught.value.name, caught.value.where) == ("Queue", "team-a", field)
