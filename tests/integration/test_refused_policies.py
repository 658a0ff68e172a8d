"""Policies that the operator refuses, on the real API server: their pods wait, and nobody else's do."""

from __future__ import annotations

import pytest

from podwright.testing import node, pod, wait_until
from support.control_plane import operator_process as kit
from support.objects.builders import make_policy

OURS = "podwright"
UNKNOWN = {"strategy": {"type": "Custom"}, "plugins": {"score": {"enabled": [{"name": "NoSuchPlugin"}]}}}
STRICT = {"podSelector": {"matchLabels": {"tier": "strict"}}}
DEPTH = 5_000
"""More levels than the parser reads, and fewer than the API server refuses."""


@pytest.fixture
def cluster(installed, empty_cluster):
    yield empty_cluster
    empty_cluster.kubectl("delete", "schedulerpolicies", "--all")


def strict(name, namespace, scheduler=OURS):
    raw = pod(name, namespace, scheduler=scheduler)
    raw["metadata"]["labels"] = {"tier": "strict"}
    return raw


def failures(cluster, namespace, name):
    found = kit.events(cluster, namespace, "FailedScheduling")
    return [event for event in found if event["regarding"]["name"] == name]


@pytest.mark.parametrize("intake", ["kopf", "watch"])
def test_pods_of_refused_policies_wait_until_these_are_accepted_and_others_do_not(cluster, namespace, intake):
    cluster.client.create(node("a"))
    cluster.client.create(make_policy("strict", match=STRICT, **UNKNOWN))
    cluster.client.create(make_policy("named", schedulerName="team-ml", **UNKNOWN))
    cluster.bulk.create(
        [
            strict("waits", namespace),
            pod("named", namespace, scheduler="team-ml"),
            pod("free", namespace, scheduler=OURS),
        ]
    )

    def read(name):
        return cluster.client.read(pod(name, namespace))

    with kit.running(cluster, f"--pod-intake={intake}"):
        kit.wait_bound(cluster, namespace, 1)
        assert read("free")["spec"]["nodeName"] == "a"
        for name, of in (("waits", "strict"), ("named", "named")):
            wait_until(lambda name=name: failures(cluster, namespace, name), 60, f"pod {name} has an event")
            (event,) = failures(cluster, namespace, name)
            assert event["note"].startswith(
                f"the pod waits because policy {of}, generation 1, was not accepted: spec.plugins.score"
            )
            assert event["metadata"]["annotations"] == {"podwright.dev/policy": f"{of}@1"}
            wait_until(lambda name=name: kit.condition(read(name)).get("reason"), 20, f"pod {name} has a condition")
            condition = kit.condition(read(name))
            assert (condition["status"], condition["reason"], condition["message"]) == (
                "False",
                "SchedulerError",
                event["note"],
            )
        active = lambda: kit.condition(cluster.client.get(f"{kit.POLICIES}/strict"), "Active").get("message", "")
        told = "The pods that it would decide about wait."
        wait_until(lambda: told in active(), 30, "the status says that its pods wait")
        cluster.client.patch(make_policy("strict"), {"spec": {"strategy": {"type": "Random"}, "plugins": None}})
        kit.wait_bound(cluster, namespace, 2, 20)
        assert kit.decision(read("waits"))["policy"] == "strict"
        cluster.client.patch(make_policy("named"), {"spec": {"strategy": {"type": "Random"}, "plugins": None}})
        kit.wait_bound(cluster, namespace, 3, 20)


def test_the_policy_of_a_series_of_events_is_that_of_its_last_attempt(cluster, namespace):
    cluster.client.create(node("a", cpu="1"))
    cluster.client.create(make_policy("strict", match=STRICT, strategy={"type": "Random"}))
    raw = strict("large", namespace)
    raw["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    with kit.reused(cluster):
        kit.wait_accepted(cluster, "strict")
        cluster.client.create(raw)
        wait_until(lambda: failures(cluster, namespace, "large"), 20, "the pod has an event")
        cluster.client.patch(make_policy("strict"), {"spec": {"precedence": 1}})
        wait_until(lambda: failures(cluster, namespace, "large")[0].get("series"), 30, "the second attempt is counted")
        (event,) = failures(cluster, namespace, "large")
        assert event["series"]["count"] == 2
        assert event["metadata"]["annotations"] == {"podwright.dev/policy": "strict@2"}


def nested(inner: str) -> str:
    return '{"a":' * DEPTH + inner + "}" * DEPTH


@pytest.mark.parametrize("intake", ["kopf", "watch"])
@pytest.mark.parametrize("when", ["before the start", "later"])
def test_a_deeply_nested_policy_stops_neither_other_policies_nor_pods(cluster, namespace, intake, when):
    deep = (
        '{"apiVersion": "podwright.dev/v1alpha1", "kind": "SchedulerPolicy", "metadata": {"name": "deep"}, "spec": '
        f'{{"match": {{"podSelector": {{"matchLabels": {{"x": "y"}}}}}}, "pluginConfig": [{{"name": "NodeAffinity", "args": {nested("1")}}}]}}}}'
    )

    def create_deep():
        cluster.kubectl("create", "--raw", kit.POLICIES, "-f", "-", stdin=deep)

    cluster.client.create(node("a"))
    if when == "before the start":
        create_deep()
    with kit.running(cluster, f"--pod-intake={intake}"):
        if when == "later":
            create_deep()
        cluster.client.create(make_policy("other", strategy={"type": "NodeName"}))
        for name in ("deep", "other"):
            wait_until(
                lambda name=name: b'"Accepted"' in cluster.client.raw("GET", f"{kit.POLICIES}/{name}")[1],
                30,
                f"policy {name} has a status",
            )
        cluster.client.create(pod("free", namespace, scheduler=OURS))
        kit.wait_bound(cluster, namespace, 1, 20)
        columns = "custom-columns=M:.status.conditions[0].message"
        shown = cluster.kubectl("get", "schedulerpolicies", "deep", "--no-headers", "-o", columns)
        assert "nested too deeply: the maximum is 32 levels" in shown


def test_a_list_as_a_key_and_a_refused_change_stop_no_other_policy(cluster, namespace):
    keys = {"filters": [{"name": "keys", "expression": "{[1]: 1}.size() == 1", "message": "no"}]}
    cluster.client.create(node("a"))
    with kit.reused(cluster):
        cluster.client.create(make_policy("keys", rules=keys))
        cluster.client.create(make_policy("unknown", match=STRICT, **UNKNOWN))
        cluster.client.create(make_policy("other", match=STRICT, precedence=1))
        cluster.bulk.create([pod("free", namespace, scheduler=OURS), strict("strict", namespace)])
        kit.wait_bound(cluster, namespace, 2)
        wait_until(lambda: kit.events(cluster, "default", "PolicyNotAccepted"), 20, "the refused policy has an event")
        (event,) = kit.events(cluster, "default", "PolicyNotAccepted")
        assert (event["regarding"]["kind"], event["regarding"]["name"]) == ("SchedulerPolicy", "unknown")
        assert event["note"].startswith("spec.plugins.score.enabled[0].name: plugin 'NoSuchPlugin' does not exist")
