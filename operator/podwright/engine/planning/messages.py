"""Messages: what a child process has decided, as bytes.

Only values travel. A pod, a pod group or another object of the engine travels as its name, and becomes the engine's
own object again, in its current version. One that is gone meanwhile becomes None, and so does a placed pod whose
priority has changed. States of cycles stay behind, because they refer to everything.
"""

from __future__ import annotations

import io
import pickle
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from podwright.core.framework.diagnosis import NodeDiagnosis
from podwright.core.framework.interface import CycleState, PostFilterResult
from podwright.core.gangs.decisions import Packed
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import PodGroup
from podwright.core.queue import SchedulingQueue
from podwright.core.state.cache import Cache


class Reasons:
    """A diagnosis without its columns: how many nodes there are, and how many each plugin rejected for each reason."""

    def __init__(self, total: int, by_plugin: Mapping[str, Counter[str]]) -> None:
        self.total = total
        self._by_plugin = by_plugin

    def reasons_by_plugin(self) -> Mapping[str, Counter[str]]:
        return self._by_plugin


class Later(Sequence[Any]):
    """Values that are decoded when they are asked for: all of them at once would take long."""

    def __init__(self, messages: Messages, encoded: Sequence[bytes]) -> None:
        self._messages = messages
        self._encoded = encoded

    def __len__(self) -> int:
        return len(self._encoded)

    def __getitem__(self, index: Any) -> Any:
        return self._messages.decode(self._encoded[index])


class Messages:
    """See the module. `shared`: further objects of the engine, which decisions may refer to."""

    def __init__(self, cache: Cache, queue: SchedulingQueue, *, shared: Sequence[object]) -> None:
        self._cache = cache
        self._queue = queue
        self._shared = (cache, cache.table, self, *shared)
        self._numbers = {id(each): number for number, each in enumerate(self._shared)}

    def encode(self, value: Any) -> bytes:
        """Raises what pickle raises for a value that cannot travel."""
        written = io.BytesIO()
        _Writer(written, messages=self, numbers=self._numbers).dump(value)
        return written.getvalue()

    def decode(self, message: bytes) -> Any:
        return _Reader(io.BytesIO(message), self._find).load()

    def _find(self, kind: Any, name: Any) -> Any:
        if kind is PodInfo:
            uid, priority = name
            node, queued = self._cache.placement(uid), self._queue.get(uid)
            if node is not None:
                found = node.pods[uid]
                return found if found.priority == priority else None
            return None if queued is None else queued.pod
        if kind is PodGroup:
            return self._cache.groups.get(name)
        if kind is CycleState:
            return CycleState()
        return self._shared[name]


class _Writer(pickle.Pickler):
    def __init__(self, file: io.BytesIO, *, messages: Messages, numbers: Mapping[int, int]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._messages = messages
        self._numbers = numbers

    def persistent_id(self, value: Any) -> Any:
        match value:
            case PodInfo():
                return PodInfo, (value.uid, value.priority)
            case PodGroup():
                return PodGroup, value.key
            case CycleState():
                return CycleState, ""
        number = self._numbers.get(id(value))
        return None if number is None else (Cache, number)

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, NodeDiagnosis):
            return Reasons, (value.total, value.reasons_by_plugin())
        if isinstance(value, PostFilterResult):  # without details, which may be anything
            return PostFilterResult, (value.nominated_node, value.victims, None, value.violations)
        if isinstance(value, Packed):
            decisions = Later(self._messages, [self._messages.encode(each) for each in value.decisions])
            return Packed, (decisions, value.placed, value.certificate, value.more, value.problem)
        return NotImplemented


class _Reader(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, find: Callable[[Any, Any], Any]) -> None:
        super().__init__(file)
        self._found = find

    def persistent_load(self, key: Any) -> Any:
        return self._found(*key)
