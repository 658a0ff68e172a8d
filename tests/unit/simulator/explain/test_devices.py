"""Changes that would help a pod that lacks devices: each is proved on a copy of the cluster."""

from __future__ import annotations

import pytest

from podwright.core.objects.pod import parse_pod
from podwright.simulator.explain.explanation import explain_pod
from podwright.simulator.explain.results import PodState
from podwright.simulator.loaded import LoadOptions, load
from podwright.simulator.snapshot import Snapshot
from support.objects.builders import make_node, make_pod
from support.objects.devices import (
    allocated,
    claiming,
    exactly,
    make_claim,
    make_class,
    make_device,
    make_slice,
    selector,
)
from support.simulator.claims import from_template, gpu_class, gpu_node
from support.simulator.kit import loaded, node, pod

API = "resource.k8s.io/v1"


def resource(kind, raw):
    return {"apiVersion": API, "kind": kind, **raw}


def explained(*requests, devices, users=(), pod=None):
    """The changes for a pod with these requests, by their texts. `users`: the placed pods that have a device each."""
    objects = [
        {"apiVersion": "v1", "kind": "Node", **make_node("a")},
        resource("DeviceClass", make_class("gpu")),
        resource("ResourceSlice", make_slice("a-gpus", devices, node="a")),
        resource("ResourceClaim", make_claim("wanted", *requests)),
    ]
    for name, device in users:
        status = allocated(device, node="a", reserved_for=[name])
        objects.append(resource("ResourceClaim", make_claim(f"{name}-claim", exactly(), status=status)))
        running = make_pod(name, uid=name, node="a", spec=claiming(f"{name}-claim"), status={"phase": "Running"})
        objects.append({"apiVersion": "v1", "kind": "Pod", **running})
    raw = make_pod("waiting", spec={"schedulerName": "podwright", **claiming("wanted")})
    loaded = load(Snapshot(objects=objects, taken_at=4e9), LoadOptions())
    found = explain_pod(loaded, parse_pod(raw, keep_raw=True), raw=raw)
    assert len(loaded.cache.devices.claims.usage) == len(users), "nothing is left behind"
    return {change.text: change for change in found.changes}


TAINT = {"key": "sick", "value": "yes", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("request_", "devices", "text"),
    [
        pytest.param(exactly(count=3), [make_device("d0"), make_device("d1")], "ask for 2 instead of 3 devices in request r of claim default/wanted", id="fewer devices"),
        pytest.param(exactly(selectors=[selector("false")]), [make_device("d0")], "leave out selector #0 in request r of claim default/wanted", id="no selector"),
        pytest.param(exactly(), [make_device("d0", taints=[TAINT])], "tolerate sick=yes:NoSchedule in request r of claim default/wanted", id="a toleration"),
    ],
)  # fmt: skip
def test_a_claim_that_asks_for_less_is_proposed(request_, devices, text):
    changes = explained(request_, devices=devices)
    assert [each for each in changes if "claim" in each] == [text]
    (edit,) = changes[text].edits
    assert (edit.verb, edit.kind, edit.name, changes[text].node) == ("recreate", "ResourceClaim", "wanted", "a")
    assert edit.object["spec"]["devices"]["requests"][0]["name"] == "r"


def test_the_least_important_pod_whose_end_frees_the_device_is_proposed():
    changes = explained(exactly(), devices=[make_device("d0"), make_device("d1")], users=[("one", "d0"), ("two", "d1")])
    (change,) = [change for text, change in changes.items() if "has devices" in text]
    assert (change.text, change.node) == ("default/one ends, which has devices", "a")
    assert [(edit.verb, edit.kind, edit.name) for edit in change.edits] == [("delete", "Pod", "one")]


def test_nothing_is_proposed_that_does_not_help():
    impossible = exactly(count=2, selectors=[selector("false")])
    assert not [text for text in explained(impossible, devices=[make_device("d0")]) if "claim" in text]


def test_a_placed_pod_is_compared_without_the_devices_that_it_has():
    """Beside its own node, another one has as many."""
    raw, claim = from_template("a", on="n1")
    objects = [*gpu_node("n1"), *gpu_node("n2", cpu="2"), gpu_class(), raw, claim]
    cluster = loaded(*objects)
    before = len(cluster.cache.devices.claims.usage)
    found = explain_pod(cluster, parse_pod(raw, keep_raw=True), raw=raw)
    assert (found.state, found.cause.reason, found.scores.runner_up) == (PodState.PLACED, "BestScore", "n2")
    assert len(cluster.cache.devices.claims.usage) == before


def test_a_pod_with_devices_of_its_own_moves_to_other_devices():
    """Its claim is made again there."""
    user, claim = from_template("user", on="n1", cpu="4")
    big = pod("big", spec={"nodeSelector": {"kubernetes.io/hostname": "n1"}})
    found = explain_pod(loaded(*gpu_node("n1"), *gpu_node("n2"), gpu_class(), user, claim, big), parse_pod(big, keep_raw=True), raw=big)  # fmt: skip
    assert "move 1 pod elsewhere: default/user to n2" in [change.text for change in found.changes]


def test_a_pod_with_devices_stays_if_no_other_node_has_any():
    user, claim = from_template("user", on="n1", cpu="4")
    big = pod("big", spec={"nodeSelector": {"kubernetes.io/hostname": "n1"}})
    found = explain_pod(loaded(*gpu_node("n1"), node("n2"), gpu_class(), user, claim, big), parse_pod(big, keep_raw=True), raw=big)  # fmt: skip
    assert not [change.text for change in found.changes if "elsewhere" in change.text]


@pytest.mark.parametrize(
    ("objects", "detail"),
    [
        pytest.param(
            [*gpu_node("n1", gpus=2), *from_template("a", on="n1")],
            "1 of the node's 2 devices is free for it",
            id="in use",
        ),
        pytest.param([node("n1")], "the node has no devices", id="none"),
    ],
)
def test_the_cause_says_what_the_claim_asks_for_and_what_the_nearest_node_has(objects, detail):
    claim = resource("ResourceClaim", make_claim("shared", exactly(count=3)))
    raw = pod("p", spec=claiming("shared"))
    found = explain_pod(loaded(*objects, gpu_class(), claim, raw), parse_pod(raw, keep_raw=True), raw=raw)
    assert found.cause.reason == "Devices"
    assert f"claim default/shared asks in request r for 3 devices of class gpu; {detail}" in found.cause.text


def test_one_more_node_comes_with_its_devices():
    raw, claim = from_template("b", owner="b-1")
    objects = [*gpu_node("n1"), gpu_class(), *from_template("a", on="n1"), claim, raw]
    found = explain_pod(loaded(*objects), parse_pod(raw, keep_raw=True), raw=raw)
    (change,) = [change for change in found.changes if change.text == "one more node like n1"]
    assert [(edit.verb, edit.kind) for edit in change.edits] == [("create", "Node"), ("create", "ResourceSlice")]
    created = [{"kind": edit.kind, **edit.object} for edit in change.edits]
    assert explain_pod(loaded(*objects, *created), parse_pod(raw, keep_raw=True)).state is PodState.FITS
