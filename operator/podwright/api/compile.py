"""From SchedulerPolicy objects to profiles: one policy (`compile_policy`), and all that are live (`PolicySet`).

A policy that is not acceptable changes nothing: its last good generation stays in force, which the policy's status
remembers through a restart. The last resort for every scheduler name that is served is the built-in default policy,
kube-scheduler's default profile. What goes into a policy's status is in podwright/api/policy_status.py.
"""

from __future__ import annotations

import difflib
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from podwright.api.kube_scheduler_configuration import QUEUE_SORT, PluginArgs, default_profile, profile_of
from podwright.api.scheduler_policy import (
    PODWRIGHT_SCHEDULER_NAME,
    LastAccepted,
    PolicyError,
    PolicySpec,
    Reason,
    SchedulerPolicy,
    Strategy,
    parse_last_accepted,
    parse_policy,
)
from podwright.core.framework.args import ArgsError, Problem, encode
from podwright.core.framework.errors import PluginError
from podwright.core.framework.features import Features
from podwright.core.framework.profile import (
    Enabled,
    NotSupportedError,
    PluginSet,
    PluginSets,
    Point,
    Profile,
    ProfileError,
    expand,
)
from podwright.core.objects.pod import LabelSet, PodInfo
from podwright.core.objects.selectors import LabelSelector

BUILT_IN: Final = "built-in-default"
"""The name of the policy that needs no object."""

Classes = Mapping[str, type[Any]]

_NAMELESS: Final = "?"
_FIT: Final = "NodeResourcesFit"
_BALANCE: Final = "NodeResourcesBalancedAllocation"
_REPLACED_SCORES: Final = {"Random": "RandomScore", "NodeName": "NodeNameScore"}


