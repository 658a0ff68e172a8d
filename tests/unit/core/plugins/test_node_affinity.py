import numpy as np
import pytest

from podwright.api.kube_scheduler_configuration import default_profile
from podwright.core.cycle import Fault, schedule
from podwright.core.framework.args import ArgsError
from podwright.core.framework.cluster_events import Hint
from podwright.core.framework.features import Features
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import CycleState, Feasible, PreFilterResult
from podwright.core.framework.status import SKIP, Code, unresolvable
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins import PLUGINS
from podwright.core.plugins.node_affinity import FEW_REQUIREMENTS, NodeAffinity
from support.costs.call_counts import calls_of
from support.objects.builders import make_node, make_pod
from support.plugins.kit import KitHandle, build, make_cache, pending, pre_filter, scores, verdicts

MISMATCH = "node(s) didn't match Pod's node affinity/selector"
ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

NODES = [
    make_node("a", labels={"zone": "z1", "cores": "8", "disk": "ssd"}),
    make_node("b", labels={"zone": "z2", "cores": "many"}),
    make_node("c"),
]


def expression(key, operator, *values):
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def labels(*expressions):
    return {"matchExpressions": list(expressions)}


def named(operator, *names):
    return {"matchFields": [expression("metadata.name", operator, *names)]}


