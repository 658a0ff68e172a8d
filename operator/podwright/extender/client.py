"""Calls extenders over HTTP, as kube-scheduler does: the adapter of the engine's port `Extender`.

Errors carry kube-scheduler's words where pods' conditions show them. Unlike kube-scheduler, the client follows no
redirects, which could send pods' contents elsewhere, reads no answer beyond a bound, and accepts no node that it did
not ask about. Source: `HTTPExtender` in kube-scheduler's extender.go.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import aiohttp
import orjson

from podwright import __version__
from podwright.api.configuration.extenders import DefinedExtender, shown_url
from podwright.core.framework.interface import MAX_SCORE
from podwright.core.objects.durations import parse_duration
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.raw import value_at
from podwright.engine.ports import ExtenderError, FilterAnswer, NodeVictims, bounded
from podwright.engine.raw_objects import RawObjects, as_sent, raw_of
from podwright.extender import wire
from podwright.extender.go_json import GoJSONError

T = TypeVar("T")

DEFAULT_SECONDS: Final = 5.0
"""The timeout of a call if the configuration gives none. Source: `DefaultExtenderTimeout`."""
MAX_ANSWER: Final = 4 << 20
"""The most bytes of an answer, in addition to twice the bytes of the question: a valid answer repeats nodes and gives
reasons.
"""
DECODED_HERE: Final = 64 << 10
"""Longer answers are decoded in a thread, so that the loop goes on meanwhile."""
MAX_REASONS: Final = 1_000
MAX_REASONS_TEXT: Final = 64 << 10
"""The most reasons in an answer that differ, and the most characters that they have."""
OTHER_REASONS: Final = "other reasons"
_SCALE: Final = MAX_SCORE // wire.MAX_EXTENDER_PRIORITY
_TIMED_OUT: Final = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
_TIMED_OUT_READING: Final = "context deadline exceeded (Client.Timeout or context cancellation while reading body)"
_OPENSSL: Final = re.compile(r"\[SSL: (\w+)\]")
"""How Python gives OpenSSL's reason."""
_HEADERS: Final = {
    "Content-Type": "application/json",
    "Accept-Encoding": "identity",  # a compressed answer has no bound
    "User-Agent": f"podwright/{__version__}",
}


class HTTPExtender:
    """One extender. See the module."""

    def __init__(
        self, defined: DefinedExtender, *, context: ssl.SSLContext | None, proxy: str | None, connections: int
    ) -> None:
        """`context`: None for the system's authorities; `proxy`: its URL; `connections`: how many requests may be on
        their way at once.
        """
        self.defined = defined
        self._settings = defined.settings
        self._timeout = _seconds(defined.settings.http_timeout)
        self._context = context
        self._proxy = proxy
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    # The verbs

    async def filter(self, pod: PodInfo, nodes: Sequence[str], raw: RawObjects) -> FilterAnswer:
        result = await self._ask(self._settings.filter_verb, self._args(pod, nodes, raw), wire.decode_filter_result)
        if result.error:
            raise ExtenderError(result.error)
        kept: Sequence[str] = ()
        if self._settings.node_cache_capable and result.node_names is not None:
            kept = result.node_names
        elif result.nodes is not None:
            kept = [_name_of(node) for node in result.nodes]
        asked = frozenset(nodes)
        for name in kept:
            if name not in asked:
                raise ExtenderError(
                    f'extender "{self.defined.shown_url}" claims a filtered node "{name}" which is not found in the '
                    "input node list"
                )
        reasons = _Reasons()
        unresolvable = reasons.bounded(result.failed_and_unresolvable_nodes)
        return FilterAnswer(kept=kept, failed=reasons.bounded(result.failed_nodes), unresolvable=unresolvable)

    async def prioritize(self, pod: PodInfo, nodes: Sequence[str], raw: RawObjects) -> Mapping[str, int]:
        settings = self._settings
        answer = await self._ask(settings.prioritize_verb, self._args(pod, nodes, raw), wire.decode_host_priorities)
        factor = settings.weight * _SCALE
        scores: dict[str, int] = {}
        for host, score in answer:
            scores[host] = scores.get(host, 0) + score * factor
        return scores

    async def preempt(
        self, pod: PodInfo, victims: Mapping[str, NodeVictims], raw: RawObjects
    ) -> Mapping[str, NodeVictims]:
        if self._settings.node_cache_capable:
            meta = {name: wire.MetaVictims(each.uids, each.violations) for name, each in victims.items()}
            args = wire.PreemptionArgs(pod=_pod(pod), meta_victims=meta)
        else:
            full = {
                name: wire.Victims(
                    [_json(found) for uid in each.uids if (found := raw.pod(uid)) is not None], each.violations
                )
                for name, each in victims.items()
            }
            args = wire.PreemptionArgs(pod=_pod(pod), victims=full)
        result = await self._ask(self._settings.preempt_verb, args, wire.decode_preemption_result)
        return {name: NodeVictims(each.uids, each.num_pdb_violations) for name, each in result.meta_victims.items()}

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        args = wire.BindingArgs(pod_name=pod.name, pod_namespace=pod.namespace, pod_uid=pod.uid, node=node_name)
        result = await self._ask(self._settings.bind_verb, args, wire.decode_binding_result, repeatable=False)
        if result.error:
            raise ExtenderError(result.error)

    def _args(self, pod: PodInfo, nodes: Sequence[str], raw: RawObjects) -> wire.ExtenderArgs:
        if self._settings.node_cache_capable:
            return wire.ExtenderArgs(pod=_pod(pod), node_names=nodes)
        return wire.ExtenderArgs(pod=_pod(pod), nodes=[_json(raw.nodes[name]) for name in nodes if name in raw.nodes])

    # Requests

    async def _ask(
        self, verb: str, message: wire.Message, decode: Callable[[bytes], T], *, repeatable: bool = True
    ) -> T:
        """Sends the request and returns the decoded answer. A `repeatable` request is sent again if the server closes a
        reused connection, because it may have closed it before the request arrived.
        """
        url = f"{self._settings.url_prefix.rstrip('/')}/{verb}"
        body = wire.encode(message)
        connection = _Connection()
        try:
            async with asyncio.timeout(self._timeout):
                try:
                    answer = await self._post(url, verb, body, connection)
                except (aiohttp.ServerDisconnectedError, ConnectionResetError):
                    if not repeatable or not connection.reused:
                        raise
                    answer = await self._post(url, verb, body, connection)
                if len(answer) > DECODED_HERE:
                    return await asyncio.to_thread(decode, answer)
                return decode(answer)
        except TimeoutError:
            if connection.answered:
                raise ExtenderError(_TIMED_OUT_READING) from None
            raise ExtenderError(f'Post "{shown_url(url)}": {_TIMED_OUT}') from None
        except aiohttp.ClientConnectorError as error:
            raise ExtenderError(f'Post "{shown_url(url)}": {_words(error)}') from None
        except (aiohttp.ServerDisconnectedError, ConnectionResetError):
            raise ExtenderError(f'Post "{shown_url(url)}": EOF') from None
        except aiohttp.InvalidURL:  # whose words are the whole URL
            raise ExtenderError(f'Post "{shown_url(url)}": invalid URL') from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            words = str(error) if isinstance(error, GoJSONError) else f'Post "{shown_url(url)}": {_plain(error)}'
            raise ExtenderError(words) from None

    async def _post(self, url: str, verb: str, body: bytes, connection: _Connection) -> bytes:
        """The body of an answer with the status 200."""
        limit = MAX_ANSWER + 2 * len(body)
        async with self._open().post(
            url,
            data=body,
            headers=_HEADERS,
            allow_redirects=False,
            proxy=self._proxy,
            ssl=True if self._context is None else self._context,
            trace_request_ctx=connection,
        ) as response:
            if response.status != 200:
                raise ExtenderError(f"failed {verb} with extender at URL {shown_url(url)}, code {response.status}")
            connection.answered = True
            parts = []
            async for part in response.content.iter_any():
                limit -= len(part)
                if limit < 0:
                    response.close()
                    raise ExtenderError(f"the answer of the extender at URL {shown_url(url)} is too long")
                parts.append(part)
            return b"".join(parts)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            trace = aiohttp.TraceConfig()
            trace.on_connection_reuseconn.append(_note_reuse)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._connections),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),
                auto_decompress=False,
                trace_configs=[trace],
            )
        return self._session


