"""The active policies, each with its plugins built, and which of them decides about a pod.

A policy becomes active only after its plugins could be built, so an invalid one changes nothing (see
api/policy_set.py).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, TypeVar

from podwright.api.compile import CompiledPolicy
from podwright.api.kube_scheduler_configuration import QUEUE_SORT
from podwright.api.local_policy import local_key_of
from podwright.api.permissions import PolicySettings
from podwright.api.policy_result import ApplyResult, problem_of
from podwright.api.policy_set import PolicySet
from podwright.api.policy_status import Work
from podwright.api.scheduler_policy import PolicyError, identity_of
from podwright.api.signal_changes import lacking_signals
from podwright.api.spec.signals import Definitions
from podwright.core.framework.cluster_events import ClusterEvent, EventHint
from podwright.core.framework.cost import AttemptCost
from podwright.core.framework.errors import PluginError
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import Handle
from podwright.core.framework.profile import Classes, Point
from podwright.core.framework.status import Code, Status
from podwright.core.objects.pod import PodInfo
from podwright.core.plugins.gang_scheduling import args_of
from podwright.core.plugins.rules.params import ConfigMap, Unreadable
from podwright.core.plugins.rules.policy_rules import PolicyRules
from podwright.core.plugins.rules.rule_set import MOST_WORK, RuleSet, RuleWork
from podwright.core.queue.hinting import registered
from podwright.core.queue.rank import ranked
from podwright.core.state.cache import Cache
from podwright.engine.invalid_objects import InvalidObjects
from podwright.engine.policies.active_policy import ActivePolicy
from podwright.engine.policies.policy_plugins import Conduct, PolicyPlugins

T = TypeVar("T")

_REJECTING: Final = (Point.PRE_ENQUEUE, Point.PRE_FILTER, Point.FILTER, Point.RESERVE, Point.PERMIT)
_NO_HINTS: Mapping[str, Sequence[EventHint]] = {}


class ActivePolicies:
    """See the module."""

    def __init__(
        self,
        classes: Classes,
        handle: Handle,
        settings: PolicySettings,
        invalid_objects: InvalidObjects,
        conduct: Conduct,
        *,
        gate_failed: Callable[[PodInfo, PluginError], object] = lambda _pod, _error: None,
    ) -> None:
        """`settings`: what the operator's options say about policies. `gate_failed` is called with each pod that stays
        out of the queue because a PreEnqueue plugin has failed.

        Raises ProfileError or PluginError if the built-in policy cannot be built. Its QueueSort plugin orders the
        queue.
        """
        self._classes = classes
        self._conduct = conduct
        self._gate_failed = gate_failed
        self._handle = handle
        self._invalid_objects = invalid_objects
        self._built: dict[CompiledPolicy, ActivePolicy] = {}
        self._misnamed: weakref.WeakKeyDictionary[CompiledPolicy, ActivePolicy] = weakref.WeakKeyDictionary()
        self._has_hints: dict[ClusterEvent, bool] = {}
        self.plugins = PolicyPlugins(handle, conduct)
        self._of_files: frozenset[str] = frozenset()
        self._reload_problem = ""
        built_in = settings.built_in(classes, handle.features)
        for policy in built_in:
            self._build(policy)
        framework = self._built[built_in[0]].framework
        self.policy_set = PolicySet(
            classes,
            handle.features,
            built_in=built_in,
            check=self._build,
            check_new=self._check_work,
            settings=settings,
            namespace_labels=handle.cache.namespace_labels,
        )
        """`policy_set.version` rises whenever the active policies change."""
        sorter = framework.sorter()
        self.sort_key: Callable[[PodInfo, float], Any] = (
            sorter if self.policy_set.queue_sort == QUEUE_SORT else ranked(sorter, self._report)
        )
        """The sort key of the queue."""
        self._unreadable: Unreadable = {}
        handle.cache.groups.eviction_by_policy = self.eviction_of

    def _build(self, policy: CompiledPolicy) -> None:
        plugins = self.plugins
        self._put(policy, plugins.framework_of(policy, policy.profile, self._classes, plugins.reporter(policy)))

    def _work(self, policy: CompiledPolicy) -> Sequence[RuleWork]:
        """The estimated work of its rules on the nodes that are there."""
        return [each for rules in policy.rules for each in rules.work(self._handle.cache.table)]

    def _check_work(self, policy: CompiledPolicy) -> None:
        """Raises PolicyError if no decision with these rules is likely to end on a cluster of this size."""
        work = self._work(policy)
        if (total := sum(each.cost for each in work)) > MOST_WORK:
            most = max(work, key=lambda each: each.cost)
            problem = (
                f"the rules may cost {total} on the nodes of this cluster, the maximum is {MOST_WORK}: "
                f"rule {most.rule!r} may cost {most.each} on each of {most.times} nodes"
            )
            raise PolicyError(policy.name, "NotAllowed", [("spec.rules", problem)])

    def _put(self, policy: CompiledPolicy, framework: Framework) -> None:
        self._has_hints.clear()
        self._built[policy] = ActivePolicy.of(
            policy,
            framework,
            self._conduct,
            account=self.plugins.watch(policy, framework),
            refusal=self.plugins.refusal(policy),
        )

    # Plugins that are loaded again: see recompilation.py

    def using(self, plugins: Collection[str], classes: Classes) -> Sequence[CompiledPolicy]:
        """The policies that have to be compiled again if these plugins change to those of `classes`: built-in ones
        first, local ones last.
        """
        everywhere = any(_counts_everywhere(each.get(name)) for name in plugins for each in (self._classes, classes))
        found = [
            policy
            for policy, active in self._built.items()
            if everywhere or not self._plugins_of(policy, active).isdisjoint(plugins)
        ]
        built_in = {*self.policy_set.built_in}
        return sorted(found, key=lambda policy: (policy not in built_in, policy.base is not None))

    def _plugins_of(self, policy: CompiledPolicy, active: ActivePolicy) -> frozenset[str]:
        """The names of the policy's plugins, both running and switched off."""
        return frozenset((*active.framework.plugins, *self.plugins.off(policy)))

    def is_known(self, policy: CompiledPolicy) -> bool:
        return policy in self._built

    def adopt(
        self,
        classes: Classes,
        fresh: Mapping[CompiledPolicy, CompiledPolicy],
        frameworks: Mapping[CompiledPolicy, Framework],
        *,
        changed: Collection[str],
        gone: Collection[str],
    ) -> None:
        """Puts these plugin classes, and the policies that were compiled for them, into use. `changed`: the names of
        the plugins whose classes have changed; `gone`: the modules that are no longer used.
        """
        self._classes = classes
        self.plugins.switch_on(changed)
        self.policy_set.adopt(classes, fresh)
        for policy, framework in frameworks.items():
            self._put(policy, framework)
        self._built_in_changed()
        self._conduct.exceptions.forget(frameworks.keys())
        self._handle.cache.forget_kinds_of(gone)

    def _built_in_changed(self) -> None:
        for policy in [policy for policy in self._built if policy.refusal]:
            framework = self._built[self.policy_set.compiler.built_in_for(policy.spec.scheduler_name)].framework
            self._built[policy] = ActivePolicy.of(policy, framework, self._conduct)
        self._misnamed.clear()
        self._has_hints.clear()

    def lacking(self, definitions: Definitions) -> Sequence[str]:
        """Returns a text for each signal that active policies need and these definitions lack."""
        return [
            f"policy {policy.name}: {problem}"
            for policy in self._built
            if not policy.refusal
            for problem in lacking_signals(policy, definitions)
        ]

    def switch_off(self, policy: CompiledPolicy, plugin: str, why: str) -> str:
        """Switches the plugin off for the policy: the policy goes on without it, or its pods wait. Returns what has
        changed; "" if nothing has.
        """
        active = self._built.get(policy)
        if active is None or plugin not in active.framework.plugins:
            return ""
        self.plugins.switch_off(policy, plugin, why)
        try:
            self._build(policy)
        except Exception as error:  # noqa: BLE001 -- plugins that are built again may raise anything
            refusal = f"{self.plugins.problem(policy)}; and without it the policy cannot be built: {problem_of(error)}"
            self._built[policy] = ActivePolicy.of(policy, self.default.framework, self._conduct, refusal=refusal)
        self._built_in_changed()
        problem = self.plugins.problem(policy)
        self._conduct.activities.fault(policy.name, problem)
        return problem

    def plugins_are(self, of_files: Collection[str], problem: str) -> None:
        """`of_files`: the plugins that come from plugin directories. `problem`: why the newest versions of these are
        not loaded, "" if they are.
        """
        self._of_files, self._reload_problem = frozenset(of_files), problem

    def with_plugins_of_files(self) -> Sequence[CompiledPolicy]:
        """The policies that use plugins of plugin directories."""
        return [
            policy
            for policy, active in self._built.items()
            if not policy.refusal and not self._of_files.isdisjoint(self._plugins_of(policy, active))
        ]

    def apply(self, raw: Mapping[str, Any]) -> ApplyResult:
        """Applies a raw SchedulerPolicy; the result says what is wrong with it."""
        return self._change(identity_of(raw)[0], lambda: self.policy_set.apply(raw))

    def apply_local(self, raw: Mapping[str, Any]) -> ApplyResult:
        """Applies a raw LocalSchedulerPolicy; the result says what is wrong with it."""
        return self._change(local_key_of(raw), lambda: self.policy_set.local.apply(raw))

    def remove(self, key: str) -> None:
        """Removes a policy. `key`: the name, or of a local policy namespace/name."""
        policies = self.policy_set.local if "/" in key else self.policy_set
        self._change(key, lambda: policies.remove(key))
        self._conduct.budgets.forget(key)
        self._conduct.activities.keep({policy.name for policy in self._built} | self.policy_set.local.keys())

    def check_local(self, key: str) -> ApplyResult:
        """Checks a local policy against the policies that bound it now."""
        return self._change(key, lambda: self.policy_set.local.check(key))

    def check_due(self) -> None:
        """Checks all due local policies at once. For simulations: the operator spreads this over time."""
        for key in [*self.policy_set.local.due]:
            self.check_local(key)

    def _change(self, key: str, change: Callable[[], T]) -> T:
        """Changes one policy. Keeps what was built for it, and drops what was built for its former version."""
        before, built = self._compiled(key), len(self._built)
        with self.plugins.building():
            answer = change()
        after, fresh = self._compiled(key), [*self._built][built:]
        for policy in (*before, *fresh):
            if policy not in after:
                self._built.pop(policy, None)
        for policy in after:
            if policy.refusal and policy not in self._built:
                framework = self._built[self.policy_set.compiler.built_in_for(policy.spec.scheduler_name)].framework
                self._built[policy] = ActivePolicy.of(policy, framework, self._conduct)
        if fresh or before != after:
            self._has_hints.clear()
            self._conduct.exceptions.keep(self._built.keys())
        return answer

    def _compiled(self, key: str) -> Sequence[CompiledPolicy]:
        """Returns the policies that decide about the policy's pods. A local policy is compiled for each base."""
        if "/" in key:
            return self.policy_set.local.compiled(key)
        decider = self.policy_set.decider(key)
        return () if decider is None else (decider,)

    def namespace_relabelled(self, namespace: str) -> None:
        """Marks the local policies of the namespace for another check, because other policies may bound them now."""
        self.policy_set.local.recheck_namespace(namespace)

    def plugin_exceptions_of(self, name: str) -> str:
        """The exceptions that plugins of the named policy's active generation raised, in short. Empty if there were
        none.
        """
        return "\n".join(filter(None, map(self._conduct.exceptions.summary, self._compiled(name))))

    def note_config_map(self, config_map: ConfigMap, why: str) -> None:
        """Notes why a ConfigMap with params of policies cannot be read; "" if it can."""
        if why != self._unreadable.get(config_map, ""):
            self._unreadable = {**self._unreadable, config_map: why} if why else _without(self._unreadable, config_map)

    def work_of(self, name: str) -> Work:
        """Returns the policy's work, for its status. `name`: of a local policy, namespace/name."""
        activity, conduct = self._conduct.activities.of(name), self._conduct
        interpreted: dict[str, str] = {}
        problems: dict[str, None] = {}
        outdated, off, estimated = False, "", 0
        for policy in self._compiled(name):
            if policy.refusal:
                continue
            interpreted.update(policy.interpreted)
            estimated = max(estimated, sum(each.cost for each in self._work(policy)))
            built = self._built[policy]
            outdated = outdated or not self._of_files.isdisjoint(self._plugins_of(policy, built))
            off = off or self.plugins.problem(policy)
            for plugin in built.framework.plugins.values():
                if isinstance(plugin, PolicyRules) and (problem := plugin.params_problem(self._unreadable)):
                    problems[problem] = None
        return Work(
            exceptions=self.plugin_exceptions_of(name),
            outdated_plugins=self._reload_problem if outdated else "",
            switched_off=off,
            over_budget=conduct.budgets.problem(name),
            missing_params="; ".join(problems),
            decisions=activity.decisions[0],
            evaluation_errors=activity.errors[0],
            faults=tuple(activity.faults.values()),
            causes=frozenset(activity.faults),
            interpreted=tuple(interpreted.items()),
            rules=(estimated, activity.longest) if estimated else None,
            packing=activity.packing,
        )

    def clear_cached_verdicts(self) -> None:
        """Clears the verdicts that the frameworks have cached: they refer to pods that may be gone."""
        for active in self._built.values():
            active.framework.clear_cached_verdicts()

    def serves(self, scheduler_name: str) -> bool:
        """True if a policy decides about pods that ask for this scheduler name."""
        return scheduler_name in self.policy_set.scheduler_names

    def looks_at(self, scheduler_name: str) -> bool:
        """True if a policy in shadow mode looks at pods that ask for this scheduler name."""
        return any(policy.spec.scheduler_name == scheduler_name for policy in self.policy_set.shadows)

    def of(self, pod: PodInfo) -> ActivePolicy | None:
        """The policy that decides about the pod; None if no policy serves its scheduler name."""
        compiled = self.policy_set.select(pod, self._handle.cache.namespace_labels(pod.namespace))
        return None if compiled is None else self._built.get(compiled) or self._waiting(compiled)

    def eviction_of(self, member: PodInfo) -> str | None:
        """How preemption evicts the gang of this member, as its policy says; None if it does not."""
        compiled = self.policy_set.select(member, self._handle.cache.namespace_labels(member.namespace))
        return None if compiled is None else args_of(compiled.profile).eviction

    def queue_of(self, pod: PodInfo) -> str:
        """The queue that the pod's policy chooses for it; "" for none."""
        compiled = self.policy_set.select(pod, self._handle.cache.namespace_labels(pod.namespace))
        return "" if compiled is None else compiled.queue_of(pod, self._handle.cache)

    def chooser_of(self, pod: PodInfo) -> str:
        """Returns the name of the policy that chooses the queue of this pod."""
        compiled = self.policy_set.select(pod, self._handle.cache.namespace_labels(pod.namespace))
        return "" if compiled is None else (compiled.base or compiled).name

    def preemptible(self, pod: PodInfo) -> bool | None:
        """True if the pod's policy lets it be evicted for pods of queues; None if the policy does not say."""
        compiled = self.policy_set.select(pod, self._handle.cache.namespace_labels(pod.namespace))
        return None if compiled is None else compiled.preemptible

    @property
    def choose_queues(self) -> bool:
        """True if any policy chooses the queue of its pods."""
        return any(policy.spec.queue is not None for policy in self._built)

    @property
    def choose_preemptible(self) -> bool:
        """True if any policy says whether its pods may be evicted for pods of queues."""
        return any(policy.preemptible is not None for policy in self._built)

    def _waiting(self, compiled: CompiledPolicy) -> ActivePolicy:
        """The policy with a refusal for pods that name a policy which does not take them, or that wait for a local
        policy.
        """
        found = self._misnamed.get(compiled)
        if found is None:
            framework = self._built[self.policy_set.compiler.built_in_for(compiled.spec.scheduler_name)].framework
            found = self._misnamed[compiled] = ActivePolicy.of(compiled, framework, self._conduct)
        return found

    @property
    def shadows(self) -> Collection[ActivePolicy]:
        """The policies in shadow mode that can decide. They take no pods."""
        found = (self._built[policy] for policy in self.policy_set.shadows)
        return [active for active in found if not active.refusal]

    def framework_on(self, active: ActivePolicy, cache: Cache) -> Framework:
        """The plugins of a policy in shadow mode, built for another cache than the scheduler's own. Raises what plugins
        raise.
        """
        return self.plugins.framework_on(active.compiled, self._classes, cache)

    @property
    def built(self) -> Collection[ActivePolicy]:
        """All policies whose plugins are built."""
        return self._built.values()

    @property
    def default(self) -> ActivePolicy:
        """The built-in policy that is also for scheduler names which no policy serves."""
        return self._built[self.policy_set.default]

    def named(self, name: str) -> ActivePolicy | None:
        """The SchedulerPolicy or the built-in policy of this name, or None."""
        compiled = self.policy_set.named(name)
        return None if compiled is None else self._built[compiled]

    def named_for(self, name: str, pod: PodInfo) -> ActivePolicy | None:
        """The policy that decides about the pod if the policy of this name is selected: that policy, or a local policy
        that it bounds, or None.
        """
        labels = self._handle.cache.namespace_labels(pod.namespace)
        compiled = self.policy_set.within(self.policy_set.named(name), pod, labels)
        return None if compiled is None else self._built.get(compiled) or self._waiting(compiled)

    def passed_over(self, pod: PodInfo) -> ActivePolicy | None:
        """With --when-policy-is-bad=default: the policy with a refusal that the pod would wait for, instead of the one
        that decides.
        """
        if not self.policy_set.passes_over:
            return None
        compiled = self.policy_set.passed_over(pod, self._handle.cache.namespace_labels(pod.namespace))
        return None if compiled is None else self._built.get(compiled) or self._waiting(compiled)

    def has_hint_for(self, event: ClusterEvent) -> bool:
        """True if an active plugin that can make pods wait registered a queueing hint for the event."""
        known = self._has_hints.get(event)
        if known is None:
            taking = [active for active in self._built.values() if not active.compiled.shadow]
            known = self._has_hints[event] = any(active.extenders for active in taking) or any(
                registered(active.framework.hints, plugin.name, event)
                for active in taking
                for plugin in active.framework.at(*_REJECTING)
            )
        return known

    def waits_for_time(self) -> bool:
        """True if a filter that pods may wait for reads the time."""
        sets = (rules for policy in self._built for rules in policy.profile.args.values() if isinstance(rules, RuleSet))
        return any(rule.expression.times for rules in sets for rule in rules.filters)

    # What the queue asks

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        active = self.of(pod)
        if active is None:
            return None
        try:
            status = active.framework.pre_enqueue(pod)
            if status is not None and active.framework.tells_gate(status.plugin, pod):
                self._handle.record(pod, "Warning", "FailedScheduling", status.message)
        except PluginError as error:
            self._report(pod, error)
            self._gate_failed(pod, error)
            return Status(Code.ERROR, (str(error),), error.plugin)
        return status

    def hints_of(self, pod: PodInfo) -> Mapping[str, Sequence[EventHint]]:
        active = self.of(pod)
        return _NO_HINTS if active is None else active.hints

    def estimate(self, pod: PodInfo) -> AttemptCost | None:
        """The cost of an attempt at the pod; None if it is ordinary."""
        active = self.of(pod)
        return None if active is None else active.framework.estimate(pod)

    def _report(self, pod: PodInfo, error: Exception) -> None:
        self._invalid_objects.report("Pod", pod.key, error)


def _counts_everywhere(plugin: type[Any] | None) -> bool:
    """True if the plugin's hints count even if a profile does not enable the plugin."""
    return getattr(plugin, "hints_when_disabled", False) or getattr(plugin, "pre_filter_disabled", None) is not None


def _without(unreadable: Unreadable, config_map: ConfigMap) -> Unreadable:
    return {key: why for key, why in unreadable.items() if key != config_map}
