"""Which claims of a pod find a volume on a node, from what they choose on similar nodes.

Volumes that name single nodes make nearly all nodes differ. So the claims choose once for an imagined node: it is like
the node, but has a value that no volume mentions for each label of which volumes mention many values. The real node
differs in the volumes that mention its own label values. `chains` computes how these change the choice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.quantity import round_up
from podwright.core.objects.selectors import Labels
from podwright.core.objects.volumes import PersistentVolume, VolumeAffinity, mapping_at
from podwright.core.plugins.volumes.chains import Chains, Chooser, Menu, Reassignment, Tally, add_to
from podwright.core.plugins.volumes.mentioned_values import MentionedValues, Signature
from podwright.core.plugins.volumes.shelves import VolumePool, VolumeSearch, Wanted, request_of

FEW_VALUES: Final = 16
"""Nodes that differ in a label with at most this many mentioned values do not count as similar."""


@dataclass(frozen=True, slots=True, eq=False)
class VolumeChoice:
    """The volumes that the claims choose on a node. `unfilled`: the numbers of the claims that find none, in order."""

    unfilled: Sequence[int]
    tallies: Mapping[str, Tally]
    reason: str = ""

    def usage(self) -> Mapping[str, tuple[int, int]]:
        """(requested, available) bytes of the chosen volumes, by storage class."""
        return {name: (requested, there) for name, (count, requested, there) in self.tallies.items() if count}


class _Dependent(NamedTuple):
    """A choice that an affinity decides about: a volume of a pool, by its rank, or (`pool` is None) the reserved volume
    of the claim of this number.
    """

    pool: VolumePool | None
    number: int


class SimilarNodes:
    """See the module. For claims in the order of their requests."""

    def __init__(self, wanted: Sequence[Wanted], mentioned: MentionedValues, *, provisioned: bool) -> None:
        """`mentioned` must be complete. `provisioned`: whether claims that find no volume may get a new one."""
        self._wanted = wanted
        self._provisioned = provisioned
        self._keys = mentioned.keys
        self._wide: dict[str, str] = {}
        """The labels of which many values are mentioned, each with a value that is not."""
        for key in mentioned.keys:
            values = mentioned.of(key)
            if values is not None and len(values) > FEW_VALUES:
                self._wide[key] = _other_than(values)
        self._dependents: dict[VolumeAffinity, list[_Dependent]] = {}
        self._mentioning: dict[tuple[str, str], dict[VolumeAffinity, None]] = {}
        self._imagined: dict[Signature, _ImaginedNode] = {}
        if self._wide:
            self._find_dependents()

    def choice(self, signature: Signature, labels: Labels) -> VolumeChoice | None:
        """Returns the choice on a node with these labels, which have this signature; None if it is cheaper to choose
        again.

        If no volume can be provisioned, `unfilled` may name other claims than those that find no volume on this node,
        but is empty only if all find one.
        """
        if not self._wide:
            return None
        values = {
            key: value
            for key, value in zip(self._keys, signature, strict=True)
            if isinstance(value, str) and key in self._wide
        }
        like = tuple(True if key in values else value for key, value in zip(self._keys, signature, strict=True))
        imagined = self._imagined.get(like)
        if imagined is None:
            others = {key: self._wide[key] for key in values}
            imagined = self._imagined[like] = _ImaginedNode(self._wanted, {**labels, **others})
        more: list[_Dependent] = []
        fewer: list[_Dependent] = []
        for affinity in {affinity: None for pair in values.items() for affinity in self._mentioning.get(pair, ())}:
            there = affinity.matches(labels)
            if there != affinity.matches(imagined.labels):
                (more if there else fewer).extend(self._dependents[affinity])
        if not more and not any(map(imagined.depends_on, fewer)):
            return imagined.choice
        if not self._provisioned and len(imagined.choice.unfilled) > len(more):
            return imagined.choice
        return imagined.choice_with(more, fewer)

    def _find_dependents(self) -> None:
        for number, wanted in enumerate(self._wanted):
            if wanted.reserved is not None:
                self._add(wanted.reserved, _Dependent(None, number))
        for pool in {id(wanted.pool): wanted.pool for wanted in self._wanted}.values():
            for rank in sorted(set[int]().union(*(shelf.ranks for shelf in pool.shelves))):
                self._add(pool.free[rank], _Dependent(pool, rank))

    def _add(self, volume: PersistentVolume, dependent: _Dependent) -> None:
        affinity = volume.affinity
        if affinity is None:
            return
        if affinity in self._dependents:
            self._dependents[affinity].append(dependent)
            return
        self._dependents[affinity] = [dependent]
        for requirement in (requirement for term in affinity.terms for requirement in term):
            if requirement.key in self._wide:
                for value in requirement.values:
                    self._mentioning.setdefault((requirement.key, value), {})[affinity] = None


class _ImaginedNode:
    """An imagined node, and what the claims choose there."""

    def __init__(self, wanted: Sequence[Wanted], labels: Labels) -> None:
        self.labels = labels
        self._wanted = wanted
        search = VolumeSearch()
        self._volumes = [each.choose(labels, search) for each in wanted]
        tallies: dict[str, Tally] = {}
        for each, volume in zip(wanted, self._volumes, strict=True):
            if volume is not None:
                add_to(tallies, {_class_of(volume): _tally(each, volume)})
        self._taken = {volume.name for volume in self._volumes if volume is not None}
        self.choice = VolumeChoice([number for number, volume in enumerate(self._volumes) if volume is None], tallies)
        self._chains: dict[int, Chains] = {}

    def depends_on(self, dependent: _Dependent) -> bool:
        """True if the claims choose otherwise without this volume: not if none of them has chosen it."""
        return dependent.pool is None or dependent.pool.free[dependent.number].name in self._taken

    def choice_with(self, more: Sequence[_Dependent], fewer: Sequence[_Dependent]) -> VolumeChoice | None:
        """Returns the choice on a node that reaches these volumes more, and these fewer; None if it is cheaper to
        choose again.
        """
        changes = []
        for pool in {id(pool): pool for pool, _ in (*more, *fewer)}.values():
            ranks, lost = (frozenset(number for of, number in found if of is pool) for found in (more, fewer))
            if pool is None:
                changes += [self._reserved(number) for number in (*ranks, *lost)]
                continue
            change = self._chains_of(pool).change(ranks, lost)
            if change is None:
                return None
            changes.append(change)
        if not any(change.tallies for change in changes):
            return self.choice
        tallies, unfilled = dict(self.choice.tallies), set(self.choice.unfilled)
        for change in changes:
            add_to(tallies, change.tallies)
            unfilled = (unfilled - {*change.filled}) | {*change.emptied}
        return VolumeChoice(sorted(unfilled), tallies)

    def _reserved(self, number: int) -> Reassignment:
        """The change if the claim's reserved volume is reached here, but not there, or the other way round."""
        wanted = self._wanted[number]
        volume = wanted.reserved
        assert volume is not None
        count, requested, there = _tally(wanted, volume)
        if self._volumes[number] is None:
            return Reassignment((number,), (), {_class_of(volume): (count, requested, there)})
        return Reassignment((), (number,), {_class_of(volume): (-count, -requested, -there)})

    def _chains_of(self, pool: VolumePool) -> Chains:
        chains = self._chains.get(id(pool))
        if chains is None:
            chains = self._chains[id(pool)] = self._make_chains(pool)
        return chains

    def _make_chains(self, pool: VolumePool) -> Chains:
        menu_of = {id(shelf): number for number, shelf in enumerate(pool.shelves)}
        ranks = {volume.name: rank for rank, volume in enumerate(pool.free)}
        choosers = []
        for number, (wanted, volume) in enumerate(zip(self._wanted, self._volumes, strict=True)):
            if wanted.pool is pool and wanted.shelf is not None:
                choice = None if volume is None else ranks[volume.name]
                choosers.append(Chooser(number, menu_of[id(wanted.shelf)], request_of(wanted.claim), choice))

        def weigh(number: int, rank: int) -> tuple[str, Tally]:
            volume = pool.free[rank]
            return _class_of(volume), _tally(self._wanted[number], volume)

        menus = [Menu(shelf.ranks, shelf.reached(self.labels)) for shelf in pool.shelves]
        return Chains(choosers, menus, [volume.capacity for volume in pool.free], weigh)


def _class_of(volume: PersistentVolume) -> str:
    """The class to which scoring counts the volume: the field, without the beta annotation."""
    return str(mapping_at(volume.raw, "spec").get("storageClassName") or "")


def _tally(wanted: Wanted, volume: PersistentVolume) -> Tally:
    return 1, round_up(request_of(wanted.claim)), round_up(volume.capacity)


def _other_than(values: AbstractSet[str]) -> str:
    """Returns a value that is not in `values`."""
    other = "-"
    while other in values:
        other += "-"
    return other
