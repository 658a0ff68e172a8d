"""Counts of placed pods by selector and by affinity term: what they count, how they follow changes, and what they
free.
"""

import gc
from types import FunctionType, ModuleType

import pytest

from podwright.core.objects.affinity import interned_selector
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.state.podindex import Eligibility, PodSelector, terms
from podwright.core.state.podindex import matches as matches_module
from podwright.core.state.podindex.domains import ALL_WITH_KEY
from podwright.core.state.podindex.matches import FEW_CHANGES, MatchCounter
from podwright.core.state.podindex.placed import MAX_PAIRS, PlacedPodClasses
from podwright.core.state.podindex.selecting import SelectorIndex
from podwright.core.state.podindex.terms import COMBINE_THRESHOLD
from podwright.core.state.transaction import CacheTransaction
from support.objects.builders import make_namespace, make_node, make_pod
from support.plugins.kit import make_cache, pending

HOSTNAME = "kubernetes.io/hostname"
ZONE = "zone"


def selector(*pairs, **labels):
    expressions = [{"key": key, "operator": operator, "values": list(values)} for key, operator, *values in pairs]
    return interned_selector({"matchLabels": labels, "matchExpressions": expressions}, "selector")


def placed(number, node="a", namespace="default", spec=None, **labels):
    return parse_pod(make_pod(f"p{number}", namespace=namespace, labels=labels, node=node, spec=spec))


def in_namespace(label_selector, name="default"):
    return (PodSelector(label_selector, frozenset((name,))),)


@pytest.mark.parametrize(
    "label_selector, found",
    [
        pytest.param(selector(app="a"), True, id="a label that the pod has"),
        pytest.param(selector(app="b"), False, id="another value of the label"),
        pytest.param(selector(("app", "In", "b", "a")), True, id="one of several values"),
        pytest.param(selector(("app", "Exists")), True, id="a key that the pod has"),
        pytest.param(selector(("zone", "Exists")), False, id="a key that the pod lacks"),
        pytest.param(selector(("app", "NotIn", "b")), True, id="a requirement that no single label meets"),
        pytest.param(selector(), True, id="the empty selector"),
        pytest.param(interned_selector(None, "selector"), False, id="the nil selector"),
    ],
)
def test_selectors_are_found_by_the_labels_of_a_pod(label_selector, found):
    index = SelectorIndex()
    index.add("item", label_selector, None)
    assert list(index.candidates("default", {"app": "a", "tier": "x"})) == (["item"] if found else [])
    index.remove("item")
    assert list(index.candidates("default", {"app": "a", "tier": "x"})) == []


def test_a_selector_for_one_namespace_is_not_found_in_another():
    index = SelectorIndex()
    index.add("item", selector(app="a"), "default")
    assert list(index.candidates("other", {"app": "a"})) == []
    assert list(index.candidates("default", {"app": "a"})) == ["item"]


def test_selectors_with_a_common_label_are_indexed_by_their_other_labels():
    index = SelectorIndex()
    for number in range(100):
        index.add(number, selector(app="a", id=str(number)), None)
    assert len(list(index.candidates("default", {"app": "a", "id": "7"}))) <= 2


def test_a_counter_follows_the_pods():
    cache = make_cache([make_node("a"), make_node("b")])
    wanted = in_namespace(selector(app="x"))
    counter = cache.pods_index.counter(wanted)
    cache.set_pod(placed(1, app="x"))
    cache.set_pod(placed(2, app="x"))
    cache.set_pod(placed(3, app="y"))
    cache.set_pod(placed(4, namespace="other", app="x"))
    assert cache.pods_index.counter(wanted) is counter
    assert counter.column(2).tolist() == [2, 0]
    cache.set_pod(placed(1, node="b", app="x"))
    cache.remove_pod("default/p2")
    assert cache.pods_index.counter(wanted) is counter
    assert counter.column(2).tolist() == [0, 1]


