"""Vectorised and per-node results agree, after any history of the nodes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podwright.core.framework.interface import CycleState, FilterPlugin, ScorePlugin
from podwright.core.framework.status import Status
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins import PLUGINS
from podwright.core.state.cache import Cache
from support.objects.builders import make_node, make_pod, make_taint
from support.plugins.kit import build, pending, pre_filter, raw_scores, verdicts
from support.properties import examples

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NAMES = st.sampled_from(["n0", "n1", "n2", "n3", "n4", "n5"])
KEYS = st.sampled_from(["k", "l"])
VALUES = st.sampled_from(["1", "2", "3", "x"])
EFFECTS = st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])
IMAGES = st.sampled_from(["app:latest", "app:v1", "tool:v2"])
FEATURES = st.sampled_from(["RestartAllContainersOnContainerExits", "VolumeBindMountOptions"])
PORTS = st.builds(
    lambda ip, protocol, port: {"hostIP": ip, "protocol": protocol, "hostPort": port},
    st.sampled_from(["", "0.0.0.0", "::", "10.0.0.1"]),
    st.sampled_from(["TCP", "UDP"]),
    st.sampled_from([80, 81]),
)

nodes = st.builds(
    make_node,
    NAMES,
    labels=st.dictionaries(KEYS, VALUES),
    taints=st.lists(st.builds(make_taint, KEYS, VALUES, EFFECTS), max_size=2),
    unschedulable=st.booleans(),
    images=st.lists(
        st.builds(lambda n, s: {"names": [n], "sizeBytes": s << 20}, IMAGES, st.integers(0, 2000)), max_size=3
    ),
    declared_features=st.lists(FEATURES, unique=True),
)
expressions = st.one_of(
    st.builds(
        lambda k, o, v: {"key": k, "operator": o, "values": v},
        KEYS,
        st.sampled_from(["In", "NotIn"]),
        st.lists(VALUES, min_size=1, unique=True),
    ),
    st.builds(lambda k, o: {"key": k, "operator": o}, KEYS, st.sampled_from(["Exists", "DoesNotExist"])),
    st.builds(
        lambda k, o, v: {"key": k, "operator": o, "values": [v]},
        KEYS,
        st.sampled_from(["Gt", "Lt"]),
        st.sampled_from(["1", "2"]),
    ),
)
fields = st.builds(
    lambda o, v: {"key": "metadata.name", "operator": o, "values": [v]}, st.sampled_from(["In", "NotIn"]), NAMES
)
terms = st.fixed_dictionaries(
    {"matchExpressions": st.lists(expressions, max_size=2)}, optional={"matchFields": st.lists(fields, max_size=1)}
)
affinities = st.fixed_dictionaries(
    {},
    optional={
        REQUIRED: st.fixed_dictionaries({"nodeSelectorTerms": st.lists(terms, min_size=1, max_size=2)}),
        PREFERRED: st.lists(st.fixed_dictionaries({"weight": st.integers(1, 100), "preference": terms}), max_size=2),
    },
)
tolerations = st.one_of(
    st.builds(lambda k: {"key": k, "operator": "Exists"}, KEYS),
    st.builds(lambda k, v, e: {"key": k, "value": v, "effect": e}, KEYS, VALUES, EFFECTS),
    st.just({"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}),
)
specs = st.fixed_dictionaries(
    {
        "containers": st.lists(
            st.fixed_dictionaries(
                {"name": st.just("c"), "image": st.sampled_from(["app", "app:v1", "tool:v2"])},
                optional={
                    "ports": st.lists(PORTS, max_size=2),
                    "restartPolicyRules": st.just([{"action": "RestartAllContainers"}]),
                },
            ),
            min_size=1,
            max_size=2,
        )
    },
    optional={
        "nodeName": NAMES,
        "nodeSelector": st.dictionaries(KEYS, VALUES, max_size=1),
        "affinity": st.builds(lambda a: {"nodeAffinity": a}, affinities),
        "tolerations": st.lists(tolerations, max_size=2),
    },
)
changes = st.lists(
    st.one_of(
        st.tuples(st.just("node"), nodes),
        st.tuples(st.just("gone"), NAMES),
        st.tuples(
            st.just("pod"),
            st.builds(lambda n, i, s: make_pod(f"p{i}", spec={**s, "nodeName": n}), NAMES, st.integers(0, 4), specs),
        ),
        st.tuples(st.just("pod gone"), st.integers(0, 4)),
    ),
    min_size=1,
    max_size=8,
)

CHECKED = (
    "NodeName",
    "NodeUnschedulable",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "ImageLocality",
    "NodeDeclaredFeatures",
    "DynamicResources",
)
ADDED = {
    "addedAffinity": {
        REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "Exists"}]}]},
        PREFERRED: [
            {"weight": 7, "preference": {"matchExpressions": [{"key": "l", "operator": "In", "values": ["1", "x"]}]}}
        ],
    }
}


def change(cache, what, value):
    match what:
        case "node":
            cache.set_node(parse_node(value))
        case "gone":
            cache.remove_node(value)
        case "pod":
            cache.set_pod(parse_pod(value))
        case "pod gone":
            cache.remove_pod(f"default/p{value}")


@pytest.mark.parametrize(
    "name, args",
    [*(pytest.param(name, None, id=name) for name in CHECKED), pytest.param("NodeAffinity", ADDED, id="addedAffinity")],
)
@given(first=st.lists(nodes, max_size=6), later=changes, pods=st.lists(specs, min_size=1, max_size=3))
@settings(deadline=None, max_examples=examples(60))
def test_vectorised_results_equal_per_node_results(name, args, first, later, pods):
    cache = Cache()
    for node in first:
        cache.set_node(parse_node(node))
    plugin = build(PLUGINS[name], cache, args)
    asking = [pending(spec=spec) for spec in pods]
    for what, value in (("", None), *later):
        change(cache, what, value)
        for pod in asking:
            answer = pre_filter(plugin, pod, CycleState())
            if isinstance(plugin, FilterPlugin) and not (isinstance(answer, Status) and answer.rejected):
                verdicts(plugin, pod)
            if isinstance(plugin, ScorePlugin):
                raw_scores(plugin, pod)
