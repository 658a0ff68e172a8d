"""The rules of a filter for all members of a gang, in numbers: a JointFilter states them, `gangs.joint_program` makes
rows of them.

A rule must never exclude a placement that the filter allows when members are placed one after the other: then a program
without a solution proves that no placement exists. It may allow more, because each placement is filtered afterwards.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence

from podwright.core.framework.interface import Bools, ExtensionPoint, Int64s
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo


@dataclass(frozen=True, slots=True, eq=False)
class Barred:
    """The member may not be on these nodes, bool[nodes], wherever the others are."""

    member: int
    nodes: Bools


@dataclass(frozen=True, slots=True, eq=False)
class Apart:
    """The two members, which may be of one kind, may not be in one domain of the key. `domains`: intp[nodes], `count`
    for none.
    """

    one: int
    other: int
    key: str
    domains: Int64s
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class Near:
    """Each of these members must be in a domain that is open: in `there`, bool[count], or with a member of `to`, or,
    with `first`, one domain that they choose.
    """

    members: Sequence[int]
    to: Sequence[int]
    domains: Int64s
    there: Bools
    first: bool


@dataclass(frozen=True, slots=True, eq=False)
class Even:
    """A domain that takes one of these members has at most `skew` pods more than the domain of `ids` with the fewest,
    or than 0 if `from_zero`.

    `counts`: int64[count], of pods that are there; `counting`: the members that count as such; `themselves`: those of
    `members` among them.
    """

    members: Sequence[int]
    themselves: Sequence[int]
    counting: Sequence[int]
    domains: Int64s
    ids: Int64s
    counts: Int64s
    skew: int
    from_zero: bool


JointRule = Barred | Apart | Near | Even


class JointFilter(ExtensionPoint):
    @abstractmethod
    def joint_rules(self, members: Sequence[PodInfo]) -> Iterable[JointRule]:
        """The rules for members of these kinds, one pod for each, on the cluster as it is."""
