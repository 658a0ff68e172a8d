"""The server's certificate is read again when it changes, and the last good one stays."""

from __future__ import annotations

import contextlib
import datetime
import ssl
import stat

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from podwright.engine.records.metrics import CERTIFICATE_RELOADS
from podwright.kube.certificate_chain import load_certificate_chain
from podwright.kube.client.errors import ConfigError
from podwright.kube.options.options import Options
from podwright.kube.options.values import TLS_12_SUITES, OptionsError
from podwright.kube.serve.connections.connection import ClientLimits
from podwright.kube.serve.tls.certificate import RENEW_DAYS, VALID_DAYS, ServingCertificate, self_signed
from support.serve.certificates import Authority
from support.serve.kit import Told, client_context, connect, get, hang_up, secure, serving
from support.waiting import patience, until

NOW = datetime.datetime.now(datetime.UTC)
CA = Authority()


class Watched:
    """A ServingCertificate whose files and clock a test changes."""

    def __init__(self, folder, issued=None, **options):
        self.folder = folder
        self.now = NOW
        self.results = []
        if issued is not None:
            certificate, key = issued.write(folder, "tls")
            options |= {"tls_cert_file": str(certificate), "tls_private_key_file": str(key)}
        self.certificate = ServingCertificate(Options(**options), now=lambda: self.now, reloaded=self.results.append)

    def change(self, **texts):
        """Writes the files `tls.crt` and `tls.key`, and reloads."""
        for suffix, text in texts.items():
            (self.folder / f"tls.{suffix}").write_text(text)
        before = self.certificate.context
        self.certificate.reload()
        return self.certificate.context is not before


def test_a_new_certificate_is_taken(tmp_path, caplog):
    caplog.set_level("INFO")
    watched = Watched(tmp_path, CA.server())
    new = CA.server(days=20)
    assert watched.change(crt=new.certificate, key=new.key)
    assert watched.certificate.expires > NOW + datetime.timedelta(days=19)
    assert not watched.change()
    assert watched.results == ["success"]
    assert "the server has a new certificate" in caplog.text


GARBAGE = [
    pytest.param({"crt": "garbage"}, "is not a certificate", id="garbage for a certificate"),
    pytest.param({"key": "garbage"}, "cannot be used", id="garbage for a key"),
    pytest.param({"crt": "", "key": ""}, "is not a certificate", id="empty files"),
    pytest.param({"key": CA.server().key}, "cannot be used: KEY_VALUES_MISMATCH", id="the key of another certificate"),
    pytest.param({"crt": CA.server().certificate}, "KEY_VALUES_MISMATCH", id="the certificate of another key"),
    pytest.param({"crt": "\u00e9"}, "is not PEM", id="no ASCII"),
    pytest.param({"crt": "x" * (1 << 21)}, "is larger than", id="a large file"),
]


@pytest.mark.parametrize(("texts", "problem"), GARBAGE)
def test_the_last_good_certificate_stays_and_the_problem_is_logged_once(tmp_path, caplog, texts, problem):
    good = CA.server()
    watched = Watched(tmp_path, good)
    assert not watched.change(**texts)
    assert not watched.change()
    assert not watched.change()
    assert watched.results == ["error"]
    assert caplog.text.count("the server keeps its certificate") == 1
    assert problem in caplog.text
    assert str(tmp_path) in caplog.text
    new = CA.server()
    assert watched.change(crt=new.certificate, key=new.key)
    assert watched.results == ["error", "success"]


@pytest.mark.parametrize(("texts", "problem"), GARBAGE)
def test_a_start_without_a_good_certificate_fails(tmp_path, texts, problem):
    Watched(tmp_path, CA.server()).change(**texts)
    options = {"tls_cert_file": str(tmp_path / "tls.crt"), "tls_private_key_file": str(tmp_path / "tls.key")}
    with pytest.raises(ConfigError, match=problem):
        Watched(tmp_path, **options)


def test_files_that_vanish_change_nothing(tmp_path, caplog):
    watched = Watched(tmp_path, CA.server())
    (tmp_path / "tls.key").unlink()
    assert not watched.change()
    assert not watched.change()
    assert caplog.text.count("No such file or directory") == 1


def test_an_expired_certificate_is_refused_at_the_start_and_later(tmp_path, caplog):
    expired = CA.server(days=-1)
    with pytest.raises(ConfigError, match=r"tls.crt has expired on \d{4}-"):
        Watched(tmp_path, expired)
    watched = Watched(tmp_path, CA.server())
    assert not watched.change(crt=expired.certificate, key=expired.key)
    assert "has expired on" in caplog.text


def test_a_key_with_a_passphrase_is_refused_and_nobody_is_asked(tmp_path):
    issued = CA.server()
    key = serialization.load_pem_private_key(issued.key.encode(), None)
    locked = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"pass")
    ).decode()
    watched = Watched(tmp_path, issued)
    assert not watched.change(key=locked)
    assert watched.results == ["error"]


