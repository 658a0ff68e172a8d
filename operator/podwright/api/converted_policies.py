"""Turns the profiles of a KubeSchedulerConfiguration into SchedulerPolicies, and names the parts that policies cannot
express.

Each policy compiles to the same profile as the file: the same plugins in the same order, with the same weights and
args.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from podwright.api.compile import compile_policy, queue_sort_of
from podwright.api.configuration.load import Configuration
from podwright.api.configuration.schema import (
    ClientConnection,
    ConfiguredProfile,
    LeaderElection,
    SchedulerConfiguration,
)
from podwright.api.kube_scheduler_configuration import QUEUE_SORT, ConfiguredPluginSet, default_profile
from podwright.api.permissions import safety_problems
from podwright.api.scheduler_policy import GROUP, KIND, PODWRIGHT_SCHEDULER_NAME, VERSION, PolicyError, parse_policy
from podwright.core.framework.args import ArgsError
from podwright.core.framework.features import Features
from podwright.core.framework.profile import Classes, ProfileError
from podwright.core.framework.validation import summary
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import KUBERNETES_DEFAULT_SCHEDULER_NAME


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """`policies`: the objects, as JSON values. `notes`: the parts of the file that are not in them, with what to write
    instead.
    """

    policies: Sequence[Mapping[str, Any]]
    notes: Sequence[str]


def convert(configuration: Configuration, classes: Classes, features: Features) -> Converted:
    """A policy for each profile. Raises ProfileError with the field that cannot be expressed, and ArgsError."""
    settings = configuration.settings
    if settings.extenders:
        raise ProfileError(
            "extenders", "SchedulerPolicies cannot define extenders; keep the file, and give it with --config"
        )
    profiles = configuration.profiles(classes, features)
    queue_sort = queue_sort_of(profiles[0], classes)
    notes = [*configuration.warnings, *configuration.unused_args(classes), *_options_instead(settings, queue_sort)]
    policies = []
    for i, configured in enumerate(settings.profiles):
        policy = _policy_of(configured, classes)
        where = f"profiles[{i}]"
        try:
            compiled = compile_policy(parse_policy(policy), classes, features, queue_sort)
        except PolicyError as error:
            raise ArgsError(
                [(f"{where}, as a SchedulerPolicy: {path}", text) for path, text in error.problems]
            ) from error
        default = default_profile(compiled.spec.scheduler_name, classes, features, queue_sort)
        if problems := safety_problems(compiled, default, classes):
            notes.append(f"{where}: start Podwright with --allow-unsafe-policies, because of {summary(problems)}")
        policies.append(policy)
    return Converted(policies=policies, notes=notes)


def _policy_of(configured: ConfiguredProfile, classes: Classes) -> Mapping[str, Any]:
    plugins = {
        key: found for key, plugin_set in configured.plugins.items() if (found := _plugin_set(plugin_set, classes))
    }
    config = [
        {"name": entry.name, "args": dict(entry.args or {})}
        for entry in configured.plugin_config
        if getattr(classes.get(entry.name), "args_type", None) is not None
    ]
    spec: dict[str, Any] = {"schedulerName": configured.scheduler_name}
    if plugins:
        spec |= {"strategy": {"type": "Custom"}, "plugins": plugins}
    if config:
        spec["pluginConfig"] = config
    metadata = {"name": configured.scheduler_name}
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": KIND, "metadata": metadata, "spec": spec}


def _plugin_set(plugin_set: ConfiguredPluginSet, classes: Classes) -> Mapping[str, Any]:
    """The plugins as in a policy, without empty lists and without disabled plugins that do not exist."""
    enabled = [
        {"name": entry.name, "weight": entry.weight} if entry.weight else {"name": entry.name}
        for entry in plugin_set.enabled
    ]
    names = dict.fromkeys(entry.name for entry in plugin_set.disabled if entry.name in classes or entry.name == "*")
    disabled = [{"name": name} for name in names]
    return {key: value for key, value in (("enabled", enabled), ("disabled", disabled)) if value}


def _options_instead(settings: SchedulerConfiguration, queue_sort: str) -> Iterator[str]:
    """Notes about settings of the file that become options of the process."""
    default = SchedulerConfiguration()
    if settings.leader_election.leader_elect:
        flags = " ".join(_flags_of(settings.leader_election))
        yield f"leaderElection: give podwright run {flags}"
    if settings.client_connection.kubeconfig != ClientConnection().kubeconfig:
        yield f"clientConnection.kubeconfig: give podwright run --kubeconfig={settings.client_connection.kubeconfig}"
    for field, key in (
        ("pod_initial_backoff_seconds", "podInitialBackoffSeconds"),
        ("pod_max_backoff_seconds", "podMaxBackoffSeconds"),
    ):
        if (value := getattr(settings, field)) != getattr(default, field):
            yield f"{key}: give podwright run --{field.replace('_', '-')}={value}"
    if queue_sort != QUEUE_SORT:
        yield f"profiles[].plugins.queueSort: give podwright run --queue-sort={queue_sort}"
    names = [str(profile.scheduler_name) for profile in settings.profiles]
    if KUBERNETES_DEFAULT_SCHEDULER_NAME in names:
        yield (
            f"profiles[{names.index(KUBERNETES_DEFAULT_SCHEDULER_NAME)}]: start podwright kube-scheduler, or "
            "podwright run with "
            f"--allowed-scheduler-names=*,{KUBERNETES_DEFAULT_SCHEDULER_NAME}"
        )
    if PODWRIGHT_SCHEDULER_NAME not in names:
        yield (
            f"profiles: podwright run also serves {PODWRIGHT_SCHEDULER_NAME}, with the default profile; "
            "--scheduler-name names "
            "another one"
        )


def _flags_of(election: LeaderElection) -> Iterator[str]:
    """Lease, times and switch, where they are not the defaults."""
    yield "--leader-elect"
    for field in dataclasses.fields(LeaderElection):
        value = getattr(election, field.name)
        if field.name != "leader_elect" and value != field.default:
            yield f"--leader-elect-{field.name.replace('_', '-')}={value}"
