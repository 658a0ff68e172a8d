"""The operator is killed (SIGKILL) while it moves pods. Each pod goes to the place that was held for it, and nowhere else.

PODWRIGHT_KILLS sets the number of kills in the short test (4). The slow test kills 30 times.
"""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

from podwright.testing import wait_until
from support.control_plane import operator_process as kit
from support.faults.arena import Arena
from support.faults.proxy import FaultProxy
from support.rebalance.controller import Controller
from support.rebalance.kit import policy

RESERVATIONS = "/apis/podwright.dev/v1alpha1/reservations"


def kill_repeatedly(arena: Arena, proxy: FaultProxy, kills: int) -> None:
    """In each round, a pod on n1 is to move to n0, where there is little room. The operator is killed when the place is
    held, while the eviction is under way in every second round. Only then the controller creates the new pod, and another pod wants the room.
    """
    cluster, randomness, evicted = arena.cluster, random.Random(kills), 0
    arena.nodes(3, cpu="4", pods="99")
    controller = Controller(cluster, arena.namespace)
    for _ in range(2):
        controller.runs("base", "n0")
    controller.runs("other", "n2")
    cluster.client.create(arena.pod("full", cpu="3", nodeName="n2"))
    raw = policy(mode="Enforce", cooldown="0s", interval="1s", maxMoves=1000, holdFor="5m")
    del raw["metadata"]["uid"], raw["metadata"]["generation"]
    cluster.apply(raw)
    for kill in range(kills):
        app = f"app{kill}"
        controller.runs(app, "n1")
        if kill % 2:  # its request to evict is under way
            proxy.hold(lambda _method, path: path.endswith("/eviction"))
        operator = arena.start(proxy, "--pod-intake=watch")
        wait_until(lambda: cluster.client.items(RESERVATIONS), 60, "a place is held")
        if kill % 2:
            wait_until(lambda: proxy.held() > 0, 60, "the pod is to be evicted")
        time.sleep(randomness.uniform(0, 0.2))
        os.kill(operator.process.pid, signal.SIGKILL)
        operator.process.wait(10)
        proxy.release()
        time.sleep(1)
        if not controller.nodes_of(app):  # else the place is given back, and planned again
            evicted += 1
            thief = arena.pod(f"thief{kill}", cpu="1500m", nodeSelector={"kubernetes.io/hostname": "n0"})
            cluster.client.create(thief)
        controller.reconcile()
        operator = arena.start(None, "--pod-intake=watch")
        with controller.working():
            wait_until(lambda app=app: controller.nodes_of(app) == ["n0"], 90, "the pod is at its place")
            wait_until(lambda: not cluster.client.items(RESERVATIONS), 60, "no place is held any more")
        operator.process.stop(30)
        assert kit.over_committed(cluster) == {}
        del controller.wanted[app]
        for each in kit.pods(cluster, arena.namespace):
            if each["metadata"]["name"].startswith(("app", "thief")):
                cluster.client.delete({"apiVersion": "v1", "kind": "Pod", **each})
    arena.report(faults=f"{kills} times SIGKILL, {evicted} of them after the eviction")
    cluster.kubectl("delete", "rebal", "--all")


def test_places_are_kept_although_the_operator_is_killed_in_the_middle_of_moves(arena: Arena) -> None:
    with FaultProxy(arena.cluster) as proxy:
        kill_repeatedly(arena, proxy, int(os.environ.get("PODWRIGHT_KILLS", "4")))


@pytest.mark.slow
def test_places_are_kept_although_the_operator_is_killed_30_times(arena: Arena) -> None:
    with FaultProxy(arena.cluster) as proxy:
        kill_repeatedly(arena, proxy, 30)
