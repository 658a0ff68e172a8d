"""Grouping: a rule by which the pods of one workload are a pod group, although nobody made a PodGroup for them.

A grouping selects workloads by the kind and the labels of an owner of their pods. Its expressions read that owner and
the pod. core/grouping_expressions.py compiles them; engine/intake/workloads.py finds the owners and makes the groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from podwright.core.cel.errors import EvaluationError
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.selectors import LabelSelector

if TYPE_CHECKING:
    from podwright.core.cel.environment import Program

COST_LIMIT: Final = 10_000
"""The cost limit of one evaluation, in CEL's cost units."""
MAX_KEY: Final = 253
"""The most characters of a key."""
MAX_MINIMUM: Final = 100_000

Kind = tuple[str, str]
"""The API group, empty for the core one, and the kind."""
POD: Final[Kind] = ("", "Pod")


class GroupingError(Exception):
    """The expressions of a grouping have no usable value for a pod."""


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """See the module. `min_count` None: its pods are in no group."""

    name: str
    precedence: int
    created: float
    """In seconds since the epoch."""
    kind: Kind
    """The kind of the owners that it selects."""
    api_version: str
    """Group and version of this kind. An owner that is read in another version is not selected."""
    read: Mapping[Kind, str]
    """The kinds to be read: that of the owners, and those between these and the pods. With the version of each."""
    selector: LabelSelector
    key: Program | None
    min_count: Program | None
    texts: Sequence[str]
    """The expressions as they are written."""
    part: Program | None
    """The part of its group to which a pod belongs. None: groups have no parts."""
    part_count: Program | None
    waits: bool
    """True if pods wait whose owners cannot be read, or for which an expression fails."""

    def selects(self, api_version: str, labels: Mapping[str, str]) -> bool:
        """True if it selects an owner of its kind."""
        return api_version == self.api_version and self.selector.matches(labels)

    def group_of(self, owners: Sequence[Mapping[str, Any]], pod: Mapping[str, Any]) -> tuple[str, int]:
        """The key and the minimum of the pod's group. `owners`: from the pod's controller up to the owner that this
        grouping selects; `pod` has the fields of the variable. Raises GroupingError.
        """
        assert self.min_count is not None
        variables = {"owner": owners[-1], "owners": owners, "pod": pod}
        key = "" if self.key is None else _text(self.key, "spec.key", variables)
        return key, _count(self.min_count, "spec.minCount", variables)

    def part_of(self, owners: Sequence[Mapping[str, Any]], pod: Mapping[str, Any]) -> str:
        """The part of its group to which the pod belongs, "" if to none. As `group_of`."""
        variables = {"owner": owners[-1], "owners": owners, "pod": pod}
        return "" if self.part is None else _text(self.part, "spec.subGroup.key", variables)

    def minimum_of_part(self, owners: Sequence[Mapping[str, Any]], pod: Mapping[str, Any]) -> int:
        """The minimum of the pod's part. As `group_of`."""
        variables = {"owner": owners[-1], "owners": owners, "pod": pod}
        return 0 if self.part_count is None else _count(self.part_count, "spec.subGroup.minCount", variables)


def _text(program: Program, where: str, variables: Mapping[str, object]) -> str:
    text = _evaluated(program, where, variables)
    if not isinstance(text, str) or len(text) > MAX_KEY:
        wrong = f"has {len(text)} characters" if isinstance(text, str) else "is no string"
        raise GroupingError(f"{where}: its value {wrong}, expected a string of at most {MAX_KEY} characters")
    return text


def _count(program: Program, where: str, variables: Mapping[str, object]) -> int:
    count = _evaluated(program, where, variables)
    if type(count) is not int or not 0 <= count <= MAX_MINIMUM:
        raise GroupingError(f"{where}: its value is {count!r:.40}, expected a whole number up to {MAX_MINIMUM}")
    return count


def _evaluated(program: Program, where: str, variables: Mapping[str, object]) -> object:
    try:
        return program.evaluate(variables, COST_LIMIT)
    except EvaluationError as error:
        raise GroupingError(f"{where}: {error}") from error
