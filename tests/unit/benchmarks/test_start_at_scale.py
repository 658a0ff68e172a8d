"""The generated lists are whole, valid objects of their own, page by page."""

import orjson
from benchmarks.start_at_scale import Pages, node, pod

from podwright.core.objects.node import parse_node
from podwright.core.objects.readable import parse_assigned_pod


def objects_of(pages):
    """All objects, page by page of 4."""
    found, start = [], 0
    while True:
        page = orjson.loads(pages.page(start, 4, version=7))
        assert page["metadata"]["resourceVersion"] == "7"
        found += page["items"]
        if "continue" not in page["metadata"]:
            return found
        start = int(page["metadata"]["continue"])


def test_all_pods_are_on_nodes_of_the_list():
    nodes = [parse_node(raw) for raw in objects_of(Pages(5, node, 5, templates=3))]
    pods = [parse_assigned_pod(raw) for raw in objects_of(Pages(10, pod, 5, templates=3))]
    assert not any(problems for _, problems in pods)
    assert len({each.uid for each, _ in pods}) == 10
    names = [each.name for each in nodes]
    assert names == [f"node-{index:06}" for index in range(5)]
    assert {each.node_name for each, _ in pods} == set(names)
    assert {each.labels["topology.kubernetes.io/zone"] for each in nodes} == {"zone-0", "zone-1", "zone-2"}
