"""The operator's options about policies: the scheduler names that the built-in policy serves, and the rights of
SchedulerPolicies.

Users of the cluster write SchedulerPolicies; the people who run the operator set its options. So only the options can
let policies take pods of the default scheduler, or disable the filters that keep pods off nodes where they cannot run.
The checks run for each policy before it becomes active: see podwright/api/policy_set.py next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from fnmatch import fnmatchcase
from itertools import chain
from typing import Final

from podwright.api.compile import PROFILE_PREFIX, CompiledPolicy, OperatorDefinitions, built_in_of, built_in_policy
from podwright.api.configuration.extenders import Extenders
from podwright.api.configuration.load import Configuration
from podwright.api.configuration.signals import Signals
from podwright.api.kube_scheduler_configuration import QUEUE_SORT
from podwright.api.scheduler_policy import PODWRIGHT_SCHEDULER_NAME, PolicyError, SchedulerPolicy
from podwright.api.spec.signals import Definitions
from podwright.core.framework.features import Features
from podwright.core.framework.profile import MULTI_POINT, Classes, Point, Profile, expand
from podwright.core.framework.validation import Problem
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import KUBERNETES_DEFAULT_SCHEDULER_NAME

ANY_NAME: Final = "*"
WAIT: Final = "wait"
"""The value of --when-policy-is-bad with which the pods of a refused policy wait."""
_POINTS_OF_FILTERS: Final = (Point.PRE_FILTER, Point.FILTER, Point.RESERVE, Point.PRE_BIND)
_UNSUITABLE: Final = "pods could be bound to nodes where they cannot run"
_FLAG: Final = "only the operator's flag --allow-unsafe-policies allows that"

INSTALLED_NAMESPACE: Final = "podwright-system"
"""The operator's namespace, as the manifests install it."""


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """`scheduler_name`: the scheduler name that the built-in policy serves; `queue_sort`: the plugin that orders the
    queue.

    `configuration`: a KubeSchedulerConfiguration, whose profiles are the built-in policies instead.

    `allowed_scheduler_names`: patterns of the scheduler names that policies may serve, where `*` stands for any text.
    Policies may always serve the names of built-in policies. No pattern with `*` matches `default-scheduler`: it has to
    be listed by its name.

    `allow_unsafe`: policies may disable any filter; see `check_safety`.

    `extenders` and `signals`: those that policies may name; see `OperatorDefinitions` for `asks_extenders`.
    `namespace`: the operator's own, whose ConfigMaps policies may take params from.

    `waits_for_bad_policies`: the pods of a policy without an accepted generation wait. Otherwise the next policy that
    matches decides about them, in the end the built-in one.

    `shadow_only`: only policies in shadow mode have an effect. No policy takes pods, not even a built-in one.
    """

    scheduler_name: str = PODWRIGHT_SCHEDULER_NAME
    queue_sort: str = QUEUE_SORT
    allowed_scheduler_names: tuple[str, ...] = (ANY_NAME,)
    allow_unsafe: bool = False
    waits_for_bad_policies: bool = True
    configuration: Configuration | None = None
    extenders: Extenders = field(default_factory=dict)
    asks_extenders: bool = True
    signals: Signals = field(default_factory=dict)
    namespace: str = INSTALLED_NAMESPACE
    shadow_only: bool = False

    @property
    def signal_definitions(self) -> Definitions:
        """The signals' definitions, by name."""
        return {name: signal.definition for name, signal in self.signals.items()}

    @property
    def definitions(self) -> OperatorDefinitions:
        """The extenders, signals and params that policies may refer to."""
        return OperatorDefinitions(
            extenders=self.extenders,
            asks_extenders=self.asks_extenders,
            signals=self.signal_definitions,
            namespace=self.namespace,
        )

    def allows_scheduler_name(self, name: str) -> bool:
        """True if policies may serve this scheduler name."""
        if name in self.scheduler_names or name in self.allowed_scheduler_names:
            return True
        return name != KUBERNETES_DEFAULT_SCHEDULER_NAME and any(
            fnmatchcase(name, pattern) for pattern in self.allowed_scheduler_names
        )

    @property
    def scheduler_names(self) -> Sequence[str]:
        """The scheduler names that the built-in policies serve."""
        return (self.scheduler_name,) if self.configuration is None else self.configuration.scheduler_names

    def built_in(self, classes: Classes, features: Features) -> Sequence[CompiledPolicy]:
        """The built-in policies. Raises ProfileError for what they need and `classes` lacks, and ArgsError for invalid
        args.
        """
        if self.configuration is None:
            return (built_in_policy(classes, features, self.scheduler_name, self.queue_sort),)
        return [
            built_in_of(profile, f"{PROFILE_PREFIX}{profile.scheduler_name}")
            for profile in self.configuration.profiles(classes, features)
        ]