def test_what_a_large_transaction_does_and_undoes_costs_the_counters_next_to_nothing(monkeypatch):
    pods = [make_pod(f"p{number}", labels={"app": "x"}, node="a" if number else "b") for number in range(101)]
    cache = make_cache([make_node("a"), make_node("b")], pods)
    wanted = in_namespace(selector(app="x"))
    counter = cache.pods_index.counter(wanted)
    counted = []
    add, add_many = MatchCounter.add, MatchCounter.add_many
    monkeypatch.setattr(MatchCounter, "add", lambda *args: counted.append(1) or add(*args))
    monkeypatch.setattr(MatchCounter, "add_many", lambda *args: counted.append(len(args[1])) or add_many(*args))
    with CacheTransaction(cache) as transaction:
        transaction.remove(list(cache.nodes["a"].pods.values()))
        for number in range(100):
            transaction.assume(placed(200 + number, node="", app="x"), "b")
    assert cache.pods_index.counter(wanted) is counter
    assert counter.column(2).tolist() == [100, 1]
    assert sum(counted) == FEW_CHANGES, "the removal is noted, the next ones are counted, and all are undone together"


def test_pods_with_very_many_labels_are_counted_without_an_entry_for_each_label():
    many = {f"label-{number}": "x" for number in range(MAX_PAIRS)}
    pods = PlacedPodClasses()
    classes = [pods.add_all(placed(number, app="x", **labels), {number: 1}) for number, labels in enumerate(({}, many))]
    wanted = selector(("app", "In", "x", "y"))
    assert {found for group in pods.candidates(["default"], wanted) for found in group} == set(classes)
    assert [list(group) for group in pods.candidates(["default"], selector(**{"label-7": "x"}))] == [[], [classes[1]]]
    pods.remove(placed(1, app="x", **many), 1)
    assert [found for group in pods.candidates(["default"], wanted) for found in group] == [classes[0]]
    cache = make_cache([make_node("a"), make_node("b")], [make_pod("p", labels={"app": "x", **many}, node="b")])
    assert cache.pods_index.counter(in_namespace(wanted)).column(2).tolist() == [0, 1]


def test_a_new_counter_counts_pods_that_were_placed_before():
    pods = [make_pod(f"p{i}", labels={"app": "x", "id": str(i)}, node=f"n{i % 40}") for i in range(200)]
    cache = make_cache([make_node(f"n{i}") for i in range(40)], pods)
    counter = cache.pods_index.counter(in_namespace(selector(app="x")))
    assert counter.column(40).tolist() == [5] * 40


def test_a_counter_grows_with_the_nodes():
    cache = make_cache([make_node("a")])
    wanted = in_namespace(selector(app="x"))
    counter = cache.pods_index.counter(wanted)
    for number in range(100):
        cache.set_node(parse_node(make_node(f"n{number}")))
        cache.set_pod(placed(number, node=f"n{number}", app="x"))
    assert cache.pods_index.counter(wanted) is counter
    assert counter.column(101).tolist() == [0] + [1] * 100


def test_a_counter_can_exclude_terminating_pods():
    dying = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    cache = make_cache([make_node("a")], [make_pod("p", labels={"app": "x"}, node="a", metadata=dying)])
    label_selector = in_namespace(selector(app="x"))
    assert cache.pods_index.counter(label_selector).column(1).tolist() == [1]
    assert cache.pods_index.counter(label_selector, exclude_terminating=True).column(1).tolist() == [0]


def test_equal_selectors_share_a_counter_and_the_oldest_are_dropped(monkeypatch):
    monkeypatch.setattr(matches_module, "max_counters", lambda _nodes: 2)
    cache = make_cache([make_node("a")], [make_pod("p", labels={"app": "x"}, node="a")])
    matches = cache.pods_index.matches
    first = matches.counter(in_namespace(selector(app="x")))
    assert matches.counter(in_namespace(selector(app="x"))) is first
    matches.counter(in_namespace(selector(app="y")))
    matches.counter(in_namespace(selector(app="z")))
    assert len(matches) == 2
    cache.set_pod(placed(2, app="x"))
    assert matches.counter(in_namespace(selector(app="x"))).column(1).tolist() == [2]


