"""The operator is killed while it binds pod groups. In the end each group is bound completely or not at all."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from podwright.core.objects.pod_group import GROUP_LABEL
from podwright.core.objects.sub_groups import KAI_SUB_GROUP_LABEL
from podwright.testing import pod, wait_until
from support.control_plane import operator_process as kit
from support.faults.arena import Arena
from support.faults.proxy import FaultProxy, Faults, is_binding
from support.gangs import kai, volcano

CRD = Path(__file__).parents[2] / "crds" / "gangs" / "scheduling.x-k8s.io_podgroups.yaml"
GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"
SIZE = 8
GANGS = 12
FIT = 7


DOORS = {
    "one kind of group": ("scheduling.x-k8s.io",),
    "mixed kinds, some with parts": ("scheduling.x-k8s.io", "scheduling.run.ai", "scheduling.volcano.sh"),
}


@pytest.fixture(params=DOORS.values(), ids=DOORS)
def gangs(arena: Arena, request: pytest.FixtureRequest) -> Arena:
    """Nodes with room for exactly FIT gangs, and GANGS pending gangs, of these APIs in turn."""
    for crd, served in ((CRD, GROUPS), (kai.CRD, kai.SERVED), (volcano.CRD, volcano.SERVED)):
        arena.cluster.apply(crd)
        wait_until(
            lambda served=served: arena.cluster.client.raw("GET", served)[0] == 200,
            30,
            "the API server serves pod groups",
        )
    arena.nodes(FIT * SIZE // 4, cpu="4")
    for gang in range(GANGS):
        add_gang(arena, request.param[gang % len(request.param)], f"g{gang}")
    return arena


def add_gang(arena: Arena, api: str, name: str) -> None:
    """That of KAI has two parts, both of which are needed completely."""
    if api == "scheduling.run.ai":
        parts = [{"name": "head", "minMember": SIZE // 4}, {"name": "worker", "minMember": SIZE - SIZE // 4}]
        arena.cluster.client.create(kai.group(name, arena.namespace, subGroups=parts))
    elif api == "scheduling.volcano.sh":
        arena.cluster.client.create(volcano.group(name, arena.namespace, minMember=SIZE))
    else:
        metadata = {"name": name, "namespace": arena.namespace}
        group = {"apiVersion": f"{api}/v1alpha1", "kind": "PodGroup", "metadata": metadata, "spec": {"minMember": SIZE}}
        arena.cluster.client.create(group)
    pods = [
        pod(f"{name}-{index}", arena.namespace, scheduler="podwright", cpu="1", memory=None) for index in range(SIZE)
    ]
    for index, raw in enumerate(pods):
        part = "head" if index < SIZE // 4 else "worker"
        if api == "scheduling.x-k8s.io":
            raw["metadata"]["labels"] = {GROUP_LABEL: name}
        else:
            annotation = "pod-group-name" if api == "scheduling.run.ai" else "scheduling.k8s.io/group-name"
            raw["metadata"] |= {"annotations": {annotation: name}, "labels": {KAI_SUB_GROUP_LABEL: part}}
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


def test_gangs_are_bound_completely_although_the_operator_is_killed_while_binding(gangs: Arena) -> None:
    randomness = random.Random(5)
    kills = int(os.environ.get("PODWRIGHT_KILLS", "4"))
    partial = 0
    with FaultProxy(gangs.cluster) as proxy:
        proxy.faults = [Faults({}, is_binding, delay=1.0)]
        proxy.hold(is_binding_of_the_last_member)  # so that the first kill certainly interrupts gangs
        for kill in range(kills):
            operator = gangs.start(proxy, "--pod-intake=watch")
            if kill == 0:
                wait_until(lambda: gangs.bound() > 0 and proxy.held() > 0, 60, "the operator binds a gang")
            time.sleep(randomness.uniform(0.1, 0.6))
            os.kill(operator.process.pid, signal.SIGKILL)
            operator.process.wait(10)
            proxy.release()
            partial += sum(0 < count < SIZE for count in placed(gangs).values())
        proxy.faults = []
        started = time.monotonic()
        with gangs.running(proxy, "--pod-intake=watch", warm_up=False) as operator:
            wait_until(lambda: sum(placed(gangs).values()) == FIT * SIZE, 60, "all gangs that fit are bound")
            gangs.wait_settled()
            gangs.verify()
            assert partial > 0, "no kill interrupted the binding of a gang"
            assert placed(gangs) == dict.fromkeys(placed(gangs), SIZE)
            assert len(placed(gangs)) == FIT
            recovered = max(0.0, gangs.ledger.last_binding_at() - started)
            gangs.empty(operator)  # the operator keeps nothing of interrupted gangs
    gangs.report(
        pods=GANGS * SIZE,
        faults=f"{kills} times SIGKILL, {partial} gangs interrupted",
        seconds_from_last_start_to_all_bound=f"{recovered:.1f}",
    )
