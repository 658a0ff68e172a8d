"""The secrets of a short-lived control plane on loopback: a signing key and static tokens.

The API server creates its own TLS certificate. The tokens of service accounts need a signing key. No cryptography
package is necessary: a P-256 private key is any 32 random bytes below the curve's order, and readers derive the public
key (RFC 5915).
"""

import base64
import secrets
import textwrap
from dataclasses import dataclass
from pathlib import Path

_P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_VERSION_1 = bytes.fromhex("020101")
_OCTETS_32 = bytes.fromhex("0420")
_CURVE_P256 = bytes.fromhex("a00a06082a8648ce3d030107")


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
    number = secrets.randbelow(_P256_ORDER - 1) + 1
    body = _VERSION_1 + _OCTETS_32 + number.to_bytes(32, "big") + _CURVE_P256
    der = bytes([0x30, len(body)]) + body
    text = "\n".join(textwrap.wrap(base64.b64encode(der).decode(), 64))
    _write_secret(path, f"-----BEGIN EC PRIVATE KEY-----\n{text}\n-----END EC PRIVATE KEY-----\n")


def write_token_file(path: Path, users: list[TokenUser]) -> None:
    """Writes the API server's `--token-auth-file`."""
    lines = [f'{user.token},{user.name},{user.name},"{",".join(user.groups)}"' for user in users]
    _write_secret(path, "\n".join(lines) + "\n")


def _write_secret(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)
