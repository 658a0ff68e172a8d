"""Variants of the situations about the devices that claims ask for. See `variants`."""

from __future__ import annotations

from support.explain.objects import cluster, node, waiting
from support.explain.situations import Situation
from support.objects.devices import (
    claiming,
    exactly,
    first_available,
    make_claim,
    make_class,
    make_device,
    make_slice,
    selector,
)

OLD, NEW = make_device("old"), make_device("new", attributes={"model": "h100"}, capacity={"memory": "80Gi"})
MODEL = "device.attributes['gpu.example.com'].model == 'h100'"
MEMORY = "device.capacity['gpu.example.com'].memory.isGreaterThan(quantity('40Gi'))"
HELPS = "have the selectors use has(…) before they read what a device may lack: those of"


def asking(*requests, classes=(("gpu",),), devices=(OLD, NEW)):
    """A node with devices, and the claim of the pod."""
    return cluster(
        [node("one")],
        deviceClasses=[make_class(*each) for each in classes],
        resourceSlices=[make_slice("gpus", devices, node="one")],
        resourceClaims=[make_claim("wanted", *requests)],
    )


POD = waiting(spec=claiming("wanted"))

DEVICE_VARIANTS = (
    Situation(
        "a selector reads an attribute that a device lacks",
        asking(exactly(selectors=[selector(MODEL)])),
        POD,
        "DeviceSelectorFails",
        "claim default/wanted: selector #0 on device gpu.example.com/one/old: CEL runtime error: no such key: model",
        (f"{HELPS} request r of claim default/wanted",),
    ),
    Situation(
        "two selectors read what a device lacks",
        asking(exactly(selectors=[selector("true"), selector(MODEL), selector(MEMORY)])),
        POD,
        "DeviceSelectorFails",
        "selector #1 on device gpu.example.com/one/old",
        (f"{HELPS} request r of claim default/wanted",),
    ),
    Situation(
        "an alternative with a selector that reads what a device lacks",
        asking(first_available("any", exactly("best", selectors=[selector(MODEL)]))),
        POD,
        "DeviceSelectorFails",
        "no such key: model",
        (f"{HELPS} request any/best of claim default/wanted",),
    ),
    Situation(
        "two requests with selectors that read what a device lacks",
        asking(
            exactly("a", selectors=[selector(MODEL)]),
            exactly("b", selectors=[selector(MEMORY)]),
            devices=(OLD, NEW, {**NEW, "name": "newer"}),
        ),
        POD,
        "DeviceSelectorFails",
        "no such key: model",
        (f"{HELPS} all requests of claim default/wanted",),
    ),
    Situation(
        "no device has what a selector reads",
        asking(exactly(selectors=[selector("device.driver != ''"), selector(MODEL)]), devices=(OLD,)),
        POD,
        "DeviceSelectorFails",
        "no such key: model",
        ("leave out selector #1 of request r of claim default/wanted",),
    ),
    Situation(
        "a selector that cannot be compiled",
        asking(exactly(selectors=[selector("device.drver == 'x'")])),
        POD,
        "DeviceSelectorFails",
        "claim default/wanted: selector #0: CEL compile error",
        ("leave out selector #0 of request r of claim default/wanted",),
    ),
    Situation(
        "a device class whose selector reads an attribute that a device lacks",
        asking(exactly(), classes=(("gpu", MODEL),)),
        POD,
        "DeviceSelectorFails",
        "class gpu: selector #0 on device gpu.example.com/one/old",
        (f"{HELPS} DeviceClass gpu",),
    ),
    Situation(
        "a misspelt device class",
        asking(exactly(device_class="gpuu"), classes=(("gpu",), ("nic", "false"))),
        POD,
        "DeviceClassMissing",
        "claim default/wanted asks for devices of class gpuu, which does not exist; did you mean 'gpu'?",
        (
            "ask for devices of class gpu instead of gpuu in claim default/wanted",
            "create the DeviceClass gpuu, which takes all devices",
        ),
    ),
    Situation(
        "device classes of which one exists",
        asking(exactly("a"), exactly("b", device_class="accelerator"), classes=(("gpu",),)),
        POD,
        "DeviceClassMissing",
        "asks for devices of class accelerator, which does not exist",
        ("ask for devices of class gpu instead of accelerator", "create the DeviceClass accelerator"),
    ),
    Situation(
        "no device class at all",
        asking(exactly("a"), exactly("b", device_class="nic"), classes=()),
        POD,
        "DeviceClassMissing",
        "asks for devices of classes gpu and nic, which do not exist",
        ("create the DeviceClasses gpu and nic, which take all devices",),
    ),
    Situation(
        "no device class and no device",
        asking(exactly(), classes=(), devices=()),
        POD,
        "DeviceClassMissing",
        "claim default/wanted asks for devices of class gpu, which does not exist",
    ),
)
