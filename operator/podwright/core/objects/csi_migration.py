"""Translates in-tree volumes to the CSI volumes that replace them: driver, volume handle and node affinity.

Only the kinds that kube-scheduler translates when it counts and places volumes are translated. vSphere and Azure File
volumes can be migrated, but kube-scheduler does not translate them. Source: k8s.io/csi-translation-lib.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.selectors import Labels
from podwright.core.objects.volumes import (
    BETA_REGION,
    BETA_ZONE,
    REGION,
    ZONE,
    ZONE_SEPARATOR,
    PersistentVolume,
    VolumeAffinity,
    mapping_at,
    volume_affinity,
)


class MigrationError(ValueError):
    """An in-tree volume that has no equivalent CSI volume."""


@dataclass(frozen=True, slots=True)
class InTreeKind:
    """A kind of in-tree volume. `source`: its field in a volume. `topology_key`: the driver's zone label; empty if it
    has none.

    `translated` is False for kinds that kube-scheduler does not translate.
    """

    source: str
    plugin: str
    driver: str
    topology_key: str = ""
    translated: bool = True


IN_TREE: Final[Mapping[str, InTreeKind]] = {
    kind.source: kind
    for kind in (
        InTreeKind("awsElasticBlockStore", "kubernetes.io/aws-ebs", "ebs.csi.aws.com", "topology.ebs.csi.aws.com/zone"),
        InTreeKind("gcePersistentDisk", "kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "topology.gke.io/zone"),
        InTreeKind(
            "cinder", "kubernetes.io/cinder", "cinder.csi.openstack.org", "topology.cinder.csi.openstack.org/zone"
        ),
        InTreeKind("azureDisk", "kubernetes.io/azure-disk", "disk.csi.azure.com"),
        InTreeKind("portworxVolume", "kubernetes.io/portworx-volume", "pxd.portworx.com"),
        InTreeKind("vsphereVolume", "kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com", translated=False),
        InTreeKind("azureFile", "kubernetes.io/azure-file", "file.csi.azure.com", translated=False),
    )
}
"""Kinds by their field in a pod's volume or in a PersistentVolume's spec."""
BY_PLUGIN: Final[Mapping[str, InTreeKind]] = {kind.plugin: kind for kind in IN_TREE.values()}
"""Kinds by the in-tree plugin's name, which is also the provisioner in a StorageClass."""

_UNKNOWN: Final = "UNSPECIFIED"
_EBS_ID: Final = re.compile(r"vol-[^/]*")
_NO_EBS_ID: Final = "failed to translate Kubernetes ID to EBS Volume ID "


def kind_of(source: Mapping[str, Any]) -> InTreeKind | None:
    """The in-tree kind of a pod's volume or of a PersistentVolume's spec; None if it is not an in-tree volume."""
    for field, kind in IN_TREE.items():
        if source.get(field) is not None:
            return kind
    return None


def inline_handle(volume: Mapping[str, Any], kind: InTreeKind) -> str:
    """The CSI volume handle of an inline volume of a pod. Raises MigrationError."""
    return _handle(mapping_at(volume, kind.source), kind, {})


def volume_handle(volume: PersistentVolume, kind: InTreeKind) -> str:
    """The CSI volume handle of an in-tree PersistentVolume. Raises MigrationError."""
    return _handle(mapping_at(volume.raw, "spec", kind.source), kind, volume.labels)


def translated_affinity(volume: PersistentVolume, kind: InTreeKind) -> VolumeAffinity | None:
    """The node affinity of the CSI volume: zone labels become the driver's topology key. Raises MigrationError."""
    volume_handle(volume, kind)
    if not kind.topology_key:
        return volume.affinity
    required = mapping_at(volume.raw, "spec", "nodeAffinity", "required")
    terms = [dict(term) for term in required.get("nodeSelectorTerms") or () if _well_formed(term)]
    zone, region = _topology_labels(terms, volume.labels)
    if _has_values(terms, zone):
        terms = _renamed(terms, zone, kind.topology_key)
    elif zone in volume.labels:
        zones = sorted({part.strip() for part in volume.labels[zone].split(ZONE_SEPARATOR)} - {""})
        if zones:
            terms = _with_zones(terms, kind.topology_key, zones)
    if region == BETA_REGION and _has_values(terms, region):
        terms = _renamed(terms, region, REGION)
    if not terms and volume.affinity is None:
        return None
    return volume_affinity({"nodeSelectorTerms": terms})


