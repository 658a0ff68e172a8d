import pytest

from podwright.core.framework.cluster_events import Hint
from podwright.core.plugins.volumes.volume_zone import VolumeZone
from support.objects.builders import make_node
from support.plugins.kit import build
from support.plugins.volumes import (
    BETA_ZONE,
    ZONE,
    asking,
    cluster,
    ephemeral,
    make_claim,
    make_class,
    make_volume,
    outcome,
    resolvable,
)

CONFLICT = "node(s) had no available volume zone"
REGION = "topology.kubernetes.io/region"
NODES = [
    make_node("z1", labels={ZONE: "z1", REGION: "r1"}),
    make_node("z2", labels={ZONE: "z2", REGION: "r1"}),
    make_node("old", labels={BETA_ZONE: "z1"}),
    make_node("torn", labels={BETA_ZONE: "z3", ZONE: "z4"}),
    make_node("plain", labels={"disk": "ssd"}),
    make_node("region", labels={REGION: "r1"}),
]


def fitting(labels):
    cache = cluster(
        NODES,
        PersistentVolume=[make_volume("pv", labels=labels, claim="claim")],
        PersistentVolumeClaim=[make_claim("claim", volume="pv")],
    )
    found = outcome(build(VolumeZone, cache), asking("claim"))
    if found == "Skip":
        return "Skip"
    assert set(found.values()) <= {"", CONFLICT}
    return {name for name, reason in found.items() if not reason}


@pytest.mark.parametrize(
    "labels, nodes",
    [
        pytest.param({ZONE: "z1"}, {"z1", "plain"}, id="a zone; a node without any zone or region label fits"),
        pytest.param({ZONE: "z1__z2"}, {"z1", "z2", "plain"}, id="a set of zones"),
        pytest.param({ZONE: "z1__ z2 "}, {"z1", "z2", "plain"}, id="blanks around zones do not count"),
        pytest.param({BETA_ZONE: "z1"}, {"z1", "old", "plain"}, id="an old label matches the node's new one"),
        pytest.param({BETA_ZONE: "z4"}, {"plain"}, id="an old label of the node takes precedence over its new one"),
        pytest.param({BETA_ZONE: "z3"}, {"torn", "plain"}, id="two old labels"),
        pytest.param({ZONE: "z1", REGION: "r2"}, {"plain"}, id="all labels must match"),
        pytest.param({REGION: "r1"}, {"z1", "z2", "region", "plain"}, id="a region"),
        pytest.param({ZONE: "z1____z2"}, "Skip", id="a set with an empty part is ignored"),
        pytest.param({ZONE: ""}, "Skip", id="an empty label is ignored"),
        pytest.param({"disk": "ssd"}, "Skip", id="other labels do not matter"),
    ],
)
def test_labels_of_the_volume(labels, nodes):
    assert fitting(labels) == nodes


def test_every_volume_counts():
    cache = cluster(
        NODES,
        PersistentVolume=[make_volume("one", labels={ZONE: "z1__z2"}), make_volume("two", labels={ZONE: "z2"})],
        PersistentVolumeClaim=[make_claim("a", volume="one"), make_claim("b", volume="two")],
    )
    plugin = build(VolumeZone, cache)

    found = outcome(plugin, asking("a", "b"))

    assert [name for name, reason in found.items() if not reason] == ["z2", "plain"]
    assert not resolvable(plugin, asking("a", "b"), "z1")


@pytest.mark.parametrize(
    "claims, answer",
    [
        pytest.param([], "Skip", id="no volumes"),
        pytest.param(["absent"], 'persistentvolumeclaim "absent" not found', id="a missing claim"),
        pytest.param([""], "PersistentVolumeClaim had no name", id="a claim without a name"),
        pytest.param(["waiting"], "Skip", id="a claim that waits for its first consumer"),
        pytest.param(["immediate"], "PersistentVolume had no name", id="a claim that should have a volume by now"),
        pytest.param(["lost"], 'persistentvolume "gone" not found', id="a missing volume"),
        pytest.param(
            ["classless"], "PersistentVolumeClaim had no pv name and storageClass name", id="neither volume nor class"
        ),
        pytest.param(
            ["unknown"], 'storageclass.storage.k8s.io "nowhere" not found', id="an unbound claim of a missing class"
        ),
        pytest.param(
            ["modeless"], 'VolumeBindingMode not set for StorageClass "modeless"', id="a class without a binding mode"
        ),
        pytest.param(
            ["waiting", "absent"], 'persistentvolumeclaim "absent" not found', id="the second claim is missing"
        ),
    ],
)
def test_pre_filter(claims, answer):
    cache = cluster(
        NODES,
        PersistentVolumeClaim=[
            make_claim("waiting"),
            make_claim("immediate", storage_class="now"),
            make_claim("lost", volume="gone"),
            make_claim("classless", storage_class=""),
            make_claim("unknown", storage_class="nowhere"),
            make_claim("modeless", storage_class="modeless"),
        ],
        StorageClass=[make_class(), make_class("now", mode="Immediate"), make_class("modeless", mode=None)],
    )

    assert outcome(build(VolumeZone, cache), asking(*claims)) == answer


def test_ephemeral_volumes_are_ignored():
    cache = cluster(NODES)

    assert outcome(build(VolumeZone, cache), asking(volumes=[ephemeral()])) == "Skip"


def test_new_labels_of_a_node_count():
    cache = cluster(
        [make_node("n", labels={ZONE: "z1"})],
        PersistentVolume=[make_volume("pv", labels={ZONE: "z2"})],
        PersistentVolumeClaim=[make_claim("claim", volume="pv")],
    )
    plugin = build(VolumeZone, cache)
    assert outcome(plugin, asking("claim")) == {"n": CONFLICT}

    for node in cluster([make_node("n", labels={ZONE: "z2"})]).table.nodes:
        cache.set_node(node)

    assert outcome(plugin, asking("claim")) == {"n": ""}


def test_hints():
    plugin = build(VolumeZone, cluster())
    class_added, _, claim_changed, volume_changed = (hint.function for hint in plugin.hints())
    pod = asking("claim", volumes=[ephemeral()])

    assert class_added(pod, None, make_class()) is Hint.QUEUE
    assert class_added(pod, None, make_class(mode="Immediate")) is Hint.SKIP
    assert claim_changed(pod, None, make_claim("claim")) is Hint.QUEUE
    assert claim_changed(pod, None, make_claim("pod-scratch")) is Hint.SKIP
    assert claim_changed(pod, None, make_claim("claim", namespace="other")) is Hint.SKIP
    assert volume_changed(pod, None, make_volume()) is Hint.QUEUE
    assert volume_changed(pod, make_volume(), make_volume(labels={ZONE: "z1"})) is Hint.QUEUE
    assert volume_changed(pod, make_volume(), make_volume(size="1Ti")) is Hint.SKIP
