"""Signals of a real Prometheus and of metrics.k8s.io behind the real aggregator: they place pods, and when they fail,
nothing else does.
"""

from __future__ import annotations

import ssl
import urllib.request

import pytest
import yaml
from click.testing import CliRunner

from podwright.cli.main import main
from podwright.engine.records.decision_annotation import decision_of
from podwright.simulator.snapshot import read_snapshot
from podwright.testing import node, pod, wait_until
from podwright.testing.processes import free_port
from support.control_plane import operator_process as kit
from support.objects.builders import make_policy
from support.serve.certificates import Authority
from support.signals.stand_in import API, SERVICE, stand_in

OVERLAY = kit.BASE.parent / "overlays" / "signals"
OURS = "podwright"


@pytest.fixture(scope="module")
def authority():
    return Authority()


@pytest.fixture(scope="module")
def measuring(control_plane, authority, tmp_path_factory):
    """The source of node metrics, as an API of the API server, which the operator may read by
    manifests/overlays/signals.
    """
    kit.stay_installed(control_plane)
    for raw in yaml.safe_load_all(control_plane.kubectl("kustomize", str(OVERLAY))):
        if raw and raw["kind"].startswith("ClusterRole") and raw["metadata"]["name"] == "podwright-signals":
            control_plane.apply(raw)
    with stand_in(authority, tmp_path_factory.mktemp("stand-in")) as found:
        control_plane.apply(SERVICE)
        control_plane.apply(found.api_service())
        wait_until(lambda: control_plane.client.raw("GET", f"{API}/nodes")[0] == 200, 60, "metrics.k8s.io is served")
        yield found
        control_plane.kubectl("delete", "apiservice", "v1beta1.metrics.k8s.io")
        control_plane.kubectl("delete", "service", "-n", "kube-system", SERVICE["metadata"]["name"])


