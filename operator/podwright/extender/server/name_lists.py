"""Names of nodes in the order of a request, with what is derived from them: their rows and their JSON.

A list has thousands of names. A loop over them in Python would take most of the time of an answer, so each step here is one call but for the scores, and the next
request with the same list (see `known_texts`) does not repeat it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Final

import numpy as np
import orjson
from numpy.typing import NDArray

from podwright.core.state.columns.table import NodeTable
from podwright.extender.go_json import strings
from podwright.extender.server.body_text import BodyText, TooLargeError
from podwright.extender.server.known_texts import KnownTexts
from podwright.extender.wire import MAX_EXTENDER_PRIORITY, HostPriority, encode

KNOWN_LISTS: Final = 4
"""kube-scheduler sends two for each pod: the nodes that it found, and those that `filter` kept."""
KNOWN_BYTES: Final = 16 << 20
"""How much memory the known lists may take."""
SHORT: Final = 100
"""kube-scheduler takes nodes without a score for nodes with the score 0. Of longer lists, reading each object delays its pod by microseconds.

Source: `prioritizeNodes` in pkg/scheduler/schedule_one.go.
"""
_START: Final = '{"Host":"'
_ENDS: Final = tuple(f'","Score":{score}}}' for score in range(MAX_EXTENDER_PRIORITY + 1))
_BYTES_PER_NAME: Final = 128
"""A name as a string, its place in lists, and its row."""

Slots = NDArray[np.intp]


class NameList:
    """See the module. Treat `names` as immutable."""

    def __init__(self, names: Sequence[str], sent: str = "") -> None:
        """`sent`: the JSON from which they were read, if it has only ASCII characters; empty if it is not known."""
        self.names = names
        self.sent = sent
        self._text = sent if _is_plain(sent) else ""
        self._slots: tuple[NodeTable, int, Slots] | None = None

    def __len__(self) -> int:
        return len(self.names)

    @property
    def text(self) -> str:
        """JSON without spaces."""
        if not self._text:
            self._text = orjson.dumps(self.names).decode()
        return self._text

    @property
    def memory(self) -> int:
        """About how many bytes it takes."""
        return 4 * max(len(self.text), len(self.sent)) + _BYTES_PER_NAME * len(self.names)

    def slots(self, table: NodeTable) -> Slots:
        """intp[names]: the rows of the nodes, -1 where there is none."""
        if self._slots is None or self._slots[:2] != (table, table.membership):
            self._slots = table, table.membership, table.slots_of(self.names)
        return self._slots[2]

    def only(self, positions: NDArray[np.intp]) -> NameList:
        """The names at these positions."""
        kept = NameList([self.names[at] for at in positions.tolist()])
        if self._slots is not None:
            table, membership, slots = self._slots
            kept._slots = table, membership, slots[positions]
        return kept

    def encode_scores(self, scores: NDArray[np.int64]) -> bytes:
        """The HostPriorityList with these scores, from 0 to 10, in the order of the names.

        Of long lists, names with the score 0 are left out, and all names if they have the same score: see SHORT.
        """
        is_long = len(self.names) > SHORT
        if is_long and (scores == scores[0]).all():
            return b"[]"
        names, values = self.names, scores.tolist()
        if is_long:
            names, values = list(compress(names, values)), list(filter(None, values))
        scored = zip(names, values, strict=True)
        if not _is_plain(self.text):
            return encode(tuple(HostPriority(name, score) for name, score in scored))
        ends = _ENDS
        objects = [name + ends[score] for name, score in scored]
        return f"[{_START}{f',{_START}'.join(objects)}]".encode()


_NOT_PLAIN: Final = ("\\", " ", "\t", "\r", "\n")


def _is_plain(text: str) -> bool:
    """Whether a list of names is written without spaces and escapes, and has names."""
    return text.startswith('["') and not any(character in text for character in _NOT_PLAIN)


class NameLists:
    """Reads lists of names, and remembers the last ones."""

    def __init__(self) -> None:
        self._known: KnownTexts[NameList] = KnownTexts(KNOWN_LISTS, KNOWN_BYTES)

    @property
    def known_bytes(self) -> int:
        """How much memory the remembered lists take."""
        return self._known.size

    def read(self, text: BodyText, where: str, most: int) -> NameList | None:
        """Reads a list; None for null. Raises GoJSONError, and TooLargeError for more than `most` names."""
        found = self._known.take(text)
        if found is None:
            names = text.plain_strings()
            found = None if names is None else NameList(names, text.last)
            if found is None:
                value = strings(text.value(), where)
                found = None if value is None else NameList(value)
        if found is not None and len(found) > most:
            raise TooLargeError(f"there are more than {most} names of nodes")
        return found

    def remember(self, found: NameList) -> None:
        """The caller will send these names again."""
        self._known.keep(found.sent or found.text, found, found.memory)
