"""Compiles `spec.rules`: type-checks the expressions, and adds the plugin that runs them to a policy's profile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Final

from podwright.api.spec.bounds import size_problem
from podwright.api.spec.queue_choice import QueueChoice
from podwright.api.spec.rules import MAX_EXPRESSION, MAX_RULES, ParamsFrom, Rules
from podwright.api.spec.signals import NO_SIGNALS, GivenSignals
from podwright.core.cel.errors import CelError, Issue
from podwright.core.framework.args import ArgsError
from podwright.core.framework.profile import Enabled, PluginSet, PluginSets, Point, Profile
from podwright.core.framework.validation import Problem
from podwright.core.plugins.rules.known_expressions import expression_of, is_known
from podwright.core.plugins.rules.local_rules import LocalRules
from podwright.core.plugins.rules.owner import RuleOwner
from podwright.core.plugins.rules.policy_rules import PolicyRules
from podwright.core.plugins.rules.rule_set import Filter, RuleScore, RuleSet

if TYPE_CHECKING:
    from podwright.core.plugins.rules.expression import Expression
    from podwright.core.plugins.rules.queue_expression import QueueExpression

RULES: Final = PolicyRules.name
"""The plugin that runs rules. No policy can name it."""
LOCAL_RULES: Final = LocalRules.name
"""The plugin that runs the rules of a local policy. No policy can name it either."""
_NO_OVERLOAD: Final = "found no matching overload"


def owner_of(
    policy: str, params: Mapping[str, str], params_from: ParamsFrom | None, namespace: str, scope: str = ""
) -> RuleOwner:
    """The owner of a policy's rules. `namespace`: that of its ConfigMap; `scope`: see Owner."""
    config_map = None if params_from is None else (namespace, params_from.config_map_ref.name)
    return RuleOwner(policy, params, config_map, scope)


def compile_rules(rules: Rules, owner: RuleOwner, signals: GivenSignals = NO_SIGNALS) -> RuleSet:
    """The rules, checked. Raises ArgsError with all problems, each with line and column."""
    problems: list[Problem] = []
    where = "spec.rules"
    filters = [
        Filter(rule.name, found, rule.reason, owner)
        for i, rule in enumerate(rules.filters)
        if (found := _checked(rule.expression, f"{where}.filters[{i}]", problems, signals, score=False)) is not None
    ]
    scores = [
        RuleScore(rule.name, found, owner, rule.weight, rule.normalize)
        for i, rule in enumerate(rules.scores)
        if (found := _checked(rule.expression, f"{where}.scores[{i}]", problems, signals, score=True)) is not None
    ]
    if problems:
        raise ArgsError(problems)
    return RuleSet(tuple(filters), tuple(scores))


def compile_queue(choice: QueueChoice | None, owner: RuleOwner) -> QueueExpression | None:
    """The expression of `spec.queue`, checked; None without one. Raises ArgsError with all problems."""
    if choice is None or not choice.expression:
        return None
    from podwright.core.plugins.rules.queue_expression import QueueExpression  # noqa: PLC0415 -- few need it, late

    try:
        return QueueExpression(choice.expression, owner)
    except CelError as error:
        raise ArgsError([("spec.queue.expression", issue_text(issue)) for issue in error.issues]) from error


def uncompiled(spec: object, signals: tuple[str, ...] = ()) -> Iterator[tuple[str, bool]]:
    """The expressions of a raw spec that have not been compiled yet, and whether each is a score. The spec may contain
    anything.

    `signals`: all that are defined.
    """
    if not isinstance(spec, Mapping) or size_problem(spec):
        return
    rules = spec.get("rules")
    if not isinstance(rules, Mapping):
        return
    for kind, score in (("filters", False), ("scores", True)):
        listed = rules.get(kind)
        for rule in islice(listed, MAX_RULES) if isinstance(listed, list) else ():
            text = rule.get("expression") if isinstance(rule, Mapping) else None
            if (
                isinstance(text, str)
                and len(text) <= MAX_EXPRESSION
                and not is_known(text, score=score, signals=signals)
            ):
                yield text, score


def _checked(
    text: str, where: str, problems: list[Problem], signals: GivenSignals, *, score: bool
) -> Expression | None:
    try:
        found = expression_of(text, score=score, signals=tuple(signals.defined))
    except CelError as error:
        problems += [(f"{where}.expression", issue_text(issue)) for issue in error.issues]
        return None
    if lacking := sorted(found.signals.difference(signals.names)):
        problems.append((f"{where}.expression", f"reads signal {lacking[0]!r}, which spec.signals does not name"))
        return None
    return found


def issue_text(issue: Issue) -> str:
    """Returns the message of an issue, with line and column."""
    message = issue.message + _hint(issue.message)
    return f"line {issue.line}, column {issue.column}: {message}" if issue.line else message


def _hint(message: str) -> str:
    """A hint for errors about mixed types; "" for other problems."""
    if _NO_OVERLOAD not in message:
        return ""
    given = message.rpartition("'(")[2]
    if "kubernetes.Quantity" in given and "int" in given:
        return (
            "; amounts are whole numbers, CPU in milli-CPU and memory in bytes: quantity('4Gi').asInteger() is one, too"
        )
    if "double" in given and "int" in given:
        return "; an amount or a count is an int, a signal a double: double(x) and int(x) convert them"
    return ""


def with_plugin(sets: PluginSets, rules: RuleSet, name: str = RULES) -> PluginSets:
    """The plugin sets, with the plugin that runs the rules after all others at its extension points."""
    points = [Point.PRE_FILTER, Point.FILTER] if rules.filters else []
    points += [Point.PRE_SCORE, Point.SCORE] if rules.scores else []
    found = dict(sets)
    for point in points:
        own = found.get(point.key, PluginSet())
        found[point.key] = replace(own, enabled=(*own.enabled, Enabled(name)))
    return found


def with_rules(profile: Profile, rules: RuleSet, name: str = RULES) -> Profile:
    """The profile, with the rules as the plugin's args."""
    return replace(profile, args={**profile.args, name: rules}) if rules.filters or rules.scores else profile
