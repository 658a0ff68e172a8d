"""The operator on the real control plane: it binds pods once, with every way to start it, and across kill -9."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from podwright.testing import node, pod, wait_until
from support.control_plane import operator_process as kit
from support.objects.builders import make_policy

OURS = "podwright"


def policy(name, strategy, **spec):
    return make_policy(name, strategy=strategy, **spec)


def accepted(cluster, name):
    return kit.condition(cluster.client.get(f"{kit.POLICIES}/{name}"), "Accepted")


@pytest.mark.parametrize(
    ("way", "environ"),
    [
        pytest.param("podwright run", {}, id="podwright run"),
        pytest.param("kopf run -m", {}, id="kopf run -m podwright.controllers"),
        pytest.param("kopf run FILE", {}, id="kopf run operator/main.py"),
        pytest.param("kopf run -m", {"PODWRIGHT_POD_INTAKE": "watch"}, id="kopf run with the reflector's pod intake"),
    ],
)
def test_existing_and_new_pods_are_bound_however_the_operator_is_started(cluster, namespace, way, environ):
    cluster.client.create(node("only"))
    cluster.client.create(pod("waiting", namespace, scheduler=OURS))
    with kit.running(cluster, way=way, environ=environ) as operator:
        kit.wait_bound(cluster, namespace, 1, 20)
        cluster.client.create(pod("new", namespace, scheduler=OURS))
        cluster.client.create(pod("foreign", namespace, scheduler="other-scheduler"))
        kit.wait_bound(cluster, namespace, 2, 20)
        attempts = lambda: operator.metric("scheduler_schedule_attempts_total", result="scheduled", profile=OURS)
        wait_until(lambda: attempts() == 2, 60, "two attempts are counted: a pod is bound before its attempt is")
    assert operator.process.returncode == 0
    assert "Traceback" not in operator.log()
    assert not cluster.client.read(pod("foreign", namespace))["spec"].get("nodeName")
    assert [kit.foreign_marks(raw) for raw in kit.pods(cluster, namespace)] == [[]] * 3


@pytest.mark.parametrize("intake", ["kopf", "watch"])
def test_after_a_kill_the_next_operator_binds_the_remaining_pods_once(cluster, namespace, intake):
    cluster.bulk.create([node(f"n{i}", cpu="4", memory="64Gi", pods="20") for i in range(30)])
    first = kit.start(cluster, f"--pod-intake={intake}")
    bodies = [pod(f"p{i}", namespace, scheduler=OURS, cpu="200m", memory="100Mi") for i in range(500)]
    filling = threading.Thread(target=cluster.bulk.create, args=(bodies[:450],))
    filling.start()
    wait_until(lambda: kit.bound(cluster, namespace) >= 100, 60, "some pods are bound")
    os.kill(first.process.pid, signal.SIGKILL)
    first.process.wait(10)
    filling.join()
    cluster.bulk.create(bodies[450:])
    before = {raw["metadata"]["uid"]: raw["spec"].get("nodeName") for raw in kit.pods(cluster, namespace)}
    assert 100 <= sum(1 for place in before.values() if place) < 500
    with kit.running(cluster, f"--pod-intake={intake}"):
        kit.wait_bound(cluster, namespace, 500)
    assert kit.over_committed(cluster) == {}
    after = {raw["metadata"]["uid"]: raw["spec"]["nodeName"] for raw in kit.pods(cluster, namespace)}
    assert {uid: after[uid] for uid, place in before.items() if place} == {u: p for u, p in before.items() if p}


@pytest.mark.parametrize("intake", ["kopf", "watch"])
def test_at_the_start_the_pod_with_the_highest_priority_is_scheduled_first(cluster, namespace, intake):
    cluster.client.add_priority_class("high", 1000)
    cluster.client.create(node("only", pods="1"))
    cluster.bulk.create([pod(f"low{i}", namespace, scheduler=OURS) for i in range(30)])
    cluster.client.create(pod("urgent", namespace, scheduler=OURS, priorityClassName="high"))
    with kit.running(cluster, f"--pod-intake={intake}") as operator:
        kit.wait_bound(cluster, namespace, 1, 20)
        failed = lambda: len({e["regarding"]["name"] for e in kit.events(cluster, namespace, "FailedScheduling")})
        wait_until(lambda: failed() == 30, 30, "the other pods have failed")
        attempts = lambda: operator.metric("scheduler_schedule_attempts_total", result="scheduled", profile=OURS)
        wait_until(lambda: attempts() == 1, 60, "one attempt has placed its pod")
    assert cluster.client.read(pod("urgent", namespace))["spec"]["nodeName"] == "only"
    assert kit.events(cluster, namespace, "Preempted") == []


def test_sigterm_completes_the_binding_cycles_in_progress(cluster, namespace):
    cluster.client.create(node("large", cpu="64", memory="256Gi", pods="500"))
    operator = kit.start(cluster)
    cluster.bulk.create([pod(f"p{i}", namespace, scheduler=OURS, cpu="10m", memory="10Mi") for i in range(200)])
    wait_until(lambda: kit.bound(cluster, namespace) >= 20, 30, "some pods are bound")
    operator.process.stop(30)
    assert operator.process.returncode == 0
    assert "Traceback" not in operator.log()
    count = kit.bound(cluster, namespace)
    assert len(kit.events(cluster, namespace, "Scheduled")) == count


def test_the_last_good_generation_stays_active_after_a_restart_of_the_operator(cluster, namespace):
    cluster.bulk.create([node(name) for name in ("a", "b", "c")])
    only_blue = {"podSelector": {"matchLabels": {"colour": "blue"}}}
    cluster.client.create(policy("by-name", {"type": "NodeName"}, match=only_blue))
    with kit.running(cluster):
        kit.wait_accepted(cluster, "by-name")
        cluster.client.patch(policy("by-name", {}), {"spec": {"match": None}})
        wait_until(
            lambda: accepted(cluster, "by-name")["observedGeneration"] == 2, 20, "the second generation is accepted"
        )
        bad = {"strategy": {"type": "Custom"}, "plugins": {"score": {"enabled": [{"name": "NoSuchPlugin"}]}}}
        cluster.client.patch(policy("by-name", {}), {"spec": bad})
        wait_until(lambda: accepted(cluster, "by-name")["status"] == "False", 20, "the invalid generation is reported")
    before = cluster.client.get(f"{kit.POLICIES}/by-name")
    assert before["status"]["lastAccepted"] == {
        "generation": 2,
        "spec": {
            "schedulerName": OURS,
            "precedence": 0,
            "byName": "Never",
            "mode": "Enforce",
            "onPluginFailure": "Reject",
            "packing": "None",
            "packingMayPreempt": False,
            "strategy": {"type": "NodeName"},
        },
    }
    with kit.running(cluster, name="restarted"):
        cluster.client.create(pod("mine", namespace, scheduler=OURS))
        kit.wait_bound(cluster, namespace, 1, 20)
        mine = cluster.client.read(pod("mine", namespace))
        assert mine["spec"]["nodeName"] == "a"
        assert (kit.decision(mine)["policy"], kit.decision(mine)["generation"]) == ("by-name", 2)
    after = cluster.client.get(f"{kit.POLICIES}/by-name")
    assert after["status"] == before["status"]
    assert "Generation 2 stays in force" in accepted(cluster, "by-name")["message"]
    assert kit.condition(after, "Active")["reason"] == "LastGoodGeneration"


def with_values(name, count):
    """A policy whose spec contains `count` values of 60 letters."""
    values = [f"v{i:059d}" for i in range(count)]
    parts = (values[i : i + 1_000] for i in range(0, count, 1_000))
    term = {"matchExpressions": [{"key": "pool", "operator": "NotIn", "values": part} for part in parts]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    config = [{"name": "NodeAffinity", "args": {"addedAffinity": affinity}}]
    return policy(
        name,
        {"type": "Default"},
        precedence=count,
        match={"podSelector": {"matchLabels": {"x": name}}},
        pluginConfig=config,
    )


@pytest.mark.parametrize("intake", ["kopf", "watch"], scope="module")
@pytest.mark.parametrize("name", ["another-name", "default-scheduler"])
def test_a_new_policy_adds_its_scheduler_name(cluster, namespace, intake, name):
    cluster.client.create(node("only"))
    with kit.reused(cluster, f"--pod-intake={intake}", "--allowed-scheduler-names=another-name,default-scheduler"):
        cluster.client.create(pod("early", namespace, scheduler=name))
        cluster.client.create(pod("ours", namespace, scheduler=OURS))
        kit.wait_bound(cluster, namespace, 1, 20)
        cluster.client.create(policy("more", {"type": "Default"}, schedulerName=name))
        kit.wait_bound(cluster, namespace, 2, 20)
        cluster.client.create(pod("late", namespace, scheduler=name))
        kit.wait_bound(cluster, namespace, 3, 20)


@pytest.mark.parametrize("intake", ["kopf", "watch"], scope="module")
def test_200_pods_over_50_nodes_are_bound_and_no_node_is_over_committed(cluster, namespace, intake):
    cluster.bulk.create([node(f"n{i}", cpu="4", memory="8Gi", pods="10") for i in range(50)])
    with kit.reused(cluster, f"--pod-intake={intake}"):
        cluster.bulk.create([pod(f"p{i}", namespace, scheduler=OURS, cpu="900m", memory="1Gi") for i in range(200)])
        kit.wait_bound(cluster, namespace, 200)
        wait_until(lambda: len(kit.events(cluster, namespace, "Scheduled")) == 200, 30, "every binding has an event")
    assert kit.over_committed(cluster) == {}
    found = kit.pods(cluster, namespace)
    assert [kit.foreign_marks(raw) for raw in found] == [[]] * 200
    assert all(kit.decision(raw)["node"] == raw["spec"]["nodeName"] for raw in found)
    notes = {event["regarding"]["name"]: event["note"] for event in kit.events(cluster, namespace, "Scheduled")}
    for raw in found:
        name, place = raw["metadata"]["name"], raw["spec"]["nodeName"]
        assert notes[name] == f"Successfully assigned {namespace}/{name} to {place}"


def test_pods_of_other_schedulers_use_up_resources(cluster, namespace):
    cluster.client.create(node("full", cpu="4"))
    cluster.client.create(node("roomy", cpu="2"))
    cluster.client.create(pod("big", namespace, scheduler="other-scheduler", cpu="3500m", nodeName="full"))
    with kit.reused(cluster) as operator:
        cluster.client.create(pod("ours", namespace, scheduler=OURS, cpu="1"))
        kit.wait_bound(cluster, namespace, 2, 20)
        assert cluster.client.read(pod("ours", namespace))["spec"]["nodeName"] == "roomy"
        cluster.client.create(pod("later", namespace, scheduler="other-scheduler", cpu="800m", nodeName="roomy"))
        kit.wait_known(operator, 2, 3)
        cluster.client.create(pod("too-big", namespace, scheduler=OURS, cpu="600m"))
        unplaced = lambda: kit.condition(cluster.client.read(pod("too-big", namespace)))
        wait_until(lambda: unplaced().get("reason") == "Unschedulable", 20, "the pod is marked Unschedulable")
    assert kit.over_committed(cluster) == {}


@pytest.mark.parametrize("intake", ["kopf", "watch"], scope="module")
def test_an_unschedulable_pod_gets_a_reason_and_is_bound_once_it_fits(cluster, namespace, intake):
    cluster.client.create(node("small", cpu="1"))
    cluster.client.create(node("tainted", cpu="8", taints=[{"key": "gpu", "effect": "NoSchedule"}]))
    with kit.reused(cluster, f"--pod-intake={intake}"):
        cluster.client.create(pod("large", namespace, scheduler=OURS, cpu="2"))
        read = lambda: cluster.client.read(pod("large", namespace))
        wait_until(lambda: kit.condition(read()).get("status") == "False", 20, "the pod has a condition")
        found = kit.condition(read())
        text = (
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s). "
            "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
        )
        assert (found["reason"], found["message"]) == ("Unschedulable", text)
        assert found["observedGeneration"] == read()["metadata"]["generation"]
        assert found["lastTransitionTime"]
        wait_until(lambda: bool(kit.events(cluster, namespace, "FailedScheduling")), 20, "there is an event")
        (event,) = kit.events(cluster, namespace, "FailedScheduling")
        assert event["note"] == text
        assert (event["type"], event["action"], event["reportingController"]) == ("Warning", "Scheduling", OURS)
        assert event["regarding"]["uid"] == read()["metadata"]["uid"]
        cluster.client.create(node("large", cpu="4"))
        kit.wait_bound(cluster, namespace, 1, 20)
        assert kit.condition(read())["status"] == "True"


def test_a_policy_is_active_at_once_and_an_invalid_generation_keeps_the_last_good_one(cluster, namespace):
    cluster.bulk.create([node(name) for name in ("a", "b", "c")])
    with kit.reused(cluster):
        cluster.client.create(policy("by-name", {"type": "NodeName"}))
        kit.wait_accepted(cluster, "by-name")
        cluster.client.create(pod("first", namespace, scheduler=OURS))
        kit.wait_bound(cluster, namespace, 1, 20)
        first = cluster.client.read(pod("first", namespace))
        assert first["spec"]["nodeName"] == "a"
        assert (kit.decision(first)["policy"], kit.decision(first)["generation"]) == ("by-name", 1)

        bad = {"spec": {"strategy": {"type": "Custom"}, "plugins": {"score": {"enabled": [{"name": "NoSuchPlugin"}]}}}}
        cluster.client.patch(policy("by-name", {}), bad)
        wait_until(lambda: accepted(cluster, "by-name")["status"] == "False", 30, "the invalid generation is reported")
        found = accepted(cluster, "by-name")
        assert found["observedGeneration"] == 2
        assert "NoSuchPlugin" in found["message"]
        assert "Generation 1 stays in force" in found["message"]
        cluster.client.create(pod("second", namespace, scheduler=OURS))
        kit.wait_bound(cluster, namespace, 2, 20)
        second = cluster.client.read(pod("second", namespace))
        assert (second["spec"]["nodeName"], kit.decision(second)["generation"]) == ("a", 1)

        cluster.client.delete(policy("by-name", {}))
        cluster.client.create(pod("third", namespace, scheduler=OURS))
        kit.wait_bound(cluster, namespace, 3, 20)
        wait_until(
            lambda: cluster.client.raw("GET", f"{kit.POLICIES}/by-name")[0] == 404,
            30,
            "no finalizer delays the deletion",
        )
    assert kit.foreign_marks(second) == []


def test_a_large_policy_is_accepted_and_a_larger_one_refused_in_its_status(cluster):
    with kit.reused(cluster):
        for name, count in (("large", 2_000), ("larger", 14_000)):
            cluster.client.create(with_values(name, count))
            wait_until(lambda name=name: accepted(cluster, name), 60, f"policy {name} has a status")
        assert accepted(cluster, "large")["status"] == "True"
        assert "spec: too large: it consists of more than 3000 values" in accepted(cluster, "larger")["message"]


def test_a_pod_preempts_a_pod_of_lower_priority(cluster, namespace):
    cluster.client.create(node("only", cpu="2"))
    cluster.client.add_priority_class("high", 1000)
    with kit.reused(cluster):
        cluster.client.create(pod("low", namespace, scheduler=OURS, cpu="1500m", terminationGracePeriodSeconds=0))
        kit.wait_bound(cluster, namespace, 1, 20)
        low = cluster.client.read(pod("low", namespace))
        cluster.client.create(pod("high", namespace, scheduler=OURS, cpu="1500m", priorityClassName="high"))
        read = lambda: cluster.client.read(pod("high", namespace))
        wait_until(lambda: read()["spec"].get("nodeName") == "only", 30, "the preemptor is bound")
        wait_until(lambda: kit.events(cluster, namespace, "Preempted"), 30, "the victim has an event")
        (event,) = kit.events(cluster, namespace, "Preempted")
        assert event["note"] == f"Preempted by pod {read()['metadata']['uid']} on node only"
        assert event["regarding"]["uid"] == low["metadata"]["uid"]
        assert "related" not in event, "who may read the victim's events may not read the preemptor"
    assert [raw["metadata"]["name"] for raw in kit.pods(cluster, namespace)] == ["high"]
