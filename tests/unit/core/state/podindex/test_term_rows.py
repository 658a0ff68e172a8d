"""TermRows: the affinity terms of placed pods, where very many may match one pod."""

from podwright.core.objects.compaction import compact_all
from podwright.core.objects.pod import parse_pod
from podwright.core.state.podindex import terms
from podwright.core.state.podindex.term_rows import GroupRows, TermRows
from podwright.core.state.podindex.terms import MANY_CANDIDATES
from support.costs.call_counts import calls_of
from support.objects.builders import make_node, make_pod
from support.plugins.kit import make_cache, pending

ZONE = "zone"
MANY = MANY_CANDIDATES + 44
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def broad(count, key=ZONE, offset=0):
    terms = [
        {
            "topologyKey": key.format(n),
            "namespaceSelector": {},
            "labelSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [f"x{n + offset}"]}]},
        }
        for n in range(count)
    ]
    return {"affinity": {"podAntiAffinity": {REQUIRED: terms}}}


def placed(name, node, spec):
    return parse_pod(make_pod(name, node=node, spec=spec))


def zones():
    return make_cache([make_node(f"n{i}", labels={ZONE: f"z{i % 2}"}) for i in range(4)])


def totals(cache, **labels):
    """By topology key: the number of anti-affinity terms of placed pods that match a pod with these labels, and in each
    of the first three domains.
    """
    matched = cache.pods_index.matching_terms(pending(labels=labels)).anti_required
    found = {}
    for key, sums in cache.pods_index.sums_of_groups(matched):
        total, values = found.get(key, (0, 0))
        found[key] = total + sums.total, values + sums.values[:3]
    return {key: (total, values.tolist()) for key, (total, values) in found.items()}


def test_the_terms_of_all_placed_pods_are_summed_by_domain():
    cache = zones()
    for number, node in enumerate(("n0", "n1", "n1")):
        cache.set_pod(placed(f"p{number}", node, broad(MANY)))
    assert totals(cache, app="a") == {ZONE: (3 * MANY, [MANY, 2 * MANY, 0])}
    assert totals(cache, app="x7") == {ZONE: (3 * MANY - 3, [MANY - 1, 2 * MANY - 2, 0])}
    cache.remove_pod("default/p1")
    cache.set_pod(placed("p3", "n2", broad(1, offset=MANY)))
    assert totals(cache, app="a") == {ZONE: (2 * MANY + 1, [MANY + 1, MANY, 0])}


def test_keys_that_no_node_has_are_left_out():
    cache = zones()
    cache.set_pod(placed("p", "n0", broad(MANY, "own-{}")))
    assert totals(cache, app="a") == {}


def test_few_terms_are_not_kept_as_rows():
    cache = zones()
    cache.set_pod(placed("p", "n0", broad(MANY)))
    assert isinstance(cache.pods_index.matching_terms(pending(labels={"app": "a"})).anti_required, GroupRows)
    cache.set_pod(placed("q", "n0", broad(3)))
    cache.remove_pod("default/p")
    assert isinstance(cache.pods_index.matching_terms(pending(labels={"app": "a"})).anti_required, tuple)
    assert totals(cache, app="a") == {ZONE: (3, [3, 0, 0])}


def test_more_terms_of_a_placed_pod_do_not_cause_more_calls():
    def calls(count):
        cache = zones()
        cache.set_pod(placed("p", "n0", broad(count)))
        totals(cache, app="first")
        return calls_of(lambda: totals(cache, app="a"))

    assert calls(10 * MANY) <= calls(MANY) + 10


def builds_of(cache, monkeypatch):
    """Attaches the index, and collects the numbers of groups from which rows are built from now on."""
    totals(cache, app="a")
    built = []

    def build(groups, kinds):
        built.append(len(groups))
        return TermRows(groups, kinds)

    monkeypatch.setattr(terms, "TermRows", build)
    return built


def test_rows_are_built_while_terms_are_added_and_survive_compactions(monkeypatch):
    cache = zones()
    built = builds_of(cache, monkeypatch)
    cache.set_pod(placed("p", "n0", broad(10 * MANY)))
    assert built == [MANY_CANDIDATES + 1]
    for name in "qrs":
        compact_all()
        cache.set_pod(placed(name, "n1", broad(50, offset=10 * MANY)))
        cache.remove_pod(f"default/{name}")
        assert totals(cache, app="a") == {ZONE: (10 * MANY, [10 * MANY, 0, 0])}
    assert len(built) == 1


def test_a_decision_after_a_compaction_costs_the_same_with_more_terms():
    def calls(count):
        cache = zones()
        cache.set_pod(placed("p", "n0", broad(count)))
        totals(cache, app="first")
        compact_all()
        return calls_of(lambda: totals(cache, app="a"))

    assert calls(10 * MANY) <= calls(MANY) + 10


def test_a_compaction_drops_rows_of_which_most_are_gone(monkeypatch):
    cache = zones()
    built = builds_of(cache, monkeypatch)
    for number, name in enumerate("abcd"):
        cache.set_pod(placed(name, "n0", broad(MANY, offset=number * MANY)))
    for name in "ab":
        cache.remove_pod(f"default/{name}")
    totals(cache, app="a")
    assert built == [MANY_CANDIDATES + 1]
    compact_all()
    assert totals(cache, app="a") == {ZONE: (2 * MANY, [2 * MANY, 0, 0])}
    assert built == [MANY_CANDIDATES + 1, 2 * MANY]


def test_a_compaction_drops_weights_that_have_changed_often(monkeypatch):
    cache = zones()
    built = builds_of(cache, monkeypatch)
    cache.set_pod(placed("p", "n0", broad(MANY)))
    cache.set_pod(placed("q", "n1", broad(MANY)))
    cache.remove_pod("default/q")
    compact_all()
    assert totals(cache, app="a") == {ZONE: (MANY, [MANY, 0, 0])}
    assert built == [MANY_CANDIDATES + 1, MANY]
