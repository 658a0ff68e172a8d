"""Pod groups while the operator is killed in the middle of binding them: in the end each is whole, or not there."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from podwright.core.objects.pod_group import GROUP_LABEL
from podwright.testing import wait_until
from support.control_plane import operator_process as kit
from support.faults.kit import Arena
from support.faults.proxy import FaultProxy, Faults, is_binding

CRD = Path(__file__).parents[2] / "crds" / "gangs" / "scheduling.x-k8s.io_podgroups.yaml"
GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"
SIZE = 8
GANGS = 12
FIT = 7


@pytest.fixture
def gangs(arena: Arena) -> Arena:
    """Nodes that hold FIT gangs and no pod more, and GANGS gangs that want them."""
    arena.cluster.apply(CRD)
    wait_until(lambda: arena.cluster.client.raw("GET", GROUPS)[0] == 200, 30, "the API server serves pod groups")
    arena.nodes(FIT * SIZE // 4, cpu="4")
    for gang in range(GANGS):
        name = f"g{gang}"
        group = {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": arena.namespace},
            "spec": {"minMember": SIZE},
        }
        arena.cluster.client.create(group)
        arena.pods(SIZE, f"{name}-", cpu="1", labels={GROUP_LABEL: name})
    return arena


def placed(arena: Arena) -> Counter[str]:
    """Bound members by gang."""
    return Counter(
        raw["metadata"]["labels"][GROUP_LABEL]
        for raw in kit.pods(arena.cluster, arena.namespace)
        if raw["spec"].get("nodeName")
    )


def test_gangs_are_whole_although_the_operator_is_killed_while_it_binds_them(gangs: Arena) -> None:
    chance = random.Random(5)
    kills = int(os.environ.get("PODWRIGHT_KILLS", "4"))
    halves = 0
    with FaultProxy(gangs.cluster) as proxy:
        proxy.faults = [Faults({}, is_binding, delay=1.0)]
        for _ in range(kills):
            operator = gangs.start(proxy, "--pod-intake=watch", ready=False)
            operator.process.wait_ready(lambda operator=operator: operator.ready, 60)
            time.sleep(chance.uniform(0.1, 0.6))
            os.kill(operator.process.pid, signal.SIGKILL)
            operator.process.wait(10)
            halves += sum(0 < count < SIZE for count in placed(gangs).values())
        proxy.faults = []
        began = time.monotonic()
        with gangs.running(proxy, "--pod-intake=watch", warm=False) as operator:
            wait_until(lambda: sum(placed(gangs).values()) == FIT * SIZE, 60, "as many gangs as fit are bound")
            gangs.wait_calm()
            gangs.verify()
            assert halves > 0, "no kill came in the middle"
            assert placed(gangs) == dict.fromkeys(placed(gangs), SIZE)
            assert len(placed(gangs)) == FIT
            recovered = max(0.0, gangs.ledger.latest() - began)
            gangs.emptied(operator)  # of gangs that were broken off nothing is counted for ever
    gangs.tell(
        pods=GANGS * SIZE,
        faults=f"{kills} times SIGKILL, {halves} gangs broken off",
        seconds_from_last_start_to_all_bound=f"{recovered:.1f}",
    )