@dataclass(frozen=True, slots=True, eq=False)
class CompiledPolicy:
    """A policy ready for use. Hashed by identity: another generation is another object.

    A selector that is None matches everything.
    """

    name: str
    uid: str
    generation: int
    scheduler_name: str
    precedence: int
    namespace_selector: LabelSelector | None
    pod_selector: LabelSelector | None
    strategy: str
    profile: Profile

    @property
    def matches_all(self) -> bool:
        return self.namespace_selector is None and self.pod_selector is None

    def matches(self, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        """Whether the policy takes a pod with these labels, as far as `spec.match` goes."""
        if self.namespace_selector is not None and not self.namespace_selector.matches(namespace_labels):
            return False
        return self.pod_selector is None or self.pod_selector.matches(labels)

    @property
    def rank(self) -> tuple[int, str]:
        """The policy with the least rank wins."""
        return -self.precedence, self.name


def compile_policy(
    policy: SchedulerPolicy, classes: Classes, features: Features, queue_sort: str = QUEUE_SORT
) -> CompiledPolicy:
    """The policy as a profile of the plugins in `classes`. Raises PolicyError naming the fields that are wrong.

    `queue_sort`: the plugin that orders the one queue of all policies.
    """
    spec = policy.spec
    _check_names(policy, classes)
    try:
        config = _plugin_config(spec)
        profile = profile_of(spec.scheduler_name, _plugin_sets(spec), config, classes, features, "spec")
        _check_queue_sort(policy, profile, classes, queue_sort)
    except ArgsError as error:
        raise PolicyError(policy.name, "Invalid", _as_written(spec, error.problems)) from error
    except ProfileError as error:
        reason: Reason = "NotSupported" if isinstance(error, NotSupportedError) else "Invalid"
        raise PolicyError(policy.name, reason, [(error.where, error.problem)]) from error
    selectors = (spec.match.namespace_selector, spec.match.pod_selector)
    namespaces, pods = (None if s is None else s.parse("spec.match") for s in selectors)
    return CompiledPolicy(
        name=policy.name,
        uid=policy.uid,
        generation=policy.generation,
        scheduler_name=spec.scheduler_name,
        precedence=spec.precedence,
        namespace_selector=None if namespaces is None or namespaces.empty else namespaces,
        pod_selector=None if pods is None or pods.empty else pods,
        strategy=spec.strategy.type,
        profile=profile,
    )


def built_in_policy(
    classes: Classes, features: Features, scheduler_name: str = PODWRIGHT_SCHEDULER_NAME, queue_sort: str = QUEUE_SORT
) -> CompiledPolicy:
    """The policy that needs no object: kube-scheduler's default profile for every pod of `scheduler_name`."""
    profile = default_profile(scheduler_name, classes, features, queue_sort)
    return CompiledPolicy(BUILT_IN, "", 0, scheduler_name, 0, None, None, "Default", profile)


# One policy


def _plugin_sets(spec: PolicySpec) -> PluginSets:
    """What the strategy or `plugins` merges into the default plugins."""
    kind = spec.strategy.type
    if kind in _REPLACED_SCORES:
        return {
            Point.PRE_SCORE.key: PluginSet(disabled=("*",)),
            Point.SCORE.key: PluginSet((Enabled(_REPLACED_SCORES[kind]),), ("*",)),
        }
    if kind == "BalancedAllocation":
        only = PluginSet(disabled=(_FIT,))
        return {Point.PRE_SCORE.key: only, Point.SCORE.key: only}
    return {
        key: PluginSet(
            tuple(Enabled(plugin.name, plugin.weight or 0) for plugin in plugin_set.enabled),
            tuple(plugin.name for plugin in plugin_set.disabled),
        )
        for key, plugin_set in spec.plugins.items()
    }


def _plugin_config(spec: PolicySpec) -> Sequence[PluginArgs]:
    """`pluginConfig` with what the strategy sets. Raises ArgsError where both set the same."""
    plugin, key, value = _strategy_args(spec.strategy)
    if not plugin:
        return spec.plugin_config
    config: list[PluginArgs] = list(spec.plugin_config)
    for i, entry in enumerate(config):
        if entry.name == plugin:
            if entry.args.get(key) is not None:
                raise ArgsError(
                    [(f"spec.pluginConfig[{i}].args.{key}", f"is set by strategy type {spec.strategy.type} already")]
                )
            config[i] = PluginArgs(plugin, {**entry.args, key: value})
            return config
    return [*config, PluginArgs(plugin, {key: value})]


def _as_written(spec: PolicySpec, problems: Sequence[Problem]) -> Sequence[Problem]:
    """The problems with the paths of what the strategy sets put back to `spec.strategy`."""
    plugin, key, _ = _strategy_args(spec.strategy)
    names = [entry.name for entry in spec.plugin_config]
    index = names.index(plugin) if plugin in names else len(names)
    inner = f"spec.pluginConfig[{index}].args.{key}"
    outer = "spec.strategy.resources" if key == "resources" else "spec.strategy"
    if not plugin or (plugin in names and spec.plugin_config[index].args.get(key) is not None):
        return problems
    return [(outer + where.removeprefix(inner) if where.startswith(inner) else where, text) for where, text in problems]


def _strategy_args(strategy: Strategy) -> tuple[str, str, Any]:
    """The plugin whose args the strategy sets, the field and its value; "" where it sets none."""
    resources = encode(strategy.resources)
    if strategy.type in ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"):
        scoring: dict[str, Any] = {"type": strategy.type}
        if resources:
            scoring["resources"] = resources
        if strategy.requested_to_capacity_ratio is not None:
            scoring["requestedToCapacityRatio"] = encode(strategy.requested_to_capacity_ratio)
        return _FIT, "scoringStrategy", scoring
    if strategy.type == "BalancedAllocation" and resources:
        return _BALANCE, "resources", resources
    return "", "", None


def _check_names(policy: SchedulerPolicy, classes: Classes) -> None:
    named = [(f"spec.pluginConfig[{i}]", entry.name) for i, entry in enumerate(policy.spec.plugin_config)]
    for key, plugin_set in policy.spec.plugins.items():
        where = f"spec.plugins.{key}"
        named += [(f"{where}.enabled[{i}]", entry.name) for i, entry in enumerate(plugin_set.enabled)]
        named += [(f"{where}.disabled[{i}]", e.name) for i, e in enumerate(plugin_set.disabled) if e.name != "*"]
    problems: list[Problem] = []
    for where, name in named:
        if name not in classes:
            close = difflib.get_close_matches(name, classes, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            problems.append((f"{where}.name", f"plugin {name!r} does not exist{hint}"))
    if problems:
        raise PolicyError(policy.name, "UnknownPlugin", problems)


def _check_queue_sort(policy: SchedulerPolicy, profile: Profile, classes: Classes, needed: str) -> None:
    """All policies share one queue, and so the plugin that sorts it; a policy that says nothing of it takes what there is."""
    (found,) = expand(profile.plugins, classes).points[Point.QUEUE_SORT]
    if found != needed and (found != QUEUE_SORT or Point.QUEUE_SORT.key in policy.spec.plugins):
        problem = f"must be {needed} as in all policies, not {found}: there is one queue"
        raise PolicyError(policy.name, "NotSupported", [("spec.plugins.queueSort", problem)])


# All policies


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one generation of a policy. `active_generation`: the one in force, None without one."""

    name: str
    generation: int
    accepted: bool
    reason: str
    message: str
    active_generation: int | None


@dataclass(slots=True)
class _Entry:
    """What is known of one policy object: its last generation, and the one in force."""

    uid: str
    generation: int
    spec: Any
    outcome: Outcome
    active: CompiledPolicy | None
    accepted: LastAccepted | None
    """What `active` was compiled from."""


class PolicySet:
    """The live policies and the built-in default one.

    `check` is called with each policy that compiles, before it comes into force; an exception from it, such as a
    ProfileError or PluginError, refuses the policy. `version` rises whenever what is in force changes.
    """

    def __init__(
        self,
        classes: Classes,
        features: Features,
        *,
        default: CompiledPolicy | None = None,
        check: Callable[[CompiledPolicy], object] | None = None,
        queue_sort: str = QUEUE_SORT,
    ) -> None:
        self._queue_sort = queue_sort
        self._classes = classes
        self._features = features
        self._check = check
        self.default = default or built_in_policy(classes, features, queue_sort=queue_sort)
        self._entries: dict[str, _Entry] = {}
        self._served: dict[str, tuple[CompiledPolicy, ...]] = {}
        self._chosen: weakref.WeakKeyDictionary[LabelSet, dict[tuple[str, str], _Choice]] = weakref.WeakKeyDictionary()
        self.version = 0
        self.scheduler_names: frozenset[str] = frozenset()
        """The names that pods may ask for."""
        self._refresh()

    def apply(self, raw: Mapping[str, Any]) -> Outcome:
        """Takes a policy object in, new, changed or seen before. Never raises for what is in the object.

        The last accepted generation in its status counts where the newest is bad and none of its good ones is known.
        """
        metadata = raw.get("metadata")
        named = metadata if isinstance(metadata, Mapping) else {}
        name, uid = str(named.get("name") or _NAMELESS), str(named.get("uid") or "")
        generation = named["generation"] if isinstance(named.get("generation"), int) else 0
        known = self._entries.get(name)
        if known is not None and known.uid != uid:
            known = None
        if known is not None and known.generation == generation and known.spec == raw.get("spec"):
            return known.outcome
        try:
            force = self._compile(raw, generation)
            outcome = Outcome(name, generation, True, "Accepted", "The policy is valid.", generation)
        except PolicyError as error:
            force, outcome = self._refuse(known, raw, name, generation, error.reason, error.message)
        except Exception as error:  # noqa: BLE001 -- plugins validate their args, and may do anything
            force, outcome = self._refuse(known, raw, name, generation, "Invalid", _problem(error))
        if name == _NAMELESS:
            return outcome
        self._entries[name] = _Entry(uid, generation, raw.get("spec"), outcome, *force)
        self._refresh()
        return outcome

    def _compile(self, raw: Mapping[str, Any], generation: int) -> _Force:
        compiled = compile_policy(parse_policy(raw), self._classes, self._features, self._queue_sort)
        if self._check is not None:
            self._check(compiled)
        return compiled, LastAccepted(generation, raw["spec"])

    def _refuse(
        self, known: _Entry | None, raw: Mapping[str, Any], name: str, generation: int, reason: str, problem: str
    ) -> tuple[_Force, Outcome]:
        why_not = ""
        if known is not None and known.active is not None:
            force: _Force = known.active, known.accepted
        else:
            force, why_not = self._recall(raw)
        if force[0] is None:
            rest, generation_in_force = "No generation of this policy is in force", None
        else:
            generation_in_force = force[0].generation
            rest = f"Generation {generation_in_force} stays in force"
        message = f"{problem}. {rest}{why_not}."
        return force, Outcome(name, generation, False, reason, message, generation_in_force)

    def _recall(self, raw: Mapping[str, Any]) -> tuple[_Force, str]:
        """The generation that the object's status remembers; none, and why not, if it is not acceptable by now."""
        try:
            kept = parse_last_accepted(raw)
            if kept is None or kept.spec == raw.get("spec"):
                return (None, None), ""
            metadata = {**raw["metadata"], "generation": kept.generation}
            return self._compile({**raw, "metadata": metadata, "spec": kept.spec}, kept.generation), ""
        except Exception as error:  # noqa: BLE001 -- as above
            return (None, None), f"; the one that status.lastAccepted has is not acceptable: {_problem(error)}"

    def remove(self, name: str) -> None:
        """Forgets a policy; one that is not known is no error."""
        if self._entries.pop(name, None) is not None:
            self._refresh()

    def select(self, pod: PodInfo, namespace_labels: Mapping[str, str]) -> CompiledPolicy | None:
        """The policy that decides about the pod; None if no policy serves its scheduler name.

        Answers are kept by the identity of both label mappings, so neither may be changed in place.
        """
        candidates = self._served.get(pod.scheduler_name)
        if candidates is None:
            return None
        first = candidates[0]
        if first.namespace_selector is None and first.pod_selector is None:
            return first
        choices = self._chosen.get(pod.labels)
        if choices is None:
            choices = self._chosen[pod.labels] = {}
        key = (pod.scheduler_name, pod.namespace)
        choice = choices.get(key)
        if choice is None or choice.namespace_labels is not namespace_labels:
            policy = next(policy for policy in candidates if policy.matches(pod.labels, namespace_labels))
            choice = choices[key] = _Choice(namespace_labels, policy)
        return choice.policy

    @property
    def live(self) -> Sequence[CompiledPolicy]:
        """All policies in force that have an object, best first."""
        return sorted((e.active for e in self._entries.values() if e.active is not None), key=lambda p: p.rank)

    def last_accepted(self, name: str) -> LastAccepted | None:
        """What is in force of a policy, as it was written; None if nothing is."""
        entry = self._entries.get(name)
        return None if entry is None else entry.accepted

    def outcomes(self) -> Sequence[Outcome]:
        """What became of the newest generation of each policy, by name."""
        return [self._entries[name].outcome for name in sorted(self._entries)]

    def shadowed_by(self, name: str) -> str | None:
        """The policy that takes every pod which this one would take, if there is one."""
        entry = self._entries.get(name)
        if entry is None or entry.active is None:
            return None
        for policy in self._served[entry.active.scheduler_name]:
            if policy is entry.active:
                return None
            if policy.matches_all:
                return policy.name
        return None

    def _refresh(self) -> None:
        served: dict[str, list[CompiledPolicy]] = {self.default.scheduler_name: []}
        for policy in self.live:
            served.setdefault(policy.scheduler_name, []).append(policy)
        self._served = {name: (*policies, self.default) for name, policies in served.items()}
        self._chosen.clear()
        self.scheduler_names = frozenset(self._served)
        self.version += 1


_Force = tuple[CompiledPolicy | None, LastAccepted | None]
"""What is in force of one policy, and what it was compiled from."""


def _problem(error: Exception) -> str:
    if isinstance(error, PolicyError):
        return error.message
    return str(error) if isinstance(error, ProfileError | PluginError) else f"{type(error).__name__}: {error}"


@dataclass(frozen=True, slots=True)
class _Choice:
    """A kept answer; it holds while the namespace's labels are this very mapping."""

    namespace_labels: Mapping[str, str]
    policy: CompiledPolicy