DEFAULT_SETTINGS: Final = PolicySettings()
OFFLINE_SETTINGS: Final = PolicySettings(asks_extenders=False)
"""The settings of tools that decide offline."""


def check_scheduler_name(policy: SchedulerPolicy, settings: PolicySettings) -> None:
    """Raises PolicyError if the operator does not allow the scheduler name of the policy."""
    name = policy.spec.scheduler_name
    if settings.allows_scheduler_name(name):
        return
    allowed = ",".join(settings.allowed_scheduler_names)
    problem = f"{name!r} is not allowed by the operator's flag --allowed-scheduler-names={allowed}"
    if name == KUBERNETES_DEFAULT_SCHEDULER_NAME:
        problem = (
            f"{name!r} is only allowed if the operator runs with --scheduler-name={name} or lists it in "
            "--allowed-scheduler-names, because two schedulers must not serve the same pods"
        )
    raise PolicyError(policy.name, "NotAllowed", [("spec.schedulerName", problem)])


def check_safety(policy: CompiledPolicy, default: Profile, classes: Classes) -> None:
    """Raises PolicyError if the policy could bind pods to nodes where they cannot run: see `safety_problems`."""
    if problems := safety_problems(policy, default, classes):
        raise PolicyError(policy.name, "NotAllowed", [(path, f"{text}; {_FLAG}") for path, text in problems])


def safety_problems(policy: CompiledPolicy, default: Profile, classes: Classes) -> list[Problem]:
    """The problems that would let the policy bind pods to nodes where they cannot run: each extension point that lacks
    a filter of the default profile, except optional ones, and each of the plugins' unsafe args.
    """
    needed, found = expand(default.plugins, classes).points, expand(policy.profile.plugins, classes).points
    filters = [name for name in needed[Point.FILTER] if not classes[name].optional]
    missing = {
        point: [name for name in filters if name in needed[point] and name not in found[point]]
        for point in _POINTS_OF_FILTERS
    }
    problems: list[Problem] = []
    if policy.spec.strategy.type != "Custom":
        if names := ", ".join(dict.fromkeys(chain.from_iterable(missing.values()))):
            text = (
                f"{policy.spec.strategy.type} lacks {names}, which the operator's profile has as a filter, and which "
                "Custom can enable"
            )
            problems.append(("spec.strategy.type", f"{text}; without it, {_UNSUITABLE}"))
    else:
        for point, lacking in missing.items():
            if lacking:
                key = point.key if point.key in policy.spec.plugins else MULTI_POINT
                problems.append((f"spec.plugins.{key}", f"without {', '.join(lacking)} at {point.key}, {_UNSUITABLE}"))
    for i, entry in enumerate(policy.spec.plugin_config):
        for key, danger in classes[entry.name].unsafe_args.items() if entry.name in classes else ():
            if entry.args.get(key):
                problems.append((f"spec.pluginConfig[{i}].args.{key}", danger))
    return problems
