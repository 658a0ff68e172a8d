"""The clients that the options define: their TLS, and what ends the start."""

import base64
import logging
import ssl

import pytest

from podwright.api.configuration.extenders import DefinedExtender
from podwright.api.configuration.load import load_configuration
from podwright.api.configuration.schema import Extender, ExtenderTLS
from podwright.core.objects.pod import parse_pod
from podwright.engine.ports import ExtenderError
from podwright.engine.raw_objects import RawObjects
from podwright.extender.clients import clients_of
from podwright.kube.client.errors import ConfigError
from podwright.kube.options.options import Options
from support.extender.server import keep, serving
from support.objects.builders import make_pod
from support.serve.certificates import Authority

POD = parse_pod(make_pod("web"), keep_raw=True)
NO_OBJECTS = RawObjects(keep_nodes=False, keep_pods=False)


@pytest.fixture(scope="module")
def authority():
    return Authority()


@pytest.fixture
def server_context(authority, tmp_path):
    certificate, key = authority.server().write(tmp_path, "server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


def data(text):
    return base64.b64encode(text.encode()).decode()


def client_of(url, tls, *, enable_https=True):
    """The client of a process for an extender with these options."""
    settings = Extender(
        url_prefix=url, filter_verb="filter", enable_https=enable_https, tls_config=tls, node_cache_capable=True
    )
    defined = DefinedExtender(name="e", settings=settings)
    return clients_of(Options(extenders={"e": defined}), {})["e"]


async def over_tls(server_context, tls, *, enable_https=True):
    """Asks an extender with these options, through the clients of a process."""
    with serving(lambda _, args: keep(args, ["a"]), server_context) as server:
        extender = client_of(server.url, tls, enable_https=enable_https)
        try:
            return list((await extender.filter(POD, ["a"], NO_OBJECTS)).kept)
        finally:
            await extender.close()


async def test_a_server_of_the_ca_is_trusted(authority, server_context):
    assert await over_tls(server_context, ExtenderTLS(ca_data=data(authority.certificate))) == ["a"]


async def test_a_ca_can_be_a_file(authority, server_context, tmp_path):
    (tmp_path / "ca.crt").write_text(authority.certificate)
    assert await over_tls(server_context, ExtenderTLS(ca_file=str(tmp_path / "ca.crt"))) == ["a"]


async def test_a_server_of_another_ca_is_not_trusted(server_context):
    other = Authority("other")
    with pytest.raises(ExtenderError, match=r'^Post "https://.*/filter": tls: failed to verify certificate: [a-z -]+$'):
        await over_tls(server_context, ExtenderTLS(ca_data=data(other.certificate)))


async def test_a_server_without_tls_is_named_in_plain_words():
    with serving(lambda _, args: keep(args, ["a"])) as server:
        extender = client_of(server.url.replace("http://", "https://"), ExtenderTLS(insecure=True))
        with pytest.raises(ExtenderError, match=r'^Post "https://.*/filter": tls: [a-z ]+$'):
            await extender.filter(POD, ["a"], NO_OBJECTS)
        await extender.close()


async def test_a_server_that_requires_a_client_certificate_is_named_in_plain_words(authority, server_context):
    server_context.verify_mode = ssl.CERT_REQUIRED
    server_context.load_verify_locations(cadata=authority.certificate)
    server_context.maximum_version = ssl.TLSVersion.TLSv1_2  # which refuses before the request is sent
    with pytest.raises(ExtenderError, match=r'^Post "https://.*/filter": (remote error: tls: [a-z ]+|EOF)$'):
        await over_tls(server_context, ExtenderTLS(ca_data=data(authority.certificate)))


async def test_the_certificate_may_be_for_the_name_that_tls_config_gives(authority, tmp_path):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.server("gpus.example", address="127.0.0.2").write(tmp_path, "named"))
    ca = data(authority.certificate)
    assert await over_tls(context, ExtenderTLS(ca_data=ca, server_name="gpus.example")) == ["a"]
    with pytest.raises(ExtenderError, match="certificate"):
        await over_tls(context, ExtenderTLS(ca_data=ca))


