"""Pods that preempt for devices, where a policy allows it."""

from __future__ import annotations

import pytest

from podwright.api.compile import compile_policy
from podwright.api.scheduler_policy import parse_policy
from podwright.core.cycle import Placement, Rejection, schedule
from podwright.core.framework.framework import Framework
from podwright.core.objects.pod import parse_pod
from podwright.core.objects.pod_group import KIND, WORKLOAD_API
from podwright.core.plugins import PLUGINS
from podwright.simulator.world import World
from support.objects.builders import make_node, make_pod, make_pod_group
from support.objects.devices import allocated, claiming, exactly, make_claim, make_class, make_device, make_slice

FREE = {"preemption": "FreeDevices"}


class Cluster:
    """Nodes with two devices each, all of which claims have."""

    def __init__(self, devices=FREE, nodes="ab", count=2):
        self.world = World()
        self.world.fill(
            {
                "nodes": [make_node(name) for name in nodes],
                "deviceClasses": [make_class("gpu")],
                "resourceSlices": [
                    make_slice(n, [make_device(f"gpu-{i}") for i in range(count)], node=n) for n in nodes
                ],
            }
        )
        self.cache = self.world.cache
        policy = parse_policy({"metadata": {"name": "p"}, "spec": {"devices": dict(devices)}})
        profile = compile_policy(policy, PLUGINS, self.world.features).profile
        self.framework = Framework(profile, PLUGINS, self.world)

    def claim(self, name, device="", node="", users=(), **request):
        status = allocated(device, node=node, reserved_for=users) if device else None
        self.cache.set_object("ResourceClaim", make_claim(name, exactly(**request), status=status))

    def runs(self, name, node, *claims, priority=0):
        raw = make_pod(
            name, uid=name, node=node, priority=priority, spec=claiming(*claims), status={"phase": "Running"}
        )
        self.cache.set_pod(parse_pod(raw, keep_raw=True))

    def user(self, name, node, device, priority=0):
        """A pod that has the device."""
        self.claim(f"{name}-claim", device, node, [name])
        self.runs(name, node, f"{name}-claim", priority=priority)

    def tried(self, *, priority=10, nominated="", **request):
        """An attempt at a pod with a claim."""
        self.claim("wanted", **request)
        status = {"nominatedNodeName": nominated} if nominated else {}
        raw = make_pod("important", uid="important", priority=priority, spec=claiming("wanted"), status=status)
        return schedule(self.framework, self.cache, parse_pod(raw, keep_raw=True), lambda _n: 0)


def victims(decision):
    assert isinstance(decision, Rejection)
    return {victim.name for victim in decision.victims}


def full(devices=FREE, **options):
    cluster = Cluster(devices, nodes="a", **options)
    cluster.user("low", "a", "gpu-0", priority=1)
    cluster.user("lower", "a", "gpu-1", priority=0)
    return cluster


def test_by_default_preemption_does_not_help_a_pod_that_lacks_devices():
    decision = full({}).tried()
    assert victims(decision) == set()
    assert (
        decision.message
        == "0/1 nodes are available: 1 cannot allocate all claims. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )


def test_the_least_important_user_of_a_device_is_evicted():
    cluster = full()
    cluster.runs("without", "a")
    decision = cluster.tried()
    assert (decision.nominated_node, victims(decision)) == ("a", {"lower"})
    assert len(cluster.cache.devices.claims.usage) == 2, "the dry run has changed nothing"


def test_as_many_are_evicted_as_have_the_devices():
    assert victims(full().tried(count=2)) == {"low", "lower"}


@pytest.mark.parametrize("priority", [1, 0])
def test_pods_of_equal_or_higher_priority_keep_their_devices(priority):
    decision = full().tried(priority=priority)
    assert victims(decision) == ({"lower"} if priority else set())


def test_a_claim_that_another_pod_uses_too_is_not_freed():
    cluster = Cluster(nodes="a", count=1)
    cluster.claim("shared", "gpu-0", "a", ["low", "high"])
    cluster.runs("low", "a", "shared", priority=0)
    cluster.runs("high", "a", "shared", priority=100)
    assert victims(cluster.tried()) == set()


def test_a_claim_that_victims_share_is_freed_by_all_of_them():
    cluster = Cluster(nodes="a", count=1)
    cluster.claim("shared", "gpu-0", "a", ["one", "two"])
    for name in ("one", "two"):
        cluster.runs(name, "a", "shared")
    assert victims(cluster.tried()) == {"one", "two"}


def test_no_node_is_chosen_where_even_all_devices_are_too_few():
    assert victims(full().tried(count=3)) == set()


def test_a_share_of_a_device_is_freed():
    cluster = Cluster(nodes="a", count=0)
    memory = {"memory": {"value": "10", "requestPolicy": {"default": "1", "validRange": {"min": "1"}}}}
    device = make_device("big", capacity=memory, allowMultipleAllocations=True)
    cluster.cache.set_object("ResourceSlice", make_slice("a", [device], node="a"))
    for number, amount in enumerate(("3", "6")):
        status = allocated(
            "big", node="a", reserved_for=[f"u{number}"], shareID=f"s{number}", consumedCapacity={"memory": amount}
        )
        cluster.cache.set_object("ResourceClaim", make_claim(f"c{number}", exactly(), status=status))
        cluster.runs(f"u{number}", "a", f"c{number}")
    assert victims(cluster.tried(capacity={"requests": {"memory": "5"}})) == {"u1"}


def test_nothing_more_is_evicted_until_the_devices_of_the_victims_are_released():
    """The victims are gone, and the claim controller has not seen it yet."""
    cluster = full()
    cluster.cache.remove_pod("lower")
    assert victims(cluster.tried(nominated="a")) == set()
    cluster.cache.remove_object("ResourceClaim", "lower-claim", "default")
    assert isinstance(cluster.tried(nominated="a"), Placement)


def test_a_claim_of_a_group_is_neither_freed_by_victims_nor_about_to_be_released():
    cluster = Cluster(nodes="a")
    cluster.cache.groups.serve(WORKLOAD_API)
    cluster.cache.set_object(KIND, make_pod_group())
    claim = make_claim("of-group", exactly(), status=allocated("gpu-0", node="a"))
    group = {"apiGroup": WORKLOAD_API, "resource": "podgroups", "name": "gang", "uid": "group-gang"}
    claim["status"]["reservedFor"] = [group]
    cluster.cache.set_object("ResourceClaim", claim)
    cluster.runs("member", "a", "of-group")
    cluster.user("lower", "a", "gpu-1")
    assert victims(cluster.tried(nominated="a")) == {"lower"}
    cluster.cache.remove_object(KIND, "gang", "default")
    assert victims(cluster.tried(nominated="a")) == set()


def test_what_a_dry_run_removes_from_one_node_is_not_gone_on_the_next():
    cluster = Cluster(count=0)
    cluster.cache.set_object("ResourceSlice", make_slice("far", [make_device("gpu-0")], pool="far", allNodes=True))
    status = allocated("gpu-0", pool="far", reserved_for=["one", "two"])
    cluster.cache.set_object("ResourceClaim", make_claim("shared", exactly(), status=status))
    cluster.runs("one", "a", "shared")
    cluster.runs("two", "b", "shared")
    assert victims(cluster.tried()) == set()
