"""Builds the clients of all extenders that the options define."""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from podwright.api.configuration.extenders import DefinedExtender
from podwright.api.configuration.schema import ExtenderTLS, decoded
from podwright.kube.bounded_files import read_at_most
from podwright.kube.client.credentials.proxies import proxy_from_environment
from podwright.kube.client.credentials.tls import tls_context
from podwright.kube.client.errors import ConfigError
from podwright.kube.options.options import Options

if TYPE_CHECKING:
    from podwright.extender.client import HTTPExtender

log = logging.getLogger(__name__)


CONNECTIONS: Final = 256
"""The least number of requests that may be in progress at one extender. Attempts and Bindings have their own limits."""


def clients_of(options: Options, environ: Mapping[str, str] = os.environ) -> Mapping[str, HTTPExtender]:
    """The clients by name. Raises ConfigError for a URL, certificate or proxy that cannot be used."""
    if not options.policies.extenders:
        return {}
    from podwright.extender.client import HTTPExtender  # noqa: PLC0415 -- takes 0.1 s to import, and few have extenders

    found = {}
    for name, defined in options.policies.extenders.items():
        url = defined.settings.url_prefix
        if not url:
            raise ConfigError("extenders: each needs a urlPrefix, which one of them lacks")
        if not url.startswith(("http://", "https://")):
            raise ConfigError(f"extender {name}: urlPrefix: must begin with http:// or https://")
        found[name] = HTTPExtender(
            defined,
            context=_context(defined),
            proxy=proxy_from_environment(url, environ),
            connections=max(CONNECTIONS, defined.attempts or options.extender_attempts),
        )
    return found


def _context(defined: DefinedExtender) -> ssl.SSLContext | None:
    """None for the system's authorities. Source: `makeTransport` in kube-scheduler's extender.go."""
    settings = defined.settings
    tls = settings.tls_config or ExtenderTLS()
    where = f"extender {defined.name}: tlsConfig"
    authority = _pem(tls.ca_data, tls.ca_file, f"{where}.caFile")
    if authority is not None and tls.insecure:
        raise ConfigError(f"{where}: a CA and insecure exclude each other, as with kube-scheduler")
    insecure = tls.insecure or (settings.enable_https and authority is None)
    if settings.tls_config is None and not insecure:
        return None
    if insecure and settings.url_prefix.startswith("https://"):
        log.warning(
            "extender %s: its certificate is not verified, as with kube-scheduler: tlsConfig has no CA", defined.name
        )
    certificate = _pem(tls.cert_data, tls.cert_file, f"{where}.certFile")
    key = _pem(tls.key_data, tls.key_file, f"{where}.keyFile")
    if (certificate is None) != (key is None):
        raise ConfigError(f"{where}: a certificate and its key must be given together")
    return tls_context(
        authority,
        certificate,
        key,
        insecure=insecure,
        server_name=tls.server_name or None,
        where=(where, where),
        fields=("caData" if tls.ca_data else "caFile", "certData" if tls.cert_data else "certFile"),
    )


def _pem(data: str, file: str, where: str) -> str | None:
    """The data, which take precedence, or the content of the file; None if there is neither."""
    if data:
        return decoded(data).decode("utf-8", "replace")
    if not file:
        return None
    try:
        return read_at_most(Path(file)).decode("utf-8", "replace")
    except OSError as error:
        raise ConfigError(f"{where}: {file}: {error.strerror}") from error
