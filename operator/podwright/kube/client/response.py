"""Reads one HTTP/1.1 response from bytes as they arrive, with httptools. Does no I/O: `wire` does.

httptools' parser (llhttp, in its strict mode) decides where a response ends. This module bounds what is read, refuses
what llhttp takes and RFC 9112 does not, and requires that nothing follows a response. A response that ends early is an
error. The tests compare each answer with h11's.
"""

from __future__ import annotations

from typing import Final

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from podwright.kube.client.answers import Answer, retry_after_seconds

HEAD_LIMIT: Final = 1 << 16
"""Bytes of a head, including those of interim responses before it, and of trailers."""
BODY_LIMIT: Final = 1 << 25
"""Bytes of a response, with its head and chunk lines. The largest object fits: the API server takes 3 MiB of JSON, and
writes six bytes for some characters. A page of a list that is longer is read in smaller pages (`pages`).
"""
_BLANKS: Final = b"\t "
_HEAD, _BODY, _COMPLETE = "head", "body", "complete"
"""The part to read next."""


class ResponseError(ValueError):
    """The bytes are no response, or more than any response has. The text says why."""


class ResponseTooLongError(ResponseError):
    """The body is longer than BODY_LIMIT."""


class ResponseReader:
    """Reads responses, one after the other. After an error or an `end` it must not be used again."""

    __slots__ = (
        "_body",
        "_framing",
        "_head_bytes",
        "_parser",
        "_problem",
        "_received",
        "_retry_after",
        "_state",
        "_status",
        "keep",
    )

    def __init__(self) -> None:
        self._parser = HttpResponseParser(self)
        self.keep = False
        """True if another request can follow on the connection, once `feed` has returned an answer."""
        self._reset()

    def _reset(self) -> None:
        self._received = 0
        self._state = _HEAD
        self._status = 0
        self._head_bytes = 0
        """Bytes of headers and trailers."""
        self._body: list[bytes] = []
        self._framing: list[bytes] = []
        """The names of headers that say where the body ends."""
        self._retry_after: float | None = None
        self._problem: ResponseError | None = None

    def close(self) -> None:
        """Frees what was read, and the parser, which refers to this object. Nothing can be read afterwards."""
        self._body.clear()
        self._parser = HttpResponseParser(None)

    @property
    def started(self) -> bool:
        """True if a part of a response has arrived."""
        return self._received > 0

    def feed(self, data: bytes) -> Answer | None:
        """The answer, once it is complete. Raises ResponseError."""
        self._received += len(data)
        if self._received > BODY_LIMIT:
            raise ResponseTooLongError("the response is too long")
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            if self._problem is None and self._state is not _COMPLETE:
                self._problem = ResponseError(f"not HTTP/1: {error}")
            self.keep = False
        if self._problem is not None:
            raise self._problem
        if self._state is _COMPLETE:
            return self._answer()
        if self._state is _HEAD and self._received > HEAD_LIMIT:
            raise ResponseError("the head is too long")
        return None

    def end(self) -> Answer:
        """The answer, if the server ends the connection now. Raises ResponseError unless that completes it."""
        if not self.started:
            raise ResponseError("the connection was lost")
        if self._state is not _BODY or self._framing:
            raise ResponseError("the connection was lost within a response")
        self.keep = False
        return self._answer()

    def _answer(self) -> Answer:
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        answer = Answer(self._status, body, self._retry_after if self._status >= 400 else None)
        self._reset()
        return answer

    # Called by the parser. An error ends its work.

    def on_message_begin(self) -> None:
        if self._state is _COMPLETE:
            raise ValueError("more than a response")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > HEAD_LIMIT:
            self._refuse(ResponseError("the head is too long"))
        name = name.lower()
        if name == b"retry-after" and self._state is _HEAD:
            self._retry_after = retry_after_seconds(value.strip(_BLANKS).decode("latin-1"))
        elif name in (b"content-length", b"transfer-encoding"):
            if self._state is not _HEAD:
                self._refuse(ResponseError("trailers about lengths"))
            if self._framing:
                self._refuse(ResponseError("more than one length"))
            if name == b"transfer-encoding" and value.strip(_BLANKS).lower() != b"chunked":
                self._refuse(ResponseError(f"an unknown transfer encoding: {value[:40]!r}"))
            if name == b"content-length" and int(value) > BODY_LIMIT:
                self._refuse(ResponseTooLongError("the response is too long"))
            self._framing.append(name)

    def on_headers_complete(self) -> None:
        self._status, version = self._parser.get_status_code(), self._parser.get_http_version()
        if version not in ("1.0", "1.1") or not 100 <= self._status < 600 or self._status == 101:
            self._refuse(ResponseError(f"not an HTTP/1 head: HTTP/{version} {self._status}"))
        if self._framing and (self._status < 200 or (version == "1.0" and b"transfer-encoding" in self._framing)):
            self._refuse(ResponseError("an unknown transfer encoding, or an interim response with a body"))
        if self._status >= 200:
            self._state, self.keep = _BODY, version == "1.1"

    def on_body(self, data: bytes) -> None:
        self._body.append(data)

    def on_message_complete(self) -> None:
        if self._state is _BODY:
            self._state = _COMPLETE
            self.keep = self.keep and self._parser.should_keep_alive()

    def _refuse(self, problem: ResponseError) -> None:
        self._problem = problem
        raise problem
