"""Finds policies of equal precedence that may match the same pods: only their age decides between them, and their
status says so.

Two policies overlap if both can match the same labels, namespace and priority class, whatever exists in the cluster.
When a policy is added, it is compared once with each other policy of its scheduler name and precedence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from podwright.api.compile import CompiledPolicy
from podwright.api.spec.match import CompiledMatch
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.selectors import Requirement

KEPT: Final = 5
"""How many overlapping policies are known of each."""
_NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
"""The label with which the API server repeats a namespace's name."""

_Group = tuple[str, int]
_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Overlap:
    """The policies of the same precedence that may match the same pods as a policy: the names of policies before and
    after it in their order. `more`: whether there are further ones.
    """

    precedence: int
    before: tuple[str, ...]
    after: tuple[str, ...]
    more: bool = False


@dataclass(frozen=True, slots=True)
class _Values:
    """The values that requirements allow for one label. `only`: the allowed ones, None for any but `without`; `absent`:
    the label may be missing.
    """

    only: frozenset[str] | None
    without: frozenset[str]
    absent: bool

    @staticmethod
    def of(requirement: Requirement) -> _Values:
        values = requirement.values
        match requirement.operator:
            case "In":
                return _Values(values, _NONE, absent=False)
            case "NotIn":
                return _Values(None, values, absent=True)
            case "Exists":
                return _Values(None, _NONE, absent=False)
        return _Values(_NONE, _NONE, absent=True)

    def meet(self, other: _Values) -> _Values:
        """The values that both allow."""
        first, second = self.only, other.only
        only = second if first is None else first if second is None else first & second
        without = self.without | other.without
        return _Values(None if only is None else only - without, without, absent=self.absent and other.absent)

    def agrees_with(self, other: _Values) -> bool:
        """True if both allow some value."""
        return self.meet(other).possible

    def within(self, other: _Values) -> bool:
        """True if the other allows everything that this one allows."""
        if self.absent and not other.absent:
            return False
        if self.only is None:
            return other.only is None and other.without <= self.without
        return (other.only is None or self.only <= other.only) and not self.only & other.without

    @property
    def possible(self) -> bool:
        return self.absent or self.only is None or bool(self.only)


_NONE: Final[frozenset[str]] = frozenset()


@dataclass(slots=True, eq=False)
class _Member:
    """A policy, how many others overlap with it, and at most KEPT of these."""

    policy: CompiledPolicy
    allowed: Mapping[_Key, _Values]
    count: int = 0
    others: list[CompiledPolicy] = field(default_factory=list)

    def overlaps(self, other: _Member) -> bool:
        ours, theirs = self.allowed, other.allowed
        if len(theirs) < len(ours):
            ours, theirs = theirs, ours
        return all(key not in theirs or values.agrees_with(theirs[key]) for key, values in ours.items())

    def note(self, other: CompiledPolicy) -> None:
        self.count += 1
        if len(self.others) < KEPT:
            self.others.append(other)


def may_take_the_same_pods(first: CompiledMatch, second: CompiledMatch) -> bool:
    """True if both can match the same pod, whatever they say about namespaces."""
    ours, theirs = _allowed_pods(first), _allowed_pods(second)
    if not all(values.possible for values in (*ours.values(), *theirs.values())):
        return False
    return all(key not in theirs or values.agrees_with(theirs[key]) for key, values in ours.items())


def takes_all_pods_of(first: CompiledMatch, second: CompiledMatch) -> bool:
    """True if the first matches all pods that the second matches, whatever they say about namespaces."""
    theirs = _allowed_pods(second)
    return all(key in theirs and theirs[key].within(values) for key, values in _allowed_pods(first).items())


def _allowed_pods(match: CompiledMatch) -> Mapping[_Key, _Values]:
    return _allowed(replace(match, namespaces=None, namespace_names=_NONE))


class Overlaps:
    """See the module."""

    def __init__(self) -> None:
        self._groups: dict[_Group, dict[CompiledPolicy, _Member]] = {}

    def add(self, policy: CompiledPolicy) -> None:
        """Adds a policy. Ignores one that is only for pods which name it, or that can match no pod."""
        allowed = _allowed(policy.match)
        if policy.spec.by_name == "Required" or not all(values.possible for values in allowed.values()):
            return
        member = _Member(policy, allowed)
        group = self._groups.setdefault(_group(policy), {})
        for other in group.values():
            if member.overlaps(other):
                member.note(other.policy)
                other.note(policy)
        group[policy] = member

    def remove(self, policy: CompiledPolicy) -> None:
        key = _group(policy)
        group = self._groups.get(key, {})
        gone = group.pop(policy, None)
        if gone is None:
            return
        if not group:
            del self._groups[key]
        for member in group.values():
            if member.overlaps(gone):
                member.count -= 1
                if policy in member.others:
                    member.others.remove(policy)
                    if member.count and not member.others:
                        self._search(member, group.values())

    @staticmethod
    def _search(member: _Member, group: Iterable[_Member]) -> None:
        member.count, wanted = 0, member.count
        for other in group:
            if other is not member and member.overlaps(other):
                member.note(other.policy)
                if len(member.others) == KEPT:
                    break
        member.count = wanted

    def of(self, policy: CompiledPolicy) -> tuple[Sequence[CompiledPolicy], int]:
        """At most KEPT policies of the same precedence that may match the same pods, and how many such policies there
        are.
        """
        member = self._groups.get(_group(policy), {}).get(policy)
        return ((), 0) if member is None else (member.others, member.count)


def _group(policy: CompiledPolicy) -> _Group:
    return policy.spec.scheduler_name, policy.spec.precedence


def _allowed(match: CompiledMatch) -> Mapping[_Key, _Values]:
    """Returns the allowed values by kind and name of a label; the priority class counts as a label."""
    found: dict[_Key, _Values] = {}
    for key, values in _requirements(match):
        found[key] = found[key].meet(values) if key in found else values
    return found


def _requirements(match: CompiledMatch) -> Iterator[tuple[_Key, _Values]]:
    for kind, selector in (("pod", match.pods), ("namespace", match.namespaces)):
        for requirement in () if selector is None else selector.requirements:
            yield (kind, requirement.key), _Values.of(requirement)
    if match.namespace_names:
        yield ("namespace", _NAMESPACE_NAME), _Values(match.namespace_names, _NONE, absent=False)
    if match.priority_classes:
        yield ("priority class", ""), _Values(match.priority_classes, _NONE, absent=False)
