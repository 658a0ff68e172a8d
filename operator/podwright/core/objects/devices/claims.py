"""ResourceClaim: what devices a pod asks for, and which it has got.

The spec of a claim is interned: claims of one template share it, and so do all results that are kept for it. Source:
the Kubernetes API reference, "ResourceClaim".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from podwright.core.objects.affinity import NodeAffinity
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.devices.classes import expression_of
from podwright.core.objects.devices.parts import Amount, name_in, parse_amount, parse_device_toleration
from podwright.core.objects.devices.slices import DeviceId, selector_of
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.interning import Interner
from podwright.core.objects.pod import Owner, parse_time
from podwright.core.objects.pod_group import WORKLOAD_API, group_key
from podwright.core.objects.raw import (
    Problems,
    Raw,
    as_count,
    as_flag,
    as_list,
    as_mapping,
    as_optional_text,
    as_text,
    as_texts,
    entries,
)
from podwright.core.objects.taints import Toleration

EXACT: Final = "ExactCount"
ALL: Final = "All"
FINALIZER: Final = "resource.kubernetes.io/delete-protection"
"""Keeps an allocated claim from being deleted while a pod uses it."""
FOR_EXTENDED_RESOURCES: Final = "resource.kubernetes.io/extended-resource-claim"
"""The annotation of the claim that the scheduler creates for a pod's extended resources."""


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """A request for devices, or one of the alternatives (subrequests) of a request.

    `selectors`: CEL expressions; None for a selector of a kind that is not known. `capacity`: the requested parts of
    capacities by name.
    """

    name: str
    parent: str
    """The request of which this is an alternative; empty if it is a request itself."""
    device_class: str
    mode: str
    count: int
    admin: bool
    selectors: tuple[str | None, ...]
    tolerations: tuple[Toleration, ...]
    raw_tolerations: tuple[Raw, ...]
    capacity: Mapping[str, Amount]
    derived_attributes: bool

    @property
    def reference(self) -> str:
        """How results name it: `request` or `request/subrequest`."""
        return f"{self.parent}/{self.name}" if self.parent else self.name


@dataclass(frozen=True, slots=True, eq=False)
class DeviceRequest:
    """A request with one ask, or with alternatives of which the first that can be allocated counts. Without asks, its
    kind is not known.
    """

    name: str
    asks: tuple[Ask, ...]
    has_alternatives: bool


@dataclass(frozen=True, slots=True, eq=False)
class DeviceConstraint:
    """All devices of some requests have the same value of an attribute, or (`distinct`) each another. No `requests`:
    all of the claim.

    An empty `attribute`: the kind of the constraint is not known.
    """

    attribute: str
    distinct: bool
    requests: frozenset[str]

    def covers(self, ask: Ask) -> bool:
        if not self.requests:
            return True
        return (ask.parent or ask.name) in self.requests or (bool(ask.parent) and ask.reference in self.requests)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class ClaimSpec:
    """The requests, constraints and configuration of a claim. Interned."""

    requests: tuple[DeviceRequest, ...]
    constraints: tuple[DeviceConstraint, ...]
    config: tuple[Raw, ...]
    problem: str = ""
    """Why a part could not be understood: such a claim is never allocated."""


@dataclass(frozen=True, slots=True, eq=False)
class AllocatedDevice:
    """One device that a claim has got. `consumed`: nano-units by capacity, if it has a share; None if nothing is
    said.
    """

    request: str
    device_id: DeviceId
    admin: bool
    share_id: str
    consumed: Mapping[str, int] | None
    binding_conditions: tuple[str, ...]
    binding_failure_conditions: tuple[str, ...]
    skips_node_operations: bool


@dataclass(frozen=True, slots=True, eq=False)
class Allocation:
    """The devices that a claim has got. `timestamp`: seconds since the epoch; `node_affinity` None: available on all
    nodes.
    """

    devices: tuple[AllocatedDevice, ...]
    node_affinity: NodeAffinity | None
    timestamp: float | None
    raw: Raw


@dataclass(frozen=True, slots=True)
class DeviceStatus:
    """The conditions that a driver reports for an allocated device: condition type → (status, reason, message)."""

    device_id: DeviceId
    conditions: Mapping[str, tuple[str, str, str]]


