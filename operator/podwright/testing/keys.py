"""The secrets of a short-lived control plane on loopback: a signing key and static tokens.

The API server creates its own TLS certificate. The tokens of service accounts need a signing key.
"""

import secrets
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from podwright.core.objects.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class TokenUser:
    """One line of the API server's token file."""

    name: str
    token: str
    groups: tuple[str, ...] = ()


def new_user(name: str, *groups: str) -> TokenUser:
    return TokenUser(name, secrets.token_urlsafe(24), groups)


def write_signing_key(path: Path) -> None:
    """Writes a new P-256 private key as PEM. The same file serves to sign tokens and to verify them."""
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    _write_secret(path, pem.decode())


def write_token_file(path: Path, users: list[TokenUser]) -> None:
    """Writes the API server's `--token-auth-file`."""
    lines = [f'{user.token},{user.name},{user.name},"{",".join(user.groups)}"' for user in users]
    _write_secret(path, "\n".join(lines) + "\n")


def _write_secret(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)