@pytest.fixture(scope="module")
def prometheus_url(control_plane, measuring, prometheus, authority, tmp_path_factory):
    """A Prometheus that scrapes the stand-in each second, and answers over HTTPS."""
    folder = tmp_path_factory.mktemp("prometheus")
    certificate, key = authority.server("localhost").write(folder, "server")
    config = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
        "scrape_configs": [
            {
                "job_name": "nodes",
                "scheme": "https",
                "tls_config": {"insecure_skip_verify": True},
                "static_configs": [{"targets": [f"127.0.0.1:{measuring.port}"]}],
            }
        ],
    }
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    web = {"tls_server_config": {"cert_file": str(certificate), "key_file": str(key)}}
    (folder / "web.yaml").write_text(yaml.safe_dump(web))
    url = f"https://127.0.0.1:{(port := free_port())}"
    command = [
        prometheus / "prometheus",
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.config.file={folder / 'web.yaml'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    process = control_plane.start_process("prometheus", command)
    context = ssl.create_default_context(cadata=authority.certificate)

    def ready():
        try:
            with urllib.request.urlopen(f"{url}/-/ready", context=context, timeout=30) as answer:
                return answer.status == 200
        except OSError:
            return False

    wait_until(ready, 60, "Prometheus is ready")
    yield url
    process.stop(30)


@pytest.fixture
def signals(prometheus_url, authority, tmp_path):
    """The file of --signals."""
    (tmp_path / "ca.crt").write_text(authority.certificate)
    quick = {"interval": "1s", "timeout": "6s"}
    query = {"url": prometheus_url, "query": "node_busy_percent", "caFile": str(tmp_path / "ca.crt")}
    found = [
        {"name": "used", "resource": "cpu", "default": 50, "staleness": "24s", "lag": "0s", "metricsAPI": {}, **quick},
        {"name": "busy", "default": 100, "staleness": "24s", "prometheus": query, **quick},
        {"name": "unheard", "prometheus": {**query, "caFile": "/nowhere/ca.crt"}, **quick},
    ]
    path = tmp_path / "signals.yaml"
    path.write_text(yaml.safe_dump({"signals": found}))
    return path


def policy(name, **spec):
    match = {"podSelector": {"matchLabels": {"by": name}}}
    return make_policy(name, **{"match": match, "precedence": 1, **spec})


RULE = {"name": "idle", "expression": "signals.busy < 50.0", "message": "node(s) were busy"}


@pytest.fixture
def cluster(measuring, empty_cluster):
    for name in ("a", "b", "c"):
        empty_cluster.client.create(node(name, cpu="10"))
    yield empty_cluster
    measuring.lie = None
    measuring.hanging.clear()
    empty_cluster.kubectl("delete", "schedulerpolicies", "--all")


def placed(cluster, namespace, name, by):
    raw = pod(name, namespace, scheduler=OURS, cpu="100m")
    raw["metadata"]["labels"] = {"by": by}
    cluster.client.create(raw)
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    wait_until(lambda: cluster.client.get(path)["spec"].get("nodeName"), 30, f"{name} is placed")
    return cluster.client.get(path)["spec"]["nodeName"]


def known(operator, signal, nodes=3):
    wait_until(lambda: operator.metric("podwright_signal_nodes", signal=signal) == nodes, 30, f"{signal} is known")


def test_measured_load_places_pods_and_a_source_that_fails_harms_nothing_else(
    cluster, namespace, measuring, signals, tmp_path
):
    measuring.cores = {"a": 9.0, "b": 1.0, "c": 6.0, "stranger": 1.0}
    with kit.running(cluster, f"--signals={signals}") as operator:
        cluster.apply(policy("load", strategy={"type": "LoadAware"}, signals=["used"]))
        cluster.apply(policy("rules", rules={"filters": [RULE]}, signals=["busy"]))
        cluster.apply(policy("unknown", signals=["nope"]))
        path = f"{kit.POLICIES}/unknown"
        wait_until(lambda: kit.condition(cluster.client.get(path), "Accepted"), 30, "the policy has a status")
        condition = kit.condition(cluster.client.get(path), "Accepted")
        assert condition["status"] == "False"
        assert "spec.signals[0]: signal 'nope' is not defined" in condition["message"]
        known(operator, "used")
        known(operator, "busy")
        assert placed(cluster, namespace, "first", "load") == "b"
        assert placed(cluster, namespace, "second", "rules") == "b"
        note = operator.get("/readyz?verbose")[1]
        assert "[+]signals ok: signal unheard: caFile: /nowhere/ca.crt: No such file or directory" in note
        assert operator.metric("podwright_signal_errors_total", signal="unheard") > 0
        assert operator.metric("podwright_signal_errors_total", signal="used") == 0
        decision = decision_of(cluster.client.get(f"/api/v1/namespaces/{namespace}/pods/first"))
        assert (decision["policy"], decision["node"], decision["feasible"]) == ("load", "b", 3)
        assert decision["score"] > decision["runnerUp"]["score"]

        measuring.cores = {"a": 9.0, "b": 8.0, "c": 2.0}
        wait_until(lambda: operator.metric("podwright_signal_age_seconds", signal="busy") < 2, 30, "busy is new")
        questions = measuring.questions
        wait_until(lambda: measuring.questions > questions + 2, 30, "the new numbers were asked for")
        assert placed(cluster, namespace, "third", "load") == "c"

        defined = yaml.safe_load(signals.read_text())["signals"]
        nope = {"name": "nope", "annotation": {"key": "example.com/nope"}}
        signals.write_text(yaml.safe_dump({"signals": [*defined, nope]}))
        wait_until(lambda: kit.condition(cluster.client.get(path), "Accepted")["status"] == "True", 30, "it is defined")
        assert operator.metric("podwright_signal_reloads_total", result="success") == 1
        assert operator.metric("podwright_signal_nodes", signal="used") == 3, "the others keep their numbers"
        signals.write_text(yaml.safe_dump({"signals": [nope]}))
        wait_until(lambda: operator.metric("podwright_signal_reloads_total", result="error") >= 1, 30, "it is refused")
        assert "policy load: signal 'used' is not defined" in operator.get("/readyz?verbose")[1]

        taken = tmp_path / "taken.json"
        arguments = ["snapshot", "--kubeconfig", str(cluster.kubeconfig), "-o", str(taken), "--signals"]
        signals.write_text(yaml.safe_dump({"signals": defined}))
        result = CliRunner().invoke(main, [*arguments, str(signals)])
        assert result.exit_code == 0, result.output
        assert "without all numbers of signal unheard: caFile: /nowhere/ca.crt" in result.stderr
        numbers = read_snapshot([str(taken)]).signals
        assert numbers["used"].items() >= {"a": 9.0, "b": 8.0, "c": 2.0}.items()
        assert numbers["busy"].keys() >= {"a", "b", "c"}

        measuring.hanging.set()
        errors = operator.metric("podwright_signal_errors_total", signal="used")
        wait_until(lambda: operator.metric("podwright_signal_errors_total", signal="used") > errors, 30, "it hangs")
        assert placed(cluster, namespace, "fourth", "load") == "c", "the last numbers count"
        measuring.hanging.clear()
        measuring.closed.set()

        measuring.lie = lambda found: {**found, "items": [{**each, "usage": {"cpu": "-5"}} for each in found["items"]]}
        wait_until(lambda: operator.metric("podwright_signal_nodes", signal="used") == 0, 60, "the numbers are too old")
        assert "the numbers of 3 nodes are not finite, or out of bounds" in operator.get("/readyz?verbose")[1]
        assert placed(cluster, namespace, "fifth", "load") in {"a", "b", "c"}
        assert operator.metric("podwright_signal_nodes", signal="busy") == 3, "the other signal is as it was"
        assert operator.ready
