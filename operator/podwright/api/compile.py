"""Compiles one SchedulerPolicy into a profile: which plugins run for its pods, with which weights and args.

Everything that can be wrong with a policy is found here, before the policy decides about any pod. Which policies are
active, and which of them decides about a pod: see podwright/api/policy_set.py next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

from podwright.api.compiled_rules import (
    LOCAL_RULES,
    RULES,
    compile_queue,
    compile_rules,
    owner_of,
    with_plugin,
    with_rules,
)
from podwright.api.configuration.extenders import Extenders, named_extenders, with_extenders
from podwright.api.kube_scheduler_configuration import QUEUE_SORT, default_profile, profile_of
from podwright.api.scheduler_policy import (
    PODWRIGHT_SCHEDULER_NAME,
    PolicyError,
    PolicyPluginArgs,
    PolicySpec,
    Reason,
    SchedulerPolicy,
)
from podwright.api.spec.devices import PLUGIN as DEVICES
from podwright.api.spec.devices import with_weight
from podwright.api.spec.load_aware import PLUGIN as LOAD
from podwright.api.spec.load_aware import load_problems
from podwright.api.spec.match import CompiledMatch, Subject
from podwright.api.spec.shares import PLUGIN as SHARES
from podwright.api.spec.shares import STRATEGIES as SHARE_STRATEGIES
from podwright.api.spec.shares import with_filter
from podwright.api.spec.signals import Definitions, named_signals
from podwright.api.spec.strategy import Strategy
from podwright.core.framework.args import ArgsError, encode
from podwright.core.framework.features import Features
from podwright.core.framework.profile import (
    MULTI_POINT,
    Classes,
    Enabled,
    NotSupportedError,
    PluginSet,
    PluginSets,
    Point,
    Profile,
    ProfileError,
    expand,
)
from podwright.core.framework.validation import SHOWN_PROBLEMS, Problem
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.similar_names import did_you_mean
from podwright.core.plugins.rules.rule_set import RuleSet
from podwright.core.state.cache import Cache

if TYPE_CHECKING:
    from podwright.core.plugins.rules.queue_expression import QueueExpression

BUILT_IN: Final = "built-in-default"
"""The name of the policy that needs no SchedulerPolicy object."""
PROFILE_PREFIX: Final = "profile/"
"""The prefix of the policy names of profiles of a configuration file; the scheduler name follows. No SchedulerPolicy
can have such a name.
"""


_FIT: Final = "NodeResourcesFit"
_BALANCE: Final = "NodeResourcesBalancedAllocation"
_FIT_STRATEGIES: Final = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
"""Strategy types that are scoring strategies of NodeResourcesFit."""
_ONLY_SCORE_PLUGIN: Final = {"Random": "RandomScore", "NodeName": "NodeNameScore"}
"""The score plugin that replaces all others, by strategy type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorDefinitions:
    """The operator's definitions for policies: the extenders and signals that they may name, and the `namespace` whose
    ConfigMaps may have their params. Where nobody `asks_extenders`, policies may name any, and only those that are
    defined count.
    """

    extenders: Extenders = field(default_factory=dict)
    asks_extenders: bool = True
    signals: Definitions = field(default_factory=dict)
    namespace: str = ""


_NOTHING_DEFINED: Final = OperatorDefinitions()


