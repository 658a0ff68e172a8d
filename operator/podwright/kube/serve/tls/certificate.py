"""The certificate of the server: from files, which are read again when they change, or self-signed.

The last good certificate stays in use while the files hold garbage, a key of another certificate, or an expired
certificate.
"""

from __future__ import annotations

import datetime
import ipaddress
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from podwright.core.objects.dataclass import dataclass
from podwright.kube.bounded_files import read_at_most
from podwright.kube.certificate_chain import load_certificate_chain
from podwright.kube.client.errors import ConfigError
from podwright.kube.options.options import Options
from podwright.kube.options.values import TLS_12_SUITES

log = logging.getLogger(__name__)

PAIR_NAME: Final = "kube-scheduler"
"""The name of the files in --cert-dir without their suffixes, as kube-scheduler's."""
VALID_DAYS: Final = 365
"""How long a self-signed certificate is valid."""
RENEW_DAYS: Final = 30
"""A self-signed certificate is replaced this many days before it expires."""
PEM: Final = serialization.Encoding.PEM
_KEY_USAGES: Final = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
    *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)

Now = Callable[[], datetime.datetime]
"""The time, with its zone."""
Files = tuple[Path, Path]
"""The files of the certificate and of its key."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate, followed by those of its issuers, and its private key, as PEM."""

    certificate: str
    key: str


class ServingCertificate:
    """See the module. `context` is the TLS context for new connections. All methods run in one thread."""

    def __init__(
        self,
        options: Options,
        *,
        now: Now,
        reloaded: Callable[[str], None] = lambda _result: None,
        files: Files | None = None,
        prepare: Callable[[ssl.SSLContext], None] = lambda _context: None,
    ) -> None:
        """Loads the certificate: from `files`, or as the options say. Raises ConfigError, which names the option or the
        file.

        `reloaded` gets "success" or "error" for each change, `prepare` each new context.
        """
        self._options = options
        self._prepare = prepare
        self._now = now
        self._reloaded = reloaded
        self._client_authorities = ""
        self._files = files or _files(options)
        self._made_here = files is None and options.tls_cert_file is None
        self._pair = self._first_pair()
        self._rejected: Pair | str | None = None
        """The last rejected pair or its problem, so that each change is reported once."""
        self.expires = _check(self._pair, now(), self._what)
        """The end of the certificate's validity."""
        self.context = self._new_context(self._pair, "")

    def reload(self) -> None:
        """Reads the files again, and replaces a self-signed certificate that ends soon."""
        try:
            pair: Pair = self._newest()
        except ConfigError as error:
            self._reject(str(error), error)
            return
        if pair in (self._pair, self._rejected):
            return
        try:
            expires = _check(pair, self._now(), self._what)
            context = self._new_context(pair, self._client_authorities)
        except ConfigError as error:
            self._reject(pair, error)
            return
        self._pair, self.expires, self.context, self._rejected = pair, expires, context, None
        log.info("the server has a new certificate, valid until %s", expires)
        self._reloaded("success")

    def trust_clients_of(self, authorities: str) -> None:
        """Asks clients for certificates of these issuers (PEM) from now on. Raises ConfigError; then nothing has
        changed.
        """
        if authorities != self._client_authorities:
            self.context = self._new_context(self._pair, authorities)
            self._client_authorities = authorities

    @property
    def names(self) -> Sequence[str]:
        """The DNS names that the certificate is for, also with wildcards."""
        certificate = x509.load_pem_x509_certificate(self._pair.certificate.encode())
        commons = [str(each.value) for each in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        try:
            found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            return commons
        return [*commons, *found.get_values_for_type(x509.DNSName)]

    @property
    def _what(self) -> str:
        """How messages name the certificate."""
        return str(self._files[0]) if self._files else "the self-signed certificate"

    def _first_pair(self) -> Pair:
        if self._files is None:
            return self_signed(self._options.bind_address, self._now())
        if self._made_here and not all(path.exists() for path in self._files):
            pair = self_signed(self._options.bind_address, self._now())
            _write(pair, self._files)
        return _read(self._files)

    def _newest(self) -> Pair:
        if self._files is not None:
            return _read(self._files)
        if self._now() < self.expires - datetime.timedelta(days=RENEW_DAYS):
            return self._pair
        return self_signed(self._options.bind_address, self._now())

    def _reject(self, found: Pair | str, error: ConfigError) -> None:
        if found != self._rejected:
            self._rejected = found
            log.error("the server keeps its certificate: %s", error)
            self._reloaded("error")

    def _new_context(self, pair: Pair, client_authorities: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        newest = self._options.tls_min_version == "VersionTLS13"
        context.minimum_version = ssl.TLSVersion.TLSv1_3 if newest else ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        self._prepare(context)
        if self._options.only_curve is not None:
            context.set_ecdh_curve(self._options.only_curve)
        suites = [TLS_12_SUITES[name] for name in self._options.tls_cipher_suites if name in TLS_12_SUITES]
        try:
            if suites:
                context.set_ciphers(":".join(suites))
        except ssl.SSLError as error:
            raise ConfigError("--tls-cipher-suites: OpenSSL supports none of these") from error
        try:
            load_certificate_chain(context, pair.certificate, pair.key)
        except (ssl.SSLError, ValueError) as error:
            reason = getattr(error, "reason", None) or str(error)
            raise ConfigError(f"{self._what} and its private key cannot be used: {reason}") from error
        if client_authorities:
            try:
                context.load_verify_locations(cadata=client_authorities)
            except (ssl.SSLError, ValueError) as error:
                raise ConfigError(f"the client CA cannot be used: {error}") from error
            context.verify_mode = ssl.CERT_OPTIONAL
        return context


def self_signed(address: str, now: datetime.datetime) -> Pair:
    """A new certificate for this machine's name, for localhost, and for the address that the server listens on.

    A new authority issues it, whose certificate follows, so that clients can trust the file.
    """
    host = socket.gethostname()
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in ("localhost", host) if name and name.isascii()]
    addresses = dict.fromkeys(map(ipaddress.ip_address, ("127.0.0.1", "::1", address)))
    names += [x509.IPAddress(each) for each in addresses if not each.is_unspecified]
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = _issued(
        f"{host}-ca@{now:%Y%m%d%H%M%S}", f"{host}-ca@{now:%Y%m%d%H%M%S}", authority_key, authority_key, now
    )
    certificate = _issued(f"{host}@{now:%Y%m%d%H%M%S}", f"{host}-ca@{now:%Y%m%d%H%M%S}", key, authority_key, now, names)
    private = key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Pair((certificate + authority).decode(), private.decode())


def _issued(
    name: str,
    issuer: str,
    key: ec.EllipticCurvePrivateKey,
    issuer_key: ec.EllipticCurvePrivateKey,
    now: datetime.datetime,
    names: Sequence[x509.GeneralName] = (),
) -> bytes:
    """A certificate as PEM: a server's with these names, or an authority's without."""
    subject, by = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, each[-64:])]) for each in (name, issuer))
    public, issuer_public = key.public_key(), issuer_key.public_key()
    usage = dict.fromkeys(_KEY_USAGES, False) | ({"digital_signature": True} if names else {"key_cert_sign": True})
    builder = (
        x509.CertificateBuilder(issuer_name=by, subject_name=subject, public_key=public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=VALID_DAYS))
        .add_extension(x509.BasicConstraints(ca=not names, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(**usage), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_public), critical=False)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False).add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False
        )
    return builder.sign(issuer_key, hashes.SHA256()).public_bytes(PEM)


