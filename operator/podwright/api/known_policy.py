"""The state of a policy object: its newest generation, its active generation, and the pods for which it was selected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from podwright.api.compile import CompiledPolicy
from podwright.api.policy_result import ApplyResult
from podwright.api.scheduler_policy import LastAccepted


@dataclass(frozen=True, slots=True)
class Accepted:
    """An accepted generation of a policy: compiled, and as it was written."""

    policy: CompiledPolicy
    source: LastAccepted


@dataclass(frozen=True, slots=True)
class KnownPolicy:
    """A policy object: the newest generation that was applied, and the generation that is active.

    `spec`: only of objects that have no generation, whose specs are compared instead.
    """

    uid: str
    generation: int
    spec: Any
    result: ApplyResult
    active: Accepted | None
    refused: CompiledPolicy | None
    """The refused policy, if no generation is active; None if its pods are unknown."""

    @property
    def decider(self) -> CompiledPolicy | None:
        return self.refused if self.active is None else self.active.policy


@dataclass(frozen=True, slots=True)
class Selection:
    """The policy selected for a pod. Valid while the namespace's labels are this very mapping."""

    namespace_labels: Mapping[str, str]
    policy: CompiledPolicy
