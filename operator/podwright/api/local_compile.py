"""Combines a LocalSchedulerPolicy with the SchedulerPolicy that would decide about its pods (the base). The result has
the base's filters, further filters of the local policy, and the local policy's scores.

`compose` first checks that the local policy stays within `spec.delegation` of the base. Each problem names the bound
and its owner. Which of them applies to a pod: see podwright/api/local_policies.py next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, get_args

from podwright.api.compile import CompiledPolicy, compile_policy, strategy_args, strategy_sets, with_args
from podwright.api.compiled_rules import LOCAL_RULES, RULES, compile_rules, owner_of
from podwright.api.local_policy import LocalPolicy
from podwright.api.permissions import PolicySettings
from podwright.api.scheduler_policy import (
    KIND,
    DisabledPlugin,
    EnabledPlugin,
    PolicyError,
    PolicyPluginArgs,
    PolicyPluginSet,
    PolicySpec,
    SchedulerPolicy,
)
from podwright.api.spec.delegation import Delegation, NodeField
from podwright.api.spec.load_aware import PLUGIN as LOAD
from podwright.api.spec.load_aware import load_problems
from podwright.api.spec.signals import GivenSignals, named_signals
from podwright.api.spec.strategy import Strategy
from podwright.core.cel_columns.reads import EVERYTHING, FIELDS
from podwright.core.framework.args import ArgsError
from podwright.core.framework.features import Features
from podwright.core.framework.profile import DEFAULT_PLUGINS, Classes, Point, expand
from podwright.core.framework.validation import Problem
from podwright.core.plugins.rules.rule_set import RuleSet

_SCORING: Final = (Point.PRE_SCORE.key, Point.SCORE.key)
_ALL: Final = "*"
_MEASURED: Final = (Point.PRE_FILTER, Point.FILTER, Point.PRE_SCORE, Point.SCORE)
_CHEAP: Final = frozenset(entry.name for each in DEFAULT_PLUGINS.values() for entry in each.enabled) | {
    "RandomScore",
    "NodeNameScore",
    LOAD,
}
"""Plugins that other policies run anyway, and the score plugins of strategies: their time is not counted."""


def bound_by(base: CompiledPolicy) -> str:
    """The text that names the policy whose delegation bounds others."""
    return f"{KIND} {base.name}" if base.generation or base.spec.delegation else f"the built-in policy {base.name}"


def compose(
    base: CompiledPolicy,
    local: LocalPolicy,
    classes: Classes,
    features: Features,
    queue_sort: str,
    settings: PolicySettings,
) -> CompiledPolicy:
    """The policy for the pods of `local` that `base` would decide about. Raises PolicyError naming the bounds that are
    exceeded, or the fields that are wrong.
    """
    delegation = base.spec.delegation
    if delegation is None:
        raise PolicyError(
            local.key, "NotAllowed", [("spec", f"{bound_by(base)} decides about these pods, and delegates nothing")]
        )
    problems = [*_excesses(local, base, delegation, classes)]
    if problems:
        raise PolicyError(local.key, "NotAllowed", problems)
    spec = _merged(base.spec, local, classes)
    source = SchedulerPolicy(local.key, local.generation, spec, local.created)
    own_args = len(spec.plugin_config) - len(local.spec.plugin_config)
    try:
        defined = settings.definitions
        rules = _rules(base, local, named_signals(local.spec.signals, defined.signals, "spec.signals"))
        if problems := [*_read_excesses(rules[LOCAL_RULES], base, delegation)]:
            raise PolicyError(local.key, "NotAllowed", problems)
        if problems := load_problems(local.spec, defined.signals):
            raise ArgsError(problems)
        compiled = compile_policy(source, classes, features, queue_sort, defined=defined, rules=rules)
    except ArgsError as error:
        raise PolicyError(local.key, "Invalid", error.problems) from error
    except PolicyError as error:
        raise PolicyError(
            local.key, error.reason, [_as_written(local, own_args, each) for each in error.problems]
        ) from error
    before, after = (expand(each.profile.plugins, classes).points for each in (base, compiled))
    own = {name for point in _MEASURED for name in after[point] if name not in before[point]}
    match = local.spec.match.compiled(local.namespace)
    stays = local.spec.rebalancing == "Never"
    return replace(compiled, match=match, base=base, own_plugins=frozenset(own) - _CHEAP, stays=stays)


def _rules(base: CompiledPolicy, local: LocalPolicy, signals: GivenSignals) -> Mapping[str, RuleSet]:
    """The base's filters; its scores unless the local policy has some; and the local rules, whose functions count pods
    of the namespace only. Raises ArgsError.
    """
    spec, theirs = local.spec, base.profile.args.get(RULES)
    owner = owner_of(local.key, spec.params, spec.params_from, local.namespace, scope=local.namespace)
    own = compile_rules(spec.rules, owner, signals)
    if not isinstance(theirs, RuleSet):
        theirs = RuleSet()
    return {RULES: replace(theirs, scores=()) if own.scores else theirs, LOCAL_RULES: own}


def _excesses(local: LocalPolicy, base: CompiledPolicy, delegation: Delegation, classes: Classes) -> Iterator[Problem]:
    """The problems of a local policy that exceeds its delegation."""
    owner, spec = bound_by(base), local.spec
    kind = "" if spec.strategy is None else spec.strategy.type
    if kind and kind != "Custom" and kind not in delegation.strategies:
        yield "spec.strategy.type", _not_among(kind, delegation.strategies, owner, "strategies")
    yield from _plugin_excesses(local, base, delegation, classes)
    rules = len(spec.rules.filters) + len(spec.rules.scores)
    if rules and not delegation.rules:
        yield "spec.rules", f"{owner} does not delegate rules (its spec.delegation.rules)"
    elif rules > delegation.max_rules:
        yield "spec.rules", _more_than(f"{rules} rules are", delegation.max_rules, owner, "maxRules")
    if spec.rebalancing == "Never" and not delegation.rebalancing:
        yield "spec.rebalancing", f"{owner} does not delegate rebalancing (its spec.delegation.rebalancing)"
    for i, name in enumerate(spec.signals):
        if name not in delegation.signals:
            yield f"spec.signals[{i}]", _not_among(name, delegation.signals, owner, "signals")
    for i, score in enumerate(spec.rules.scores):
        if score.weight > delegation.max_weight:
            where = f"spec.rules.scores[{i}].weight"
            yield where, _more_than(f"{score.weight} is", delegation.max_weight, owner, "maxWeight")


def _read_excesses(rules: RuleSet, base: CompiledPolicy, delegation: Delegation) -> Iterator[Problem]:
    """The fields of `node` that local rules read without delegation, also where they read the node as a whole."""
    reads = [(f"filters[{i}]", rule.expression.reads) for i, rule in enumerate(rules.filters)]
    reads += [(f"scores[{i}]", rule.expression.reads) for i, rule in enumerate(rules.scores)]
    for where, read in reads:
        for name in get_args(NodeField):
            if FIELDS[name] in read and name not in delegation.node_fields:
                whole = " as part of the whole node" if EVERYTHING in read else ""
                not_delegated = _not_among(name, delegation.node_fields, bound_by(base), "nodeFields")
                yield f"spec.rules.{where}.expression", f"reads node.{name}{whole}: {not_delegated}"


def _plugin_excesses(
    local: LocalPolicy, base: CompiledPolicy, delegation: Delegation, classes: Classes
) -> Iterator[Problem]:
    owner, spec = bound_by(base), local.spec
    points = expand(base.profile.plugins, classes).points
    filtering = {*points[Point.FILTER]}
    deciding = {name for point, names in points.items() if point.key not in _SCORING for name in names}
    named: list[tuple[str, str]] = []
    for key, plugin_set in spec.plugins.items():
        for i, enabled in enumerate(plugin_set.enabled):
            named.append((f"spec.plugins.{key}.enabled[{i}].name", enabled.name))
            if (enabled.weight or 1) > delegation.max_weight:
                where = f"spec.plugins.{key}.enabled[{i}].weight"
                yield where, _more_than(f"{enabled.weight} is", delegation.max_weight, owner, "maxWeight")
        named += [(f"spec.plugins.{key}.disabled[{i}].name", each.name) for i, each in enumerate(plugin_set.disabled)]
    for i, args in enumerate(spec.plugin_config):
        where = f"spec.pluginConfig[{i}].name"
        named.append((where, args.name))
        if args.name in filtering:
            yield where, f"{args.name} also filters nodes, and its arguments are those of {owner}"
        elif args.name in deciding:
            yield where, f"{args.name} does more than score nodes, and its arguments are those of {owner}"
    for where, name in named:
        if _ALL not in delegation.plugins and name not in delegation.plugins:
            yield where, _not_among(name, delegation.plugins, owner, "plugins")


def _not_among(name: str, allowed: Sequence[str], owner: str, field: str) -> str:
    shown = f"only {', '.join(allowed)}" if allowed else "none"
    return f"{name} is not delegated: {owner} delegates {shown} (its spec.delegation.{field})"


def _more_than(what: str, most: int, owner: str, field: str) -> str:
    return f"{what} more than the {most} that {owner} delegates (its spec.delegation.{field})"


# The merged spec


def _merged(base: PolicySpec, local: LocalPolicy, classes: Classes) -> PolicySpec:
    """The base's spec with the local scores. Both strategies become plugins and arguments, so that either may be merged
    into the other.
    """
    own = local.spec
    strategy = base.strategy if own.strategy is None or own.strategy.type == "Custom" else own.strategy
    plugins = dict(base.plugins) if base.strategy.type == "Custom" else _sets(base.strategy)
    config = _with_args(base.plugin_config, base.strategy, base.signals)
    if own.strategy is not None and own.strategy.type != "Custom":
        plugins = {key: each for key, each in plugins.items() if key not in _SCORING}
        config = _without_scoring_args(config, classes)
    if strategy is not base.strategy:
        plugins |= _sets(strategy)
        config = _with_args(config, strategy, own.signals)
    for key, plugin_set in own.plugins.items():
        plugins[key] = _merge_sets(plugins.get(key, PolicyPluginSet()), plugin_set)
    return replace(
        base,
        strategy=Strategy("Custom"),
        plugins=plugins,
        plugin_config=(*config, *own.plugin_config),
        signals=tuple(dict.fromkeys((*base.signals, *own.signals))),
        delegation=None,
        by_name="Never",
    )


def _sets(strategy: Strategy) -> dict[str, PolicyPluginSet]:
    """Returns the strategy's changes to the plugins, in the form of a policy with strategy type Custom."""
    return {
        key: PolicyPluginSet(
            tuple(EnabledPlugin(each.name, each.weight or None) for each in plugin_set.enabled),
            tuple(map(DisabledPlugin, plugin_set.disabled)),
        )
        for key, plugin_set in strategy_sets(strategy).items()
    }


