"""The secure port with the rights of manifests/base: whom it answers, and that kube-scheduler answers the same."""

from __future__ import annotations

import http.client
import json
import ssl
import time

import pytest
import yaml

from podwright.kube.certificate_chain import load_certificate_chain
from podwright.testing import ControlPlane, wait_until
from podwright.testing.processes import free_port
from support.control_plane import operator_process as kit

NAMESPACE = "monitoring"


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane) -> ControlPlane:
    kit.stay_installed(control_plane)
    return control_plane


def account(cluster, name):
    """A service account's token."""
    kubeconfig = yaml.safe_load(cluster.service_account_kubeconfig(NAMESPACE, name).read_text())
    return kubeconfig["users"][0]["user"]["token"]


@pytest.fixture(scope="module")
def reader(cluster):
    """The token of an account that may read metrics by the role in manifests/base."""
    token = account(cluster, "reader")
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "metrics-reader"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "podwright-metrics-reader",
        },
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": NAMESPACE}],
    }
    cluster.apply(binding)
    yield token
    cluster.client.delete(binding)


@pytest.fixture(scope="module")
def secured(cluster):
    """An operator with the command line and the rights of manifests/base, but alone: a leader would end without the API
    server.
    """
    port = free_port()
    kubeconfig = cluster.service_account_kubeconfig(*kit.ACCOUNT)
    command = [*kit.deployed_command(port), "--leader-elect=false"]
    process = cluster.start_process("secured", command, {"KUBECONFIG": str(kubeconfig)})
    operator = kit.Operator(process, port, scheme="https")
    kit.wait_ready(operator)
    yield operator
    process.stop(30)
    assert process.returncode == 0
    assert operator.complaints() == []
    assert "Traceback" not in operator.log()


@pytest.fixture(scope="module")
def kube_scheduler(cluster):
    """kube-scheduler with a secure port of its own, and the rights to review."""
    port = free_port()
    kubeconfig = cluster.service_account_kubeconfig(*kit.ACCOUNT)
    flags = [
        *(f"--secure-port={port}", "--bind-address=127.0.0.1"),
        *(f"--authentication-kubeconfig={kubeconfig}", f"--authorization-kubeconfig={kubeconfig}"),
    ]
    process = cluster.start_scheduler(
        {"profiles": [{"schedulerName": "another"}]}, name="secured-kube", flags=flags, wait=False
    )
    scheduler = kit.Operator(process, port, scheme="https")
    wait_until(lambda: scheduler.get("/healthz")[0] == 200, 60, "kube-scheduler serves")
    yield scheduler
    process.stop(30)


def test_readiness_fails_with_the_reason_while_the_api_server_is_gone(cluster):
    """The first test here: the other ones share an operator that must have nothing to complain of."""
    with kit.running(cluster) as operator:
        cluster.api_server.pause()
        paused = time.monotonic()
        try:
            wait_until(lambda: operator.get("/readyz")[0] == 500, 90, "the operator is not ready")
            status, body = operator.get("/readyz")
            assert status == 500
            assert "[-]api-server failed: no answer for " in body
            assert operator.get("/livez") == (200, "ok")
            print(f"not ready {time.monotonic() - paused:.1f} s after the API server was gone")
            assert operator.metric("podwright_api_server_silent_seconds") > 0
        finally:
            cluster.api_server.resume()
        wait_until(lambda: operator.ready, 90, "the operator is ready again")


def said(answer):
    """The status of an answer, and its message if it is a refusal."""
    status, body = answer
    return (status, json.loads(body)["message"]) if status in (401, 403) else (status, "")


