"""Waves of objects with names and values of their own, which come and go through the whole engine.

Each wave is of one stream. Its objects differ in everything that the engine, the event recorder or the status writer
could remember.
"""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from podwright.core.framework.features import Features
from podwright.core.plugins import PLUGINS
from podwright.engine.engine import Engine
from podwright.engine.ports import Ports
from podwright.engine.records.metrics import Metrics
from podwright.engine.state import Sources
from podwright.kube.api_cluster import RetryingPodReader
from podwright.kube.client.answers import Answer
from podwright.kube.serve.answers.pod_resources import known_pods, pages
from podwright.kube.write.events import FINISH_SECONDS, SWEEP_SECONDS, EventRecorder
from podwright.kube.write.pod_status import PodStatusWriter
from support.engine.kit import OURS, FakeCluster, FakeEvictor, FakeGroups, on_node
from support.objects.builders import make_node, make_pod, make_pod_group, make_taint

Raw = dict[str, Any]
AT_ONCE: Final = 200
"""How many objects of a wave exist at the same time."""
HOSTNAME: Final = "kubernetes.io/hostname"


class _Http:
    """Accepts everything."""

    in_progress = 0

    async def send(self, *_: Any) -> Answer:
        return Answer(201, b"{}")

    async def call(self, *_: Any) -> Raw:
        return {"metadata": {"resourceVersion": "5"}}


