"""Parsing of volume objects, translation of in-tree volumes, assumed versions, and candidates for a claim."""

import pytest

from podwright.core.objects.csi_migration import (
    IN_TREE,
    MigrationError,
    inline_handle,
    kind_of,
    translated_affinity,
    volume_handle,
)
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.volumes import parse_claim, parse_storage_capacity, parse_storage_class, parse_volume
from podwright.core.state.object_store import ObjectStore
from podwright.core.state.volumes.assumed import AssumedObjects
from podwright.core.state.volumes.volume_index import VolumeIndex
from support.plugins.volumes import BETA_ZONE, ZONE, in_zones, make_capacity, make_claim, make_class, make_volume

BETA_REGION = "failure-domain.beta.kubernetes.io/region"


@pytest.mark.parametrize(
    "parse, raw, message",
    [
        pytest.param(
            parse_volume,
            make_volume("pv", size="ten"),
            "PersistentVolume pv: spec.capacity[storage]: 'ten' is not a quantity",
            id="a volume's size",
        ),
        pytest.param(
            parse_volume,
            make_volume("pv", spec={"accessModes": "all"}),
            "PersistentVolume pv: spec.accessModes: expected a list, got str",
            id="a volume's access modes",
        ),
        pytest.param(
            parse_claim,
            make_claim(spec={"selector": {"matchExpressions": [{"key": "a", "operator": "Sort"}]}}),
            "PersistentVolumeClaim default/claim: spec.selector.matchExpressions[0].operator: 'Sort' is not a valid operator",
            id="a claim's selector",
        ),
        pytest.param(
            parse_storage_class,
            make_class(allowedTopologies=["z1"]),
            "StorageClass std: allowedTopologies[0]: expected an object, got str",
            id="a class's topologies",
        ),
        pytest.param(
            parse_storage_capacity,
            make_capacity(capacity="much"),
            "CSIStorageCapacity default/free: capacity: 'much' is not a quantity",
            id="a capacity",
        ),
    ],
)
def test_an_invalid_object_raises_an_error_with_the_object_and_field(parse, raw, message):
    with pytest.raises(InvalidObjectError) as caught:
        parse(raw)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "labels, zones",
    [
        pytest.param({}, [], id="no labels"),
        pytest.param({ZONE: "a"}, [(ZONE, {"a"})], id="a zone"),
        pytest.param({ZONE: "a__b"}, [(ZONE, {"a", "b"})], id="a set of zones"),
        pytest.param({ZONE: "a", BETA_ZONE: "b"}, [(BETA_ZONE, {"b"}), (ZONE, {"a"})], id="beta labels come first"),
        pytest.param({ZONE: "a__"}, [], id="an empty part"),
    ],
)
def test_zone_labels(labels, zones):
    assert parse_volume(make_volume(labels=labels)).zones == tuple((key, frozenset(found)) for key, found in zones)


@pytest.mark.parametrize(
    "source, labels, handle",
    [
        pytest.param({"awsElasticBlockStore": {"volumeID": "vol-1"}}, {}, "vol-1", id="an EBS id"),
        pytest.param(
            {"awsElasticBlockStore": {"volumeID": "aws://z1/vol-1"}}, {}, "vol-1", id="an EBS URL with a zone"
        ),
        pytest.param(
            {"awsElasticBlockStore": {"volumeID": "aws:///vol-1"}}, {}, "vol-1", id="an EBS URL without a zone"
        ),
        pytest.param(
            {"gcePersistentDisk": {"pdName": "d"}},
            {},
            "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d",
            id="a GCE disk without a zone",
        ),
        pytest.param(
            {"gcePersistentDisk": {"pdName": "d"}},
            {ZONE: "europe-west1-b"},
            "projects/UNSPECIFIED/zones/europe-west1-b/disks/d",
            id="a GCE disk in a zone",
        ),
        pytest.param(
            {"gcePersistentDisk": {"pdName": "d"}},
            {BETA_ZONE: "europe-west1-b__europe-west1-c", ZONE: "elsewhere"},
            "projects/UNSPECIFIED/regions/europe-west1/disks/d",
            id="a GCE disk in a region, from the beta label",
        ),
        pytest.param(
            {"azureDisk": {"diskURI": "/subscriptions/x", "kind": "managed"}}, {}, "/subscriptions/x", id="Azure"
        ),
        pytest.param({"cinder": {"volumeID": "id"}}, {}, "id", id="Cinder"),
        pytest.param({"portworxVolume": {"volumeID": "id"}}, {}, "id", id="Portworx"),
    ],
)
def test_handles_of_in_tree_volumes(source, labels, handle):
    volume = parse_volume(make_volume(source=source, labels=labels))

    assert volume_handle(volume, kind_of(source)) == handle


