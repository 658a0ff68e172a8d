"""Clients get the certificate for the name that they ask for."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ssl

import pytest

from podwright.kube.client.errors import ConfigError
from podwright.kube.options.options import Options
from podwright.kube.options.values import CertificateForNames
from podwright.kube.serve.tls.named_certificates import ServingCertificates
from support.serve.certificates import Authority
from support.serve.kit import secure, serving

DEFAULT, FIRST, SECOND, THIRD = (Authority(name) for name in ("default", "first", "second", "third"))


def given(folder, name, issued, *names):
    """The value of --tls-sni-cert-key."""
    return CertificateForNames(*map(str, issued.write(folder, name)), names)


@pytest.fixture
def options(tmp_path):
    certificate, key = DEFAULT.server("default.example").write(tmp_path, "default")
    return {
        "tls_cert_file": str(certificate),
        "tls_private_key_file": str(key),
        "tls_sni_cert_key": (
            given(tmp_path, "first", FIRST.server("a.example", "*.b.example")),
            given(tmp_path, "second", SECOND.server("a.example"), "c.example", "*.b.example"),
            given(tmp_path, "third", THIRD.server("a.example", "d.example"), "127.0.0.1"),
        ),
    }


async def issuer(server, name):
    """The common name of the issuer of the certificate that a client gets who asks for this name."""
    context = ssl.create_default_context()
    for authority in (DEFAULT, FIRST, SECOND, THIRD):
        context.load_verify_locations(cadata=authority.certificate)
    context.check_hostname = False
    host = name or "127.0.0.1"
    _, writer = await asyncio.open_connection("127.0.0.1", server.ports[-1], ssl=context, server_hostname=host)
    certificate = writer.get_extra_info("peercert")
    writer.transport.abort()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return dict(part for parts in certificate["issuer"] for part in parts)["commonName"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("a.example", "first", id="the first certificate that has the name"),
        pytest.param("A.Example", "first", id="in upper case"),
        pytest.param("c.example", "second", id="a name that was given"),
        pytest.param("x.b.example", "second", id="a wildcard that was given, not one of a certificate"),
        pytest.param("x.y.b.example", "default", id="two labels for a wildcard"),
        pytest.param("d.example", "default", id="a name in a certificate for which others were given"),
        pytest.param("other.example", "default", id="another name"),
        pytest.param("", "third", id="no name, but an address that was given"),
    ],
)
async def test_the_name_decides(options, name, expected):
    async with serving(**secure(authentication_skip_lookup=True, **options)) as server:
        assert await issuer(server, name) == expected


def test_each_certificate_is_reloaded(options, tmp_path):
    results = []
    now = datetime.datetime.now(datetime.UTC)
    certificates = ServingCertificates(Options(**options), now=lambda: now, reloaded=results.append)
    assert certificates.expires < (now + datetime.timedelta(days=10)).timestamp()
    before = certificates.context("127.0.0.1"), certificates.context("192.0.2.1")
    THIRD.server(days=20).write(tmp_path, "third")
    certificates.reload()
    assert results == ["success"]
    assert certificates.context("::ffff:127.0.0.1") is not before[0]
    assert certificates.context("192.0.2.1") is before[1]
    (tmp_path / "third.crt").write_text("garbage")
    certificates.reload()
    assert results == ["success", "error"]


def test_a_certificate_that_cannot_be_used_ends_the_start(options, tmp_path):
    (tmp_path / "second.key").write_text(FIRST.server().key)
    with pytest.raises(ConfigError, match=r"second\.crt and its private key cannot be used: KEY_VALUES_MISMATCH"):
        ServingCertificates(Options(**options), now=lambda: datetime.datetime.now(datetime.UTC), reloaded=print)


@pytest.mark.parametrize(
    ("curves", "offered", "agreed"),
    [
        pytest.param((24,), "secp384r1", True, id="the only curve"),
        pytest.param((24,), "prime256v1", False, id="another curve"),
        pytest.param((29,), "X25519", True, id="X25519"),
        pytest.param((), "prime256v1", True, id="no preference"),
        pytest.param((23, 24), "secp521r1", True, id="several, which has no effect"),
    ],
)
async def test_the_curve_can_be_restricted(curves, offered, agreed):
    options = secure(authentication_skip_lookup=True, tls_curve_preferences=curves)
    warned = [*Options(tls_curve_preferences=curves).warnings]
    assert len(warned) == (len(curves) > 1)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ecdh_curve(offered)
    async with serving(**options) as server:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", server.ports[-1], ssl=context)
        except (ssl.SSLError, ConnectionError):
            assert not agreed
        else:
            assert agreed
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
