"""Who may call the extender."""

import aiohttp
import pytest

from podwright.engine.records.log_fields import fields_of
from podwright.extender.server.gate import ExtenderGate
from podwright.extender.server.runtime import LIMITS
from podwright.kube.client.errors import ConfigError
from podwright.kube.options.options import Options
from podwright.kube.serve.port import Address, open_port
from podwright.kube.serve.tls.certificate import ServingCertificate
from support.engine.kit import ours
from support.extender.kit import ExtenderRig
from support.serve.certificates import Authority
from support.serve.kit import client_context

ARGS = {"Pod": ours("asks"), "NodeNames": ["a"]}


async def test_a_token_lets_its_bearer_call(tmp_path):
    file = tmp_path / "token"
    file.write_text("secret\n")
    gate = ExtenderGate(certificates=False, names=(), token_file=file)
    async with ExtenderRig("a").serving(gate) as caller:
        required, wrong = "a bearer token is required\n", "the bearer token is not the one of --token-file\n"
        assert await caller.post("/filter", ARGS) == (401, required)
        assert await caller.post("/filter", ARGS, Authorization="Basic secret") == (401, required)
        assert await caller.post("/filter", ARGS, Authorization="Bearer wrong") == (401, wrong)
        assert (await caller.post("/filter", ARGS, Authorization="Bearer secret"))[0] == 200
        file.write_text("other")
        gate.reload()
        assert (await caller.post("/filter", ARGS, Authorization="Bearer secret"))[0] == 401
        file.unlink()
        gate.reload()
        assert (await caller.post("/filter", ARGS, Authorization="bearer other"))[0] == 200


@pytest.mark.parametrize("content", [b"", b"  \n", b"\xff", b"x" * 20_000])
def test_a_file_without_a_token_is_refused(tmp_path, content):
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=r"^--token-file: .* has no token"):
        ExtenderGate(certificates=False, names=(), token_file=file)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"^--token-file: cannot read"):
        ExtenderGate(certificates=False, names=(), token_file=tmp_path / "none")


@pytest.mark.parametrize(
    ("names", "client", "why_not"),
    [
        pytest.param((), "scheduler", "", id="a certificate of the issuer"),
        pytest.param((), None, "a client certificate is required", id="no certificate"),
        pytest.param(("scheduler",), "scheduler", "", id="a certificate with an allowed name"),
        pytest.param(
            ("scheduler",),
            "kubelet",
            "no name of the client certificate (kubelet) is in --allowed-client-names",
            id="a certificate with another name",
        ),
    ],
)
async def test_certificates_let_their_owners_call(tmp_path, names, client, why_not, caplog):
    authority = Authority()
    certificate, key = authority.server().write(tmp_path, "server")
    options = Options(tls_cert_file=str(certificate), tls_private_key_file=str(key))
    import datetime

    serving = ServingCertificate(options, now=lambda: datetime.datetime.now(datetime.UTC))
    serving.trust_clients_of(authority.certificate)
    gate = ExtenderGate(certificates=True, names=names, token_file=None)
    rig = ExtenderRig("a")
    address = Address("--address", "127.0.0.1", 0, lambda _address: serving.context)
    port = await open_port(rig.endpoints.routes(), gate, address, LIMITS, print)
    context = client_context(authority.client(client) if client else None, authority.certificate)
    connector = aiohttp.TCPConnector(ssl=context)
    try:
        url = f"https://127.0.0.1:{port.number}/filter"
        async with aiohttp.ClientSession(connector=connector) as session, session.post(url, json=ARGS) as response:
            assert response.status == (401 if why_not else 200)
            assert not why_not or await response.text() == f"{why_not}\n"
            logged = [fields_of(record) for record in caplog.records]
            assert logged == ([{"caller": "127.0.0.1", "err": why_not}] if why_not else [])
    finally:
        await port.close()