@pytest.mark.parametrize(
    "source, labels",
    [
        pytest.param({"awsElasticBlockStore": {"volumeID": "aws:///disk-1"}}, {}, id="an EBS URL without a volume id"),
        pytest.param({"awsElasticBlockStore": {"volumeID": "aws://[/vol-1"}}, {}, id="an invalid URL"),
        pytest.param({"gcePersistentDisk": {"pdName": "d"}}, {ZONE: "a-b-c__d-e-f"}, id="zones in two regions"),
        pytest.param({"gcePersistentDisk": {"pdName": "d"}}, {ZONE: "a__b"}, id="zones without a region"),
        pytest.param({"azureDisk": {"diskURI": "u", "kind": "Dedicated"}}, {}, id="an Azure disk that is not managed"),
    ],
)
def test_in_tree_volumes_without_a_csi_equivalent_raise_an_error(source, labels):
    volume = parse_volume(make_volume(source=source, labels=labels))

    with pytest.raises(MigrationError):
        volume_handle(volume, kind_of(source))


def test_the_handle_of_an_inline_disk_has_no_zone():
    volume = {"name": "v", "gcePersistentDisk": {"pdName": "d"}}

    assert inline_handle(volume, IN_TREE["gcePersistentDisk"]) == "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"


def terms(*keys):
    expressions = [{"key": key, "operator": "In", "values": ["z1"]} for key in keys]
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}}


EBS_ZONE = "topology.ebs.csi.aws.com/zone"


@pytest.mark.parametrize(
    "labels, spec, node, fits",
    [
        pytest.param({}, terms(ZONE), {EBS_ZONE: "z1"}, True, id="the zone label becomes the driver's"),
        pytest.param({}, terms(ZONE), {ZONE: "z1"}, False, id="the zone label itself no longer matches"),
        pytest.param({}, terms(BETA_ZONE), {EBS_ZONE: "z1"}, True, id="the beta zone label becomes the driver's"),
        pytest.param(
            {}, terms(ZONE, "disk"), {EBS_ZONE: "z1"}, False, id="another requirement that the node does not meet"
        ),
        pytest.param(
            {}, terms(ZONE, "disk"), {EBS_ZONE: "z1", "disk": "z1"}, True, id="another requirement that the node meets"
        ),
        pytest.param({ZONE: "z1__z2"}, {}, {EBS_ZONE: "z2"}, True, id="one of the zones in the volume's label"),
        pytest.param({ZONE: "z1__z2"}, {}, {EBS_ZONE: "z3"}, False, id="none of the zones in the volume's label"),
        pytest.param({ZONE: "z1"}, terms("disk"), {"disk": "z1"}, False, id="the zone label is added to each term"),
        pytest.param({ZONE: "__"}, {}, {}, True, id="a zone label without a zone"),
        pytest.param({}, {}, {}, True, id="no topology"),
        pytest.param(
            {},
            terms(BETA_ZONE, BETA_REGION),
            {EBS_ZONE: "z1", "topology.kubernetes.io/region": "z1"},
            True,
            id="the beta region label becomes the region label",
        ),
    ],
)
def test_topology_of_in_tree_volumes(labels, spec, node, fits):
    source = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
    volume = parse_volume(make_volume(source=source, labels=labels, spec=spec))

    affinity = translated_affinity(volume, kind_of(source))

    assert (affinity is None or affinity.matches(node)) is fits


