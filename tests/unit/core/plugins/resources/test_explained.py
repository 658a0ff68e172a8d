"""Smaller requests: the containers that request most get less, and each keeps some."""

from __future__ import annotations

import pytest

from podwright.core.objects.pod import parse_pod
from podwright.core.plugins.resources.explained import with_less
from support.objects.builders import make_pod

GPU = "example.com/gpu"


def asking(*amounts, resource=GPU, **more):
    made = [{"name": f"c{i}", "image": "x", "resources": {"requests": {resource: a} if a else {}}} for i, a in enumerate(amounts)]  # fmt: skip
    return parse_pod(make_pod(spec={"containers": made, **more}), keep_raw=True)


@pytest.mark.parametrize(
    ("pod", "less", "left"),
    [
        pytest.param(asking("6", "4"), {GPU: 1}, ["5", "4"], id="from the largest"),
        pytest.param(asking("4", "2"), {GPU: 4}, ["1", "1"], id="from both, where the largest would have none"),
        pytest.param(asking("8", "", "1"), {GPU: 6}, ["2", None, "1"], id="nothing from one that has none"),
        pytest.param(asking("4", "2", resource="cpu"), {"cpu": 3000}, ["1500m", "1500m"], id="CPU"),
        pytest.param(asking("10Gi", "6Gi", resource="memory"), {"memory": 1 << 30}, ["9Gi", "6Gi"], id="memory"),
    ],
)
def test_containers_that_request_most_get_less_and_each_keeps_some(pod, less, left):
    (resource,) = less
    containers = with_less(pod, less).raw["spec"]["containers"]
    assert [each["resources"]["requests"].get(resource) for each in containers] == left


@pytest.mark.parametrize(
    ("pod", "less"),
    [
        pytest.param(asking("1", "1"), {GPU: 1}, id="a container without a device"),
        pytest.param(asking("8"), {GPU: 8}, id="a pod without a device"),
        pytest.param(asking("100", resource="cpu"), {"cpu": 100_000}, id="a pod without CPU"),
    ],
)
def test_no_request_of_nothing_is_proposed(pod, less):
    assert with_less(pod, less) is None
