"""The paths of the extender, and what each does with a request. Everything here runs in the cache's loop.

| path | arguments | answer |
| --- | --- | --- |
| /filter, /predicates | ExtenderArgs | ExtenderFilterResult |
| /prioritize, /priority, /priorities | ExtenderArgs | HostPriorityList |
| /preempt, /preemption | ExtenderPreemptionArgs | ExtenderPreemptionResult |
| /bind | ExtenderBindingArgs | ExtenderBindingResult |

Below /policies/NAME, the named policy decides. If the answer has the field Error, errors are in that field, with the
status 200: kube-scheduler shows its users that text. It shows only the status of an answer with another status.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from aiohttp import web

from podwright.core.framework.errors import PluginError
from podwright.core.framework.interface import Int64s
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.names import is_dns_label, is_dns_subdomain
from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo, parse_pod
from podwright.core.state.cache import Cache
from podwright.engine.planning.elsewhere import Elsewhere, NoChildAnswerError
from podwright.engine.process.steps import in_slices
from podwright.engine.records.log_fields import fields
from podwright.engine.records.metrics import EXTENDER_REQUEST_SECONDS, EXTENDER_REQUESTS, Metrics
from podwright.extender.go_json import GoJSONError
from podwright.extender.server.bindings import Bindings
from podwright.extender.server.bodies import SMALL, Budget, read_body, read_fast
from podwright.extender.server.body_text import TooLargeError
from podwright.extender.server.requests import Asked, AskedPod, NodeReader, read_asked, read_victims
from podwright.extender.server.sent_nodes import InPlace
from podwright.extender.server.verdicts import ExtenderVerdicts, UnusablePolicyError
from podwright.extender.wire import (
    BindingResult,
    ExtenderFilterResult,
    HostPriority,
    PreemptionResult,
    decode_binding_args,
    encode,
)

log = logging.getLogger(__name__)

T = TypeVar("T")

FILTER, PRIORITIZE, PREEMPT, BIND = "filter", "prioritize", "preempt", "bind"
PATHS: Final[Mapping[str, str]] = {
    "filter": FILTER,
    "predicates": FILTER,
    "prioritize": PRIORITIZE,
    "priority": PRIORITIZE,
    "priorities": PRIORITIZE,
    "preempt": PREEMPT,
    "preemption": PREEMPT,
    "bind": BIND,
}
"""The last part of each path, and its verb. Extenders name their paths in several ways."""
WAIT_SECONDS: Final = 60.0
"""How long a large body waits for its turn. kube-scheduler gives up after its httpTimeout, 5 s by default."""
PIECE: Final = 1 << 18
"""How many bytes of a long answer are handed over at once."""
READ_SECONDS: Final = 30.0
"""How long a client may take to send its body, or the first SMALL bytes of a larger one."""
BODY_BYTES: Final[Mapping[str, int]] = {PREEMPT: 16 << 20, BIND: 64 << 10}
"""The longest bodies of these verbs. Victims are whole pods if the caller has no node cache."""
SHORT: Final = 100
"""kube-scheduler takes nodes without a score for nodes with the score 0. In longer lists, reading each object delays
its pod by microseconds.

Source: `prioritizeNodes` in pkg/scheduler/schedule_one.go.
"""
NODES_PER_KNOWN_NODE, MORE_NODES = 4, 1_000
"""A request may contain this many times the nodes of the cache, plus MORE_NODES."""


_ERRORS: Final[Mapping[str, Callable[[str], bytes]]] = {
    FILTER: lambda text: encode(ExtenderFilterResult(failed_nodes={}, failed_and_unresolvable_nodes={}, error=text)),
    BIND: lambda text: encode(BindingResult(text)),
}
"""The answers that can hold a text about an error."""
_JSON: Final = "application/json"
FEW_NODES: Final = 200
"""To put so many nodes in place takes milliseconds."""


class _Failure(Exception):  # noqa: N818 -- the outcome of a request
    """A request that cannot be answered. `status`: that of the answer, if the answer has no field for the text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """The parts that answer requests. `read_node`: see `requests`; `now`: seconds since the epoch; `missing`: the
    inputs that the caches still lack.
    """

    cache: Cache
    verdicts: ExtenderVerdicts
    elsewhere: Elsewhere
    bindings: Bindings
    read_node: NodeReader
    now: Callable[[], float]
    missing: Callable[[], Sequence[str]]


