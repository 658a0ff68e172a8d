"""ResourceSlice: devices that a driver offers, their pool, and the nodes from which they can be reached.

What a CEL selector sees of a device is its `DeviceShape`. Equal shapes are one object, so that a selector is evaluated
once for all devices that it cannot tell apart. Source: the Kubernetes API reference, "ResourceSlice".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from podwright.core.objects.affinity import NodeAffinity
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.devices.parts import Amount, name_in, parse_amount, parse_device_taint
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.interning import Interner
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
    json_type,
)
from podwright.core.objects.selectors import parse_node_selector
from podwright.core.objects.taints import Taint

_NUMBER: Final = r"(0|[1-9][0-9]{0,8})"
_VERSION: Final = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-[0-9A-Za-z.-]+)?", re.ASCII)
"""Only versions that are certainly valid."""

PoolId = tuple[str, str]
"""(driver, pool name)"""
DeviceId = tuple[str, str, str]
"""(driver, pool name, device name)"""
Attribute = tuple[str, Any]
"""(kind, value): the kind is `string`, `int`, `bool` or `version`; "" for a kind that no constraint can compare."""

_KINDS: Final = ("string", "int", "bool", "version")
_TYPES: Final[Mapping[str, type]] = {"string": str, "int": int, "bool": bool, "version": str}


@dataclass(frozen=True, slots=True)
class ValidRange:
    """Amounts that may be consumed: from `least` to `most`, in steps."""

    least: Amount | None
    most: Amount | None
    step: Amount | None


@dataclass(frozen=True, slots=True)
class RequestPolicy:
    """How a request for a part of a capacity is adjusted."""

    default: Amount | None
    valid_values: tuple[Amount, ...]
    valid_range: ValidRange | None


@dataclass(frozen=True, slots=True)
class DeviceCapacity:
    """A capacity of a device."""

    value: Amount
    policy: RequestPolicy | None


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class DeviceShape:
    """Everything that a CEL selector sees of a device. Interned: equal shapes are one object."""

    driver: str
    attributes: Mapping[str, Attribute]
    capacity: Mapping[str, DeviceCapacity]
    allow_multiple: bool
    plain_capacity: bool
    """True if no capacity has a request policy or a negative value."""
    readable: bool
    """True if CEL can read every attribute. It fails on a device with an unknown kind of attribute, whatever the
    selector reads.
    """
    raw: Raw
    """`attributes`, `capacity` and `allowMultipleAllocations`, as in the slice."""

    def attribute(self, name: str) -> Attribute | None:
        """The attribute with this fully qualified name. Its domain may be left out in the slice if it is the
        driver's.
        """
        found = self.attributes.get(name)
        if found is not None:
            return found
        domain, slash, short = name.partition("/")
        return self.attributes.get(short) if slash and domain == self.driver else None


Consumption = tuple[tuple[str, str, int], ...]
"""(counter set, counter, nano-units) of all that a device consumes."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Reach:
    """From which nodes a slice or a device can be reached: from one by name, from all, or from those that a selector
    matches.
    """

    node_name: str
    all_nodes: bool
    selector: NodeAffinity | None
    raw_selector: Raw | None = None

    @property
    def given(self) -> bool:
        return bool(self.node_name) or self.all_nodes or self.selector is not None

    def covers(self, name: str, labels: Mapping[str, str]) -> bool:
        """True if a node is among them."""
        if self.node_name:
            return name == self.node_name
        if self.all_nodes:
            return True
        return self.selector is not None and self.selector.matches(labels, name)


NOWHERE: Final = Reach("", all_nodes=False, selector=None)


@dataclass(frozen=True, slots=True, eq=False)
class Device:
    """One device of a slice. `reach` is used if the slice has `perDeviceNodeSelection`."""

    name: str
    shape: DeviceShape
    consumes: Consumption
    counter_sets: frozenset[str]
    """The counter sets that it names, also those of which it consumes nothing."""
    taints: tuple[Taint, ...]
    reach: Reach
    binds_to_node: bool
    binding_conditions: tuple[str, ...]
    binding_failure_conditions: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ResourceSlice:
    """One version of a slice. Immutable.

    `counter_sets`: (name, amounts in nano-units by counter) in their order. A slice with counter sets has no devices to
    allocate.
    """

    name: str
    driver: str
    pool: str
    generation: int
    slice_count: int
    reach: Reach
    per_device: bool
    devices: tuple[Device, ...]
    counter_sets: tuple[tuple[str, Mapping[str, int]], ...]
    uses_compatibility_groups: bool
    problems: Problems
    raw: Raw

    @property
    def pool_id(self) -> PoolId:
        return self.driver, self.pool


