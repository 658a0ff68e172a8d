"""Teams share a cluster by queues, on the real API server: limits, shares, reclaim, statuses, and who may use a
queue.
"""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from podwright.cli.main import main
from podwright.testing import ControlPlane, node, pod, wait_until
from support.control_plane import operator_process as kit
from support.gangs.pod_groups import LABEL, Case, install_crd, remove_groups
from support.objects.queues import queue

QUEUE = "/apis/podwright.dev/v1alpha1/schedulingqueues/{}"
OURS = "podwright"


class Teams:
    """A cluster with queues that name CPU, and pods of one CPU each."""

    def __init__(self, cluster: ControlPlane, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace

    def queue(self, name: str, **spec: object) -> None:
        raw = queue(name, **spec)
        del raw["metadata"]["uid"], raw["metadata"]["generation"]
        self.cluster.apply(raw)

    def pods(self, prefix: str, team: str, count: int, **options: object) -> None:
        labels = {"app": prefix} | ({"podwright.dev/queue": team} if team else {})
        if team:
            kit.wait_queue_known(self.cluster, team)
        self.cluster.bulk.create(
            pod(f"{prefix}-{i}", self.namespace, scheduler=OURS, cpu="1", labels=labels, **options)
            for i in range(count)
        )

    def keep(self, app: str) -> None:
        """Makes a PodDisruptionBudget that lets none of these pods be evicted."""
        budget = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "kept", "namespace": self.namespace},
            "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": app}}},
        }
        self.cluster.client.create(budget)

    def bound(self, prefix: str) -> int:
        return sum(
            each["metadata"]["name"].startswith(prefix) and bool(each["spec"].get("nodeName"))
            for each in kit.pods(self.cluster, self.namespace)
            if not each["metadata"].get("deletionTimestamp")
        )

    def wait_bound(self, prefix: str, count: int) -> None:
        wait_until(lambda: self.bound(prefix) == count, 60, f"{count} pods of {prefix} are bound")

    def status(self, name: str) -> dict[str, object]:
        return self.cluster.client.get(QUEUE.format(name)).get("status") or {}

    def wait_status(self, name: str, **expected: object) -> None:
        def says() -> bool:
            found = self.status(name)
            return all(found.get(key) == value for key, value in expected.items())

        wait_until(says, 60, f"the status of queue {name} says {expected}")