def test_a_driver_without_topology_keeps_the_affinity():
    source = {"portworxVolume": {"volumeID": "id"}}
    volume = parse_volume(make_volume(source=source, spec={"nodeAffinity": in_zones("z1")}))

    assert translated_affinity(volume, kind_of(source)) is volume.affinity


class TestAssumedObjects:
    def overlay(self, *volumes):
        store = ObjectStore()
        for volume in volumes:
            store.set("PersistentVolume", volume)
        return store, AssumedObjects(store, "PersistentVolume")

    def test_the_assumed_version_applies_until_a_new_version_arrives(self):
        store, assumed = self.overlay(make_volume("pv"))
        changed = make_volume("pv", claim="claim")
        assumed.assume(changed)
        assert assumed.get("pv") is changed
        assert list(assumed) == [changed]

        store.set("PersistentVolume", make_volume("pv"))
        assert assumed.get("pv") is changed

        newer = make_volume("pv", version="2")
        store.set("PersistentVolume", newer)
        assert assumed.get("pv") is newer
        assert list(assumed) == []

    def test_a_deleted_object_is_no_longer_assumed(self):
        store, assumed = self.overlay(make_volume("pv"))
        assumed.assume(make_volume("pv", claim="claim"))

        store.remove("PersistentVolume", "pv")

        assert assumed.get("pv") is None
        assert len(assumed) == 0

    def test_only_the_stored_version_can_be_assumed(self):
        _, assumed = self.overlay(make_volume("pv", version="3"))

        with pytest.raises(ValueError, match=r"out of sync \(stored: 3, assume: 2\)"):
            assumed.assume(make_volume("pv", version="2"))
        with pytest.raises(ValueError, match="PersistentVolume other is gone"):
            assumed.assume(make_volume("other"))

    def test_restoring_another_version_keeps_the_assumed_one(self):
        _, assumed = self.overlay(make_volume("pv"))
        changed = make_volume("pv", claim="claim")
        assumed.assume(changed)

        assumed.restore(make_volume("pv", version="2"))
        assert assumed.get("pv") is changed

        assumed.restore(changed)
        assert "claimRef" not in assumed.get("pv")["spec"]


class TestCandidates:
    def test_candidates_follow_changes_of_volumes(self):
        store = ObjectStore()
        index = VolumeIndex(store)
        claim = parse_claim(make_claim())

        def names():
            return {volume.name for volume in index.candidates(claim)}

        store.set("PersistentVolume", make_volume("pv"))
        assert names() == {"pv"}
        store.set("PersistentVolume", make_volume("pv", claim="other"))
        assert names() == set()
        store.set("PersistentVolume", make_volume("pv", claim="claim"))
        assert names() == {"pv"}
        store.set("PersistentVolume", make_volume("pv", storage_class="else"))
        assert names() == set()
        store.set("PersistentVolume", make_volume("pv"))
        store.remove("PersistentVolume", "pv")
        assert names() == set()

    def test_an_invalid_volume_is_not_a_candidate(self):
        store = ObjectStore()
        index = VolumeIndex(store)
        store.set("PersistentVolume", make_volume("bad", size="ten"))
        store.set("PersistentVolume", make_volume("good"))

        assert {volume.name for volume in index.candidates(parse_claim(make_claim()))} == {"good"}

    @pytest.mark.parametrize(
        "raw",
        [
            pytest.param({"metadata": {"name": "pv"}}, id="no spec"),
            pytest.param({"metadata": {"name": "pv", "annotations": []}, "spec": []}, id="lists instead of objects"),
            pytest.param(
                {"metadata": {"name": "pv"}, "spec": {"claimRef": "claim"}}, id="a string instead of a claim reference"
            ),
        ],
    )
    def test_a_malformed_volume_is_ignored(self, raw):
        store = ObjectStore()
        index = VolumeIndex(store)

        store.set("PersistentVolume", raw)
        store.remove("PersistentVolume", "pv")

        assert list(index.candidates(parse_claim(make_claim()))) == []
