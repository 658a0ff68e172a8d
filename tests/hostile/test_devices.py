"""Bad slices, classes and claims: the pod that asked gets an event with kube-scheduler's words, and nothing else is
harmed.

Beside each of them there is a node with sound devices, a pod that gets one, and a pod without claims. The words are
those that kube-scheduler's own code gives for the same objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from podwright.core.queue import DEFAULT_WAITS
from support.engine.kit import Rig, settle, values
from support.objects.devices import claiming, exactly, make_claim, make_class, make_device, make_slice, selector

Raw = dict[str, Any]
BAD = "bad.example.com"
ATTRIBUTES = 64
TOO_FEW = "0/2 nodes are available: 1 cannot allocate all claims, 1 node(s) didn't match Pod's node affinity/selector."
INVALID = "0/2 nodes are available: 1 invalid resource pools were encountered, 1 node(s) didn't match Pod's node affinity/selector."
ON_BAD = {"nodeSelector": {"kubernetes.io/hostname": "bad"}}
EXPENSIVE = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"
ENDLESS = ".all(x, ".join([EXPENSIVE] * 8) + ".all(x, x > 0" + ")" * 8


def bad_slice(devices: Iterable[Raw], name: str = "bad-gpus", **options: Any) -> Raw:
    raw = make_slice(name, list(devices), node="bad", **options)
    raw["spec"]["driver"] = BAD
    return raw


def many_attributes(number: int) -> Raw:
    attributes = {f"a{i}": f"{number}-{i}" for i in range(ATTRIBUTES)}
    return make_device(f"d{number}", attributes=attributes)


def with_counters(*, counter_set: str = "board", counter: str = "memory", value: str = "8") -> list[Raw]:
    taken = [{"counterSet": counter_set, "counters": {counter: {"value": "1"}}}]
    counters = [{"name": "board", "counters": {"memory": {"value": value}}}]
    return [
        bad_slice([make_device("d0", consumesCounters=taken)], count=2),
        bad_slice([], "bad-counters", count=2, sharedCounters=counters),
    ]


@dataclass
class Case:
    """The bad objects, and the message for the pod that asks for them; an empty text: it gets its device."""

    slices: list[Raw]
    event: str
    request: Raw = field(default_factory=lambda: exactly(device_class="bad"))


CASES = {
    "128 devices with 64 attributes each": Case([bad_slice(map(many_attributes, range(128)))], ""),
    "fewer slices than the pool says": Case([bad_slice([make_device("d0")], count=2)], TOO_FEW),
    "more slices than the pool says": Case(
        [bad_slice([make_device("d0")]), bad_slice([make_device("d1")], "bad-more")], TOO_FEW
    ),
    "a duplicate name": Case([bad_slice([make_device("d0"), make_device("d0")])], INVALID),
    "a counter set that does not exist": Case(with_counters(counter_set="ghost"), INVALID),
    "a counter that does not exist": Case(with_counters(counter="ghost"), INVALID),
    "a counter with a negative value": Case(with_counters(value="-8"), TOO_FEW),
    "more devices than a claim can have": Case(
        [bad_slice(map(many_attributes, range(64)))],
        'running "DynamicResources" filter plugin: claim default/asked, request r: adding 33 devices exceeds the claim limit of 32, '
        "with 0 already accounted for",
        exactly(device_class="bad", count=33),
    ),
    "all of more devices than a claim can have": Case(
        [bad_slice(map(many_attributes, range(64)))],
        'running "DynamicResources" filter plugin: claim default/asked, request r: adding 64 devices exceeds the claim limit of 32, '
        "with 0 already accounted for",
        exactly(device_class="bad", allocationMode="All"),
    ),
    "a negative capacity of a shared device": Case(
        [bad_slice([make_device("d0", capacity={"memory": "-1Gi"}, allowMultipleAllocations=True)])],
        'running "DynamicResources" filter plugin: claim default/asked, request r: checking capacity for device '
        'bad.example.com/bad/d0: capacity "memory": capacity value is negative',
    ),
    "a selector that costs too much": Case(
        [bad_slice([make_device("d0")])],
        'running "DynamicResources" filter plugin: claim default/asked: selector #0 on device bad.example.com/bad/d0: '
        "CEL runtime error: operation cancelled: actual cost limit exceeded",
        exactly(device_class="bad", selectors=[selector(ENDLESS)]),
    ),
    "a selector for an attribute that does not exist": Case(
        [bad_slice([make_device("d0")])],
        'running "DynamicResources" filter plugin: claim default/asked: selector #0 on device bad.example.com/bad/d0: '
        "CEL runtime error: no such key: ghost. consider using CEL optional chaining (.? followed by orValue()) or "
        "guarding the check with has() for optional fields",
        exactly(device_class="bad", selectors=[selector(f'device.attributes["{BAD}"].ghost == "x"')]),
    ),
}


def rig_with(slices: Iterable[Raw]) -> Rig:
    rig = Rig()
    for name in ("bad", "good"):
        rig.node(name, labels={"kubernetes.io/hostname": name})
    rig.engine.objects("DeviceClass").put(make_class("gpu", 'device.driver == "gpu.example.com"'))
    rig.engine.objects("DeviceClass").put(make_class("bad", f'device.driver == "{BAD}"'))
    rig.engine.objects("ResourceClaim").put(make_claim("sound", exactly()))
    for raw in (make_slice("good-gpus", [make_device("g0")], node="good"), *slices):
        rig.engine.objects("ResourceSlice").put(raw)
    return rig


async def tried(rig: Rig, name: str, **options: Any) -> list[str]:
    """Makes attempts until the pod is placed or has an event: one that takes long is repeated in a child process, when
    the lane is open. Returns the notes of its events FailedScheduling.
    """
    rig.pod(name, **options)
    in_lane = False
    for _ in range(60):
        if (queued := rig.engine.queue.pop()) is not None:
            rig.engine.pod_attempts.schedule_one(queued)
            rig.engine.planning.start()
            in_lane = queued.costly
        await settle()
        notes = [note for pod, reason, note in rig.recorder.events if (pod, reason) == (name, "FailedScheduling")]
        if notes or rig.placed_on(name) or not in_lane:
            return notes
        rig.now += 1.0
    raise AssertionError(f"there is no decision about {name}")


async def others_are_placed(rig: Rig) -> None:
    assert await tried(rig, "with-a-device", spec=claiming("sound")) == []
    assert await tried(rig, "without") == []
    assert rig.placed_on("with-a-device") == "good"
    assert rig.placed_on("without")


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items()])
async def test_the_pod_gets_an_event_and_others_get_their_devices(case: Case):
    rig = rig_with(case.slices)
    rig.engine.objects("ResourceClaim").put(make_claim("asked", case.request))
    notes = await tried(rig, "asks", spec={**claiming("asked"), **ON_BAD})
    assert (rig.placed_on("asks") == "bad") == (not case.event)
    assert [note[: len(case.event)] for note in notes] == ([case.event] if case.event else [])
    await others_are_placed(rig)


def unreadable_slice() -> Raw:
    return bad_slice([make_device("d0", capacity={"memory": "a lot"}), make_device("d1")])


async def test_a_device_that_cannot_be_understood_is_left_out_and_reported_once():
    rig = rig_with([unreadable_slice()])
    rig.engine.objects("ResourceClaim").put(make_claim("asked", exactly(device_class="bad", count=2)))
    (note,) = await tried(rig, "asks", spec={**claiming("asked"), **ON_BAD})
    assert note.startswith(TOO_FEW)
    (told,) = rig.recorder.notes("UnreadableDevices")
    assert told.startswith(
        "devices are left out that cannot be understood: ResourceSlice bad-gpus: spec.devices[0].capacity[memory].value: "
    )
    assert values(rig, "podwright_bad_objects_total")[("ResourceSlice",)] == 1
    rig.engine.objects("ResourceSlice").put(bad_slice(unreadable_slice()["spec"]["devices"], generation=2))
    rig.engine.objects("ResourceClaim").put(make_claim("one", exactly(device_class="bad")))
    assert await tried(rig, "modest", spec={**claiming("one"), **ON_BAD}) == []
    assert values(rig, "podwright_bad_objects_total")[("ResourceSlice",)] == 1, "the same again"
    await others_are_placed(rig)


async def test_no_event_names_a_slice_that_was_corrected():
    rig = rig_with([unreadable_slice()])
    rig.engine.objects("ResourceClaim").put(make_claim("asked", exactly(device_class="bad", count=3)))
    rig.engine.objects("ResourceSlice").put(bad_slice([make_device("d0"), make_device("d1")], generation=2))
    (note,) = await tried(rig, "asks", spec={**claiming("asked"), **ON_BAD})
    assert note.startswith(TOO_FEW)
    assert rig.recorder.notes("UnreadableDevices") == []


def owned_by(uid: str) -> Mapping[str, Any]:
    return {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": uid, "uid": uid, "controller": True}]}


GENERATED = {
    "spec": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "template"}]},
    "status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "generated"}]},
}


@pytest.mark.parametrize(
    ("claim", "pod", "event"),
    [
        pytest.param(make_claim("generated", exactly(), **owned_by("someone")), GENERATED, "ResourceClaim default/generated was not created for Pod default/asks (Pod is not owner)", id="a claim of another pod"),
        pytest.param(make_claim("other", exactly(), deletionTimestamp="2026-01-01T00:00:00Z"), {"spec": claiming("other")}, 'resourceclaim "other" is being deleted', id="a claim that is being deleted"),
        pytest.param(None, {"spec": claiming("ghost")}, 'could not find ResourceClaim "default/ghost"', id="a claim that does not exist"),
    ],
)  # fmt: skip
async def test_a_pod_that_may_not_enter_the_queue_gets_an_event_with_the_reason(claim, pod, event):
    rig = rig_with([])
    if claim is not None:
        rig.engine.objects("ResourceClaim").put(claim)
    assert await tried(rig, "asks", **pod) == [event]
    assert rig.counts == {"gated": 1}
    await others_are_placed(rig)


async def test_a_pod_whose_template_was_deleted_gets_an_event_later_and_enters_the_queue_with_its_claim():
    rig = rig_with([])
    created = {"metadata": {"creationTimestamp": "1970-01-01T00:16:40Z"}}  # now
    waiting = {"spec": GENERATED["spec"]}
    assert await tried(rig, "asks", **waiting, **created) == [], "the controller is about to create the claim"
    again = rig.pod("asks", **waiting, **created)
    rig.now += DEFAULT_WAITS.max_unschedulable + 60
    assert rig.engine.queue.pop() is None
    assert rig.recorder.notes("FailedScheduling") == ['pod "default/asks": ResourceClaim not created yet']
    await others_are_placed(rig)
    rig.engine.objects("ResourceClaim").put(
        make_claim("generated", exactly(device_class="bad"), **owned_by(again["metadata"]["uid"]))
    )
    rig.pod("asks", **GENERATED, **created)
    assert rig.engine.queue.pop() is not None


async def test_slices_of_a_driver_that_flaps_keep_nobody_waiting():
    """1,000 slices are published again between two pods. What was known of their devices stays known."""
    count = 1_000
    slices = [
        {**bad_slice([make_device("d0", attributes={"model": "m"})], f"s{i}"), "metadata": {"name": f"s{i}"}}
        for i in range(count)
    ]
    for i, raw in enumerate(slices):
        raw["spec"]["pool"] = {"name": f"p{i}", "generation": 1, "resourceSliceCount": 1}
    rig = rig_with(slices)
    rig.engine.objects("ResourceClaim").put(make_claim("asked", exactly(device_class="bad", count=2)))
    for generation in range(2, 5):
        for raw in slices:
            again = {**raw, "spec": {**raw["spec"], "pool": {**raw["spec"]["pool"], "generation": generation}}}
            rig.engine.objects("ResourceSlice").put(again)
        assert await tried(rig, f"ordinary-{generation}") == []
    assert await tried(rig, "asks", spec={**claiming("asked"), **ON_BAD}) == []
    assert rig.placed_on("asks") == "bad"
    await others_are_placed(rig)
