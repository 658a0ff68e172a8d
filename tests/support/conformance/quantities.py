"""The canonical notation of quantities, in which the API server serves every object.

Source of the rules: the Kubernetes API reference, "Quantity": no fraction, the greatest suffix without loss, and the suffixes of the
original notation where they are exact.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from podwright.core.objects.quantity import NANO, parse_quantity

_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL: Final = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_EXPONENT: Final = re.compile(r"[eE][+-]?[0-9]+$")


def canonical_quantity(text: str) -> str:
    """`600.0Mi` is `600Mi`, `0.586Gi` is `629212708864m`, `0.001k` is `1`."""
    nanos = parse_quantity(text, "quantity")
    whole, fraction = divmod(nanos, NANO)
    if text.endswith("i") and not fraction and abs(whole) >= 1024:
        index = 0
        while whole % 1024 == 0 and index + 1 < len(_BINARY):
            whole, index = whole // 1024, index + 1
        return f"{whole}{_BINARY[index]}"
    index = 0
    while nanos and nanos % 1000 == 0 and index + 1 < len(_DECIMAL):
        nanos, index = nanos // 1000, index + 1
    if not nanos:
        return "0"
    power = 3 * index - 9
    if _EXPONENT.search(text):
        return f"{nanos}e{power}" if power else str(nanos)
    return f"{nanos}{_DECIMAL[index]}"


def with_canonical_pod_requests(case: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a conformance case, with the quantities of all pod-level requests in canonical notation."""
    return {**case, "pods": [_canonical(pod) for pod in case.get("pods") or ()], "pod": _canonical(case["pod"])}


def _canonical(pod: Mapping[str, Any]) -> dict[str, Any]:
    spec = pod["spec"]
    resources = spec.get("resources") or {}
    if not resources.get("requests"):
        return dict(pod)
    requests = {name: canonical_quantity(text) for name, text in resources["requests"].items()}
    return {**pod, "spec": {**spec, "resources": {**resources, "requests": requests}}}