@dataclass(frozen=True, slots=True, eq=False)
class ResourceClaim:
    """One version of a claim. Immutable. `reserved_for`: the uids of its consumers."""

    namespace: str
    name: str
    uid: str
    terminating: bool
    owner: Owner | None
    for_extended_resources: bool
    spec: ClaimSpec
    allocation: Allocation | None
    reserved_for: tuple[str, ...]
    for_groups: tuple[str, ...]
    """The keys of the pod groups among its consumers."""
    statuses: tuple[DeviceStatus, ...]
    problems: Problems
    raw: Raw

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


_specs: Final[Interner[ClaimSpec]] = Interner()
_selectors: Final[Interner[NodeAffinity]] = Interner()


def parse_resource_claim(raw: Raw) -> ResourceClaim:
    """A v1.ResourceClaim without the parts that cannot be understood."""
    namespace, name = name_in(raw)
    problems = Problems("ResourceClaim", f"{namespace}/{name}")
    metadata = problems.mapping(raw.get("metadata"), "metadata")
    status = problems.mapping(raw.get("status"), "status")
    spec = claim_spec_of(raw.get("spec"))
    if spec.problem:
        problems.note(InvalidObjectError("spec", spec.problem))
    references = [
        *problems.items(
            status.get("reservedFor"),
            "status.reservedFor",
            lambda item, at: (as_text(item.get("uid"), f"{at}.uid"), _group_in(item, namespace)),
        )
    ]
    return ResourceClaim(
        namespace=namespace,
        name=name,
        uid=str(metadata.get("uid") or f"{namespace}/{name}"),
        terminating=bool(metadata.get("deletionTimestamp")),
        owner=_owner(metadata, problems),
        for_extended_resources=problems.mapping(metadata.get("annotations"), "metadata.annotations").get(
            FOR_EXTENDED_RESOURCES
        )
        == "true",
        spec=spec,
        allocation=None if status.get("allocation") is None else parse_allocation(status["allocation"], problems),
        reserved_for=tuple(uid for uid, _ in references),
        for_groups=tuple(group for _, group in references if group),
        statuses=tuple(problems.items(status.get("devices"), "status.devices", _status)),
        problems=problems,
        raw=raw,
    )


def claim_spec_of(raw: object) -> ClaimSpec:
    """The spec of a claim or of a template, interned."""
    return _specs.get(raw, lambda: _parse_spec(raw))


def _parse_spec(raw: object) -> ClaimSpec:
    try:
        devices = as_mapping(as_mapping(raw, "spec").get("devices"), "spec.devices")
        where = "spec.devices"
        return ClaimSpec(
            requests=_each(devices, "requests", where, _request),
            constraints=_each(devices, "constraints", where, _constraint),
            config=_each(devices, "config", where, lambda item, _at: item),
        )
    except InvalidObjectError as error:
        return ClaimSpec((), (), (), problem=f"{error.where}: {error.problem}")


def _each(raw: Raw, field: str, where: str, parse: Any) -> tuple[Any, ...]:
    """Raises InvalidObjectError."""
    return tuple(parse(item, at) for at, item in entries(raw.get(field), f"{where}.{field}"))


def _request(raw: Raw, where: str) -> DeviceRequest:
    name = as_text(raw.get("name"), f"{where}.name")
    exactly = raw.get("exactly")
    if exactly is not None:
        ask = _ask(as_mapping(exactly, f"{where}.exactly"), f"{where}.exactly", name, "")
        return DeviceRequest(name, (ask,), has_alternatives=False)
    alternatives = _each(
        raw, "firstAvailable", where, lambda item, at: _ask(item, at, as_text(item.get("name"), f"{at}.name"), name)
    )
    return DeviceRequest(name, alternatives, has_alternatives=True)


def _ask(raw: Raw, where: str, name: str, parent: str) -> Ask:
    tolerations = _each(raw, "tolerations", where, lambda item, _at: item)
    capacity = as_mapping(
        as_mapping(raw.get("capacity"), f"{where}.capacity").get("requests"), f"{where}.capacity.requests"
    )
    mode = as_optional_text(raw.get("allocationMode"), f"{where}.allocationMode") or EXACT
    count = as_count(raw.get("count"), f"{where}.count")
    return Ask(
        name=name,
        parent=parent,
        device_class=as_optional_text(raw.get("deviceClassName"), f"{where}.deviceClassName"),
        mode=mode,
        count=1 if mode == EXACT and raw.get("count") is None else count,
        admin=not parent and as_flag(raw.get("adminAccess"), f"{where}.adminAccess"),
        selectors=_each(raw, "selectors", where, expression_of),
        tolerations=tuple(
            parse_device_toleration(item, f"{where}.tolerations[{i}]") for i, item in enumerate(tolerations)
        ),
        raw_tolerations=tolerations,
        capacity={
            str(name): parse_amount(value, f"{where}.capacity.requests[{name}]") for name, value in capacity.items()
        },
        derived_attributes=bool(raw.get("derivedAttributes")),
    )


