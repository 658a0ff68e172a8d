"""ShapeNumbers: a small number for each device shape that a slice has, so that results for shapes can be kept in
arrays.

A number is used again when no slice has its shape any more. Owners of such results follow `reused`.
"""

from __future__ import annotations

from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.devices.slices import DeviceShape
from podwright.core.state.columns.change_log import ChangeLog


class ShapeNumbers:
    """See the module."""

    def __init__(self) -> None:
        self._numbers: dict[DeviceShape, int] = {}
        self._shapes: list[DeviceShape | None] = []
        self._counts: list[int] = []
        self._free: list[int] = []
        self.reused = ChangeLog()
        """The numbers that have been given to another shape."""
        compact_regularly(self)

    @property
    def size(self) -> int:
        """All numbers are less than this."""
        return len(self._shapes)

    def number(self, shape: DeviceShape) -> int:
        """The number of a shape that was added. Raises KeyError for others."""
        return self._numbers[shape]

    def shape(self, number: int) -> DeviceShape:
        """The shape with a number that is in use."""
        shape = self._shapes[number]
        assert shape is not None, f"no shape has the number {number}"
        return shape

    def add(self, shape: DeviceShape) -> None:
        """A device has this shape."""
        number = self._numbers.get(shape)
        if number is not None:
            self._counts[number] += 1
            return
        if self._free:
            number = self._free.pop()
            self._shapes[number] = shape
            self._counts[number] = 1
            self.reused.append(number)
        else:
            number = len(self._shapes)
            self._shapes.append(shape)
            self._counts.append(1)
        self._numbers[shape] = number

    def remove(self, shape: DeviceShape) -> None:
        """Removes a device with this shape."""
        number = self._numbers[shape]
        self._counts[number] -= 1
        if not self._counts[number]:
            del self._numbers[shape]
            self._shapes[number] = None
            self._free.append(number)
