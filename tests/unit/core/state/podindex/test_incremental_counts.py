"""The incremental counts of placed pods equal a recount after any sequence of changes."""

import contextlib

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from podwright.core.framework.interface import CycleState, Feasible
from podwright.core.framework.status import SKIP
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins.affinity.inter_pod_affinity import InterPodAffinity
from podwright.core.plugins.spread.pod_topology_spread import PodTopologySpread
from podwright.core.state.cache import Cache
from podwright.core.state.podindex import matches, pod_columns, selector_rows, term_rows, terms
from podwright.core.state.podindex import pod_index as index
from support.objects.builders import make_namespace, make_node, make_pod, make_taint
from support.plugins.kit import build, pending
from support.properties import examples
from support.state.recount import (
    HOSTNAME,
    affinity_scores,
    affinity_verdicts,
    rules_of,
    spread_scores,
    spread_verdicts,
    world_of,
)

ZONE = "zone"
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"

NAMES = st.sampled_from([f"n{i}" for i in range(6)])
NAMESPACES = st.sampled_from(["default", "other", "unknown"])
KEYS = st.sampled_from([HOSTNAME, ZONE, "rack"])
POD_LABELS = st.fixed_dictionaries(
    {}, optional={"app": st.sampled_from(["a", "b"]), "tier": st.sampled_from(["x", "y"]), "rev": st.just("1")}
)
EXPRESSIONS = st.one_of(
    st.builds(
        lambda k, o, v: {"key": k, "operator": o, "values": v},
        st.sampled_from(["app", "tier"]),
        st.sampled_from(["In", "NotIn"]),
        st.lists(st.sampled_from(["a", "b", "x"]), min_size=1, max_size=2, unique=True),
    ),
    st.builds(
        lambda k, o: {"key": k, "operator": o},
        st.sampled_from(["app", "tier"]),
        st.sampled_from(["Exists", "DoesNotExist"]),
    ),
)
SELECTORS = st.one_of(
    st.sampled_from([{"matchLabels": {"app": "a"}}, {"matchLabels": {"app": "a", "tier": "x"}}]),
    st.builds(lambda e: {"matchExpressions": e}, st.lists(EXPRESSIONS, min_size=1, max_size=2)),
    st.sampled_from([{}, None]),
)
TERMS = st.builds(
    lambda selector, key, more: {
        "topologyKey": key,
        **({} if selector is None else {"labelSelector": selector}),
        **more,
    },
    SELECTORS,
    KEYS,
    st.one_of(
        st.just({}),
        st.sampled_from(
            [
                {"namespaces": ["other"]},
                {"namespaces": ["default", "other"]},
                {"namespaceSelector": {}},
                {"namespaceSelector": {"matchLabels": {"team": "x"}}},
                {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}},
                {"namespaces": ["unknown"], "namespaceSelector": {"matchLabels": {"team": "y"}}},
            ]
        ),
    ),
)
WEIGHTED = st.builds(lambda w, t: {"weight": w, "podAffinityTerm": t}, st.integers(1, 100), TERMS)
AFFINITY = st.fixed_dictionaries(
    {},
    optional={
        "requiredDuringSchedulingIgnoredDuringExecution": st.lists(TERMS, max_size=3),
        "preferredDuringSchedulingIgnoredDuringExecution": st.lists(WEIGHTED, max_size=3),
    },
)
CONSTRAINTS = st.builds(
    lambda key, skew, action, selector, more: {
        "topologyKey": key,
        "maxSkew": skew,
        "whenUnsatisfiable": action,
        **({} if selector is None else {"labelSelector": selector}),
        **more,
    },
    KEYS,
    st.integers(1, 2),
    st.sampled_from([HARD, SOFT]),
    SELECTORS,
    st.fixed_dictionaries(
        {},
        optional={
            "minDomains": st.integers(1, 4),
            "nodeAffinityPolicy": st.sampled_from(["Honor", "Ignore"]),
            "nodeTaintsPolicy": st.sampled_from(["Honor", "Ignore"]),
            "matchLabelKeys": st.sampled_from([["rev"], ["tier", "rev"]]),
        },
    ),
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "affinity": st.fixed_dictionaries({}, optional={"podAffinity": AFFINITY, "podAntiAffinity": AFFINITY}),
        "topologySpreadConstraints": st.lists(CONSTRAINTS, min_size=1, max_size=3),
        "nodeSelector": st.sampled_from([{ZONE: "z1"}, {"disk": "ssd"}]),
        "tolerations": st.just([{"key": "dedicated", "operator": "Exists"}]),
    },
)
NODES = st.builds(
    lambda name, labels, hostname, tainted: make_node(
        name,
        labels={**labels, **({HOSTNAME: name} if hostname else {})},
        taints=[make_taint("dedicated")] if tainted else [],
    ),
    NAMES,
    st.fixed_dictionaries(
        {},
        optional={
            ZONE: st.sampled_from(["z1", "z2", ""]),
            "rack": st.sampled_from(["r1", "r2", "r3"]),
            "disk": st.just("ssd"),
        },
    ),
    st.sampled_from([True, True, True, False]),
    st.booleans(),
)
NUMBERS = st.integers(0, 9)