def test_a_dropped_counter_stays_valid_for_the_decision_that_holds_it(monkeypatch):
    monkeypatch.setattr(matches_module, "max_counters", lambda _nodes: 1)
    cache = make_cache([zoned("a", "z1")], [make_pod("p", labels={"app": "x"}, node="a")])
    matches = cache.pods_index.matches
    first = matches.counter(in_namespace(selector(app="x")))
    matches.counter(in_namespace(selector(app="y")))
    assert first.column(1).tolist() == [1]
    assert cache.pods_index.sums(first, ZONE).total == 1


@pytest.mark.parametrize(
    "namespaces, label_selector, expected",
    [
        pytest.param(["other"], None, 1, id="a listed namespace"),
        pytest.param(["default", "other"], None, 2, id="several listed namespaces"),
        pytest.param([], {}, 3, id="the empty selector matches unknown namespaces, too"),
        pytest.param([], {"matchLabels": {"team": "x"}}, 1, id="namespaces by their labels"),
        pytest.param(["default"], {"matchLabels": {"team": "x"}}, 2, id="listed namespaces and those with the labels"),
        pytest.param(
            [],
            {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
            1,
            id="an unknown namespace is not selected by missing labels",
        ),
    ],
)
def test_namespaces_in_which_a_counter_counts(namespaces, label_selector, expected):
    cache = make_cache([make_node("a")])
    cache.set_object("Namespace", make_namespace("default"))
    cache.set_object("Namespace", make_namespace("other", {"team": "x"}))
    for name in ("default", "other", "unknown"):
        cache.set_pod(placed(1, namespace=name, app="x"))
    pod_selector = PodSelector(
        selector(app="x"), frozenset(namespaces), interned_selector(label_selector, "namespaceSelector")
    )
    assert cache.pods_index.counter((pod_selector,)).column(1).tolist() == [expected]


def test_counts_by_namespace_labels_follow_the_labels():
    cache = make_cache([make_node("a")], [make_pod("p", labels={"app": "x"}, node="a")])
    pod_selector = PodSelector(selector(app="x"), frozenset(), selector(team="x"))

    def counted():
        return cache.pods_index.counter((pod_selector,)).column(1).tolist()

    assert counted() == [0]
    cache.set_object("Namespace", make_namespace("default", {"team": "x"}))
    assert counted() == [1]
    cache.set_object("Namespace", make_namespace("default", {"team": "y"}))
    assert counted() == [0]
    cache.set_object("Namespace", make_namespace("default", {"team": "x"}))
    cache.remove_object("Namespace", "default")
    assert counted() == [0]


def sums_in_zones(cache, eligibility=ALL_WITH_KEY):
    counter = cache.pods_index.counter(in_namespace(selector(app="x")))
    sums = cache.pods_index.sums(counter, ZONE, eligibility)
    values = cache.table.label_values(ZONE)
    return {value: int(sums.values[position]) for value, position in values.items()}, sums.total


def zoned(name, zone, **more):
    return make_node(name, labels={ZONE: zone, **more} if zone is not None else more)


def test_sums_follow_pods_and_nodes():
    cache = make_cache([zoned("a", "z1"), zoned("b", "z2"), zoned("c", None)])
    for number, node in enumerate("aabbc"):
        cache.set_pod(placed(number, node=node, app="x"))
    assert sums_in_zones(cache) == ({"z1": 2, "z2": 2}, 4)
    cache.remove_pod("default/p0")
    cache.set_pod(placed(9, node="c", app="x"))
    assert sums_in_zones(cache) == ({"z1": 1, "z2": 2}, 3)
    cache.set_node(parse_node(zoned("c", "z2")))
    assert sums_in_zones(cache) == ({"z1": 1, "z2": 4}, 5)
    cache.remove_node("b")
    assert sums_in_zones(cache) == ({"z1": 1, "z2": 2}, 3)
    cache.set_node(parse_node(zoned("b", "z1")))
    assert sums_in_zones(cache) == ({"z1": 3, "z2": 2}, 5)


def test_only_eligible_nodes_are_summed():
    cache = make_cache([zoned("a", "z1", disk="ssd"), zoned("b", "z1"), zoned("c", "z2", rack="r")])
    for number, node in enumerate("abc"):
        cache.set_pod(placed(number, node=node, app="x"))
    affinity = pending(spec={"nodeSelector": {"disk": "ssd"}}).node_affinity
    assert sums_in_zones(cache, Eligibility(affinity=affinity)) == ({"z1": 1, "z2": 0}, 1)
    assert sums_in_zones(cache, Eligibility(keys=frozenset((ZONE, "rack")))) == ({"z1": 0, "z2": 1}, 1)
    cache.set_pod(placed(3, node="b", app="x"))
    assert sums_in_zones(cache, Eligibility(affinity=affinity)) == ({"z1": 1, "z2": 0}, 1)


def test_domains_of_deleted_nodes_are_reused():
    cache = make_cache([zoned("stays", "z")])
    cache.pods_index.domains(ZONE)
    for number in range(200):
        cache.set_node(parse_node(zoned("comes-and-goes", f"z{number}")))
    cache.set_node(parse_node(zoned("empty", "")))
    cache.set_node(parse_node(zoned("none", None)))
    domains = cache.pods_index.domains(ZONE)
    rows = {info.name: int(domains.of_node[info.slot]) for info in cache.nodes.values()}
    assert domains.present == 3
    assert domains.count < 200
    assert {rows["stays"], rows["comes-and-goes"], rows["empty"]} == {0, 1, 2}
    assert rows["none"] == domains.count
    assert domains.empty == rows["empty"]


def anti_affinity(key, *terms):
    term = [{"topologyKey": key, "labelSelector": {"matchLabels": labels}} for labels in terms]
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}}