def test_both_schedulers_answer_the_same(cluster, reader, secured, kube_scheduler):
    other = account(cluster, "other")
    wait_until(lambda: secured.get("/metrics", reader)[0] == 200, 30, "the role takes effect")
    wait_until(lambda: kube_scheduler.get("/metrics", reader)[0] == 200, 30, "the role takes effect")
    tokens = {"nobody": "", "the reader": reader, "another account": other, "a wrong token": "wrong"}
    paths = [
        "/metrics",
        "/metrics/resources",
        "/configz",
        "/livez",
        "/readyz/ping",
        "/",
        "/no/such",
        "/metrics/",
        "/METRICS",
    ]
    found = {}
    for who, token in tokens.items():
        for path in paths:
            if path == "/livez" and token == "wrong":
                continue  # kube-scheduler refuses it even there; here, health is for everybody
            ours, theirs = said(secured.get(path, token)), said(kube_scheduler.get(path, token))
            if ours != theirs:
                found[who, path] = (ours, theirs)
    assert found == {}
    assert said(secured.get("/metrics"))[1] == 'forbidden: User "system:anonymous" cannot get path "/metrics"'


def ask(operator, certificate, headers):
    """The status and the refusal of /metrics for a client with this certificate, which sends these headers."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate is not None:
        load_certificate_chain(context, certificate.certificate, certificate.key)
    connection = http.client.HTTPSConnection("127.0.0.1", operator.port, context=context, timeout=60)
    try:
        connection.request("GET", "/metrics", headers=headers)
        answer = connection.getresponse()
        return said((answer.status, answer.read().decode()))
    finally:
        connection.close()


def test_both_schedulers_know_the_same_client_certificates_and_front_proxies(
    cluster, authorities, reader, secured, kube_scheduler
):
    """The cluster says who issues them, in a ConfigMap."""
    name = "system:serviceaccount:monitoring:reader"
    proxy = authorities.front_proxies.client("front-proxy-client")
    user, imitation = authorities.clients.client(name), authorities.clients.client("front-proxy-client")
    admin = authorities.clients.client("kim", ["system:masters"])
    named, token = {"X-Remote-User": name}, {"Authorization": f"Bearer {reader}"}
    cases = {
        "a user": (user, {}),
        "an administrator": (admin, {}),
        "a front proxy that names a user": (proxy, named),
        "a front proxy that names a group": (proxy, {"X-Remote-User": "kim", "X-Remote-Group": "system:masters"}),
        "a front proxy that names another user": (proxy, {"X-Remote-User": "kim"}),
        "a front proxy that names nobody": (proxy, {}),
        "a front proxy with a token": (proxy, token),
        "a front proxy with another name": (authorities.front_proxies.client("other"), named),
        "a user who names another one": (imitation, named),
        "nobody who names a user": (None, named),
        "a user without a name": (authorities.clients.client("", ["system:masters"]), {}),
    }
    for operator in (secured, kube_scheduler):
        wait_until(lambda: ask(operator, proxy, named)[0] == 200, 60, "the lookup has an effect")  # noqa: B023 -- called at once
    found = {title: (ask(secured, *case), ask(kube_scheduler, *case)) for title, case in cases.items()}
    assert {title: answers for title, answers in found.items() if answers[0] != answers[1]} == {}
    assert {title for title, answers in found.items() if answers[0][0] == 200} == {
        "a user",
        "an administrator",
        "a front proxy that names a user",
        "a front proxy that names a group",
        "a front proxy with a token",
    }


def test_the_metrics_are_those_of_this_operator(secured, reader):
    wait_until(lambda: secured.get("/metrics", reader)[0] == 200, 30, "the role takes effect")
    assert "podwright_build_info" in secured.get("/metrics", reader)[1]
    assert "podwright_certificate_expiration_timestamp_seconds" in secured.get("/metrics", reader)[1]


def test_a_user_who_may_do_everything_sees_the_configuration(cluster, secured):
    admin = yaml.safe_load(cluster.kubeconfig.read_text())["users"][0]["user"]["token"]
    status, body = secured.get("/configz", admin)
    assert status == 200
    found = json.loads(body)
    assert found["componentconfig"]["profiles"][0]["schedulerName"] == "podwright"
    assert found["podwright"]["options"]["pod_intake"] == "watch"
    assert admin not in body
