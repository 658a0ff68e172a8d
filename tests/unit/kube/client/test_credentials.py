"""Credentials: every form in a kubeconfig, the pod's service account, and when they are read again."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import ssl
import subprocess
import sys
import textwrap

import pytest
import yaml

from podwright.kube.client import credentials
from podwright.kube.client.credentials import in_cluster, load
from podwright.kube.client.errors import ConfigError


@pytest.fixture(autouse=True)
def _no_credentials(monkeypatch, tmp_path):
    """No kubeconfig and no service account, unless a test creates them."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate and its key as PEM texts."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is needed to create a certificate")
    folder = tmp_path_factory.mktemp("certificate")
    command = f"{openssl} req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=test -keyout key.pem -out cert.pem"
    subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
    return (folder / "cert.pem").read_text(), (folder / "key.pem").read_text()


def base64_of(text):
    return base64.b64encode(text.encode()).decode()


def kubeconfig(folder, user=None, cluster=None, name="config", context=None):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", **(context or {})}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
    }
    path.write_text(yaml.safe_dump(content))
    return path


class Clock:
    now = 1_000.0

    def __call__(self):
        return self.now


async def current(path, clock=None, context=None):
    return await load(str(path), context, clock or Clock()).current()


async def test_a_token_becomes_a_bearer_header(tmp_path):
    found = await current(kubeconfig(tmp_path, {"token": "t"}, context={"namespace": "team"}))
    assert (found.server, found.headers) == ("http://127.0.0.1:1", (("Authorization", "Bearer t"),))
    assert found.namespace == "team"
    assert "t'" not in repr(found), "tokens stay out of logs"


async def test_user_and_password_become_basic_authorization(tmp_path):
    found = await current(kubeconfig(tmp_path, {"username": "jane", "password": "secret"}))
    assert found.headers == (("Authorization", "Basic amFuZTpzZWNyZXQ="),)


async def test_impersonation_becomes_headers(tmp_path):
    user = {"token": "t", "as": "jane", "as-groups": ["dev", "ops"], "as-user-extra": {"a/b": ["c"]}}
    found = await current(kubeconfig(tmp_path, user))
    assert found.headers[1:] == (
        ("Impersonate-User", "jane"),
        ("Impersonate-Group", "dev"),
        ("Impersonate-Group", "ops"),
        ("Impersonate-Extra-a%2Fb", "c"),
    )


async def test_a_token_file_relative_to_the_kubeconfig_is_read_again_after_a_minute(tmp_path):
    clock = Clock()
    (tmp_path / "token").write_text("one\n")
    source = load(str(kubeconfig(tmp_path, {"tokenFile": "token"})), None, clock)
    assert (await source.current()).headers == (("Authorization", "Bearer one"),)
    (tmp_path / "token").write_text("two\n")
    assert (await source.current()).headers == (("Authorization", "Bearer one"),)
    clock.now += 60
    assert source.due
    assert (await source.current()).headers == (("Authorization", "Bearer two"),)


async def test_refused_credentials_are_read_again_at_once(tmp_path):
    (tmp_path / "token").write_text("one")
    source = load(str(kubeconfig(tmp_path, {"tokenFile": "token"})), None, Clock())
    first = await source.current()
    (tmp_path / "token").write_text("two")
    source.refused(first)
    second = await source.current()
    assert second.headers == (("Authorization", "Bearer two"),)
    source.refused(first)
    assert await source.current() is second, "the new credentials were not refused"


async def test_waiting_while_credentials_are_refused_ends_when_they_are_accepted(tmp_path):
    (tmp_path / "token").write_text("one")
    source = load(str(kubeconfig(tmp_path, {"tokenFile": "token"})), None, Clock())
    source.refused(await source.current())
    waiting = asyncio.create_task(source.wait_while_refused(600))
    await asyncio.sleep(0)
    source.forget()
    second = await source.current()
    await asyncio.sleep(0)
    assert not waiting.done()
    source.accepted(second)
    await waiting
    source.refused(second)
    await source.wait_while_refused(0.0)


