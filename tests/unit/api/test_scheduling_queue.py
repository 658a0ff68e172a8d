"""SchedulingQueues: what is decoded, and what is refused by the operator and by the schema."""

from __future__ import annotations

import pytest

from podwright.api import crd
from podwright.api.scheduling_queue import QUEUE_KIND, parse_queue
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.queues.tree import Quota
from podwright.sandbox.schemas import Schema
from support.objects import queues as files
from support.objects.queues import queue

SCHEMA = crd.crd(QUEUE_KIND)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def parse(**spec):
    return parse_queue(queue("team-a", **spec))


def test_an_empty_queue_has_the_defaults():
    found = parse()
    assert (found.name, found.parent, found.priority, found.quotas) == ("team-a", "", 100, {})


def test_quantities_become_the_units_of_requests():
    found = parse(
        resources={
            "cpu": {"guarantee": "1500m", "limit": 2},
            "memory": {"guarantee": "1Gi", "limit": "2G"},
            "nvidia.com/gpu": {"guarantee": 4, "weight": 3},
        }
    )
    assert found.quotas == {
        "cpu": Quota(guarantee=1500, limit=2000),
        "memory": Quota(guarantee=2**30, limit=2 * 10**9),
        "nvidia.com/gpu": Quota(guarantee=4, weight=3),
    }


def test_what_a_queue_has_in_flavors_are_resources_of_their_own_in_the_order_of_the_flavors():
    found = parse(
        flavors=[
            {
                "name": "h100",
                "nodeSelector": {"model": "H100"},
                "resources": {"nvidia.com/gpu": {"limit": 8, "lendingLimit": 2}, "cpu": {"guarantee": "500m"}},
            },
            {"name": "a100"},
        ],
        resources={"nvidia.com/gpu": {"limit": 9}},
    )
    assert found.quotas == {
        "nvidia.com/gpu": Quota(limit=9),
        "nvidia.com/gpu@h100": Quota(limit=8),
        "cpu@h100": Quota(guarantee=500),
    }
    assert [*found.flavors.items()] == [("h100", {"model": "H100"}), ("a100", {})]
    assert found.lending == {"nvidia.com/gpu@h100": 2}


def test_what_bounds_the_pods_of_a_queue_one_by_one():
    found = parse(maxRuntime="1h", nonPreemptiblePriority=100, userLimits={"cpu": "1500m", "nvidia.com/gpu": 2})
    assert (found.max_runtime, found.firm_priority) == (3600, 100)
    assert found.user_limits == {"cpu": 1500, "nvidia.com/gpu": 2}
    assert (parse().max_runtime, parse().firm_priority, parse().user_limits) == (0, None, {})


def test_what_is_no_quantity_or_duration_is_told_by_an_example_not_by_its_pattern():
    with pytest.raises(InvalidObjectError, match=r"limit: 'lots' is not a quantity of 0 or more, such as 8 or 500m$"):
        parse(resources={"cpu": {"limit": "lots"}})
    with pytest.raises(
        InvalidObjectError, match=r"maxRuntime: '1d' is not a duration of 0 or more, such as 90s or 1h30m$"
    ):
        parse(maxRuntime="1d")


def test_a_limit_of_0_is_a_limit():
    assert parse(resources={"cpu": {"limit": 0}}).quotas["cpu"].limit == 0


@pytest.mark.parametrize("raw", files.examples(), ids=lambda raw: raw["metadata"]["name"])
def test_the_example_is_valid(raw):
    schema = Schema(SCHEMA)
    assert schema.problems(raw) == []
    assert schema.prune(raw) == []
    found = parse_queue(raw)
    schema.default(raw)
    assert parse_queue(raw) == found


