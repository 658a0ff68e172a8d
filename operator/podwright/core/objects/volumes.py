"""The fields of PersistentVolume, PersistentVolumeClaim, StorageClass and CSIStorageCapacity that the volume plugins
use.

Parsed objects are immutable. Volumes and claims keep their `raw` object. Sizes are exact, in nano-units. Sources: the
Kubernetes API reference; "Persistent Volumes" and "Storage Capacity" in its documentation. In-tree volumes: see
csi_migration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from podwright.core.objects.affinity import interned_selector
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.interning import Interner
from podwright.core.objects.pod import PodInfo, controller_of
from podwright.core.objects.quantity import parse_quantity
from podwright.core.objects.raw import as_labels, as_list, as_mapping, entries
from podwright.core.objects.selectors import Labels, LabelSelector, Requirement, parse_node_selector_term

READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"
WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
BETA_STORAGE_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"
"""The annotation of a CSINode that lists the in-tree plugins that its CSI drivers replace."""

ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"
TOPOLOGY_LABELS: Final = (BETA_ZONE, BETA_REGION, ZONE, REGION)
"""The labels that restrict a volume to zones and regions."""
ZONE_SEPARATOR: Final = "__"


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class VolumeAffinity:
    """The terms of a volume's required node affinity, of which at least one must match. Interned and compared by
    identity.

    Requirements on fields always hold, because kube-scheduler checks a volume against a node's labels without its name.
    An invalid term matches nothing.
    """

    terms: tuple[tuple[Requirement, ...], ...]
    keys: frozenset[str]
    """The label keys in the terms."""

    def matches(self, labels: Labels) -> bool:
        return any(all(r.matches_value(labels.get(r.key)) for r in term) for term in self.terms)


@dataclass(frozen=True, slots=True)
class ClaimReference:
    """The claim that a volume is bound to or reserved for. `uid` is empty if a user reserved the volume."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True, eq=False)
