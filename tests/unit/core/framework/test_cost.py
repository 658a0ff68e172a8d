"""Which pods are far more costly than ordinary ones, and why, by their size alone."""

from __future__ import annotations

import pytest

from podwright.api.kube_scheduler_configuration import convert_profile
from podwright.core.framework.cost import ORDINARY, Cost, is_costly_group
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import Plugin, PostBindPlugin
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins import PLUGINS
from podwright.simulator.world import World
from support.hostile import objects
from support.objects.builders import make_pod
from support.queue.kit import default_framework


def cost(spec, **options):
    return default_framework().estimate(parse_pod(make_pod("a", spec=spec, **options)))


KINDS = [
    pytest.param(objects.spread_constraints, "PodTopologySpread", "topology spread constraints", id="spread constraints"),
    pytest.param(objects.required_anti_affinity, "InterPodAffinity", "pod affinity and anti-affinity terms", id="required terms"),
    pytest.param(objects.preferred_affinity, "InterPodAffinity", "pod affinity and anti-affinity terms", id="preferred terms"),
    pytest.param(objects.node_selector, "NodeAffinity", "node selector keys and node affinity requirements", id="selector keys"),
    pytest.param(objects.node_affinity_terms, "NodeAffinity", "node selector keys and node affinity requirements", id="node terms"),
    pytest.param(objects.preferred_node_terms, "NodeAffinity", "node selector keys and node affinity requirements", id="preferred node terms"),
    pytest.param(objects.match_fields_not_in, "NodeAffinity", "node selector keys and node affinity requirements", id="names of nodes"),
    pytest.param(objects.extended_resources, "NodeResourcesFit", "requested resources", id="resources"),
    pytest.param(objects.many_tolerations, "TaintToleration", "tolerations", id="tolerations"),
    pytest.param(objects.volumes, "VolumeBinding", "volumes", id="volumes"),
    pytest.param(objects.host_ports, "NodePorts", "host ports", id="host ports"),
    pytest.param(objects.resource_claims, "DynamicResources", "resource claims", id="resource claims"),
    pytest.param(objects.containers, "ImageLocality", "images", id="images"),
]  # fmt: skip


@pytest.mark.parametrize("make, plugin, items", KINDS)
def test_a_pod_with_thousands_of_items_is_costly_and_the_reason_is_named(make, plugin, items):
    found = cost(make(10_000))
    assert (found.plugin, found.count, found.items) == (plugin, 10_000, items)


@pytest.mark.parametrize("make, plugin, items", KINDS)
def test_a_pod_with_a_few_items_is_ordinary(make, plugin, items):
    assert cost(make(ORDINARY), priority=1000) is None


def test_the_label_requirements_of_one_term_count():
    expressions = [{"key": f"key-{i}", "operator": "Exists"} for i in range(5_000)]
    term = {"topologyKey": "zone", "labelSelector": {"matchExpressions": expressions}}
    found = cost({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
    assert (found.plugin, found.count) == ("InterPodAffinity", 5_000)


MANY_VALUES = [f"v{i}" for i in range(50_000)]
SELECTOR = {"matchExpressions": [{"key": "app", "operator": "In", "values": MANY_VALUES}]}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
OF_TERMS = ("InterPodAffinity", "label values and namespaces of pod affinity terms")


@pytest.mark.parametrize(
    "spec, reason",
    [
        ({"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "zone", "labelSelector": SELECTOR}]}}}, OF_TERMS),
        ({"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": "zone", "namespaceSelector": SELECTOR}]}}}, OF_TERMS),
        ({"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": "zone", "namespaces": MANY_VALUES}]}}}, OF_TERMS),
        (
            {"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": SELECTOR}]},
            ("PodTopologySpread", "label values of topology spread constraints"),
        ),
        (
            {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [SELECTOR]}}}},
            ("NodeAffinity", "values of node affinity requirements"),
        ),
    ],
    ids=["labels", "namespace labels", "namespaces", "spread", "nodes"],
)  # fmt: skip
def test_the_values_of_one_requirement_count(spec, reason):
    found = cost(spec)
    assert (found.plugin, found.items) == reason
    assert 0 <= found.count - len(MANY_VALUES) <= 1  # a term without namespaces has that of its pod


