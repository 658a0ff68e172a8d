"""The active policies: which SchedulerPolicy objects are accepted, and which of them decides about a pod.

A policy that cannot be accepted changes nothing: its last accepted generation stays active, and the policy's status keeps
that generation through a restart. Every scheduler name that a policy serves falls back to the built-in default policy,
kube-scheduler's default profile. What is written into a policy's status: see podwright/api/policy_status.py next.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from podwright.api.compile import Classes, CompiledPolicy, built_in_policy, compile_policy
from podwright.api.permissions import DEFAULT_SETTINGS, PolicySettings, check_safety, check_scheduler_name
from podwright.api.scheduler_policy import (
    NAMELESS,
    LastAccepted,
    PolicyError,
    identity_of,
    parse_last_accepted,
    parse_policy,
)
from podwright.core.framework.errors import PluginError, raised_at
from podwright.core.framework.features import Features
from podwright.core.framework.profile import ProfileError
from podwright.core.objects.pod import LabelSet, PodInfo


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """What `PolicySet.apply` did with one generation of a policy.

    `reason` and `message` are those of the condition Accepted. `active_generation` is the generation that decides about
    pods from now on, None if none does.
    """

    name: str
    generation: int
    accepted: bool
    reason: str
    message: str
    active_generation: int | None


@dataclass(frozen=True, slots=True)
class _Accepted:
    """An accepted generation of a policy: compiled, and as it was written."""

    policy: CompiledPolicy
    source: LastAccepted


@dataclass(frozen=True, slots=True)
class _KnownPolicy:
    """A policy object: the newest generation that was applied, and the generation that is active."""

    uid: str
    generation: int
    spec: Any
    result: ApplyResult
    active: _Accepted | None


@dataclass(frozen=True, slots=True)
class _Selection:
    """The policy selected for a pod. Valid while the namespace's labels are this very mapping."""

    namespace_labels: Mapping[str, str]
    policy: CompiledPolicy


