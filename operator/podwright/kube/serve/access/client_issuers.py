"""The issuers of client certificates: of users' certificates, and of those of front proxies, which name the user of
each request in its headers.

TLS verifies a certificate with all of them together; `role_of` says which of them a verified certificate comes from.
Source: the Kubernetes documentation, "Authenticating Proxy", and k8s.io/apiserver,
pkg/authentication/request/headerrequest and x509.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote

import orjson
from aiohttp import web
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding

from podwright.core.objects.dataclass import dataclass
from podwright.kube.client.errors import ConfigError
from podwright.kube.options.options import Options
from podwright.kube.serve.access.delegation import AUTHENTICATED, User

CLIENTS: Final = "client-ca-file"
"""The key of the ConfigMap with the issuers of users' certificates."""
FRONT_PROXIES: Final = "requestheader-client-ca-file"


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontProxies:
    """`issuers`: PEM, empty for none. `names`: the common names of the certificates, empty for any. The rest: names of
    headers.
    """

    issuers: str = ""
    names: Sequence[str] = ()
    username_headers: Sequence[str] = ()
    uid_headers: Sequence[str] = ()
    group_headers: Sequence[str] = ()
    extra_prefixes: Sequence[str] = ()

    @classmethod
    def of_options(cls, options: Options, issuers: str) -> FrontProxies:
        return cls(
            issuers=issuers,
            names=options.requestheader_allowed_names,
            username_headers=options.requestheader_username_headers,
            uid_headers=options.requestheader_uid_headers,
            group_headers=options.requestheader_group_headers,
            extra_prefixes=options.requestheader_extra_headers_prefix,
        )

    @classmethod
    def of_config_map(cls, data: Mapping[str, Any]) -> FrontProxies:
        """The front proxies that the API server publishes in its ConfigMap. Raises ConfigError for a value that is not
        a list.
        """
        return cls(
            issuers=str(data.get(FRONT_PROXIES) or ""),
            names=_list(data, "requestheader-allowed-names"),
            username_headers=_list(data, "requestheader-username-headers"),
            uid_headers=_list(data, "requestheader-uid-headers"),
            group_headers=_list(data, "requestheader-group-headers"),
            extra_prefixes=_list(data, "requestheader-extra-headers-prefix"),
        )

    def user_of(self, request: web.Request) -> User | None:
        """The user whom the headers name; None if they name none."""
        headers = request.headers
        name = _first(headers, self.username_headers)
        if not name:
            return None
        groups = [value for header in self.group_headers for value in headers.getall(header, ()) if value]
        extra: dict[str, list[str]] = {}
        for prefix in map(str.lower, self.extra_prefixes):
            for header, value in headers.items():
                if header.lower().startswith(prefix):
                    extra.setdefault(unquote(header[len(prefix) :].lower()), []).append(value)
        return User(name, tuple(dict.fromkeys((*groups, AUTHENTICATED))), _first(headers, self.uid_headers), extra)


@dataclass(frozen=True, slots=True)
class Role:
    """The permitted uses of a client certificate."""

    user: bool
    front_proxy: bool


class ClientIssuers:
    """See the module. All methods run in one thread."""

    def __init__(self, clients: str = "", front_proxies: FrontProxies | None = None) -> None:
        """`clients`: PEM. Raises ConfigError for certificates that cannot be read."""
        self.clients = clients
        self.front_proxies = front_proxies or FrontProxies()
        self._users, self._proxies = (certificates_of(pem) for pem in (clients, self.front_proxies.issuers))

    @property
    def pem(self) -> str:
        """All issuers as PEM."""
        return "\n".join(filter(None, (self.clients, self.front_proxies.issuers)))

    def role_of(self, connection: ssl.SSLObject, common_name: str) -> Role:
        """Returns the permitted uses of the client's certificate, which TLS has verified."""
        if not self._proxies:
            return Role(user=True, front_proxy=False)
        chain = _issuers_of(connection, {**self._users, **self._proxies})
        named = not self.front_proxies.names or common_name in self.front_proxies.names
        return Role(user=not chain.isdisjoint(self._users), front_proxy=named and not chain.isdisjoint(self._proxies))


def _issuers_of(connection: ssl.SSLObject, known: Mapping[bytes, x509.Certificate]) -> set[bytes]:
    """The issuers of the client's certificate, as DER."""
    verified = getattr(connection, "get_verified_chain", None)  # since Python 3.13
    if verified is not None:
        return set(verified()[1:])
    der = connection.getpeercert(binary_form=True)
    if not der:
        return set()
    certificate = x509.load_der_x509_certificate(der)
    return {issuer for issuer, authority in known.items() if _is_issued_by(certificate, authority)}


def _is_issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, TypeError, ValueError):
        return False
    return True


def certificates_of(pem: str, where: str = "") -> Mapping[bytes, x509.Certificate]:
    """The certificates by their DER. Raises ConfigError, whose message begins with `where` they come from."""
    try:
        found = x509.load_pem_x509_certificates(pem.encode()) if pem else []
    except ValueError as error:
        reason = str(error).partition(". ")[0]
        raise ConfigError(f"the client CA{where and f' in {where}'} cannot be used: {reason}") from error
    return {certificate.public_bytes(Encoding.DER): certificate for certificate in found}


def _list(data: Mapping[str, Any], key: str) -> Sequence[str]:
    text = data.get(key)
    if not text:
        return ()
    try:
        found = orjson.loads(text)
    except (TypeError, ValueError):
        found = None
    if not isinstance(found, list):
        raise ConfigError(f"{key} of the ConfigMap extension-apiserver-authentication is not a list")
    return tuple(map(str, found))


def _first(headers: Mapping[str, str], names: Sequence[str]) -> str:
    """The first header of these names that is not empty; only its first value counts."""
    return next((value for name in names if (value := headers.get(name, ""))), "")
