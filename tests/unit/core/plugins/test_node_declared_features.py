import pytest

from podwright.core.framework.cluster_events import Hint
from podwright.core.framework.status import SKIP
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins.node_declared_features import NodeDeclaredFeatures
from support.objects.builders import make_node, make_pod
from support.plugins.kit import build, make_cache, pending, pre_filter, verdicts

LACKING = "node(s) didn't match Pod's required features"
RESTART = {"containers": [{"name": "c", "restartPolicyRules": [{"action": "RestartAllContainers"}]}]}
MOUNT = {"containers": [{"name": "c", "volumeMounts": [{"name": "v", "bindMountOptions": ["noexec"]}]}]}


@pytest.mark.parametrize(
    "spec, needed",
    [
        pytest.param({}, set(), id="a plain pod needs nothing"),
        pytest.param(
            {"hostNetwork": True, "hostUsers": False}, {"UserNamespacesHostNetworkSupport"}, id="user namespaces"
        ),
        pytest.param({"hostNetwork": True}, set(), id="the host's network with the host's users"),
        pytest.param({"hostUsers": False}, set(), id="user namespaces in a network of its own"),
        pytest.param(RESTART, {"RestartAllContainersOnContainerExits"}, id="a rule that restarts all containers"),
        pytest.param(
            {"initContainers": RESTART["containers"]},
            {"RestartAllContainersOnContainerExits"},
            id="the same in an init container",
        ),
        pytest.param(
            {"containers": [{"name": "c", "restartPolicyRules": [{"action": "Restart"}]}]},
            set(),
            id="another restart rule",
        ),
        pytest.param(MOUNT, {"VolumeBindMountOptions"}, id="mount options"),
    ],
)
def test_what_a_pod_needs(spec, needed):
    assert pending(spec=spec).required_features == needed


def test_nodes_that_do_not_declare_the_feature_are_rejected():
    nodes = [make_node("a", declared_features=["RestartAllContainersOnContainerExits", "X"]), make_node("b")]
    plugin = build(NodeDeclaredFeatures, make_cache(nodes))
    assert verdicts(plugin, pending(spec=RESTART)) == {"a": "", "b": LACKING}
    assert verdicts(plugin, pending(spec={**RESTART, "hostNetwork": True, "hostUsers": False})) == {
        "a": LACKING,
        "b": LACKING,
    }


def test_a_pod_that_needs_nothing_skips_the_filter():
    assert pre_filter(build(NodeDeclaredFeatures, make_cache()), pending()) == SKIP


def test_with_the_gate_off_no_node_is_rejected():
    plugin = build(NodeDeclaredFeatures, make_cache(), gates={"NodeDeclaredFeatures": False})
    assert pre_filter(plugin, pending(spec=RESTART)) == SKIP
    assert plugin.hints() == ()


@pytest.mark.parametrize(
    "before, after, expected",
    [
        pytest.param(None, [], Hint.QUEUE, id="a new node"),
        pytest.param([], ["X"], Hint.QUEUE, id="a node that declares more"),
        pytest.param(["X"], ["X"], Hint.SKIP, id="a node that declares the same"),
    ],
)
def test_node_hint(before, after, expected):
    hint = build(NodeDeclaredFeatures, make_cache()).hints()[0].function
    old = None if before is None else parse_node(make_node("a", declared_features=before))
    assert hint(pending(), old, parse_node(make_node("a", declared_features=after))) is expected


def test_pod_hint():
    hint = build(NodeDeclaredFeatures, make_cache()).hints()[1].function
    needing = parse_pod(make_pod(spec=RESTART), keep_raw=True)
    assert hint(needing, needing, pending()) is Hint.QUEUE
    assert hint(needing, needing, needing) is Hint.SKIP