@pytest.mark.parametrize("path", files.each(files.BAD))
def test_the_operator_names_queue_and_field_of_what_is_wrong(path):
    raw = files.load(path)
    with pytest.raises(InvalidObjectError) as caught:
        parse_queue(raw)
    assert str(caught.value).startswith(f"SchedulingQueue {raw['metadata']['name']}: {files.wrong_field(path)}")


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"resources": {"example.com/gpu": {"limit": "500m"}}}, "'500m' has a fraction; only cpu may"),
        ({"resources": {"cpu": {"limit": "100u"}}}, "'100u' is finer than 1m"),
        ({"resources": {"memory": {"limit": "9e18"}}}, ""),
        ({"resources": {"memory": {"limit": "9e999"}}}, "'9e999' is more than 9223372036854775807"),
        ({"resources": {"cpu": {"guarantee": "10E", "limit": "10E"}}}, "is more than 9223372036854775807"),
        ({"resources": {"no resource": {}}}, "spec.resources[no resource]: is not the name of a resource"),
        ({"flavors": [{}]}, "spec.flavors[0].name: "),
        ({"flavors": [{"name": "a@b"}]}, "spec.flavors[0].name: "),
        ({"flavors": [{"name": "a"}, {"name": "a"}]}, "spec.flavors"),
        (
            {"flavors": [{"name": "a", "nodeSelector": {"no label": "x"}}]},
            "nodeSelector[no label]: is not the name of a label",
        ),
        ({"flavors": [{"name": "a", "nodeSelector": {"model": "no value"}}]}, "spec.flavors[0].nodeSelector.model: "),
        (
            {"flavors": [{"name": "a", "resources": {"cpu": {"limit": "100u"}}}]},
            "spec.flavors[0].resources.cpu.limit: '100u' is finer",
        ),
        (
            {"flavors": [{"name": "a", "resources": {"cpu": {"guarantee": 2, "limit": 1}}}]},
            "flavors[0].resources.cpu.guarantee: is above the limit",
        ),
        (
            {"flavors": [{"name": "a", "resources": {"cpu": {"limit": -1}}}]},
            "spec.flavors[0].resources.cpu.limit: -1 is less than 0",
        ),
        ({"flavors": [{"name": f"f{i}"} for i in range(17)]}, "spec.flavors: "),
        ({"userLimits": {"cpu": "1u"}}, "spec.userLimits.cpu: '1u' is finer than 1m"),
        ({"userLimits": {"no resource": 1}}, "spec.userLimits[no resource]: is not the name of a resource"),
        ({"userLimits": {"cpu": -1}}, "spec.userLimits.cpu: -1 is less than 0"),
        ({"nonPreemptiblePriority": 2**31}, "spec.nonPreemptiblePriority: "),
        ({"maxRuntime": "1 day"}, "spec.maxRuntime: "),
        ({"resources": {"cpu": {"lmit": 1}}}, "spec.resources.cpu.lmit: unknown field"),
        ({"resources": {"cpu": {"limit": True}}}, "spec.resources.cpu.limit: expected a whole number, got true"),
        ({"resources": {"cpu": {"limit": 1.5}}}, "spec.resources.cpu.limit: expected a whole number"),
    ],
    ids=str,
)
def test_an_amount_without_a_place_is_refused(spec, problem):
    if problem:
        with pytest.raises(InvalidObjectError) as caught:
            parse(**spec)
        assert problem in str(caught.value)
    else:
        parse(**spec)


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"metadata": {"name": "a"}},
        {"metadata": {"name": "a"}, "spec": []},
        {"metadata": [], "spec": {}},
        {"metadata": {"name": "a"}, "kind": "Queue", "spec": {}},
        {"metadata": {"name": "a"}, "spec": {"resources": {f"r{i}": {} for i in range(100_000)}}},
    ],
    ids=["nothing", "no spec", "spec a list", "metadata a list", "another kind", "huge"],
)
def test_a_malformed_object_is_refused(raw):
    with pytest.raises(InvalidObjectError, match="SchedulingQueue"):
        parse_queue(raw)
