"""The nodes as the page gets them: in columns, then what has changed."""

import orjson

from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.state.cache import Cache
from podwright.engine.process.steps import at_once
from podwright.engine.view.nodes import node_changes
from podwright.kube.serve.page import nodes as page_nodes
from podwright.kube.serve.page.nodes import PageNodes
from support.objects.builders import make_node, make_pod

ZONE = "topology.kubernetes.io/zone"


def read(cache, columns):
    return columns.take(at_once(node_changes(cache, columns.position)))


def set_node(cache, name, zone="z", **options):
    cache.set_node(parse_node(make_node(name, labels={ZONE: zone}, **options)))


def test_all_nodes_share_zones_and_shapes():
    cache, columns = Cache(), PageNodes()
    for number in range(4):
        set_node(cache, f"n{number}", zone="ab"[number % 2])
    assert read(cache, columns) is None
    found = columns.everything()
    assert (found["zones"], found["zone"], found["shape"]) == (["a", "b"], [0, 1, 0, 1], [0, 0, 0, 0])
    assert found["shapes"] == [(8000, 32 << 30, 110)]
    assert found["requested"] == [[0] * 4, [0] * 4, [0] * 4]


def test_a_change_has_only_what_is_new():
    cache, columns = Cache(), PageNodes()
    set_node(cache, "a")
    set_node(cache, "b")
    read(cache, columns)
    columns.everything()
    cache.assume(parse_pod(make_pod("p", requests={"cpu": "1"})), "b")
    found = read(cache, columns)
    assert (found["slot"], found["requested"], found["rows"], found["zones"]) == ([1], [[1000], [0], [1]], [], [])
    assert read(cache, columns) is None
    set_node(cache, "c", zone="other")
    found = read(cache, columns)
    assert (found["zones"], found["rows"]) == (["other"], [(2, "c", 1, 0, 0, 0)])
    assert columns.everything()["requested"][0] == [0, 1000, 0]


def test_usage_that_comes_back_to_what_it_was_is_no_change():
    cache, columns = Cache(), PageNodes()
    set_node(cache, "a")
    read(cache, columns)
    pod = parse_pod(make_pod("p", requests={"cpu": "1"}))
    cache.assume(pod, "a")
    cache.forget(pod.uid)
    assert read(cache, columns) is None


def test_a_cluster_without_nodes():
    columns = PageNodes()
    assert read(Cache(), columns) is None
    found = columns.everything()
    assert (found["name"], found["requested"]) == ([], [[], [], []])


def test_values_of_labels_that_come_and_go_take_no_memory_for_ever(monkeypatch):
    monkeypatch.setattr(page_nodes, "SPARE_NUMBERS", 10)
    cache, columns = Cache(), PageNodes()
    longest = 0
    for number in range(100):
        set_node(cache, "a", zone=f"zone-{number}")
        read(cache, columns)
        longest = max(longest, len(columns.everything()["zones"]))
    assert longest == 12  # one node, ten spare ones, and the one that is too much


def test_five_thousand_nodes_are_a_short_message():
    cache, columns = Cache(), PageNodes()
    for number in range(5000):
        set_node(cache, f"node-{number:04}", zone=f"zone-{number % 3}")
    read(cache, columns)
    assert len(orjson.dumps(columns.everything())) < 200_000


def test_a_node_that_comes_back_as_it_was_has_its_usage_again():
    cache, columns = Cache(), PageNodes()
    set_node(cache, "a")
    set_node(cache, "b")
    cache.assume(parse_pod(make_pod("p", requests={"cpu": "1"})), "b")
    read(cache, columns)
    cache.remove_node("b")
    assert read(cache, columns)["rows"][0][:2] == (1, "")
    assert columns.everything()["requested"] == [[0, 0], [0, 0], [0, 0]]
    set_node(cache, "b")
    found = read(cache, columns)
    assert (found["rows"][0][:2], found["slot"], found["requested"]) == ((1, "b"), [1], [[1000], [0], [1]])


def test_sums_that_are_larger_than_integers_of_json_can_be_sent():
    cache, columns = Cache(), PageNodes()
    set_node(cache, "a")
    for number in range(3):
        cache.assume(parse_pod(make_pod(f"p{number}", requests={"memory": "7Ei"})), "a")
    read(cache, columns)
    assert orjson.loads(orjson.dumps(columns.everything()))["requested"][1] == [2**63 - 1]
