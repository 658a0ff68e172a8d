"""The operator's metrics of plugins and pods equal kube-scheduler's in the same cluster."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from podwright.testing import Versions, node, pod, wait_until
from podwright.testing.processes import free_port
from support.control_plane import operator_process as kit

OURS, THEIRS = "podwright", "default-scheduler"
ALLOW_ANONYMOUS = "--authorization-always-allow-paths=/readyz,/metrics,/metrics/resources"
SHAPES = {
    "limits": {
        "containers": [
            {"name": "c", "image": "x", "resources": {"limits": {"cpu": "200m", "memory": "1Gi"}}}
        ]
    },
    "sidecar": {
        "containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "10m"}, "limits": {"cpu": "1"}}}],
        "initContainers": [
            {"name": "s", "image": "x", "restartPolicy": "Always", "resources": {"limits": {"cpu": "300m"}}},
            {"name": "i", "image": "x", "resources": {"limits": {"cpu": "1200m", "memory": "5Mi"}}},
        ],
    },
    "whole": {
        "containers": [{"name": "c", "image": "x", "resources": {"limits": {"cpu": "100m"}}}],
        "resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "700m", "memory": "1Gi"}},
    },
}  # fmt: skip
SINCE = {
    ("DynamicResources", "Score"): 35,
    ("NodeName", "PreFilter"): 37,
    ("NodeUnschedulable", "PreFilter"): 37,
    ("TaintToleration", "PreFilter"): 37,
}
"""Extension points that a plugin of kube-scheduler does not have before this minor version. Podwright's plugins are
those of 1.37.
"""
MINOR = Versions.from_environ().kubernetes_minor


def read(url):
    """The body of a GET, or "" without a response. Does not verify certificates."""
    unverified = ssl.create_default_context()
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    context = unverified if url.startswith("https:") else None
    try:
        return urllib.request.urlopen(url, timeout=60, context=context).read().decode()
    except OSError:
        return ""


def series(text, name=""):
    """Values by metric and labels, without pending pods of kube-scheduler, which the operator does not watch."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.labels.get("scheduler") == THEIRS and not sample.labels["node"]:
                continue
            if name in ("", sample.name):
                found[sample.name, *sorted(sample.labels.items())] = sample.value
    return found


def evaluations(text):
    """The number of evaluations by plugin and extension point, without zeros and without those that this version does
    not have.
    """
    counts = series(text, "scheduler_plugin_evaluation_total")
    return {
        (labels["plugin"], labels["extension_point"]): count
        for key, count in counts.items()
        if (labels := dict(key[1:])) and count
        if SINCE.get((labels["plugin"], labels["extension_point"]), 0) <= MINOR
    }


def test_metrics_of_pods_and_plugins_equal_those_of_kube_scheduler(cluster, namespace):
    cluster.bulk.create(
        [node(f"n{i}", cpu="8", memory="16Gi", labels={"disk": "ssd" if i else "none"}) for i in range(3)]
    )
    port = free_port()
    scheduler = cluster.start_scheduler(
        name="scheduler-with-metrics", flags=[f"--secure-port={port}", ALLOW_ANONYMOUS], wait=False
    )
    theirs = f"https://127.0.0.1:{port}/metrics"
    try:
        wait_until(lambda: read(theirs), 60, "kube-scheduler serves metrics")
        with kit.running(cluster) as operator:
            ours = f"http://127.0.0.1:{operator.port}/metrics"
            for name in (OURS, THEIRS):
                for shape, spec in SHAPES.items():
                    cluster.client.create(pod(f"{shape}-{name}", namespace, scheduler=name, **spec))
                chosen = {"nodeSelector": {"disk": "ssd"}}
                cluster.client.create(pod(f"chosen-{name}", namespace, scheduler=name, cpu="1", **chosen))
            kit.wait_bound(cluster, namespace, 2 * len(SHAPES) + 2, 30)

            wait_until(
                lambda: evaluations(read(ours)) == evaluations(read(theirs)),
                60,
                "both have evaluated plugins equally often",
            )
            assert evaluations(read(ours))["NodeAffinity", "Filter"] == 3
            for name in (OURS, THEIRS):
                cluster.client.create(pod(f"big-{name}", namespace, scheduler=name, cpu="50"))

            def pods_agree():
                mine, other = series(read(f"{ours}/resources")), series(read(f"{theirs}/resources"))
                return any(("pod", f"big-{OURS}") in labels for labels in other) and mine == pytest.approx(other)

            wait_until(pods_agree, 60, "both report the same pod resources")
            posted = len(SHAPES) + 1
            wait_until(
                lambda: operator.metric("rest_client_requests_total", code="201", method="POST") > posted,
                60,
                "Bindings and events are counted",
            )
            assert operator.metric("rest_client_requests_total", code="<error>") == 0
    finally:
        scheduler.stop()