async def test_a_certificate_for_another_name_is_not_trusted(authority, server_context):
    with pytest.raises(ExtenderError, match="certificate"):
        await over_tls(server_context, ExtenderTLS(ca_data=data(authority.certificate), server_name="elsewhere"))


@pytest.mark.parametrize("tls", [None, ExtenderTLS(), ExtenderTLS(insecure=True)])
async def test_without_a_ca_enable_https_trusts_every_server_and_says_so(server_context, tls, caplog):
    with caplog.at_level(logging.WARNING):
        assert await over_tls(server_context, tls) == ["a"]
    assert "not verified" in caplog.text


async def test_without_enable_https_the_systems_cas_are_asked(server_context):
    with pytest.raises(ExtenderError, match="certificate"):
        await over_tls(server_context, None, enable_https=False)


async def test_a_client_certificate_is_shown(authority, server_context, tmp_path):
    server_context.verify_mode = ssl.CERT_REQUIRED
    server_context.load_verify_locations(cadata=authority.certificate)
    issued = authority.client("podwright")
    certificate, key = issued.write(tmp_path, "client")
    ca = data(authority.certificate)
    by_file = ExtenderTLS(ca_data=ca, cert_file=str(certificate), key_file=str(key))
    by_data = ExtenderTLS(ca_data=ca, cert_data=data(issued.certificate), key_data=data(issued.key), cert_file="/none")
    for tls in (by_file, by_data):
        assert await over_tls(server_context, tls) == ["a"]
    with pytest.raises(ExtenderError):
        await over_tls(server_context, ExtenderTLS(ca_data=ca))


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        pytest.param(Extender(url_prefix="ftp://x"), "urlPrefix: must begin with http:// or https://", id="a URL"),
        pytest.param(
            Extender(url_prefix="https://x", tls_config=ExtenderTLS(ca_file="/none")),
            "tlsConfig.caFile: /none: No such file or directory",
            id="a missing file",
        ),
        pytest.param(
            Extender(url_prefix="https://x", tls_config=ExtenderTLS(ca_data=data("x"), insecure=True)),
            "tlsConfig: a CA and insecure exclude each other, as with kube-scheduler",
            id="a CA that would not be asked",
        ),
        pytest.param(
            Extender(url_prefix="https://x", tls_config=ExtenderTLS(cert_data=data("x"))),
            "tlsConfig: a certificate and its key must be given together",
            id="a certificate without a key",
        ),
        pytest.param(
            Extender(url_prefix="https://x", tls_config=ExtenderTLS(ca_data=data("-----BEGIN nothing"))),
            "tlsConfig.caData: cannot be used",
            id="a CA that is none",
        ),
        pytest.param(
            Extender(
                url_prefix="https://x", tls_config=ExtenderTLS(cert_data=data("-----BEGIN x"), key_data=data("y"))
            ),
            "tlsConfig.certData: cannot be used",
            id="a certificate that is none",
        ),
    ],
)
def test_what_cannot_be_used_ends_the_start(settings, problem):
    with pytest.raises(ConfigError) as caught:
        clients_of(Options(extenders={"e": DefinedExtender(name="e", settings=settings)}), {})
    assert f"extender e: {problem}" in str(caught.value)


def test_the_url_is_required():
    defined = {"": DefinedExtender(name="", settings=Extender(filter_verb="filter"))}
    with pytest.raises(ConfigError, match="each needs a urlPrefix"):
        clients_of(Options(extenders=defined), {})


@pytest.mark.parametrize("url", ["user:secret@host", "ftp://user:secret@host", "https://user:secret@host"])
def test_a_start_that_fails_shows_no_password(url):
    text = (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f"extenders: [{{urlPrefix: '{url}', filterVerb: filter, tlsConfig: {{caFile: /none}}}}]\n"
    )
    with pytest.raises(ConfigError) as caught:
        clients_of(Options(config=load_configuration(text.encode())), {})
    assert "host" in str(caught.value)
    assert "secret" not in str(caught.value)