class TestSelfSigned:
    def test_it_is_for_this_machine_and_the_address(self):
        found = x509.load_pem_x509_certificate(self_signed("192.0.2.1", NOW).certificate.encode())
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert {"localhost"} <= set(names.get_values_for_type(x509.DNSName))
        assert {str(each) for each in names.get_values_for_type(x509.IPAddress)} == {"127.0.0.1", "::1", "192.0.2.1"}
        unspecified = x509.load_pem_x509_certificate(self_signed("0.0.0.0", NOW).certificate.encode())
        assert "0.0.0.0" not in str(unspecified.extensions)

    async def test_clients_may_trust_its_file(self, tmp_path):
        async with serving(**secure(cert_dir=str(tmp_path))) as server:
            written = (tmp_path / "kube-scheduler.crt").read_text()
            assert (await get(server, "/livez", context=client_context(authority=written)))[2] == b"ok"

    def test_it_is_renewed_before_its_end(self, tmp_path):
        watched = Watched(tmp_path)
        watched.now += datetime.timedelta(days=VALID_DAYS - RENEW_DAYS - 1)
        assert not watched.change()
        watched.now += datetime.timedelta(days=2)
        assert watched.change()
        assert not watched.change()
        assert watched.certificate.expires > watched.now + datetime.timedelta(days=VALID_DAYS - 1)

    def test_it_is_kept_in_the_directory_of_certificates(self, tmp_path):
        folder = tmp_path / "new"
        Watched(tmp_path, cert_dir=str(folder))
        written = (folder / "kube-scheduler.crt").read_text()
        assert stat.S_IMODE((folder / "kube-scheduler.key").stat().st_mode) == 0o600
        Watched(tmp_path, cert_dir=str(folder))
        assert (folder / "kube-scheduler.crt").read_text() == written

    def test_a_directory_that_cannot_be_written_ends_the_start(self, tmp_path):
        with pytest.raises(ConfigError, match="--cert-dir: cannot write /proc/"):
            Watched(tmp_path, cert_dir="/proc/no/such")


class TestServing:
    async def test_files_are_served_and_new_connections_get_the_new_certificate(self, tmp_path, monkeypatch):
        monkeypatch.setattr("podwright.kube.serve.tls.secure_port.CHECK_SECONDS", 0.005)
        told = Told()
        certificate, key = CA.server().write(tmp_path, "tls")
        options = secure(tls_cert_file=str(certificate), tls_private_key_file=str(key))
        reloads = told.metrics.counter(CERTIFICATE_RELOADS)
        async with serving(told, **options) as server:
            context = client_context(authority=CA.certificate)
            assert (await get(server, "/livez", context=context))[2] == b"ok"
            certificate.write_text("garbage")
            await until(lambda: reloads.of("error")[0])
            assert (await get(server, "/livez", context=context))[2] == b"ok"
            other = Authority()
            new = other.server()
            key.write_text(new.key)
            certificate.write_text(new.certificate)
            await until(lambda: reloads.of("success")[0])
            with pytest.raises(ssl.SSLCertVerificationError):
                await get(server, "/livez", context=context)
            assert (await get(server, "/livez", context=client_context(authority=other.certificate)))[2] == b"ok"
            text = {family.name: family for family in told.metrics.registry.collect()}
            (sample,) = text["podwright_certificate_expiration_timestamp_seconds"].samples
            assert sample.value > NOW.timestamp()

    async def test_the_oldest_version_and_the_ciphers_are_those_of_the_options(self):
        old = client_context()
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        async with serving(**secure(tls_min_version="VersionTLS13")) as server:
            with pytest.raises(OSError):
                await get(server, "/livez", context=old)
            assert (await get(server, "/livez", context=client_context()))[0] == 200
        chosen = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
        async with serving(**secure(tls_cipher_suites=("TLS_AES_128_GCM_SHA256", chosen))) as server:
            _, writer = await connect(server, old)
            assert writer.get_extra_info("cipher")[0] == TLS_12_SUITES[chosen]
            await hang_up(writer)

    async def test_ciphers_that_openssl_lacks_end_the_start(self):
        with pytest.raises(ConfigError, match="--tls-cipher-suites"):
            async with serving(**secure(tls_cipher_suites=("TLS_RSA_WITH_RC4_128_SHA",))):
                pass

    async def test_handshakes_that_stop_half_way_are_dropped(self):
        told = Told()
        async with serving(told, ClientLimits(connections=8, head_seconds=0.5), **secure()) as server:
            held = [await connect(server) for _ in range(30)]
            for reader, writer in held:
                writer.write(b"\x16\x03\x01\x02\x00\x01")
                async with patience():
                    with contextlib.suppress(ConnectionError):
                        await reader.read()
                await hang_up(writer)
            assert told.dropped("head") + told.dropped("connections") + told.dropped("handshake") == 30
            assert (await get(server, "/livez", context=client_context()))[0] == 200

    async def test_plain_http_on_the_secure_port_is_no_log_line(self, caplog):
        told = Told()
        async with serving(told, **secure()) as server:
            caplog.clear()
            reader, writer = await connect(server)
            writer.write(b"GET /livez HTTP/1.1\r\nHost: here\r\n\r\n")
            async with patience():
                await reader.read()
            await hang_up(writer)
            await until(lambda: told.dropped("handshake"))
            assert caplog.records == []


def test_a_certificate_and_its_key_must_be_given_together():
    with pytest.raises(OptionsError, match="--tls-cert-file and --tls-private-key-file must be given together"):
        Options(tls_cert_file="a")


def test_no_key_is_written_to_a_disk(tmp_path, monkeypatch):
    def refuse(*_arguments, **_options):
        raise OSError("read-only file system")

    monkeypatch.setattr("tempfile.NamedTemporaryFile", refuse)
    issued = CA.server()
    load_certificate_chain(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), issued.certificate, issued.key)
