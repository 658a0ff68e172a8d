"""Queues of KAI and of Volcano as their users have them, on the real API server: limits, reclaim, statuses, and CRDs
that come and go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from click.testing import CliRunner

from podwright.cli.main import main
from podwright.kube.kinds import KAI_QUEUE, VOLCANO_QUEUE, Resource
from podwright.testing import ControlPlane, node, pod, wait_until
from support.control_plane import operator_process as kit
from support.objects.builders import make_policy
from support.queues.other_crds import install, uninstall

GPU = "nvidia.com/gpu"
ALL = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
Json = dict[str, Any]


class Teams:
    """A cluster with one node of 8 GPUs, queues of one API, and pods with one GPU."""

    def __init__(self, cluster: ControlPlane, namespace: str, resource: Resource, scheduler: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.resource = resource
        self.scheduler = scheduler
        install(cluster, resource)
        raw = node("n0", cpu="64")
        for part in ("capacity", "allocatable"):
            raw["status"][part] = {**raw["status"][part], GPU: "8"}
        cluster.client.create(raw)
        cluster.apply(make_policy("served", schedulerName=scheduler))

    def queue(self, name: str, **spec: Any) -> None:
        version = f"{self.resource.group}/{self.resource.version}"
        self.cluster.apply({"apiVersion": version, "kind": "Queue", "metadata": {"name": name}, "spec": spec})
        kit.wait_queue_known(self.cluster, name)

    def pods(self, prefix: str, count: int, metadata: Mapping[str, Any], **options: Any) -> None:
        found = []
        for i in range(count):
            raw = pod(
                f"{prefix}-{i}", self.namespace, scheduler=self.scheduler, terminationGracePeriodSeconds=0, **options
            )
            raw["spec"]["containers"][0]["resources"]["limits"] = {GPU: "1"}
            raw["spec"]["containers"][0]["resources"]["requests"][GPU] = "1"
            found.append({**raw, "metadata": {**raw["metadata"], **metadata}})
        self.cluster.bulk.create(found)

    def bound(self, prefix: str) -> int:
        return sum(
            each["metadata"]["name"].startswith(prefix) and bool(each["spec"].get("nodeName"))
            for each in kit.pods(self.cluster, self.namespace)
            if not each["metadata"].get("deletionTimestamp")
        )

    def wait_bound(self, prefix: str, count: int) -> None:
        wait_until(lambda: self.bound(prefix) == count, 60, f"{count} pods of {prefix} are bound")

    def wait_message(self, text: str) -> None:
        def says() -> bool:
            found = [kit.condition(each).get("message", "") for each in kit.pods(self.cluster, self.namespace)]
            return any(text in message for message in found)

        wait_until(says, 60, f"a pod says {text!r}")

    def status(self, name: str) -> Json:
        return self.cluster.client.get(self.resource.path(name)).get("status") or {}

    def wait_status(self, name: str, **expected: Any) -> None:
        def says() -> bool:
            found = self.status(name)
            return all(found.get(key) == value for key, value in expected.items())

        wait_until(says, 60, f"the status of queue {name} says {expected}")


@pytest.fixture
def kai(cluster: ControlPlane, namespace: str) -> Iterator[Teams]:
    yield Teams(cluster, namespace, KAI_QUEUE, "kai-scheduler")
    uninstall(cluster, KAI_QUEUE)


@pytest.fixture
def volcano(cluster: ControlPlane, namespace: str) -> Iterator[Teams]:
    yield Teams(cluster, namespace, VOLCANO_QUEUE, "volcano")
    uninstall(cluster, VOLCANO_QUEUE)


def in_queue(name: str) -> Json:
    return {"labels": {"kai.scheduler/queue": name}}


def gpus(quota: float, limit: float = -1, weight: float = 1) -> Json:
    return {"cpu": ALL, "memory": ALL, "gpu": {"quota": quota, "limit": limit, "overQuotaWeight": weight}}


def test_teams_of_kai_have_their_limits_and_take_their_quota_back(kai):
    with kit.reused(kai.cluster, "--pod-intake=watch"):
        kai.queue("research", displayName="Research", resources=gpus(8))
        kai.queue("vision", parentQueue="research", priority=100, resources=gpus(4, limit=6))
        kai.queue("audio", parentQueue="research", resources=gpus(4))
        kai.pods("vision", 7, in_queue("vision"))
        kai.wait_bound("vision", 6)
        kai.wait_message("vision holds 6 of 6 nvidia.com/gpu")
        kai.pods("audio", 4, in_queue("audio"))
        kai.wait_bound("audio", 4)
        assert kai.bound("vision") == 4
        kai.wait_status("research", childQueues=["audio", "vision"])
        audio = {"cpu": "400m", "memory": "2000Mi", GPU: "4"}
        kai.wait_status("audio", allocated=audio, requested=audio)
        kai.wait_status("research", allocated={"cpu": "800m", "memory": "4000Mi", GPU: "8"})
        assert kit.condition({"status": kai.status("audio")}, "OverQuota")["status"] == "False"
        asked = ["queues", "--kubeconfig", str(kai.cluster.kubeconfig), "--resource", GPU]
        shown = CliRunner().invoke(main, asked).output
        assert [*"├", "audio", "Open", *"4--4---"] in [line.split() for line in shown.splitlines()]
        assert kit.over_committed(kai.cluster) == {}


def test_the_queues_of_kai_may_go_and_come_back_while_the_operator_runs(kai):
    with kit.reused(kai.cluster, "--pod-intake=watch"):
        kai.queue("team", resources=gpus(0, limit=1))
        wait_until(lambda: kai.status("team"), 60, "the queue has a status")
        kai.pods("early", 2, in_queue("team"))
        kai.wait_bound("early", 1)
        kai.wait_message("team holds 1 of 1 nvidia.com/gpu")
        uninstall(kai.cluster, KAI_QUEUE)
        kai.wait_bound("early", 2)
        install(kai.cluster, KAI_QUEUE)
        kai.queue("team", resources=gpus(0, limit=2))
        wait_until(lambda: kai.status("team").get("allocated", {}).get(GPU) == "2", 60, "the queue has a status again")
        kai.pods("late", 1, in_queue("team"))
        kai.wait_message("team holds 2 of 2 nvidia.com/gpu")
        assert kai.bound("late") == 0


def test_the_quickstart_of_kai_and_a_queue_of_ours_with_one_name(kai):
    with kit.reused(kai.cluster, "--pod-intake=watch"):
        kai.queue("default-parent-queue", resources=gpus(0))
        kai.queue("default-queue", parentQueue="default-parent-queue", resources=gpus(0))
        kai.pods("gpu-pod", 1, in_queue("default-queue"))
        kai.wait_bound("gpu-pod", 1)
        ours = {
            "apiVersion": "podwright.dev/v1alpha1",
            "kind": "SchedulingQueue",
            "metadata": {"name": "default-queue"},
        }
        kit.wait_listed(kai.cluster, "schedulingqueues")
        kai.cluster.apply({**ours, "spec": {"state": "Hold"}})
        says = lambda: kit.condition({"status": kai.status("default-queue")}, "Accepted").get("status")
        wait_until(lambda: says() == "False", 60, "KAI's queue says that it does not count")
        kai.pods("held", 1, in_queue("default-queue"))
        kai.wait_message("queue default-queue is in state Hold")
        kai.cluster.client.request("DELETE", "/apis/podwright.dev/v1alpha1/schedulingqueues/default-queue")
        kai.wait_bound("held", 1)
        wait_until(lambda: says() == "True", 60, "KAI's queue counts again")


def test_pods_of_kai_that_are_not_preemptible_stay_and_stay_within_the_quota(kai):
    for name, value in (("train", 50), ("build", 100)):
        priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        kai.cluster.apply({**priority, "value": value})
    with kit.reused(kai.cluster, "--pod-intake=watch"):
        kai.queue("vision", resources=gpus(2))
        kai.queue("audio", resources=gpus(6))
        kai.pods("build", 3, in_queue("vision"), priorityClassName="build")
        kai.wait_bound("build", 2)
        kai.wait_message("vision is guaranteed 2 nvidia.com/gpu, of which pods that are never evicted hold 2")
        kai.pods("train", 6, in_queue("vision"), priorityClassName="train")
        kai.wait_bound("train", 6)
        kai.pods("audio", 6, in_queue("audio"), priorityClassName="train")
        kai.wait_bound("audio", 6)
        assert (kai.bound("build"), kai.bound("train")) == (2, 0)
        held = {"cpu": "200m", "memory": "1000Mi", GPU: "2"}
        kai.wait_status("vision", allocated=held, allocatedNonPreemptible=held)


def test_queues_of_volcano_bound_pods_by_annotation_and_lend_what_they_deserve(volcano):
    def pods(queue: str, count: int) -> None:
        volcano.pods(queue, count, {"annotations": {"scheduling.volcano.sh/queue-name": queue}})

    with kit.reused(volcano.cluster, "--pod-intake=watch"):
        volcano.queue("red", deserved={GPU: 4}, guarantee={"resource": {GPU: 1}}, capability={GPU: 6, "cpu": 60})
        volcano.queue("blue", deserved={GPU: 4}, parent="root", reclaimable=True)
        pods("red", 7)
        volcano.wait_bound("red", 6)
        volcano.wait_message("red holds 6 of 6 nvidia.com/gpu")
        pods("blue", 4)
        volcano.wait_bound("blue", 4)
        assert volcano.bound("red") == 4
        volcano.wait_status("blue", state="Open", allocated={"cpu": "400m", "memory": "2000Mi", GPU: "4"})
