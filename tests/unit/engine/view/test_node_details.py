"""The contents of a node: the largest pods, of the namespaces that may be seen."""

import orjson

from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.state.cache import Cache
from podwright.engine.process.steps import at_once
from podwright.engine.view import node_details
from podwright.engine.view.node_details import about_node
from support.objects.builders import make_node, make_pod
from support.steps import run_steps


def about(cache, name="a", shows=lambda _namespace: True):
    return at_once(about_node(cache, name, shows))


def filled(*cpus, namespace="default"):
    cache = Cache()
    cache.set_node(parse_node(make_node("a", allocatable={"cpu": "8", "memory": "8Gi", "pods": "100"})))
    for number, cpu in enumerate(cpus):
        cache.assume(parse_pod(make_pod(f"p{number}", namespace=namespace, requests={"cpu": cpu})), "a")
    return cache


def test_the_largest_pods_come_first():
    found = about(filled("1", "3", "2"))
    assert [pod["name"] for pod in found["pods"]] == ["p1", "p2", "p0"]
    assert (found["podCount"], found["unlisted"]) == (3, 0)
    assert found["resources"][0] == {"name": "cpu", "requested": 6000, "allocatable": 8000}
    assert found["pods"][0]["assumed"]


def test_pods_that_may_not_be_seen_are_only_counted():
    found = about(filled("1", "2"), shows=lambda namespace: namespace == "team")
    assert (found["pods"], found["podCount"], found["unlisted"]) == ([], 2, 2)


def test_few_of_many_pods_are_listed(monkeypatch):
    monkeypatch.setattr(node_details, "MOST_PODS", 2)
    monkeypatch.setattr(node_details, "PODS_A_STEP", 2)
    cache = filled("1", "3", "2", "4", "1")
    found, steps = run_steps(about_node(cache, "a", lambda _namespace: True))
    assert steps == 2
    assert ([pod["name"] for pod in found["pods"]], found["unlisted"]) == (["p3", "p1"], 3)


def test_an_unknown_node_has_no_answer():
    assert about(filled(), "b") == {}


def test_a_node_that_goes_in_between_has_no_answer(monkeypatch):
    monkeypatch.setattr(node_details, "PODS_A_STEP", 1)
    cache = filled("1")
    steps = about_node(cache, "a", lambda _namespace: True)
    next(steps)
    cache.remove_node("a")
    assert at_once(steps) == {}


def test_sums_that_are_larger_than_integers_of_json_can_be_sent():
    cache = filled()
    for number in range(3):
        cache.assume(parse_pod(make_pod(f"p{number}", requests={"memory": "7Ei"})), "a")
    found = orjson.loads(orjson.dumps(about(cache)))
    assert found["resources"][1]["requested"] == 2**63 - 1
