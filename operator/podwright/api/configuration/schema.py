"""The fields of a KubeSchedulerConfiguration v1, with kube-scheduler's defaults and validation messages.

Decoded by core/framework/args.py. Plugins and their args are checked when profiles are built: see load.py next. Source:
the Kubernetes documentation, "kube-scheduler Configuration (v1)", and what kube-scheduler 1.37 accepts.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, fields
from typing import Any, Final, Literal

from podwright.api.kube_scheduler_configuration import QUEUE_SORT, ConfiguredPluginSet, PluginArgs
from podwright.core.framework.args import INT32
from podwright.core.framework.validation import Problem
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.durations import format_duration, parse_duration
from podwright.core.objects.names import is_dns_subdomain
from podwright.core.objects.pod import KUBERNETES_DEFAULT_SCHEDULER_NAME

_QUALIFIED_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\Z")
_MAX_PREFIX: Final = 253 - len("requests.")
"""The longest domain of an extended resource: a quota names it `requests.` and the resource's name."""


def invalid(value: object, problem: str) -> str:
    """kube-scheduler's text for a value that is not valid."""
    shown = f'"{value}"' if isinstance(value, str) else value
    return f"Invalid value: {shown}: {problem}"


@dataclass(frozen=True, slots=True)
class LeaderElection:
    """An empty lock and durations of zero have the defaults. Durations are in Go's format.

    The name and the namespace of the Lease are empty if the file does not give them: `podwright run` then has a Lease
    of its own, where kube-scheduler's default is `kube-system/kube-scheduler`.
    """

    leader_elect: bool = True
    lease_duration: str = "15s"
    renew_deadline: str = "10s"
    retry_period: str = "2s"
    resource_lock: str = "leases"
    resource_name: str = ""
    resource_namespace: str = ""

    def __post_init__(self) -> None:
        """Raises ValueError for an invalid duration."""
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name in _DURATIONS:
                object.__setattr__(self, each.name, _go(value) if parse_duration(value) else each.default)
            elif value == "":
                object.__setattr__(self, each.name, each.default)

    def seconds(self, name: Literal["lease_duration", "renew_deadline", "retry_period"]) -> float:
        """A duration in seconds."""
        return parse_duration(getattr(self, name))

    def validate(self, where: str) -> Iterator[Problem]:
        if not self.leader_elect:
            return
        for name, key in _DURATIONS.items():
            if parse_duration(getattr(self, name)) <= 0:
                yield f"{where}.{key}", invalid(_go(getattr(self, name)), "must be greater than zero")
        if self.seconds("lease_duration") <= self.seconds("renew_deadline"):
            yield f"{where}.leaseDuration", invalid(_go(self.renew_deadline), "must be greater than `RenewDeadline`")
        if self.resource_lock != "leases":
            yield f"{where}.resourceLock", invalid(self.resource_lock, 'resourceLock value must be "leases"')


_DURATIONS: Final = {
    "lease_duration": "leaseDuration",
    "renew_deadline": "renewDeadline",
    "retry_period": "retryPeriod",
}


def _go(duration: str) -> str:
    return format_duration(parse_duration(duration))


@dataclass(frozen=True, slots=True)
class ClientConnection:
    """How to reach the API server. Podwright uses `kubeconfig` only: it limits itself by latency, and sends JSON.

    Empty fields and zeros have the defaults.
    """

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/vnd.kubernetes.protobuf"
    qps: float = 50.0
    burst: int = field(default=100, metadata=INT32)

    def __post_init__(self) -> None:
        for each in fields(self):
            if not getattr(self, each.name):
                object.__setattr__(self, each.name, each.default)

    def validate(self, where: str) -> Iterator[Problem]:
        if self.burst < 0:
            yield f"{where}.burst", invalid(self.burst, "must be non-negative")


@dataclass(frozen=True, slots=True)
class ConfiguredArgs(PluginArgs):
    """An entry of `pluginConfig` in a file. It may name no plugin, and only args that a plugin uses must be an
    object.
    """

    name: str = ""
    args: Any = None


