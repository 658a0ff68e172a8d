"""DeviceClass, DeviceTaintRule, and the selectors that classes and requests share.

Source: the Kubernetes API reference, "DeviceClass" and "DeviceTaintRule".
"""

from __future__ import annotations

from typing import Final

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.devices.parts import name_in, parse_device_taint
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import parse_time
from podwright.core.objects.raw import Problems, Raw, as_mapping, as_optional_text
from podwright.core.objects.taints import Taint

IMPLICIT_RESOURCE: Final = "deviceclass.resource.kubernetes.io/"
"""Each DeviceClass stands for the extended resource with this prefix and its name."""


@dataclass(frozen=True, slots=True, eq=False)
class DeviceClass:
    """One version of a class. `selectors`: CEL expressions; None for a selector of a kind that is not known."""

    name: str
    selectors: tuple[str | None, ...]
    config: tuple[Raw, ...]
    extended_resource: str
    creation: float
    problems: Problems


@dataclass(frozen=True, slots=True, eq=False)
class DeviceTaintRule:
    """A taint for all devices that a selector matches. An empty driver, pool or device matches all of them.

    `taint`: None if the rule has no selector, which matches no device, or could not be understood.
    """

    name: str
    driver: str
    pool: str
    device: str
    taint: Taint | None
    problems: Problems

    def applies_to(self, driver: str, pool: str) -> bool:
        """True if it can match devices of this pool."""
        return self.taint is not None and self.driver in ("", driver) and self.pool in ("", pool)


def parse_device_class(raw: Raw) -> DeviceClass:
    """A v1.DeviceClass without the parts that cannot be understood."""
    name = name_in(raw)[1]
    problems = Problems("DeviceClass", name)
    spec = problems.mapping(raw.get("spec"), "spec")
    resource, creation = "", 0.0
    try:
        resource = as_optional_text(spec.get("extendedResourceName"), "spec.extendedResourceName")
        created = problems.mapping(raw.get("metadata"), "metadata").get("creationTimestamp")
        creation = parse_time(created, "metadata.creationTimestamp") or 0.0
    except InvalidObjectError as error:
        problems.note(error)
    return DeviceClass(
        name=name,
        selectors=tuple(problems.items(spec.get("selectors"), "spec.selectors", expression_of)),
        config=tuple(problems.items(spec.get("config"), "spec.config", lambda item, _where: item)),
        extended_resource=resource,
        creation=creation,
        problems=problems,
    )


def expression_of(raw: Raw, where: str) -> str | None:
    """The CEL expression of a v1.DeviceSelector; None if it is of another kind. Raises InvalidObjectError."""
    cel = raw.get("cel")
    return None if cel is None else str(as_mapping(cel, f"{where}.cel").get("expression") or "")


def parse_taint_rule(raw: Raw) -> DeviceTaintRule:
    """A v1.DeviceTaintRule. It does nothing without a selector, or if a part cannot be understood."""
    name = name_in(raw)[1]
    problems = Problems("DeviceTaintRule", name)
    spec = problems.mapping(raw.get("spec"), "spec")
    taint, driver, pool, device = None, "", "", ""
    try:
        raw_selector = spec.get("deviceSelector")
        selector = as_mapping(raw_selector, "spec.deviceSelector")
        driver, pool, device = (
            as_optional_text(selector.get(key), f"spec.deviceSelector.{key}") for key in ("driver", "pool", "device")
        )
        parsed = parse_device_taint(as_mapping(spec.get("taint"), "spec.taint"), "spec.taint")
        taint = None if raw_selector is None else parsed
    except InvalidObjectError as error:  # a rule that is only half understood would taint other devices
        problems.note(error)
    return DeviceTaintRule(name, driver, pool, device, taint, problems)
