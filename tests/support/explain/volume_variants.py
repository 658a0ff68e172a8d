"""Variants of the situations about volumes and their claims. See `variants`."""

from __future__ import annotations

from support.explain.objects import (
    HOSTNAME,
    ZONE,
    claim,
    cluster,
    full,
    mounting,
    node,
    storage_class,
    volume,
    waiting,
)
from support.explain.situations import GONE, Situation
from support.objects.builders import make_pod

FAR = {"matchLabelExpressions": [{"key": ZONE, "values": ["c"]}]}


def in_zones(raw, zones):
    """A volume that has the zones in its label only."""
    return {**raw, "metadata": {**raw["metadata"], "labels": {ZONE: zones}}}


VOLUME_VARIANTS = (
    Situation(
        "two volumes in two zones",
        cluster(
            [node("one", "a"), node("two", "b")],
            persistentVolumes=[volume("disk-1", "data-1", zone="b"), volume("disk-2", "data-2", zone="a")],
            persistentVolumeClaims=[claim("data-1", volume="disk-1"), claim("data-2", volume="disk-2")],
        ),
        waiting(spec=mounting("data-1", "data-2")),
        "VolumeElsewhere",
        "volume disk-1 of claim data-1 is only in topology.kubernetes.io/zone In (b); volume disk-2 of claim data-2",
    ),
    Situation(
        "two volumes in two zones, one of which may be provisioned again",
        cluster(
            [node("one", "a"), node("two", "b")],
            storageClasses=[storage_class("fast", "example.com/disks")],
            persistentVolumes=[volume("disk-1", "data-1", zone="b"), volume("disk-2", "data-2", zone="a")],
            persistentVolumeClaims=[
                claim("data-1", volume="disk-1", storage_class="fast"),
                claim("data-2", volume="disk-2"),
            ],
        ),
        waiting(spec=mounting("data-1", "data-2")),
        "VolumeElsewhere",
        "volume disk-1 of claim data-1 is only in topology.kubernetes.io/zone In (b)",
        ("create the claim default/data-1 again, without its data, for a new volume where the pod goes",),
    ),
    Situation(
        "two volumes that only nodes of one zone reach, which has none",
        cluster(
            [node("one", "a")],
            persistentVolumes=[volume("disk-1", "data-1", zone="c"), in_zones(volume("disk-2", "data-2"), "b__c")],
            persistentVolumeClaims=[claim("data-1", volume="disk-1"), claim("data-2", volume="disk-2")],
        ),
        waiting(spec=mounting("data-1", "data-2")),
        "VolumeElsewhere",
        "volume disk-1 of claim data-1 is only in topology.kubernetes.io/zone In (c)",
        ("one more node like one, but with topology.kubernetes.io/zone=c",),
    ),
    Situation(
        "a volume of a node that is gone",
        cluster(
            [node("one")],
            storageClasses=[storage_class("fast", "example.com/disks")],
            persistentVolumes=[volume("disk", "data", zone="gone", key=HOSTNAME)],
            persistentVolumeClaims=[claim("data", volume="disk")],
        ),
        waiting(spec=mounting("data")),
        "VolumeElsewhere",
        "volume disk of claim data is only in kubernetes.io/hostname In (gone)",
        ("create the claim default/data again, without its data, for a new volume where the pod goes",),
    ),
    Situation(
        "a storage class for a zone without nodes",
        cluster(
            [node("one", "a")],
            storageClasses=[{**storage_class("far", "example.com/disks"), "allowedTopologies": [FAR]}],
            persistentVolumeClaims=[claim("data", storage_class="far")],
        ),
        waiting(spec=mounting("data")),
        "NoVolume",
        "the class allows no volume on the node (its allowedTopologies: topology.kubernetes.io/zone in c)",
        ("one more node like one, but with topology.kubernetes.io/zone=c",),
    ),
    Situation(
        "a volume in a zone whose node is full",
        cluster(
            [node("one", "a"), node("two", "b")],
            [full("big", "two")],
            persistentVolumes=[volume("disk", "data", zone="b")],
            persistentVolumeClaims=[claim("data", volume="disk")],
        ),
        waiting(requests={"cpu": "1"}, spec=mounting("data")),
        "InsufficientResources",
        "there is two: 1 CPU requested, 0 of 8 free",
        ("move 1 pod elsewhere: default/big to one", "one more node like two"),
    ),
    Situation(
        "two claims that do not exist",
        cluster([node("one")], storageClasses=[storage_class("fast", "example.com/disks")]),
        waiting(spec=mounting("data", "logs")),
        "ClaimMissing",
        "default/data and default/logs do not exist",
        ("create the claim default/data, of storage class fast and create the claim default/logs",),
    ),
    Situation(
        "a misspelt claim",
        cluster(
            [node("one")],
            persistentVolumes=[volume("disk", "data")],
            persistentVolumeClaims=[claim("data", volume="disk")],
        ),
        waiting(spec=mounting("dta")),
        "ClaimMissing",
        "did you mean 'data'?",
        ("mount the claim data instead of dta",),
    ),
    Situation(
        "a claim of a misspelt storage class",
        cluster(
            [node("one")],
            storageClasses=[storage_class("fast", "example.com/disks")],
            persistentVolumeClaims=[claim("data", storage_class="fastt")],
        ),
        waiting(spec=mounting("data")),
        "ClaimUnbound",
        "fastt, which does not exist; did you mean 'fast'?",
        ("create the claim default/data again, of storage class fast instead of fastt",),
    ),
    Situation(
        "two claims of a storage class without provisioner",
        cluster(
            [node("one")],
            storageClasses=[storage_class("local", "kubernetes.io/no-provisioner")],
            persistentVolumeClaims=[claim("data"), claim("logs")],
        ),
        waiting(spec=mounting("data", "logs")),
        "NoVolume",
        "claim default/logs is of storage class local, which has no provisioner",
        ("create a PersistentVolume of storage class local on node one, of 1Gi and create a PersistentVolume",),
    ),
    Situation(
        "a claim that is bound to a volume that does not exist",
        cluster([node("one")], persistentVolumeClaims=[claim("data", volume="gone")]),
        waiting(spec=mounting("data")),
        "VolumeMissing",
        "claim default/data is bound to the volume gone, which does not exist",
    ),
    Situation(
        "a claim that only one pod may use, of a pod that is being deleted",
        cluster(
            [node("one"), node("two")],
            [make_pod("first", node="one", spec=mounting("data"), metadata={"deletionTimestamp": GONE})],
            persistentVolumes=[volume("disk", "data", modes=["ReadWriteOncePod"])],
            persistentVolumeClaims=[claim("data", volume="disk", modes=["ReadWriteOncePod"])],
        ),
        waiting(spec=mounting("data")),
        "ClaimInUse",
        "default/first on one uses it",
        ("default/first",),
    ),
    Situation(
        "a claim that is being deleted",
        cluster(
            [node("one")],
            persistentVolumes=[volume("disk", "data")],
            persistentVolumeClaims=[
                {
                    **claim("data", volume="disk"),
                    "metadata": {**claim("data", volume="disk")["metadata"], "deletionTimestamp": GONE},
                }
            ],
        ),
        waiting(spec=mounting("data")),
        "ClaimTerminating",
        'persistentvolumeclaim "data" is being deleted',
    ),
)
