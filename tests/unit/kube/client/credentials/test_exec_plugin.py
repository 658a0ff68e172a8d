"""Credential plugins: what they are given, what they return, and how their failures are explained."""

from __future__ import annotations

import json
import sys
import textwrap

import pytest

from podwright.kube.client.credentials import credentials
from podwright.kube.client.credentials.credentials import load
from podwright.kube.client.credentials.exec_plugin import STDERR_LIMIT
from podwright.kube.client.errors import ConfigError
from support.http.credentials import SERVER, Clock, base64_of, certificate, current, kubeconfig, no_credentials

__all__ = ["certificate", "no_credentials"]

pytestmark = pytest.mark.usefixtures("no_credentials")

EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "x", "interactiveMode": "Never"}


def plugin(folder, answer, **entry):
    """A credential plugin that prints `answer`, and writes its input to asked.json."""
    script = folder / "plugin.py"
    text = answer if isinstance(answer, str) else json.dumps(answer)
    script.write_text(
        textwrap.dedent(f"""
            import os, sys
            open({str(folder / "asked.json")!r}, "w").write(os.environ["KUBERNETES_EXEC_INFO"])
            count = {str(folder / "count")!r}
            open(count, "a").write("x")
            sys.stdout.write({text!r}.replace("COUNT", str(len(open(count).read()))))
            sys.exit({entry.pop("status", 0)})
        """)
    )
    version = "client.authentication.k8s.io/v1"
    return {
        "exec": {
            "apiVersion": version,
            "command": sys.executable,
            "args": [str(script)],
            "interactiveMode": "Never",
            **entry,
        }
    }


def issued(**status):
    return {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}


async def test_a_credential_plugin_is_run_again_when_its_token_expires(tmp_path):
    clock = Clock()
    user = plugin(tmp_path, issued(token="t-COUNT", expirationTimestamp="1970-01-01T00:20:00Z"))
    source = load(str(kubeconfig(tmp_path, user)), None, clock)
    assert (await source.current()).headers == (("Authorization", "Bearer t-1"),)
    clock.now = 1_199
    assert (await source.current()).headers == (("Authorization", "Bearer t-1"),)
    clock.now = 1_200
    assert (await source.current()).headers == (("Authorization", "Bearer t-2"),)


@pytest.mark.parametrize("step", [-3_600, 3_600], ids=["an hour back", "an hour ahead"])
async def test_a_step_of_the_wall_clock_does_not_change_how_long_credentials_are_used(tmp_path, step):
    wall, steady = Clock(), Clock()
    steady.now = 5.0
    user = plugin(tmp_path, issued(token="t-COUNT", expirationTimestamp="1970-01-01T00:20:00Z"))
    source = load(str(kubeconfig(tmp_path, user)), None, wall, steady)
    assert (await source.current()).headers == (("Authorization", "Bearer t-1"),)
    wall.now += step
    steady.now += 199
    assert (await source.current()).headers == (("Authorization", "Bearer t-1"),)
    steady.now += 1
    assert (await source.current()).headers == (("Authorization", "Bearer t-2"),)


async def test_with_a_wall_clock_that_is_ahead_a_credential_plugin_is_not_run_for_each_request(tmp_path):
    clock = Clock()
    clock.now = 5_000.0
    user = plugin(tmp_path, issued(token="t-COUNT", expirationTimestamp="1970-01-01T00:20:00Z"))
    source = load(str(kubeconfig(tmp_path, user)), None, clock)
    assert (await source.current()).headers == (("Authorization", "Bearer t-1"),)
    assert (await source.current()).headers == (("Authorization", "Bearer t-1"),)
    clock.now += credentials.SHORTEST_SECONDS
    assert (await source.current()).headers == (("Authorization", "Bearer t-2"),)


async def test_a_credential_plugin_gets_the_cluster_if_it_asks_for_it(tmp_path):
    user = plugin(tmp_path, issued(token="t"), provideClusterInfo=True)
    await current(kubeconfig(tmp_path, user))
    asked = json.loads((tmp_path / "asked.json").read_text())
    assert asked["spec"] == {"interactive": False, "cluster": {"server": SERVER, "config": None}}