def podwright(command: str, teams: Teams, *arguments: str) -> str:
    """Returns the command's output about this cluster."""
    given = [command, *arguments, "--kubeconfig", str(teams.cluster.kubeconfig)]
    result = CliRunner().invoke(main, given, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def teams(cluster: ControlPlane, namespace: str) -> Teams:
    kit.wait_listed(cluster, "schedulingqueues")
    cluster.client.create(node("n0", cpu="8"))
    return Teams(cluster, namespace)


def test_a_queue_with_a_limit_says_what_it_has_and_what_its_pods_wait_for(teams):
    with kit.reused(teams.cluster, "--pod-intake=watch"):
        teams.queue("red", resources={"cpu": {"limit": 2, "guarantee": 1}})
        teams.pods("red", "red", 3)
        teams.wait_bound("red", 2)
        teams.wait_status("red", summary="cpu 2 of 2", pendingPods=1, borrowed={"cpu": "1"}, capacity={"cpu": "8"})
        message = "red holds 2 of 2 cpu"
        first = lambda: teams.status("red").get("firstWaiting", {}).get("message")
        wait_until(lambda: first() == message, 30, "the queue says what its first pod waits for")
        waiting = lambda: [
            kit.condition(each)
            for each in kit.pods(teams.cluster, teams.namespace)
            if message in kit.condition(each).get("message", "")
        ]
        wait_until(waiting, 30, "the pod says what it waits for")
        assert "cpu 2 of 2" in teams.cluster.kubectl("get", "squeue", "red")
        shown = podwright("queues", teams, "--resource", "cpu").splitlines()
        assert shown[1].split() == ["red", "Open", "1", "2", "2", "2", "1", "1", "1"]
        assert f"red: {teams.namespace}/red-" in shown[-1]
        explained = podwright("explain", teams, "squeue/red")
        assert "its queue red keeps it waiting: red holds 2 of 2 cpu" in explained
        assert "raise the limit of queue red by 1 cpu, from 2 to 3" in explained
        assert "1 pod would get a node" in podwright("simulate", teams, "--set", "queue/red/cpu/limit=3")
        teams.queue("red", resources={"cpu": {"limit": 3, "guarantee": 1}})
        teams.wait_bound("red", 3)
        teams.wait_status("red", summary="cpu 3 of 3", observedGeneration=2)


def test_flavors_are_used_in_their_order_bounded_and_noted(teams):
    for name in ("fast", "slow"):
        teams.cluster.client.create(node(f"n-{name}", cpu="4", labels={"model": name}))
    flavors = {name: {"name": name, "nodeSelector": {"model": name}} for name in ("fast", "slow", "missing")}

    def cpu(flavor: str, **quota: int) -> dict[str, object]:
        return {**flavors[flavor], "resources": {"cpu": quota}}

    with kit.reused(teams.cluster, "--pod-intake=watch"):
        teams.queue("red", resources={"cpu": {"limit": 6}}, flavors=[cpu("fast", guarantee=2, limit=3), cpu("slow")])
        teams.queue("blue", flavors=[cpu("slow", guarantee=3), cpu("missing", limit=1)])
        teams.pods("red", "red", 7)
        teams.wait_bound("red", 6)
        teams.wait_status("red", allocated={"cpu": "6", "cpu@fast": "3", "cpu@slow": "3"})
        decisions = [
            json.loads(each["metadata"]["annotations"]["podwright.dev/decision"])
            for each in kit.pods(teams.cluster, teams.namespace)
            if each["spec"].get("nodeName")
        ]
        assert sorted(each["flavors"] for each in decisions) == [["fast"]] * 3 + [["slow"]] * 3
        told = lambda: kit.condition({"status": teams.status("blue")}, "FlavorWithoutNodes").get("message", "")
        text = "spec.flavors[missing].nodeSelector: no node has the labels model=missing"
        wait_until(lambda: text in told(), 30, "the status says which flavor has no nodes")
        events = lambda: teams.cluster.kubectl("get", "events", "-A")
        wait_until(lambda: "FlavorWithoutNodes" in events(), 30, "there is an event about it")


def test_a_team_takes_back_its_share_within_disruption_budgets(teams):
    with kit.reused(teams.cluster, "--pod-intake=watch"):
        for name in ("red", "blue"):
            teams.queue(name, resources={"cpu": {"guarantee": 4}})
        teams.keep("red-kept")
        teams.pods("red-kept", "red", 2, terminationGracePeriodSeconds=0)
        teams.wait_bound("red-kept", 2)
        teams.pods("red-more", "red", 6, terminationGracePeriodSeconds=0)
        teams.wait_bound("red", 8)
        teams.pods("blue", "blue", 6)
        teams.wait_bound("blue", 4)
        assert (teams.bound("red-kept"), teams.bound("red-more")) == (2, 2)
        teams.wait_status("blue", allocated={"cpu": "4"}, pendingPods=2)
        assert kit.over_committed(teams.cluster) == {}


def test_a_drained_queue_loses_its_pods_within_disruption_budgets_and_starts_none(teams):
    with kit.reused(teams.cluster, "--pod-intake=watch"):
        teams.queue("red", resources={"cpu": {"guarantee": 4}})
        teams.queue("below", parent="red")
        teams.queue("blue")
        teams.keep("below-kept")
        for prefix, team, count in (("below-kept", "below", 1), ("below-more", "below", 2), ("blue", "blue", 1)):
            teams.pods(prefix, team, count, terminationGracePeriodSeconds=0)
            teams.wait_bound(prefix, count)
        for raw in kit.pods(teams.cluster, teams.namespace):  # budgets do not keep pods that are Pending
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": raw["metadata"]}
            teams.cluster.client.patch(body, {"status": {"phase": "Running"}}, "status")
        teams.queue("red", resources={"cpu": {"guarantee": 4}}, state="Drain")
        teams.wait_bound("below-more", 0)
        teams.pods("below-late", "below", 1)
        waits = lambda: "queue red is in state Drain" in str(kit.pods(teams.cluster, teams.namespace))
        wait_until(waits, 30, "the pod says what it waits for")
        assert [teams.bound(prefix) for prefix in ("below-kept", "below-late", "blue")] == [1, 0, 1]
        teams.queue("red", resources={"cpu": {"guarantee": 4}})
        teams.wait_bound("below-late", 1)
        assert teams.bound("below-kept") == 1


def test_a_queue_that_another_team_may_not_use_is_closed_to_its_pods(teams):
    with kit.reused(teams.cluster, "--pod-intake=watch"):
        teams.queue("red", namespaceSelector={"matchLabels": {"team": "red"}})
        teams.queue("orphan", parent="nowhere")
        teams.pods("stranger", "red", 1)
        teams.pods("plain", "", 1)
        teams.wait_bound("plain", 1)
        expected = f"namespace {teams.namespace} may not use queue red"

        def says() -> bool:
            found = [kit.condition(each).get("message", "") for each in kit.pods(teams.cluster, teams.namespace)]
            return any(expected in message for message in found)

        wait_until(says, 30, "the pod says that its namespace may not use the queue")
        wait_until(lambda: teams.status("orphan"), 30, "the queue without parent has a status")
        assert "queue 'nowhere' does not exist" in str(teams.status("orphan"))
        events = lambda: teams.cluster.kubectl("get", "events", "-A")
        wait_until(lambda: "QueueNotAccepted" in events(), 30, "there is an event about the queue without parent")
        teams.cluster.client.request("DELETE", QUEUE.format("red"))
        teams.cluster.client.request("DELETE", QUEUE.format("orphan"))
        teams.wait_bound("stranger", 1)


def test_who_may_read_only_a_namespace_sees_the_queue_that_it_uses(teams):
    cluster, namespace = teams.cluster, teams.namespace
    cluster.apply(kit.CHECKOUT / "manifests" / "policy-api" / "roles.yaml")
    login = cluster.service_account_kubeconfig(namespace, "tenant")
    # Without its controllers, the API server aggregates no roles.
    binding = ("rolebinding", "tenant", "--clusterrole=podwright-queue-viewer", f"--serviceaccount={namespace}:tenant")
    cluster.kubectl("create", *binding, "-n", namespace)
    kit.wait_listed(cluster, "queueviews")
    with kit.reused(cluster, "--pod-intake=watch"):
        teams.queue("red", resources={"cpu": {"limit": 2, "guarantee": 1}})
        cluster.kubectl("label", "namespace", namespace, "podwright.dev/queue=red")
        views = f"{kit.GROUP}/namespaces/{namespace}/queueviews"
        wait_until(lambda: cluster.client.items(views), 30, "the operator knows whose queue the namespace uses")
        teams.pods("red", "", 3)
        teams.wait_bound("red", 2)
        shown = lambda: cluster.kubectl("get", "qview", "-n", namespace, "--no-headers", kubeconfig=login)
        wait_until(lambda: "cpu 2 of 2" in shown() and f"{namespace}/red-" in shown(), 60, "the view has a status")
        given = ["queues", "--kubeconfig", str(login)]
        result = CliRunner().invoke(main, [*given, "-n", namespace])
        assert result.output.splitlines()[1].split() == ["red", "Open", "1", "2", "2", "2", "1", "1", "1"]
        assert "red holds 2 of 2 cpu" in result.output
        refused = CliRunner().invoke(main, given)
        assert (refused.exit_code, "With -n NAMESPACE" in refused.output) == (1, True)
        teams.queue("red", namespaceSelector={"matchLabels": {"team": "red"}})
        wait_until(lambda: "red" not in shown(), 30, "the view goes with the right to use the queue")


def test_room_is_held_for_the_pods_of_a_reservation_also_after_a_restart(teams):
    reservation = {
        "apiVersion": "podwright.dev/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": "held"},
        "spec": {
            "namespace": teams.namespace,
            "podSelector": {"matchLabels": {"app": "ours"}},
            "slots": [{"node": "n0", "requests": {"cpu": 1}, "count": 3}],
        },
    }
    kit.wait_listed(teams.cluster, "reservations")
    teams.cluster.apply(reservation)
    try:
        with kit.running(teams.cluster, "--pod-intake=watch"):
            teams.pods("plain", "", 8)
            teams.wait_bound("plain", 5)
        with kit.reused(teams.cluster, "--pod-intake=watch"):
            teams.pods("ours", "", 2)
            teams.wait_bound("ours", 2)
            assert teams.bound("plain") == 5
            says = lambda: teams.cluster.kubectl("get", "resv", "held").split()
            wait_until(lambda: says()[-5:-2] == ["Held", "1", "2"], 30, "kubectl shows what is free and taken")
            teams.cluster.kubectl("delete", "resv", "held")
            teams.wait_bound("plain", 6)
    finally:
        teams.cluster.kubectl("delete", "resv", "--all")
    assert kit.over_committed(teams.cluster) == {}


