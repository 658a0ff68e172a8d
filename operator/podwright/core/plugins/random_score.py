"""RandomScore: a pseudo-random score, always the same for the same pod and node.

The score is a hash of the pod's uid and the node's name, uniform over 0 to 100. So all nodes are equally likely,
decisions are reproducible, and the core needs no random source.
"""

from __future__ import annotations

import hashlib
from typing import Final

import numpy as np

from podwright.core.framework.interface import MAX_SCORE, CycleState, Feasible, Int64s, Plugin, Scope, ScorePlugin
from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo
from podwright.core.state.nodeinfo import NodeInfo

_BITS: Final = 2**64 - 1
_FIRST_FACTOR: Final = 0xBF58476D1CE4E5B9
_SECOND_FACTOR: Final = 0x94D049BB133111EB


class RandomScore(Plugin, ScorePlugin):
    """See the module."""

    name = "RandomScore"
    scope = Scope.NODE

    def score(self, _state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        mixed = _hash(pod.uid) ^ _hash(node.name)
        mixed = ((mixed ^ (mixed >> 30)) * _FIRST_FACTOR) & _BITS
        mixed = ((mixed ^ (mixed >> 27)) * _SECOND_FACTOR) & _BITS
        return ((mixed >> 32) * (MAX_SCORE + 1)) >> 32

    def score_all(self, _state: CycleState, pod: PodInfo, feasible: Feasible) -> Int64s:
        hashes = self.handle.cache.derived.get(self.name, _hash_of, np.uint64)
        mixed = feasible.take(hashes) ^ np.uint64(_hash(pod.uid))
        mixed ^= mixed >> np.uint64(30)
        mixed *= np.uint64(_FIRST_FACTOR)
        mixed ^= mixed >> np.uint64(27)
        mixed *= np.uint64(_SECOND_FACTOR)
        mixed >>= np.uint64(32)
        mixed *= np.uint64(MAX_SCORE + 1)
        mixed >>= np.uint64(32)
        return mixed.view(np.int64)


def _hash_of(node: Node) -> int:
    return _hash(node.name)


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
