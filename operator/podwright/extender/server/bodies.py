"""The bodies of requests: read within bounds of bytes and time, and decoded.

A body with 5,000 nodes has tens of megabytes. The bytes of all large bodies together are bounded, whatever the number of requests: a request
waits, unread, until there is room for its body. A large body is decoded piece by piece, so that neither the loop stalls nor all of its
objects are in memory at once; of a node only its text is kept, for the answer.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import orjson

from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.node import Node
from podwright.extender.wire import (
    MAX_EXTENDER_PRIORITY,
    ExtenderArgs,
    GoJSONError,
    HostPriority,
    RawObject,
    decode_args,
    encode,
)

SMALL: Final = 1 << 20
"""Bytes. Smaller bodies are decoded at once, in a few milliseconds, and are bounded by the number of connections."""
SLICE_SECONDS: Final = 0.003
"""How long a large body is decoded before other tasks run."""


_AFTER_NAME: Final = [f'","Score":{score}}},{{"Host":"' for score in range(MAX_EXTENDER_PRIORITY + 1)]


class Budget:
    """Bytes of large bodies that may be in memory at once. Whoever has waited longest is next."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.used = 0

    async def take(self, size: int) -> None:
        """Waits until there is room for `size` bytes, at most the total. `give_back` must follow."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.used -= size
            else:
                self._waiting.remove((size, turn))
            self._admit()
            raise

    def give_back(self, size: int) -> None:
        """Ends what `take` began."""
        self.used -= size
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self.used + self._waiting[0][0] <= self._total:
            size, turn = self._waiting.popleft()
            if not turn.done():
                self.used += size
                turn.set_result(None)


def encode_scores(names: Sequence[str], scores: Sequence[int]) -> bytes:
    """The HostPriorityList of these nodes, with scores from 0 to 10: in an eighth of the time of `wire.encode`, which makes an object for each."""
    text = orjson.dumps(names).decode()
    if not names or "\\" in text:  # without an escape, quotes are only around names
        return encode(tuple(map(HostPriority, names, scores)))
    parts = [""] * (2 * len(names))
    parts[::2] = text[2:-2].split('","')
    parts[1::2] = [_AFTER_NAME[score] for score in scores]
    parts[-1] = f'","Score":{scores[-1]}}}]'
    return ('[{"Host":"' + "".join(parts)).encode()


class Content(Protocol):
    """The part of aiohttp's StreamReader that is used."""

    async def readany(self) -> bytes: ...


