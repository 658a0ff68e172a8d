"""The JSON text of a request's body, read value by value: what has been read is freed, and each value has a bound.

So a body of any size needs little more memory than what its reader keeps, and the loop can run between two values.
Bodies of all sizes are read here, so that the same request has the same fate whatever its size. Errors have the words
of Go (`go_json`).
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any, Final

import orjson

from podwright.core.objects.compaction import RecentCache
from podwright.extender.go_json import GoJSONError, invalid_character, mismatch, read_at, string

MAX_VALUE: Final = 2 << 20
"""Characters of one value that is read at once: a pod, a node, all names, an unknown field. etcd takes objects of 1.5
MiB.
"""
MAX_BRACKETS: Final = 100_000
"""Lists and objects of one long value. Each costs much more than its text, in time and memory; real objects have one in
40 characters.
"""
MAX_FIELDS: Final = 1_000
"""Fields of one object that is read field by field."""
CHUNK: Final = 1 << 18
"""Bytes that are decoded at once."""
_NUMBER_TAIL: Final = 2
"""Characters that can follow a number of which the rest is missing, such as "e+"."""
_PLAIN_KEY: Final = re.compile(r'"([A-Za-z]{1,64})":(?=[^ \t\r\n])')
"""A key as Go writes it, the colon, and the beginning of a value. It can be read without a JSON reader."""
BYTES_PER_NAME: Final = 128
"""A name as a string, and its place in lists."""
_lists: Final[RecentCache[str, list[str]]] = RecentCache(4, 4 << 20)
"""Lists of names by their text. kube-scheduler sends two for each pod: the nodes that it found, and those that `filter`
kept.
"""
_Decoder: Final = codecs.getincrementaldecoder("utf-8")
_SPACE: Final = json.decoder.WHITESPACE  # type: ignore[attr-defined]  # what the standard library's reader skips


class TooLargeError(GoJSONError):
    """The text is longer, or has more elements, than is read."""


class BodyText:
    """Reads one value. Each method raises GoJSONError. The body is emptied meanwhile."""

    def __init__(self, body: bytearray) -> None:
        self._body = body
        self._decode = _Decoder("replace").decode
        self._text = ""
        self._at = 0
        self._skipped = 0
        self.last = ""
        """The text of the value that was read last."""
        self._skip()
        if not self.next:
            raise GoJSONError("EOF")

    @property
    def next(self) -> str:
        """The character at the position; empty at the end."""
        return self._text[self._at : self._at + 1]

    def value(self) -> Any:
        """Reads a value of any type. Raises TooLargeError, too."""
        if not self.next:
            raise GoJSONError("unexpected EOF")
        while True:
            try:
                value, end = read_at(self._text, self._at)
            except GoJSONError as error:
                if self._grow():  # the rest of the value may be missing
                    continue
                if self._body and str(error) == "unexpected EOF":
                    raise _too_long() from None
                raise
            if end + _NUMBER_TAIL < len(self._text) or not self._grow():
                break
        if end - self._at > MAX_VALUE:
            raise _too_long()
        self._passed(end, self._text[self._at : end])
        return value

    def plain_strings(self) -> list[str] | None:
        """Reads a list of ASCII strings without brackets: in a third of the time of `value`. None for any other value,
        which stays unread.

        The same text gives the same list, which must not be changed: kube-scheduler sends the names of all nodes for
        each pod.
        """
        while self.next == "[" and (end := self._text.find("]", self._at) + 1) == 0:
            if not self._grow():
                return None
        if self.next != "[" or end - self._at > MAX_VALUE:
            return None
        text = self._text[self._at : end]
        found = _lists.get(text)
        if found is None:
            if not text.isascii():
                return None
            try:
                found = orjson.loads(text)
                "".join(found)
            except (orjson.JSONDecodeError, TypeError):  # such as a string with a bracket
                return None
            _lists.put(text, found, len(text) + BYTES_PER_NAME * len(found))
        self._passed(end, text)
        return found

    def _passed(self, end: int, text: str) -> None:
        """A value with this text ends here."""
        self.last = text
        self._at = end
        self._skip()

    def skip(self) -> None:
        """Skips a value. Raises TooLargeError if all of these together are longer than one value may be."""
        self.value()
        self._skipped += len(self.last)
        if self._skipped > MAX_VALUE:
            raise TooLargeError(f"the unknown fields are longer than {MAX_VALUE} characters")

    def fields(self, name: str) -> Iterator[str]:
        """Reads a Go struct, or null. After each key, the caller reads the value."""
        if self.next == "{":
            yield from self.members(MAX_FIELDS, "fields")
        elif (value := self.value()) is not None:
            raise mismatch(value, "", f"v1.{name}")

    def members(self, most: int, what: str) -> Iterator[str]:
        """Reads an object. After each key, the caller reads the value. Raises TooLargeError for more than `most`
        keys.
        """
        self._take()
        if self.next == "}":
            self._take()
            return
        for _ in range(most):
            plain = _PLAIN_KEY.match(self._text, self._at)
            if plain is not None:
                self._at = plain.end()
                yield plain[1]
            else:
                yield self._key()
            if not self._more("}", "after object key:value pair"):
                return
        raise TooLargeError(f"there are more than {most} {what}")

    def _key(self) -> str:
        """Reads a key, and what stands between it and its value."""
        if self.next != '"':
            raise self._invalid("looking for beginning of object key string")
        key = string(self.value(), "")
        if self.next != ":":
            raise self._invalid("after object key")
        self._take()
        return key

    def items(self) -> Iterator[Any]:
        """Reads a list."""
        self._take()
        if self.next == "]":
            self._take()
            return
        while True:
            yield self.value()
            if not self._more("]", "after array element"):
                return

    def _more(self, closing: str, where: str) -> bool:
        """True if another element follows."""
        found = self.next
        if found not in (",", closing):
            raise self._invalid(where)
        self._take()
        return found == ","

    def _invalid(self, where: str) -> GoJSONError:
        return invalid_character(self.next, where) if self.next else GoJSONError("unexpected EOF")

    def _take(self) -> None:
        self._at += 1
        self._skip()

    def _skip(self) -> None:
        """To the next character that is no space."""
        while not self._text[self._at : self._at + 1] > " ":  # no character that is a space, in most cases
            self._at = _SPACE.match(self._text, self._at).end()
            if self._at < len(self._text) or not self._decode_more():
                return

    def _grow(self) -> bool:
        """Decodes as much again as is there, within the bound of a value. False if there is no more. Raises
        TooLargeError.
        """
        wanted = min(2 * (len(self._text) - self._at), MAX_VALUE) + CHUNK
        if len(self._text) - self._at > MAX_VALUE or not self._body:
            return False
        if self._text.count("[", self._at) + self._text.count("{", self._at) > MAX_BRACKETS:
            raise TooLargeError(f"a value has more than {MAX_BRACKETS} lists and objects")
        while len(self._text) - self._at < wanted and self._decode_more():
            pass
        return True

    def _decode_more(self) -> bool:
        if not self._body:
            return False
        chunk = self._body[:CHUNK]
        del self._body[:CHUNK]
        self._text = self._text[self._at :] + self._decode(chunk, not self._body)
        self._at = 0
        return True


def _too_long() -> TooLargeError:
    return TooLargeError(f"a value is longer than {MAX_VALUE} characters")