_shapes: Final[Interner[DeviceShape]] = Interner()
_reaches: Final[Interner[Reach]] = Interner()


def parse_slice(raw: Raw, before: ResourceSlice | None = None) -> ResourceSlice:
    """A v1.ResourceSlice without the parts that cannot be understood. `before`: an earlier version; devices that did
    not change are reused.
    """
    problems = Problems("ResourceSlice", name_in(raw)[1])
    spec = problems.mapping(raw.get("spec"), "spec")
    pool = problems.mapping(spec.get("pool"), "spec.pool")
    parts: dict[str, Any] = {}
    for field, holder, key, parse in (
        ("driver", spec, "driver", as_text),
        ("pool", pool, "name", as_text),
        ("generation", pool, "generation", as_count),
        ("slice_count", pool, "resourceSliceCount", as_count),
        ("per_device", spec, "perDeviceNodeSelection", as_flag),
    ):
        where = f"spec.{'pool.' if holder is pool else ''}{key}"
        try:
            parts[field] = parse(holder.get(key), where)
        except InvalidObjectError as error:
            problems.note(error)
            parts[field] = "" if parse is as_text else 0
    try:
        reach = parse_reach(spec, "spec")
    except InvalidObjectError as error:
        problems.note(error)
        reach = NOWHERE
    counter_sets = tuple(problems.items(spec.get("sharedCounters"), "spec.sharedCounters", _counter_set))
    devices: tuple[Device, ...] = ()
    if not counter_sets:
        devices = _devices(parts["driver"], spec.get("devices"), problems, before)
    return ResourceSlice(
        name=name_in(raw)[1],
        reach=reach,
        devices=devices,
        counter_sets=counter_sets,
        uses_compatibility_groups=_uses_compatibility_groups(spec.get("devices")),
        problems=problems,
        raw=raw,
        **parts,
    )


def _devices(driver: str, raw: object, problems: Problems, before: ResourceSlice | None) -> tuple[Device, ...]:
    if before is not None and not before.problems and before.driver == driver:
        known = before.raw["spec"].get("devices")
        if known == raw:
            return before.devices
    return tuple(problems.items(raw, "spec.devices", lambda item, at: _device(driver, item, at)))


def parse_reach(raw: Raw, where: str) -> Reach:
    """`nodeName`, `nodeSelector` and `allNodes` of a slice or a device. Raises InvalidObjectError."""
    name = as_optional_text(raw.get("nodeName"), f"{where}.nodeName")
    selector = raw.get("nodeSelector")
    everywhere = as_flag(raw.get("allNodes"), f"{where}.allNodes")
    if not name and selector is None:
        return _EVERYWHERE if everywhere else NOWHERE
    return _reaches.get(
        (name, selector, everywhere),
        lambda: Reach(
            name,
            everywhere,
            None if selector is None else selector_of(selector, f"{where}.nodeSelector"),
            selector,
        ),
    )


_EVERYWHERE: Final = Reach("", all_nodes=True, selector=None)


def selector_of(raw: object, where: str) -> NodeAffinity:
    """A v1.NodeSelector as an affinity that requires it. Raises InvalidObjectError."""
    selector = parse_node_selector(raw, where)
    size = sum(len(term.expressions) + len(term.fields) for term in selector.terms)
    return NodeAffinity({}, selector, (), size=size)


def _counter_set(raw: Raw, where: str) -> tuple[str, Mapping[str, int]]:
    counters = as_mapping(raw.get("counters"), f"{where}.counters")
    amounts = {
        str(name): parse_amount(
            as_mapping(counter, f"{where}.counters[{name}]").get("value"), f"{where}.counters[{name}].value"
        ).nanos
        for name, counter in counters.items()
    }
    return as_text(raw.get("name"), f"{where}.name"), amounts