@pytest.mark.parametrize("inline", [True, False], ids=["inline", "as files"])
async def test_a_client_certificate_and_a_certificate_authority_are_used(tmp_path, certificate, inline):
    cert, key = certificate
    (tmp_path / "cert.pem").write_text(cert)
    (tmp_path / "key.pem").write_text(key)
    user = (
        {"client-certificate-data": base64_of(cert), "client-key-data": base64_of(key)}
        if inline
        else {"client-certificate": "cert.pem", "client-key": "key.pem"}
    )
    authority = {"certificate-authority-data": base64_of(cert)} if inline else {"certificate-authority": "cert.pem"}
    path = kubeconfig(tmp_path, user, {"server": "https://127.0.0.1:1", **authority})
    found = await current(path)
    assert found.ssl_context.verify_mode == ssl.CERT_REQUIRED
    assert found.ssl_context.check_hostname
    assert len(found.ssl_context.get_ca_certs()) == 1
    assert (await current(path)).ssl_context is found.ssl_context, "equal input keeps its connections"


async def test_an_insecure_cluster_is_not_verified(tmp_path):
    found = await current(kubeconfig(tmp_path, {}, {"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": True}))
    assert found.ssl_context.verify_mode == ssl.CERT_NONE


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
    return {"exec": {"apiVersion": version, "command": sys.executable, "args": [str(script)], **entry}}


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
    assert asked["spec"] == {"interactive": False, "cluster": {"server": "http://127.0.0.1:1"}}


async def test_a_credential_plugin_may_return_a_certificate(tmp_path, certificate):
    cert, key = certificate
    user = plugin(tmp_path, issued(clientCertificateData=cert, clientKeyData=key))
    found = await current(kubeconfig(tmp_path, user, {"server": "https://127.0.0.1:1"}))
    assert found.ssl_context is not None
    assert found.headers == ()


@pytest.mark.parametrize(
    ("answer", "entry", "problem"),
    [
        pytest.param("no json", {}, "not an ExecCredential", id="output that is not JSON"),
        pytest.param(issued(), {}, "neither a token nor", id="no credentials"),
        pytest.param(issued(token="t"), {"status": 3}, "ended with 3", id="a failing program"),
        pytest.param(issued(token="t"), {"command": "/no/such/plugin"}, "was not found", id="a missing program"),
        pytest.param({**issued(token="t"), "apiVersion": "v9"}, {}, "returned v9", id="another version"),
    ],
)
async def test_the_failure_of_a_credential_plugin_is_explained(tmp_path, answer, entry, problem):
    path = kubeconfig(tmp_path, plugin(tmp_path, answer, **entry))
    with pytest.raises(ConfigError, match=problem):
        await current(path)


async def test_several_files_are_merged_and_the_first_entry_wins(tmp_path, monkeypatch):
    one = kubeconfig(tmp_path / "one", {"token": "first"})
    two = kubeconfig(tmp_path / "two", {"token": "second"}, {"server": "http://two"})
    monkeypatch.setenv("KUBECONFIG", f"{one}:{tmp_path / 'missing'}:{two}")
    found = await load(None, None, Clock()).current()
    assert (found.server, found.headers[0][1]) == ("http://127.0.0.1:1", "Bearer first")


async def test_the_home_folder_is_the_last_resort(tmp_path):
    kubeconfig(tmp_path / "home" / ".kube", {"token": "home"})
    assert (await load(None, None, Clock()).current()).headers[0][1] == "Bearer home"


async def test_a_context_can_be_chosen_by_name(tmp_path):
    path = kubeconfig(tmp_path, {"token": "t"})
    content = yaml.safe_load(path.read_text())
    content["contexts"].append({"name": "there", "context": {"cluster": "c2"}})
    content["clusters"].append({"name": "c2", "cluster": {"server": "http://other/"}})
    path.write_text(yaml.safe_dump(content))
    found = await current(path, context="there")
    assert (found.server, found.headers) == ("http://other", ())


