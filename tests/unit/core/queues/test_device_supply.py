"""How many devices of a class queues share: those that are free on nodes that take pods, and those that queues have."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from podwright.core.objects.frozen import FrozenDict
from podwright.core.queues import device_supply
from podwright.core.queues.queues import QueueRules
from podwright.core.queues.shown import warnings
from podwright.core.queues.tree import Quota
from support.objects.devices import allocated, claiming, exactly, make_claim, make_class, make_device, make_slice
from support.queues.reclaims import QueuedCluster

DEVICES = "gpu.deviceclass.resource.k8s.io/devices"
MODEL = 'device.attributes["gpu.example.com"].?model.orValue("") == "big"'
QUEUE = QueueRules("ml", quotas={DEVICES: Quota()})
TAINT = {"key": "broken", "effect": "NoSchedule"}


def devices(count, **fields):
    return [make_device(f"g{number}", **fields) for number in range(count)]


class Cluster(QueuedCluster):
    def __init__(self, *slices, queues=(QUEUE,), selectors=()):
        super().__init__([0, 0], queues)
        self.cache.set_object("DeviceClass", make_class("gpu", *selectors))
        for each in slices:
            self.cache.set_object("ResourceSlice", each)

    def capacity(self, name=DEVICES):
        return self.queues.capacity()[name]

    def runs_with(self, name, queue, *taken, node="n0"):
        status = allocated(*taken, node=node, reserved_for=[f"default/{name}"])
        self.cache.set_object("ResourceClaim", make_claim(f"of-{name}", exactly(count=len(taken)), status=status))
        return self.runs(name, queue, node, 0, spec=claiming(f"of-{name}"))

    def waits_for(self, name, queue, **request):
        self.cache.set_object("ResourceClaim", make_claim(f"of-{name}", exactly(**request)))
        return self.waits(name, queue, 0, spec=claiming(f"of-{name}"))


def test_devices_count_that_are_free_or_that_queues_have():
    it = Cluster(make_slice("s0", devices(4), node="n0"), make_slice("s1", devices(3), node="n1"))
    assert it.capacity() == 7
    it.runs_with("theirs", "", "g0")
    assert it.capacity() == 6
    it.runs_with("ours", "ml", "g1", "g2")
    assert it.capacity() == 6
    assert it.queues.usage("ml")[DEVICES] == 2


def test_devices_count_of_nodes_that_take_pods():
    it = Cluster(make_slice("s0", devices(4), node="n0"), make_slice("s1", devices(3), node="n1"))
    it.runs_with("ours", "ml", "g0")
    node = it.cache.nodes["n0"].node
    it.cache.set_node(replace(node, unschedulable=True))
    assert it.capacity() == 3 + 1
    it.cache.remove_object("ResourceSlice", "s1")
    assert it.capacity() == 1
    it.cache.set_node(node)
    assert it.capacity() == 4


def test_devices_count_that_match_the_class_and_are_in_order():
    big = devices(3, attributes={"model": "big"})
    broken = make_device("b", attributes={"model": "big"}, taints=[TAINT])
    it = Cluster(make_slice("s0", [*big, broken, make_device("small")], node="n0"), selectors=(MODEL,))
    assert it.capacity() == 3
    it.cache.set_object("DeviceClass", make_class("gpu"))
    assert it.capacity() == 4


@pytest.mark.parametrize("count", [1, 2])
def test_devices_count_of_complete_pools(count):
    it = Cluster(make_slice("s0", devices(2), node="n0", count=count))
    assert it.capacity() == (2 if count == 1 else 0)


def test_devices_that_several_nodes_reach_count_once():
    on_each = [make_device(f"g{number}", nodeName=f"n{number}") for number in range(2)]
    far = make_slice("far", devices(3), pool="far", allNodes=True)
    it = Cluster(far, make_slice("each", on_each, pool="each", perDeviceNodeSelection=True))
    assert it.capacity() == 3 + 2
    it.cache.set_node(replace(it.cache.nodes["n0"].node, unschedulable=True))
    assert it.capacity() == 3 + 1
    it.cache.set_node(replace(it.cache.nodes["n1"].node, unschedulable=True))
    assert it.capacity() == 0


def test_of_parts_that_exclude_each_other_those_count_that_fit_together():
    def part(name, units):
        return make_device(name, consumesCounters=[{"counterSet": "board", "counters": {"units": {"value": units}}}])

    parts = [part("whole", "4"), part("half", "2"), part("quarter", "1"), part("eighth", "0.5"), make_device("other")]
    counters = [{"name": "board", "counters": {"units": {"value": "4"}}}]
    it = Cluster(
        make_slice("parts", parts, node="n0", count=2), make_slice("board", node="n0", count=2, sharedCounters=counters)
    )
    assert it.capacity() == 3 + 1
    it.runs_with("theirs", "", "half")
    assert it.capacity() == 2 + 1
    it.runs_with("more", "", "whole")
    assert it.capacity() == 1, "more is taken than there is"


def test_devices_of_a_flavor():
    model = {"model": "h"}
    queue = QueueRules("ml", quotas={f"{DEVICES}@h": Quota()}, flavors={"h": model})
    it = Cluster(make_slice("s0", devices(4), node="n0"), make_slice("s1", devices(3), node="n1"), queues=[queue])
    it.cache.set_node(replace(it.cache.nodes["n1"].node, labels=FrozenDict(model)))
    assert it.capacity(f"{DEVICES}@h") == 3


def test_shares_are_shares_of_all_devices():
    queues = [QueueRules("a", quotas={DEVICES: Quota(guarantee=3)}), QueueRules("b", quotas={DEVICES: Quota()})]
    it = Cluster(make_slice("s0", devices(8), node="n0"), queues=queues)
    for name in ("a", "b"):
        it.waits_for(name, name, count=7)
    assert [it.queues.share(name)[DEVICES] for name in ("a", "b")] == [6, 2]


def test_only_pools_are_counted_again_whose_devices_are_used(monkeypatch):
    it = Cluster(
        *(make_slice(f"s{number}", devices(4), node=f"n{number % 2}", pool=f"p{number}") for number in range(9))
    )
    assert it.capacity() == 36
    index, counted = it.cache.devices.index, []
    whole_pool = index.whole_pool
    monkeypatch.setattr(index, "whole_pool", lambda pool: counted.append(pool[1]) or whole_pool(pool))
    status = allocated("g0", pool="p3", node="n1")
    it.cache.set_object("ResourceClaim", make_claim("c", exactly(), status=status))
    assert (it.capacity(), counted) == (35, ["p3"])
    it.cache.set_object("ResourceSlice", make_slice("s5", devices(5), node="n1", pool="p5"))
    assert (it.capacity(), counted) == (36, ["p3", "p5"])


def test_a_call_counts_some_devices_and_the_next_ones_go_on(monkeypatch):
    monkeypatch.setattr(device_supply, "AT_ONCE", 20)
    it = Cluster(*(make_slice(f"s{number}", devices(9), node="n0", pool=f"p{number}") for number in range(9)))
    counts = [it.capacity() for _ in range(12)]
    assert counts == sorted(counts)
    assert all(after - before <= 20 for before, after in zip([0, *counts], counts, strict=False))
    assert counts[-1] == 81


def test_a_pool_that_is_too_large_is_said_and_not_counted(monkeypatch):
    monkeypatch.setattr(device_supply, "MOST_IN_POOL", 5)
    it = Cluster(make_slice("s0", devices(6), node="n0"), make_slice("s1", devices(5), node="n1"))
    assert it.capacity() == 5
    assert "pool gpu.example.com/n0 has more than 5 devices" in str(warnings(it.queues, "ml")["CapacityUnknown"])
    it.cache.set_object("ResourceSlice", make_slice("s0", devices(4), node="n0"))
    assert (it.capacity(), warnings(it.queues, "ml")) == (9, {})


def test_a_class_with_costly_selectors_is_said_and_not_counted():
    text = "[1,2,3].all(a, [1,2,3].all(b, device.attributes['gpu.example.com'].all(c, c.matches('(a+)+b'))))"
    it = Cluster(make_slice("s0", devices(6), node="n0"), selectors=(text,))
    assert it.capacity() == 0
    assert "the selectors of DeviceClass gpu may take too long" in str(warnings(it.queues, "ml")["CapacityUnknown"])


def test_a_claim_for_all_devices_counts_with_the_most_that_a_node_has_free():
    queue = QueueRules("ml", quotas={DEVICES: Quota(limit=3)})
    it = Cluster(make_slice("s0", devices(4), node="n0"), make_slice("s1", devices(2), node="n1"), queues=[queue])
    pod = it.waits_for("p", "ml", allocationMode="All")
    assert it.queues.bounds.of(pod).message == f"ml holds 0 of 3 {DEVICES}, and the pod requests 4"
    it.runs_with("theirs", "", "g0", "g1")
    assert it.queues.bounds.of(pod) is None
    it.runs("p", "ml", "n1", 0, spec=claiming("of-p"))
    assert it.queues.usage("ml")[DEVICES] == 2
    tolerant = it.waits_for("q", "ml", allocationMode="All", tolerations=[{"operator": "Exists"}])
    assert it.queues.bounds.of(tolerant).requested == 32


def test_the_nodes_are_gone_through_once_however_often_claims_ask_for_all_devices(monkeypatch):
    """A pod may have 32 claims with 256 alternatives each."""
    read = []

    class Read(Counter):
        def items(self):
            read.append(self)
            return super().items()

    monkeypatch.setattr(device_supply, "Counter", Read)
    it = Cluster(make_slice("s0", devices(4), node="n0"), make_slice("s1", devices(2), node="n1"))
    assert it.capacity() == 6
    read.clear()
    assert [it.queues.devices.supply.most_on_a_node("gpu") for _ in range(256)] == [4] * 256
    assert len(read) == 1
    it.runs_with("theirs", "", "g0", "g1")
    assert it.queues.devices.supply.most_on_a_node("gpu") == 2
