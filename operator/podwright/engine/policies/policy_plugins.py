"""Builds the framework that runs a policy's plugins, without those that are switched off, and lets the guard watch
their calls.

A plugin is off for one policy after it was too slow (guard.py), or for all policies after it hung until the process was
killed (kube/plugins/hangs.py). `onPluginFailure` of the policy says what that means: with Ignore the policy decides as
if it did not enable the plugin, with Reject its pods wait. For a LocalSchedulerPolicy, the value of the policy that
bounds it applies.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import field, replace
from typing import Final

from podwright.api.compile import CompiledPolicy
from podwright.core.framework.errors import ReportException
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import Handle
from podwright.core.framework.observer import NO_OBSERVER, Observer
from podwright.core.framework.profile import MULTI_POINT, Classes, Enabled, PluginSet, Point, Profile
from podwright.core.objects.dataclass import dataclass
from podwright.core.plugins.rules.policy_rules import PolicyRules
from podwright.core.state.cache import Cache
from podwright.engine.plugins.exceptions import PluginExceptions
from podwright.engine.plugins.guard import PluginGuard
from podwright.engine.process.interruption import is_interruption
from podwright.engine.records.local_budgets import Account, LocalBudgets
from podwright.engine.records.policy_activity import Activities

_BINDER: Final = "DefaultBinder"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conduct:
    """The observers of plugins. `observer`: how often and how long they run (see Framework); `exceptions`: what they
    raise; `budgets`: the time that plugins of local policies take; `activities`: the policies' decisions; `guard`:
    watches calls, None: no guard. `disabled`: why plugins are off for all policies, by name.
    """

    observer: Observer
    exceptions: PluginExceptions
    budgets: LocalBudgets
    activities: Activities
    guard: PluginGuard | None = None
    disabled: Mapping[str, str] = field(default_factory=dict)


class PolicyPlugins:
    """See the module."""

    def __init__(self, handle: Handle, conduct: Conduct) -> None:
        self._handle = handle
        self._conduct = conduct
        self._disabled = dict(conduct.disabled)
        self._off: weakref.WeakKeyDictionary[CompiledPolicy, dict[str, str]] = weakref.WeakKeyDictionary()

    def building(self) -> AbstractContextManager[None]:
        """A context in which code of plugins may run: code that does not return is stopped."""
        return nullcontext() if self._conduct.guard is None else self._conduct.guard.building()

    def reporter(self, policy: CompiledPolicy) -> ReportException:
        """The function to which the policy's plugins report their exceptions."""
        return self._conduct.exceptions.reporter(policy)

    def framework_of(
        self,
        policy: CompiledPolicy,
        profile: Profile,
        classes: Classes,
        report: ReportException,
        on_again: Collection[str] = (),
    ) -> Framework:
        """The profile's plugins, built. `on_again`: those that are switched on again.

        Raises ProfileError, PluginError, and what plugins raise.
        """
        off = self.off(policy, profile).keys() - set(on_again)
        return Framework(
            _without(profile, off, classes) if off else profile,
            classes,
            handle=self._shadow_handle(self._handle.cache) if policy.shadow else self._handle,
            observer=NO_OBSERVER if policy.shadow else self._conduct.observer,
            report_exception=report,
        )

    def framework_on(self, policy: CompiledPolicy, classes: Classes, cache: Cache) -> Framework:
        """The plugins of a policy in shadow mode, built for another cache. Their exceptions are not reported. Raises
        the same errors as `framework_of`.
        """
        off = self.off(policy)
        framework = Framework(
            _without(policy.profile, off, classes) if off else policy.profile,
            classes,
            handle=self._shadow_handle(cache),
            observer=NO_OBSERVER,
        )
        if self._conduct.guard is not None:
            self._conduct.guard.protect(framework, policy)
        return framework

    def _shadow_handle(self, cache: Cache) -> Handle:
        """The handle of plugins that run for a policy in shadow mode: they write no events, and cannot approve or
        reject pods that wait in Permit.
        """
        handle = self._handle
        return Handle(cache=cache, features=handle.features, cluster=handle.cluster, clock=handle.now)

    def watch(self, policy: CompiledPolicy, framework: Framework) -> Account | None:
        """Starts to watch the framework's plugins, because it decides for the policy from now on. Returns the time
        account of a local policy; None if the policy adds nothing to the one that bounds it.
        """
        account = self._account(policy, framework)
        framework.interrupts = is_interruption
        self._listen_to_rules(policy.name, framework)
        if self._conduct.guard is not None:
            self._conduct.guard.protect(framework, policy)
        return account

    def off(self, policy: CompiledPolicy, profile: Profile | None = None) -> Mapping[str, str]:
        """The policy's plugins that are off, and why."""
        found = self._off.get(policy, {})
        if not self._disabled:
            return found
        named = {each.name for plugins in (profile or policy.profile).plugins.values() for each in plugins.enabled}
        return {name: why for name, why in self._disabled.items() if name in named} | found

    def switch_off(self, policy: CompiledPolicy, plugin: str, why: str) -> None:
        self._off.setdefault(policy, {})[plugin] = why

    def switch_on(self, plugins: Collection[str]) -> None:
        """Switches these plugins on again, because they have changed."""
        for name in plugins:
            self._disabled.pop(name, None)
        for off in self._off.values():
            for name in plugins:
                off.pop(name, None)

    @property
    def switched_off_count(self) -> int:
        return sum(map(len, self._off.values())) + len(self._disabled)

    def refusal(self, policy: CompiledPolicy) -> str:
        """Why the policy's pods wait for its plugins; "" if they do not."""
        off = self.off(policy)
        if not off or policy.spec.on_plugin_failure == "Ignore":
            return ""
        return f"policy {policy.name} needs {_plugins(off)}, switched off: {_reasons(off)}"

    def problem(self, policy: CompiledPolicy) -> str:
        """Returns a sentence on the plugins that are off, and the effect on the policy's pods; "" if all are on."""
        off = self.off(policy)
        if not off:
            return ""
        ignored = policy.spec.on_plugin_failure == "Ignore"
        effect = "the policy decides without it" if ignored else "the pods of the policy wait"
        return (
            f"{_plugins(off)} {'is' if len(off) == 1 else 'are'} switched off, and onPluginFailure is "
            f"{policy.spec.on_plugin_failure}, so "
            f"{effect}: {_reasons(off)}. It is on again when its file or the policy changes"
        )

    def _listen_to_rules(self, name: str, framework: Framework) -> None:
        """Counts errors of rules as faults of the policy."""

        def failed(rule: str, node: str, text: str) -> None:
            self._conduct.activities.fault(name, f"rule {rule} failed on node {node}: {text}", cause=f"rule {rule}")

        for plugin in framework.plugins.values():
            if isinstance(plugin, PolicyRules):
                plugin.rule_failed = failed

    def _account(self, policy: CompiledPolicy, framework: Framework) -> Account | None:
        """The time account of a local policy that adds something to the policy that bounds it; None for others."""
        if policy.base is None or policy.base.spec.delegation is None or not policy.own_plugins:
            return None
        budgets, budget = self._conduct.budgets, policy.base.spec.delegation.budget_seconds
        account = budgets.account(policy.name, policy.base.name, budget)
        budgets.watch(account, framework, policy.own_plugins & framework.plugins.keys())
        return account


def _plugins(off: Mapping[str, str]) -> str:
    return f"plugin{'s' if len(off) > 1 else ''} {', '.join(sorted(off))}"


def _reasons(off: Mapping[str, str]) -> str:
    return "; ".join(dict.fromkeys(off[name] for name in sorted(off)))


def _without(profile: Profile, names: Collection[str], classes: Classes) -> Profile:
    """The profile without these plugins. If no Bind plugin is left, DefaultBinder is added."""
    sets = {
        key: replace(plugins, enabled=tuple(each for each in plugins.enabled if each.name not in names))
        for key, plugins in profile.plugins.items()
    }
    own, everywhere = (sets.get(key, PluginSet()) for key in (Point.BIND.key, MULTI_POINT))
    inherited = [] if "*" in own.disabled else [each for each in everywhere.enabled if each.name not in own.disabled]
    if not any(Point.BIND.of(classes[each.name]) for each in (*own.enabled, *inherited)):
        sets[Point.BIND.key] = replace(own, enabled=(Enabled(_BINDER),))
    return replace(profile, plugins=sets)
