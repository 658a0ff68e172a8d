"""manifests/examples/extender: what its Deployments run, as their service accounts, with the certificates of its
script.
"""

import json
import os
import ssl
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
import yaml

from podwright.testing import node, pod, wait_until
from podwright.testing.processes import free_port
from support.control_plane import operator_process as kit

FOLDER = kit.CHECKOUT / "manifests" / "examples" / "extender"
PLAIN = FOLDER.parent / "extender-plain"
NAMESPACE = "scheduler-extender"
SERVICE = f"podwright-extender.{NAMESPACE}.svc"


def objects(name):
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


@pytest.fixture
def installed(empty_cluster, binaries, tmp_path):
    """The cluster with the example, and the folder with its certificates."""
    kubectl = tmp_path / "bin" / "kubectl"
    kubectl.parent.mkdir()
    kubectl.symlink_to(binaries.path("kubectl"))
    environ = {
        **os.environ,
        "PATH": f"{kubectl.parent}:{os.environ['PATH']}",
        "KUBECONFIG": str(empty_cluster.kubeconfig),
        "HOME": str(tmp_path),
    }
    for _ in range(2):  # it can be repeated
        subprocess.run([FOLDER / "certificates", tmp_path / "issued"], env=environ, check=True, capture_output=True)
    empty_cluster.apply(FOLDER)
    wait_until(lambda: empty_cluster.client.raw("GET", kit.POLICIES)[0] == 200, 30, "the API server serves policies")
    empty_cluster.apply(FOLDER / "policy.yaml")
    return empty_cluster, tmp_path / "issued"