def read_pem(path: Path) -> str:
    """The text of a file with certificates or a key. Raises ConfigError."""
    try:
        content = read_at_most(path)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    try:
        return content.decode("ascii")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not PEM") from error


def _files(options: Options) -> Files | None:
    if options.tls_cert_file is not None and options.tls_private_key_file is not None:
        return Path(options.tls_cert_file), Path(options.tls_private_key_file)
    if options.cert_dir:
        folder = Path(options.cert_dir)
        return folder / f"{PAIR_NAME}.crt", folder / f"{PAIR_NAME}.key"
    return None


def _read(files: Files) -> Pair:
    certificate, key = map(read_pem, files)
    return Pair(certificate, key)


def _write(pair: Pair, files: Files) -> None:
    certificate, key = files
    try:
        certificate.parent.mkdir(parents=True, exist_ok=True)
        key.touch(mode=0o600)
        key.write_text(pair.key)
        certificate.write_text(pair.certificate)
    except OSError as error:
        raise ConfigError(f"--cert-dir: cannot write {error.filename}: {error.strerror}") from error


def _check(pair: Pair, now: datetime.datetime, what: str) -> datetime.datetime:
    """The end of the certificate's validity. Raises ConfigError for a certificate that cannot be read or has
    expired.
    """
    try:
        certificates = x509.load_pem_x509_certificates(pair.certificate.encode())
    except ValueError as error:
        raise ConfigError(f"{what} is not a certificate: {error}") from error
    expires = certificates[0].not_valid_after_utc
    if expires <= now:
        raise ConfigError(f"{what} has expired on {expires:%Y-%m-%d %H:%M:%S} UTC")
    return expires