class PolicySet:
    """The active policies and the built-in default policy.

    `settings`: what the operator's options say about policies. `default`: the built-in policy, already compiled. `check` is called with each compiled policy before it becomes active. If it raises, for example a ProfileError or a
    PluginError, the policy is not accepted. `version` rises whenever the active policies change.
    """

    def __init__(
        self,
        classes: Classes,
        features: Features,
        *,
        default: CompiledPolicy | None = None,
        check: Callable[[CompiledPolicy], object] | None = None,
        settings: PolicySettings = DEFAULT_SETTINGS,
    ) -> None:
        self._settings = settings
        self._classes = classes
        self._features = features
        self._check = check
        self.default = default or built_in_policy(classes, features, settings.scheduler_name, settings.queue_sort)
        self._known: dict[str, _KnownPolicy] = {}
        self._by_scheduler_name: dict[str, tuple[CompiledPolicy, ...]] = {}
        self._selections: weakref.WeakKeyDictionary[LabelSet, dict[tuple[str, str], _Selection]]
        self._selections = weakref.WeakKeyDictionary()
        self.version = 0
        self.scheduler_names: frozenset[str] = frozenset()
        """The scheduler names that pods may ask for."""
        self._refresh()

    def apply(self, raw: Mapping[str, Any]) -> ApplyResult:
        """Accepts or rejects a policy object. Idempotent, and never raises for the content of the object.

        A rejected policy keeps the generation that is active. If none is, for example after a restart, the generation in
        `status.lastAccepted` becomes active.
        """
        name, uid, generation = identity_of(raw)
        known = self._known.get(name)
        if known is not None and known.uid != uid:
            known = None
        if known is not None and known.generation == generation and known.spec == raw.get("spec"):
            return known.result
        accepted, reason, message = True, "Accepted", "The policy is valid."
        active: _Accepted | None
        try:
            active = self._accept(raw, generation)
        except Exception as error:  # noqa: BLE001 -- plugins validate their args, and may raise anything
            accepted, reason = False, error.reason if isinstance(error, PolicyError) else "Invalid"
            active, consequence = self._fallback(known, raw)
            message = f"{_problem(error)}. {consequence}."
        active_generation = None if active is None else active.policy.generation
        result = ApplyResult(
            name=name,
            generation=generation,
            accepted=accepted,
            reason=reason,
            message=message,
            active_generation=active_generation,
        )
        if name != NAMELESS:
            self._known[name] = _KnownPolicy(
                uid=uid, generation=generation, spec=raw.get("spec"), result=result, active=active
            )
            self._refresh()
        return result

    def _accept(self, raw: Mapping[str, Any], generation: int) -> _Accepted:
        source = parse_policy(raw)
        check_scheduler_name(source, self._settings)
        policy = compile_policy(source, self._classes, self._features, self._settings.queue_sort)
        if not self._settings.allow_unsafe:
            check_safety(policy, self.default.profile, self._classes)
        if self._check is not None:
            self._check(policy)
        return _Accepted(policy, LastAccepted(generation, raw["spec"]))

    def _fallback(self, known: _KnownPolicy | None, raw: Mapping[str, Any]) -> tuple[_Accepted | None, str]:
        """The generation that is active when the newest one is rejected, and a sentence about it."""
        active, problem = known.active if known is not None else None, ""
        if active is None:
            try:
                active = self._last_accepted(raw)
            except Exception as error:  # noqa: BLE001 -- as in `apply`
                problem = f"; the generation in status.lastAccepted is not acceptable: {_problem(error)}"
        if active is None:
            return None, f"No generation of this policy is in force{problem}"
        return active, f"Generation {active.policy.generation} stays in force"

    def _last_accepted(self, raw: Mapping[str, Any]) -> _Accepted | None:
        """The generation in the object's `status.lastAccepted`, checked like any other."""
        last = parse_last_accepted(raw)
        if last is None or last.spec == raw.get("spec"):
            return None
        metadata = {**raw["metadata"], "generation": last.generation}
        return self._accept({**raw, "metadata": metadata, "spec": last.spec}, last.generation)

    def remove(self, name: str) -> None:
        """Forgets a policy. Does nothing if the policy is not known."""
        if self._known.pop(name, None) is not None:
            self._refresh()

    def select(self, pod: PodInfo, namespace_labels: Mapping[str, str]) -> CompiledPolicy | None:
        """The policy that decides about the pod; None if no policy serves its scheduler name.

        Answers are cached by the identity of both label mappings, so neither may be changed in place.
        """
        candidates = self._by_scheduler_name.get(pod.scheduler_name)
        if candidates is None:
            return None
        first = candidates[0]
        if first.namespace_selector is None and first.pod_selector is None:
            return first
        selections = self._selections.get(pod.labels)
        if selections is None:
            selections = self._selections[pod.labels] = {}
        key = (pod.scheduler_name, pod.namespace)
        selection = selections.get(key)
        if selection is None or selection.namespace_labels is not namespace_labels:
            policy = next(policy for policy in candidates if policy.matches(pod.labels, namespace_labels))
            selection = selections[key] = _Selection(namespace_labels, policy)
        return selection.policy

    @property
    def active(self) -> Sequence[CompiledPolicy]:
        """The active policies without the built-in one, the greatest precedence first, then by name."""
        policies = [known.active.policy for known in self._known.values() if known.active is not None]
        return sorted(policies, key=lambda policy: (-policy.spec.precedence, policy.name))

    def active_generation_of(self, name: str) -> CompiledPolicy | None:
        """The active generation of a policy; None if no generation is active."""
        known = self._known.get(name)
        return None if known is None or known.active is None else known.active.policy

    def last_accepted(self, name: str) -> LastAccepted | None:
        """The active generation of a policy as it was written; None if no generation is active."""
        known = self._known.get(name)
        return None if known is None or known.active is None else known.active.source

    def shadowed_by(self, name: str) -> str | None:
        """The policy that takes every pod which this one could take, if there is one."""
        known = self._known.get(name)
        if known is None or known.active is None:
            return None
        policy = known.active.policy
        for other in self._by_scheduler_name[policy.spec.scheduler_name]:
            if other is policy:
                return None
            if other.matches_all:
                return other.name
        return None

    def _refresh(self) -> None:
        by_name: dict[str, list[CompiledPolicy]] = {self.default.spec.scheduler_name: []}
        for policy in self.active:
            by_name.setdefault(policy.spec.scheduler_name, []).append(policy)
        self._by_scheduler_name = {name: (*policies, self.default) for name, policies in by_name.items()}
        self._selections.clear()
        self.scheduler_names = frozenset(self._by_scheduler_name)
        self.version += 1


def _problem(error: Exception) -> str:
    if isinstance(error, PolicyError):
        return error.message
    if isinstance(error, PluginError):
        return str(error) if error.__cause__ is None else f"{error} ({raised_at(error.__cause__)})"
    return str(error) if isinstance(error, ProfileError) else f"{type(error).__name__}: {error} ({raised_at(error)})"