async def test_a_credential_plugin_may_return_a_certificate(tmp_path, certificate):
    cert, key = certificate
    user = plugin(tmp_path, issued(clientCertificateData=cert, clientKeyData=key))
    found = await current(kubeconfig(tmp_path, user, {"server": "https://127.0.0.1:1"}))
    assert found.ssl_context is not None
    assert found.headers == ()


@pytest.mark.parametrize(
    ("answer", "entry", "problem"),
    [
        pytest.param("no json", {}, "something else than an ExecCredential", id="output that is not JSON"),
        pytest.param("[" * 100_000, {}, "something else than an ExecCredential", id="deep output"),
        pytest.param(" " * 2_000_000, {}, "more than", id="endless output"),
        pytest.param(issued(token=5), {}, "something else than", id="a token that is a number"),
        pytest.param(
            issued(clientKeyData="k"), {}, "only one of certificate and key", id="a key without a certificate"
        ),
        pytest.param(issued(token="t", expirationTimestamp="soon"), {}, "something else", id="an invalid expiry"),
        pytest.param(
            issued(token="t", expirationTimestamp="2026-01-01T00:00:00"),
            {},
            "something else",
            id="an expiry without a zone",
        ),
        pytest.param({**issued(token="t"), "kind": "Pod"}, {}, "printed kind 'Pod'", id="another kind"),
        pytest.param(issued(), {}, "neither a token nor", id="no credentials"),
        pytest.param(issued(token="t"), {"status": 3}, "ended with 3", id="a failing program"),
        pytest.param(issued(token="t"), {"command": "/no/such/plugin"}, "was not found", id="a missing program"),
        pytest.param({**issued(token="t"), "apiVersion": "v9"}, {}, "printed version 'v9'", id="another version"),
    ],
)
async def test_the_failure_of_a_credential_plugin_is_explained(tmp_path, answer, entry, problem):
    path = kubeconfig(tmp_path, plugin(tmp_path, answer, **entry))
    with pytest.raises(ConfigError, match=problem):
        await current(path)


@pytest.mark.parametrize(
    "other", [{"token": "t"}, {"username": "u", "password": "p"}], ids=["a token", "user and password"]
)
async def test_other_credentials_come_before_a_plugin_which_is_not_run(tmp_path, other):
    path = kubeconfig(tmp_path, {**plugin(tmp_path, issued(token="plugin")), **other})
    assert "plugin" not in (await current(path)).headers[0][1]
    assert not (tmp_path / "count").exists()


async def test_what_a_plugin_writes_to_standard_error_is_logged_at_debug_level_only(tmp_path, caplog):
    script = tmp_path / "plugin.sh"
    script.write_text("#!/bin/sh\nread line || echo no input >&2; head -c 100000 /dev/zero | tr '\\0' x >&2; exit 3")
    script.chmod(0o700)
    path = kubeconfig(tmp_path, {"exec": {**EXEC, "command": "./plugin.sh"}})
    caplog.set_level("INFO")
    with pytest.raises(ConfigError) as caught:
        await current(path)
    assert "no input" not in caplog.text + str(caught.value)
    caplog.set_level("DEBUG")
    with pytest.raises(ConfigError):
        await current(path)
    assert "no input" in caplog.text
    assert len(caplog.text) < 2 * STDERR_LIMIT


async def test_a_plugin_gets_information_about_the_cluster(tmp_path, certificate):
    authority = base64_of(certificate[0])
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}
    cluster = {
        "certificate-authority-data": authority,
        "tls-server-name": "api",
        "proxy-url": "http://proxy:1",
        "disable-compression": True,
        "extensions": [extension, {"name": "other", "extension": 5}],
    }
    await current(kubeconfig(tmp_path, plugin(tmp_path, issued(token="t"), provideClusterInfo=True), cluster))
    asked = json.loads((tmp_path / "asked.json").read_text())
    assert asked["spec"]["cluster"] == {
        "server": SERVER,
        "certificate-authority-data": authority,
        "tls-server-name": "api",
        "proxy-url": "http://proxy:1",
        "disable-compression": True,
        "config": {"audience": "x"},
    }
