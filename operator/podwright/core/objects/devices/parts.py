"""What several objects of resource.k8s.io share: amounts, taints and tolerations of devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from podwright.core.objects.quantity import parse_exact_quantity
from podwright.core.objects.raw import Raw, as_optional_text, as_text

NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"


@dataclass(frozen=True, slots=True)
class Amount:
    """A quantity: nano-units, and the text that it was written as."""

    nanos: int
    text: str


def parse_amount(raw: object, where: str) -> Amount:
    """A quantity. Raises InvalidObjectError."""
    return Amount(parse_exact_quantity(raw, where), str(raw))


@dataclass(frozen=True, slots=True)
class DeviceTaint:
    """A taint of a device. Only the effects NoSchedule and NoExecute keep it from being allocated."""

    key: str
    value: str
    effect: str

    @property
    def prevents(self) -> bool:
        return self.effect in (NO_SCHEDULE, NO_EXECUTE)


@dataclass(frozen=True, slots=True)
class DeviceToleration:
    """A toleration of a request for devices. An empty key or effect tolerates all of them."""

    key: str
    operator: str
    value: str
    effect: str

    def tolerates(self, taint: DeviceTaint) -> bool:
        """Source: `ToleratesTaint` in k8s.io/dynamic-resource-allocation/resourceclaim."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator in ("", "Equal"):
            return self.value == taint.value
        return self.operator == "Exists"


def parse_device_taint(raw: Raw, where: str) -> DeviceTaint:
    """A v1.DeviceTaint. Raises InvalidObjectError."""
    return DeviceTaint(
        as_text(raw.get("key"), f"{where}.key"),
        as_optional_text(raw.get("value"), f"{where}.value"),
        as_text(raw.get("effect"), f"{where}.effect"),
    )


def parse_device_toleration(raw: Raw, where: str) -> DeviceToleration:
    """A v1.DeviceToleration. Raises InvalidObjectError."""
    return DeviceToleration(
        *(as_optional_text(raw.get(key), f"{where}.{key}") for key in ("key", "operator", "value", "effect"))
    )


def name_in(raw: Raw) -> tuple[str, str]:
    """The namespace and the name in an object's metadata, as text, whatever they are."""
    metadata = raw.get("metadata")
    if not isinstance(metadata, Mapping):
        return "", "?"
    return str(metadata.get("namespace") or ""), str(metadata.get("name") or "?")
