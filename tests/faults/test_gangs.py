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

from podwright.core.objects.pod_group import GROUP_LABEL
from podwright.core.objects.sub_groups import KAI_SUB_GROUP_LABEL
from podwright.testing import pod, wait_until
from support.control_plane import operator_process as kit
from support.faults.arena import Arena
from support.faults.proxy import FaultProxy, Faults, is_binding
from support.gangs import kai, volcano
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


MIXED = ("scheduling.x-k8s.io", "scheduling.run.ai", "scheduling.volcano.sh", "podwright.dev")
DOORS = {
    "one kind of group": pytest.param(Doors(MIXED[:1])),
    "mixed kinds, with parts, groups by rule": pytest.param(Doors(MIXED)),
    "mixed kinds, killed 30 times": pytest.param(
        Doors(MIXED, gangs=48, fit=40, kills=30), marks=[pytest.mark.slow, pytest.mark.timeout(900)]
    ),
}


@dataclass(frozen=True)
class Gangs:
    arena: Arena
    doors: Doors


@pytest.fixture(params=DOORS.values(), ids=DOORS)
def gangs(arena: Arena, request: pytest.FixtureRequest) -> Iterator[Gangs]:
    """Pending gangs, and nodes with room for exactly those that fit."""
    doors: Doors = request.param
    for crd, served in ((CRD, GROUPS), (kai.CRD, kai.SERVED), (volcano.CRD, volcano.SERVED)):
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
    """Those of KAI, and of Jobs, have two parts, all of which are needed."""
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
        labels = {**metadata["labels"], KAI_SUB_GROUP_LABEL: part, "part": part}
        raw["metadata"] |= {**metadata, "labels": labels, "annotations": annotations}
    arena.cluster.bulk.create(pods)


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
