"""RandomScore: a pseudo-random score, always the same for the same pod and node.

The score is a hash of the pod's uid and the node's name, uniform over 0 to 100. So all nodes are equally likely,
decisions are reproducible, and the core needs no random source.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.framework.interface import (
    MAX_SCORE,
    CycleState,
    Feasible,
    Handle,
    Int64s,
    Plugin,
    Scope,
    ScorePlugin,
)
from podwright.core.objects.pod import PodInfo
from podwright.core.state.columns.table import NodeTable
from podwright.core.state.nodeinfo import NodeInfo

_BITS: Final = 2**64 - 1
_FIRST_FACTOR: Final = 0xBF58476D1CE4E5B9
_SECOND_FACTOR: Final = 0x94D049BB133111EB


class RandomScore(Plugin, ScorePlugin):
    """See the module."""

    name = "RandomScore"
    scope = Scope.NODE

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._hashes = np.zeros(0, np.uint64)
        self._names: list[str] = []
        self._epoch = -1

    def score(self, _state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        mixed = _hash(pod.uid) ^ _hash(node.name)
        mixed = ((mixed ^ (mixed >> 30)) * _FIRST_FACTOR) & _BITS
        mixed = ((mixed ^ (mixed >> 27)) * _SECOND_FACTOR) & _BITS
        return ((mixed >> 32) * (MAX_SCORE + 1)) >> 32

    def score_all(self, _state: CycleState, pod: PodInfo, feasible: Feasible) -> Int64s:
        mixed = feasible.take(self._column(feasible.table)) ^ np.uint64(_hash(pod.uid))
        mixed ^= mixed >> np.uint64(30)
        mixed *= np.uint64(_FIRST_FACTOR)
        mixed ^= mixed >> np.uint64(27)
        mixed *= np.uint64(_SECOND_FACTOR)
        mixed >>= np.uint64(32)
        mixed *= np.uint64(MAX_SCORE + 1)
        mixed >>= np.uint64(32)
        return mixed.view(np.int64)

    def _column(self, table: NodeTable) -> NDArray[np.uint64]:
        """uint64[nodes]: the hash of each node's name."""
        if self._epoch != table.epoch:
            if len(self._hashes) < table.size:
                self._hashes = np.resize(self._hashes, 2 * table.size)
            self._names += [""] * (table.size - len(self._names))
            for slot, name in enumerate(table.names):
                if name != self._names[slot]:
                    self._hashes[slot] = _hash(name)
                    self._names[slot] = name
            self._epoch = table.epoch
        return self._hashes[: table.size]


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