class _Cluster(FakeCluster):
    """Keeps the node of each bound pod until a test takes it."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes: dict[str, str] = {}

    async def bind(self, pod: Any, node_name: str, annotations: Mapping[str, str]) -> None:
        self.nodes[pod.uid] = node_name


class _Groups(FakeGroups):
    def scheduled(self, group: Any) -> None: ...
    def not_scheduled(self, group: Any, verdict: Any) -> None: ...
    def disrupted(self, group: Any, message: str) -> None: ...


class Tide:
    """An engine with real writers on an API server that accepts everything. `now`: its time, in seconds."""

    def __init__(self, nodes: int) -> None:
        self.now = 1_000.0
        self.cluster = _Cluster()
        http: Any = _Http()
        self.recorder = EventRecorder(
            http, clock=lambda: self.now, dropped=lambda: None, steady=lambda: self.now, per_second=1e9
        )
        self.status = PodStatusWriter(http, lambda: self.now)
        self.metrics = Metrics(lambda: self.now)
        ports = Ports(
            cluster=self.cluster,
            pods=RetryingPodReader(self.cluster),
            recorder=self.recorder,
            status=self.status,
            evictor=FakeEvictor(),
            groups=_Groups(),
            metrics=self.metrics,
        )
        sources = Sources(clock=lambda: self.now, wall=lambda: self.now, cpu=lambda: self.now, below=lambda _n: 0)
        self.engine = Engine(PLUGINS, Features(), ports, sources)
        for number in range(nodes):
            labels = {HOSTNAME: f"n{number}", "zone": f"z{number % 3}"}
            allocatable = {"pods": "1000000", "cpu": "1000000", "memory": "1000Ti"}
            self.engine.nodes.put(make_node(f"n{number}", labels=labels, allocatable=allocatable))
            self.engine.assigned.put(make_pod(f"keep{number}", node=f"n{number}", labels={"app": f"a{number % 9}"}))

    async def settle(self) -> None:
        """Returns when all pods are decided and all Bindings made."""
        engine = self.engine
        for _ in range(10_000):
            await asyncio.sleep(0)
            if not engine.queue.counts()["active"] and not len(engine.binding_cycles):
                break
        for _ in range(30):
            await asyncio.sleep(0)

    async def probe(self) -> None:
        """An ordinary pod is bound and deleted."""
        raw = make_pod("probe", spec={"schedulerName": OURS})
        self.engine.pending.put(raw)
        await self.settle()
        self.remove([raw])

    def remove(self, pods: list[Raw]) -> None:
        """The watches show the pods on the nodes that they were bound to, if any, and then their deletion."""
        for raw in pods:
            uid = raw["metadata"]["uid"]
            node = self.cluster.nodes.pop(uid, "")
            self.engine.pending.drop(uid, raw)
            if node:
                self.engine.assigned.put(on_node(raw, node))
        for _ in pages(lambda: known_pods(self.engine.cache, self.engine.queue)):
            pass
        for raw in pods:
            self.engine.assigned.drop(raw["metadata"]["uid"], None)

    async def ebb(self) -> None:
        """Some minutes pass, in which nothing happens but housekeeping."""
        for _ in range(int(FINISH_SECONDS / SWEEP_SECONDS) + 2):
            self.now += SWEEP_SECONDS + 1
            await self.probe()
            self.recorder.sweep()
            await self.engine.binding_executor.read_back_overdue()
            self.engine.binding_executor.checks.check()
            self.engine.group_changes.clear_stale_nominations()
            self.engine.compact()
        await self.settle()
        gc.collect()

    async def in_use(self) -> int:
        """Bytes that Python has in use once the tide is out."""
        await self.ebb()
        return tracemalloc.get_traced_memory()[0]


@asynccontextmanager
async def tide(nodes: int) -> AsyncIterator[Tide]:
    """A running engine with as many nodes, all of whose memory is traced."""
    tracemalloc.start(1)
    tasks: list[asyncio.Task[None]] = []
    try:
        made = Tide(nodes)
        tasks += [asyncio.create_task(part.run()) for part in (made.engine, made.recorder, made.status)]
        yield made
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        tracemalloc.stop()


# Objects, by number


def name(number: int) -> str:
    return f"example.com/name-{number}"


def labels(number: int) -> dict[str, str]:
    return {name(number): f"value-{number}"}


def _selector(number: int) -> Raw:
    return {"matchLabels": labels(number)}


def _pod(number: int, prefix: str, spec: Raw, **more: Any) -> Raw:
    """A pod that differs from all others in labels, namespace, image, limits, tolerations, port and priority."""
    address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    container = {
        "name": "main",
        "image": name(number),
        "ports": [{"hostPort": 80, "hostIP": address}],
        "resources": {"requests": more.pop("requests", {}), "limits": {name(number): "1", "cpu": f"{number + 7}m"}},
    }
    tolerations = [{"key": name(number), "value": f"value-{number}"}]
    own = {"containers": [container], "tolerations": tolerations, "priority": number, **spec}
    return make_pod(f"{prefix}{number}", namespace=f"ns-{number}", labels=labels(number), spec=own, **more)


def _fits(number: int) -> Raw:
    """Its affinity and spread constraints can be met anywhere."""
    term = {"topologyKey": HOSTNAME, "labelSelector": _selector(number)}
    spread = {"maxSkew": 5, "labelSelector": _selector(number)}
    hidden = {"matchExpressions": [{"key": name(number), "operator": "DoesNotExist"}]}
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [hidden]},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": hidden}],
        },
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
        "podAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "podAffinityTerm": {**term, "topologyKey": name(number)}},
                {"weight": 2, "podAffinityTerm": {**term, "namespaceSelector": _selector(number)}},
            ]
        },
    }
    spreads = [
        {**spread, "topologyKey": HOSTNAME, "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": [name(number)]},
        {**spread, "topologyKey": name(number), "whenUnsatisfiable": "ScheduleAnyway"},
    ]
    requests = {"cpu": f"{number + 1}u", "memory": str(number + 1)}
    spec = {"schedulerName": OURS, "affinity": affinity, "topologySpreadConstraints": spreads}
    return _pod(number, "fits", spec, requests=requests)


def _rejected(number: int) -> Raw:
    """It selects a label and requests a resource that no node has, and names a node and claims that do not exist."""
    spec = {
        "schedulerName": OURS,
        "nodeSelector": labels(number),
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": f"claim-{number}"}}],
    }
    status = {"nominatedNodeName": f"node-{number}"}
    return _pod(
        number,
        "rejected",
        spec if number % 2 else {"schedulerName": OURS},
        requests={name(number): "1"},
        status=status,
    )


def labels_as_amounts(number: int) -> dict[str, str]:
    return {name(number): "1"}


def _gated(number: int) -> Raw:
    spec = {"schedulerName": OURS, "schedulingGates": [{"name": name(number)}]}
    return _pod(number, "gated", spec, metadata={"ownerReferences": []})


def _member(number: int) -> Raw:
    return _pod(number, "member", {"schedulerName": OURS, "schedulingGroup": {"podGroupName": f"g{number}"}})


def _foreign(number: int) -> Raw:
    spec = {"schedulerName": f"scheduler-{number}", "schedulingGroup": {"podGroupName": f"g{number}"}}
    return _pod(number, "foreign", spec)


def _invalid_pod(number: int) -> Raw:
    return _pod(number, "invalid", {"schedulerName": OURS}, requests={"cpu": f"no-{number}"})


def _placed(number: int) -> Raw:
    term = {"topologyKey": name(number), "labelSelector": _selector(number)}
    spec = {
        "schedulerName": f"scheduler-{number}",
        "nodeName": f"n{number % 7}" if number % 2 else f"node-{number}",
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        "schedulingGroup": {"podGroupName": f"g{number}"},
        "volumes": [
            {"name": "a", "persistentVolumeClaim": {"claimName": f"claim-{number}"}},
            {"name": "b", "gcePersistentDisk": {"pdName": f"disk-{number}"}},
            {"name": "c", "csi": {"driver": name(number)}},
            {"name": "d", "ephemeral": {}},
        ],
    }
    return _pod(number, "placed", spec, requests={name(number): "1"})


def _invalid_placed(number: int) -> Raw:
    return make_pod(f"invalid{number}", node="n0", requests={"cpu": f"no-{number}"})


def _node(number: int) -> Raw:
    return make_node(
        f"node-{number}",
        labels={**labels(number), HOSTNAME: f"node-{number}"},
        taints=[make_taint(name(number), f"value-{number}")],
        allocatable={name(number): "1"},
        images=[{"names": [f"image-{number}"], "sizeBytes": 5 << 20}],
        declared_features=[f"Feature{number}"],
    )


def _changed(number: int, raw: Raw) -> Raw:
    """The object as the next version of one of five."""
    own = {"name": f"changed-{number % 5}", "uid": f"changed-{number % 5}"}
    return {**raw, "metadata": {**raw["metadata"], **own, "namespace": "default", "generation": number + 1}}


def _changed_node(number: int) -> Raw:
    return _changed(number, _node(number))


def _changed_placed(number: int) -> Raw:
    raw = _changed(number, _placed(number))
    return {**raw, "spec": {**raw["spec"], "nodeName": f"n{number % 5}"}}


def _changed_gated(number: int) -> Raw:
    return _changed(number, _gated(number))


def _changed_policy(number: int) -> Raw:
    spec = {"match": {"podSelector": _selector(number)}, "schedulerName": "podwright"}
    return _changed(number, {**_policy(number), "spec": spec})


def _invalid_node(number: int) -> Raw:
    return {"metadata": {"name": f"node-{number}"}, "spec": {"taints": f"no-{number}"}}


def _policy(number: int) -> Raw:
    return {
        "metadata": {"name": f"policy-{number}", "uid": f"policy-{number}", "generation": 1},
        "spec": {"schedulerName": f"scheduler-{number}"},
    }


def _objects(number: int) -> Iterator[tuple[str, Raw]]:
    """One object of each kind in the object store, as (kind, object)."""
    own = {"name": f"o{number}", "uid": f"o{number}", "labels": labels(number), "resourceVersion": str(number)}
    local = {**own, "namespace": f"ns-{number}"}
    csi = {"driver": name(number), "volumeHandle": f"handle-{number}"}
    affinity = {
        "required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": name(number), "operator": "Exists"}]}]}
    }
    volume = {
        "capacity": {"storage": "1Gi"},
        "claimRef": {"name": f"o{number}", "namespace": f"ns-{number}"},
        "storageClassName": name(number),
        "csi": csi,
        "nodeAffinity": affinity,
    }
    attachment = {"attacher": name(number), "nodeName": f"n{number}", "source": {"persistentVolumeName": f"o{number}"}}
    yield "Namespace", {"metadata": {**own, "name": f"ns-{number}"}}
    yield "Service", {"metadata": local, "spec": {"selector": labels(number)}}
    yield "ReplicaSet", {"metadata": local, "spec": {"selector": _selector(number)}}
    yield "PodDisruptionBudget", {"metadata": local, "spec": {"selector": _selector(number)}}
    claim = {"volumeName": f"o{number}", "storageClassName": name(number)}
    yield "PersistentVolumeClaim", {"metadata": local, "spec": claim}
    yield "PersistentVolume", {"metadata": own, "spec": volume}
    yield "StorageClass", {"metadata": own, "provisioner": name(number)}
    drivers = [{"name": name(number), "nodeID": "a", "allocatable": {"count": 5}}]
    yield "CSINode", {"metadata": own, "spec": {"drivers": drivers}}
    yield "VolumeAttachment", {"metadata": own, "spec": attachment}
    capacity = {"storageClassName": name(number), "nodeTopology": _selector(number), "capacity": "1Gi"}
    yield "CSIStorageCapacity", {"metadata": local, **capacity}
    yield "DeviceClass", {"metadata": own, "spec": {"extendedResourceName": name(number)}}
    valid = {} if number % 2 else {"schedulingPolicy": {"gang": {"minCount": f"no-{number}"}}}
    yield "PodGroup", make_pod_group(f"g{number}", 2, namespace=f"ns-{number}", **valid)


# Waves


async def pending(tide: Tide, make: Callable[[int], Raw], numbers: range) -> None:
    pods = [make(number) for number in numbers]
    for raw in pods:
        tide.engine.pending.put(raw)
    await tide.settle()
    tide.remove(pods)


async def placed(tide: Tide, make: Callable[[int], Raw], numbers: range) -> None:
    pods = [make(number) for number in numbers]
    for raw in pods:
        tide.engine.assigned.put(raw)
    await tide.probe()
    for raw in pods:
        tide.engine.assigned.drop(raw["metadata"]["uid"], None)


async def nodes(tide: Tide, make: Callable[[int], Raw], numbers: range) -> None:
    for number in numbers:
        tide.engine.nodes.put(make(number))
    await tide.probe()
    for number in numbers:
        tide.engine.nodes.drop(f"node-{number}", None)


async def objects(tide: Tide, make: Callable[[int], Iterator[tuple[str, Raw]]], numbers: range) -> None:
    """Objects of all kinds, with pods in their namespaces."""
    streams = {kind: tide.engine.objects(kind) for kind, _ in make(0)}
    for number in numbers:
        for kind, raw in make(number):
            streams[kind].put(raw)
    for make_one in (_fits, _member):
        await pending(tide, make_one, numbers[:20])
    for number in numbers:
        for kind, raw in make(number):
            metadata = raw["metadata"]
            streams[kind].drop(f"{metadata.get('namespace', '')}/{metadata['name']}", None)


async def policies(tide: Tide, make: Callable[[int], Raw], numbers: range) -> None:
    """Policies with scheduler names of their own, each with a pod that is bound and one that is rejected."""
    for number in numbers:
        raw = make(number)
        tide.engine.policies.apply(raw)
        name_of = {"schedulerName": raw["spec"]["schedulerName"]}
        pods = [
            make_pod("bound", spec=name_of),
            make_pod("rejected", spec={**name_of, "nodeSelector": {"no": "node"}}),
        ]
        for pod in pods:
            tide.engine.pending.put(pod)
        await tide.settle()
        list(tide.metrics.registry.collect())
        tide.remove(pods)
        tide.engine.policies.remove(raw["metadata"]["name"])


async def changes(tide: Tide, make: Callable[[int], Raw], numbers: range) -> None:
    """New versions of nodes, of placed and of pending pods. The last ones stay."""
    streams = {
        _changed_node: tide.engine.nodes,
        _changed_placed: tide.engine.assigned,
        _changed_gated: tide.engine.pending,
    }
    for number in numbers:
        streams[make].put(make(number))
    await tide.probe()


async def changed_policies(tide: Tide, make: Callable[[int], Raw], numbers: range) -> None:
    """New generations of policies. The last ones stay."""
    for number in numbers:
        assert tide.engine.policies.apply(make(number)).accepted
    await tide.probe()


@dataclass(frozen=True)
class Wave:
    """Objects of one stream. `values`: how many names and values of its own an object brings along, roughly."""

    name: str
    values: int
    send: Callable[..., Any]
    make: Callable[[int], Any]


WAVES: Final = (
    Wave("pending pods that fit", 40, pending, _fits),
    Wave("pending pods that are rejected", 20, pending, _rejected),
    Wave("gated pods", 10, pending, _gated),
    Wave("members of pod groups", 10, pending, _member),
    Wave("pods of other schedulers", 10, pending, _foreign),
    Wave("invalid pods", 10, pending, _invalid_pod),
    Wave("placed pods", 20, placed, _placed),
    Wave("invalid placed pods", 10, placed, _invalid_placed),
    Wave("nodes", 10, nodes, _node),
    Wave("invalid nodes", 10, nodes, _invalid_node),
    Wave("objects of all other kinds", 50, objects, _objects),
    Wave("policies", 250, policies, _policy),
    Wave("nodes that change", 10, changes, _changed_node),
    Wave("placed pods that change", 20, changes, _changed_placed),
    Wave("gated pods that change", 10, changes, _changed_gated),
    Wave("policies that change", 60, changed_policies, _changed_policy),
)


async def roll(tide: Tide, wave: Wave, start: int, count: int) -> None:
    """A wave of as many objects, with numbers from `start`. Housekeeping goes on meanwhile."""
    for first in range(start, start + count, AT_ONCE):
        await wave.send(tide, wave.make, range(first, min(first + AT_ONCE, start + count)))
        tide.now += 1.0
        if (first - start) % (10 * AT_ONCE) == 0:
            await tide.engine.binding_executor.read_back_overdue()
            tide.engine.compact()