def _with_args(
    config: Sequence[PolicyPluginArgs], strategy: Strategy, signals: Sequence[str]
) -> tuple[PolicyPluginArgs, ...]:
    """The arguments, with the one that the strategy sets. `signals`: those that its policy names."""
    args = strategy_args(strategy, signals)
    return tuple(config if args is None else with_args(config, args, f"strategy type {strategy.type}"))


def _without_scoring_args(config: Sequence[PolicyPluginArgs], classes: Classes) -> tuple[PolicyPluginArgs, ...]:
    """The arguments without those of scoring, which the local strategy sets."""
    return tuple(
        PolicyPluginArgs(entry.name, kept)
        for entry in config
        if (kept := {key: each for key, each in entry.args.items() if key not in classes[entry.name].scoring_args})
    )


def _merge_sets(base: PolicyPluginSet, own: PolicyPluginSet) -> PolicyPluginSet:
    """The base's set, where the own set enables, disables and weighs plugins."""
    names, disabled = {each.name for each in own.enabled}, {each.name for each in own.disabled}
    kept = [each for each in base.enabled if each.name not in names | disabled and _ALL not in disabled]
    off = {each.name: each for each in (*base.disabled, *own.disabled) if each.name not in names}
    return PolicyPluginSet((*kept, *own.enabled), tuple(off.values()))


def _as_written(local: LocalPolicy, first: int, problem: Problem) -> Problem:
    """A problem of the merged policy, with the path that the local policy has for it."""
    where, text = problem
    for i in range(len(local.spec.plugin_config)):
        merged = f"spec.pluginConfig[{first + i}]"
        if where.startswith(merged):
            return f"spec.pluginConfig[{i}]{where.removeprefix(merged)}", text
    if where.startswith("spec.pluginConfig") and local.spec.strategy is not None:
        return "spec.strategy", text
    return where, text
