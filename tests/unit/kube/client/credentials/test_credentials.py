"""Credentials: every form in a kubeconfig, the pod's service account, and when they are read again."""

from __future__ import annotations

import asyncio
import ssl
import subprocess

import pytest
import yaml

from podwright.kube.client.credentials import credentials
from podwright.kube.client.credentials.credentials import in_cluster, load
from podwright.kube.client.errors import ConfigError
from support.http.credentials import SERVER, Clock, base64_of, certificate, current, kubeconfig, no_credentials

__all__ = ["certificate", "no_credentials"]

pytestmark = pytest.mark.usefixtures("no_credentials")

EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "x", "interactiveMode": "Never"}


async def test_a_token_becomes_a_bearer_header(tmp_path):
    found = await current(kubeconfig(tmp_path, {"token": "t"}, context={"namespace": "team"}))
    assert (found.server, found.headers) == (SERVER, (("Authorization", "Bearer t"),))
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


async def test_several_files_are_merged_and_the_first_entry_wins(tmp_path, monkeypatch):
    one = kubeconfig(tmp_path / "one", {"token": "first"})
    two = kubeconfig(tmp_path / "two", {"token": "second"}, {"server": "https://two"})
    monkeypatch.setenv("KUBECONFIG", f"{one}:{tmp_path / 'missing'}:{two}")
    found = await load(None, None, Clock()).current()
    assert (found.server, found.headers[0][1]) == (SERVER, "Bearer first")


async def test_the_home_folder_is_the_last_resort(tmp_path):
    kubeconfig(tmp_path / "home" / ".kube", {"token": "home"})
    assert (await load(None, None, Clock()).current()).headers[0][1] == "Bearer home"


async def test_a_context_can_be_chosen_by_name(tmp_path):
    path = kubeconfig(tmp_path, {"token": "t"})
    content = yaml.safe_load(path.read_text())
    content["contexts"].append({"name": "there", "context": {"cluster": "c2"}})
    content["clusters"].append({"name": "c2", "cluster": {"server": "https://other/"}})
    path.write_text(yaml.safe_dump(content))
    found = await current(path, context="there")
    assert (found.server, found.headers) == ("https://other", ())


CA, CERTIFICATE, KEY = ("certificate-authority", "client-certificate", "client-key")


