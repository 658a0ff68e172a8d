"""The operator is killed (SIGKILL) while it moves pods. Each pod goes to the place that was held for it, and nowhere
else. Or the API server refuses an eviction, because the budget has been used since the pod's place was proved.

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
    """In each round, two pods on n1 are to move to n0, where there is no room for more. The operator is killed when
    both places are held, in two of three rounds while both evictions or one of them are under way. Only then the
    controller creates the new pods, and another pod wants the room.
    """
    cluster, randomness, evicted = arena.cluster, random.Random(kills), 0
    arena.nodes(3, cpu="4", pods="99")
    controller = Controller(cluster, arena.namespace)
    controller.runs("other", "n2")
    for name, cpu, on in (("base", "2", "n0"), ("full", "3", "n2")):
        cluster.client.create(arena.pod(name, cpu=cpu, nodeName=on))
    raw = policy(mode="Enforce", cooldown="0s", interval="1s", maxMoves=1000, maxMovesAtOnce=2, holdFor="5m")
    del raw["metadata"]["uid"], raw["metadata"]["generation"]
    cluster.apply(raw)
    for kill in range(kills):
        apps = [f"app{kill}-a", f"app{kill}-b"]
        for app in apps:
            controller.runs(app, "n1")
        held = apps[: kill % 3]
        if held:  # the requests to evict these are under way
            under_way = tuple(f"/{app}-" for app in held)
            proxy.hold(lambda _, path, these=under_way: path.endswith("/eviction") and any(map(path.count, these)))
        operator = arena.start(proxy, "--pod-intake=watch")
        wait_until(lambda: len(cluster.client.items(RESERVATIONS)) == 2, 60, "both places are held")
        wait_until(lambda held=held: proxy.held() == len(held), 60, "the pods are to be evicted")
        time.sleep(randomness.uniform(0, 0.2))
        os.kill(operator.process.pid, signal.SIGKILL)
        operator.process.wait(10)
        proxy.release()
        time.sleep(1)
        gone = [app for app in apps if not controller.nodes_of(app)]
        evicted += len(gone)
        if gone:  # else both places are given back, and planned again
            thief = arena.pod(f"thief{kill}", cpu="1500m", nodeSelector={"kubernetes.io/hostname": "n0"})
            cluster.client.create(thief)
        controller.reconcile()
        operator = arena.start(None, "--pod-intake=watch")
        with controller.working():
            there = lambda apps=apps: [controller.nodes_of(app) for app in apps] == [["n0"], ["n0"]]
            wait_until(there, 90, "both pods are at their places")
            wait_until(lambda: not cluster.client.items(RESERVATIONS), 60, "no place is held any more")
        operator.process.stop(30)
        assert kit.over_committed(cluster) == {}
        for app in apps:
            del controller.wanted[app]
        for each in kit.pods(cluster, arena.namespace):
            if each["metadata"]["name"].startswith(("app", "thief")):
                cluster.client.delete({"apiVersion": "v1", "kind": "Pod", **each})
    arena.report(faults=f"{kills} times SIGKILL with two moves under way, {evicted} pods were evicted before")
    cluster.kubectl("delete", "rebal", "--all")


def test_places_are_kept_although_the_operator_is_killed_in_the_middle_of_moves(arena: Arena) -> None:
    with FaultProxy(arena.cluster) as proxy:
        kill_repeatedly(arena, proxy, int(os.environ.get("PODWRIGHT_KILLS", "4")))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_places_are_kept_although_the_operator_is_killed_30_times(arena: Arena) -> None:
    with FaultProxy(arena.cluster) as proxy:
        kill_repeatedly(arena, proxy, 30)


def test_a_pod_stays_and_its_place_is_given_back_if_its_budget_is_used_up_before_the_eviction_arrives(
    arena: Arena,
) -> None:
    cluster = arena.cluster
    arena.nodes(2, cpu="4", pods="99")
    controller = Controller(cluster, arena.namespace)
    for app, on in (("base", "n0"), ("base", "n0"), ("app", "n1")):
        controller.runs(app, on)
    pod = lambda: next(each for each in kit.pods(cluster, arena.namespace) if each["metadata"]["name"] == "app-3")
    before = pod()
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}  # else no budget counts
    cluster.client.patch({"apiVersion": "v1", "kind": "Pod", **before}, {"status": ready}, "status")
    disruption = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "app", "namespace": arena.namespace},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "app"}}},
    }
    cluster.client.create(disruption)
    counts = {"observedGeneration": 1, "currentHealthy": 1, "desiredHealthy": 0, "expectedPods": 1}
    cluster.client.patch(disruption, {"status": {**counts, "disruptionsAllowed": 1}}, "status")
    raw = policy(mode="Enforce", cooldown="0s", interval="1h")
    del raw["metadata"]["uid"], raw["metadata"]["generation"]
    status = lambda: cluster.client.get("/apis/podwright.dev/v1alpha1/rebalancepolicies/tidy").get("status") or {}
    with FaultProxy(cluster) as proxy, controller.working():
        cluster.apply(raw)
        proxy.hold(lambda _method, path: path.endswith("/eviction"))
        operator = arena.start(proxy, "--pod-intake=watch")
        wait_until(lambda: proxy.held() > 0, 60, "the pod is to be evicted")
        assert len(cluster.client.items(RESERVATIONS)) == 1
        cluster.client.patch(disruption, {"status": {"disruptionsAllowed": 0}}, "status")
        proxy.release()
        refused = f"the eviction of pod {arena.namespace}/app-3 was refused"
        wait_until(
            lambda: (status().get("plan") or {}).get("ended") == refused, 60, "the status says why the plan ended"
        )
        wait_until(lambda: not cluster.client.items(RESERVATIONS), 60, "the place is given back")
        assert [each["uid"] for each in status()["spared"]] == [before["metadata"]["uid"]]
        events = lambda: cluster.kubectl("get", "events", "-n", arena.namespace)
        wait_until(lambda: "PodNotRebalanced" in events(), 30, "an event says so")
        operator.process.stop(30)
    assert (pod()["metadata"]["uid"], pod()["spec"]["nodeName"]) == (before["metadata"]["uid"], "n1")
    assert "deletionTimestamp" not in pod()["metadata"]
    cluster.kubectl("delete", "rebal", "--all")