class _Connection:
    """The connection of a request. `reused`: an earlier request has opened it; `answered`: an answer has begun."""

    reused = False
    answered = False


class _Reasons:
    """Bounds why an answer rejects nodes: each text by MAX_EXTENDER_TEXT, and all that differ by MAX_REASONS and
    MAX_REASONS_TEXT.

    They all become part of one message, in the pod's status.
    """

    def __init__(self) -> None:
        self._kept: dict[str, str] = {}
        self._length = 0

    def bounded(self, failed: Mapping[str, str]) -> Mapping[str, str]:
        """The reasons by node. Reasons beyond the bounds become OTHER_REASONS."""
        return {name: self._of(text) for name, text in failed.items()}

    def _of(self, text: str) -> str:
        known = self._kept.get(text)
        if known is not None:
            return known
        kept = bounded(text)
        if len(self._kept) >= MAX_REASONS or self._length + len(kept) > MAX_REASONS_TEXT:
            return OTHER_REASONS
        self._length += len(kept)
        self._kept[text] = kept
        return kept


async def _note_reuse(
    _session: aiohttp.ClientSession, trace: Any, _params: aiohttp.TraceConnectionReuseconnParams
) -> None:
    trace.trace_request_ctx.reused = True


def _seconds(duration: str) -> float:
    found = parse_duration(duration)
    return found if found > 0 else DEFAULT_SECONDS


def _pod(pod: PodInfo) -> orjson.Fragment:
    return _json(as_sent(raw_of(pod)))


def _json(text: bytes) -> orjson.Fragment:
    return orjson.Fragment(text)


def _name_of(node: Any) -> str:
    """The name of a raw node; empty if it has none."""
    name = value_at(node, "metadata", "name")
    return name if isinstance(name, str) else ""


def _words(error: aiohttp.ClientConnectorError) -> str:
    """Go's words for a connection that cannot be opened."""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"dial tcp: lookup {error.host}: no such host"
    if isinstance(error.os_error, ConnectionRefusedError):
        return f"dial tcp {error.host}:{error.port}: connect: connection refused"
    if isinstance(error.os_error, ssl.SSLError):
        return _plain(error.os_error)
    return f"dial tcp {error.host}:{error.port}: {_plain(error.os_error)}"


def _plain(error: Exception) -> str:
    """Returns the error's text without Python's and OpenSSL's numbers and names of constants. TLS errors have Go's
    wording.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"tls: failed to verify certificate: {error.verify_message}"
    text = (error.strerror if isinstance(error, OSError) else "") or str(error) or type(error).__name__
    reason = _OPENSSL.search(text)
    if reason is None:
        return text
    _, alert, remote = reason[1].partition("_ALERT_")
    words = (remote if alert else reason[1]).lower().replace("_", " ")
    return f"remote error: tls: {words}" if alert else f"tls: {words}"
