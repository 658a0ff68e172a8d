"""Lists as they come, cut into the texts of their objects, and events of watches of pods.

Each object of a page is read when its turn comes, and freed soon: while few objects are in memory, they are in the
caches of the CPU, and freed memory is used again at once. That takes a third of the time off a list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import orjson

from podwright.core.objects.pod_text import START, read_pod
from podwright.kube.client.errors import UnreachableError
from podwright.kube.client.json_text import loads

Read = Callable[[bytes], Any]
_ITEMS: Final = b'"items":['
_KINDS: Final = {b'{"type":"%b' % kind.encode(): kind for kind in ("ADDED", "MODIFIED", "DELETED")}
_POD: Final = b'","object":{"kind":"Pod","apiVersion":"v1",'


def loads_page(text: bytes, read: Read = loads) -> Any:
    """A page of a list, whose items can be iterated and counted. `read` reads an object, and raises
    orjson.JSONDecodeError if the text was cut at a wrong place. Raises orjson.JSONDecodeError itself.
    """
    head, between, rest = text.partition(_ITEMS + START)
    rest = rest.rstrip()
    if not between or not rest.endswith(b"}]}"):
        return loads(text)
    try:
        page = orjson.loads(head + _ITEMS + b"]}")
    except orjson.JSONDecodeError:
        return loads(text)
    page["items"] = _Items(rest[:-3].split(b"}," + START), page=text, read=read)
    return page


def loads_pods(text: bytes) -> Any:
    """Like `loads_page`, for pods with a node, which are PodText where possible."""
    return loads_page(text, _pod)


class _Items:
    """The objects of a page."""

    __slots__ = ("_page", "_read", "_texts")

    def __init__(self, texts: list[bytes], *, page: bytes, read: Read) -> None:
        self._page = page
        self._texts = texts
        self._read = read

    def __len__(self) -> int:
        return len(self._texts)

    def __iter__(self) -> Iterator[Any]:
        """Raises UnreachableError if the page is not JSON."""
        try:
            for text in self._texts:
                yield self._read(START + text + b"}")
        except orjson.JSONDecodeError:
            yield from self._whole()  # it was cut at a wrong place, so all come once more

    def _whole(self) -> Any:
        try:
            return loads(self._page)["items"]
        except orjson.JSONDecodeError as error:
            raise UnreachableError(f"the response is not JSON: {self._page[:100]!r}") from error


def _pod(text: bytes) -> Any:
    pod = read_pod(text)
    return loads(text) if pod is None else pod


def loads_pod_event(line: bytes) -> Any:
    """A watch event, whose object is a PodText where possible. Raises orjson.JSONDecodeError."""
    kind, between, rest = line.partition(_POD)
    if between and kind in _KINDS and rest.startswith(START[1:]) and rest.endswith(b"}}"):
        pod = read_pod(b"{" + rest[:-1])
        if pod is not None:
            return {"type": _KINDS[kind], "object": pod}
    return loads(line)
