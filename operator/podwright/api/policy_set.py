"""The active policies: which SchedulerPolicy objects are accepted, and which of them decides about a pod.

A policy that cannot be accepted changes nothing: its last accepted generation stays active, and the policy's status keeps
that generation through a restart. If there is no such generation, the pods that the policy is for wait until it is accepted or deleted,
or the option --when-policy-is-bad lets other policies decide about them. Every scheduler name that an accepted policy serves
falls back to the built-in default policy, kube-scheduler's default profile. What is written into a policy's status: see
podwright/api/policy_status.py next.
"""

from __future__ import annotations

import weakref
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from podwright.api.compile import Classes, CompiledPolicy, compile_policy, queue_sort_of, refused_policy
from podwright.api.permissions import DEFAULT_SETTINGS, PolicySettings, check_safety, check_scheduler_name
from podwright.api.policy_index import PolicyIndex
from podwright.api.scheduler_policy import (
    NAMELESS,
    LastAccepted,
    PolicyError,
    identity_of,
    parse_claim,
    parse_last_accepted,
    parse_policy,
)
from podwright.core.framework.errors import PluginError, raised_at
from podwright.core.framework.features import Features
from podwright.core.framework.profile import ProfileError
from podwright.core.objects.pod import LabelSet, PodInfo

_MAX_SELECTIONS: Final = 256
"""For each set of labels: the pairs of a scheduler name and a namespace that are cached. A set may have as many as there are namespaces."""


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
    """A policy object: the newest generation that was applied, and the generation that is active.

    `spec`: only of objects that have no generation, whose specs are compared instead.
    """

    uid: str
    generation: int
    spec: Any
    result: ApplyResult
    active: _Accepted | None
    refused: CompiledPolicy | None
    """What could be understood of a policy of which no generation is active. None if that does not say which pods it is for."""

    @property
    def decider(self) -> CompiledPolicy | None:
        return self.refused if self.active is None else self.active.policy


@dataclass(frozen=True, slots=True)
class _Selection:
    """The policy selected for a pod. Valid while the namespace's labels are this very mapping."""

    namespace_labels: Mapping[str, str]
    policy: CompiledPolicy