def _constraint(raw: Raw, where: str) -> DeviceConstraint:
    match = as_optional_text(raw.get("matchAttribute"), f"{where}.matchAttribute")
    distinct = as_optional_text(raw.get("distinctAttribute"), f"{where}.distinctAttribute")
    return DeviceConstraint(
        match or distinct, distinct=not match, requests=frozenset(as_texts(raw.get("requests"), f"{where}.requests"))
    )


def parse_allocation(raw: object, problems: Problems) -> Allocation:
    """A v1.AllocationResult. A device that cannot be understood is left out."""
    where = "status.allocation"
    given = problems.mapping(raw, where)
    devices = problems.mapping(given.get("devices"), f"{where}.devices")
    affinity, timestamp = None, None
    selector = given.get("nodeSelector")
    try:
        if selector is not None:
            affinity = _selectors.get(selector, lambda: selector_of(selector, f"{where}.nodeSelector"))
    except InvalidObjectError as error:
        affinity = _NO_NODE
        problems.note(error)
    try:
        timestamp = parse_time(given.get("allocationTimestamp"), f"{where}.allocationTimestamp")
    except InvalidObjectError as error:
        problems.note(error)
    results = problems.items(devices.get("results"), f"{where}.devices.results", _result)
    return Allocation(tuple(results), affinity, timestamp, given)


_NO_NODE: Final = selector_of({"nodeSelectorTerms": []}, "")
"""A selector that cannot be understood matches no node."""


def _device_id(raw: Raw, where: str) -> DeviceId:
    driver, pool, device = (as_text(raw.get(key), f"{where}.{key}") for key in ("driver", "pool", "device"))
    return driver, pool, device


def _result(raw: Raw, where: str) -> AllocatedDevice:
    consumed = raw.get("consumedCapacity")
    return AllocatedDevice(
        request=as_optional_text(raw.get("request"), f"{where}.request"),
        device_id=_device_id(raw, where),
        admin=as_flag(raw.get("adminAccess"), f"{where}.adminAccess"),
        share_id=as_optional_text(raw.get("shareID"), f"{where}.shareID"),
        consumed=None
        if consumed is None
        else {
            str(name): parse_amount(value, f"{where}.consumedCapacity[{name}]").nanos
            for name, value in as_mapping(consumed, f"{where}.consumedCapacity").items()
        },
        binding_conditions=as_texts(raw.get("bindingConditions"), f"{where}.bindingConditions"),
        binding_failure_conditions=as_texts(raw.get("bindingFailureConditions"), f"{where}.bindingFailureConditions"),
        skips_node_operations=bool(raw.get("skipNodeOperations")),
    )


def _status(raw: Raw, where: str) -> DeviceStatus:
    conditions = {}
    for item in as_list(raw.get("conditions"), f"{where}.conditions"):
        condition = as_mapping(item, f"{where}.conditions")
        kind = str(condition.get("type") or "")
        if kind not in conditions:
            status, reason, message = (str(condition.get(key) or "") for key in ("status", "reason", "message"))
            conditions[kind] = (status, reason, message)
    return DeviceStatus(_device_id(raw, where), conditions)


def _group_in(reference: Raw, namespace: str) -> str:
    """The key of the pod group to which an entry of `reservedFor` refers; empty for another consumer."""
    of_group = reference.get("resource") == "podgroups" and reference.get("apiGroup") == WORKLOAD_API
    return group_key(WORKLOAD_API, namespace, str(reference.get("name") or "")) if of_group else ""


def _owner(metadata: Raw, problems: Problems) -> Owner | None:
    for owner in problems.items(metadata.get("ownerReferences"), "metadata.ownerReferences", lambda item, _where: item):
        if owner.get("controller") is True:
            return Owner(*(str(owner.get(key) or "") for key in ("apiVersion", "kind", "name", "uid")))
    return None
