"""Placement quality of a cluster."""

from benchmarks.quality import placement_quality

from podwright.testing import node, pod


def bound(name, to, cpu="1"):
    body = pod(name, cpu=cpu)
    body["spec"]["nodeName"] = to
    return body


def in_zone(name, zone, **fields):
    return node(name, labels={"topology.kubernetes.io/zone": zone}, **fields)


def test_an_even_placement_has_no_deviation_or_skew():
    nodes = [in_zone("a", "1"), in_zone("b", "2")]
    found = placement_quality(nodes, [bound("p", "a"), bound("q", "b")])
    assert found == {"cpu_share_stdev": 0.0, "zone_skew": 0, "empty_nodes": 0, "overcommitted_nodes": 0}


def test_an_uneven_placement_has_deviation_skew_and_empty_nodes():
    nodes = [in_zone("a", "1", cpu="4"), in_zone("b", "2", cpu="4")]
    found = placement_quality(nodes, [bound("p", "a", "1500m"), bound("q", "a", "500m")])
    assert found == {"cpu_share_stdev": 0.25, "zone_skew": 2, "empty_nodes": 1, "overcommitted_nodes": 0}


def test_nodes_with_too_much_cpu_or_too_many_pods_are_overcommitted():
    nodes = [node("cpu", cpu="1"), node("pods", pods="1"), node("fine")]
    pods = [bound("p", "cpu", "1001m"), bound("q", "pods", "1m"), bound("r", "pods", "1m"), bound("s", "fine")]
    assert placement_quality(nodes, pods)["overcommitted_nodes"] == 2


def test_quantities_may_have_any_notation_and_nodes_without_room_for_pods_do_not_count():
    nodes = [node("big", pods="90k", cpu="4e3"), node("useless", pods="0")]
    assert placement_quality(nodes, [bound("p", "big")])["empty_nodes"] == 0
