"""Domains spread values by domain to the nodes, and are kept until these change."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
import pytest

from podwright.core.objects.affinity import interned_selector
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.state.podindex import Eligibility, PodSelector
from podwright.core.state.podindex import domains as domains_module
from podwright.core.state.podindex.domains import ALL_WITH_KEY, MOST_MOVES, DomainCache, Domains, Sums
from support.objects.builders import make_node, make_pod, make_taint
from support.plugins.kit import make_cache, pending


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


ELIGIBILITIES = [
    ALL_WITH_KEY,
    Eligibility(keys=frozenset(("zone", "rack"))),
    Eligibility(missing_is_empty=True),
    Eligibility(affinity=pending(spec={"nodeSelector": {"disk": "ssd"}}).node_affinity),
    Eligibility(tolerations=pending().tolerations),
]


def described(domains, sums):
    """What domains and sums say, however the domains are numbered."""
    first = {}
    numbered = [first.setdefault(domain, row) for row, domain in enumerate(domains.of_node.tolist())]
    nowhere = (domains.of_node == domains.count).tolist(), (domains.counted == domains.count).tolist()
    flags = domains.present, len(domains.ids), domains.everywhere, domains.full
    by_node = domains.per_node(sums.values).tolist()
    return numbered, nowhere, flags, by_node, sums.total, sums.least, sums.greatest


@pytest.mark.parametrize(("most_moves", "most_made"), [(MOST_MOVES, 100), (5, 500)])
def test_domains_and_sums_follow_nodes_as_if_they_were_made_again(monkeypatch, most_moves, most_made):
    """Of each round only some are asked for, so others have several changes to take over, or too many."""
    monkeypatch.setattr(domains_module, "MOST_MOVES", most_moves)
    draw, cache, kept, made = random.Random(most_moves), make_cache(), {}, 0
    for at in range(30):
        cache.set_node(parse_node(make_node(f"n{at}", labels={"zone": f"z{at % 3}", "rack": f"r{at}"})))
    index = cache.pods_index
    assert all(index.domains(key, each).everywhere for key in ("zone", "rack") for each in ELIGIBILITIES)
    wanted = (PodSelector(interned_selector({"matchLabels": {"app": "x"}}, "selector"), frozenset(("default",))),)
    term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "zone"}
    near = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    for _ in range(800):
        for _ in range(draw.choice((0, 1, 1, 3))):
            name, labels = f"n{draw.randrange(30)}", {"zone": f"z{draw.randrange(4)}", "rack": f"r{draw.randrange(30)}"}
            labels = {key: value for key, value in labels.items() if draw.random() < 0.8}
            labels |= draw.choice(
                ({}, {"disk": "ssd"}, {"other": str(draw.random())}, {"zone": ""}, {"zone": str(draw.random())})
            )
            taints = [make_taint("dedicated")] if draw.random() < 0.3 else []
            if draw.random() < 0.1:
                cache.remove_node(name)
            cache.set_node(parse_node(make_node(name, labels=labels, taints=taints)))
        for _ in range(draw.choice((0, 1, 20))):
            pod = make_pod(f"p{draw.randrange(60)}", labels={"app": "x"}, node=f"n{draw.randrange(30)}", spec=near)
            cache.set_pod(parse_pod(pod))
        for key in draw.sample(("zone", "rack", "disk"), 2):
            eligibility = draw.choice(ELIGIBILITIES)
            fresh = DomainCache(cache.table, cache.derived).get(key, eligibility)
            counted = [index.counter(wanted), *index.matching_terms(pending(labels={"app": "x"})).anti_required]
            for each in counted:
                sums = index.sums(each, key, eligibility)
                assert described(sums.domains, sums) == described(fresh, Sums(each, fresh))
            made += kept.get((key, eligibility)) is not sums.domains
            kept[key, eligibility] = sums.domains
    assert made < most_made, "of 1,000 that were asked for"


def test_a_change_of_a_label_costs_only_the_domains_of_that_label(monkeypatch):
    """And these only the nodes that have changed. Each image that a kubelet pulls costs nothing."""
    cache = make_cache([make_node(f"n{at}", labels={"zone": "a", "rack": "r"}) for at in range(50)])
    cache.set_node(parse_node(make_node("n0", labels={"zone": "b", "rack": "r"})))
    looked_at, move = [], Domains.move
    monkeypatch.setattr(Domains, "move", lambda *args: looked_at.append(args[1].tolist()) or move(*args))
    zones, racks = (cache.pods_index.domains(key) for key in ("zone", "rack"))
    moved = zones.moved
    for change, moves in (
        ({"images": [{"names": ["app:1"], "sizeBytes": 1}]}, None),
        ({"labels": {"zone": "a", "rack": "r", "other": "x"}}, 0),
        ({"labels": {"zone": "b", "rack": "r", "other": "x"}}, 1),
        ({"labels": {"rack": "r", "other": "x"}}, 1),
    ):
        looked_at.clear()
        cache.set_node(parse_node(make_node("n7", **{"labels": {"zone": "a", "rack": "r"}, **change})))
        assert (cache.pods_index.domains("zone"), cache.pods_index.domains("rack")) == (zones, racks)
        assert looked_at == ([] if moves is None else [[cache.nodes["n7"].slot]] * 2)
        assert (zones.moved - moved, racks.moved) == (moves or 0, 0)
        moved = zones.moved


def test_which_nodes_are_eligible_is_found_out_again_only_for_changed_nodes(monkeypatch):
    """Also for as many eligibilities as are kept."""
    monkeypatch.setattr(domains_module, "MAX_ELIGIBLE", 2)
    cache = make_cache([make_node(f"n{at}", labels={"zone": "a", "disk": "ssd"}) for at in range(50)])
    asked, column = [], domains_module.affinity_column
    monkeypatch.setattr(domains_module, "affinity_column", lambda *args: Logged(column(*args), asked))
    own = [pending(spec={"nodeSelector": selector}).node_affinity for selector in ({"disk": "ssd"}, {"zone": "a"})]
    for number in range(3):
        cache.set_node(parse_node(make_node("n7", labels={"zone": "a", "disk": str(number)})))
        for affinity in own:
            assert cache.pods_index.domains("zone", Eligibility(affinity=affinity)).present == 1
    assert [rows if isinstance(rows, slice) else rows.tolist() for rows in asked] == [slice(None)] * 2 + [[7]] * 4


class Logged:
    """A column that logs of which rows it is asked."""

    def __init__(self, column, asked):
        self.column, self.asked = column, asked

    def __getitem__(self, rows):
        self.asked.append(rows)
        return self.column[rows]


@dataclass
class Counts:
    """Counts per row of no pods."""

    rows: int
    sums: dict = field(default_factory=dict)

    def per_row(self, rows):
        return None, np.zeros(self.rows, np.int32)

    def at_row(self, row):
        return 0


def test_least_and_greatest_follow_each_change():
    """The last domain has no eligible node, so it counts nowhere."""
    draw = random.Random(0)
    rows = np.array([0, 1, 2, 2, 3], np.intp)
    counts = Counts(len(rows))
    sums = Sums(counts, Domains(4, of_node=rows, counted=np.where(rows == 3, 4, rows), empty=4))
    seen = set()
    for _ in range(300):
        expected = sums.values[:3].tolist()
        assert (sums.least, sums.greatest) == (min(expected), max(expected))
        seen.add((sums.least, sums.greatest))
        slot = draw.randrange(5)
        if draw.random() < 0.1:
            sums.add_many(np.array([slot, 0]), np.array([1, 2], np.int32), counts)
        else:
            sums.add(slot, -1 if slot < 4 and sums.values[rows[slot]] and draw.random() < 0.5 else 1, counts)
    assert len(seen) > 20
