"""The active policies: which SchedulerPolicy objects are accepted, and which of them decides about a pod.

A policy that cannot be accepted changes nothing: its last accepted generation stays active, and the policy's status
keeps that generation through a restart. If there is no such generation, the pods that the policy is for wait until it
is accepted or deleted, or the option --when-policy-is-bad lets other policies decide about them. Every scheduler name
that an accepted policy serves falls back to the built-in default policy, kube-scheduler's default profile. How policies
are compiled and checked: see policy_compiler.py next; what is written into their status: policy_status.py.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, TypeGuard

from podwright.api.compile import CompiledPolicy
from podwright.api.configuration.signals import Signals
from podwright.api.known_policy import Accepted, KnownPolicies, KnownPolicy, Selection
from podwright.api.local_policies import LocalPolicies
from podwright.api.local_policy import LocalPolicy
from podwright.api.permissions import DEFAULT_SETTINGS, PolicySettings
from podwright.api.policy_compiler import Check, PolicyCompiler
from podwright.api.policy_overlaps import Overlap, Overlaps
from podwright.api.policy_result import NONE_IN_FORCE, ApplyResult, problem_of, verdict
from podwright.api.scheduler_policy import NAMELESS, identity_of
from podwright.api.served_name import ServedName, order
from podwright.api.spec.match import Subject
from podwright.core.framework.features import Features
from podwright.core.framework.profile import Classes
from podwright.core.objects.pod import LabelSet, PodInfo

_MAX_SELECTIONS: Final = 256
"""For each set of labels: how many selections are cached. A set may have as many as there are namespaces."""
_Key = tuple[str, str, str, str]
"""(scheduler name, namespace, priority class, the policy that the pod names)"""


def _unlabelled(_namespace: str) -> Mapping[str, str]:
    return {}


class PolicySet(KnownPolicies[KnownPolicy]):
    """The active policies, the built-in policies, and in `local` the policies of namespaces.

    `settings`: what the operator's options say about policies. `built_in`: the built-in policies, already compiled; the
    first of them is also for scheduler names that only SchedulerPolicies serve. `check` is called with each compiled
    policy before it becomes active. If it raises, for example a ProfileError or a PluginError, the policy is not
    accepted; `check_new` likewise, but only for a spec that was never accepted. `namespace_labels`: the labels of a
    namespace as they are now. `version` rises whenever the active policies change, including the local ones.
    """

    def __init__(
        self,
        classes: Classes,
        features: Features,
        *,
        built_in: Sequence[CompiledPolicy] = (),
        check: Check | None = None,
        check_new: Check | None = None,
        settings: PolicySettings = DEFAULT_SETTINGS,
        namespace_labels: Callable[[str], Mapping[str, str]] = _unlabelled,
    ) -> None:
        super().__init__()
        self.compiler = PolicyCompiler(
            classes, features, settings=settings, built_in=built_in, check=check, check_new=check_new
        )
        self.default = self.compiler.default
        self.queue_sort = self.compiler.queue_sort
        """The plugin that orders the queue, for all policies."""
        self._shadow_only = settings.shadow_only
        self._waits = settings.waits_for_bad_policies
        self.outdated: set[str] = set()
        """The names of refused policies that must be applied again, because the plugins or the signals have changed."""
        self._served: dict[str, ServedName] = {}
        """The policies of each scheduler name."""
        self._refused = 0
        """The number of refused policies whose pods are known."""
        self._overlaps = Overlaps()
        self._shadows: dict[str, CompiledPolicy] = {}
        self._namespace_labels = namespace_labels
        self.local = LocalPolicies(
            self._bases_of,
            self.compiler.composed,
            self.default.profile,
            waits=settings.waits_for_bad_policies,
            changed=self._changed,
        )
        self._selections: weakref.WeakKeyDictionary[LabelSet, dict[_Key, Selection]]
        self._selections = weakref.WeakKeyDictionary()
        self.version = 0
        self.scheduler_names: frozenset[str] = frozenset()
        """The scheduler names that pods may ask for."""
        for scheduler_name in () if settings.shadow_only else self.compiler.built_in:
            self._serve(scheduler_name)
        self.scheduler_names = frozenset(self._served)

    def apply(self, raw: Mapping[str, Any]) -> ApplyResult:
        """Accepts or rejects a policy object. Idempotent, and never raises for the content of the object.

        A rejected policy keeps the generation that is active. If no generation is, for example after a restart, the
        generation in `status.lastAccepted` becomes active.
        """
        name, uid, generation = identity_of(raw)
        known, result = self._before(name, raw)
        if result is not None and name not in self.outdated:
            return result
        active: Accepted | None
        refusal, consequence = None, ""
        try:
            active = self.compiler.accept(raw, generation)
        except Exception as error:  # noqa: BLE001 -- plugins validate their args, and may raise anything
            refusal = error
            active, consequence = self._fallback(known, raw)
        active_generation = None if active is None else active.policy.generation
        result = verdict(name, generation, refusal, consequence=consequence, active_generation=active_generation)
        if name != NAMELESS:
            refused = self.compiler.refused(raw, result.message) if active is None else None
            spec = None if generation else raw.get("spec")
            self._replace(name, KnownPolicy(uid, generation, spec, result, active, refused))
        return result

    @property
    def signal_names(self) -> tuple[str, ...]:
        """The signals that are defined."""
        return tuple(self.compiler.settings.signal_definitions)

    def _fallback(self, known: KnownPolicy | None, raw: Mapping[str, Any]) -> tuple[Accepted | None, str]:
        """The generation that is active when the newest one is rejected, and a sentence about it."""
        active, problem = known.active if known is not None else None, ""
        if active is None:
            try:
                active = self.compiler.last_accepted(raw)
            except Exception as error:  # noqa: BLE001 -- as in `apply`
                problem = f"; the generation in status.lastAccepted is not acceptable: {problem_of(error)}"
        if active is None:
            return None, f"{NONE_IN_FORCE}{problem}"
        return active, f"Generation {active.policy.generation} stays in force"

    def remove(self, name: str) -> None:
        """Forgets a policy. Does nothing if the policy is not known."""
        self._replace(name, None)

    def select(self, pod: PodInfo, namespace_labels: Mapping[str, str]) -> CompiledPolicy | None:
        """The policy that decides about the pod; None if no policy serves its scheduler name.

        A policy with a refusal decides nothing: pods for which it is selected wait.

        Answers are cached by the identity of both label mappings, so neither may be changed in place.
        """
        served = self._served.get(pod.scheduler_name)
        if served is None:
            return None
        local = pod.namespace in self.local.namespaces
        if (only := served.only) is not None and not pod.policy and not local:
            return only
        selections = self._selections.get(pod.labels)
        if selections is None:
            selections = self._selections[pod.labels] = {}
        key = (pod.scheduler_name, pod.namespace, pod.priority_class, pod.policy)
        selection = selections.get(key)
        if selection is None or selection.namespace_labels is not namespace_labels:
            if len(selections) >= _MAX_SELECTIONS:
                selections.clear()
            subject = Subject.of(pod, namespace_labels)
            policy = served.first(subject)
            if local:
                policy = self.local.select(policy, subject)
            selection = selections[key] = Selection(namespace_labels, policy)
        return selection.policy

    def named(self, name: str) -> CompiledPolicy | None:
        """The SchedulerPolicy or the built-in policy of this name, or None."""
        return self.decider(name) or next((policy for policy in self.built_in if policy.name == name), None)

    def within(
        self, policy: CompiledPolicy | None, pod: PodInfo, namespace_labels: Mapping[str, str]
    ) -> CompiledPolicy | None:
        """The policy that decides about the pod if this one is selected: this policy, or a local policy that it
        bounds.
        """
        if policy is None or pod.namespace not in self.local.namespaces:
            return policy
        return self.local.select(policy, Subject.of(pod, namespace_labels))

    @property
    def built_in(self) -> Sequence[CompiledPolicy]:
        """The built-in policies, the default first."""
        return [*self.compiler.built_in.values()]

    @property
    def active(self) -> Sequence[CompiledPolicy]:
        """The active policies without the built-in ones, in the order of precedence."""
        policies = [known.active.policy for known in self._known.values() if known.active is not None]
        return sorted(policies, key=order)

    @property
    def passes_over(self) -> bool:
        """True if refused policies are ignored when a policy is selected for a pod."""
        return not self._waits

    def passed_over(self, pod: PodInfo, namespace_labels: Mapping[str, str]) -> CompiledPolicy | None:
        """With --when-policy-is-bad=default: the policy with a refusal that the pod would wait for, instead of the one
        that decides.
        """
        served = self._served.get(pod.scheduler_name)
        local = pod.namespace in self.local.namespaces
        if served is None or not (self._refused or pod.policy or local):
            return None
        subject = Subject.of(pod, namespace_labels)
        found = served.passed_over(subject)
        if found is None and local:
            found = self.local.select(served.first(subject), subject, waits=True)
        return found if found is not None and found.refusal else None

    def makes_pods_wait(self, name: str) -> bool:
        """True if the named policy was refused, and its pods wait for it."""
        policy = self.decider(name)
        return self._takes(policy) and bool(policy.refusal) and self._waits

    def _takes(self, policy: CompiledPolicy | None) -> TypeGuard[CompiledPolicy]:
        """True if the policy exists and takes pods."""
        return policy is not None and not policy.shadow and not self._shadow_only

    def is_concerned(self, name: str) -> bool:
        """True if the policy of this name has an effect in this process, which may run only policies in shadow mode."""
        policy = self.decider(name)
        return policy is None or policy.shadow or not self._shadow_only

    @property
    def shadows(self) -> Collection[CompiledPolicy]:
        """The active policies in shadow mode, which take no pods."""
        return self._shadows.values()

    def decider(self, name: str) -> CompiledPolicy | None:
        """Returns the policy that decides about the named policy's pods: its active generation, or a refused policy;
        None if it takes no pods.
        """
        known = self._known.get(name)
        return None if known is None else known.decider

    def active_generation_of(self, name: str) -> CompiledPolicy | None:
        """The active generation of a policy; None if no generation is active."""
        known = self._known.get(name)
        return None if known is None or known.active is None else known.active.policy

    def bases_of(self, _name: str) -> Sequence[str]:
        """The policies that bound this one: none. Only local policies are bounded."""
        return ()

    def shadowed_by(self, name: str) -> str | None:
        """The policy that hides this one, because it takes every pod that this one matches. None if no policy does."""
        policy = self.active_generation_of(name)
        if not self._takes(policy) or policy.spec.by_name != "Never":
            return None
        first = self._served[policy.spec.scheduler_name].takes_all
        return first.name if first is not None and order(first) < order(policy) else None

    def overlapping(self, name: str) -> Overlap | None:
        """Returns some policies of the same precedence that may match the same pods; None without such policies."""
        policy = self.decider(name)
        found, count = self._overlaps.of(policy) if self._takes(policy) else ((), 0)
        if policy is None or not found:
            return None
        others = sorted(found, key=order)
        before = tuple(other.name for other in others if order(other) < order(policy))
        after = tuple(other.name for other in others if order(other) > order(policy))
        return Overlap(policy.spec.precedence, before, after, more=count > len(found))

    def _replace(self, name: str, known: KnownPolicy | None) -> None:
        """Stores the state of a policy; None removes it."""
        before = self.decider(name)
        self.outdated.discard(name)
        if known is None:
            self._known.pop(name, None)
        else:
            self._known[name] = known
        after = self.decider(name)
        if before is after:
            return
        self._shadows.pop(name, None)
        if after is not None and after.shadow and not after.refusal:
            self._shadows[name] = after
        if self._takes(before):
            self._refused -= bool(before.refusal)
            self._serve(before.spec.scheduler_name).remove(before)
            self._overlaps.remove(before)
        if self._takes(after):
            self._refused += bool(after.refusal)
            self._serve(after.spec.scheduler_name).add(after)
            self._overlaps.add(after)
        for policy in (before, after):
            scheduler_name = "" if policy is None else policy.spec.scheduler_name
            if scheduler_name in self._served and not self._served[scheduler_name].served:
                del self._served[scheduler_name]
        if self.scheduler_names != self._served.keys():
            self.scheduler_names = frozenset(self._served)
        self.local.recheck_all()
        self._changed()

    def _changed(self) -> None:
        self._selections.clear()
        self.version += 1

    # Plugins that are loaded again

    def recompiled(
        self, policy: CompiledPolicy, classes: Classes, fresh: Mapping[CompiledPolicy, CompiledPolicy]
    ) -> CompiledPolicy:
        """See PolicyCompiler.recompiled."""
        return self.compiler.recompiled(policy, classes, fresh, self.local.source_of)

    def adopt(self, classes: Classes, fresh: Mapping[CompiledPolicy, CompiledPolicy]) -> None:
        """Uses these plugin classes from now on, and the policies that were compiled for them. Refused policies become
        outdated.
        """
        self.compiler.use_classes(classes)
        for policy, compiled in fresh.items():
            policy.adopt(compiled)
        for served in self._served.values():
            served.built_in_changed()
        self.local.plugins_changed(self.default.profile)
        self._outdate_refused()

    def define_signals(self, signals: Signals) -> None:
        """Changes the definitions of signals to these, which all active policies can use. Refused policies become
        outdated.
        """
        self.compiler.define_signals(signals)
        self.local.recheck_all()
        self._outdate_refused()

    def _outdate_refused(self) -> None:
        self.outdated.update(name for name, known in self._known.items() if not known.result.accepted)
        if self.outdated:
            self._wake()
        self._changed()

    # Local policies

    def _bases_of(self, policy: LocalPolicy) -> Sequence[CompiledPolicy]:
        served = self._served.get(policy.spec.scheduler_name)
        if served is None:
            return ()
        match = policy.spec.match.compiled(policy.namespace)
        return served.bases_of(match, policy.namespace, self._namespace_labels(policy.namespace))

    def _serve(self, scheduler_name: str) -> ServedName:
        """The policies of this scheduler name. If the set does not know the name yet, it adds it."""
        served = self._served.get(scheduler_name)
        if served is None:
            built_in, always = self.compiler.built_in_for(scheduler_name), scheduler_name in self.compiler.built_in
            served = self._served[scheduler_name] = ServedName(
                built_in, always=always, waits=self._waits, shadows=self._shadows
            )
        return served