@pytest.mark.parametrize(
    ("user", "cluster", "context", "problem"),
    [
        pytest.param({}, {}, {"cluster": "x"}, "no entry 'x' in clusters", id="a missing cluster"),
        pytest.param({}, {}, {"user": "x"}, "no entry 'x' in users", id="a missing user"),
        pytest.param({}, {"server": "127.0.0.1"}, {}, "is not a URL", id="a server without scheme"),
        pytest.param({"tokenFile": "x"}, {}, {}, "cannot read the token file", id="a missing token file"),
        pytest.param({"client-certificate": "x"}, {}, {}, "cannot read x", id="a missing certificate"),
        pytest.param({"client-key-data": "%"}, {}, {}, "not base64", id="data that is not base64"),
        pytest.param(
            {},
            {"server": "https://x", "certificate-authority-data": base64_of("no certificate")},
            {},
            "certificate",
            id="an invalid certificate authority",
        ),
    ],
)
async def test_the_wrong_entry_is_named(tmp_path, user, cluster, context, problem):
    with pytest.raises(ConfigError, match=problem):
        await current(kubeconfig(tmp_path, user, cluster, context=context))


def test_a_missing_kubeconfig_is_an_error():
    with pytest.raises(ConfigError, match="no kubeconfig was found"):
        load(None, None, Clock())


def test_a_missing_file_that_was_asked_for_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match="does not exist"):
        load(str(tmp_path / "x"), None, Clock())


class TestInCluster:
    @pytest.fixture
    def account(self, tmp_path, monkeypatch, certificate):
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
        monkeypatch.setattr(credentials, "SERVICE_ACCOUNT", tmp_path)
        (tmp_path / "ca.crt").write_text(certificate[0])
        (tmp_path / "token").write_text("one")
        (tmp_path / "namespace").write_text("podwright-system")
        return tmp_path

    async def test_the_service_account_is_used_and_its_token_read_again(self, account):
        clock = Clock()
        source = in_cluster(clock, account)
        first = await source.current()
        assert (first.server, first.namespace) == ("https://10.0.0.1:443", "podwright-system")
        assert first.headers == (("Authorization", "Bearer one"),)
        (account / "token").write_text("two")
        clock.now += 60
        second = await source.current()
        assert second.headers == (("Authorization", "Bearer two"),)
        assert second.ssl_context is first.ssl_context

    async def test_an_ipv6_address_is_bracketed(self, account, monkeypatch):
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
        assert (await in_cluster(Clock(), account).current()).server == "https://[fd00::1]:443"

    async def test_an_empty_token_is_an_error(self, account):
        (account / "token").write_text("")
        with pytest.raises(ConfigError, match="is empty"):
            await in_cluster(Clock(), account).current()

    def test_outside_a_pod_it_is_an_error(self, tmp_path):
        with pytest.raises(ConfigError, match="does not run in a pod"):
            in_cluster(Clock(), tmp_path)


@pytest.mark.parametrize(
    "provider",
    [
        pytest.param({"name": "gcp"}, id="gcp without a token"),
        pytest.param({"name": "gcp", "config": {"expiry": "2020-01-01T00:00:00Z"}}, id="gcp, expired"),
        pytest.param({"name": "oidc", "config": {}}, id="oidc without a token"),
        pytest.param({"name": "oidc", "config": {"id-token": "a.b.c"}}, id="oidc with an invalid token"),
        pytest.param({"name": "azure", "config": {}}, id="a provider that no longer exists"),
        pytest.param("gcp", id="text"),
        pytest.param(None, id="nothing"),
    ],
)
async def test_an_old_auth_provider_without_a_token_is_explained_in_one_line(tmp_path, provider):
    path = kubeconfig(tmp_path, {"auth-provider": provider})
    with pytest.raises(ConfigError, match=r"auth-provider .* gave no token.*; use an exec plugin") as caught:
        await current(path)
    assert "\n" not in str(caught.value)