class PersistentVolume:
    """A v1.PersistentVolume. `csi` is (driver, volume handle). `zones` are its zone and region labels with their sets
    of values.
    """

    name: str
    resource_version: str
    labels: Labels
    storage_class: str
    capacity: int
    access_modes: frozenset[str]
    volume_mode: str
    attributes_class: str
    claim: ClaimReference | None
    available: bool
    terminating: bool
    affinity: VolumeAffinity | None
    csi: tuple[str, str] | None
    zones: tuple[tuple[str, frozenset[str]], ...]
    raw: Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class PersistentVolumeClaim:
    """A v1.PersistentVolumeClaim. `request` and `selector` are None if the claim has none."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    storage_class: str
    volume_name: str
    bound: bool
    """True if the claim names a volume and the controller has annotated the binding as complete."""
    selected_node: str | None
    request: int | None
    access_modes: frozenset[str]
    volume_mode: str
    attributes_class: str
    selector: LabelSelector | None
    lost: bool
    terminating: bool
    owner_uid: str
    """The controlling owner. For the claim of an ephemeral volume, this must be the pod."""
    raw: Mapping[str, Any]

    @property
    def key(self) -> str:
        """namespace/name"""
        return f"{self.namespace}/{self.name}"

    def reserved_by(self, volume: PersistentVolume) -> bool:
        """True if the volume is bound to this claim or reserved for it."""
        claim = volume.claim
        return (
            claim is not None
            and claim.name == self.name
            and claim.namespace == self.namespace
            and claim.uid in ("", self.uid)
        )


@dataclass(frozen=True, slots=True, eq=False)
class StorageClass:
    """A storage.k8s.io/v1 StorageClass.

    `topologies` is None if it provisions for any node. All requirements of one of its terms must hold.
    """

    name: str
    provisioner: str
    binding_mode: str | None
    topologies: tuple[tuple[Requirement, ...], ...] | None

    def allows(self, labels: Labels) -> bool:
        """True if a volume can be provisioned for a node with these labels."""
        if self.topologies is None:
            return True
        return any(all(r.matches_value(labels.get(r.key)) for r in term) for term in self.topologies)


@dataclass(frozen=True, slots=True, eq=False)
class StorageCapacity:
    """A CSIStorageCapacity.

    `limit`: the size of the largest volume that can be provisioned. `capacity`: all free capacity; 0 if unknown.
    """

    storage_class: str
    limit: int | None
    capacity: int
    nodes: LabelSelector


_affinities: Final[Interner[VolumeAffinity]] = Interner()
_EMPTY: Final[Mapping[str, Any]] = {}


def parse_volume(raw: Mapping[str, Any]) -> PersistentVolume:
    """A v1.PersistentVolume. Raises InvalidObjectError naming the volume and the field."""
    metadata = as_mapping(raw.get("metadata"), "metadata")
    name = str(metadata.get("name") or "?")
    try:
        spec = as_mapping(raw.get("spec"), "spec")
        status = as_mapping(raw.get("status"), "status")
        labels = as_labels(metadata.get("labels"), "metadata.labels")
        csi = as_mapping(spec.get("csi"), "spec.csi") if spec.get("csi") is not None else None
        affinity = as_mapping(spec.get("nodeAffinity"), "spec.nodeAffinity").get("required")
        return PersistentVolume(
            name=name,
            resource_version=str(metadata.get("resourceVersion") or ""),
            labels=labels,
            storage_class=storage_class_of(raw),
            capacity=_storage(spec.get("capacity"), "spec.capacity") or 0,
            access_modes=frozenset(map(str, as_list(spec.get("accessModes"), "spec.accessModes"))),
            volume_mode=str(spec.get("volumeMode") or "Filesystem"),
            attributes_class=str(spec.get("volumeAttributesClassName") or ""),
            claim=_claim_reference(spec),
            available=status.get("phase") == "Available",
            terminating=bool(metadata.get("deletionTimestamp")),
            affinity=None if affinity is None else volume_affinity(affinity),
            csi=None if csi is None else (str(csi.get("driver") or ""), str(csi.get("volumeHandle") or "")),
            zones=tuple(_zones(labels)),
            raw=raw,
        )
    except InvalidObjectError as error:
        raise error.in_object("PersistentVolume", name) from error


def parse_claim(raw: Mapping[str, Any]) -> PersistentVolumeClaim:
    """A v1.PersistentVolumeClaim. Raises InvalidObjectError naming the claim and the field."""
    metadata = as_mapping(raw.get("metadata"), "metadata")
    name, namespace = str(metadata.get("name") or "?"), str(metadata.get("namespace") or "")
    try:
        annotations = as_mapping(metadata.get("annotations"), "metadata.annotations")
        spec = as_mapping(raw.get("spec"), "spec")
        resources = as_mapping(spec.get("resources"), "spec.resources")
        volume_name = str(spec.get("volumeName") or "")
        selector = spec.get("selector")
        return PersistentVolumeClaim(
            namespace=namespace,
            name=name,
            uid=str(metadata.get("uid") or ""),
            resource_version=str(metadata.get("resourceVersion") or ""),
            storage_class=storage_class_of(raw),
            volume_name=volume_name,
            bound=bool(volume_name) and BIND_COMPLETED in annotations,
            selected_node=annotations.get(SELECTED_NODE),
            request=_storage(resources.get("requests"), "spec.resources.requests"),
            access_modes=frozenset(map(str, as_list(spec.get("accessModes"), "spec.accessModes"))),
            volume_mode=str(spec.get("volumeMode") or "Filesystem"),
            attributes_class=str(spec.get("volumeAttributesClassName") or ""),
            selector=None if selector is None else interned_selector(selector, "spec.selector"),
            lost=as_mapping(raw.get("status"), "status").get("phase") == "Lost",
            terminating=bool(metadata.get("deletionTimestamp")),
            owner_uid=owner.uid if (owner := controller_of(metadata)) is not None else "",
            raw=raw,
        )
    except InvalidObjectError as error:
        raise error.in_object("PersistentVolumeClaim", f"{namespace}/{name}") from error


def parse_storage_class(raw: Mapping[str, Any]) -> StorageClass:
    """A storage.k8s.io/v1 StorageClass. Raises InvalidObjectError naming the class and the field."""
    name = str(as_mapping(raw.get("metadata"), "metadata").get("name") or "?")
    try:
        terms = as_list(raw.get("allowedTopologies"), "allowedTopologies")
        mode = raw.get("volumeBindingMode")
        return StorageClass(
            name=name,
            provisioner=str(raw.get("provisioner") or ""),
            binding_mode=None if mode is None else str(mode),
            topologies=tuple(_topology_terms(terms)) if terms else None,
        )
    except InvalidObjectError as error:
        raise error.in_object("StorageClass", name) from error


def parse_storage_capacity(raw: Mapping[str, Any]) -> StorageCapacity:
    """A storage.k8s.io/v1 CSIStorageCapacity. Raises InvalidObjectError naming it and the field."""
    try:
        largest, free = (
            None if raw.get(field) is None else parse_quantity(raw[field], field)
            for field in ("maximumVolumeSize", "capacity")
        )
        return StorageCapacity(
            storage_class=str(raw.get("storageClassName") or ""),
            limit=free if largest is None else largest,
            capacity=free or 0,
            nodes=interned_selector(raw.get("nodeTopology"), "nodeTopology"),
        )
    except InvalidObjectError as error:
        metadata = as_mapping(raw.get("metadata"), "metadata")
        raise error.in_object("CSIStorageCapacity", f"{metadata.get('namespace')}/{metadata.get('name')}") from error


def volume_affinity(required: object) -> VolumeAffinity:
    """The affinity for a v1.NodeSelector, interned by its source. Raises InvalidObjectError."""
    return _affinities.get(required, lambda: _parse_affinity(required))


def storage_class_of(raw: Mapping[str, Any]) -> str:
    """The name of the storage class of a volume or a claim; empty if it has none. The beta annotation overrides the
    field.
    """
    annotations = mapping_at(raw, "metadata", "annotations")
    if BETA_STORAGE_CLASS in annotations:
        return str(annotations[BETA_STORAGE_CLASS])
    return str(mapping_at(raw, "spec").get("storageClassName") or "")


def mapping_at(raw: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """Returns the mapping at this path inside an object; an empty one if no mapping is there."""
    found: Any = raw
    for key in path:
        found = found.get(key)
        if not isinstance(found, Mapping):
            return _EMPTY
    return found  # type: ignore[no-any-return]  # a mapping, by the loop


def claims_of(pod: PodInfo) -> Iterator[tuple[str, bool]]:
    """The claims that a pod mounts: each name, and whether the claim belongs to an ephemeral volume of the pod."""
    for volume in pod.volumes:
        if volume.get("persistentVolumeClaim") is not None:
            yield str(mapping_at(volume, "persistentVolumeClaim").get("claimName") or ""), False
        elif volume.get("ephemeral") is not None:
            yield f"{pod.name}-{volume.get('name')}", True


def share_claim(one: PodInfo, other: PodInfo) -> bool:
    """True if both pods mount a claim of the same name. Does not compare namespaces."""
    names = {name for name, _ in claims_of(one)}
    return bool(names) and any(name in names for name, _ in claims_of(other))


def _storage(raw: object, where: str) -> int | None:
    amounts = as_mapping(raw, where)
    return parse_quantity(amounts["storage"], f"{where}[storage]") if "storage" in amounts else None


def _claim_reference(spec: Mapping[str, Any]) -> ClaimReference | None:
    raw = spec.get("claimRef")
    if raw is None:
        return None
    claim = as_mapping(raw, "spec.claimRef")
    return ClaimReference(*(str(claim.get(field) or "") for field in ("namespace", "name", "uid")))


def _zones(labels: Labels) -> Iterator[tuple[str, frozenset[str]]]:
    """The topology labels and their values. Ignores a label with an empty part (`z1____z2`)."""
    for key in TOPOLOGY_LABELS:
        if key in labels:
            values = [value.strip() for value in labels[key].split(ZONE_SEPARATOR)]
            if all(values):
                yield key, frozenset(values)


def _parse_affinity(required: object) -> VolumeAffinity:
    terms = tuple(_affinity_terms(required))
    return VolumeAffinity(terms, frozenset(requirement.key for term in terms for requirement in term))


def _affinity_terms(required: object) -> Iterator[tuple[Requirement, ...]]:
    where = "spec.nodeAffinity.required"
    for item in as_list(as_mapping(required, where).get("nodeSelectorTerms"), f"{where}.nodeSelectorTerms"):
        term = as_mapping(item, f"{where}.nodeSelectorTerms")
        fields = term.get("matchFields") or ()
        if not fields and not term.get("matchExpressions"):
            continue
        try:
            parsed = parse_node_selector_term({"matchExpressions": term.get("matchExpressions")}, where)
        except InvalidObjectError:
            continue
        if all(_is_field_requirement(field) for field in as_list(fields, f"{where}.matchFields")):
            yield parsed.expressions


def _is_field_requirement(raw: object) -> bool:
    field = as_mapping(raw, "matchFields")
    return field.get("operator") in ("In", "NotIn") and len(as_list(field.get("values"), "matchFields.values")) == 1


def _topology_terms(terms: object) -> Iterator[tuple[Requirement, ...]]:
    """The terms that can match. An empty term and a term with an expression without values allow no node."""
    for at, item in entries(terms, "allowedTopologies"):
        where = f"{at}.matchLabelExpressions"
        expressions = as_list(item.get("matchLabelExpressions"), where)
        term = []
        for expression in expressions:
            entry = as_mapping(expression, where)
            values = frozenset(map(str, as_list(entry.get("values"), f"{where}.values")))
            term.append(Requirement(str(entry.get("key") or ""), "In", values))
        if term and all(requirement.values for requirement in term):
            yield tuple(term)
