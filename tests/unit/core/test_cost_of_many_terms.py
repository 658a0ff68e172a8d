"""The cost of a pod with many terms or constraints: functions called and rows computed grow in proportion to it, and
not with its square.

Array operations are calls, too. A call may take longer on a larger cluster, but not on a larger pod.
"""

from __future__ import annotations

import random
import time

import pytest

from podwright.api.kube_scheduler_configuration import default_profile
from podwright.core.cycle import schedule
from podwright.core.framework.cluster_events import Hint
from podwright.core.framework.framework import Framework
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins import PLUGINS
from podwright.core.plugins.affinity.inter_pod_affinity import InterPodAffinity
from podwright.core.plugins.spread.pod_topology_spread import PodTopologySpread
from podwright.core.state.podindex.matches import MAX_COUNTERS_PER_CLASS
from podwright.simulator.world import World
from support.costs.call_counts import calls_of
from support.objects.builders import make_node, make_pod
from support.plugins.kit import build

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
FEW, MANY = 30, 300
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def not_in(number):
    return {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [f"none-{number}"]}]}


def term(number, key=HOSTNAME):
    return {"topologyKey": key, "namespaceSelector": {}, "labelSelector": not_in(number)}


def many_requirements(count):
    """One term."""
    expressions = [{"key": "id", "operator": "NotIn", "values": [f"none-{n}"]} for n in range(count)]
    terms = [{"topologyKey": HOSTNAME, "namespaceSelector": {}, "labelSelector": {"matchExpressions": expressions}}]
    return {"affinity": {"podAntiAffinity": {REQUIRED: terms}}}


def required(kind, key=HOSTNAME):
    return lambda count: {"affinity": {kind: {REQUIRED: [term(n, key.format(n)) for n in range(count)]}}}


def preferred(kind, key=HOSTNAME):
    return lambda count: {
        "affinity": {
            kind: {PREFERRED: [{"weight": 1, "podAffinityTerm": term(n, key.format(n))} for n in range(count)]}
        }
    }


def constraints(action, key, selector=lambda _number: {"matchLabels": {"app": "a"}}, **more):
    return lambda count: {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": key.format(n),
                "whenUnsatisfiable": action,
                "labelSelector": selector(n),
                **more,
            }
            for n in range(count)
        ]
    }


HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
POLICIES = {"nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor", "minDomains": 2}
SPECS = [
    pytest.param(constraints(HARD, "own-{}"), id="hard constraints with keys that no node has"),
    pytest.param(constraints(SOFT, "own-{}"), id="soft constraints with keys that no node has"),
    pytest.param(constraints(HARD, "rack-{}"), id="hard constraints with keys that all nodes have"),
    pytest.param(constraints(HARD, "rack-{}", **POLICIES), id="hard constraints with inclusion policies"),
    pytest.param(constraints(SOFT, "rack-{}"), id="soft constraints with keys that all nodes have"),
    pytest.param(constraints(HARD, "rack-{}", not_in), id="hard constraints with selectors of their own"),
    pytest.param(constraints(SOFT, ZONE, not_in), id="soft constraints with one key"),
    pytest.param(required("podAntiAffinity"), id="required anti-affinity terms"),
    pytest.param(required("podAntiAffinity", "own-{}"), id="required anti-affinity terms with keys that no node has"),
    pytest.param(
        required("podAntiAffinity", "rack-{}"), id="required anti-affinity terms with keys that all nodes have"
    ),
    pytest.param(many_requirements, id="one anti-affinity term with many requirements"),
    pytest.param(required("podAffinity"), id="required affinity terms"),
    pytest.param(preferred("podAffinity"), id="preferred affinity terms"),
    pytest.param(preferred("podAntiAffinity", ZONE), id="preferred anti-affinity terms"),
    pytest.param(preferred("podAffinity", "rack-{}"), id="preferred affinity terms with keys that all nodes have"),
]


def cluster(*, racks=MANY, pods=160, requests=None):
    """20 nodes with a label `rack-N` for each N below `racks`, and pods with 40 sets of labels in 4 namespaces."""
    world = World(clock=time.time)
    for i in range(20):
        labels = {HOSTNAME: f"n{i}", ZONE: f"z{i % 3}", **{f"rack-{n}": f"r{i % 5}" for n in range(racks)}}
        world.fill(
            {"nodes": [make_node(f"n{i}", labels=labels, allocatable={"cpu": "4", "memory": "8Gi", "pods": "110"})]}
        )
    for i in range(pods):
        raw = make_pod(
            f"p{i}",
            namespace=f"ns-{i % 4}",
            labels={"app": "abcd"[i % 4], "id": str(i % 40)},
            node=f"n{i % 20}",
            requests=requests,
        )
        world.set_pod(raw)
    framework = Framework(default_profile("podwright", PLUGINS, world.features), PLUGINS, world)
    return world, lambda pod: schedule(framework, world.cache, pod, random.Random(7).randrange)


@pytest.mark.parametrize("spec", SPECS)
def test_ten_times_the_terms_cost_at_most_ten_times_the_calls(spec):
    _, decide = cluster()
    decide(parse_pod(make_pod("first", labels={"app": "a"})))

    def calls(count):
        return calls_of(lambda: decide(parse_pod(make_pod(f"pod-{count}", labels={"app": "a"}, spec=spec(count)))))

    few, many = calls(FEW), calls(MANY)
    assert many <= 10 * few
    assert calls(MANY) <= many


