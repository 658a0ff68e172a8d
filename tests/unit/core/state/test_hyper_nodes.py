"""In which HyperNode of each tier a node is, and what is said about those that do not count."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podwright.api.topology import parse_hyper_node
from podwright.core.objects.node import parse_node
from podwright.core.objects.selectors import LabelSelector
from podwright.core.state import hyper_nodes
from podwright.core.state.deadline import TookLongError
from podwright.core.state.hyper_nodes import HyperNodes
from podwright.simulator.world import World
from support.objects.builders import make_hyper_node, make_node
from support.properties import examples


def named(*names):
    return [{"exactMatch": {"name": name}} for name in names]


def pattern(text):
    return {"regexMatch": {"pattern": text}}


class Cluster:
    """Nodes, each with its labels, and HyperNodes."""

    def __init__(self, nodes, *raws):
        self.cache = World().cache
        for name, labels in nodes.items():
            self.cache.set_node(parse_node(make_node(name, labels=labels)))
        self.pauses = 0
        self.them = HyperNodes(self.cache.table, self.pause)
        self.problems = {}
        self.them.on_problem = self.problems.__setitem__
        for raw in raws:
            self.put(raw)

    def pause(self):
        self.pauses += 1

    def put(self, raw):
        self.them.set(raw["metadata"]["name"], parse_hyper_node(raw))

    @property
    def found(self):
        """By node, its HyperNodes, that of the highest tier first."""
        levels, names = self.them.levels(), [*self.them.names, "-"]
        return {
            name: " ".join(names[level[slot]] for level in levels)
            for name, slot in ((name, self.cache.table.slot_of(name)) for name in self.cache.nodes)
        }


FOUR = {f"n{each}": {"rack": f"r{each // 2}"} for each in range(4)}


def test_nodes_are_picked_by_name_pattern_and_label_and_by_other_hyper_nodes():
    it = Cluster(
        FOUR,
        make_hyper_node("s0", 1, *named("n0", "gone")),
        make_hyper_node("s1", 1, pattern("^n[1]$")),
        make_hyper_node("s2", 1, {"labelMatch": {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r1", "r7"]}]}}),
        make_hyper_node("top", 3, "s1", "s2", "unknown"),
    )  # fmt: skip
    assert it.found == {"n0": "s0 s0", "n1": "top s1", "n2": "top s2", "n3": "top s2"}
    assert it.problems == {}


@pytest.mark.parametrize(
    ("operator", "expected"),
    [("Exists", ["a", "b"]), ("DoesNotExist", ["c"]), ("NotIn", ["b", "c"]), ("In", ["a"])],
)
def test_all_operators_of_selectors(operator, expected):
    values = {"values": ["x"]} if operator.endswith("In") else {}
    selector = {"labelMatch": {"matchExpressions": [{"key": "k", "operator": operator, **values}]}}
    it = Cluster({"a": {"k": "x"}, "b": {"k": "y"}, "c": {}}, make_hyper_node("s", 1, selector))
    assert [name for name, found in it.found.items() if found == "s"] == expected


def test_a_node_that_comes_changes_or_goes_is_looked_at_alone():
    it = Cluster(FOUR, make_hyper_node("s", 1, pattern("^n"), {"labelMatch": {"matchLabels": {"rack": "far"}}}))
    assert set(it.found.values()) == {"s"}
    it.pauses = 0
    it.cache.set_node(parse_node(make_node("n9")))
    it.cache.set_node(parse_node(make_node("m", labels={"rack": "far"})))
    it.cache.remove_node("n0")
    assert it.found == {**dict.fromkeys(("n1", "n2", "n3", "n9", "m"), "s")}
    assert it.pauses == len(["the patterns", "n9", "m", "the row of n0"])


def test_what_changes_counts_at_once():
    it = Cluster(FOUR, make_hyper_node("s", 1, *named("n0")))
    assert it.found["n1"] == "-"
    it.put(make_hyper_node("s", 1, *named("n1")))
    assert (it.found["n0"], it.found["n1"]) == ("-", "s")
    it.them.set("s", None)
    assert set(it.found.values()) == {""}


def test_the_first_of_two_that_overlap_counts_and_the_other_is_reported():
    it = Cluster(FOUR, make_hyper_node("b", 1, pattern("n[01]"), pattern("n2")), make_hyper_node("a", 1, *named("n1")))
    assert it.found == {"n0": "b", "n1": "a", "n2": "b", "n3": "-"}
    assert it.problems == {"b": "node n1 is also in a, which counts"}
    it = Cluster(FOUR, make_hyper_node("b", 1, pattern("n[01]")), make_hyper_node("a", 1, pattern("n1")))
    assert it.found == {"n0": "b", "n1": "a", "n2": "-", "n3": "-"}
    assert it.problems == {"b": "node n1 is also in a, which counts"}


def test_many_that_overlap_are_not_all_reported_at_each_change(monkeypatch):
    monkeypatch.setattr(hyper_nodes, "MOST_PROBLEMS", 2)
    it = Cluster(FOUR, *(make_hyper_node(name, 1, *named("n0")) for name in "abcd"))
    assert it.found["n0"] == "a"
    assert [*it.problems] == ["b", "c"]
    it.put(make_hyper_node("b", 1, *named("n1")))
    it.problems.clear()
    assert it.found["n1"] == "b"
    assert [*it.problems] == ["c", "d"]


def test_a_member_of_two_belongs_to_the_first():
    it = Cluster(
        FOUR, make_hyper_node("s", 1, *named("n0")), make_hyper_node("y", 2, "s"), make_hyper_node("x", 2, "s")
    )
    assert it.found["n0"] == "x s"
    assert it.problems == {"y": "its member s is also one of x, which counts"}


def test_a_cycle_is_no_cycle_since_members_have_lower_tiers():
    it = Cluster(
        FOUR,
        make_hyper_node("a", 1, *named("n0"), "a"),
        make_hyper_node("b", 2, "a", "c"),
        make_hyper_node("c", 3, "b"),
    )
    assert it.found["n0"] == "c b a"
    assert it.problems == {
        "a": "its member a has no lower tier than 1, and does not count",
        "b": "its member c has no lower tier than 2, and does not count",
    }


def test_only_the_lowest_tiers_count():
    it = Cluster(FOUR, *(make_hyper_node(f"s{tier:02}", tier, *named("n0")) for tier in range(17)))
    assert len(it.them.levels()) == 16
    assert it.problems == {"s16": "only the 16 lowest tiers count"}


def test_a_hostile_pattern_harms_no_other():
    hostile = make_hyper_node("h", 1, *(pattern(f"(a|aa)+[a-z]{{0,30}}.{{0,60}}{each}") for each in range(64)))
    names = {f"{'a' * 60}-{each}x": {} for each in range(20)}
    it = Cluster({**names, "n": {}}, hostile, make_hyper_node("s", 1, pattern("^n$")))
    found = it.found
    assert found.pop("n") == "s"
    assert set(found.values()) == {"h"}


def test_ten_thousand_hyper_nodes_cost_each_node_what_picks_it(monkeypatch):
    """A set of patterns is matched once with each name, and of selectors only those that may match are tried."""
    racks = 5_000
    them = [
        make_hyper_node(f"p{each}", 1, pattern(f"^n{each}-"), {"labelMatch": {"matchLabels": {"rack": f"r{each}"}}})
        for each in range(racks)
    ]
    them += [make_hyper_node(f"t{each}", 2, f"p{each}") for each in range(racks)]
    it = Cluster({f"n{each}-0": {"rack": f"r{each}"} for each in range(0, racks, 100)}, *them)
    tried, matches = [], LabelSelector.matches
    monkeypatch.setattr(LabelSelector, "matches", lambda self, labels: tried.append(self) or matches(self, labels))
    assert it.found["n4900-0"] == "t4900 p4900"
    assert len(tried) == 50
    assert it.pauses == 50 + -(-racks // hyper_nodes.PATTERNS_AT_ONCE)


@pytest.mark.parametrize(("limit", "pauses"), [(1, 1 + 4), (3, 1 + 4 + 1)])
def test_what_was_found_before_a_pause_is_kept(limit, pauses):
    class Hurried(Cluster):
        def pause(self):
            super().pause()
            if self.pauses == limit:
                raise TookLongError

    it = Hurried(FOUR, make_hyper_node("s", 1, *map(pattern, FOUR)), make_hyper_node("t", 1, pattern("x")))
    with pytest.raises(TookLongError):
        it.them.levels()
    assert set(it.found.values()) == {"s"}
    assert it.pauses == pauses


@settings(max_examples=examples(100), deadline=None)
@given(
    picks=st.lists(st.tuples(st.integers(0, 3), st.sets(st.integers(0, 4)), st.sets(st.integers(0, 7))), max_size=8),
)
def test_a_node_is_in_what_picks_it_and_in_what_that_belongs_to(picks):
    """The oracle follows each HyperNode down to its nodes. What does not count for a problem is left out of both."""
    raws = [
        make_hyper_node(f"h{at}", tier, *named(*(f"n{each}" for each in nodes)), *(f"h{each}" for each in members))
        for at, (tier, nodes, members) in enumerate(picks)
    ]
    it = Cluster({f"n{each}": {} for each in range(5)}, *raws)
    found = it.found

    def nodes_of(at):
        tier, nodes, members = picks[at]
        below = (each for each in members if each < len(picks) and picks[each][0] < tier)
        return {f"n{each}" for each in nodes}.union(*map(nodes_of, below))

    for node, path in found.items():
        for name in path.split():
            assert name == "-" or node in nodes_of(int(name[1:]))
    if not it.problems:
        tiers = sorted({tier for tier, _, _ in picks}, reverse=True)
        for at, (tier, _, _) in enumerate(picks):
            assert {node for node, path in found.items() if path.split()[tiers.index(tier)] == f"h{at}"} == nodes_of(at)
