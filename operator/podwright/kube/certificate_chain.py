"""Loads certificates and private keys that are in memory into TLS contexts."""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
from collections.abc import Iterator


def load_certificate_chain(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Lets the context identify itself with these PEM texts. Raises ssl.SSLError, and ValueError for a key that needs a
    passphrase.
    """
    with _file(f"{certificate}\n{key}\n".encode()) as path:
        context.load_cert_chain(path, password=_no_passphrase)


def _no_passphrase() -> str:
    """Without this, the ssl module asks the terminal."""
    raise ValueError("the key is encrypted")


@contextlib.contextmanager
def _file(content: bytes) -> Iterator[str]:
    """The name of a file with this content, while the block runs. Python's ssl module reads private keys from files
    only.
    """
    if not hasattr(os, "memfd_create"):
        with tempfile.NamedTemporaryFile(suffix=".pem") as file:
            file.write(content)
            file.flush()
            yield file.name
        return
    # The key does not go to a disk, and the root file system may be read-only.
    descriptor = os.memfd_create("certificate")
    try:
        os.write(descriptor, content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