@pytest.mark.parametrize("spec", SPECS)
def test_a_pod_with_many_terms_leaves_nothing_that_other_pods_pay_for(spec):
    world, decide = cluster()
    other = parse_pod(make_pod("other", labels={"app": "b"}, node="n3"))

    def coming_and_going():
        world.cache.set_pod(other)
        world.cache.remove_pod(other.uid)

    decide(parse_pod(make_pod("first", labels={"app": "a"}, spec=spec(1))))
    coming_and_going()
    before = calls_of(coming_and_going)
    decide(parse_pod(make_pod("large", labels={"app": "a"}, spec=spec(MANY))))
    coming_and_going()
    assert calls_of(coming_and_going) <= before + 40  # one row more, and not one counter for each term


def test_many_pods_with_a_few_broad_terms_cost_other_pods_little():
    world, decide = cluster()

    def coming_and_going(number):
        raw = make_pod("other", labels={"app": "b", "own": str(number)}, node="n3")
        world.cache.set_pod(parse_pod(raw))
        world.cache.remove_pod("default/other")

    coming_and_going(0)
    before = calls_of(lambda: coming_and_going(1))
    for first in range(0, 480, 12):
        terms = [{"weight": 1, "podAffinityTerm": term(number)} for number in range(first, first + 12)]
        spec = {"affinity": {"podAffinity": {PREFERRED: terms}}}
        decide(parse_pod(make_pod(f"broad-{first}", labels={"app": "a"}, spec=spec)))
    coming_and_going(2)
    counted = MAX_COUNTERS_PER_CLASS
    assert len(world.cache.pods_index.matches) <= counted
    assert calls_of(lambda: coming_and_going(3)) <= before + 40 * counted


def in_own(number):
    return {"matchLabels": {"app": f"none-{number}"}}


def apart(count):
    terms = [{**term(n), "labelSelector": in_own(n)} for n in range(count)]
    return {"affinity": {"podAntiAffinity": {REQUIRED: terms}}}


def near_all_but_the_last(count):
    terms = [term(n) for n in range(count)] + [{**term(0), "labelSelector": in_own(0)}]
    return {"affinity": {"podAffinity": {REQUIRED: terms}}}


@pytest.mark.parametrize("count", [FEW, MANY])
@pytest.mark.parametrize(
    "plugin, spec",
    [
        pytest.param(InterPodAffinity, apart, id="anti-affinity terms, none of which matches"),
        pytest.param(InterPodAffinity, near_all_but_the_last, id="affinity terms, all but one of which match"),
        pytest.param(PodTopologySpread, constraints(HARD, "rack-{}", in_own), id="constraints, none of which matches"),
    ],
)
def test_events_for_a_waiting_pod_with_many_terms_take_few_calls(plugin, spec, count):
    world, _ = cluster(pods=0)
    built = build(plugin, world.cache)
    hint = built.hints()[0].function
    waiting = parse_pod(make_pod("waiting", labels={"app": "a"}, spec=spec(count)))
    first, then = [parse_pod(make_pod(f"p{n}", labels={"app": "b", "id": str(n)}, node="n0")) for n in range(2)]
    for before, after in ((first, None), (None, first)):
        assert hint(waiting, before, after) is Hint.SKIP
    assert calls_of(lambda: hint(waiting, then, None)) < 60
    assert calls_of(lambda: hint(waiting, None, then)) < 60


def test_the_deletion_of_a_pod_with_many_terms_takes_few_calls_for_each_waiting_pod():
    world, _ = cluster(pods=0)
    hint = build(InterPodAffinity, world.cache).hints()[0].function
    deleted = parse_pod(make_pod("deleted", labels={"app": "b"}, node="n0", spec=apart(MANY)))
    waiting = [parse_pod(make_pod(f"p{n}", labels={"app": "a", "id": str(n)}, spec=apart(1))) for n in range(11)]
    hint(waiting.pop(), deleted, None)
    assert calls_of(lambda: [hint(pod, deleted, None) for pod in waiting]) < 10 * 60


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(required("podAntiAffinity"), id="required anti-affinity terms"),
        pytest.param(required("podAffinity", ZONE), id="required affinity terms"),
        pytest.param(many_requirements, id="one anti-affinity term with many requirements"),
        pytest.param(constraints(HARD, "rack-{}", not_in), id="hard constraints with selectors of their own"),
    ],
)
def test_preemption_compares_pods_with_the_same_labels_once(spec):
    _, decide = cluster(requests={"cpu": "500m"})

    def calls(count):
        raw = make_pod(f"preemptor-{count}", labels={"app": "a"}, spec=spec(count), requests={"cpu": "1"}, priority=10)
        decision = None

        def run():
            nonlocal decision
            decision = decide(parse_pod(raw))

        found = calls_of(run)
        assert decision.victims
        return found

    few, many = calls(FEW), calls(MANY)
    assert many - few <= 9 * few
    pods = 160
    assert many <= pods * 500 + MANY * 300


def test_a_placed_term_with_many_requirements_is_not_evaluated_one_by_one():
    world, decide = cluster()
    world.set_pod(make_pod("placed", labels={"app": "b"}, node="n0", spec=many_requirements(2 * 1024)))
    others = [parse_pod(make_pod(f"other-{n}", labels={"app": "a", "own": str(n)})) for n in range(2)]
    decide(others[0])
    assert calls_of(lambda: decide(others[1])) < 1500
