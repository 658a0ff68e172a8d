"""Subjects for hostile ResourceSlices and claims."""

from __future__ import annotations

from typing import Final

from support.engine.kit import Rig
from support.hostile.subjects import Raw, Subject, node_name
from support.objects.devices import claiming, exactly, make_claim, make_class, make_device, make_slice, selector

PER_SLICE: Final = 128
"""The most devices of a slice."""
ATTRIBUTES: Final = 64
FEW: Final = 32
"""The most devices of a claim."""


def _device(number: int, attributes: int = ATTRIBUTES) -> Raw:
    """All of its attributes differ from those of others."""
    return make_device(f"d{number}", attributes={f"a{i}": f"{number}-{i}" for i in range(attributes)})


def _slices(count: int, generation: int = 1, *, attributes: int = ATTRIBUTES) -> list[Raw]:
    """So many devices on the first node, 128 in a slice."""
    slices = -(-count // PER_SLICE)
    return [
        make_slice(
            f"slice-{i}",
            [_device(number, attributes) for number in range(i * PER_SLICE, min((i + 1) * PER_SLICE, count))],
            node=node_name(0),
            generation=generation,
            count=slices,
        )
        for i in range(slices)
    ]


def _put(rig: Rig, kind: str, *objects: Raw) -> None:
    for raw in objects:
        rig.engine.objects(kind).put(raw)


def _claims(rig: Rig, *requests: Raw, **options: Raw) -> None:
    """A claim for each of the first pods of the subject."""
    _put(rig, "ResourceClaim", *(make_claim(f"claim-{number}", *requests, **options) for number in range(4)))


def _spec(number: int) -> Raw:
    return claiming(f"claim-{number}")


def devices_with_attributes(size: int) -> Subject:
    """A claim whose selector reads an attribute that is another one on each device, and matches none."""

    def prepare(rig: Rig, _nodes: int) -> None:
        _put(rig, "DeviceClass", make_class("gpu"))
        _put(rig, "ResourceSlice", *_slices(size))
        _claims(rig, exactly(selectors=[selector('device.attributes["gpu.example.com"].a0 == "none"')]))

    return Subject(_spec, "0/", prepare=prepare)


def distinct_devices(size: int) -> Subject:
    """A claim for as many devices as possible, all of which must differ in an attribute, and none does."""

    def prepare(rig: Rig, _nodes: int) -> None:
        devices = [make_device(f"d{number}", attributes={"root": "r", "index": number}) for number in range(size)]
        _put(rig, "DeviceClass", make_class("gpu"))
        slices = [devices[at : at + PER_SLICE] for at in range(0, size, PER_SLICE)]
        for i, listed in enumerate(slices):
            _put(rig, "ResourceSlice", make_slice(f"s{i}", listed, node=node_name(0), count=len(slices)))
        _claims(rig, exactly(count=FEW), constraints=[{"distinctAttribute": "gpu.example.com/root"}])

    return Subject(_spec, "0/", prepare=prepare)


def a_pool_that_flaps(size: int) -> Subject:
    """A pod without claims, while a driver publishes a slice for each of so many pools again before each attempt."""

    def publish(rig: Rig, generation: int) -> None:
        for i in range(size):
            raw = make_slice(f"s{i}", [make_device("d0")], node=node_name(i % 50), pool=f"p{i}", generation=generation)
            _put(rig, "ResourceSlice", raw)

    def prepare(rig: Rig, _nodes: int) -> None:
        _put(rig, "DeviceClass", make_class("gpu"))
        publish(rig, 1)

    return Subject(prepare=prepare, change=lambda rig, number: publish(rig, number + 2))


def claims_beside_a_pool_that_flaps(size: int) -> Subject:
    """A pod with a claim, while a driver publishes a slice for each of so many pools again before each attempt."""
    flapping = a_pool_that_flaps(size + 3)  # the claims of earlier pods keep their devices

    def prepare(rig: Rig, nodes: int) -> None:
        assert flapping.prepare is not None
        flapping.prepare(rig, nodes)
        _claims(rig, exactly())

    return Subject(_spec, prepare=prepare, change=flapping.change)
