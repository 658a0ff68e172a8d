"""The operator is killed while it binds pod groups. In the end each group is bound completely or not at all."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from podwright.core.objects.kai_groups import KAI_SUB_GROUP_LABEL
from podwright.core.objects.pod_group import GROUP_LABEL
from podwright.testing import Binaries, ControlPlane, Versions, node, pod, wait_until, workload_api
from podwright.testing.workload_api import COMPOSITES
from support.control_plane import operator_process as kit
from support.faults.arena import Arena
from support.faults.proxy import FaultProxy, Faults, is_binding
from support.gangs import grove, kai, volcano
from support.groupings.workloads import reference

CRD = Path(__file__).parents[2] / "crds" / "gangs" / "scheduling.x-k8s.io_podgroups.yaml"
JOB = Path(__file__).parents[2] / "manifests" / "groupings" / "job.yaml"
GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"
SIZE = 8
HEAD = SIZE // 4
JOBS = {
    "owner": {"apiVersion": "batch/v1", "kind": "Job"},
    "precedence": 10,
    "minCount": "owner.spec.parallelism",
    "subGroup": {"key": "pod.labels['part']", "minCount": f"pod.labels['part'] == 'head' ? {HEAD} : {SIZE - HEAD}"},
}
"""The pods of a Job are a gang of two parts."""


@dataclass(frozen=True)
class Doors:
    """`apis`: the gangs are of these, in turn. `fit`: so many of `gangs` have room."""

    apis: Sequence[str]
    gangs: int = 12
    fit: int = 7
    kills: int = int(os.environ.get("PODWRIGHT_KILLS", "4"))


MINOR = Versions.from_environ().kubernetes_minor
API = workload_api(MINOR)
COMPOSITE = ("scheduling.k8s.io",) if MINOR >= 37 else ()
"""CompositePodGroups, which 1.37 is the first to have."""
MIXED = (
    "scheduling.x-k8s.io",
    "scheduling.run.ai",
    "scheduling.volcano.sh",
    "podwright.dev",
    "scheduler.grove.io",
    *COMPOSITE,
)
DOORS = {
    "one kind of group": pytest.param(Doors(MIXED[:1])),
    "mixed kinds, with parts, groups by rule": pytest.param(Doors(MIXED)),
    "mixed kinds, killed 30 times": pytest.param(Doors(MIXED, gangs=48, fit=40, kills=30), marks=pytest.mark.slow),
}


@pytest.fixture(scope="module")
def control_plane(binaries: Binaries) -> Iterator[ControlPlane]:
    """A control plane of its own, which serves CompositePodGroups."""
    with ControlPlane(binaries=binaries, **(API.composite_options if API and COMPOSITE else {})) as cluster:
        kit.install(cluster)
        yield cluster


@dataclass(frozen=True)
class Gangs:
    arena: Arena
    doors: Doors


@pytest.fixture(params=DOORS.values(), ids=DOORS)
def gangs(arena: Arena, request: pytest.FixtureRequest) -> Iterator[Gangs]:
    """Pending gangs, and nodes with room for exactly those that fit."""
    doors: Doors = request.param
    apis = *((each.CRD, each.SERVED) for each in (kai, volcano, grove)), (CRD, GROUPS)
    for crd, served in apis:
        arena.cluster.apply(crd)
        wait_until(
            lambda served=served: arena.cluster.client.raw("GET", served)[0] == 200,
            30,
            "the API server serves pod groups",
        )
    arena.cluster.apply(JOB)
    body = {"apiVersion": "podwright.dev/v1alpha1", "kind": "WorkloadGrouping", "metadata": {"name": "of-jobs"}}
    grouping = arena.cluster.client.create({**body, "spec": JOBS})
    arena.nodes(doors.fit * SIZE // 4, cpu="4")
    for gang in range(doors.gangs):
        add_gang(arena, doors.apis[gang % len(doors.apis)], f"g{gang}")
    yield Gangs(arena, doors)
    arena.cluster.client.delete(grouping)


def add_gang(arena: Arena, api: str, name: str) -> None:
    """Those of KAI, of Jobs and of Grove, and the composite ones, have two parts, all of which are needed."""
    metadata: dict[str, Any] = {"labels": {}}
    client, annotations = arena.cluster.client, {}
    if api == "scheduling.run.ai":
        below = [{"name": "head", "minMember": HEAD}, {"name": "worker", "minMember": SIZE - HEAD}]
        parts = [{"name": "replica"}, *({"parent": "replica", **part} for part in below)]
        client.create(kai.group(name, arena.namespace, subGroups=parts))
        annotations = {"pod-group-name": name}
    elif api == "scheduling.volcano.sh":
        client.create(volcano.group(name, arena.namespace, minMember=SIZE))
        annotations = {"scheduling.k8s.io/group-name": name}
    elif api == "scheduler.grove.io":
        client.create(grove.gang(name, arena.namespace, {"head": HEAD, "worker": SIZE - HEAD}))
        metadata["labels"] = {"grove.io/podgang": name}
    elif api in COMPOSITE:
        add_composite(arena, name)
    elif api == "podwright.dev":
        container = {"name": "main", "image": "app"}
        template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": arena.namespace}}
        made = client.create({**job, "spec": {"parallelism": SIZE, "template": template}})
        metadata["ownerReferences"] = [reference({**job, **made})]
    else:
        named = {"name": name, "namespace": arena.namespace}
        client.create(
            {"apiVersion": f"{api}/v1alpha1", "kind": "PodGroup", "metadata": named, "spec": {"minMember": SIZE}}
        )
        metadata["labels"] = {GROUP_LABEL: name}
    pods = [
        pod(f"{name}-{index}", arena.namespace, scheduler="podwright", cpu="1", memory=None) for index in range(SIZE)
    ]
    for index, raw in enumerate(pods):
        part = "head" if index < HEAD else "worker"
        labels = {**metadata["labels"], KAI_SUB_GROUP_LABEL: part, "part": part, "grove.io/podclique": part}
        raw["metadata"] |= {**metadata, "labels": labels, "annotations": annotations}
        if api in COMPOSITE:
            raw["spec"]["schedulingGroup"] = {"podGroupName": f"{name}-{part}"}
    arena.cluster.bulk.create(pods)


def add_composite(arena: Arena, name: str) -> None:
    """A CompositePodGroup, and below it a PodGroup for each part."""
    assert API is not None
    head, worker = ({"gang": {"minCount": count}} for count in (HEAD, SIZE - HEAD))
    for version, kind, made, policy, parent in (
        (COMPOSITES, "CompositePodGroup", name, {"gang": {"minGroupCount": 2}}, ""),
        (API.version, "PodGroup", f"{name}-head", head, name),
        (API.version, "PodGroup", f"{name}-worker", worker, name),
    ):
        spec = {"workloadRef": {"workloadName": "any", "templateName": "any"}, "schedulingPolicy": policy}
        above = {"parentCompositePodGroupName": parent} if parent else {}
        metadata = {"name": made, "namespace": arena.namespace}
        arena.cluster.client.create({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec | above})


def placed(arena: Arena) -> Counter[str]:
    """Bound members by gang."""
    return Counter(
        raw["metadata"]["name"].partition("-")[0]
        for raw in kit.pods(arena.cluster, arena.namespace)
        if raw["spec"].get("nodeName")
    )


def is_binding_of_the_last_member(method: str, path: str) -> bool:
    return is_binding(method, path) and f"-{SIZE - 1}/" in path


def test_gangs_are_bound_completely_although_the_operator_is_killed_while_binding(gangs: Gangs) -> None:
    randomness = random.Random(5)
    doors, arena = gangs.doors, gangs.arena
    partial = 0
    with FaultProxy(arena.cluster) as proxy:
        proxy.faults = [Faults({}, is_binding, delay=1.0)]
        proxy.hold(is_binding_of_the_last_member)  # so that the first kill certainly interrupts gangs
        for kill in range(doors.kills):
            operator = arena.start(proxy, "--pod-intake=watch")
            if kill == 0:
                wait_until(lambda: arena.bound() > 0 and proxy.held() > 0, 60, "the operator binds a gang")
            time.sleep(randomness.uniform(0.1, 0.6))
            os.kill(operator.process.pid, signal.SIGKILL)
            operator.process.wait(10)
            proxy.release()
            partial += sum(0 < count < SIZE for count in placed(arena).values())
        proxy.faults = []
        started = time.monotonic()
        with arena.running(proxy, "--pod-intake=watch", warm_up=False) as operator:
            wait_until(lambda: sum(placed(arena).values()) == doors.fit * SIZE, 60, "all gangs that fit are bound")
            arena.wait_settled()
            arena.verify()
            assert partial > 0, "no kill interrupted the binding of a gang"
            assert placed(arena) == dict.fromkeys(placed(arena), SIZE)
            assert len(placed(arena)) == doors.fit
            recovered = max(0.0, arena.ledger.last_binding_at() - started)
            arena.empty(operator)  # the operator keeps nothing of interrupted gangs
    arena.report(
        pods=doors.gangs * SIZE,
        faults=f"{doors.kills} times SIGKILL, {partial} gangs interrupted",
        seconds_from_last_start_to_all_bound=f"{recovered:.1f}",
    )


RIVALS, SMALL = 10, 3
"""So many pairs of nodes, and on each two gangs that want it, with so many small members."""


def pair_of_rivals(arena: Arena, number: int) -> list[str]:
    """A small and a large node, and two gangs, of which one has room there. If the small members are placed first, one
    by one, they go to the large node, and the large member fits nowhere. Returns the names of the gangs.
    """
    pool, names = f"p{number}", [f"p{number}x0", f"p{number}x1"]
    arena.cluster.bulk.create(
        node(f"{pool}-{cpu}", cpu=cpu, memory="64Gi", pods="30", labels={"pool": pool}) for cpu in ("3", "8")
    )
    for name in names:
        arena.cluster.client.create(plain_group(arena, name))
        create_members(arena, name)
    return names


def plain_group(arena: Arena, name: str) -> dict[str, Any]:
    named = {"name": name, "namespace": arena.namespace}
    spec = {"minMember": SMALL + 1}
    return {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": named, "spec": spec}


def create_members(arena: Arena, name: str) -> None:
    """Of a gang of a pair, or of one with equal members that may be on any node of its own kind."""
    pool, _, pair = name.partition("x")
    cpus = ["1"] * SMALL + ["8" if pair else "1"]
    arena.cluster.bulk.create(
        arena.pod(
            f"{name}-{index}",
            cpu=cpu,
            memory=None,
            labels={GROUP_LABEL: name},
            nodeSelector={"pool": pool if pair else "s"},
        )
        for index, cpu in enumerate(cpus)
    )


def check_rivals(arena: Arena) -> int:
    """No two gangs have pods on one pair of nodes. Returns how many gangs are partially bound."""
    counts = placed(arena)
    pairs = Counter(name.partition("x")[0] for name in counts if "x" in name)
    assert set(pairs.values()) <= {1}, counts
    return sum(count <= SMALL for count in counts.values())


def end_some(arena: Arena, randomness: random.Random) -> None:
    """Half of the gangs that are bound end, and come again."""
    for name in [name for name, count in placed(arena).items() if count > SMALL and randomness.random() < 0.5]:
        for index in range(SMALL + 1):
            path = f"/api/v1/namespaces/{arena.namespace}/pods/{name}-{index}"
            arena.cluster.client.request("DELETE", path, query={"gracePeriodSeconds": "0"})
        create_members(arena, name)


@pytest.mark.parametrize(
    "kills",
    [
        int(os.environ.get("PODWRIGHT_KILLS", "4")),
        pytest.param(50, marks=[pytest.mark.slow, pytest.mark.timeout(1800)]),
    ],
)
def test_gangs_that_compete_for_room_never_share_it_although_the_operator_is_killed(arena: Arena, kills: int) -> None:
    """40 gangs, of which 20 have room, half of these only if they are planned jointly."""
    pytest.importorskip("highspy")
    randomness, partial, seen = random.Random(kills), 0, 0
    arena.cluster.apply(CRD)
    wait_until(lambda: arena.cluster.client.raw("GET", GROUPS)[0] == 200, 30, "the API server serves pod groups")
    arena.nodes(RIVALS, cpu="4", labels={"pool": "s"})
    for number in range(RIVALS):
        pair_of_rivals(arena, number)
    for number in range(2 * RIVALS):
        arena.cluster.client.create(plain_group(arena, f"s{number}"))
        create_members(arena, f"s{number}")
    with FaultProxy(arena.cluster) as proxy:
        proxy.faults = [Faults({}, is_binding, delay=0.5)]
        proxy.hold(lambda method, path: is_binding(method, path) and f"-{SMALL}/" in path)  # see above
        for kill in range(kills):
            operator = arena.start(proxy, "--pod-intake=watch")
            if kill == 0:
                wait_until(lambda: arena.bound() > 0 and proxy.held() > 0, 60, "the operator binds a gang")
            ends = time.monotonic() + randomness.uniform(0.3, 4)
            while time.monotonic() < ends:
                check_rivals(arena)
                seen += 1
            os.kill(operator.process.pid, signal.SIGKILL)
            operator.process.wait(10)
            proxy.release()
            partial += check_rivals(arena)
            held = [raw for raw in kit.pods(arena.cluster, arena.namespace) if raw["status"].get("nominatedNodeName")]
            assert not held
            assert arena.cluster.client.items("/apis/podwright.dev/v1alpha1/reservations") == []
            end_some(arena, randomness)
        proxy.faults = []
        with arena.running(proxy, "--pod-intake=watch", warm_up=False) as operator:
            wait_until(lambda: sum(placed(arena).values()) == 2 * RIVALS * (SMALL + 1), 120, "each place has a gang")
            arena.wait_settled()
            arena.verify()
            assert check_rivals(arena) == 0
            arena.empty(operator)
    assert partial > 0, "no kill interrupted the binding of a gang"
    arena.report(
        pods=4 * RIVALS * (SMALL + 1),
        faults=f"{kills} times SIGKILL, {partial} gangs interrupted, looked at {seen} times",
    )