class PolicySet:
    """The active policies and the built-in ones.

    `settings`: what the operator's options say about policies. `built_in`: the built-in policies, already compiled; the first
    of them is also for scheduler names that only SchedulerPolicies serve. `check` is called with each compiled policy before it becomes active. If it raises, for example a ProfileError or a
    PluginError, the policy is not accepted. `version` rises whenever the active policies change.
    """

    def __init__(
        self,
        classes: Classes,
        features: Features,
        *,
        built_in: Sequence[CompiledPolicy] = (),
        check: Callable[[CompiledPolicy], object] | None = None,
        settings: PolicySettings = DEFAULT_SETTINGS,
    ) -> None:
        self._settings = settings
        self._classes = classes
        self._features = features
        self._check = check
        found = built_in or settings.built_in(classes, features)
        self._built_in = {policy.spec.scheduler_name: policy for policy in found}
        self.default = found[0]
        self.queue_sort = queue_sort_of(self.default.profile, classes)
        """The plugin that orders the queue, for all policies."""
        self._known: dict[str, _KnownPolicy] = {}
        self._policies: dict[str, list[CompiledPolicy]] = {}
        """The active and the refused policies without the built-in one by scheduler name, in their order."""
        self._refusing: set[str] = set()
        """The scheduler names of refused policies."""
        self._takes_all: dict[str, CompiledPolicy] = {}
        """By scheduler name, the first policy that takes every pod."""
        self._by_scheduler_name: dict[str, tuple[CompiledPolicy, ...]] = {}
        """The policies that decide, in their order. The last one takes the pods that no other matches, whatever its own selectors."""
        self._deciding: dict[str, PolicyIndex] = {}
        """By scheduler name, the same without the last one."""
        self._all: dict[str, PolicyIndex] = {}
        """By scheduler name, the active and the refused policies."""
        self._selections: weakref.WeakKeyDictionary[LabelSet, dict[tuple[str, str], _Selection]]
        self._selections = weakref.WeakKeyDictionary()
        self.version = 0
        self.scheduler_names: frozenset[str] = frozenset()
        """The scheduler names that pods may ask for."""
        for scheduler_name in self._built_in:
            self._refresh(scheduler_name)

    def apply(self, raw: Mapping[str, Any]) -> ApplyResult:
        """Accepts or rejects a policy object. Idempotent, and never raises for the content of the object.

        A rejected policy keeps the generation that is active. If none is, for example after a restart, the generation in
        `status.lastAccepted` becomes active.
        """
        name, uid, generation = identity_of(raw)
        known = self._known.get(name)
        if known is not None and known.uid != uid:
            known = None
        if known is not None and known.generation == generation and (generation or _equal(known.spec, raw.get("spec"))):
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
            refused = self._claim(raw, message) if active is None else None
            self._replace(
                name,
                _KnownPolicy(
                    uid=uid,
                    generation=generation,
                    spec=None if generation else raw.get("spec"),
                    result=result,
                    active=active,
                    refused=refused,
                ),
            )
        return result

    def _claim(self, raw: Mapping[str, Any], message: str) -> CompiledPolicy | None:
        """The refused policy, for the pods that it would decide about. None if nobody can tell which these are, or may not be ours."""
        try:
            source = parse_claim(raw)
            check_scheduler_name(source, self._settings)
        except Exception:  # noqa: BLE001 -- as in `apply`
            return None
        return refused_policy(source, self.built_in_for(source.spec.scheduler_name).profile, message)

    def _accept(self, raw: Mapping[str, Any], generation: int) -> _Accepted:
        source = parse_policy(raw)
        check_scheduler_name(source, self._settings)
        policy = compile_policy(source, self._classes, self._features, self.queue_sort)
        if not self._settings.allow_unsafe:
            check_safety(policy, self.built_in_for(source.spec.scheduler_name).profile, self._classes)
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
        self._replace(name, None)

    def select(self, pod: PodInfo, namespace_labels: Mapping[str, str]) -> CompiledPolicy | None:
        """The policy that decides about the pod; None if no policy serves its scheduler name.

        A policy that was refused decides nothing: pods for which it is selected wait.

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
            if len(selections) >= _MAX_SELECTIONS:
                selections.clear()
            policy = self._deciding[pod.scheduler_name].first(pod.labels, namespace_labels) or candidates[-1]
            selection = selections[key] = _Selection(namespace_labels, policy)
        return selection.policy

    @property
    def built_in(self) -> Sequence[CompiledPolicy]:
        """The built-in policies, the default first."""
        return [*self._built_in.values()]

    @property
    def active(self) -> Sequence[CompiledPolicy]:
        """The active policies without the built-in one, the greatest precedence first, then by name."""
        policies = [known.active.policy for known in self._known.values() if known.active is not None]
        return sorted(policies, key=_order)

    @property
    def passes_over(self) -> bool:
        """Whether refused policies are left out where they would decide about pods."""
        return bool(self._refusing) and not self._settings.waits_for_bad_policies

    def passed_over(self, pod: PodInfo, namespace_labels: Mapping[str, str]) -> CompiledPolicy | None:
        """With --when-policy-is-bad=default: the refused policy that would decide about the pod, instead of the one that does."""
        if not self.passes_over or pod.scheduler_name not in self._refusing:
            return None
        policies = self._policies[pod.scheduler_name]
        found = self._all[pod.scheduler_name].first(pod.labels, namespace_labels)
        if found is None and self._only_refused(pod.scheduler_name):
            found = policies[0]
        return found if found is not None and found.refusal else None

    def makes_pods_wait(self, name: str) -> bool:
        """Whether the named policy was refused, and its pods wait for it."""
        policy = self.decider(name)
        return policy is not None and bool(policy.refusal) and self._settings.waits_for_bad_policies

    def decider(self, name: str) -> CompiledPolicy | None:
        """What the named policy is for its pods: its active generation, or a refused one; None if it takes no pods."""
        known = self._known.get(name)
        return None if known is None else known.decider

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
        policy = self.active_generation_of(name)
        if policy is None:
            return None
        first = self._takes_all.get(policy.spec.scheduler_name)
        return first.name if first is not None and _order(first) < _order(policy) else None

    def _replace(self, name: str, known: _KnownPolicy | None) -> None:
        """Stores what is known of a policy, None if it was removed. The cost does not depend on how many policies there are, but for
        copies of a list of those with the same scheduler name.
        """
        before = self.decider(name)
        if known is None:
            self._known.pop(name, None)
        else:
            self._known[name] = known
        after = self.decider(name)
        if before is after:
            return
        for policy in (before, after):
            if policy is None:
                continue
            policies = self._policies.setdefault(policy.spec.scheduler_name, [])
            index = bisect_left(policies, _order(policy), key=_order)
            if policy is before:
                del policies[index]
            else:
                policies.insert(index, policy)
        for scheduler_name in {policy.spec.scheduler_name for policy in (before, after) if policy is not None}:
            self._refresh(scheduler_name)
        self._selections.clear()
        self.version += 1

    def _refresh(self, scheduler_name: str) -> None:
        policies = self._policies.get(scheduler_name, [])
        refused = [policy for policy in policies if policy.refusal]
        self._refusing.discard(scheduler_name)
        if refused:
            self._refusing.add(scheduler_name)
        waits = self._settings.waits_for_bad_policies
        deciding = tuple(policies) if waits else tuple(policy for policy in policies if not policy.refusal)
        if policies or scheduler_name in self._built_in:
            rest = refused[0] if waits and self._only_refused(scheduler_name) else self.built_in_for(scheduler_name)
            self._by_scheduler_name[scheduler_name] = (*deciding, rest)
            self._deciding[scheduler_name], self._all[scheduler_name] = PolicyIndex(deciding), PolicyIndex(policies)
        else:
            self._policies.pop(scheduler_name, None)
            self._by_scheduler_name.pop(scheduler_name, None)
            self._deciding.pop(scheduler_name, None)
            self._all.pop(scheduler_name, None)
        takes_all = next((policy for policy in deciding if policy.matches_all), None)
        self._takes_all.pop(scheduler_name, None)
        if takes_all is not None:
            self._takes_all[scheduler_name] = takes_all
        if len(self.scheduler_names) != len(self._by_scheduler_name) or scheduler_name not in self.scheduler_names:
            self.scheduler_names = frozenset(self._by_scheduler_name)

    def _only_refused(self, scheduler_name: str) -> bool:
        """Whether nothing but refused policies serves this scheduler name."""
        policies = self._policies.get(scheduler_name, ())
        return scheduler_name not in self._built_in and all(policy.refusal for policy in policies)

    def built_in_for(self, scheduler_name: str) -> CompiledPolicy:
        """The policy of pods that no SchedulerPolicy takes."""
        return self._built_in.get(scheduler_name, self.default)


def _equal(spec: object, other: object) -> bool:
    try:
        return spec == other
    except RecursionError:
        return False


def _order(policy: CompiledPolicy) -> tuple[int, str]:
    """Which policy goes first: the greatest precedence, then the first name."""
    return -policy.spec.precedence, policy.name


def _problem(error: Exception) -> str:
    if isinstance(error, PolicyError):
        return error.message
    if isinstance(error, PluginError):
        return str(error) if error.__cause__ is None else f"{error} ({raised_at(error.__cause__)})"
    return str(error) if isinstance(error, ProfileError) else f"{type(error).__name__}: {error} ({raised_at(error)})"