@dataclass(slots=True, eq=False, weakref_slot=True)
class CompiledPolicy:
    """A policy that can decide about pods. Hashed by identity: each generation is an object of its own. Only `adopt`
    changes it.

    `refusal`: why the policy was refused, "" if it was accepted. A refused policy only selects its pods; its profile is
    the built-in one, and places no pods. `misnamed`: the policy stands for all policies that pods name but that do not
    take them. `base`: the policy that bounds a LocalSchedulerPolicy; `own_plugins`: plugins that run only because of
    the LocalSchedulerPolicy; `stays`: it exempts its pods from rebalancing.
    """

    source: SchedulerPolicy
    match: CompiledMatch
    profile: Profile
    refusal: str = ""
    misnamed: bool = False
    base: CompiledPolicy | None = None
    own_plugins: frozenset[str] = frozenset()
    stays: bool = False
    queue_expression: QueueExpression | None = None

    def adopt(self, fresh: CompiledPolicy) -> None:
        """Takes over the profile of `fresh`, which is the same generation compiled with other plugin classes."""
        self.profile, self.own_plugins = fresh.profile, fresh.own_plugins

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def generation(self) -> int:
        return self.source.generation

    @property
    def spec(self) -> PolicySpec:
        return self.source.spec

    @property
    def shadow(self) -> bool:
        """True if the policy is in shadow mode, and so takes no pods."""
        return self.source.spec.mode == "Shadow"

    def queue_of(self, pod: PodInfo, cache: Cache) -> str:
        """The queue that the policy chooses for a pod that names none; "" for none."""
        policy = self.base or self
        if policy.queue_expression is not None:
            return policy.queue_expression.choose(pod, cache)
        return "" if policy.refusal or policy.spec.queue is None else policy.spec.queue.name

    @property
    def preemptible(self) -> bool | None:
        """True if the policy's pods may be evicted for pods of queues; None if the policy does not say."""
        policy = self.base or self
        return None if policy.refusal or policy.spec.queue is None else policy.spec.queue.preemptible

    @property
    def interpreted(self) -> Mapping[str, str]:
        """The rules that are evaluated node by node, with the reason."""
        return {name: why for rules in self.rules for name, why in rules.interpreted.items()}

    @property
    def rules(self) -> Sequence[RuleSet]:
        """The rules of the policy; for a local policy, the rules of its base first."""
        sets = (self.profile.args.get(name) for name in (RULES, LOCAL_RULES))
        return [rules for rules in sets if isinstance(rules, RuleSet)]

    @property
    def matches_all(self) -> bool:
        return self.match.all

    def matches(self, subject: Subject) -> bool:
        """True if `spec.match` matches such a pod."""
        return self.match.matches(subject)


def compile_policy(
    policy: SchedulerPolicy,
    classes: Classes,
    features: Features,
    queue_sort: str = QUEUE_SORT,
    *,
    defined: OperatorDefinitions = _NOTHING_DEFINED,
    rules: Mapping[str, RuleSet] | None = None,
) -> CompiledPolicy:
    """Compiles the policy for the plugins in `classes`. Raises PolicyError naming the fields that are wrong.

    `queue_sort` is the plugin that orders the queue, which all policies share; `rules`: by the plugin that runs them,
    instead of those in the spec.
    """
    spec, signals = policy.spec, defined.signals
    _check_plugin_names(policy, classes)
    try:
        config = _merged_plugin_config(spec)
        given = named_signals(spec.signals, signals, "spec.signals")
        if spec.delegation is not None:
            named_signals(spec.delegation.signals, signals, "spec.delegation.signals")
        if problems := load_problems(spec, signals):
            raise ArgsError(problems)
        queue_expression = None
        if rules is None:
            owner = owner_of(policy.name, spec.params, spec.params_from, defined.namespace)
            queue_expression = compile_queue(spec.queue, owner)
            rules = {RULES: compile_rules(spec.rules, owner, given)}
        sets = with_weight(_with_queue_sort(_plugin_sets(spec), classes, queue_sort), spec.devices)
        sets = with_filter(sets, spec.shared_devices)
        for name, rule_set in rules.items():
            sets = with_plugin(sets, rule_set, name)
        profile = profile_of(spec.scheduler_name, sets, config, classes, features, "spec")
        for name, rule_set in rules.items():
            profile = with_rules(profile, rule_set, name)
        _check_queue_sort(policy, profile, classes, queue_sort)
        names = [name for name in spec.extenders if defined.asks_extenders or name in defined.extenders]
        profile = with_extenders(profile, named_extenders(names, defined.extenders, "spec.extenders"), classes)
    except ArgsError as error:
        raise PolicyError(policy.name, "Invalid", _paths_as_written(spec, error.problems)) from error
    except ProfileError as error:
        reason: Reason = "NotSupported" if isinstance(error, NotSupportedError) else "Invalid"
        raise PolicyError(policy.name, reason, [(error.where, error.problem)]) from error
    match = CompiledMatch.of(spec.match)
    return CompiledPolicy(source=policy, match=match, profile=profile, queue_expression=queue_expression)


def refused_policy(source: SchedulerPolicy, profile: Profile, refusal: str) -> CompiledPolicy:
    """A refused policy. Its scheduler name, `match`, precedence and `byName` are known, nothing else. `profile`: the
    built-in one.
    """
    match = CompiledMatch.of(source.spec.match)
    return CompiledPolicy(source=source, match=match, profile=profile, refusal=refusal)