def test_equal_terms_are_one_group():
    cache = make_cache([zoned("a", "z1"), zoned("b", "z2")])
    known = cache.pods_index.terms
    for number, node in enumerate("aab"):
        cache.set_pod(placed(number, node=node, spec=anti_affinity(ZONE, {"app": "x"}), id=str(number)))
    cache.set_pod(placed(3, node="a", spec=anti_affinity(ZONE, {"app": "x"}, {"app": "y"})))
    assert len(known) == 2
    (group,) = cache.pods_index.matching_terms(pending(labels={"app": "x"})).anti_required
    assert group.at == {cache.nodes["a"].slot: 3, cache.nodes["b"].slot: 1}
    assert not any(cache.pods_index.matching_terms(pending(labels={"app": "z"})))


def test_the_terms_that_match_pods_of_several_templates_are_found_once():
    cache = make_cache([zoned("a", "z1")])
    cache.set_pod(placed(1, spec=anti_affinity(ZONE, {"app": "x"})))
    pods = [pending(labels={"app": "x", "template": str(number)}) for number in range(10)]
    found = [cache.pods_index.matching_terms(pod) for pod in pods]
    cache.set_pod(placed(2, spec=anti_affinity(ZONE, {"app": "x"})))
    assert all(cache.pods_index.matching_terms(pod) is known for pod, known in zip(pods, found, strict=True))
    cache.set_pod(placed(3, spec=anti_affinity(ZONE, {"template": "7"})))
    assert [len(cache.pods_index.matching_terms(pod).anti_required) for pod in pods] == [1] * 7 + [2] + [1] * 2


def test_the_terms_that_match_a_pod_follow_pods_and_namespaces():
    cache = make_cache([zoned("a", "z1")])
    pod = pending(labels={"app": "x"})

    def found():
        return len(cache.pods_index.matching_terms(pod).anti_required)

    spec = anti_affinity(ZONE, {"app": "x"})
    cache.set_pod(placed(1, spec=spec))
    assert found() == 1
    selected = {"topologyKey": ZONE, "labelSelector": {}, "namespaceSelector": {"matchLabels": {"team": "t"}}}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [selected]}
    cache.set_pod(placed(2, spec={"affinity": {"podAntiAffinity": rule}}))
    assert found() == 1
    cache.set_object("Namespace", make_namespace("default", {"team": "t"}))
    assert found() == 2
    cache.remove_pod("default/p2")
    assert found() == 1
    cache.set_pod(placed(3, spec=anti_affinity(HOSTNAME, {"app": "x"})))
    assert found() == 2


