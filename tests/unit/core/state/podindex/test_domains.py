"""Domains spread values by domain to the nodes, and are kept until these change."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
import pytest

from podwright.core.objects.node import parse_node
from podwright.core.state.podindex.domains import Domains, Sums
from support.objects.builders import make_node, make_taint
from support.plugins.kit import make_cache

ZONE = {"labels": {"zone": "a"}}


@pytest.mark.parametrize(
    ("of_node", "count"),
    [
        pytest.param([0, 1, 2, 3], 4, id="each row its own"),
        pytest.param([0, 1, 2], 5, id="more domains than rows"),
        pytest.param([1, 0, 2, 3], 4, id="in another order"),
        pytest.param([0, 1, 2, 3], 3, id="a row without the label"),
        pytest.param([0, 0, 1, 1], 2, id="shared"),
        pytest.param([], 0, id="no rows"),
    ],
)
def test_each_node_gets_the_value_of_its_domain(of_node, count):
    rows = np.array(of_node, np.intp)
    domains = Domains(count, of_node=rows, counted=rows, empty=count)
    values = np.arange(count + 1) * 10
    assert domains.per_node(values).tolist() == [10 * domain for domain in of_node]
    assert domains.per_node(values, lambda column: column[1:3]).tolist() == [10 * domain for domain in of_node[1:3]]


@pytest.mark.parametrize(
    ("after", "kept"),
    [
        pytest.param({**ZONE, "images": [{"names": ["app:1"], "sizeBytes": 1}]}, True, id="images"),
        pytest.param({**ZONE, "allocatable": {"cpu": "1"}}, True, id="allocatable"),
        pytest.param({"labels": {"zone": "b"}}, False, id="labels"),
        pytest.param({**ZONE, "taints": [make_taint("dedicated")]}, False, id="taints"),
    ],
)
def test_domains_are_made_again_only_if_labels_or_taints_change(after, kept):
    """Otherwise each image that a kubelet pulls would cost the next decision a pass over all nodes."""
    cache = make_cache([make_node("n", **ZONE), make_node("m", **ZONE)])
    before = cache.pods_index.domains("zone")
    cache.set_node(parse_node(make_node("n", **after)))
    changed = cache.pods_index.domains("zone")
    assert (changed is before) is kept
    cache.remove_node("m")
    assert cache.pods_index.domains("zone") is not changed


@dataclass
class Counts:
    """Counts per row of no pods."""

    rows: int
    sums: dict = field(default_factory=dict)

    def per_row(self, rows):
        return None, np.zeros(self.rows, np.int32)


def test_least_and_greatest_follow_each_change():
    """The last domain has no eligible node, so it counts nowhere."""
    draw = random.Random(0)
    rows = np.array([0, 1, 2, 2, 3], np.intp)
    sums = Sums(Counts(len(rows)), Domains(4, of_node=rows, counted=np.where(rows == 3, 4, rows), empty=4))
    seen = set()
    for _ in range(300):
        expected = sums.values[:3].tolist()
        assert (sums.least, sums.greatest) == (min(expected), max(expected))
        seen.add((sums.least, sums.greatest))
        slot = draw.randrange(5)
        if draw.random() < 0.1:
            sums.add_many(np.array([slot, 0]), np.array([1, 2], np.int32))
        else:
            sums.add(slot, -1 if slot < 4 and sums.values[rows[slot]] and draw.random() < 0.5 else 1)
    assert len(seen) > 20
