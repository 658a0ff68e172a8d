"""Objects with every field at its limits do no harm: what has a node takes room there, and the only errors are those
about the objects.

PODWRIGHT_GENERATED=100000 generates that many objects in the slow test, instead of some thousands.
"""

from __future__ import annotations

import logging

import pytest

from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod_group import APIS
from podwright.core.objects.watched_kinds import STORED_KINDS
from support.engine.kit import OURS, Rig, deciding, settle
from support.objects.builders import make_node
from support.objects.generated import NAMES, Generator
from support.properties import case_count

NODE = NAMES[0]
GIB = 1 << 30
PORT = 4711
BATCH = 25
QUICK = range(4)
OBJECTS_PER_SEED = 500
SEEDS_AT_ONCE = 4
SLOW = range(1000, 1000 + case_count("PODWRIGHT_GENERATED", 5000) // OBJECTS_PER_SEED)
REQUESTS = {"cpu": "1500m", "memory": "1Gi", "example.com/known": "2"}
LOG = ("podwright.engine.invalid_objects", "podwright.engine.plugins.exceptions")


def counting(raw, number):
    """The pod with requests, ports and labels that are known, whatever else is in it."""
    spec = raw.setdefault("spec", {})
    if not isinstance(spec, dict):
        spec = raw["spec"] = {}
    ports = [{"hostPort": PORT + number, "hostIP": "127.0.0.1", "containerPort": 1}]
    spec["containers"] = [{"name": "main", "resources": {"requests": REQUESTS}, "ports": ports}]
    spec["nodeName"] = NODE
    for field in ("initContainers", "overhead", "resources"):
        spec.pop(field, None)
    raw["status"] = {**status_of(raw), "phase": "Running"}
    for field in ("containerStatuses", "initContainerStatuses", "allocatedResources", "resources"):
        raw["status"].pop(field, None)
    conditions = raw["status"].get("conditions")
    if isinstance(conditions, list):  # the requests of a pod with an infeasible resize are those in its status
        raw["status"]["conditions"] = [
            c for c in conditions if not isinstance(c, dict) or c.get("type") != "PodResizePending"
        ]
    raw["metadata"]["labels"] = {**labels_of(raw), "known": "yes"}
    return raw


def status_of(raw):
    return raw["status"] if isinstance(raw.get("status"), dict) else {}


def labels_of(raw):
    labels = raw["metadata"].get("labels")
    return labels if isinstance(labels, dict) else {}


def fill(rig, generator):
    """Objects of the other kinds, for the pods to refer to."""
    for kind in STORED_KINDS:
        for name in NAMES:
            raw = generator.make(kind.kind, name, "default" if kind.namespaced else "")
            rig.engine.objects(kind.kind).put(raw)
    for name in NAMES:
        for kind in APIS:
            rig.engine.objects(kind).put(generator.make("PodGroup", name, "default"))


def faults(caplog):
    """The exceptions in the log that are not about an object's content."""
    found = []
    for record in caplog.records:
        assert record.name in LOG, record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            if not isinstance(error, InvalidObjectError) and not isinstance(error.__cause__, InvalidObjectError):
                found.append(error)
    return found


def generators(seed):
    return (Generator(seed), Generator(seed, malformed=0.02))


def check_assigned_pods(seed, caplog):
    for generator in generators(seed):
        rig = Rig()
        rig.engine.nodes.put(make_node(NODE, allocatable={"cpu": "1000", "memory": "1Ti", "pods": "9999"}))
        fill(rig, generator)
        node = rig.engine.cache.present(NODE)
        for number in range(BATCH):
            raw = counting(generator.make("Pod", f"pod-{number}", "default"), number)
            rig.engine.assigned.put(raw)
            assert rig.engine.cache.placement(raw["metadata"]["uid"]) is node
            assert node.pods[raw["metadata"]["uid"]].labels["known"] == "yes"
            used = {name: node.requested.get(name) for name in ("cpu", "memory", "example.com/known")}
            count = number + 1
            assert used == {"cpu": 1500 * count, "memory": count * GIB, "example.com/known": 2 * count}
            assert list(rig.engine.cache.table.requested("cpu")) == [1500 * count]
            assert rig.engine.cache.placement(raw["metadata"]["uid"]).ports.conflicts(port_of(node, raw))
            # The next version has amounts of its own.
            rig.engine.assigned.put(counting(generator.make("Pod", f"pod-{number}", "default"), number))
        for number in range(BATCH):
            raw = generator.make("Pod", f"pod-{number}", "default")
            raw["spec"] = {**(raw.get("spec") if isinstance(raw.get("spec"), dict) else {}), "nodeName": NODE}
            rig.engine.assigned.put({**raw, "status": {**status_of(raw), "phase": "Running"}})
            assert rig.engine.cache.placement(raw["metadata"]["uid"]) is node
        for number in range(BATCH):
            rig.engine.assigned.drop(f"uid-pod-{number}", None)
        assert not node.pods
        assert not any(node.requested.values())
        assert not node.ports
    assert not faults(caplog)


def port_of(node, raw):
    (port,) = (p for p in node.pods[raw["metadata"]["uid"]].ports if p.port >= PORT)
    return port


def check_nodes(seed, caplog):
    for generator in generators(seed):
        rig = Rig()
        for number in range(BATCH):
            raw = generator.make("Node", f"node-{number}")
            raw["metadata"]["labels"] = {**labels_of(raw), "known": "yes"}
            status = status_of(raw)
            allocatable = status.get("allocatable")
            known = {"cpu": "8", "memory": "1Gi", "pods": "110"}
            raw["status"] = {
                **status,
                "allocatable": {**(allocatable if isinstance(allocatable, dict) else {}), **known},
            }
            for _ in range(2):
                rig.engine.nodes.put(raw)
            node = rig.engine.cache.present(f"node-{number}")
            assert [node.allocatable(name) for name in known] == [8000, GIB, 110]
            assert node.present.labels["known"] == "yes"
        for number in range(BATCH):
            rig.engine.nodes.drop(f"node-{number}", None)
        assert rig.engine.cache.table.count == 0
    assert not faults(caplog)


async def check_pending_pods(seed, caplog):
    for generator in generators(seed):
        rig = Rig()
        rig.engine.nodes.put(make_node(NODE, labels={"zone": "x"}, allocatable={"cpu": "1000"}))
        for name in NAMES[1:]:
            rig.engine.nodes.put(generator.make("Node", name))
        fill(rig, generator)
        for number in range(5):
            rig.engine.assigned.put(counting(generator.make("Pod", f"placed-{number}", "default"), number))
        async with deciding(rig):
            for number in range(BATCH):
                raw = generator.make("Pod", f"pod-{number}", "default")
                spec = raw.get("spec")
                raw["spec"] = {**(spec if isinstance(spec, dict) else {}), "schedulerName": OURS}
                raw["spec"].pop("nodeName", None)
                rig.engine.pending.put(raw)
                rig.engine.pending.put({**raw, "metadata": {**raw["metadata"], "resourceVersion": "8"}})
                await settle()
            fill(rig, generator)  # further versions
            rig.pod("ordinary", spec={"nodeSelector": {"zone": "x"}})
            await settle()
        assert ("ordinary", NODE) in rig.cluster.bound or any(name == "ordinary" for name, *_ in rig.recorder.events)
    assert not faults(caplog)


@pytest.fixture(autouse=True)
def only_errors(caplog):
    caplog.set_level(logging.ERROR)


@pytest.mark.parametrize("seed", QUICK)
def test_assigned_pods_take_their_room(seed, caplog):
    check_assigned_pods(seed, caplog)


@pytest.mark.parametrize("seed", QUICK)
def test_nodes_have_their_capacity(seed, caplog):
    check_nodes(seed, caplog)


@pytest.mark.parametrize("seed", QUICK)
async def test_pending_pods_do_no_harm(seed, caplog):
    await check_pending_pods(seed, caplog)


@pytest.mark.slow
@pytest.mark.parametrize("first", SLOW[::SEEDS_AT_ONCE])
async def test_many_generated_objects(first, caplog):
    for seed in range(first, min(first + SEEDS_AT_ONCE, SLOW.stop)):
        check_assigned_pods(seed, caplog)
        check_nodes(seed, caplog)
        await check_pending_pods(seed, caplog)
        caplog.clear()
