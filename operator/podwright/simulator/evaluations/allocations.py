"""Compares allocations of devices. Where the expectation allows several devices, any of them agrees. A choice among
several must satisfy the claim: each device is among the candidates of its request, and is consumed alike; an exclusive
device is taken once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.quantity import parse_exact_quantity
from podwright.core.objects.raw import Raw

_DEVICE: Final = ("driver", "pool", "device")


def allocation_differences(ours: Raw, theirs: Raw) -> Iterator[str]:
    """Yields what differs, in words."""
    free = bool(theirs.get("several") or theirs.get("interchangeable"))
    for key in ("node", "reserved", "waits"):
        if ours.get(key) != theirs.get(key):
            yield f"allocation.{key}: {ours.get(key)!r}, expected {theirs.get(key)!r}"
    mine, expected = ours.get("claims") or {}, theirs.get("claims") or {}
    if set(mine) != set(expected):
        yield f"allocation.claims: {sorted(mine)}, expected {sorted(expected)}"
        return
    candidates = theirs.get("candidates") or {}
    for name, allocation in expected.items():
        yield from _one(f"allocation.claims.{name}", mine[name], allocation, candidates.get(name) if free else None)
    mine, expected = ours.get("extendedResourceClaim") or {}, theirs.get("extendedResourceClaim") or {}
    if bool(mine) != bool(expected):
        yield f"allocation.extendedResourceClaim: {mine}, expected {expected}"
    elif expected:
        for key in ("requests", "requestMappings"):
            if mine.get(key) != expected.get(key):
                yield f"allocation.extendedResourceClaim.{key}: {mine.get(key)!r}, expected {expected.get(key)!r}"
        found = expected.get("candidates") if free else None
        where = "allocation.extendedResourceClaim.allocation"
        yield from _one(where, mine.get("allocation") or {}, expected["allocation"], found)


def _one(where: str, ours: Raw, theirs: Raw, candidates: Sequence[Raw] | None) -> Iterator[str]:
    mine, expected = _comparable(ours), _comparable(theirs)
    if mine == expected:
        return
    if candidates is None:
        yield f"{where}: {mine}, expected {expected}"
        return
    results, wanted = mine["results"], expected["results"]
    if [result["request"] for result in results] != [result["request"] for result in wanted]:
        yield f"{where}: {results}, expected other requests: {wanted}"
    possible = [_result(candidate) for candidate in candidates]
    for result in results:
        if result not in possible:
            yield f"{where}: {result} is not among the candidates"
    taken = [tuple(result[key] for key in _DEVICE) for result in results if "shareID" not in result]
    if len(set(taken)) < len(taken):
        yield f"{where}: a device is taken twice: {results}"


def _comparable(allocation: Raw) -> dict[str, Any]:
    devices = allocation.get("devices") or {}
    rest = {key: value for key, value in allocation.items() if key not in ("devices", "allocationTimestamp")}
    return {**rest, **devices, "results": [_result(result) for result in devices.get("results") or ()]}


def _result(result: Raw) -> dict[str, Any]:
    """The result with amounts as numbers."""
    found = dict(result)
    if "consumedCapacity" in found:
        found["consumedCapacity"] = {name: _amount(text) for name, text in found["consumedCapacity"].items()}
    return found


def _amount(text: object) -> object:
    try:
        return parse_exact_quantity(text, "consumedCapacity")
    except InvalidObjectError:
        return text