@dataclass(frozen=True, slots=True)
class ConfiguredProfile:
    """A scheduling profile, with its plugins and args as written."""

    scheduler_name: str | None = None
    percentage_of_nodes_to_score: int | None = field(default=None, metadata=INT32)
    plugins: Mapping[str, ConfiguredPluginSet] = field(default_factory=dict)
    plugin_config: tuple[ConfiguredArgs, ...] = ()

    def validate(self, where: str) -> Iterator[Problem]:
        if not self.scheduler_name:
            yield f"{where}.schedulerName", "Required value"
        yield from _percentage(self.percentage_of_nodes_to_score, f"{where}.percentageOfNodesToScore")
        for key, plugin_set in self.plugins.items():
            for i, entry in enumerate(plugin_set.enabled):
                if entry.name in REMOVED_PLUGINS and key != "multiPoint":
                    yield f"{where}.plugins.{key}.enabled[{i}]", invalid(entry.name, _REMOVED)
        seen = set()
        for i, args in enumerate(self.plugin_config):
            if args.name in seen:
                yield f"{where}.pluginConfig[{i}]", f'Duplicate value: "{args.name}"'
            seen.add(args.name)
            if args.name in REMOVED_PLUGINS:
                yield f"{where}.pluginConfig[{i}]", invalid(args.name, _REMOVED)


REMOVED_PLUGINS: Final = frozenset(("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"))
"""Plugins of earlier versions. kube-scheduler says that they are not valid, rather than that they do not exist."""
_VERSION: Final = "kubescheduler.config.k8s.io/v1"
_REMOVED: Final = f'was invalid in version "{_VERSION}" (KubeSchedulerConfiguration is version "{_VERSION}")'


@dataclass(frozen=True, slots=True)
class ManagedResource:
    """An extended resource that an extender manages."""

    name: str
    ignored_by_scheduler: bool = False


@dataclass(frozen=True, slots=True)
class ExtenderTLS:
    """How to reach an extender by TLS. Data is in base64."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = field(default="", metadata={"name": "caFile"})
    cert_data: str = ""
    key_data: str = ""
    ca_data: str = field(default="", metadata={"name": "caData"})

    def validate(self, where: str) -> Iterator[Problem]:
        if self.insecure and (self.ca_file or self.ca_data):
            yield where, "specifying a root certificates file with the insecure flag is not allowed"
        for key, data in (("certData", self.cert_data), ("keyData", self.key_data), ("caData", self.ca_data)):
            try:
                if data and b"-----BEGIN " not in decoded(data):
                    yield f"{where}.{key}", "has no PEM block"
            except ValueError:
                yield f"{where}.{key}", "is not base64"


def decoded(data: str) -> bytes:
    """The content of base64, which may be broken into lines, as in Go. Raises ValueError."""
    return base64.b64decode(data.replace("\r", "").replace("\n", ""), validate=True)


@dataclass(frozen=True, slots=True)
class Extender:
    """An HTTP server that filters, scores or binds. An empty verb is one that it does not have."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: int = 0
    bind_verb: str = ""
    enable_https: bool = field(default=False, metadata={"name": "enableHTTPS"})
    tls_config: ExtenderTLS | None = None
    http_timeout: str = field(default="5s", metadata={"name": "httpTimeout"})
    node_cache_capable: bool = False
    managed_resources: tuple[ManagedResource, ...] = ()
    ignorable: bool = False

    def __post_init__(self) -> None:
        """A timeout of zero is the default. Raises ValueError for an invalid duration."""
        try:
            object.__setattr__(
                self, "http_timeout", _go(self.http_timeout) if parse_duration(self.http_timeout) else "5s"
            )
        except ValueError as error:
            raise ValueError(f"httpTimeout: {error}") from error


