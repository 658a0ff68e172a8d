"""Variants of the situations about the devices that claims ask for. See `variants`."""

from __future__ import annotations

from support.explain.objects import cluster, full, node, waiting
from support.explain.situations import Situation
from support.objects.builders import make_pod
from support.objects.devices import (
    allocated,
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


def gpus(devices, *requests, claims=(), classes=("gpu",), slices=()):
    """Two full nodes, one without devices, and one with these. The pod `user` has the devices of `claims`."""
    names = [each["metadata"]["name"] for each in claims]
    return cluster(
        [node("full-1"), node("full-2"), node("plain"), node("gpus")],
        [full("a", "full-1"), full("b", "full-2"), make_pod("user", node="gpus", uid="user", spec=claiming(*names))],
        deviceClasses=[make_class(*classes)],
        resourceSlices=[make_slice("gpus", devices, node="gpus", pool="p", count=1 + len(slices)), *slices],
        resourceClaims=[make_claim("wanted", *requests), *claims],
    )


def taken(device, **result):
    return make_claim(f"has-{device}", exactly(), status=allocated(device, pool="p", reserved_for=["user"], **result))


def on_board(name):
    return make_device(name, consumesCounters=[{"counterSet": "board", "counters": {"slices": {"value": "3"}}}])


BOARD = make_slice(
    "board", pool="p", count=2, node="gpus", sharedCounters=[{"name": "board", "counters": {"slices": {"value": "7"}}}]
)
SICK = {**NEW, "taints": [{"key": "sick", "value": "yes", "effect": "NoSchedule"}]}
SHARED = make_device("big", capacity={"memory": "80Gi"}, allowMultipleAllocations=True)
SHARE = {"shareID": "11111111-1111-1111-1111-111111111111", "consumedCapacity": {"memory": "60Gi"}}
GPU = ("gpu",)
GPUS = [
    ("a selector that none matches", (NEW,), [exactly(selectors=[selector(MODEL.replace("h100", "b200"))])], (), GPU, (),
     ("1 device of class gpu; 0 of the node's 1 device are free for it; the closest, gpu.example.com/p/new, does not match selector #0 of request r: "
     "\"device.attributes['gpu.example.com'].model == 'b200'\" (model is h100)"), ["leave out selector #0 in request r"]),
    ("a class that none is of", (NEW,), [exactly()], (), ("gpu", "device.driver == 'tpu'"), (), "does not match selector #0 of class gpu: \"device.driver == 'tpu'\"", []),
    ("a taint", (SICK,), [exactly()], (), GPU, (), "the closest, gpu.example.com/p/new, has the taint sick=yes:NoSchedule", ["tolerate sick=yes:NoSchedule in request r"]),
    ("all in use", (OLD, NEW), [exactly()], [taken("old"), taken("new")], GPU, (), "gpu.example.com/p/old, is in use by claim default/has-old of pod default/user", ["default/user ends, which has devices"]),
    ("more than there are", (OLD, NEW), [exactly(count=8)], (), GPU, (), "asks in request r for 8 devices of class gpu; 2 of the node's 2 devices are free for it", ["ask for 1 instead of 8 devices"]),
    ("a full board", [on_board("a"), on_board("b"), on_board("c")], [exactly()], [taken("a"), taken("b")], GPU, [BOARD],
     "the closest, gpu.example.com/p/c, needs 3 slices of board, which it shares with other devices, and 1 are left", ["default/user ends, which has devices"]),
    ("a share that is used up", [SHARED], [exactly(capacity={"requests": {"memory": "40Gi"}})], [taken("big", **SHARE)], GPU, (),
     "gpu.example.com/p/big, has 20Gi of 80Gi memory left, 40Gi are needed", ["default/user ends, which has devices"]),
    ("no device at all", (), [exactly()], (), GPU, (), "claim default/wanted asks in request r for 1 device of class gpu; the node has no devices", []),
]  # fmt: skip


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
    *(
        Situation(
            f"GPUs of a node keep the pod out, other nodes are full or have none: {name}",
            gpus(devices, *requests, claims=claims, classes=classes, slices=slices),
            waiting(spec=claiming("wanted"), requests={"cpu": "1"}),
            "Devices",
            says,
            helps,
        )
        for name, devices, requests, claims, classes, slices, says, helps in GPUS
    ),
    Situation(
        "its claim has devices on another node, which is full",
        cluster(
            [node("gpus"), node("free")],
            [full("batch", "gpus"), make_pod("first", node="gpus", uid="first", spec=claiming("wanted"))],
            deviceClasses=[make_class("gpu")],
            resourceSlices=[make_slice("gpus", (OLD, NEW), node="gpus")],
            resourceClaims=[
                make_claim("wanted", exactly(), status=allocated("old", node="gpus", reserved_for=["first"]))
            ],
        ),
        waiting(spec=claiming("wanted"), requests={"cpu": "1"}),
        "ClaimElsewhere",
        "claim default/wanted has its devices on gpus, for pod default/first",
        ("move 1 pod elsewhere: default/batch to free",),
    ),
    Situation(
        "a claim that does not exist",
        asking(exactly()),
        waiting(spec=claiming("wnated")),
        "DeviceClaimMissing",
        "its ResourceClaim default/wnated does not exist; did you mean 'wanted'?",
    ),
    Situation(
        "a template that does not exist",
        asking(exactly()),
        waiting(spec={"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]}),
        "DeviceClaimMissing",
        "its ResourceClaimTemplate default/one-gpu does not exist",
    ),
)
