"""Compiles policies for the operator's plugins and options: SchedulerPolicies, local ones within them, and those that
were refused.

What is compiled has passed every check: whether the operator's options allow it (permissions.py), and `check`. Nothing
is remembered here but the plugins and options in use: see policy_set.py next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from podwright.api.compile import CompiledPolicy, compile_policy, queue_sort_of, refused_policy
from podwright.api.configuration.signals import Signals
from podwright.api.known_policy import Accepted
from podwright.api.local_compile import compose
from podwright.api.local_policy import LocalPolicy
from podwright.api.permissions import PolicySettings, check_safety, check_scheduler_name
from podwright.api.scheduler_policy import (
    LastAccepted,
    SchedulerPolicy,
    last_accepted_of,
    parse_claim,
    parse_policy,
    was_accepted,
)
from podwright.core.framework.features import Features
from podwright.core.framework.profile import Classes, Profile

Check = Callable[[CompiledPolicy], object]


class PolicyCompiler:
    """See the module. `built_in`: the built-in policies, already compiled; the first of them is also for scheduler
    names that only SchedulerPolicies serve. `check` is called with each policy that is compiled to become active,
    `check_new` before it if that spec was never accepted. If one raises, the policy is not accepted.
    """

    def __init__(
        self,
        classes: Classes,
        features: Features,
        *,
        settings: PolicySettings,
        built_in: Sequence[CompiledPolicy] = (),
        check: Check | None = None,
        check_new: Check | None = None,
    ) -> None:
        self._classes = classes
        self._features = features
        self._check = check
        self._check_new = check_new
        self.settings = settings
        found = built_in or settings.built_in(classes, features)
        self.built_in = {policy.spec.scheduler_name: policy for policy in found}
        """The built-in policies by scheduler name, the default first."""
        self.default = found[0]
        self.queue_sort = queue_sort_of(self.default.profile, classes)
        """The plugin that orders the queue, for all policies."""

    def built_in_for(self, scheduler_name: str) -> CompiledPolicy:
        """The policy of pods that no SchedulerPolicy takes."""
        return self.built_in.get(scheduler_name, self.default)

    def accept(self, raw: Mapping[str, Any], generation: int) -> Accepted:
        """The policy of this object. Raises PolicyError, and what plugins and `check` raise."""
        return self._accepted(raw, generation, is_new=not was_accepted(raw))

    def last_accepted(self, raw: Mapping[str, Any]) -> Accepted | None:
        """The generation in the object's `status.lastAccepted`, checked like any other. Raises what `accept` raises."""
        found = last_accepted_of(raw)
        return None if found is None else self._accepted(found[0], found[1].generation, is_new=False)

    def _accepted(self, raw: Mapping[str, Any], generation: int, *, is_new: bool) -> Accepted:
        policy = self.compiled(parse_policy(raw))
        self._checked(policy, is_new=is_new)
        return Accepted(policy, LastAccepted(generation, raw["spec"]))

    def _checked(self, policy: CompiledPolicy, *, is_new: bool) -> None:
        if is_new and self._check_new is not None:
            self._check_new(policy)
        if self._check is not None:
            self._check(policy)

    def refused(self, raw: Mapping[str, Any], message: str) -> CompiledPolicy | None:
        """The refused policy, which stands for the pods about which it would decide. None if these are unknown, or may
        belong to another scheduler.
        """
        try:
            source = parse_claim(raw)
            self._check_scheduler_name(source)
        except Exception:  # noqa: BLE001 -- a refused policy can be wrong in any way
            return None
        return refused_policy(source, self.built_in_for(source.spec.scheduler_name).profile, message)

    def compiled(self, source: SchedulerPolicy) -> CompiledPolicy:
        """The policy, compiled and checked. Raises PolicyError, and what plugins raise."""
        self._check_scheduler_name(source)
        return self._compiled(source, self._classes, self.built_in_for(source.spec.scheduler_name).profile)

    def composed(self, base: CompiledPolicy, local: LocalPolicy, *, is_new: bool = True) -> CompiledPolicy:
        """The local policy, combined with `base` and checked. `is_new`: its spec was never accepted. Raises
        PolicyError, and what plugins and the checks raise.
        """
        policy = compose(base, local, self._classes, self._features, self.queue_sort, self.settings)
        self._checked(policy, is_new=is_new)
        return policy

    def recompiled(
        self,
        policy: CompiledPolicy,
        classes: Classes,
        fresh: Mapping[CompiledPolicy, CompiledPolicy],
        source_of: Callable[[CompiledPolicy], LocalPolicy],
    ) -> CompiledPolicy:
        """The same generation compiled for other plugin classes, beside the one that decides.

        `fresh`: earlier results of this method. Call it for the built-in policies first, and for a base before the
        local policies that it bounds. `source_of`: the source of a local policy. Raises what `accept` raises.
        """
        if policy in self.built_in.values():
            found = self.settings.built_in(classes, self._features)
            return next(each for each in found if each.name == policy.name)
        built_in = self.built_in_for(policy.spec.scheduler_name)
        profile = fresh.get(built_in, built_in).profile
        if policy.refusal:
            return replace(policy, profile=profile)
        if policy.base is not None:
            base = replace(policy.base, profile=fresh.get(policy.base, policy.base).profile)
            return compose(base, source_of(policy), classes, self._features, self.queue_sort, self.settings)
        return self._compiled(policy.source, classes, profile)

    def use_classes(self, classes: Classes) -> None:
        """Policies are compiled for these plugin classes from now on."""
        self._classes = classes

    def define_signals(self, signals: Signals) -> None:
        """Policies are compiled with these signals from now on."""
        self.settings = replace(self.settings, signals=signals)

    def _compiled(self, source: SchedulerPolicy, classes: Classes, built_in: Profile) -> CompiledPolicy:
        policy = compile_policy(source, classes, self._features, self.queue_sort, defined=self.settings.definitions)
        if not self.settings.allow_unsafe:
            check_safety(policy, built_in, classes)
        return policy

    def _check_scheduler_name(self, source: SchedulerPolicy) -> None:
        """A policy in shadow mode takes no pods, so it may decide about those of any scheduler. Raises PolicyError."""
        if source.spec.mode != "Shadow":
            check_scheduler_name(source, self.settings)
