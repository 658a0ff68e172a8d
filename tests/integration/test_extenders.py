"""Podwright as a scheduler with extenders, on the real control plane."""

import pytest
import yaml

from podwright.testing import node, pod, wait_until
from support.control_plane import operator_process as kit
from support.extender.server import Reply, keep, node_names, serving

GROUP = "kubescheduler.config.k8s.io"


@pytest.fixture
def cluster(empty_cluster):
    kit.install(empty_cluster)
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
                timeout=10,
                expected="a condition of pod nowhere",
            )
    bound = [raw["spec"].get("nodeName") for raw in kit.pods(cluster, namespace)]
    assert bound.count("node-b") == 4
    assert condition(cluster, namespace, "nowhere")["message"] == (
        "0/3 nodes are available: 3 has no such device. preemption: 0/3 nodes are available: "
        "3 No preemption victims found for incoming pod."
    )