class Counts(RuleBasedStateMachine):
    """A cache in which nodes, pods and namespaces are added, changed and removed between decisions."""

    counters = None
    summed = 512
    threshold = 32
    few_classes = 128
    unused = 4096
    candidates = 256
    few_selectors = 16
    per_class = 32
    few_changes = 16
    noted = 32_768

    def __init__(self):
        super().__init__()
        self.stack = contextlib.ExitStack()
        patch = self.stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(terms, "MAX_SUMMED", self.summed)
        if self.counters is not None:
            patch.setattr(matches, "max_counters", lambda _nodes: self.counters)
        patch.setattr(index, "COMBINE_THRESHOLD", self.threshold)
        patch.setattr(matches, "FEW_CLASSES", self.few_classes)
        patch.setattr(matches, "UNUSED_CHANGES", self.unused)
        patch.setattr(matches, "FEW_CHANGES", self.few_changes)
        patch.setattr(matches, "MAX_NOTED", self.noted)
        patch.setattr(matches, "MAX_CANDIDATES", 2 * self.per_class)
        patch.setattr(matches, "MAX_COUNTERS_PER_CLASS", self.per_class)
        patch.setattr(pod_columns, "UNUSED_CHANGES", self.unused)
        patch.setattr(term_rows, "UNUSED_CHANGES", self.unused)
        patch.setattr(terms, "MANY_CANDIDATES", self.candidates)
        patch.setattr(selector_rows, "MANY_SELECTORS", self.few_selectors)
        self.cache = Cache()
        self.decided = None
        self.spread = build(PodTopologySpread, self.cache)
        self.affinity = build(InterPodAffinity, self.cache, {"hardPodAffinityWeight": 3})
        for i in range(4):
            labels = {HOSTNAME: f"n{i}", ZONE: f"z{i % 2 + 1}", "rack": f"r{i % 3 + 1}"}
            self.cache.set_node(parse_node(make_node(f"n{i}", labels=labels)))

    def teardown(self):
        self.stack.close()

    @rule(node=NODES)
    def node_set(self, node):
        self.cache.set_node(parse_node(node))

    @rule(name=NAMES, key=st.sampled_from([ZONE, "rack", "other"]), value=st.sampled_from(["z1", "r1", "new", None]))
    def label_flaps(self, name, key, value):
        info = self.cache.nodes.get(name)
        if info is not None and info.node is not None:
            labels = {**info.node.labels, key: value}
            labels = {each: value for each, value in labels.items() if value is not None}
            self.cache.set_node(parse_node(make_node(name, labels=labels)))

    @rule(name=NAMES)
    def node_removed(self, name):
        self.cache.remove_node(name)

    @rule(number=NUMBERS, node=NAMES, namespace=NAMESPACES, labels=POD_LABELS, spec=SPECS, terminating=st.booleans())
    def pod_set(self, number, node, namespace, labels, spec, terminating):
        metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if terminating and number < 3 else {}
        raw = make_pod(f"p{number}", namespace=namespace, labels=labels, node=node, metadata=metadata)
        self.cache.set_pod(parse_pod({**raw, "spec": {**raw["spec"], **spec}}))

    @rule(number=NUMBERS, node=NAMES, namespace=NAMESPACES, labels=POD_LABELS, spec=SPECS)
    def pod_assumed(self, number, node, namespace, labels, spec):
        pod = pending(name=f"a{number}", namespace=namespace, labels=labels, spec=spec)
        if self.cache.is_assumed(pod.uid):
            self.cache.forget(pod.uid)
        else:
            self.cache.assume(pod, node)

    @rule(number=NUMBERS, namespace=NAMESPACES)
    def pod_removed(self, number, namespace):
        self.cache.remove_pod(f"{namespace}/p{number}")

    @rule(name=st.sampled_from(["default", "other"]), labels=st.sampled_from([{}, {"team": "x"}, {"team": "y"}]))
    def namespace_set(self, name, labels):
        self.cache.set_object("Namespace", make_namespace(name, labels))

    @rule(name=st.sampled_from(["default", "other"]))
    def namespace_removed(self, name):
        self.cache.remove_object("Namespace", name)

    @rule(namespace=NAMESPACES, labels=POD_LABELS, spec=SPECS, mask=st.integers(1, 63), data=st.data())
    def decision(self, namespace, labels, spec, mask, data):
        self.decided = namespace, labels, spec
        self.decide(namespace, labels, spec, mask, data)

    @precondition(lambda self: self.decided is not None)
    @rule(mask=st.integers(1, 63), data=st.data())
    def decision_about_another_pod_of_the_template(self, mask, data):
        self.decide(*self.decided, mask, data)

    def decide(self, namespace, labels, spec, mask, data):
        pod = pending(name="new", namespace=namespace, labels=labels, spec=spec)
        world = world_of(self.cache)
        hard = rules_of(pod, hard=True)
        self.filtered(self.spread, pod, lambda w: spread_verdicts(w, pod, hard), skipped=not hard, data=data)
        self.filtered(self.affinity, pod, lambda w: affinity_verdicts(w, pod), skipped=None, data=data)
        rows = [int(slot) for slot in np.flatnonzero(self.cache.table.valid) if mask >> (slot % 6) & 1]
        if rows:
            soft = rules_of(pod, hard=False)
            names = [self.cache.table.names[row] for row in rows]
            self.scored(self.spread, pod, rows, spread_scores(world, pod, soft, names) if soft else None)
            self.scored(self.affinity, pod, rows, affinity_scores(world, pod, names, hard_weight=3))

    def filtered(self, plugin, pod, verdicts_in, *, skipped, data):
        world, state = world_of(self.cache), CycleState()
        expected = verdicts_in(world)
        answer = plugin.pre_filter(state, pod)
        if answer is SKIP:
            assert skipped is not False
            assert not any(expected.values())
            return
        assert not skipped
        self.agree(plugin, pod, state, expected)
        dry = state.clone()
        placed = [(name, other) for name, (_, pods) in world.nodes.items() for other in pods if not other.terminating]
        # In dry runs kube-scheduler lets an empty selector count pods that it does not count otherwise.
        counts_differ = plugin is self.spread and any(rule.counts_none for rule in rules_of(pod, hard=True))
        if placed and not counts_differ:
            name, victim = data.draw(st.sampled_from(placed))
            node = self.cache.nodes[name]
            plugin.remove_pod(dry, pod, victim, node)
            self.agree(plugin, pod, dry, verdicts_in(world.without(victim)))
            again = dry.clone()
            plugin.add_pod(again, pod, victim, node)
            self.agree(plugin, pod, again, expected)
            plugin.add_pod(again, pod, victim, node)
            self.agree(plugin, pod, again, verdicts_in(world.having(victim, name)))
            self.agree(plugin, pod, dry, verdicts_in(world.without(victim)))
        self.agree(plugin, pod, state, expected)

    def agree(self, plugin, pod, state, expected):
        result = plugin.filter_all(state, pod, self.cache.table)
        for name, reason in expected.items():
            node = self.cache.nodes[name]
            status = plugin.filter(state, pod, node)
            assert ("" if status is None else status.message) == reason
            if result is None or result.ok[node.slot]:
                assert status is None
            else:
                codes, statuses = result.explain()
                assert statuses[codes[node.slot]] == status

    def scored(self, plugin, pod, rows, expected):
        state = CycleState()
        feasible = Feasible(self.cache.table, np.array(rows, np.intp))
        if plugin.pre_score(state, pod, feasible) is SKIP:
            assert expected is None
            return
        assert expected is not None
        raw = plugin.score_all(state, pod, feasible)
        assert raw.tolist() == [plugin.score(state, pod, self.cache.node_at(row)) for row in rows]
        normal = np.broadcast_to(plugin.normalize(state, pod, raw, feasible), len(rows))
        assert normal.tolist() == [expected[self.cache.table.names[row]] for row in rows]


class CountsWithLowLimits(Counts):
    """The same with very low limits, so that counts are dropped and computed again, or not kept at all."""

    counters = 5
    summed = 1
    threshold = 2
    few_classes = 0
    unused = 3
    candidates = 0
    few_selectors = 1
    per_class = 1
    few_changes = 0
    noted = 3


TestCounts = Counts.TestCase
TestCounts.settings = settings(deadline=None, max_examples=examples(25), stateful_step_count=30)
TestCountsWithLowLimits = CountsWithLowLimits.TestCase
TestCountsWithLowLimits.settings = settings(deadline=None, max_examples=examples(25), stateful_step_count=30)
