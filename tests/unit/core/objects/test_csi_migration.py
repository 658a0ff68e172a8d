"""In-tree volumes are translated to their CSI drivers."""

import re

import pytest

from podwright.core.objects.csi_migration import (
    IN_TREE,
    MigrationError,
    inline_handle,
    kind_of,
    translated_affinity,
    volume_handle,
)
from podwright.core.objects.volumes import parse_volume
from support.plugins.volumes import BETA_ZONE, ZONE, in_zones, make_volume

BETA_REGION = "failure-domain.beta.kubernetes.io/region"


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
    "source, labels, error",
    [
        pytest.param(
            {"awsElasticBlockStore": {"volumeID": "aws:///disk-1"}},
            {},
            "failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume (aws:///disk-1)",
            id="an EBS URL without a volume id",
        ),
        pytest.param(
            {"awsElasticBlockStore": {"volumeID": "aws://[/vol-1"}},
            {},
            "failed to translate Kubernetes ID to EBS Volume ID Invalid disk name (aws://[/vol-1): ",
            id="an invalid URL",
        ),
        pytest.param(
            {"gcePersistentDisk": {"pdName": "d"}},
            {ZONE: "d-e-f__a-b-c"},
            "failed to get region from zones: multiple or no regions gotten from zones, got: map[a-b:{} d-e:{}]",
            id="zones in two regions",
        ),
        pytest.param(
            {"gcePersistentDisk": {"pdName": "d"}},
            {ZONE: "a__b"},
            "failed to get region from zones: zone in unexpected format, expected: {locale}-{region}-{zone}, got: a",
            id="zones without a region",
        ),
        pytest.param(
            {"azureDisk": {"diskURI": "u", "kind": "Dedicated"}},
            {},
            "kind(Dedicated) is not supported in csi migration",
            id="an Azure disk that is not managed",
        ),
    ],
)
def test_in_tree_volumes_without_a_csi_equivalent_raise_an_error(source, labels, error):
    volume = parse_volume(make_volume(source=source, labels=labels))

    with pytest.raises(MigrationError, match=re.escape(error)):
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
