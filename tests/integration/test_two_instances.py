"""Two operators at the same time on the real API server: both say so. One after the other: neither does."""

from __future__ import annotations

from podwright.testing import node, pod, wait_until
from support.control_plane import operator_process as kit

OURS = "podwright"
WARNING = "Another instance of Podwright binds pods, too"
COUNTER = "podwright_other_instances_bindings_total"
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "podwright"}


def deployed(cluster, name):
    """The uid of a pod of the Deployment, as its controllers would create it. They do not run here."""
    client, namespace = cluster.client, kit.ACCOUNT[0]
    deployment = client.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/podwright")
    template = deployment["spec"]["template"]
    controller = {**DEPLOYMENT, "uid": deployment["metadata"]["uid"], "controller": True}
    for kind, spec in (
        ("ReplicaSet", {"selector": deployment["spec"]["selector"], "template": template}),
        ("Pod", {**template["spec"], "nodeName": "n0"}),
    ):
        version = "apps/v1" if kind == "ReplicaSet" else "v1"
        metadata = {"name": name, "namespace": namespace, "labels": template["metadata"]["labels"]}
        metadata["ownerReferences"] = [controller]
        created = client.create({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec})
        controller = {"apiVersion": version, "kind": kind, "name": name, "uid": created["metadata"]["uid"]}
        controller["controller"] = True
    return created["metadata"]["uid"]


def reports(cluster):
    return {
        (event["regarding"]["kind"], event["regarding"]["name"])
        for namespace in ("default", kit.ACCOUNT[0])
        for event in kit.events(cluster, namespace, "OtherInstance")
    }


def test_two_operators_at_the_same_time_say_so(cluster, namespace):
    kit.install(cluster)  # the empty cluster has no Deployment
    cluster.bulk.create([node(f"n{i}", pods="500") for i in range(5)])
    uid = deployed(cluster, "podwright-1")
    with (
        kit.running(cluster, name="first", environ={"PODWRIGHT_POD_UID": uid}) as first,
        kit.running(cluster, name="second") as second,
    ):
        # While one of them is suspended, the other binds, whichever is the faster one.
        for turn, waiting in enumerate((first, second)):
            waiting.process.pause()
            names = [f"p{turn}-{i}" for i in range(100)]
            cluster.bulk.create([pod(name, namespace, scheduler=OURS, cpu="1m", memory="1Mi") for name in names])
            kit.wait_bound(cluster, namespace, 100 * (turn + 1))
            waiting.process.resume()
        instances = {kit.decision(raw)["instance"] for raw in kit.pods(cluster, namespace)}
        assert len(instances) == 2
        for operator in (first, second):
            wait_until(lambda operator=operator: operator.metric(COUNTER) > 0, 30, "the other one is noticed")
        wait_until(lambda: len(reports(cluster)) >= 2, 30, "both have posted an event")
        for operator in (first, second):
            lines = [line for line in operator.log().splitlines() if WARNING in line]
            assert 1 <= len(lines) <= 3, "reported at 1, 10 and 100 pods"
            assert any(instance in lines[0] for instance in instances)
            status, text = operator.get("/readyz")
            assert status == 200
            assert text.startswith(f"ok\nnote: other-instances: {WARNING}")
    assert ("Deployment", "podwright") in reports(cluster)
    assert {kind for kind, _ in reports(cluster)} == {"Deployment", "Node"}


def test_an_operator_that_follows_another_one_does_not_complain_of_its_pods(cluster, namespace):
    cluster.bulk.create([node(f"n{i}", pods="500") for i in range(5)])
    with kit.running(cluster):
        cluster.bulk.create([pod(f"p{i}", namespace, scheduler=OURS, cpu="1m", memory="1Mi") for i in range(50)])
        kit.wait_bound(cluster, namespace, 50)
    with kit.running(cluster) as next_one:
        cluster.bulk.create([pod(f"q{i}", namespace, scheduler=OURS, cpu="1m", memory="1Mi") for i in range(50)])
        kit.wait_bound(cluster, namespace, 100)
        for number in range(10):
            cluster.client.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/p{number}")
        assert next_one.metric(COUNTER) == 0
        assert next_one.get("/readyz") == (200, "ok")
    assert WARNING not in next_one.log()
