"""Asks a running operator over HTTP, with the caller's own credentials."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Mapping
from typing import Any, Final

import aiohttp
import orjson
from yarl import URL

from podwright.kube.client.credentials import credentials
from podwright.kube.client.errors import ConfigError
from podwright.simulator.live import Connection

SECONDS: Final = 10.0
LONGEST_ANSWER: Final = 16 << 20
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
Answer = Mapping[str, Any]


class OperatorError(Exception):
    """The operator could not be reached, or did not answer. The message names its URL."""


def ask(url: str, path: str, query: Mapping[str, str], connection: Connection, *, ca_file: str | None = None) -> Answer:
    """The operator's answer; empty if it answers 404. Raises OperatorError.

    `url`: `https://HOST:PORT`, or `http://127.0.0.1:PORT`, which is sent no credentials. `ca_file`: the authorities of
    the operator's certificate, besides those of the API server.
    """
    try:
        return asyncio.run(_asked(url, path, query, connection, ca_file))
    except (aiohttp.ClientError, OSError, ConfigError, ValueError) as error:
        raise OperatorError(f"{url}: {error or type(error).__name__}") from error


async def _asked(url: str, path: str, query: Mapping[str, str], connection: Connection, ca_file: str | None) -> Answer:
    base = URL(url)
    headers: list[tuple[str, str]] = []
    context: ssl.SSLContext | None = None
    if base.scheme == "https":
        source = credentials.load(connection.kubeconfig, connection.context, time.time, time.monotonic)
        current = await source.current()
        headers, context = list(current.headers), current.ssl_context or ssl.create_default_context()
        if ca_file is not None:
            context.load_verify_locations(ca_file)
    elif base.scheme != "http" or base.host not in _LOOPBACK:
        raise OperatorError(f"{url}: expected https://HOST:PORT, or http://127.0.0.1:PORT")
    where = base.with_path(path).with_query(query)
    timeout = aiohttp.ClientTimeout(total=SECONDS)
    async with (
        aiohttp.ClientSession(trust_env=False, timeout=timeout) as session,
        session.get(
            where, headers=headers, ssl=context if context is not None else False, allow_redirects=False
        ) as response,
    ):
        body = await _body(response)
        if response.status == 404:
            return {}
        if response.status != 200:
            raise OperatorError(f"{url}: {response.status} {body[:300].decode(errors='replace').strip()}")
        found = orjson.loads(body)
        return found if isinstance(found, Mapping) else {}


async def _body(response: aiohttp.ClientResponse) -> bytes:
    """The body, cut after LONGEST_ANSWER bytes."""
    pieces: list[bytes] = []
    left = LONGEST_ANSWER
    while left > 0 and (piece := await response.content.read(left)):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)
