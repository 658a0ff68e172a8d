"""Reads one HTTP/1.1 response from bytes as they arrive. Does no I/O: `wire` does.

The server is not trusted. The grammar is RFC 9112's without its leniencies, so no two readers can disagree about where a response
ends: one length at most, no length beside chunks, no folded lines, no line ends but CRLF, no control characters. Everything is
bounded: heads, header lines, interim responses, chunk lines, trailers, bodies. A response that ends early is an error. Whatever
follows a response makes its connection unusable. The tests compare each answer with h11's.
"""

from __future__ import annotations

import re
from typing import Final

from podwright.kube.client.answers import Answer, retry_after_seconds

HEAD_LIMIT: Final = 1 << 16
"""Bytes of a head, including those of interim responses before it, or of trailers."""
LINE_LIMIT: Final = 1 << 14
"""Bytes of a header line."""
HEADERS_LIMIT: Final = 256
CHUNK_LINE_LIMIT: Final = 1 << 10
"""Bytes of the line before a chunk, with its extensions."""
BODY_LIMIT: Final = 1 << 25
"""Bytes of a response, with its head and chunk lines. The largest object fits: the API server takes 3 MiB of JSON, and writes six bytes
for some characters. A page of a list that is longer is read in smaller pages (`pages`).
"""

_END: Final = b"\r\n\r\n"
_FIELDS: Final = rb"(?:[-!#$%&'*+.^_`|~0-9A-Za-z]++:[\t -~\x80-\xff]*+\r\n)*+"
_HEAD: Final = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: [\t -~\x80-\xff]*+)?\r\n" + _FIELDS)
_TRAILERS: Final = re.compile(_FIELDS)
# Every repetition is possessive, so that no line is read twice. Blanks around a value are stripped afterwards.
_FRAMING: Final = re.compile(rb"\r\n(content-length|transfer-encoding|connection):([^\r]*+)")
_RETRY_AFTER: Final = re.compile(rb"\r\nretry-after:([^\r]*+)")
_BLANKS: Final = b"\t "
_LENGTH: Final = re.compile(rb"[0-9]{1,18}")
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,15})(?:;[\t -~\x80-\xff]*+|[\t ]*+)")

_UNTIL_END: Final = -1
_CHUNKED: Final = -2


class ResponseError(ValueError):
    """The bytes are no response, or more than any response has. The text says why."""


class ResponseTooLongError(ResponseError):
    """The body is longer than BODY_LIMIT."""


