"""Vectorised and per-node results of the volume plugins agree, after any history."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podwright.core.framework.interface import CycleState
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins.volumes.node_volume_limits import NodeVolumeLimits
from podwright.core.plugins.volumes.volume_binding import VolumeBinding
from podwright.core.plugins.volumes.volume_restrictions import VolumeRestrictions
from podwright.core.plugins.volumes.volume_zone import VolumeZone
from podwright.core.state.cache import Cache
from support.costs.call_counts import calls_of
from support.objects.builders import make_node
from support.plugins.kit import build
from support.plugins.volumes import (
    BETA_ZONE,
    ZONE,
    asking,
    cluster,
    make_attachment,
    make_capacity,
    make_claim,
    make_class,
    make_csi_node,
    make_driver,
    make_volume,
    mounting,
    outcome,
    scored,
)
from support.properties import examples

HOST = "kubernetes.io/hostname"
MANY = 60
EBS = "kubernetes.io/aws-ebs"
NODES = st.sampled_from(["n0", "n1", "n2"])
ZONES = st.sampled_from(["z0", "z1", "z2"])
CLAIMS = st.sampled_from(["c0", "c1", "c2", "c3"])
VOLUMES = st.sampled_from(["pv0", "pv1", "pv2", "pv3"])
CLASSES = st.sampled_from(["std", "made", "ebs", "none"])
SIZES = st.sampled_from(["1Gi", "5Gi", "10Gi"])
SOURCES = st.one_of(
    st.builds(lambda h: {"csi": {"driver": "csi.example.com", "volumeHandle": h}}, st.sampled_from(["h0", "h1"])),
    st.builds(lambda v: {"awsElasticBlockStore": {"volumeID": v}}, st.sampled_from(["vol-0", "vol-1"])),
    st.just({"local": {"path": "/mnt"}}),
    st.just(None),
)
EXPRESSIONS = st.one_of(
    st.builds(lambda z: {"key": ZONE, "operator": "In", "values": z}, st.lists(ZONES, min_size=1, unique=True)),
    st.builds(lambda z: {"key": ZONE, "operator": "NotIn", "values": [z]}, ZONES),
    st.builds(lambda n: {"key": HOST, "operator": "In", "values": [n]}, NODES),
    st.just({"key": BETA_ZONE, "operator": "Exists"}),
)
AFFINITIES = st.one_of(
    st.just({}),
    st.builds(
        lambda terms: {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": t} for t in terms]}}},
        st.lists(st.lists(EXPRESSIONS, max_size=2), max_size=2),
    ),
)
LABELS = st.dictionaries(st.sampled_from([ZONE, BETA_ZONE]), st.sampled_from(["z0", "z1", "z0__z2", ""]))
DISKS = st.one_of(
    st.builds(
        lambda r: {"name": "d", "gcePersistentDisk": {"pdName": "disk", "readOnly": r}},
        st.booleans(),
    ),
    st.builds(lambda v: {"name": "d", "awsElasticBlockStore": {"volumeID": v}}, st.sampled_from(["vol-0", "vol-1"])),
    st.builds(
        lambda m, r: {"name": "d", "rbd": {"monitors": m, "image": "i", "pool": "p", "readOnly": r}},
        st.lists(st.sampled_from(["m0", "m1"]), max_size=2),
        st.booleans(),
    ),
)
LIMITS = st.one_of(st.none(), st.integers(0, 2))

nodes = st.builds(
    lambda name, zone, old: make_node(
        name, labels={HOST: name, **({ZONE: zone} if zone else {}), **({BETA_ZONE: old} if old else {})}
    ),
    NODES,
    st.one_of(st.none(), ZONES),
    st.one_of(st.none(), ZONES),
)
volumes = st.builds(
    lambda name, size, cls, claim, labels, source, affinity: make_volume(
        name, size=size, storage_class=cls, claim=claim, labels=labels, source=source, spec=affinity
    ),
    VOLUMES,
    SIZES,
    CLASSES,
    st.one_of(st.just(""), CLAIMS),
    LABELS,
    SOURCES,
    AFFINITIES,
)
claims = st.builds(
    lambda name, size, cls, volume, node, mode: make_claim(
        name, size=size, storage_class=cls, volume=volume, selected_node=node, modes=[mode]
    ),
    CLAIMS,
    SIZES,
    CLASSES,
    st.one_of(st.just(""), VOLUMES),
    st.one_of(st.just(""), st.just(""), NODES),
    st.sampled_from(["ReadWriteOnce", "ReadWriteOncePod"]),
)
classes = st.one_of(
    st.just(make_class("std", provisioner="kubernetes.io/no-provisioner")),
    st.builds(lambda z: make_class("made", zones=z), st.lists(ZONES, max_size=2, unique=True)),
    st.just(make_class("ebs", provisioner=EBS)),
)
csi_nodes = st.builds(
    lambda name, one, two, migrated: make_csi_node(
        name, csi_example_com=one, ebs_csi_aws_com=two, migrated=[EBS] if migrated else []
    ),
    NODES,
    LIMITS,
    LIMITS,
    st.booleans(),
)
pods = st.builds(
    lambda index, names, node, disks: mounting(*names, name=f"p{index}", node=node, volumes=disks),
    st.integers(0, 4),
    st.lists(CLAIMS, max_size=2),
    NODES,
    st.lists(DISKS, max_size=2),
)
objects = st.one_of(
    st.tuples(st.just("PersistentVolume"), volumes),
    st.tuples(st.just("PersistentVolumeClaim"), claims),
    st.tuples(st.just("StorageClass"), classes),
    st.tuples(st.just("CSINode"), csi_nodes),
    st.tuples(
        st.just("CSIStorageCapacity"),
        st.builds(lambda z, c: make_capacity(storage_class="made", zone=z, capacity=c), ZONES, SIZES),
    ),
    st.tuples(
        st.just("CSIDriver"),
        st.builds(
            lambda n, t, p: make_driver(n, storageCapacity=t, preventPodSchedulingIfMissing=p),
            st.sampled_from(["csi.example.com", "ebs.csi.aws.com"]),
            st.booleans(),
            st.booleans(),
        ),
    ),
    st.tuples(
        st.just("VolumeAttachment"),
        st.builds(
            make_attachment,
            st.sampled_from(["va0", "va1"]),
            NODES,
            VOLUMES,
            st.sampled_from(["csi.example.com", "other"]),
        ),
    ),
)
changes = st.lists(
    st.one_of(
        st.tuples(st.just("object"), objects),
        st.tuples(st.just("object"), objects),
        st.tuples(st.just("object gone"), objects),
        st.tuples(st.just("node"), nodes),
        st.tuples(st.just("node gone"), NODES),
        st.tuples(st.just("pod"), pods),
        st.tuples(st.just("pod gone"), st.integers(0, 4)),
    ),
    min_size=1,
    max_size=20,
)
wanted = st.builds(
    lambda names, disks: asking(*names, name="asking", volumes=disks),
    st.lists(CLAIMS, min_size=1, max_size=2),
    st.lists(DISKS, max_size=1),
)
START = (
    *(("PersistentVolumeClaim", make_claim(f"c{i}", volume=f"pv{i}")) for i in range(2)),
    *(("PersistentVolumeClaim", make_claim(f"c{i}", storage_class="made")) for i in range(2, 4)),
    *(("PersistentVolume", make_volume(f"pv{i}", claim=f"c{i}")) for i in range(2)),
    ("StorageClass", make_class("std", provisioner="kubernetes.io/no-provisioner")),
    ("StorageClass", make_class("made")),
    ("StorageClass", make_class("ebs", provisioner=EBS)),
)


def change(cache, what, value):
    match what:
        case "object":
            cache.set_object(*value)
        case "object gone":
            kind, raw = value
            cache.remove_object(kind, raw["metadata"]["name"], raw["metadata"].get("namespace", ""))
        case "node":
            cache.set_node(parse_node(value))
        case "node gone":
            cache.remove_node(value)
        case "pod":
            cache.set_pod(parse_pod(value))
        case "pod gone":
            cache.remove_pod(f"default/p{value}")


@given(first=st.lists(nodes, max_size=4), there=st.lists(objects, max_size=8), changes=changes, pod=wanted)
@settings(deadline=None, max_examples=examples(250))
def test_vectorised_results_equal_per_node_results(first, there, changes, pod):
    cache = Cache()
    for kind, raw in (*START, *there):
        cache.set_object(kind, raw)
    for node in first:
        cache.set_node(parse_node(node))
    plugins = [build(plugin, cache) for plugin in (VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone)]
    for what, value in changes:
        change(cache, what, value)
        answers = [outcome(plugin, pod) for plugin in plugins]
        if isinstance(answers[2], dict):
            scored(plugins[2], pod)


@pytest.mark.parametrize(
    ("plugin", "volumes"),
    [
        pytest.param(NodeVolumeLimits, [], id="claims that are looked up"),
        pytest.param(VolumeBinding, [], id="volumes with an affinity of their own"),
        pytest.param(
            VolumeRestrictions,
            [{"name": f"d{i}", "gcePersistentDisk": {"pdName": f"disk-{i}"}} for i in range(MANY)],
            id="disks that are compared",
        ),
    ],
)
def test_a_dry_run_on_many_nodes_does_not_read_the_pods_volumes_for_each(plugin, volumes):
    """Preemption filters node by node, each with a clone of the state."""
    names = [f"c{i}" for i in range(MANY)]

    def calls(size):
        found = cluster(
            [make_node(f"n{i}", labels={HOST: f"n{i}", ZONE: "z0"}) for i in range(size)],
            StorageClass=[make_class()],
            PersistentVolumeClaim=[make_claim(name, volume=f"pv-{name}") for name in names],
            PersistentVolume=[make_volume(f"pv-{name}", claim=name, zones=["z0"]) for name in names],
        )
        built, pod, state = build(plugin, found), asking(*names, volumes=volumes), CycleState()
        assert built.pre_filter(state, pod) is None

        def dry_run():
            assert [built.filter(state.clone(), pod, info.clone()) for info in found.nodes.values()] == [None] * size

        return calls_of(dry_run)

    per_node = (calls(11) - calls(1)) / 10
    assert per_node <= 5 * MANY


def test_claims_are_checked_alike_for_one_node_and_for_all():
    """Many claims are checked for all nodes at once, few of them node by node."""
    nodes = [make_node(f"n{i}", labels={ZONE: f"z{i}"}) for i in range(3)]
    for count in (2, MANY):
        names = [f"c{i}" for i in range(count)]
        found = cluster(
            nodes,
            StorageClass=[make_class()],
            PersistentVolumeClaim=[make_claim(name, volume=f"pv-{name}") for name in names],
            PersistentVolume=[make_volume(f"pv-{name}", claim=name, zones=["z0", "z1"]) for name in names],
        )
        answer = outcome(build(VolumeBinding, found), asking(*names))
        assert answer == {"n0": "", "n1": "", "n2": "node(s) didn't match PersistentVolume's node affinity"}