def test_dropped_sums_of_terms_are_computed_again(monkeypatch):
    monkeypatch.setattr(terms, "MAX_SUMMED", 1)
    cache = make_cache([zoned("a", "z1")])
    groups = []
    for number in range(3):
        cache.set_pod(placed(number, spec=anti_affinity(ZONE, {"id": str(number)})))
        groups += cache.pods_index.matching_terms(pending(labels={"id": str(number)})).anti_required
    for _ in range(2):
        assert [sums.total for group in groups for _, sums in cache.pods_index.sums_of_groups((group,))] == [1, 1, 1]
        assert [len(group.sums) for group in groups] == [0, 0, 1]
    cache.set_pod(placed(9, spec=anti_affinity(ZONE, {"id": "0"})))
    assert [sums.total for _, sums in cache.pods_index.sums_of_groups(groups[:1])] == [2]


def test_many_groups_are_summed_together():
    cache = make_cache([zoned(f"n{i}", f"z{i % 2}") for i in range(60)])
    terms_of_all = [{"matchLabels": {"app": "x"}, "matchExpressions": [differs(n)]} for n in range(COMBINE_THRESHOLD)]
    for number, label_selector in enumerate([*terms_of_all, *([terms_of_all[0]] * COMBINE_THRESHOLD)]):
        rule = {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ZONE, "labelSelector": label_selector}]
        }
        cache.set_pod(placed(number, node=f"n{number % 60}", spec={"affinity": {"podAntiAffinity": rule}}))
    groups = cache.pods_index.matching_terms(pending(labels={"app": "x"})).anti_required
    assert len(groups) == COMBINE_THRESHOLD
    summed = list(cache.pods_index.sums_of_groups(groups))
    assert [(key, sums.total) for key, sums in summed] == [(ZONE, COMBINE_THRESHOLD - 1), (ZONE, COMBINE_THRESHOLD + 1)]
    assert summed[0][1].values[:3].tolist() == [COMBINE_THRESHOLD // 2 - 1, COMBINE_THRESHOLD // 2, 0]


def differs(number):
    return {"key": "id", "operator": "NotIn", "values": [str(number)]}


def reachable(root, *, beside):
    """The number of containers that can be reached from an object, without those that can be reached through
    `beside`.
    """
    seen, queue = {id(other) for other in beside}, [root]
    while queue:
        for other in gc.get_referents(queue.pop()):
            if (
                gc.is_tracked(other)
                and id(other) not in seen
                and not isinstance(other, (type, ModuleType, FunctionType))
            ):
                seen.add(id(other))
                queue.append(other)
    return len(seen)


def test_indexes_free_what_they_kept_for_deleted_pods():
    cache = make_cache([zoned("a", "z1")])
    indexes = (cache.pods_index.matches, cache.pods_index.terms)
    cache.set_pod(placed("stays", app="x"))
    for number in range(50):
        for namespace in ("default", f"ns{number}"):
            spec = anti_affinity(ZONE, {"id": str(number)})
            cache.set_pod(placed(number, namespace=namespace, spec=spec, app="x", id=str(number)))
        groups = cache.pods_index.matching_terms(pending(labels={"id": str(number)})).anti_required
        assert [sums.total for _, sums in cache.pods_index.sums_of_groups(groups)] == [1]
    assert all(reachable(index, beside=(cache, cache.table)) > 100 for index in indexes)
    del groups
    for number in range(50):
        cache.remove_pod(f"default/p{number}")
        cache.remove_pod(f"ns{number}/p{number}")
    assert all(reachable(index, beside=(cache, cache.table)) < 20 for index in indexes)