def test_room_that_a_gang_gathers_is_held_for_it_after_a_kill(teams):
    cluster = teams.cluster
    install_crd(cluster)
    kit.wait_listed(cluster, "reservations")
    held = lambda: cluster.client.items("/apis/podwright.dev/v1alpha1/reservations")
    teams.queue("red", gatherAfter="1s", resources={"cpu": {}})
    try:
        killed = kit.start(cluster, "--pod-intake=watch")
        teams.pods("old", "red", 8, activeDeadlineSeconds=3600, terminationGracePeriodSeconds=0)
        teams.wait_bound("old", 8)
        group = Case(cluster, teams.namespace).custom_group("gang", 2)
        members = [
            pod(
                f"gang-{i}",
                teams.namespace,
                scheduler=OURS,
                cpu="2",
                labels={LABEL: "gang", "podwright.dev/queue": "red"},
            )
            for i in range(2)
        ]
        cluster.bulk.create(members)
        wait_until(held, 60, "room is held for the gang")
        (reservation,) = held()
        claimant = {"apiGroup": "scheduling.x-k8s.io", "name": "gang", "uid": group["metadata"]["uid"]}
        assert reservation["spec"]["podGroup"] == claimant
        (slot,) = reservation["spec"]["slots"]
        assert (slot["node"], slot["requests"]["cpu"], slot["count"]) == ("n0", "2", 2)
        killed.process.kill()
        teams.pods("small", "", 4)
        with kit.reused(cluster, "--pod-intake=watch"):
            cluster.client.delete(pod("old-0", teams.namespace))
            cluster.client.delete(pod("old-1", teams.namespace))
            status = lambda: held()[0].get("status", {})
            wait_until(lambda: status().get("free") == 2, 30, "the slots are counted")
            teams.wait_bound("old", 6)
            assert [each["metadata"]["uid"] for each in held()] == [reservation["metadata"]["uid"]]
            assert (teams.bound("small"), teams.bound("gang")) == (0, 0)
            for index in (2, 3):
                cluster.client.delete(pod(f"old-{index}", teams.namespace))
            teams.wait_bound("gang", 2)
            assert teams.bound("small") == 0
            wait_until(lambda: not held(), 30, "the reservation goes with the wait of the gang")
    finally:
        cluster.kubectl("delete", "resv", "--all")
        cluster.client.request("DELETE", QUEUE.format("red"))
        remove_groups(cluster, teams.namespace)
    assert kit.over_committed(cluster) == {}