class ResponseReader:
    """Reads responses, one after the other. After an error or an `end` it must not be used again."""

    __slots__ = (
        "_body",
        "_buffer",
        "_chunk",
        "_fields",
        "_length",
        "_received",
        "_scanned",
        "_tunnel",
        "_version",
        "keep",
    )

    def __init__(self, *, tunnel: bool = False) -> None:
        """`tunnel`: the request is a CONNECT, whose response has no body if it succeeds."""
        self._tunnel = tunnel
        self.keep = False
        """Whether another request can follow on the connection, once `feed` has returned an answer."""
        self._reset()

    def _reset(self) -> None:
        self._buffer = bytearray()
        self._received = 0
        self._scanned = 0
        """Where the search for the end of the head goes on."""
        self._fields: bytes | None = None
        """The head in lower case; None until it is complete."""
        self._version = 0
        self._length = 0
        """Bytes of the body, _UNTIL_END or _CHUNKED."""
        self._body = bytearray()
        """The chunks so far."""
        self._chunk = -1
        """Bytes that the current chunk still lacks, -1 before its line, -2 in the trailers."""

    @property
    def started(self) -> bool:
        """Whether a part of a response has arrived."""
        return self._received > 0

    def feed(self, data: bytes) -> Answer | None:
        """The answer, once it is complete. Raises ResponseError."""
        self._received += len(data)
        if self._received > BODY_LIMIT:
            raise ResponseTooLongError("the response is too long")
        buffer = self._buffer
        buffer += data
        if self._fields is None and not self._read_head():
            return None
        length = self._length
        if length >= 0:
            if len(buffer) < length:
                return None
            with memoryview(buffer) as view:
                body = bytes(view[:length])  # a slice of the buffer would be one more copy
            return self._finish(body, clean=len(buffer) == length)
        if length == _CHUNKED and self._read_chunks():
            return self._finish(bytes(self._body), clean=not buffer)
        return None

    def end(self) -> Answer:
        """The answer, if the server ends the connection now. Raises ResponseError unless that completes it."""
        if not self.started:
            raise ResponseError("the connection was lost")
        if self._fields is None or self._length != _UNTIL_END:
            raise ResponseError("the connection was lost within a response")
        return self._finish(bytes(self._buffer), clean=False)

    def _finish(self, body: bytes, *, clean: bool) -> Answer:
        fields = self._fields
        assert fields is not None
        status, retry_after = int(fields[9:12]), None
        if status >= 400 and (found := _RETRY_AFTER.search(fields)) is not None:
            retry_after = retry_after_seconds(found[1].strip(_BLANKS).decode("latin-1"))
        self.keep = self.keep and clean
        self._reset()
        return Answer(status, body, retry_after)

    # The head

    def _read_head(self) -> bool:
        """Whether the head is complete. Removes it, and interim responses, from the buffer."""
        buffer = self._buffer
        while True:
            end = buffer.find(_END, self._scanned)
            if (end < 0 and len(buffer) > HEAD_LIMIT) or end > HEAD_LIMIT:
                raise ResponseError("the head is too long")
            if end < 0:
                if buffer[:7] != b"HTTP/1."[: len(buffer)]:
                    raise ResponseError(f"not HTTP/1: {bytes(buffer[:20])!r}")
                self._scanned = max(0, len(buffer) - 3)
                return False
            head = bytes(buffer[: end + 2])
            self._scanned = 0
            found = _HEAD.fullmatch(head)
            if found is None:
                raise ResponseError(f"not an HTTP/1 head: {head[:60]!r}")
            status = int(found[2])
            if status >= 200:
                break
            if status == 101:
                raise ResponseError("the server switches to another protocol")
            if self._received - len(buffer) + end > HEAD_LIMIT:
                raise ResponseError("too many interim responses")
            _check_lines(head)
            if any(name != b"connection" for name, _ in _FRAMING.findall(head.lower())):
                raise ResponseError("an interim response with a body")
            del buffer[: end + 4]
        del buffer[: end + 4]
        self._read_framing(head.lower(), status, version=int(found[1]))
        return True

    def _read_framing(self, fields: bytes, status: int, version: int) -> None:
        """How the body ends, and whether the connection can be kept."""
        _check_lines(fields)
        self._fields = fields
        length, chunked, keep = None, False, version == 1
        for name, text in _FRAMING.findall(fields):
            value = text.strip(_BLANKS)
            if name == b"content-length":
                if length is not None:
                    raise ResponseError("two lengths")
                if _LENGTH.fullmatch(value) is None:
                    raise ResponseError(f"a malformed length: {value[:40]!r}")
                length = int(value)
            elif name == b"transfer-encoding":
                if chunked or value != b"chunked" or version == 0:
                    raise ResponseError(f"an unknown transfer encoding: {value[:40]!r}")
                chunked = True
            elif b"close" in value and b"close" in map(bytes.strip, value.split(b",")):
                keep = False
        if chunked and length is not None:
            raise ResponseError("a length beside chunks")
        if length is not None and length > BODY_LIMIT:
            raise ResponseTooLongError("the response is too long")
        tunnel = self._tunnel and status < 300
        self.keep = keep or tunnel
        if tunnel or status in (204, 304):
            self._length = 0
        elif chunked:
            self._length = _CHUNKED
        else:
            self._length = _UNTIL_END if length is None else length

    # Chunks

    def _read_chunks(self) -> bool:
        """Whether the last chunk and the trailers are complete. Removes what it has read from the buffer."""
        buffer, at = self._buffer, 0
        try:
            while self._chunk != -2:
                if self._chunk < 0:
                    size, after = self._chunk_line(at)
                    if size < 0:
                        return False
                    at, self._chunk = after, size or -2
                elif len(buffer) < at + self._chunk + 2:
                    return False
                else:
                    end = at + self._chunk
                    if buffer[end : end + 2] != b"\r\n":
                        raise ResponseError("a chunk is longer than its size")
                    with memoryview(buffer) as view:
                        self._body += view[at:end]
                    at, self._chunk = end + 2, -1
            end = self._end_of_trailers(at)
            if end < 0:
                return False
            at = end
            return True
        finally:
            del buffer[:at]

    def _chunk_line(self, at: int) -> tuple[int, int]:
        """The size of the chunk whose line begins at `at`, and where it begins. -1 until the line is complete."""
        end = self._buffer.find(b"\r\n", at, at + CHUNK_LINE_LIMIT)
        if end < 0:
            if len(self._buffer) - at >= CHUNK_LINE_LIMIT:
                raise ResponseError("a chunk's line is too long")
            return -1, at
        line = bytes(self._buffer[at:end])
        found = _CHUNK.fullmatch(line)
        if found is None:
            raise ResponseError(f"a malformed chunk size: {line[:40]!r}")
        size = int(found[1], 16)
        if size > BODY_LIMIT:
            raise ResponseTooLongError("the response is too long")
        return size, end + 2

    def _end_of_trailers(self, at: int) -> int:
        """Where the response ends; -1 until it does."""
        buffer = self._buffer
        if buffer[at : at + 2] == b"\r\n":
            return at + 2
        end = buffer.find(_END, at, at + HEAD_LIMIT)
        if end < 0:
            if len(buffer) - at >= HEAD_LIMIT:
                raise ResponseError("the trailers are too long")
            return -1
        trailers = bytes(buffer[at : end + 2])
        if _TRAILERS.fullmatch(trailers) is None:
            raise ResponseError(f"malformed trailers: {trailers[:60]!r}")
        _check_lines(trailers)
        if _FRAMING.search(b"\r\n" + trailers.lower()) is not None:
            raise ResponseError(f"trailers about lengths or connections: {trailers[:60]!r}")
        return end + 4


def _check_lines(fields: bytes) -> None:
    if fields.count(b"\r\n") > HEADERS_LIMIT:
        raise ResponseError("too many headers")
    if len(fields) > LINE_LIMIT and max(map(len, fields.split(b"\r\n"))) > LINE_LIMIT:
        raise ResponseError("a header is too long")
