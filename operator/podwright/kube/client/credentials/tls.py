"""TLS contexts for connections to the API server. Used by `credentials`."""

from __future__ import annotations

import functools
import ssl

from podwright.kube.certificate_chain import load_certificate_chain
from podwright.kube.client.errors import ConfigError

_KUBECONFIG = ("certificate-authority", "client-certificate")
"""A kubeconfig's names for the authority and the certificate."""


class NamedContext(ssl.SSLContext):
    """A TLS context that expects another name in the server's certificate than the URL has."""

    server_name: str | None = None

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        return super().wrap_bio(incoming, outgoing, server_side, self.server_name or server_hostname, session)


class _UnusableError(Exception):
    """`part`: what cannot be used; then the reason."""

    def __init__(self, part: str, error: Exception) -> None:
        super().__init__(str(getattr(error, "reason", None) or error))
        self.part = part


def tls_context(
    authority: str | None,
    certificate: str | None,
    key: str | None,
    *,
    insecure: bool = False,
    server_name: str | None = None,
    where: tuple[str, str],
    fields: tuple[str, str] = _KUBECONFIG,
) -> ssl.SSLContext:
    """A context that trusts the authority (PEM; None: the system's) and shows the certificate, if there is one.

    Equal input gives the same context, so that unchanged certificates keep their connections. `where` names the entries
    that have the authority, and the certificate with its key, and `fields` what the two are called there. Raises
    ConfigError, which begins with one of them.
    """
    try:
        return _context(authority, certificate, key, insecure=insecure, server_name=server_name)
    except _UnusableError as error:
        at = _KUBECONFIG.index(error.part)
        entry = ".".join(part for part in (where[at], fields[at]) if part)
        raise ConfigError(f"{entry}: cannot be used: {error}") from error


@functools.lru_cache(maxsize=8)
def _context(
    authority: str | None, certificate: str | None, key: str | None, *, insecure: bool, server_name: str | None
) -> ssl.SSLContext:
    context = NamedContext(ssl.PROTOCOL_TLS_CLIENT)
    context.server_name = server_name
    try:
        if insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif authority is not None:
            context.load_verify_locations(cadata=authority)
        else:
            context.load_default_certs()
    except (ssl.SSLError, ValueError) as error:
        raise _UnusableError(_KUBECONFIG[0], error) from error
    if certificate and key:
        try:
            load_certificate_chain(context, certificate, key)
        except (ssl.SSLError, ValueError) as error:
            raise _UnusableError(_KUBECONFIG[1], error) from error
    return context
