"""The API server writes pods in the order in which they are read without parsing their specs."""

from __future__ import annotations

import orjson

from podwright.core.objects.pod import PodInfo, PodText, parse_pod
from podwright.kube.client.list_text import loads_pod_event, loads_pods
from podwright.testing import pod

FIELDS = [name for name in PodInfo.__dataclass_fields__ if name != "raw"]


def fields(raw):
    parsed = parse_pod(raw)
    return [getattr(parsed, name) for name in FIELDS]


def test_placed_pods_of_lists_and_watches_are_read_from_their_text(cluster, namespace):
    bodies = [pod(f"p{number}", namespace, scheduler="nobody", cpu="100m") for number in range(6)]
    for number, body in enumerate(bodies):
        body["metadata"]["annotations"] = {"note": 'a && b },"status":{ <c>'}
        body["spec"] |= {"nodeName": f"node-{number}"}
        body["spec"]["containers"][0]["args"] = ["a && b > c"]
    cluster.bulk.create(bodies)
    path = f"/api/v1/namespaces/{namespace}/pods"
    text = cluster.kubectl("get", "--raw", f"{path}?limit=4").encode()
    found, expected = list(loads_pods(text)["items"]), orjson.loads(text)["items"]
    assert [type(each) for each in found] == [PodText] * 4
    assert [fields(each) for each in found] == [fields(raw) for raw in expected]
    assert all(each.spec is found[0].spec for each in found)
    lines = cluster.kubectl("get", "--raw", f"{path}?watch=1&timeoutSeconds=1&resourceVersion=0").encode().splitlines()
    events = [loads_pod_event(line) for line in lines]
    assert [event["type"] for event in events] == ["ADDED"] * 6
    assert [type(event["object"]) for event in events] == [PodText] * 6
