"""Entries: the objects in one list of a JSON text, read as the text arrives, so that neither its length nor one of them
stops the loop.

Only the entries themselves are parsed. The text around the list is skipped, so it may be malformed without an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import orjson

MAX_ENTRY: Final = 64 << 10
"""The longest entry, and the longest text outside of entries, in bytes."""
MAX_DEPTH: Final = 64
_TOO_LONG: Final = "an entry is too long"
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"|["{}\[\]]', re.DOTALL)
_OBJECT, _LIST = ord("{"), ord("[")
_CLOSING: Final = {ord("}"): _OBJECT, ord("]"): _LIST}


class MalformedError(Exception):
    """The text is malformed. The message says how."""


class Entries:
    """See the module. `path`: the keys that lead to the list, from the outermost object."""

    def __init__(self, path: Sequence[str]) -> None:
        keys = [b"", *(key.encode() for key in path)]
        self._path = [*((_OBJECT, key) for key in keys[:-1]), (_LIST, keys[-1])]
        self._open: list[tuple[int, bytes]] = []
        self._text = bytearray()
        self._at = 0
        self._start = -1
        self._last = b""
        self._began = False
        self.found = False
        """True if the list is there."""

    def feed(self, more: bytes) -> Iterator[Any]:
        """The entries that are complete with these bytes. Raises MalformedError."""
        text = self._text
        text += more
        while True:
            token = _TOKEN.search(text, self._at)
            if token is None:
                self._at = len(text)
                break
            char = text[token.start()]
            if char == 34:  # a quote
                if token.end() - token.start() == 1:
                    self._at = token.start()  # the rest of the string is missing
                    break
                if self._start < 0:
                    self._last = bytes(text[token.start() + 1 : token.end() - 1])
            elif char in (_OBJECT, _LIST):
                self._opened(char, token.start())
            elif self._closed(char):
                yield self._entry(token.end())
            self._at = token.end()
        self._shrink()

    @property
    def held(self) -> int:
        """How many bytes wait for others."""
        return len(self._text)

    def end(self) -> None:
        """There is no more text. Raises MalformedError if it ended early, or without the list."""
        if not self._began or self._open:
            raise MalformedError("the answer ends early")
        if not self.found:
            raise MalformedError(f"the answer has no {'.'.join(key.decode() for _, key in self._path[1:])}")

    def _opened(self, char: int, at: int) -> None:
        if not self._open and self._began:
            raise MalformedError("the answer is not one JSON object")
        if len(self._open) >= MAX_DEPTH:
            raise MalformedError("the answer is nested too deeply")
        if self._start < 0 and char == _OBJECT and self._open == self._path:
            self._start = at
        key = self._last if self._open and self._open[-1][0] == _OBJECT else b""
        self._began = True
        self._open.append((char, key))
        self.found = self.found or self._open == self._path

    def _closed(self, char: int) -> bool:
        """True if an entry ends here."""
        if not self._open or self._open.pop()[0] != _CLOSING[char]:
            raise MalformedError("the answer is not JSON")
        return self._start >= 0 and len(self._open) == len(self._path)

    def _entry(self, end: int) -> Any:
        if end - self._start > MAX_ENTRY:
            raise MalformedError(_TOO_LONG)
        try:
            found = orjson.loads(self._text[self._start : end])
        except orjson.JSONDecodeError as error:
            raise MalformedError(f"an entry is not JSON: {error}") from None
        self._start = -1
        return found

    def _shrink(self) -> None:
        """Drops what has been read."""
        kept = self._at if self._start < 0 else self._start
        if len(self._text) - kept > MAX_ENTRY:
            raise MalformedError(_TOO_LONG)
        del self._text[:kept]
        self._at -= kept
        self._start = min(self._start, 0)