def _device(driver: str, raw: Raw, where: str) -> Device:
    shape = {key: raw[key] for key in ("attributes", "capacity", "allowMultipleAllocations") if raw.get(key)}
    consumes = []
    counter_sets = set()
    for at, consumption in entries(raw.get("consumesCounters"), f"{where}.consumesCounters"):
        name, amounts = _counter_set({**consumption, "name": consumption.get("counterSet")}, at)
        counter_sets.add(name)
        consumes += [(name, counter, amount) for counter, amount in amounts.items()]
    taints = raw.get("taints")
    own_reach = "nodeName" in raw or "nodeSelector" in raw or "allNodes" in raw
    return Device(
        name=as_text(raw.get("name"), f"{where}.name"),
        shape=_shapes.get((driver, shape), lambda: _shape(driver, shape, where)),
        consumes=tuple(consumes),
        counter_sets=frozenset(counter_sets),
        taints=() if not taints else _parse_taints(taints, f"{where}.taints"),
        reach=parse_reach(raw, where) if own_reach else NOWHERE,
        binds_to_node=as_flag(raw.get("bindsToNode"), f"{where}.bindsToNode"),
        binding_conditions=as_texts(raw.get("bindingConditions"), f"{where}.bindingConditions"),
        binding_failure_conditions=as_texts(raw.get("bindingFailureConditions"), f"{where}.bindingFailureConditions"),
    )


def _parse_taints(raw: object, where: str) -> tuple[Taint, ...]:
    return tuple(parse_device_taint(item, at) for at, item in entries(raw, where))


def _shape(driver: str, raw: Raw, where: str) -> DeviceShape:
    attributes = as_mapping(raw.get("attributes"), f"{where}.attributes")
    given = as_mapping(raw.get("capacity"), f"{where}.capacity")
    capacity = {
        str(name): _capacity(as_mapping(value, f"{where}.capacity[{name}]"), f"{where}.capacity[{name}]")
        for name, value in given.items()
    }
    parsed = {
        str(name): _attribute(as_mapping(value, f"{where}.attributes[{name}]"), f"{where}.attributes[{name}]")
        for name, value in attributes.items()
    }
    return DeviceShape(
        driver=driver,
        attributes=parsed,
        readable=all(kind and (kind != "version" or _is_version(value)) for kind, value in parsed.values()),
        capacity=capacity,
        plain_capacity=all(c.policy is None and c.value.nanos >= 0 for c in capacity.values()),
        allow_multiple=as_flag(raw.get("allowMultipleAllocations"), f"{where}.allowMultipleAllocations"),
        raw=raw,
    )


@lru_cache(maxsize=1024)
def _is_version(text: str) -> bool:
    return _VERSION.fullmatch(text) is not None


def _attribute(raw: Raw, where: str) -> Attribute:
    for kind in _KINDS:
        value = raw.get(kind)
        if value is None:
            continue
        if not isinstance(value, _TYPES[kind]) or (kind == "int" and isinstance(value, bool)):
            raise InvalidObjectError(f"{where}.{kind}", f"got {json_type(value)}")
        return kind, value
    return "", None


def _capacity(raw: Raw, where: str) -> DeviceCapacity:
    policy = raw.get("requestPolicy")
    value = parse_amount(raw.get("value"), f"{where}.value")
    return DeviceCapacity(
        value,
        None if policy is None else _policy(as_mapping(policy, f"{where}.requestPolicy"), f"{where}.requestPolicy"),
    )


def _policy(raw: Raw, where: str) -> RequestPolicy:
    limits = raw.get("validRange")
    valid_range = None
    if limits is not None:
        given = as_mapping(limits, f"{where}.validRange")
        valid_range = ValidRange(*(_optional(given, key, f"{where}.validRange") for key in ("min", "max", "step")))
    values = as_list(raw.get("validValues"), f"{where}.validValues")
    return RequestPolicy(
        _optional(raw, "default", where),
        tuple(parse_amount(value, f"{where}.validValues[{i}]") for i, value in enumerate(values)),
        valid_range,
    )


def _optional(raw: Raw, key: str, where: str) -> Amount | None:
    value = raw.get(key)
    return None if value is None else parse_amount(value, f"{where}.{key}")


def _uses_compatibility_groups(raw: object) -> bool:
    """True if a device declares compatibility groups, which are off by default: such a slice is ignored, as in
    kube-scheduler.
    """
    if not isinstance(raw, list):
        return False
    return any(
        isinstance(consumption, Mapping) and consumption.get("compatibilityGroups")
        for device in raw
        if isinstance(device, Mapping)
        for consumption in (device.get("consumesCounters") or ())
    )
