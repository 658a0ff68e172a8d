"""The parts of a device that a selector reads, found in its checked tree.

Most selectors read the driver and a few attributes. So they are evaluated once for all devices that are equal in these,
however many other attributes (a uuid, an address) make every device another one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final

from podwright.core.cel.checking.tree import Call, Comprehension, Const, Ident, Select, TreeNode, children
from podwright.core.objects.devices.slices import DeviceShape

Part = tuple[str, ...]
"""("driver",), ("allowMultipleAllocations",), ("attributes", domain, id) or ("capacity", domain, id)"""

_DEVICE: Final = "device"
_PLAIN: Final = ("driver", "allowMultipleAllocations")
_MAPS: Final = ("attributes", "capacity")
_LOOKUPS: Final = ("_[_]", "_[?_]", "_?._")


class _ReadsEverythingError(Exception):
    """The selector reads more than single attributes and capacities."""


def projection_of(tree: TreeNode) -> Callable[[DeviceShape], Hashable] | None:
    """A function whose result is equal for devices that the selector cannot distinguish; None if the selector may read
    everything.
    """
    parts: dict[Part, None] = {}
    try:
        _collect(tree, parts)
    except _ReadsEverythingError:
        return None
    readers = tuple(parts)
    return lambda shape: tuple([_value(shape, part) for part in readers])


def _collect(node: TreeNode, parts: dict[Part, None]) -> None:
    pending = [node]
    while pending:
        found = pending.pop()
        part = _part(found)
        if part is not None:
            parts[part] = None
            continue
        if isinstance(found, Ident) and found.name == _DEVICE:
            raise _ReadsEverythingError
        if isinstance(found, Comprehension) and _DEVICE in (found.variable, found.second, found.accumulator):
            raise _ReadsEverythingError
        pending.extend(children(found))


def _part(node: TreeNode) -> Part | None:
    """The part of the device that the node is."""
    if isinstance(node, Select) and isinstance(node.operand, Ident) and node.operand.name == _DEVICE:
        return (node.field,) if node.field in _PLAIN else None
    if isinstance(node, Select):
        holder, id_ = node.operand, node.field
    elif isinstance(node, Call) and (key := _constant(node)) is not None:
        holder, id_ = node.args[0], key
    else:
        return None
    if not isinstance(holder, Call) or (domain := _constant(holder)) is None:
        return None
    of = holder.args[0]
    if isinstance(of, Select) and isinstance(of.operand, Ident) and of.operand.name == _DEVICE and of.field in _MAPS:
        return of.field, domain, id_
    return None


def _constant(node: Call) -> str | None:
    """The constant text that the call looks up."""
    if node.function in _LOOKUPS and len(node.args) == 2 and isinstance(node.args[1], Const):
        value = node.args[1].value
        return value if isinstance(value, str) else None
    return None


def _value(shape: DeviceShape, part: Part) -> Hashable:
    if part[0] == "driver":
        return shape.driver
    if part[0] == "allowMultipleAllocations":
        return shape.allow_multiple
    kind, domain, id_ = part
    named = f"{domain}/{id_}"
    if kind == "attributes":
        own = shape.attributes.get(id_) if domain == shape.driver else None
        return shape.attributes.get(named), own
    amount = shape.capacity.get(named)
    own_amount = shape.capacity.get(id_) if domain == shape.driver else None
    return amount and amount.value, own_amount and own_amount.value
