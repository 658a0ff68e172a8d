"""Certificate authorities for tests."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PEM = serialization.Encoding.PEM


@dataclass(frozen=True)
class Issued:
    """A certificate and its key, as PEM."""

    certificate: str
    key: str

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Writes both to files."""
        certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
        key.write_text(self.key)
        certificate.write_text(self.certificate)
        return certificate, key


class Authority:
    """Issues certificates."""

    def __init__(self, name: str = "test-ca") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        built = self._builder(self._name, self._key, days=10).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        usage = dict.fromkeys(
            (
                *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
                *("crl_sign", "encipher_only", "decipher_only"),
            ),
            False,
        )
        built = built.add_extension(x509.KeyUsage(key_cert_sign=True, **usage), critical=True)
        self.certificate = built.sign(self._key, hashes.SHA256()).public_bytes(PEM).decode()

    def server(self, *names: str, days: float = 10, address: str = "127.0.0.1") -> Issued:
        """For an address and these DNS names. It has expired if `days` is negative."""
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server")])
        subject = x509.SubjectAlternativeName(
            [x509.IPAddress(ipaddress.ip_address(address)), *map(x509.DNSName, names)]
        )
        return self._issue(name, subject, ExtendedKeyUsageOID.SERVER_AUTH, days)

    def client(self, name: str, groups: Sequence[str] = (), *, days: float = 10, server: bool = False) -> Issued:
        """For a user. With `server`, it is not meant for clients."""
        parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        parts += [x509.NameAttribute(NameOID.COMMON_NAME, name)] if name else []
        usage = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
        return self._issue(x509.Name(parts), None, usage, days)

    def _issue(
        self, name: x509.Name, names: x509.SubjectAlternativeName | None, usage: x509.ObjectIdentifier, days: float
    ) -> Issued:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(name, key, days).add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        private = key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        return Issued(builder.sign(self._key, hashes.SHA256()).public_bytes(PEM).decode(), private.decode())

    def _builder(self, name: x509.Name, key: ec.EllipticCurvePrivateKey, days: float) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=30))
            .not_valid_after(now + datetime.timedelta(days=days))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
