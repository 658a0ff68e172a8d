"""Constraints on the devices of one claim: the same value of an attribute, or all different ones.

A device without the attribute satisfies neither. Source: `constraint.go` in
k8s.io/dynamic-resource-allocation/structured.
"""

from __future__ import annotations

from collections.abc import Sequence

from podwright.core.objects.devices.claims import Ask, DeviceConstraint
from podwright.core.objects.devices.slices import Attribute, DeviceShape


class ConstraintState:
    """The values of the devices that were added, for each constraint of a claim."""

    __slots__ = ("_constraints", "_values")

    def __init__(self, constraints: Sequence[DeviceConstraint]) -> None:
        self._constraints = constraints
        self._values: list[list[Attribute]] = [[] for _ in constraints]

    def allow(self, ask: Ask, shape: DeviceShape) -> bool:
        """True if a device can be added for the ask."""
        for constraint, values in zip(self._constraints, self._values, strict=True):
            if not constraint.covers(ask):
                continue
            attribute = shape.attribute(constraint.attribute)
            if attribute is None:
                return False
            if not values:
                continue
            if not attribute[0]:  # a kind that cannot be compared
                return False
            if (attribute in values) == constraint.distinct:
                return False
        return True

    def add(self, ask: Ask, shape: DeviceShape) -> None:
        """Adds a device that is allowed."""
        for constraint, values in zip(self._constraints, self._values, strict=True):
            if constraint.covers(ask):
                attribute = shape.attribute(constraint.attribute)
                assert attribute is not None, "the device was not allowed"
                values.append(attribute)

    def remove(self, ask: Ask) -> None:
        """Removes the device that was added last, for the same ask."""
        for constraint, values in zip(self._constraints, self._values, strict=True):
            if constraint.covers(ask):
                values.pop()
