"""Volcano's queues: guarantee, deserved and capability, parents, states, and what is refused."""

from __future__ import annotations

from math import inf

import pytest

from podwright.api.volcano_queue import parse_volcano_queue
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.queues.tree import Quota
from podwright.kube.kinds import VOLCANO_QUEUE
from support.objects.queues import other_queue

GPU = "nvidia.com/gpu"


def parse(name="team-a", status=None, **spec):
    return parse_volcano_queue(other_queue(VOLCANO_QUEUE, name, status, **spec))


def test_what_is_deserved_is_lent_but_for_the_guarantee():
    found = parse(
        weight=4,
        priority=10,
        parent="dept",
        guarantee={"resource": {"cpu": 2, GPU: 1}},
        deserved={"cpu": "8", "memory": "16Gi", GPU: "4"},
        capability={"cpu": "1500m", "memory": "32Gi"},
    )
    assert (found.name, found.parent, found.priority, found.state) == ("team-a", "dept", 110, "Open")
    assert found.quotas == {
        "cpu": Quota(8000, 1500, 4),
        "memory": Quota(16 * 2**30, 32 * 2**30, 4),
        GPU: Quota(4, -1, 4),
    }
    assert found.lending == {"cpu": 6000, GPU: 3}


def test_a_guarantee_is_deserved_as_well():
    found = parse(guarantee={"resource": {GPU: 3}})
    assert (found.quotas[GPU].guarantee, found.lending) == (3, {GPU: 0})


@pytest.mark.parametrize("spec", [{}, {"spec": None}, {"weight": 0, "reclaimable": None}])
def test_what_is_not_given_has_a_weight_and_no_limit(spec):
    found = parse(**spec)
    assert found.quotas == {"cpu": Quota(weight=1), "memory": Quota(weight=1)}
    assert (found.parent, found.priority, found.reclaim_min_runtime) == ("root", 100, 0)


def test_no_cpu_is_no_limit_but_no_device_is_one():
    found = parse(capability={"cpu": 0, "memory": "0", GPU: 0, "count/jobs.batch": 3})
    assert found.quotas == {"cpu": Quota(), "memory": Quota(), GPU: Quota(limit=0)}


def test_the_root_has_no_parent_and_is_never_protected():
    assert (parse("root").parent, parse("root", parent="other").parent) == ("", "")
    assert parse("root", reclaimable=False).reclaim_min_runtime == 0


def test_a_queue_that_is_not_reclaimable_keeps_its_pods():
    assert parse(reclaimable=False).reclaim_min_runtime == inf


@pytest.mark.parametrize(
    ("state", "expected"),
    [("Open", "Open"), ("", "Open"), ("Unknown", "Open"), ("Closing", "Hold"), ("Closed", "Closed"), (3, "Open")],
)
def test_the_state_is_in_the_status(state, expected):
    assert parse(status={"state": state}).state == expected


def test_fields_that_mean_nothing_here_are_ignored():
    found = parse(dequeueStrategy="fifo", affinity={"x": 1}, later=True, guarantee={"percentage": 3})
    assert found.quotas == {"cpu": Quota(), "memory": Quota()}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        pytest.param({"spec": 3}, "spec", id="spec is a number"),
        pytest.param({"weight": 70_000}, "spec.weight", id="the weight is too great"),
        pytest.param({"capability": {"cpu": "four"}}, "spec.capability.cpu", id="no quantity"),
        pytest.param({"deserved": {GPU: -1}}, f"spec.deserved[{GPU}]", id="a negative quantity"),
        pytest.param({"guarantee": {"resource": []}}, "spec.guarantee.resource", id="a list of resources"),
        pytest.param({"guarantee": {"resource": {"cpu": "-1m"}}}, "spec.guarantee.resource.cpu", id="a negative guarantee"),
        pytest.param({"capability": {f"r{i}": 1 for i in range(65)}}, "spec.capability", id="too many resources"),
        pytest.param({"parent": ["a"]}, "spec.parent", id="parents"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named(spec, field):
    with pytest.raises(InvalidObjectError) as caught:
        parse(**spec)
    assert (caught.value.kind, caught.value.name, caught.value.where) == ("Queue", "team-a", field)
