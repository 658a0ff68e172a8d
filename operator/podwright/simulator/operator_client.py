"""Asks a running operator over HTTP, with the caller's own credentials."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlsplit

from podwright.core.framework.interface import ClusterError
from podwright.kube.client.credentials.credentials import Credentials
from podwright.kube.client.errors import ConfigError, is_not_found
from podwright.simulator.live import LiveConnection

SECONDS: Final = 10.0
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
Answer = Mapping[str, Any]


class OperatorError(Exception):
    """The operator could not be reached, or did not answer. The message names its URL."""


def ask(
    url: str, path: str, query: Mapping[str, str], connection: LiveConnection, *, ca_file: str | None = None
) -> Answer:
    """The operator's answer; empty if it answers 404. Raises OperatorError.

    `url`: `https://HOST:PORT`, or `http://127.0.0.1:PORT`, which is sent no credentials. `ca_file`: the authorities of
    the operator's certificate, besides those of the API server.
    """
    from podwright.kube.client.api_client import ApiReader, connected  # noqa: PLC0415 -- see there

    try:
        with connected(_credentials(url, connection, ca_file)) as client:
            found = ApiReader(client, SECONDS).get(path, query)
    except (ClusterError, OSError, ConfigError, ValueError) as error:
        if is_not_found(error):
            return {}
        raise OperatorError(f"{url}: {error}") from error
    return found if isinstance(found, Mapping) else {}


def _credentials(url: str, connection: LiveConnection, ca_file: str | None) -> Credentials:
    base = urlsplit(url)
    server = f"{base.scheme}://{base.netloc}"
    if base.scheme == "http" and base.hostname in _LOOPBACK:
        if connection.as_user or connection.as_groups:
            raise ConfigError("over plain HTTP there are no users: leave out --as")
        return Credentials(server, None, ())
    if base.scheme != "https":
        raise ConfigError("expected https://HOST:PORT, or http://127.0.0.1:PORT")
    ours = connection.credentials().load()
    context = ours.ssl_context or ssl.create_default_context()
    if ca_file is not None:
        context.load_verify_locations(ca_file)
    return replace(ours, server=server, ssl_context=context, proxy=None)