@pytest.mark.parametrize(
    ("user", "cluster", "context", "problem"),
    [
        pytest.param(
            {}, {}, {"cluster": "x"}, r"contexts\[here\].context.cluster: there is no entry 'x'", id="no cluster"
        ),
        pytest.param({}, {}, {"user": "x"}, r"contexts\[here\].context.user: there is no entry 'x'", id="no user"),
        pytest.param({}, {"server": ""}, {}, r"clusters\[c\].cluster.server: is not set", id="no server"),
        pytest.param({}, {"server": "ftp://x"}, {}, "server: is not the URL of an HTTP", id="an FTP server"),
        pytest.param({}, {"server": "https://x:y"}, {}, "server: is not a URL", id="a port of letters"),
        pytest.param({}, {"server": "https://x:0"}, {}, "server: is not the URL", id="port 0"),
        pytest.param({}, {"server": "https://x#y"}, {}, "server: is not the URL", id="a fragment"),
        pytest.param({}, {"server": "https://"}, {}, "server: is not the URL", id="no host"),
        pytest.param({}, {"server": "https://x\ny"}, {}, "server: is not", id="a line break in the server"),
        pytest.param({}, {"server": "x:1/path"}, {}, "server: a path needs", id="a path without a scheme"),
        pytest.param({}, {"server": 5}, {}, r"clusters\[c\].cluster.server: is a number, not a string", id="a number"),
        pytest.param(
            {},
            {"insecure-skip-tls-verify": "false"},
            {},
            "tls-verify: is a string, not true or false",
            id="a text flag",
        ),
        pytest.param({}, {"insecure-skip-tls-verify": 1}, {}, "tls-verify: is a number", id="a number as a flag"),
        pytest.param(
            {}, {"proxy-url": "socks5://x:1"}, {}, "proxy-url: not the URL of an HTTP proxy", id="a SOCKS proxy"
        ),
        pytest.param({}, {"proxy-url": "x:1"}, {}, "proxy-url: not the URL", id="a proxy without a scheme"),
        pytest.param({}, {CA: "x", f"{CA}-data": "eA=="}, {}, "are both set", id="two authorities"),
        pytest.param({}, {CA: "x"}, {}, "certificate-authority: cannot read x", id="a missing authority"),
        pytest.param({}, {f"{CA}-data": "%"}, {}, "certificate-authority-data: is not base64", id="not base64"),
        pytest.param({}, {f"{CA}-data": "/w=="}, {}, "certificate-authority-data: is not PEM", id="not text"),
        pytest.param(
            {}, {f"{CA}-data": "eA=="}, {}, r"clusters\[c\].cluster.certificate-authority: cannot be used", id="not PEM"
        ),
        pytest.param(
            {},
            {f"{CA}-data": "eA==", "insecure-skip-tls-verify": True},
            {},
            "exclude each other",
            id="insecure with CA",
        ),
        pytest.param({"token": 5}, {}, {}, r"users\[u\].user.token: is a number, not a string", id="a number as token"),
        pytest.param({"token": "a\nb"}, {}, {}, "would contain a control character", id="a line break in the token"),
        pytest.param({"tokenFile": "x"}, {}, {}, "tokenFile: cannot read .*x", id="a missing token file"),
        pytest.param({"token": "t", "username": "u"}, {}, {}, "token and username are both set", id="token and user"),
        pytest.param({"tokenFile": "t", "username": "u"}, {}, {}, "tokenFile and username", id="token file and user"),
        pytest.param({"password": "p"}, {}, {}, "password: has no username", id="a password alone"),
        pytest.param({CERTIFICATE: "x"}, {}, {}, "client-key: is not set", id="no key"),
        pytest.param({CERTIFICATE: "x", KEY: "z"}, {}, {}, "client-certificate: cannot read x", id="a missing file"),
        pytest.param({f"{KEY}-data": "%"}, {}, {}, "client-key-data: is not base64", id="a key that is not base64"),
        pytest.param(
            {f"{CERTIFICATE}-data": "eA==", f"{KEY}-data": "eA=="},
            {},
            {},
            "client-certificate: cannot be used",
            id="no PEM",
        ),
        pytest.param({"as-groups": ["dev"]}, {}, {}, "as: is not set", id="groups of nobody"),
        pytest.param(
            {"as": "x", "as-groups": "dev"}, {}, {}, "as-groups: is a string, not a list", id="a text as groups"
        ),
        pytest.param({"as": "x", "as-groups": [5]}, {}, {}, r"as-groups\[0\]: is a number", id="a number as group"),
        pytest.param(
            {"as": "x", "as-user-extra": {"a": "b"}}, {}, {}, "as-user-extra.a: is a string", id="a text as extra"
        ),
        pytest.param({"as": "x\r\ny"}, {}, {}, "would contain a control character", id="a line break in a name"),
        pytest.param(
            {"auth-provider": {"name": "gcp"}}, {}, {}, "auth-provider: is not supported", id="an old provider"
        ),
        pytest.param({"exec": {**EXEC, "command": ""}}, {}, {}, "exec.command: is not set", id="no command"),
        pytest.param(
            {"exec": {**EXEC, "apiVersion": "v1"}}, {}, {}, "exec.apiVersion: 'v1' is not one of", id="a version"
        ),
        pytest.param(
            {"exec": {**EXEC, "interactiveMode": ""}}, {}, {}, "interactiveMode: '' is not one of", id="no mode"
        ),
        pytest.param(
            {"exec": {**EXEC, "interactiveMode": "Always"}}, {}, {}, "Always needs a terminal", id="interactive"
        ),
        pytest.param(
            {"exec": {**EXEC, "args": "x"}}, {}, {}, "exec.args: is a string, not a list", id="a text as args"
        ),
        pytest.param(
            {"exec": {**EXEC, "env": [{"value": "x"}]}}, {}, {}, "exec.env: a variable has no name", id="no name"
        ),
        pytest.param({"exec": "x"}, {}, {}, r"users\[u\].user.exec: is a string, not a mapping", id="a text as exec"),
    ],
)
async def test_the_file_and_the_field_that_are_wrong_are_named(tmp_path, user, cluster, context, problem):
    with pytest.raises(ConfigError, match=problem) as caught:
        await current(kubeconfig(tmp_path, user, cluster, context=context))
    assert str(tmp_path / "config") in str(caught.value)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param("{", "cannot read the kubeconfig", id="not YAML"),
        pytest.param("token: secret: x", "cannot read the kubeconfig", id="not YAML, with a secret"),
        pytest.param("- a", "is a list, not a mapping", id="a list"),
        pytest.param("", "current-context: is not set", id="empty"),
        pytest.param("kind: Pod", "kind and apiVersion", id="another kind"),
        pytest.param("clusters: {}", "clusters: is a mapping, not a list", id="a mapping of clusters"),
        pytest.param("clusters: [5]", r"clusters\[0\]: is a number", id="a number among clusters"),
        pytest.param("users: [{name: a}, {name: a}]", "users: has two entries named 'a'", id="a name twice"),
        pytest.param("users: [{name: other, user: {token: 5}}]", r"users\[other\].user.token", id="an unused entry"),
        pytest.param("users: [{name: a, user: false}]", r"users\[a\].user: is a boolean", id="a boolean as user"),
        pytest.param("[" * 5_000, "cannot read the kubeconfig", id="too deep"),
    ],
)
async def test_a_malformed_file_is_named(tmp_path, content, problem):
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(ConfigError, match=problem) as caught:
        await current(path)
    assert str(path) in str(caught.value)
    assert "secret" not in str(caught.value)


