"""A real Prometheus scrapes the operator as manifests/overlays/monitoring says: its rules load, and each panel of the
dashboard has data.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import urllib.parse
import urllib.request

import pytest
import yaml

from podwright.kube.serve.endpoints import LOOP
from podwright.testing import node, pod, wait_until
from podwright.testing.processes import free_port
from support.control_plane import operator_process as kit
from support.monitoring.prometheus import OVERLAY, alerts, groups, panels
from support.objects.queues import queue

READER = ("monitoring", "prometheus-k8s")
OURS = "podwright"
LOADED = {"PodwrightPodsUnschedulable"}
"""Alerts that are pending, because the test leaves such pods."""


class Prometheus:
    """A running Prometheus. It scrapes every two seconds and evaluates every second."""

    def __init__(self, port):
        self._url = f"http://127.0.0.1:{port}"

    def get(self, path, **query):
        try:
            with urllib.request.urlopen(f"{self._url}{path}?{urllib.parse.urlencode(query)}", timeout=60) as response:
                return json.loads(response.read()).get("data") if path.startswith("/api") else response.status
        except OSError:
            return None

    def query(self, text):
        """The values of a query, without those that are not numbers."""
        found = [float(each["value"][1]) for each in self.get("/api/v1/query", query=text)["result"]]
        return [value for value in found if not math.isnan(value)]


@pytest.fixture(scope="module")
def cluster(control_plane):
    kit.install(control_plane)
    return control_plane


@pytest.fixture
def objects(cluster):
    """The objects that the overlay adds to manifests/base, by kind."""
    built = yaml.safe_load_all(cluster.kubectl("kustomize", str(OVERLAY)))
    return {(raw["kind"], raw["metadata"]["name"]): raw for raw in built if raw}


@pytest.fixture
def secured(cluster, empty_cluster):
    """An operator with the command line and the rights of manifests/base."""
    port = free_port()
    kubeconfig = cluster.service_account_kubeconfig(*kit.ACCOUNT)
    environ = {"KUBECONFIG": str(kubeconfig), **kit.POD_ENVIRON}
    process = cluster.start_process("monitored", kit.deployed_command(port), environ)
    operator = kit.Operator(process, port, scheme="https")
    kit.wait_ready(operator)
    yield operator
    process.stop(30)


@pytest.fixture
def scraping(cluster, secured, objects, prometheus, tmp_path):
    """A Prometheus with the shipped rules, which scrapes as the ServiceMonitor says, with the token of the shipped
    binding's account.
    """
    kubeconfig = yaml.safe_load(cluster.service_account_kubeconfig(*READER).read_text())
    (tmp_path / "token").write_text(kubeconfig["users"][0]["user"]["token"])
    cluster.apply(objects["ClusterRoleBinding", "podwright-metrics-reader"])
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": groups()}))
    monitor = objects["ServiceMonitor", "podwright"]
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["bearerTokenFile"] == "/var/run/secrets/kubernetes.io/serviceaccount/token"
    service = objects["Service", "podwright"]
    config = {
        "global": {"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "1s"},
        "rule_files": [str(tmp_path / "rules.yaml")],
        "scrape_configs": [
            {
                "job_name": service["metadata"]["labels"][monitor["spec"]["jobLabel"]],
                "scheme": endpoint["scheme"],
                "metrics_path": endpoint["path"],
                "authorization": {"credentials_file": str(tmp_path / "token")},
                "tls_config": {"insecure_skip_verify": endpoint["tlsConfig"]["insecureSkipVerify"]},
                "static_configs": [{"targets": [f"127.0.0.1:{secured.port}"]}],
            }
        ],
    }
    (tmp_path / "prometheus.yaml").write_text(yaml.safe_dump(config))
    port = free_port()
    arguments = [f"--config.file={tmp_path / 'prometheus.yaml'}", f"--storage.tsdb.path={tmp_path / 'data'}"]
    command = [prometheus / "prometheus", *arguments, f"--web.listen-address=127.0.0.1:{port}"]
    process = cluster.start_process("prometheus", command)
    found = Prometheus(port)
    wait_until(lambda: found.get("/-/ready") == 200, 60, "Prometheus is ready")
    yield found
    process.stop(30)


def create_pods(cluster, namespace, name, count):
    for number in range(count):
        cluster.client.create(pod(f"{name}-{number}", namespace, scheduler=OURS, cpu="10m"))


def test_every_panel_has_data_and_every_rule_is_evaluated(cluster, namespace, scraping, secured):
    for name in ("a", "b"):
        cluster.client.create(node(name))
    kit.wait_listed(cluster, "schedulingqueues")
    made = queue("ml", resources={"cpu": {"guarantee": 1, "limit": 2}})
    cluster.apply({**made, "metadata": {"name": "ml"}})
    create_pods(cluster, namespace, "first", 5)
    cluster.client.create(pod("large", namespace, scheduler=OURS, cpu="1000"))
    wait_until(lambda: scraping.query("scheduler_schedule_attempts_total"), 60, "Prometheus has scraped attempts")
    # Rates need an increase after the first sample; plugins are measured in one attempt of fifty.
    create_pods(cluster, namespace, "second", 60)
    kit.wait_bound(cluster, namespace, 65)
    wait_until(lambda: scraping.query("scheduler_pod_scheduling_attempts_count") == [65], 60, "all have been scraped")

    def empty():
        return {(title, query) for title, queries in panels().items() for query in queries if not scraping.query(query)}

    with contextlib.suppress(TimeoutError):
        wait_until(lambda: not empty(), 60, "every panel has data")
    assert empty() == set()
    checks = scraping.get("/api/v1/query", query='kubernetes_healthcheck{type="readyz"}')["result"]
    passing = {each["metric"]["name"]: each["value"][1] for each in checks}
    shown = set(re.findall(r"^\[\+\](\S+) ok", secured.get("/readyz?verbose")[1], re.MULTILINE))
    assert passing == dict.fromkeys(shown - {LOOP}, "1")
    rules = lambda: [rule for group in scraping.get("/api/v1/rules")["groups"] for rule in group["rules"]]
    assert {rule["name"] for rule in rules()} == alerts().keys()
    assert {rule["health"] for rule in rules()} == {"ok"}
    others = lambda: {rule["name"] for rule in rules() if rule["state"] != "inactive"} - LOADED
    with contextlib.suppress(
        TimeoutError
    ):  # a scrape that a busy machine makes late looks like an instance that is down
        wait_until(lambda: not others(), 30, "no other alert is pending")
    assert others() == set()


def test_the_dashboard_is_a_config_map_that_grafana_imports(objects):
    found = objects["ConfigMap", "podwright-dashboard"]
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert found["data"]["dashboard.json"] == (OVERLAY / "dashboard.json").read_text()
    assert objects["PrometheusRule", "podwright"]["spec"]["groups"] == groups()


def test_the_dashboard_has_no_two_panels_in_one_place(objects):
    dashboard = json.loads((OVERLAY / "dashboard.json").read_text())
    taken = [
        (x, y)
        for panel in dashboard["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(taken) == len(set(taken))
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