class ExtenderEndpoints:
    """See the module."""

    def __init__(self, decisions: Decisions, metrics: Metrics, body_bytes: int) -> None:
        """`body_bytes`: the longest body of a request, and the most bytes of large bodies at once."""
        self._decisions = decisions
        self._metrics = metrics
        self._body_bytes = body_bytes
        self._budget = Budget(body_bytes)
        self._last: tuple[str, PodInfo | None] = "", None
        """The pod of the last request, with its text: kube-scheduler sends a pod with `filter`, then the same with
        `prioritize`.
        """
        self._large = asyncio.Lock()
        """Large bodies are read and answered one at a time, because the values read from a body can take several times
        its size.
        """
        self._answers: Mapping[str, Callable[[bytearray, str], Awaitable[bytes]]] = {
            FILTER: self._filter,
            PRIORITIZE: self._prioritize,
            PREEMPT: self._preempt,
            BIND: self._bind,
        }

    @property
    def body_bytes(self) -> int:
        """Bytes of the large bodies in memory."""
        return self._budget.used

    def routes(self) -> list[web.RouteDef]:
        """All paths."""
        return [
            web.post(f"{prefix}/{path}", partial(self._handle, verb))
            for prefix in ("", "/policies/{policy}")
            for path, verb in PATHS.items()
        ]

    # Requests

    async def _handle(self, verb: str, request: web.Request) -> web.StreamResponse:
        started, result = time.monotonic(), "error"
        held = 0
        policy = request.match_info.get("policy", "")
        try:
            length = self._length(verb, request)
            body = await self._start_of_body(request, length)
            if length > SMALL:
                held = await self._room(length)
                await self._rest_of_body(request, body, length)
            answer, result = await self._answer_or_error(verb, policy, body)
            if len(answer) <= SMALL and not held:
                return web.Response(body=answer, content_type=_JSON)
            more = max(len(answer) - held, 0)
            self._budget.add(more)
            held += more  # it counts until the answer has been sent
            return await send_in_pieces(request, answer)
        except _Failure as failure:
            about = fields(verb=verb, policy=policy, status=failure.status, err=str(failure))
            log.warning("A request is answered with a status only, so kube-scheduler does not show why", extra=about)
            return web.Response(status=failure.status, text=f"{failure}\n")
        finally:
            if held:
                self._budget.give_back(held)
            self._metrics.count(EXTENDER_REQUESTS, verb, result)
            self._metrics.observe(EXTENDER_REQUEST_SECONDS, time.monotonic() - started, verb)

    async def _answer_or_error(self, verb: str, policy: str, body: bytearray) -> tuple[bytes, str]:
        """The answer, and whether it is a success or an error. Raises _Failure if it is an error that the answer cannot
        hold.
        """
        try:
            return await self._answer(verb, body, policy), "success"
        except _Failure as failure:
            if verb not in _ERRORS:
                raise
            return _ERRORS[verb](str(failure)), "error"

    def _length(self, verb: str, request: web.Request) -> int:
        """How long the body is. Raises _Failure for a body that is not read."""
        if request.headers.get("Content-Type", _JSON).partition(";")[0].strip().lower() != _JSON:
            raise _Failure(415, f"the content type must be {_JSON}")
        if request.content_length is None:
            raise _Failure(411, "the header Content-Length is required")
        most = BODY_BYTES.get(verb)
        if most is not None and most <= self._body_bytes and request.content_length > most:
            raise _Failure(413, f"the body is longer than {most} bytes")
        if request.content_length > self._body_bytes:
            raise _Failure(413, f"the body is longer than {self._body_bytes} bytes (--max-body-bytes)")
        return request.content_length

    async def _room(self, length: int) -> int:
        """Takes room for a body, and returns its size. Raises _Failure if no room becomes free in time."""
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await self._budget.take(length)
        except TimeoutError:
            raise _Failure(503, "too many large bodies at once") from None
        return length

    async def _start_of_body(self, request: web.Request, length: int) -> bytearray:
        """The first part of a large body. The body gets room only after that, so a client that announces a body and
        sends nothing takes no room.
        """
        body = bytearray()
        try:
            async with asyncio.timeout(READ_SECONDS):
                await read_body(request.content, body, min(length, SMALL))
        except TimeoutError:
            raise _Failure(408, f"the body did not arrive within {READ_SECONDS:g} s") from None
        return body

    async def _rest_of_body(self, request: web.Request, body: bytearray, length: int) -> None:
        try:
            await read_fast(request.content, body, length)
        except TimeoutError:
            raise _Failure(408, "the body arrived too slowly") from None

    async def _answer(self, verb: str, body: bytearray, policy: str) -> bytes:
        missing = self._decisions.missing()
        if missing:
            raise _Failure(503, f"the extender is starting: {', '.join(missing)} not complete")
        try:
            if len(body) <= SMALL:
                return await self._answers[verb](body, policy)
            async with self._large:
                return await self._answers[verb](body, policy)
        except TooLargeError as error:
            raise _Failure(413, str(error)) from error
        except (GoJSONError, InvalidObjectError) as error:
            raise _Failure(400, f"the extender cannot use the body of the request: {error}") from error
        except UnusablePolicyError as error:
            raise _Failure(404, str(error)) from error
        except (PluginError, NoChildAnswerError) as error:
            raise _Failure(500, str(error)) from error

    # Verbs

    async def _filter(self, body: bytearray, policy: str) -> bytes:
        asked = await self._asked(body)
        pod = self._pod(asked.pod)
        found = await self._decide(asked, partial(self._decisions.verdicts.filter, pod, policy, asked.names))
        listed: Sequence[Any] = asked.names if asked.texts is None else asked.texts
        if len(found.kept) < len(listed):
            listed = [listed[at] for at in found.kept.tolist()]
        return encode(
            ExtenderFilterResult(
                nodes=None if asked.texts is None else listed,
                node_names=listed if asked.texts is None else None,
                failed_nodes=found.failed,
                failed_and_unresolvable_nodes=found.unresolvable,
            )
        )

    async def _prioritize(self, body: bytearray, policy: str) -> bytes:
        asked = await self._asked(body)
        pod = self._pod(asked.pod)
        scores = await self._decide(asked, partial(self._decisions.verdicts.prioritize, pod, policy, asked.names))
        return encode_scores(asked.names, scores)

    async def _decide(self, asked: Asked, decide: Callable[[], T]) -> T:
        elsewhere = self._decisions.elsewhere
        if not asked.differing:
            return await elsewhere.ask(decide)
        decide_on = partial(self._on_sent_nodes, asked.differing, decide)
        return await (elsewhere.ask(decide_on) if len(asked.differing) <= FEW_NODES else elsewhere.compute(decide_on))

    def _on_sent_nodes(self, nodes: Sequence[Node], decide: Callable[[], T]) -> T:
        """The decision, with these nodes in the place of the cache's own."""
        sent = InPlace(self._decisions.cache, nodes)
        try:
            sent.put()
            return decide()
        finally:
            sent.back()

    async def _preempt(self, body: bytearray, policy: str) -> bytes:
        asked = await in_slices(read_victims(body, self._most_nodes()))
        pod = self._pod(asked.pod)
        steps = self._decisions.verdicts.preempt(pod, policy, asked.victims, self._decisions.now())
        return encode(PreemptionResult(await in_slices(steps)))

    async def _bind(self, body: bytearray, policy: str) -> bytes:
        problem = await self._decisions.bindings.bind(decode_binding_args(bytes(body)), policy)
        if problem:
            raise _Failure(500, problem)
        return encode(BindingResult())

    async def _asked(self, body: bytearray) -> Asked:
        return await in_slices(read_asked(body, self._decisions.read_node, self._most_nodes()))

    def _most_nodes(self) -> int:
        """How many nodes a request may name or contain."""
        return NODES_PER_KNOWN_NODE * self._decisions.cache.table.count + MORE_NODES

    def _pod(self, asked: AskedPod) -> PodInfo:
        """Raises InvalidObjectError."""
        if asked.raw is None:
            raise InvalidObjectError("Pod", "is required")
        text, pod = self._last
        if pod is None or text != asked.text:
            pod = parse_pod(asked.raw)
            if not is_dns_subdomain(pod.name) or not is_dns_label(pod.namespace):
                raise InvalidObjectError("Pod", "its name or its namespace does not have the form of a name")
            self._last = asked.text, pod
        self._decisions.bindings.remember(pod, asked.text)
        return pod


def encode_scores(names: Sequence[str], scores: Int64s) -> bytes:
    """The HostPriorityList with these scores, from 0 to 10, in the order of the names.

    Long lists leave out names with the score 0, and all names if they have the same score: see SHORT.
    """
    is_long = len(names) > SHORT
    if is_long and (scores == scores[0]).all():
        return b"[]"
    pairs = zip(names, scores.tolist(), strict=True)
    return encode(tuple(HostPriority(name, score) for name, score in pairs if score or not is_long))


async def send_in_pieces(request: web.Request, answer: bytes) -> web.StreamResponse:
    """Sends a long answer piece by piece. The response does not hold it: aiohttp's objects form cycles, which live
    until they are collected.
    """
    response = web.StreamResponse(headers={"Content-Type": _JSON, "Content-Length": str(len(answer))})
    await response.prepare(request)
    view = memoryview(answer)
    for start in range(0, len(answer), PIECE):
        await response.write(view[start : start + PIECE])
    await response.write_eof()
    return response