def misnamed_policy(profile: Profile, refusal: str) -> CompiledPolicy:
    """The policy for pods that name a policy which does not take them. It places no pods. `refusal`: why the pods
    wait.
    """
    source = SchedulerPolicy("", generation=0, spec=PolicySpec(scheduler_name=profile.scheduler_name))
    return CompiledPolicy(source=source, match=CompiledMatch(), profile=profile, refusal=refusal, misnamed=True)


def built_in_policy(
    classes: Classes, features: Features, scheduler_name: str = PODWRIGHT_SCHEDULER_NAME, queue_sort: str = QUEUE_SORT
) -> CompiledPolicy:
    """kube-scheduler's default profile for every pod of `scheduler_name`, without a SchedulerPolicy object."""
    return built_in_of(default_profile(scheduler_name, classes, features, queue_sort))


def built_in_of(profile: Profile, name: str = BUILT_IN) -> CompiledPolicy:
    """A policy `name` that applies the profile to every pod of its scheduler name."""
    return CompiledPolicy(
        source=SchedulerPolicy(name, generation=0, spec=PolicySpec(scheduler_name=profile.scheduler_name)),
        match=CompiledMatch(),
        profile=profile,
    )


def queue_sort_of(profile: Profile, classes: Classes) -> str:
    """The plugin that orders the queue."""
    (found,) = expand(profile.plugins, classes).points[Point.QUEUE_SORT]
    return found


# Plugins


def strategy_sets(strategy: Strategy) -> PluginSets:
    """The plugin sets by which the strategy changes the default plugins."""
    kind = strategy.type
    if kind in _ONLY_SCORE_PLUGIN:
        return {
            Point.PRE_SCORE.key: PluginSet(disabled=("*",)),
            Point.SCORE.key: PluginSet((Enabled(_ONLY_SCORE_PLUGIN[kind]),), ("*",)),
        }
    if kind == LOAD or kind in SHARE_STRATEGIES:
        without_requests = PluginSet(disabled=(_FIT, _BALANCE))
        scores = PluginSet((Enabled(LOAD if kind == LOAD else SHARES),), without_requests.disabled)
        return {Point.PRE_SCORE.key: without_requests, Point.SCORE.key: scores}
    if kind == "BalancedAllocation":
        without_fit = PluginSet(disabled=(_FIT,))
        return {Point.PRE_SCORE.key: without_fit, Point.SCORE.key: without_fit}
    return {}


def _plugin_sets(spec: PolicySpec) -> PluginSets:
    """The plugin sets by which the strategy or `plugins` changes the default plugins."""
    return strategy_sets(spec.strategy) or {
        key: PluginSet(
            tuple(Enabled(plugin.name, plugin.weight or 0) for plugin in plugin_set.enabled),
            tuple(plugin.name for plugin in plugin_set.disabled),
        )
        for key, plugin_set in spec.plugins.items()
    }


def _with_queue_sort(sets: PluginSets, classes: Classes, queue_sort: str) -> PluginSets:
    """The plugin sets, with the plugin that orders the queue where they disable the default one without another in its
    place.

    A profile of kube-scheduler would have to name it, but all policies share one queue.
    """
    own = [sets.get(key, PluginSet()) for key in (MULTI_POINT, Point.QUEUE_SORT.key)]
    disabled = any({"*", QUEUE_SORT} & {*plugin_set.disabled} for plugin_set in own)
    named = any(Point.QUEUE_SORT.of(classes[entry.name]) for plugin_set in own for entry in plugin_set.enabled)
    if named or not disabled:
        return sets
    return {**sets, Point.QUEUE_SORT.key: PluginSet((Enabled(queue_sort),), ("*",))}


def _check_plugin_names(policy: SchedulerPolicy, classes: Classes) -> None:
    named = [(f"spec.pluginConfig[{i}]", entry.name) for i, entry in enumerate(policy.spec.plugin_config)]
    for key, plugin_set in policy.spec.plugins.items():
        where = f"spec.plugins.{key}"
        named += [(f"{where}.enabled[{i}]", entry.name) for i, entry in enumerate(plugin_set.enabled)]
        named += [(f"{where}.disabled[{i}]", e.name) for i, e in enumerate(plugin_set.disabled) if e.name != "*"]
    problems: list[Problem] = []
    for where, name in named:
        if name in (RULES, LOCAL_RULES):
            problems.append((f"{where}.name", f"plugin {name} cannot be named: spec.rules enables it"))
        elif name not in classes:
            hint = did_you_mean(name, classes) if len(problems) < SHOWN_PROBLEMS else ""
            problems.append((f"{where}.name", f"plugin {name!r} does not exist{hint}"))
    if problems:
        raise PolicyError(policy.name, "UnknownPlugin", problems)


