"""The parts that several objects of resource.k8s.io share: amounts, taints and tolerations of devices."""

from __future__ import annotations

from collections.abc import Mapping

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.quantity import parse_exact_quantity
from podwright.core.objects.raw import Raw, as_optional_text, as_text
from podwright.core.objects.taints import Taint, Toleration


@dataclass(frozen=True, slots=True)
class Amount:
    """A quantity: nano-units, and the text that it was written as."""

    nanos: int
    text: str


def parse_amount(raw: object, where: str) -> Amount:
    """A quantity. Raises InvalidObjectError."""
    return Amount(parse_exact_quantity(raw, where), str(raw))


def parse_device_taint(raw: Raw, where: str) -> Taint:
    """A v1.DeviceTaint. Raises InvalidObjectError."""
    return Taint(
        as_text(raw.get("key"), f"{where}.key"),
        as_optional_text(raw.get("value"), f"{where}.value"),
        as_text(raw.get("effect"), f"{where}.effect"),
    )


def parse_device_toleration(raw: Raw, where: str) -> Toleration:
    """A v1.DeviceToleration. Raises InvalidObjectError."""
    return Toleration(
        *(as_optional_text(raw.get(key), f"{where}.{key}") for key in ("key", "operator", "value", "effect"))
    )


def name_in(raw: Raw) -> tuple[str, str]:
    """The namespace and the name in an object's metadata, as text, whatever they are."""
    metadata = raw.get("metadata")
    if not isinstance(metadata, Mapping):
        return "", "?"
    return str(metadata.get("namespace") or ""), str(metadata.get("name") or "?")