def arguments(issued, port, metrics_port):
    """The server's, with these ports and the folder in place of the Secret."""
    (deployment,) = (each for each in objects("server.yaml") if each["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["python", "-m", "podwright"]
    replaced = {
        "--address=:8888": f"--address=127.0.0.1:{port}",
        "--secure-port=10259": f"--secure-port={metrics_port}",
        "--tls-cert-file=/certificates/tls.crt": f"--tls-cert-file={issued}/server.crt",
        "--tls-private-key-file=/certificates/tls.key": f"--tls-private-key-file={issued}/server.key",
        "--client-ca-file=/certificates/ca.crt": f"--client-ca-file={issued}/ca.crt",
    }
    assert replaced.keys() <= set(container["args"])
    return [replaced.get(each, each) for each in container["args"]]


def configuration(issued, port, kubeconfig):
    """kube-scheduler's, likewise."""
    (config_map,) = (each for each in objects("scheduler.yaml") if each["kind"] == "ConfigMap")
    found = yaml.safe_load(config_map["data"]["config.yaml"])
    (extender,) = found["extenders"]
    (policy,) = objects("policy.yaml")
    path = f"/policies/{policy['metadata']['name']}"
    assert extender["urlPrefix"] == f"https://{SERVICE}:8888{path}"
    extender["urlPrefix"] = f"https://127.0.0.1:{port}{path}"
    extender["tlsConfig"] = {
        "serverName": SERVICE,
        "caFile": f"{issued}/ca.crt",
        "certFile": f"{issued}/client.crt",
        "keyFile": f"{issued}/client.key",
    }
    return {**found, "clientConnection": {"kubeconfig": str(kubeconfig)}}


def status(extender, issued, path, certificate=None):
    """Of a POST over HTTPS, with or without this client certificate; 0 if TLS refuses it."""
    context = ssl.create_default_context(cafile=issued / "ca.crt")
    context.check_hostname = False
    if certificate:
        context.load_cert_chain(issued / f"{certificate}.crt", issued / f"{certificate}.key")
    request = urllib.request.Request(
        f"https://127.0.0.1:{extender.port}{path}", b"{}", {"Content-Type": "application/json"}, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=60, context=context) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def metrics_status(issued, port, token):
    """Of a GET of the metrics with this token."""
    context = ssl.create_default_context(cafile=issued / "ca.crt")
    context.check_hostname = False
    request = urllib.request.Request(f"https://127.0.0.1:{port}/metrics", headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=60, context=context) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code


def token_of(kubeconfig):
    (user,) = yaml.safe_load(kubeconfig.read_text())["users"]
    return user["user"]["token"]


def test_the_plain_service_needs_no_certificates_and_cannot_bind(empty_cluster, namespace):
    cluster = empty_cluster
    cluster.apply(PLAIN)
    wait_until(lambda: cluster.client.raw("GET", kit.POLICIES)[0] == 200, 30, "the API server serves policies")
    cluster.apply(FOLDER / "policy.yaml")
    cluster.bulk.create([node(name, cpu="4", memory="8Gi") for name in ("node-a", "node-b", "node-c")])
    taken = pod("there", namespace=namespace, cpu="1", memory="2Gi")
    taken["spec"]["nodeName"] = "node-b"
    cluster.client.create(taken)

    built = {
        (raw["kind"], raw["metadata"]["name"]): raw
        for raw in yaml.safe_load_all(cluster.kubectl("kustomize", str(PLAIN)))
    }
    template = built["Deployment", "podwright-extender"]["spec"]["template"]["spec"]
    assert "volumes" not in template
    port, metrics_port = free_port(), free_port()
    replaced = {
        "--address=:8888": f"--address=127.0.0.1:{port}",
        "--secure-port=10259": f"--secure-port={metrics_port}",
    }
    words = [replaced.get(each, each) for each in template["containers"][0]["args"]]
    kubeconfig = cluster.service_account_kubeconfig(NAMESPACE, "podwright-extender")
    environ = {"PODWRIGHT_KUBECONFIG": str(kubeconfig), "POD_NAMESPACE": NAMESPACE}
    process = cluster.start_process("plain-extender", [sys.executable, "-m", "podwright", *words], environ)
    extender = kit.Operator(process, port)
    kit.wait_ready(extender)
    settings = yaml.safe_load(built["ConfigMap", "extended-scheduler"]["data"]["config.yaml"])
    settings["extenders"][0]["urlPrefix"] = settings["extenders"][0]["urlPrefix"].replace(
        f"{SERVICE}:8888", f"127.0.0.1:{port}"
    )
    own = cluster.service_account_kubeconfig(NAMESPACE, "extended-scheduler")
    scheduler = cluster.start_scheduler(
        {**settings, "clientConnection": {"kubeconfig": str(own)}}, name="plain-scheduler"
    )
    try:
        asking = pod("asking", namespace=namespace, cpu="500m", memory="1Gi")
        asking["spec"]["schedulerName"] = "extended-scheduler"
        cluster.client.create(asking)
        kit.wait_bound(cluster, namespace, 2)
        assert {each["spec"]["nodeName"] for each in kit.pods(cluster, namespace)} == {"node-b"}
        other = cluster.client.create(pod("other", namespace=namespace))
        body = {"PodName": "other", "PodNamespace": namespace, "PodUID": other["metadata"]["uid"], "Node": "node-a"}
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/bind", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            assert "forbidden" in json.load(response)["Error"]
    finally:
        scheduler.stop()
        process.stop(20)


def test_no_pod_asks_for_the_scheduler_of_the_policy():
    (policy,) = objects("policy.yaml")
    (config_map,) = (each for each in objects("scheduler.yaml") if each["kind"] == "ConfigMap")
    profiles = yaml.safe_load(config_map["data"]["config.yaml"])["profiles"]
    assert policy["spec"]["schedulerName"] not in {each["schedulerName"] for each in profiles}


def test_the_example_fills_nodes_with_no_more_rights_than_it_needs(installed, namespace):
    cluster, issued = installed
    cluster.bulk.create([node(name, cpu="4", memory="8Gi") for name in ("node-a", "node-b", "node-c")])
    taken = pod("there", namespace=namespace, cpu="1", memory="2Gi")
    taken["spec"]["nodeName"] = "node-b"
    cluster.client.create(taken)

    port, metrics_port = free_port(), free_port()
    kubeconfig = cluster.service_account_kubeconfig(NAMESPACE, "podwright-extender")
    command = [sys.executable, "-m", "podwright", *arguments(issued, port, metrics_port)]
    process = cluster.start_process(
        "example-extender", command, {"PODWRIGHT_KUBECONFIG": str(kubeconfig), "POD_NAMESPACE": NAMESPACE}
    )
    extender = kit.Operator(process, port, scheme="https")
    kit.wait_ready(extender)
    scheduler = cluster.start_scheduler(
        configuration(issued, port, cluster.service_account_kubeconfig(NAMESPACE, "extended-scheduler")),
        name="extended-scheduler",
    )
    try:
        asking = [pod(f"pod-{number}", namespace=namespace, cpu="500m", memory="1Gi") for number in range(3)]
        for each in asking:
            each["spec"]["schedulerName"] = "extended-scheduler"
            cluster.client.create(each)
        kit.wait_bound(cluster, namespace, 4)
        assert {each["spec"]["nodeName"] for each in kit.pods(cluster, namespace)} == {"node-b"}
        assert status(extender, issued, "/bind", "client") == 200
        assert status(extender, issued, "/bind") == 401
        assert status(extender, issued, "/filter", "server") == 0
        assert extender.get("/metrics")[0] == 401
        cluster.kubectl("create", "serviceaccount", "prometheus", "--namespace", NAMESPACE)
        reader = ["--clusterrole=podwright-extender-metrics-reader", f"--serviceaccount={NAMESPACE}:prometheus"]
        cluster.kubectl("create", "clusterrolebinding", "prometheus", *reader)
        prometheus, other = (
            token_of(cluster.service_account_kubeconfig(NAMESPACE, name))
            for name in ("prometheus", "extended-scheduler")
        )
        wait_until(lambda: metrics_status(issued, metrics_port, prometheus) == 200, 30, "Prometheus may read metrics")
        assert metrics_status(issued, metrics_port, other) == 403
        for text in (extender.log(), scheduler.log.read_text()):
            assert "forbidden" not in text.lower()
        assert " is off" not in extender.log()
    finally:
        scheduler.stop()
        process.stop(20)