def _handle(source: Mapping[str, Any], kind: InTreeKind, labels: Labels) -> str:
    match kind.source:
        case "awsElasticBlockStore":
            return _ebs_id(str(source.get("volumeID") or ""))
        case "gcePersistentDisk":
            return _disk_path(str(source.get("pdName") or ""), labels)
        case "azureDisk":
            disk = source.get("kind")
            if disk is not None and str(disk).lower() != "managed":
                raise MigrationError(f"kind({disk}) is not supported in csi migration")
            return str(source.get("diskURI") or "")
    return str(source.get("volumeID") or "")


def _ebs_id(volume_id: str) -> str:
    """The volume id from `aws://zone/vol-1`, `aws:///vol-1` or `vol-1`."""
    if not volume_id.startswith("aws://"):
        return volume_id
    try:
        found = urlsplit(volume_id).path.strip("/")
    except ValueError as error:
        raise MigrationError(f"{_NO_EBS_ID}Invalid disk name ({volume_id}): {error}") from error
    if not _EBS_ID.fullmatch(found):
        raise MigrationError(f"{_NO_EBS_ID}Invalid format for AWS volume ({volume_id})")
    return found


def _disk_path(name: str, labels: Labels) -> str:
    label = labels.get(BETA_ZONE) or labels.get(ZONE) or ""
    zones = label.split(ZONE_SEPARATOR)
    if len(zones) == 1:
        return f"projects/{_UNKNOWN}/zones/{zones[0] or _UNKNOWN}/disks/{name}"
    regions = set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != 3:
            form = "zone in unexpected format, expected: {locale}-{region}-{zone}, got: "
            raise MigrationError(f"failed to get region from zones: {form}{zone}")
        regions.add("-".join(parts[:2]))
    if len(regions) != 1:
        found = " ".join(f"{region}:{{}}" for region in sorted(regions))
        raise MigrationError(
            f"failed to get region from zones: multiple or no regions gotten from zones, got: map[{found}]"
        )
    return f"projects/{_UNKNOWN}/regions/{regions.pop()}/disks/{name}"


def _well_formed(term: object) -> bool:
    """True if the expressions of a node selector term have a key. Other terms match nothing."""
    expressions = term.get("matchExpressions") or () if isinstance(term, Mapping) else None
    if not isinstance(expressions, list | tuple):
        return False
    return all(isinstance(e, Mapping) and isinstance(e.get("key"), str) for e in expressions)


def _topology_labels(terms: list[dict[str, Any]], labels: Labels) -> tuple[str, str]:
    """The zone and region labels that the volume uses.

    Its affinity takes precedence over its labels, new label names over old ones.
    """
    mentioned = {expression.get("key") for term in terms for expression in term.get("matchExpressions") or ()}
    for where in (mentioned, labels):
        if ZONE in where:
            return ZONE, REGION
        if BETA_ZONE in where:
            return BETA_ZONE, BETA_REGION
    return ZONE, REGION


def _has_values(terms: list[dict[str, Any]], key: str) -> bool:
    return any(
        expression.get("key") == key and expression.get("values")
        for term in terms
        for expression in term.get("matchExpressions") or ()
    )


def _renamed(terms: list[dict[str, Any]], old: str, new: str) -> list[dict[str, Any]]:
    return [
        {
            **term,
            "matchExpressions": [
                {**expression, "key": new} if expression.get("key") == old else expression
                for expression in term.get("matchExpressions") or ()
            ],
        }
        for term in terms
    ]


def _with_zones(terms: list[dict[str, Any]], key: str, zones: list[str]) -> list[dict[str, Any]]:
    expression = {"key": key, "operator": "In", "values": zones}
    return [{**term, "matchExpressions": [*(term.get("matchExpressions") or ()), expression]} for term in terms or [{}]]
