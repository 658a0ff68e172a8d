"""The demo on a cluster whose installed operator does nothing."""

from __future__ import annotations

import json
import urllib.request

import pytest
from click.testing import CliRunner

from podwright.cli.demo import api, demo
from podwright.sandbox import SandboxThread

LABELS = {"app.kubernetes.io/name": "podwright"}
DEPLOYMENT = {
    "metadata": {"name": "scheduler", "namespace": "kube-system", "labels": LABELS},
    "spec": {
        "selector": {"matchLabels": LABELS},
        "template": {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "c"}]}},
    },
}


def send(url, method, body, kind="application/json"):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": kind}, method=method)
    urllib.request.urlopen(request).close()


@pytest.mark.slow
def test_a_timeout_names_the_logs_of_the_installed_operator(tmp_path, monkeypatch):
    monkeypatch.setattr(api, "TIMEOUT_SECONDS", 0.3)
    with SandboxThread(nodes=4, controllers=False) as sandbox:
        path = f"{sandbox.url}/apis/apps/v1/namespaces/kube-system/deployments"
        send(path, "POST", DEPLOYMENT)
        ready = {"status": {"replicas": 1, "readyReplicas": 1}}
        send(f"{path}/scheduler/status", "PATCH", ready, "application/merge-patch+json")
        kubeconfig = sandbox.write_kubeconfig(tmp_path / "kubeconfig")
        done = CliRunner().invoke(demo, ["--plain", "--kubeconfig", str(kubeconfig)])
    assert done.exit_code == 1, done.output
    assert "timed out after 0.3 s waiting for generation 1 of policy" in done.stdout
    assert done.stdout.splitlines()[-1].endswith("kubectl -n kube-system logs deployment/scheduler")
