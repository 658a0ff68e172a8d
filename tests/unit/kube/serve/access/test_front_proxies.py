"""Front proxies name the user of a request in its headers, and nobody else can."""

from __future__ import annotations

import asyncio
import json
import ssl

import pytest
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from podwright.kube.client.errors import ConfigError
from podwright.kube.options.options import Options
from podwright.kube.serve.access import client_issuers, delegated_gate
from podwright.kube.serve.access.client_issuers import ClientIssuers, FrontProxies, Role
from podwright.kube.serve.access.delegation import User
from podwright.kube.serve.event_loops import SchedulerLoop
from podwright.kube.serve.tls.secure_port import Tls
from support.serve.certificates import Authority
from support.serve.kit import Delegate, client_context, get, secure, serving
from support.waiting import patience

CLIENTS, PROXIES = Authority("clients"), Authority("proxies")
NAMED = "X-Remote-User: prometheus"
PUBLISHED = {
    "requestheader-client-ca-file": PROXIES.certificate,
    "requestheader-allowed-names": '["front-proxy-client"]',
    "requestheader-username-headers": '["X-Remote-User"]',
    "requestheader-group-headers": '["X-Remote-Group"]',
    "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
}


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(delegated_gate, "REFUSED_SECONDS", 0.0)


@pytest.fixture
def delegate():
    found = Delegate()
    found.authorities = CLIENTS.certificate
    found.published = dict(PUBLISHED)
    found.users["secret"] = User("holder", ())
    found.allowed |= {("prometheus", "get", "/metrics"), ("holder", "get", "/metrics")}
    return found


@pytest.fixture(params=["by flags", "by lookup"])
def options(request, tmp_path, delegate):
    """Both ways to say who issues certificates."""
    if request.param == "by lookup":
        return secure()
    delegate.authorities, delegate.published = "", {}
    for name, authority in (("clients", CLIENTS), ("proxies", PROXIES)):
        (tmp_path / f"{name}.crt").write_text(authority.certificate)
    return secure(
        client_ca_file=str(tmp_path / "clients.crt"),
        requestheader_client_ca_file=str(tmp_path / "proxies.crt"),
        requestheader_allowed_names=("front-proxy-client",),
    )


@pytest.fixture(params=["the chain", "the issuer"])
def evidence(request, monkeypatch):
    """Python 3.13 knows the verified chain. Before, the issuer of the certificate is looked at."""
    if request.param == "the issuer":
        original = client_issuers._issuers_of  # noqa: SLF001 -- what an older Python does is tested on a newer one

        class Older:
            def __init__(self, connection):
                self.getpeercert = connection.getpeercert

        monkeypatch.setattr(client_issuers, "_issuers_of", lambda connection, known: original(Older(connection), known))


async def ask(server, *headers, issued=None, path="/metrics"):
    status, _, body = await get(server, path, *headers, context=client_context(issued))
    return status, json.loads(body)["message"] if status != 200 else ""


@pytest.mark.usefixtures("evidence")
async def test_only_front_proxies_name_users(delegate, options):
    proxy, user = PROXIES.client("front-proxy-client"), CLIENTS.client("prometheus")
    imitation = CLIENTS.client("front-proxy-client")
    other = PROXIES.client("prometheus")
    async with serving(delegate=delegate, **options) as server:
        async with patience():
            while await ask(server, NAMED, issued=proxy) != (200, ""):
                await asyncio.sleep(0.01)  # until the lookup has an effect
        assert await ask(server, issued=user) == (200, "")
        anonymous = 'forbidden: User "system:anonymous" cannot get path "/metrics"'
        assert await ask(server, NAMED) == (403, anonymous), "no certificate"
        imitated = 'forbidden: User "front-proxy-client" cannot get path "/metrics"'
        assert await ask(server, NAMED, issued=imitation) == (403, imitated), "a user's certificate"
        assert await ask(server, NAMED, issued=other) == (401, "Unauthorized"), "a proxy's with another name"
        assert await ask(server, issued=proxy) == (401, "Unauthorized"), "a proxy that names nobody"
        assert await ask(server, "Authorization: Bearer secret", issued=proxy) == (200, ""), "with a token"


async def test_headers_with_the_user():
    proxies = FrontProxies.of_config_map(PUBLISHED | {"requestheader-uid-headers": '["X-Remote-Uid"]'})
    headers = CIMultiDict(
        [
            ("x-remote-user", "kim"),
            ("X-REMOTE-GROUP", "a"),
            ("X-Remote-Group", "b"),
            ("X-Remote-Group", ""),
            ("X-Remote-Uid", "7"),
            ("X-Remote-Extra-Scopes%2fAcme.com", "view"),
            ("X-Remote-Extra-scopes%2facme.com", "edit"),
            ("X-Other", "z"),
        ]
    )
    found = proxies.user_of(make_mocked_request("GET", "/", headers))
    groups = ("a", "b", "system:authenticated")
    assert found == User("kim", groups, "7", {"scopes/acme.com": ["view", "edit"]})
    assert proxies.user_of(make_mocked_request("GET", "/", CIMultiDict([("X-Remote-Group", "a")]))) is None
    assert FrontProxies().user_of(make_mocked_request("GET", "/", headers)) is None


def test_without_front_proxies_every_verified_certificate_is_a_users():
    connection = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO())
    assert ClientIssuers(CLIENTS.certificate).role_of(connection, "x") == Role(user=True, front_proxy=False)


@pytest.mark.parametrize("text", ["{", "5", '"x"'])
def test_a_list_that_is_none_is_named(text):
    with pytest.raises(ConfigError, match="requestheader-group-headers of the ConfigMap extension-apiserver-auth"):
        FrontProxies.of_config_map({"requestheader-group-headers": text})


async def test_garbage_in_the_config_map_changes_nothing(delegate, caplog):
    options = Options(**secure())
    loop = SchedulerLoop(asyncio.get_running_loop())
    tls = Tls(options, delegate, loop=loop, reloaded=lambda _result: None)
    await tls.check(look_up=True)
    known = tls.issuers
    assert (known.clients, known.front_proxies.issuers) == (CLIENTS.certificate, PROXIES.certificate)
    garbage = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"
    for key, text, problem in (
        ("requestheader-client-ca-file", garbage, "the client CA cannot be used"),
        ("requestheader-allowed-names", "{", "requestheader-allowed-names of the ConfigMap"),
    ):
        delegate.published = PUBLISHED | {key: text}
        await tls.check(look_up=True)
        assert f"the issuers of client certificates stay as they are: {problem}" in caplog.text
        assert tls.issuers is known


async def test_a_failed_look_up_without_a_text_is_named_by_its_type(delegate, caplog):
    loop = SchedulerLoop(asyncio.get_running_loop())
    tls = Tls(Options(**secure()), delegate, loop=loop, reloaded=lambda _result: None)
    delegate.error = TimeoutError()
    await tls.check(look_up=True)
    assert "the issuers of client certificates stay as they are: TimeoutError" in caplog.text
