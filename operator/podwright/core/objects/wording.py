"""Amounts of resources as people write them: `250m`, `1500m`, `3Gi`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from podwright.core.objects.resources import CPU, EPHEMERAL_STORAGE, HUGE_PAGES_PREFIX, MEMORY

_UNITS: Final = (("Ei", 1 << 60), ("Pi", 1 << 50), ("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10))


def quantity(resource: str, amount: int) -> str:
    """The amount as an exact Kubernetes quantity. CPU is in milli-CPU, all else in whole units."""
    if not amount:
        return "0"
    if resource == CPU:
        return f"{amount // 1000}" if amount % 1000 == 0 else f"{amount}m"
    if _is_bytes(resource):
        for unit, size in _UNITS:
            if amount % size == 0:
                return f"{amount // size}{unit}"
    return str(amount)


def readable(resource: str, amount: int) -> str:
    """The amount for people: bytes are rounded to a tenth of the greatest unit."""
    exact = quantity(resource, amount)
    if exact.isdigit() and len(exact) >= 5 and _is_bytes(resource):
        unit, size = next(pair for pair in _UNITS if amount >= pair[1])
        return f"{amount / size:.1f}{unit}"
    return exact


def _is_bytes(resource: str) -> bool:
    return resource in (MEMORY, EPHEMERAL_STORAGE) or resource.startswith(HUGE_PAGES_PREFIX)


def called(resource: str) -> str:
    """The name of the resource in a sentence."""
    return "CPU" if resource == CPU else resource


def counted(count: int, one: str, many: str = "") -> str:
    """`1 node`, `2 nodes`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def listed(names: list[str] | tuple[str, ...], most: int = 3) -> str:
    """`a, b and 5 more`."""
    if len(names) <= most:
        return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
    return f"{', '.join(names[:most])} and {len(names) - most:,} more"


def first_of(lines: Iterable[str], most: int | None, one: str = "") -> list[str]:
    """The first lines. If there are others, the last line is `and 5 more`, or with `one`, `and 5 more nodes`. `most`:
    None for all lines.
    """
    found = [*lines]
    more = 0 if most is None else len(found) - most
    if more <= 0:
        return found
    return [*found[:most], f"and {counted(more, f'more {one}') if one else f'{more:,} more'}"]
