"""Values that were read from bodies lately, by their text: a text that is sent again is not read again.

kube-scheduler sends the pod that it sent with `filter` again with `prioritize`, and the names that `filter` kept. The comparison of two texts costs a
hundredth of reading one.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

from podwright.core.objects.compaction import compact_regularly
from podwright.extender.server.body_text import BodyText

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Known(Generic[T]):
    text: str
    value: T
    size: int


class KnownTexts(Generic[T]):
    """See the module. Keeps what was used last, until the next compaction."""

    def __init__(self, most: int, total: int) -> None:
        """At most `most` values are kept, and the sum of their sizes is at most `total`."""
        self._most = most
        self._total = total
        self._known: deque[_Known[T]] = deque()
        """What was used last is at the end."""
        self._texts: tuple[str, ...] = ()
        """Those of the known values, in any order."""
        self.size = 0
        """The sum of the sizes."""
        compact_regularly(self)

    def __len__(self) -> int:
        return len(self._known)

    def compact(self) -> None:
        """Forgets everything."""
        self._known.clear()
        self._texts = ()
        self.size = 0

    def take(self, text: BodyText) -> T | None:
        """Reads the next value, if it has a known text. Otherwise nothing is read."""
        if not text.may_begin_with(self._texts):
            return None
        for known in reversed(self._known):
            if text.take(known.text):
                self._known.remove(known)
                self._known.append(known)
                return known.value
        return None

    def keep(self, text: str, value: T, size: int) -> None:
        """Remembers the value of this text, which is the whole of an object or a list: after its end, no text could go on as part of it."""
        if size > self._total or text in self._texts:
            return
        self._known.append(_Known(text, value, size))
        self.size += size
        while len(self._known) > self._most or self.size > self._total:
            self.size -= self._known.popleft().size
        self._texts = tuple(known.text for known in self._known)