def test_a_pod_that_may_preempt_costs_more():
    spec = objects.required_anti_affinity(100)
    alone = cost(spec).seconds
    assert cost(spec, priority=1000).seconds > alone
    assert cost(spec, priority=1000).elsewhere == alone
    assert cost({**spec, "preemptionPolicy": "Never"}, priority=1000).seconds == alone


def test_the_parts_of_a_pod_add_up_and_the_largest_is_named():
    spec = {**objects.spread_constraints(200), **objects.required_anti_affinity(400)}
    found = cost(spec)
    assert (found.plugin, found.count) == ("InterPodAffinity", 400)
    assert found.seconds > cost(objects.required_anti_affinity(400)).seconds


def group(count, terms, *, alike=False, **options):
    """True if the group of that many members is costly. Each has that many pod affinity terms."""
    members = (
        parse_pod(make_pod(f"m-{n}", spec=_terms(0 if alike else n, terms), labels={"index": str(n)}, **options))
        for n in range(count)
    )
    return is_costly_group(members, default_framework().costs)


def _terms(owner, count):
    terms = [
        {"topologyKey": "zone", "labelSelector": {"matchLabels": {f"key-{i}": f"value-{owner}"}}} for i in range(count)
    ]
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


@pytest.mark.parametrize("count", [20, 100])
@pytest.mark.parametrize("terms", [0, 2, 6])
def test_ordinary_gangs_are_not_costly(count, terms):
    assert not group(count, terms, priority=1000)


def test_a_gang_of_many_members_that_are_alike_is_not_costly():
    assert not group(1_000, 6, alike=True, priority=1000)


def test_members_with_terms_of_their_own_make_a_gang_costly_together():
    assert group(1_000, 6)
    assert group(1_000, 1, priority=1000)
    assert group(300, 30, priority=1000)
    assert not group(300, 3)


def framework_with(costs):
    """The default profile with a third-party plugin, and the exceptions that are reported of it."""
    plugin = type("Labels", (Plugin, PostBindPlugin), {"name": "Labels", "post_bind": None, "costs": costs})
    classes = {**PLUGINS, "Labels": plugin}
    world, reported = World(), []
    profile = convert_profile({"plugins": {"postBind": {"enabled": [{"name": "Labels"}]}}}, "", classes, world.features)
    return Framework(profile, classes, world, report_exception=lambda *report: reported.append(report)), reported


MANY_LABELS = parse_pod(make_pod("a", labels={f"key-{i}": "" for i in range(1_000)}))


def test_a_third_party_plugin_names_what_makes_a_pod_costly():
    framework, _ = framework_with(lambda _self, pod: [Cost(len(pod.labels), "labels", 100e-6)])
    found = framework.estimate(MANY_LABELS)
    assert (found.plugin, found.count, found.items, found.seconds) == ("Labels", 1_000, "labels", pytest.approx(0.1))


@pytest.mark.parametrize(
    "costs",
    [
        pytest.param(lambda _self, pod: len(pod.labels) // 0, id="an exception"),
        pytest.param(lambda _self, pod: len(pod.labels), id="a number"),
        pytest.param(lambda _self, _pod: [Cost("many", "labels", 1.0)], id="a text for a number"),
    ],
)
def test_a_plugin_whose_costs_cannot_be_read_costs_nothing_and_is_reported(costs):
    framework, reported = framework_with(costs)
    assert framework.estimate(MANY_LABELS) is None
    assert [(plugin, point) for plugin, point, _ in reported] == [("Labels", "costs")]