async def read_body(content: Content, length: int) -> bytearray:
    """The body's bytes. Raises ConnectionError if the client sends fewer than it said."""
    body = bytearray()
    while len(body) < length:
        chunk = await content.readany()
        if not chunk:
            raise ConnectionError("the body ended early")
        body += chunk
    return body


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What `filter` and `prioritize` are asked. Without `texts`, the caller wants names: it knows the nodes."""

    pod: Mapping[str, Any] | None
    names: Sequence[str]
    texts: Sequence[RawObject] | None = None
    """The nodes that the caller has sent, for the answer: in the order of `names`."""
    differing: Sequence[Node] = ()
    """Those of the sent nodes that the cache does not have, or has otherwise."""


class NodeReader(Protocol):
    """Says of a sent node its name, and the node itself if the cache has another one or none. Raises InvalidObjectError."""

    def __call__(self, raw: Mapping[str, Any], /) -> tuple[str, Node | None]: ...


async def decode_asked(body: bytearray, read_node: NodeReader, turn: asyncio.Lock) -> Asked:
    """The arguments of `filter` and `prioritize`. Raises GoJSONError. `turn`: large bodies are decoded one after the other.

    A large body is empty afterwards: its text takes its place, and then the texts of its nodes.
    """
    if len(body) <= SMALL:
        args = decode_args(bytes(body))
        return _asked(args, read_node)
    async with turn:
        return await _decode_large(body, read_node)


def _asked(args: ExtenderArgs, read_node: NodeReader) -> Asked:
    pod = None if isinstance(args.pod, orjson.Fragment) else args.pod
    if args.node_names is not None or args.nodes is None:
        return Asked(pod=pod, names=args.node_names or ())
    collected = _Collected(read_node)
    for raw in args.nodes:
        if not isinstance(raw, orjson.Fragment):
            collected.add(raw, raw)
    return collected.asked(pod)


class _Collected:
    """The nodes of a request, as far as they have been decoded."""

    def __init__(self, read_node: NodeReader) -> None:
        self._read_node = read_node
        self._names: list[str] = []
        self._texts: list[RawObject] = []
        self._differing: list[Node] = []

    def add(self, raw: Mapping[str, Any], text: RawObject) -> None:
        try:
            name, node = self._read_node(raw)
        except InvalidObjectError as error:
            raise GoJSONError(str(error)) from error
        self._names.append(name)
        self._texts.append(text)
        if node is not None:
            self._differing.append(node)

    def asked(self, pod: Mapping[str, Any] | None) -> Asked:
        return Asked(pod=pod, names=self._names, texts=self._texts, differing=self._differing)


async def _decode_large(body: bytearray, read_node: NodeReader) -> Asked:
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise GoJSONError("invalid UTF-8") from error
    body.clear()
    collected = _Collected(read_node)
    small: dict[str, Any] = {}
    has_nodes = False
    clock = asyncio.get_running_loop().time
    ends = clock() + SLICE_SECONDS
    for piece in pieces(text):
        if isinstance(piece, NodePiece):
            has_nodes = True
            collected.add(piece.raw, orjson.Fragment(text[piece.start : piece.end]))
        else:
            small[piece[0]] = piece[1]
        if clock() >= ends:
            await asyncio.sleep(0)
            ends = clock() + SLICE_SECONDS
    try:
        args = decode_args(orjson.dumps(small))
    except orjson.JSONEncodeError as error:  # Python reads some numbers and strings that are no JSON
        raise GoJSONError(str(error)) from error
    if args.node_names is not None or not has_nodes:
        return _asked(args, read_node)
    return collected.asked(None if isinstance(args.pod, orjson.Fragment) else args.pod)


@dataclass(frozen=True, slots=True)
class NodePiece:
    """One node of a body, and where its text is."""

    raw: Mapping[str, Any]
    start: int
    end: int


_SPACE: Final = json.decoder.WHITESPACE  # type: ignore[attr-defined]  # what the standard library's reader skips
_decode_at: Final = json.JSONDecoder().raw_decode


def pieces(text: str) -> Iterator[tuple[str, Any] | NodePiece]:
    """The nodes of ExtenderArgs one by one, and its other fields with their names. Raises GoJSONError."""
    scanner = _Scanner(text)
    try:
        for key in scanner.members():
            if key.casefold() != "nodes" or scanner.next != "{":
                yield key, scanner.value()
                continue
            for inner in scanner.members():
                if inner.casefold() == "items" and scanner.next == "[":
                    yield from scanner.items()
                else:
                    scanner.value()
    except GoJSONError:
        raise
    except (ValueError, RecursionError) as error:
        raise GoJSONError(f"the body is not JSON: {error}") from error


class _Scanner:
    """Reads a text of JSON from one position to the next. Raises ValueError, of which GoJSONError is one."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._skip()

    @property
    def next(self) -> str:
        """The character at the position."""
        return self._text[self._at : self._at + 1]

    def value(self) -> Any:
        """Reads a value."""
        value, self._at = _decode_at(self._text, self._at)
        self._skip()
        return value

    def members(self) -> Iterator[str]:
        """Reads an object. After each key, the caller reads the value."""
        self._take("{")
        if self.next == "}":
            self._take("}")
            return
        while True:
            key = self.value()
            if not isinstance(key, str):
                raise GoJSONError(f"the body is not JSON: a key of an object is no string, at character {self._at}")
            self._take(":")
            yield key
            if not self._more("}"):
                return

    def items(self) -> Iterator[NodePiece]:
        """Reads a list of objects; null is an empty object."""
        self._take("[")
        if self.next == "]":
            self._take("]")
            return
        while True:
            start = self._at
            raw, end = _decode_at(self._text, start)
            self._at = end
            self._skip()
            if raw is not None and not isinstance(raw, dict):
                raise GoJSONError(f"the body is not JSON: a node is no object, at character {start}")
            yield NodePiece(raw or {}, start, end)
            if not self._more("]"):
                return

    def _more(self, closing: str) -> bool:
        """Whether another element follows."""
        if self.next == ",":
            self._take(",")
            return True
        self._take(closing)
        return False

    def _take(self, character: str) -> None:
        if self.next != character:
            raise GoJSONError(f"the body is not JSON: {character!r} is missing at character {self._at}")
        self._at += 1
        self._skip()

    def _skip(self) -> None:
        self._at = _SPACE.match(self._text, self._at).end()