async def test_a_malformed_file_among_several_is_an_error(tmp_path, monkeypatch):
    good, bad = kubeconfig(tmp_path, {"token": "t"}), tmp_path / "bad"
    bad.write_text("clusters: 5")
    monkeypatch.setenv("KUBECONFIG", f"{good}:{bad}")
    with pytest.raises(ConfigError, match="bad: clusters: is a number"):
        await load(None, None, Clock()).current()


async def test_nothing_that_authenticates_us_goes_over_plain_http(tmp_path):
    found = await current(kubeconfig(tmp_path, {"token": "t", "as": "jane"}, {"server": "http://127.0.0.1:1"}))
    assert found.headers == (("Impersonate-User", "jane"),)


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        pytest.param("HTTPS://Host:1/", "https://Host:1", id="in capitals, with a slash"),
        pytest.param("https://host/a/b/", "https://host/a/b", id="a path"),
        pytest.param("https://host/a?x=1", "https://host/a", id="a query"),
        pytest.param("host:8080", "http://host:8080", id="no scheme"),
        pytest.param("https://[fd00::1]:443", "https://[fd00::1]:443", id="IPv6"),
    ],
)
async def test_the_server_is_read_as_client_go_reads_it(tmp_path, server, expected):
    assert (await current(kubeconfig(tmp_path, {}, {"server": server}))).server == expected


async def test_the_user_in_a_servers_url_authenticates_us_and_is_nowhere_else(tmp_path):
    found = await current(kubeconfig(tmp_path, {"token": "t"}, {"server": "https://jane:s%40crt@127.0.0.1:1"}))
    assert found.server == SERVER
    assert found.headers == (("Authorization", f"Basic {base64_of('jane:s@crt')}"),)
    assert "s%40crt" not in repr(found)


async def test_a_token_file_comes_before_a_token_that_replaces_it_if_it_cannot_be_read(tmp_path):
    path = kubeconfig(tmp_path, {"token": "inline", "tokenFile": "token"})
    assert (await current(path)).headers[0][1] == "Bearer inline"
    (tmp_path / "token").write_text("from the file\n")
    assert (await current(path)).headers[0][1] == "Bearer from the file"


async def test_an_encrypted_key_is_an_error_and_asks_no_terminal(tmp_path, certificate):
    (tmp_path / "plain.pem").write_text(certificate[1])
    command = "openssl pkcs8 -topk8 -in plain.pem -out key.pem -passout pass:secret"
    await asyncio.to_thread(subprocess.run, command.split(), cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "cert.pem").write_text(certificate[0])
    with pytest.raises(ConfigError, match="client-certificate: cannot be used: the key is encrypted"):
        await current(kubeconfig(tmp_path, {"client-certificate": "cert.pem", "client-key": "key.pem"}))


async def test_the_proxy_of_the_environment_is_used_unless_the_kubeconfig_names_one(tmp_path, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://env:1")
    assert (await current(kubeconfig(tmp_path, {}, {"server": "https://api"}))).proxy == "http://env:1"
    named = {"server": "https://api", "proxy-url": "http://named:1"}
    assert (await current(kubeconfig(tmp_path, {}, named))).proxy == "http://named:1"
    monkeypatch.setenv("HTTPS_PROXY", "socks5://user:secret@env:1")
    with pytest.raises(ConfigError, match="HTTPS_PROXY: not the URL") as caught:
        await current(kubeconfig(tmp_path, {}, {"server": "https://api"}))
    assert "secret" not in str(caught.value)


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
