"""The state of a policy object: its newest generation, its active generation, and the pods for which it was selected;
and what both kinds of policies answer about the objects that they know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from podwright.api.compile import CompiledPolicy
from podwright.api.policy_result import ApplyResult
from podwright.api.scheduler_policy import LastAccepted, identity_of
from podwright.core.objects.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Accepted:
    """An accepted generation of a policy: compiled, and as it was written."""

    policy: CompiledPolicy
    source: LastAccepted


@dataclass(frozen=True, slots=True)
class KnownPolicy:
    """A policy object: the newest generation that was applied, and the generation that is active.

    `spec`: as it was written, only of objects that have no generation, whose specs are compared instead.
    """

    uid: str
    generation: int
    spec: Any
    result: ApplyResult
    active: Accepted | None
    refused: CompiledPolicy | None
    """The refused policy, if no generation is active; None if its pods are unknown."""

    @property
    def last_accepted(self) -> LastAccepted | None:
        return None if self.active is None else self.active.source

    @property
    def decider(self) -> CompiledPolicy | None:
        return self.refused if self.active is None else self.active.policy


@dataclass(frozen=True, slots=True)
class Selection:
    """The policy selected for a pod. Valid while the namespace's labels are this very mapping."""

    namespace_labels: Mapping[str, str]
    policy: CompiledPolicy


class Known(Protocol):
    """The known state of a policy object of either kind. `spec`: as it was written; `result`: None before the first
    check.
    """

    @property
    def uid(self) -> str: ...
    @property
    def generation(self) -> int: ...
    @property
    def spec(self) -> Any: ...
    @property
    def result(self) -> ApplyResult | None: ...
    @property
    def last_accepted(self) -> LastAccepted | None:
        """The active generation as it was written; None if no generation is active."""


K = TypeVar("K", bound=Known)


class KnownPolicies(Generic[K]):
    """The policy objects of one kind by key: the name, or of local policies namespace/name."""

    def __init__(self) -> None:
        self._known: dict[str, K] = {}
        self._wake: Callable[[], None] = lambda: None

    def listen(self, wake: Callable[[], None]) -> None:
        """Calls `wake` when policies are outdated, or due for a check."""
        self._wake = wake

    def __len__(self) -> int:
        return len(self._known)

    def keys(self) -> set[str]:
        """The keys of all policies that are known, also of those that are not accepted."""
        return set(self._known)

    def uid_of(self, key: str) -> str:
        """The uid of a policy's object; "" if it is not known."""
        known = self._known.get(key)
        return "" if known is None else known.uid

    def result_of(self, key: str) -> ApplyResult | None:
        """Returns the result of applying the newest generation of a policy; None if it is not known."""
        known = self._known.get(key)
        return None if known is None else known.result

    def last_accepted(self, key: str) -> LastAccepted | None:
        """The active generation of a policy as it was written; None if no generation is active."""
        known = self._known.get(key)
        return None if known is None else known.last_accepted

    def _before(self, key: str, raw: Mapping[str, Any]) -> tuple[K | None, ApplyResult | None]:
        """Returns the known state of this object, and the result of this generation; None if unknown."""
        _, uid, generation = identity_of(raw)
        known = self._known.get(key)
        if known is None or known.uid != uid:
            return None, None
        same = known.generation == generation and (generation or _equal(known.spec, raw.get("spec")))
        return known, known.result if same else None


def _equal(spec: object, other: object) -> bool:
    try:
        return bool(spec == other)
    except RecursionError:
        return False
