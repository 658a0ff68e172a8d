"""All certificates of the server: the default one, and those of --tls-sni-cert-key, which clients get for the names
that they ask for.

Source: k8s.io/apiserver, pkg/server/dynamiccertificates/named_certificates.go, and Go's crypto/tls.
"""

from __future__ import annotations

import contextlib
import ipaddress
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

from podwright.kube.options.options import Options
from podwright.kube.serve.tls.certificate import Now, ServingCertificate


class ServingCertificates:
    """See the module. All methods run in one thread."""

    def __init__(self, options: Options, *, now: Now, reloaded: Callable[[str], None]) -> None:
        """Loads them. `reloaded` gets "success" or "error" for each change. Raises ConfigError."""
        self._default = ServingCertificate(options, now=now, reloaded=reloaded, prepare=self._prepare)
        self._named = [
            (
                given.names,
                ServingCertificate(
                    options,
                    now=now,
                    reloaded=reloaded,
                    files=(Path(given.certificate), Path(given.key)),
                    prepare=self._prepare,
                ),
            )
            for given in options.tls_sni_cert_key
        ]
        self._by_name = dict(self._pairs())

    def context(self, address: str) -> ssl.SSLContext:
        """Returns the context for a new connection to this local address. A client that asks for a name gets the
        certificate for that name instead.
        """
        return self._by_name.get(_plain(address), self._default).context

    @property
    def expires(self) -> float:
        """When the first of them expires, in seconds since the epoch."""
        return min(each.expires.timestamp() for each in self._all)

    def reload(self) -> None:
        """Reads all files again. See `ServingCertificate.reload`."""
        for each in self._all:
            each.reload()
        self._by_name = dict(self._pairs())

    def trust_clients_of(self, authorities: str) -> None:
        """See `ServingCertificate.trust_clients_of`."""
        for each in self._all:
            each.trust_clients_of(authorities)

    @property
    def _all(self) -> list[ServingCertificate]:
        return [self._default, *(certificate for _, certificate in self._named)]

    def _pairs(self) -> Iterator[tuple[str, ServingCertificate]]:
        """Yields the pairs with the lowest precedence first, since the last pair of a name counts: given names have
        precedence over names in certificates, then earlier certificates over later ones.
        """
        for names, certificate in reversed(self._named):
            if not names:
                yield from ((name.lower(), certificate) for name in certificate.names if not _is_address(name))
        for names, certificate in reversed(self._named):
            yield from ((name.lower(), certificate) for name in names)

    def _prepare(self, context: ssl.SSLContext) -> None:
        context.sni_callback = self._choose

    def _choose(self, connection: ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> None:
        if name is not None and self._named:
            connection.context = self._of(name.lower().rstrip(".")).context

    def _of(self, name: str) -> ServingCertificate:
        wildcard = f"*.{name.partition('.')[2]}"
        return self._by_name.get(name) or self._by_name.get(wildcard) or self._default


def _is_address(name: str) -> bool:
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(name)
        return True
    return False


def _plain(address: str) -> str:
    """An IP address in its usual form, without a zone."""
    found = ipaddress.ip_address(address.partition("%")[0])
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(mapped or found)