@dataclass(frozen=True, slots=True)
class SchedulerConfiguration:
    """A whole file, without apiVersion and kind."""

    parallelism: int = field(default=16, metadata=INT32)
    leader_election: LeaderElection = field(default_factory=LeaderElection)
    client_connection: ClientConnection = field(default_factory=ClientConnection)
    enable_profiling: bool = True
    enable_contention_profiling: bool | None = None
    percentage_of_nodes_to_score: int | None = field(default=None, metadata=INT32)
    pod_initial_backoff_seconds: int = 1
    pod_max_backoff_seconds: int = 10
    profiles: tuple[ConfiguredProfile, ...] = ()
    extenders: tuple[Extender, ...] = ()
    delay_cache_until_active: bool = False

    def __post_init__(self) -> None:
        """A single profile without a name serves the default scheduler's. Contention is profiled if profiling is
        enabled.
        """
        if self.enable_contention_profiling is None:
            object.__setattr__(self, "enable_contention_profiling", self.enable_profiling)
        profiles = self.profiles or (ConfiguredProfile(),)
        if len(profiles) == 1 and profiles[0].scheduler_name is None:
            (only,) = profiles
            named = ConfiguredProfile(
                KUBERNETES_DEFAULT_SCHEDULER_NAME,
                only.percentage_of_nodes_to_score,
                only.plugins,
                only.plugin_config,
            )
            profiles = (named,)
        object.__setattr__(self, "profiles", profiles)

    def validate(self, where: str = "") -> Iterator[Problem]:
        """kube-scheduler's rules. `where` is "": a file has no path."""
        yield from self.client_connection.validate("clientConnection")
        yield from self.leader_election.validate("leaderElection")
        if self.parallelism <= 0:
            yield "parallelism", invalid(self.parallelism, "should be an integer value greater than zero")
        first: dict[str | None, int] = {}
        for i, profile in enumerate(self.profiles):
            yield from profile.validate(f"profiles[{i}]")
            if profile.scheduler_name in first:
                earlier = f"profiles[{first[profile.scheduler_name]}].schedulerName"
                yield f"profiles[{i}].schedulerName", f'Duplicate value: "{earlier}"'
            first[profile.scheduler_name] = i
        yield from _queue_sort(self.profiles)
        yield from _percentage(self.percentage_of_nodes_to_score, "percentageOfNodesToScore")
        if self.pod_initial_backoff_seconds <= 0:
            yield "podInitialBackoffSeconds", invalid(self.pod_initial_backoff_seconds, "must be greater than 0")
        if self.pod_max_backoff_seconds < self.pod_initial_backoff_seconds:
            problem = "must be greater than or equal to PodInitialBackoffSeconds"
            yield "podMaxBackoffSeconds", invalid(self.pod_max_backoff_seconds, problem)
        yield from extender_problems(self.extenders)


def _percentage(value: int | None, where: str) -> Iterator[Problem]:
    if value is not None and not 0 <= value <= 100:
        yield where, invalid(value, "not in valid range [0-100]")


def _queue_sort(profiles: tuple[ConfiguredProfile, ...]) -> Iterator[Problem]:
    """The plugin that orders the queue. There is one queue, so all profiles must name the same plugin."""
    none = ConfiguredPluginSet()
    first = profiles[0].plugins.get("queueSort", none)
    if len(first.enabled) > 1:
        yield (
            "profiles[0].plugins.queueSort.Enabled",
            invalid(len(first.enabled), "only one queue sort plugin can be enabled"),
        )
    name = first.enabled[0].name if first.enabled else QUEUE_SORT
    args = _args_of(profiles[0], name)
    for i, profile in enumerate(profiles[1:], 1):
        own = profile.plugins.get("queueSort", none)
        if own != first:
            names = ", ".join(entry.name for entry in own.enabled)
            yield f"profiles[{i}].plugins.queueSort", invalid(names, "must be the same for all profiles")
        if _args_of(profile, name) != args:
            yield (
                f"profiles[{i}].pluginConfig.args",
                invalid(name, "queueSort must be the same for all profiles"),
            )


def _args_of(profile: ConfiguredProfile, plugin: str) -> Any:
    return next((entry.args for entry in profile.plugin_config if entry.name == plugin), None)


def extender_problems(extenders: Sequence[Extender]) -> Iterator[Problem]:
    """The problems of extenders that are used together, with paths as in a configuration."""
    managed: set[str] = set()
    for i, extender in enumerate(extenders):
        where = f"extenders[{i}]"
        if extender.prioritize_verb and extender.weight <= 0:
            yield f"{where}.weight", invalid(extender.weight, "must have a positive weight applied to it")
        for j, resource in enumerate(extender.managed_resources):
            path = f"{where}.managedResources[{j}].name"
            yield from ((path, problem) for problem in _resource_name_problems(resource.name))
            if resource.name in managed:
                yield path, invalid(resource.name, "duplicate extender managed resource name")
            managed.add(resource.name)
        if extender.tls_config is not None:
            yield from extender.tls_config.validate(f"{where}.tlsConfig")
    binders = sum(bool(extender.bind_verb) for extender in extenders)
    if binders > 1:
        found = f"found {binders} extenders implementing bind"
        yield "extenders", invalid(found, "only one extender can implement bind")


def _resource_name_problems(name: str) -> Iterator[str]:
    prefix, slash, rest = name.rpartition("/")
    if not _QUALIFIED_NAME.match(rest) or (slash and not is_dns_subdomain(prefix)):
        yield invalid(name, "must be a qualified name, such as example.com/name")
    elif not slash or "kubernetes.io/" in name or name.startswith("requests.") or len(prefix) > _MAX_PREFIX:
        yield invalid(name, "is an invalid extended resource name")
