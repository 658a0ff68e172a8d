"""Podwright as a scheduler with extenders, on the real control plane."""

import pytest
import yaml

from podwright.testing import node, pod, wait_until
from support.configuration.second_schedulers import WITH_EXTENDER
from support.control_plane import operator_process as kit
from support.extender.process import start_extender
from support.extender.server import Reply, bind, keep, node_names, serving

GROUP = "kubescheduler.config.k8s.io"


@pytest.fixture
def cluster(installed, empty_cluster):
    empty_cluster.bulk.create([node(name, cpu="4", memory="8Gi") for name in ("node-a", "node-b", "node-c")])
    return empty_cluster


def configuration(tmp_path, *extenders):
    file = tmp_path / "scheduler.yaml"
    content = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": "extended"}],
        "extenders": list(extenders),
    }
    file.write_text(yaml.safe_dump(content))
    return f"--config={file}"


def condition(cluster, namespace, name):
    raw = cluster.client.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
    return next((c for c in raw.get("status", {}).get("conditions", ()) if c["type"] == "PodScheduled"), None)


def test_the_configuration_of_a_scheduler_with_an_extender_works_as_it_is(cluster, namespace, tmp_path):
    """A plain extender: it keeps all nodes, scores each by its place in the list, and binds. Only a proxy resolves its
    name here.
    """
    file = tmp_path / "scheduler.yaml"
    file.write_text(WITH_EXTENDER)

    def answer(verb, args):
        if verb == "filter":
            return Reply({"Nodes": args["Nodes"], "NodeNames": None, "FailedNodes": {}, "Error": ""})
        if verb == "prioritize":
            return Reply([{"Host": name, "Score": place} for place, name in enumerate(node_names(args))])
        bind(cluster.client, args)
        return Reply({"Error": ""})

    with serving(answer) as extender:
        environ = {"HTTP_PROXY": extender.url, "NO_PROXY": "127.0.0.1"}
        with kit.running(cluster, f"--config={file}", environ=environ):
            for number in range(3):
                raw = pod(f"web-{number}", namespace=namespace, scheduler="scheduler-with-extender", cpu="100m")
                cluster.client.create(raw)
            kit.wait_bound(cluster, namespace, 3)
    assert {verb for verb, _ in extender.requests} == {"filter", "prioritize", "bind"}
    assert {args["PodName"] for args in extender.of("bind")} == {"web-0", "web-1", "web-2"}


def test_podwright_can_be_the_extender_of_another_podwright(cluster, namespace, tmp_path):
    policy = {
        "apiVersion": "podwright.dev/v1alpha1",
        "kind": "SchedulerPolicy",
        "metadata": {"name": "by-name"},
        # Only a scheduler asks the extenders of a policy, so to the extender it does not matter that this one is
        # defined elsewhere.
        "spec": {"schedulerName": "by-name", "strategy": {"type": "NodeName"}, "extenders": ["defined-elsewhere"]},
    }
    cluster.client.create(policy)
    extender = start_extender(cluster)
    settings = {
        "urlPrefix": f"http://127.0.0.1:{extender.port}/policies/by-name",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "bindVerb": "bind",
        "weight": 100,
        "nodeCacheCapable": True,
    }
    try:
        with kit.running(cluster, configuration(tmp_path, settings)):
            for number in range(3):
                cluster.client.create(pod(f"web-{number}", namespace=namespace, scheduler="extended"))
            kit.wait_bound(cluster, namespace, 3)
    finally:
        extender.process.stop(20)
    assert {raw["spec"]["nodeName"] for raw in kit.pods(cluster, namespace)} == {"node-a"}


def test_a_policy_sends_its_pods_to_the_extender_that_it_names(cluster, namespace, tmp_path):
    with serving(lambda _, args: keep(args, ["node-c"])) as extender:
        file = tmp_path / "extenders.yaml"
        settings = {"name": "only-c", "urlPrefix": extender.url, "filterVerb": "filter", "nodeCacheCapable": True}
        file.write_text(yaml.safe_dump({"extenders": [settings]}))
        cluster.apply(
            {
                "apiVersion": "podwright.dev/v1alpha1",
                "kind": "SchedulerPolicy",
                "metadata": {"name": "extended"},
                "spec": {"match": {"podSelector": {"matchLabels": {"tier": "extended"}}}, "extenders": ["only-c"]},
            }
        )
        with kit.running(cluster, f"--extenders={file}"):
            for number in range(3):
                raw = pod(f"web-{number}", namespace, scheduler="podwright", labels={"tier": "extended"})
                cluster.client.create(raw)
            cluster.client.create(pod("plain", namespace, scheduler="podwright"))
            kit.wait_bound(cluster, namespace, 4)
    bound = {raw["metadata"]["name"]: raw["spec"]["nodeName"] for raw in kit.pods(cluster, namespace)}
    assert {bound[f"web-{number}"] for number in range(3)} == {"node-c"}
    assert {args["Pod"]["metadata"]["name"] for args in extender.of("filter")} == {"web-0", "web-1", "web-2"}


@pytest.mark.parametrize("cache_capable", [True, False], ids=["node names", "nodes"])
def test_an_extender_filters_and_scores_nodes(cluster, namespace, tmp_path, cache_capable):
    def answer(verb, args):
        if verb == "prioritize":
            return Reply([{"Host": name, "Score": 10 * (name == "node-b")} for name in node_names(args)])
        if args["Pod"]["metadata"]["name"] == "nowhere":
            return keep(args, [], dict.fromkeys(node_names(args), "has no such device"))
        return keep(args, ["node-a", "node-b"])

    with serving(answer) as extender:
        settings = {
            "urlPrefix": extender.url,
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "weight": 100,
            "nodeCacheCapable": cache_capable,
        }
        with kit.running(cluster, configuration(tmp_path, settings), "--pod-intake=watch"):
            for number in range(4):
                cluster.client.create(pod(f"web-{number}", namespace=namespace, scheduler="extended", cpu="100m"))
            cluster.client.create(pod("nowhere", namespace=namespace, scheduler="extended", cpu="100m"))
            kit.wait_bound(cluster, namespace, 4)
            wait_until(
                lambda: condition(cluster, namespace, "nowhere") is not None,
                timeout=30,
                expected="a condition of pod nowhere",
            )
    bound = [raw["spec"].get("nodeName") for raw in kit.pods(cluster, namespace)]
    assert bound.count("node-b") == 4
    assert condition(cluster, namespace, "nowhere")["message"] == (
        "0/3 nodes are available: 3 has no such device. preemption: 0/3 nodes are available: "
        "3 No preemption victims found for incoming pod."
    )
