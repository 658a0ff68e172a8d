"""The free volumes of a storage class, from which the claims of a pod choose.

Invariant: a claim takes the smallest volume that suits it, and of equal ones the first in the store. A volume that is
reserved for a claim is taken by that claim only. Source: kube-scheduler's volume binder.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from podwright.core.objects.selectors import Labels
from podwright.core.objects.volumes import PersistentVolume, PersistentVolumeClaim
from podwright.core.plugins.volumes.mentioned_values import MentionedValues
from podwright.core.state.volumes.volume_index import VolumeIndex

_Ranked = tuple[int, PersistentVolume, bool]
"""(rank by capacity, volume, whether the label under which it is indexed is all that it requires of a node)"""


class Shelf:
    """The free volumes of one class for claims that differ in their request only, smallest first.

    They are indexed by a node label that they require.
    """

    def __init__(self, volumes: Sequence[tuple[int, PersistentVolume]], mentioned: MentionedValues) -> None:
        """`volumes`, with their ranks in the pool, are in the order of ranks. Adds their requirements to
        `mentioned`.
        """
        self.ranks: AbstractSet[int] = frozenset(rank for rank, _ in volumes)
        self._anywhere: list[_Ranked] = []
        self._by_label: dict[str, dict[str, list[_Ranked]]] = {}
        for rank, volume in volumes:
            self._add(rank, volume)
            mentioned.add_affinity(volume.affinity)

    def best(self, request: int, labels: Labels, search: VolumeSearch) -> PersistentVolume | None:
        """The smallest volume for a claim on a node with these labels. None: no volume is left."""
        found: _Ranked | None = None
        for ranked in self._lists(labels):
            head = search.head(ranked, request, labels)
            if head is not None and (found is None or head[0] < found[0]):
                found = head
        return None if found is None else found[1]

    def reached(self, labels: Labels) -> list[int]:
        """The ranks of the volumes that a node with these labels reaches, in order."""
        entries = (entry for ranked in self._lists(labels) for entry in ranked)
        return sorted(rank for rank, volume, certain in entries if certain or reachable(volume, labels))

    def _lists(self, labels: Labels) -> Iterator[list[_Ranked]]:
        yield self._anywhere
        for key, by_value in self._by_label.items():
            value = labels.get(key)
            if value is not None and value in by_value:
                yield by_value[value]

    def _add(self, rank: int, volume: PersistentVolume) -> None:
        terms = () if volume.affinity is None else volume.affinity.terms
        if len(terms) == 1:
            for requirement in terms[0]:
                if requirement.operator == "In":
                    entry = (rank, volume, len(terms[0]) == 1)
                    by_value = self._by_label.setdefault(requirement.key, {})
                    for value in requirement.values:
                        by_value.setdefault(value, []).append(entry)
                    return
        self._anywhere.append((rank, volume, volume.affinity is None))


class VolumeSearch:
    """The choice of volumes for the claims of a pod on one node. The claims must come in the order of their requests.

    So a volume that a claim could not take, no later one can take either: each list of volumes is read only once.
    """

    def __init__(self) -> None:
        self.taken: set[str] = set()
        self._heads: dict[int, int] = {}
        self._empty: set[Shelf] = set()

    def best(self, shelf: Shelf, request: int, labels: Labels) -> PersistentVolume | None:
        """Takes the best volume of the shelf. None: no volume is left."""
        if shelf in self._empty:
            return None
        volume = shelf.best(request, labels, self)
        if volume is None:
            self._empty.add(shelf)
        else:
            self.taken.add(volume.name)
        return volume

    def head(self, ranked: list[_Ranked], request: int, labels: Labels) -> _Ranked | None:
        """The first volume in the list that a claim with this request can take on the node."""
        start = self._heads.get(id(ranked))
        if start is None:
            start = bisect_left(ranked, request, key=_capacity_of_ranked)
        for position in range(start, len(ranked)):
            _, volume, certain = ranked[position]
            if volume.capacity >= request and volume.name not in self.taken and (certain or reachable(volume, labels)):
                self._heads[id(ranked)] = position
                return ranked[position]
        self._heads[id(ranked)] = len(ranked)
        return None


class VolumePool:
    """The volumes of one class, from which claims choose. Claims that ask for the same share a shelf."""

    def __init__(
        self, index: VolumeIndex, storage_class: str, mentioned: MentionedValues, point: Callable[[], None]
    ) -> None:
        """`point`: called where the attempt may pause."""
        self._index = index
        self._mentioned = mentioned
        self.free: list[PersistentVolume] = []
        """By rank: smallest first."""
        self._claimed: dict[tuple[str, str], list[PersistentVolume]] = {}
        self._promised: set[str] = set()
        """The names of reserved volumes that a mount of their claim takes. A further mount takes another volume."""
        for volume in index.unbound(storage_class):
            point()
            if volume.claim is None:
                self.free.append(volume)
            else:
                self._claimed.setdefault((volume.claim.namespace, volume.claim.name), []).append(volume)
        self.free.sort(key=_capacity_of)
        self._shelves: dict[Hashable, Shelf] = {}

    @property
    def shelves(self) -> Collection[Shelf]:
        """In a fixed order."""
        return self._shelves.values()

    def wanted(self, claim: PersistentVolumeClaim) -> Wanted:
        """Returns the volumes that the claim can take."""
        claimed = self._claimed.get((claim.namespace, claim.name), ())
        for volume in (*claimed, *self._index.reserved(claim)):
            if volume.name not in self._promised and claim.reserved_by(volume) and _fits_claim(claim, volume):
                self._promised.add(volume.name)
                self._mentioned.add_affinity(volume.affinity)
                return Wanted(claim, self, volume, None)
        kind = (claim.volume_mode, claim.attributes_class, claim.access_modes, claim.selector)
        shelf = self._shelves.get(kind)
        if shelf is None:
            fitting = [
                entry
                for entry in enumerate(self.free)
                if _suits_claim(claim, entry[1]) and _is_free_for(claim, entry[1])
            ]
            shelf = self._shelves[kind] = Shelf(fitting, self._mentioned)
        return Wanted(claim, self, None, shelf)


class Wanted(NamedTuple):
    """A claim, and the volume that is reserved for it or the shelf from which it takes one."""

    claim: PersistentVolumeClaim
    pool: VolumePool
    reserved: PersistentVolume | None
    shelf: Shelf | None

    def choose(self, labels: Labels, search: VolumeSearch) -> PersistentVolume | None:
        """The volume to use on a node with these labels. None: no volume is left."""
        if self.shelf is not None:
            return search.best(self.shelf, request_of(self.claim), labels)
        return self.reserved if self.reserved is not None and reachable(self.reserved, labels) else None


def _fits_claim(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """The conditions that also apply to the volume that is reserved for the claim."""
    return volume.capacity >= request_of(claim) and _suits_claim(claim, volume)


def _suits_claim(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """The same without the size."""
    return (
        volume.volume_mode == claim.volume_mode
        and volume.attributes_class == claim.attributes_class
        and not volume.terminating
    )


def _is_free_for(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    return (
        volume.available
        and claim.access_modes <= volume.access_modes
        and (claim.selector is None or claim.selector.matches(volume.labels))
    )


def reachable(volume: PersistentVolume, labels: Labels) -> bool:
    return volume.affinity is None or volume.affinity.matches(labels)


def _capacity_of(volume: PersistentVolume) -> int:
    return volume.capacity


def _capacity_of_ranked(entry: _Ranked) -> int:
    return entry[1].capacity


def request_of(claim: PersistentVolumeClaim) -> int:
    return claim.request or 0