def _check_queue_sort(policy: SchedulerPolicy, profile: Profile, classes: Classes, queue_sort: str) -> None:
    """All policies share one queue, so a policy may name only the plugin that already orders it."""
    found = queue_sort_of(profile, classes)
    if found != queue_sort and (found != QUEUE_SORT or Point.QUEUE_SORT.key in policy.spec.plugins):
        problem = f"must be {queue_sort} as in all policies, not {found}: there is one queue"
        raise PolicyError(policy.name, "NotSupported", [("spec.plugins.queueSort", problem)])


# Args


@dataclass(frozen=True, slots=True)
class StrategyArgs:
    """The one field of a plugin's args that a strategy sets."""

    plugin: str
    field: str
    value: Any


def strategy_args(strategy: Strategy, signals: Sequence[str]) -> StrategyArgs | None:
    """The args of a plugin that the strategy sets; None if it sets none. `signals`: those that the policy names."""
    if strategy.type == LOAD:
        loads = encode(strategy.signals) if strategy.signals else [{"name": name} for name in signals]
        return StrategyArgs(LOAD, "signals", loads)
    if strategy.type in SHARE_STRATEGIES:
        return StrategyArgs(SHARES, "scoring", {"type": strategy.type, "workload": encode(strategy.workload)})
    resources = encode(strategy.resources)
    if strategy.type in _FIT_STRATEGIES:
        scoring: dict[str, Any] = {"type": strategy.type}
        if resources:
            scoring["resources"] = resources
        if strategy.requested_to_capacity_ratio is not None:
            scoring["requestedToCapacityRatio"] = encode(strategy.requested_to_capacity_ratio)
        return StrategyArgs(_FIT, "scoringStrategy", scoring)
    if strategy.type == "BalancedAllocation" and resources:
        return StrategyArgs(_BALANCE, "resources", resources)
    return None


def _merged_plugin_config(spec: PolicySpec) -> Sequence[PolicyPluginArgs]:
    """`pluginConfig` plus the args that the strategy and `devices` set. Raises ArgsError where both set the same
    field.
    """
    config: Sequence[PolicyPluginArgs] = spec.plugin_config
    args = strategy_args(spec.strategy, spec.signals)
    if args is not None:
        config = with_args(config, args, f"strategy type {spec.strategy.type}")
    for name, value in spec.devices.args().items():
        config = with_args(config, StrategyArgs(DEVICES, name, value), f"spec.devices.{name}")
    if spec.shared_devices:
        config = with_args(config, StrategyArgs(SHARES, "devices", encode(spec.shared_devices)), "spec.sharedDevices")
    return config


def with_args(config: Sequence[PolicyPluginArgs], args: StrategyArgs, owner: str) -> Sequence[PolicyPluginArgs]:
    """Adds args to `pluginConfig`. `owner`: the part of the spec that sets the field. Raises ArgsError if
    `pluginConfig` sets it, too.
    """
    found = list(config)
    for i, entry in enumerate(found):
        if entry.name == args.plugin:
            if entry.args.get(args.field) is not None:
                raise ArgsError([(f"spec.pluginConfig[{i}].args.{args.field}", f"is already set by {owner}")])
            found[i] = PolicyPluginArgs(entry.name, {**entry.args, args.field: args.value})
            return found
    return [*found, PolicyPluginArgs(args.plugin, {args.field: args.value})]


def _paths_as_written(spec: PolicySpec, problems: Sequence[Problem]) -> Sequence[Problem]:
    """The problems, with paths in args that the strategy set replaced by paths in `spec.strategy`."""
    args = strategy_args(spec.strategy, spec.signals)
    if args is None:
        return problems
    names = [entry.name for entry in spec.plugin_config]
    index = names.index(args.plugin) if args.plugin in names else len(names)
    if args.plugin in names and spec.plugin_config[index].args.get(args.field) is not None:
        return problems
    merged = f"spec.pluginConfig[{index}].args.{args.field}"
    written = f"spec.strategy.{args.field}" if args.field in ("resources", "signals") else "spec.strategy"
    return [
        (written + where.removeprefix(merged) if where.startswith(merged) else where, problem)
        for where, problem in problems
    ]