def requiring(*terms, **spec):
    return pending(spec={"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}, **spec})


def preferring(*weighted, name="pod"):
    terms = [{"weight": weight, "preference": term} for weight, term in weighted]
    return pending(name=name, spec={"affinity": {"nodeAffinity": {PREFERRED: terms}}})


@pytest.mark.parametrize(
    "term, fitting",
    [
        pytest.param(labels(expression("zone", "In", "z1")), "a", id="In one value"),
        pytest.param(labels(expression("zone", "In", "z1", "z2", "z9")), "ab", id="In several values, some unknown"),
        pytest.param(labels(expression("zone", "In", "z9")), "", id="In a value that no node has"),
        pytest.param(labels(expression("zone", "NotIn", "z1")), "bc", id="NotIn matches nodes without the label"),
        pytest.param(labels(expression("zone", "NotIn", "z1", "z2")), "c", id="NotIn several values"),
        pytest.param(labels(expression("disk", "Exists")), "a", id="Exists"),
        pytest.param(labels(expression("disk", "DoesNotExist")), "bc", id="DoesNotExist"),
        pytest.param(
            labels(expression("cores", "Gt", "4")),
            "a",
            id="Gt rejects nodes where the label is missing or not a number",
        ),
        pytest.param(labels(expression("cores", "Lt", "4")), "", id="Lt"),
        pytest.param(
            labels(expression("zone", "In", "z1", "z2"), expression("disk", "DoesNotExist")),
            "b",
            id="all requirements of a term must match",
        ),
        pytest.param({}, "", id="an empty term matches nothing"),
        pytest.param(named("NotIn", "a"), "bc", id="a NotIn requirement on a field"),
        pytest.param(
            {**named("NotIn", "a"), **labels(expression("zone", "Exists"))}, "b", id="fields and labels in one term"
        ),
    ],
)
def test_one_required_term(term, fitting):
    plugin = build(NodeAffinity, make_cache(NODES))
    assert verdicts(plugin, requiring(term)) == {name: "" if name in fitting else MISMATCH for name in "abc"}


def test_one_of_the_terms_must_match_and_the_selector_too():
    plugin = build(NodeAffinity, make_cache(NODES))
    terms = labels(expression("zone", "In", "z2")), labels(expression("disk", "Exists"))
    assert verdicts(plugin, requiring(*terms)) == {"a": "", "b": "", "c": MISMATCH}
    assert verdicts(plugin, requiring(*terms, nodeSelector={"disk": "ssd"})) == {"a": "", "b": MISMATCH, "c": MISMATCH}


def test_a_node_selector_without_affinity():
    plugin = build(NodeAffinity, make_cache(NODES))
    pod = pending(spec={"nodeSelector": {"zone": "z1", "disk": "ssd"}})
    assert verdicts(plugin, pod) == {"a": "", "b": MISMATCH, "c": MISMATCH}


@pytest.mark.parametrize(
    "pod, expected",
    [
        pytest.param(pending(), SKIP, id="a plain pod skips the filter"),
        pytest.param(
            preferring((1, labels(expression("disk", "Exists")))),
            SKIP,
            id="a pod with preferences only skips the filter",
        ),
        pytest.param(
            pending(spec={"nodeSelector": {"zone": "z1"}}), None, id="a pod with a selector does not skip the filter"
        ),
        pytest.param(
            requiring(named("In", "a")), PreFilterResult(frozenset("a")), id="a named node restricts the choice"
        ),
        pytest.param(
            requiring(named("In", "a", "b"), named("In", "c")),
            PreFilterResult(frozenset("abc")),
            id="the names of all terms are allowed",
        ),
        pytest.param(
            requiring({"matchFields": [expression("metadata.name", "In", x) for x in ("a", "b")]}, named("In", "c")),
            PreFilterResult(frozenset("c")),
            id="names within a term are intersected",
        ),
        pytest.param(
            requiring(named("In", "a"), labels(expression("zone", "Exists"))),
            None,
            id="a term without a name allows all nodes",
        ),
        pytest.param(requiring(named("NotIn", "a")), None, id="NotIn names no node"),
        pytest.param(
            requiring({"matchFields": [expression("metadata.name", "In", x) for x in ("a", "b")]}),
            unresolvable("pod affinity terms conflict"),
            id="a node cannot have two names",
        ),
    ],
)
def test_pre_filter(pod, expected):
    assert pre_filter(build(NodeAffinity, make_cache(NODES)), pod) == expected


def hostile_pods(size):
    """Pods whose affinity has `size` requirements, by what they are made of."""
    half = size // 2

    def name(i):
        return f"n{i}" if i < 100 else f"no-such-node-{i}"

    return {
        "names in one term": requiring(named("In", *(name(i) for i in range(size)))),
        "names, each in a term": requiring(*(named("In", name(i)) for i in range(size))),
        "excluded names": requiring(*(named("NotIn", name(i)) for i in range(size))),
        "names in and out": requiring(
            *(
                {"matchFields": [*named("In", name(i))["matchFields"], *named("NotIn", "x")["matchFields"]]}
                for i in range(half)
            )
        ),
        "unknown labels": pending(spec={"nodeSelector": {f"k{i}": "v" for i in range(size)}}),
        "known and unknown labels": pending(
            spec={"nodeSelector": {f"l{i}" if i % 2 else f"k{i}": "v" for i in range(size)}}
        ),
        "known labels": pending(spec={"nodeSelector": {f"l{i % 40}": "v" for i in range(size)}}),
        "terms with unknown labels": requiring(*(labels(expression(f"k{i}", "In", "v")) for i in range(size))),
        "terms with known labels": requiring(*(labels(expression(f"l{i % 40}", "In", "v")) for i in range(size))),
        "bounds": requiring(*(labels(expression("number", "Gt", str(10**6 + i))) for i in range(size))),
        "bounds of names": requiring(*(labels(expression("host", "Gt", str(i))) for i in range(size))),
        "preferences": preferring(*((1, labels(expression(f"k{i}", "In", "v"))) for i in range(size))),
        "preferred names": preferring(*((1, named("NotIn", name(i))) for i in range(size))),
        "preferred bounds": preferring(*((1, labels(expression("number", "Lt", str(i)))) for i in range(size))),
    }


def hostile_cache(nodes):
    every = {f"l{i}": "v" for i in range(40)}
    return make_cache(
        make_node(f"n{i}", labels={"number": str(i), "host": f"n{i}", **(every if i % 3 else {})}) for i in range(nodes)
    )


def attempt_calls(pod, nodes):
    """Calls of the first and of a further attempt to schedule the pod, with the default plugins."""
    cache = hostile_cache(nodes)
    framework = Framework(default_profile("podwright", PLUGINS, Features()), PLUGINS, KitHandle(cache))

    def attempt():
        assert not isinstance(schedule(framework, cache, pod, lambda _count: 0, preempt=False), Fault)

    attempt()
    cache.set_node(parse_node(make_node("n0", labels={"number": "-1"})))
    for _ in range(nodes):  # more changes than are worth following one by one
        cache.set_node(parse_node(make_node("n1", labels={"number": "-1"})))
    return calls_of(attempt)


@pytest.mark.parametrize("kind", hostile_pods(1))
def test_the_cost_of_an_attempt_is_linear_in_the_requirements_whatever_the_number_of_nodes(kind):
    def calls(size, nodes):
        return attempt_calls(hostile_pods(size)[kind], nodes)

    few, many = calls(200, 100), calls(400, 100)
    assert many <= 2.2 * few
    more_nodes = 300
    assert calls(400, 100 + more_nodes) - many <= 1.2 * (calls(200, 100 + more_nodes) - few) + more_nodes


@pytest.mark.parametrize("kind", hostile_pods(1))
def test_many_requirements_give_the_same_answers_for_one_node_and_for_all(kind):
    plugin = build(NodeAffinity, hostile_cache(30))
    for size in (3, 50):
        pod = hostile_pods(size)[kind]
        affinity, cache = pod.node_affinity, plugin.handle.cache
        matching = {n: affinity.matches(info.present.labels, n) for n, info in cache.nodes.items()}
        assert {n: not reason for n, reason in verdicts(plugin, pod).items()} == matching
        scores(plugin, pod)


def test_a_great_affinity_is_checked_once_for_all_nodes_in_a_dry_run():
    plugin = build(NodeAffinity, hostile_cache(100))
    cache = plugin.handle.cache

    def dry_run(size):
        pod = hostile_pods(size)["terms with unknown labels"]
        return calls_of(lambda: [plugin.filter(CycleState(), pod, info.clone()) for info in cache.nodes.values()])

    assert dry_run(4 * FEW_REQUIREMENTS) <= 2 * dry_run(FEW_REQUIREMENTS)


ADDED = {"addedAffinity": {REQUIRED: {"nodeSelectorTerms": [labels(expression("zone", "Exists"))]}}}


def test_added_affinity_applies_to_pods_without_affinity():
    plugin = build(NodeAffinity, make_cache(NODES), ADDED)
    assert pre_filter(plugin, pending()) is None
    assert verdicts(plugin, pending()) == {"a": "", "b": "", "c": ENFORCED}


def test_added_affinity_is_checked_before_the_pods_own():
    plugin = build(NodeAffinity, make_cache(NODES), ADDED)
    pod = pending(spec={"nodeSelector": {"disk": "ssd"}})
    assert verdicts(plugin, pod) == {"a": "", "b": MISMATCH, "c": ENFORCED}


@pytest.mark.parametrize(
    "weighted, expected",
    [
        pytest.param([(1, labels(expression("zone", "In", "z1")))], [100, 0, 0], id="the best node scores 100"),
        pytest.param(
            [(3, labels(expression("zone", "In", "z1"))), (2, labels(expression("zone", "Exists")))],
            [100, 40, 0],
            id="weights add up, and scores are relative to the highest",
        ),
        pytest.param(
            [(5, labels(expression("none", "Exists")))], [0, 0, 0], id="without a matching term all nodes score 0"
        ),
        pytest.param([(5, {})], [0, 0, 0], id="an empty preference matches nothing"),
        pytest.param([(5, named("In", "c"))], [0, 0, 100], id="a preference for a node by name"),
    ],
)
def test_preferences(weighted, expected):
    plugin = build(NodeAffinity, make_cache(NODES))
    assert scores(plugin, preferring(*weighted)) == dict(zip("abc", expected, strict=True))


def test_a_required_bound_that_is_not_a_number_matches_no_node():
    term = labels(expression("zone", "Exists"), expression("cores", "Lt", "many"))
    plugin = build(NodeAffinity, make_cache(NODES))
    assert verdicts(plugin, requiring(term)) == dict.fromkeys("abc", MISMATCH)
    assert verdicts(plugin, requiring(term, labels(expression("disk", "Exists"))))["a"] == ""


def test_a_preferred_bound_that_is_not_a_number_fails_the_attempt_and_names_the_field():
    pod = preferring((1, labels(expression("zone", "Exists"))), (1, labels(expression("cores", "Gt", "x"))))
    cache = make_cache(NODES)
    status = build(NodeAffinity, cache).pre_score(CycleState(), pod, Feasible(cache.table, np.arange(3)))
    assert status is not None
    assert status.code is Code.ERROR
    assert f"{PREFERRED}[1].preference.matchExpressions" in status.message


def test_scoring_is_skipped_without_preferences():
    plugin = build(NodeAffinity, make_cache(NODES))
    assert scores(plugin, pending(spec={"nodeSelector": {"zone": "z1"}})) is None


def test_added_preferences_are_added_to_the_pods_own():
    term = {"weight": 4, "preference": labels(expression("zone", "In", "z2"))}
    plugin = build(NodeAffinity, make_cache(NODES), {"addedAffinity": {PREFERRED: [term]}})
    assert scores(plugin, pending()) == {"a": 0, "b": 100, "c": 0}
    assert scores(plugin, preferring((2, labels(expression("disk", "Exists"))))) == {"a": 50, "b": 100, "c": 0}


@pytest.mark.parametrize(
    "added, where",
    [
        pytest.param(
            {REQUIRED: {"nodeSelectorTerms": [labels(expression("zone", "Inn", "z1"))]}},
            f"args.addedAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].operator",
            id="an operator that does not exist",
        ),
        pytest.param({"required": {}}, "args.addedAffinity.required", id="a field that does not exist"),
        pytest.param(
            {REQUIRED: {"nodeSelectorTerms": [{"matchLabels": {}}]}},
            f"args.addedAffinity.{REQUIRED}.nodeSelectorTerms[0].matchLabels",
            id="a field of a term that does not exist",
        ),
        pytest.param(
            {PREFERRED: [{"weight": 2**31, "preference": labels(expression("zone", "Exists"))}]},
            f"args.addedAffinity.{PREFERRED}[0].weight",
            id="a weight of more than 32 bits",
        ),
        pytest.param(
            {PREFERRED: [{"weight": 1, "preference": labels(expression("cores", "Gt", "x"))}]},
            f"args.addedAffinity.{PREFERRED}[0].preference.matchExpressions[0].values",
            id="a bound that is not a number",
        ),
    ],
)
def test_bad_added_affinity_is_refused_with_its_field(added, where):
    with pytest.raises(ArgsError) as error:
        build(NodeAffinity, make_cache(), {"addedAffinity": added})
    assert error.value.where == where


@pytest.mark.parametrize(
    "before, after, expected",
    [
        pytest.param(None, {"zone": "z1"}, Hint.QUEUE, id="a new node that matches helps"),
        pytest.param(None, {"zone": "z2"}, Hint.SKIP, id="a new node that does not match does not help"),
        pytest.param({}, {"zone": "z1"}, Hint.QUEUE, id="a node that started to match helps"),
        pytest.param(
            {"zone": "z1"}, {"zone": "z1", "x": "y"}, Hint.SKIP, id="a node that matched before does not help"
        ),
    ],
)
def test_node_hint(before, after, expected):
    hint = build(NodeAffinity, make_cache()).hints()[0].function
    pod = parse_pod(make_pod(spec={"nodeSelector": {"zone": "z1"}}))
    old = None if before is None else parse_node(make_node("a", labels=before))
    assert hint(pod, old, parse_node(make_node("a", labels=after))) is expected


def test_node_hint_checks_added_affinity_too():
    hint = build(NodeAffinity, make_cache(), ADDED).hints()[0].function
    pod = parse_pod(make_pod())
    assert hint(pod, None, parse_node(make_node("a"))) is Hint.SKIP
    assert hint(pod, None, parse_node(make_node("a", labels={"zone": "z"}))) is Hint.QUEUE
