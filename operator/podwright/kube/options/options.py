"""The options of a scheduler process. Each is defined once, as a field of `Options` or of its parts.

From the definition follow the flag of `podwright run` and of `podwright kube-scheduler` (`cli/flags/scheduler.py`), the
environment variable (also under plain `kopf run`), the help text, and the page docs/options.md. To add an option, add a
field and run `make options`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

from podwright.api.configuration.extenders import Extenders
from podwright.api.configuration.load import Configuration
from podwright.api.configuration.schema import LeaderElection
from podwright.api.configuration.signals import SignalsFile
from podwright.api.kube_scheduler_configuration import QUEUE_SORT
from podwright.api.permissions import ANY_NAME, WAIT, PolicySettings
from podwright.api.scheduler_policy import PODWRIGHT_SCHEDULER_NAME
from podwright.core.framework.features import NEWEST_MINOR
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.durations import format_duration
from podwright.core.objects.pod import KUBERNETES_DEFAULT_SCHEDULER_NAME
from podwright.core.queue import Waits
from podwright.kube.options.definitions import Option, definitions, option
from podwright.kube.options.serving import ServingOptions
from podwright.kube.options.unused import UnusedOptions
from podwright.kube.options.values import (
    ADDRESS,
    CONFIGURATION,
    DIRECTORY,
    DURATION,
    EXTENDERS,
    FEATURE_GATES,
    FILE,
    MINOR,
    MODULE_VERBOSITIES,
    NAME,
    POSITIVE,
    SCHEDULER_NAME,
    SCHEDULER_NAMES,
    SECONDS,
    SERVER,
    SIGNALS,
    SWITCH,
    VERBOSITY,
    WHOLE,
    OptionsError,
    choice,
)

SYSTEM_NAMESPACE: Final = "kube-system"
PODWRIGHT_LEASE: Final = "podwright"
"""The name of the Lease of `podwright run`."""
KUBE_SCHEDULER_LEASE: Final = ("kube-scheduler", SYSTEM_NAMESPACE)
"""The name of kube-scheduler's Lease, and its namespace."""
_NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
IN_CONFIGURATION: Final[Mapping[str, str]] = {
    "scheduler_name": "profiles[].schedulerName",
    "queue_sort": "profiles[].plugins.queueSort",
    "pod_initial_backoff_seconds": "podInitialBackoffSeconds",
    "pod_max_backoff_seconds": "podMaxBackoffSeconds",
}
"""Options for which a configuration file has a field, which replaces them."""


@dataclass(frozen=True, kw_only=True)
class Options(ServingOptions, UnusedOptions):
    """The values of all options. Raises OptionsError for values that contradict each other.

    `as_kube_scheduler`: the process takes kube-scheduler's place, as `podwright kube-scheduler`. `asks_extenders`: it
    asks the extenders that policies name, which `podwright extender` does not.
    """

    as_kube_scheduler: bool = False
    asks_extenders: bool = True

    kubeconfig: str | None = option(
        FILE, "The kubeconfig file. Default: KUBECONFIG, ~/.kube/config, or the service account of the pod."
    )
    config: Configuration | None = option(
        CONFIGURATION,
        "A KubeSchedulerConfiguration file (v1, v1beta3, v1beta2 or v1alpha1). Its profiles become built-in policies.",
    )
    master: str | None = option(SERVER, "The URL of the API server, instead of the one in the kubeconfig.")
    write_config_to: str | None = option(
        FILE,
        "Write the configuration that is in use to this file, as a KubeSchedulerConfiguration, and exit.",
        under_kopf=False,
    )
    context: str | None = option(NAME, "The context of the kubeconfig. Default: the current context.")
    scheduler_name: str = option(
        SCHEDULER_NAME,
        "The schedulerName that the built-in policy serves.",
        default=PODWRIGHT_SCHEDULER_NAME,
        as_kube_scheduler=KUBERNETES_DEFAULT_SCHEDULER_NAME,
    )
    allowed_scheduler_names: tuple[str, ...] = option(
        SCHEDULER_NAMES,
        "The scheduler names that policies may serve, besides --scheduler-name. * stands for any text, but "
        "default-scheduler must "
        "be listed by its name.",
        default=ANY_NAME,
    )
    allow_unsafe_policies: bool = option(
        SWITCH,
        "Let policies disable the filters that keep pods off nodes where they cannot run, and ignore resources.",
        default="false",
    )
    when_policy_is_bad: str = option(
        choice(WAIT, "default"),
        "What happens to the pods of a policy that was never accepted: they wait, or the next policy that"
        " matches decides, finally the built-in default.",
        default=WAIT,
    )
    shadow_only: bool = option(
        SWITCH,
        "Run only policies with mode Shadow. The process schedules no pods, needs no right to change them, and "
        "refuses to do so. See docs/shadow.md.",
        default="false",
    )
    leader_elect: bool | None = option(
        SWITCH,
        "Take a Lease before deciding, so that several instances can run, of which one decides. Default: with "
        "--config what the file says, "
        "which is true if it says nothing; otherwise false. kube-scheduler: true.",
    )
    leader_elect_lease_duration: float | None = option(
        DURATION,
        "After this time without a renewal, another instance takes the Lease. Default: what --config says, otherwise "
        "15s.",
    )
    leader_elect_renew_deadline: float | None = option(
        DURATION, "A leader that cannot renew the Lease for this long ends. Default: what --config says, otherwise 10s."
    )
    leader_elect_retry_period: float | None = option(
        DURATION, "The pause between two renewals, and between two tries. Default: what --config says, otherwise 2s."
    )
    leader_elect_resource_lock: str | None = option(choice("leases"), "The kind of the lock. Only leases are possible.")
    leader_elect_resource_name: str | None = option(
        NAME, "The name of the Lease. Default: what --config says, otherwise podwright. kube-scheduler: kube-scheduler."
    )
    leader_elect_resource_namespace: str | None = option(
        NAME,
        "The namespace of the Lease. Default: what --config says, otherwise that of the operator's pod, or "
        "kube-system. kube-scheduler: "
        "kube-system.",
    )
    pod_intake: str = option(
        choice("kopf", "watch"),
        "Where pending pods come from: Kopf's handlers, or Podwright's own watch.",
        default="kopf",
        as_kube_scheduler="watch",
    )
    feature_gates: Mapping[str, bool] = option(FEATURE_GATES, "Feature gates, named as in kube-scheduler.", default="")
    emulated_version: int | None = option(
        MINOR,
        "The version of Kubernetes, 1.34 to 1.37, whose feature gates are on, if it is older than the API server.",
    )
    extenders: Extenders | None = option(
        EXTENDERS,
        "A file that defines the extenders that policies may name: the fields of a KubeSchedulerConfiguration's "
        "extenders, with names. "
        "Policies may also name the extenders of --config, by their urlPrefix.",
    )
    extender_attempts: int = option(
        POSITIVE,
        "How many pods an extender may be asked about at the same time. With 1, it is asked about one pod after "
        "another, as by kube-scheduler.",
        default="32",
    )
    scheduled_events_per_second: int | None = option(
        WHOLE,
        "How many events Scheduled are written in a second at most; 0: none. A burst of pods binds faster without them, "
        "and the Binding says the same. Default: one for each pod, as kube-scheduler does.",
    )
    signals: SignalsFile | None = option(
        SIGNALS,
        "A file that defines the signals that policies may name: numbers of each node from metrics.k8s.io, from "
        "Prometheus or from "
        "annotations. It is read again when it changes.",
    )
    plugin_dirs: tuple[str, ...] = option(
        DIRECTORY, "A directory of plugin files (*.py). Can be repeated.", flag="--plugin-dir", repeatable=True
    )
    plugin_state_dir: str | None = option(
        DIRECTORY,
        "A directory that outlives the container, such as an emptyDir. There, Podwright remembers which plugins hung "
        "until the container was restarted, and starts with them switched off. Default: they are not remembered.",
    )
    plugin_budget: float = option(
        DURATION,
        "How long a plugin of your own may take for one pod in one decision. A plugin that takes longer three times "
        "within a minute is switched off, as spec.onPluginFailure of its policy says.",
        default="50ms",
    )
    queue_sort: str = option(
        NAME, "The QueueSort plugin. There is one queue, so it is the same for all policies.", default=QUEUE_SORT
    )
    gather_after: float = option(
        DURATION,
        "After this time, room is held for pod groups that have not started and are at the head of a queue of teams "
        "whose gatherAfter says nothing, such as one of KAI. 0s: never. See docs/queues.md.",
        default="0s",
    )
    pod_initial_backoff_seconds: int = option(
        POSITIVE, "Backoff after a pod's first failed attempt. It doubles with each further failure.", default="1"
    )
    pod_max_backoff_seconds: int = option(POSITIVE, "The longest backoff.", default="10")
    pod_max_in_unschedulable_pods_duration: float = option(
        DURATION, "An unschedulable pod that no event has helped is tried again after this time.", default="5m"
    )
    health_address: tuple[str, int] | None = option(
        ADDRESS,
        "Where to serve health over plain HTTP; to clients on the same machine also metrics, /configz, /debug/explain"
        " and the page. Default: not served.",
    )
    pod_uid: str = option(
        NAME,
        "The uid of the pod in which this process runs, from the downward API. Some events then regard its Deployment.",
        default="",
    )
    grace: float = option(
        SECONDS,
        "Time for bindings and evictions in progress after SIGTERM. Its last 3 seconds, at most half of it, are "
        "reserved for events "
        "and statuses.",
        default="20",
    )
    log_level: str = option(
        choice("debug", "info", "warning", "error", any_case=True),
        "Log messages of this level and above. debug is --v=10.",
        default="info",
        under_kopf=False,
    )
    logging_format: str = option(
        choice("text", "json"), "The form of log lines: klog's text, or JSON.", default="text", under_kopf=False
    )
    verbosity: int = option(
        VERBOSITY,
        "How much is logged: 0 start, stop, warnings and errors; 2 also changes of state; 3 each decision; 4 why "
        "nodes were rejected; 5 "
        "and more: details.",
        default="0",
        flag="--v",
        short="-v",
        under_kopf=False,
    )
    vmodule: tuple[tuple[str, int], ...] = option(
        MODULE_VERBOSITIES,
        "The verbosity of single modules, by the names of their files without .py, or with their packages: failures=4,"
        "podwright.kube.watch.*=2. The first pattern that matches counts.",
        default="",
        under_kopf=False,
    )

    def __post_init__(self) -> None:
        if self.pod_max_backoff_seconds < self.pod_initial_backoff_seconds:
            raise OptionsError("--pod-max-backoff-seconds must not be less than --pod-initial-backoff-seconds")
        self.check_serving()
        if self.scheduled_events_per_second is not None and self.scheduled_events_per_second < 0:
            raise OptionsError("--scheduled-events-per-second must not be negative")
        if self.min_compatibility_version is not None and self.min_compatibility_version > (
            self.emulated_version or NEWEST_MINOR
        ):
            raise OptionsError("--min-compatibility-version must not be greater than --emulated-version")
        if self.vmodule and self.logging_format != "text":
            raise OptionsError("--vmodule: Forbidden: Only supported for text log format")
        if self.verbosity and self.log_level not in ("debug", "info"):
            raise OptionsError(f"--v={self.verbosity} and --log-level={self.log_level} contradict each other")
        if self.config is not None:
            self._check_configuration(self.config)
        self._check_leader_election(self.leader_election)

    def _check_leader_election(self, election: LeaderElection) -> None:
        for name in ("lease_duration", "renew_deadline", "retry_period"):
            if getattr(self, f"leader_elect_{name}") == 0:
                raise OptionsError(f"--leader-elect-{name.replace('_', '-')} must be greater than 0")
        if not election.leader_elect:
            return
        lease, renew, retry = (election.lease_duration, election.renew_deadline, election.retry_period)
        if election.seconds("lease_duration") <= election.seconds("renew_deadline"):
            raise OptionsError(
                f"--leader-elect-lease-duration ({lease}) must be greater than --leader-elect-renew-deadline ({renew})"
            )
        # client-go refuses the same: the pauses between tries are up to a fifth longer than the period.
        if election.seconds("renew_deadline") <= 1.2 * election.seconds("retry_period"):
            raise OptionsError(
                f"--leader-elect-renew-deadline ({renew}) must be greater than 1.2 times --leader-elect-retry-period "
                f"({retry})"
            )

    def _check_configuration(self, config: Configuration) -> None:
        for name, key in IN_CONFIGURATION.items():
            (own,) = (option for option in OPTIONS if option.name == name)
            default = own.as_kube_scheduler if self.as_kube_scheduler else own.default
            if default is not None and getattr(self, name) != own.type.parse(default):
                raise OptionsError(f"{own.flag} and --config contradict each other: write it into the file, as {key}")

    @property
    def in_cluster(self) -> bool:
        """True if the process runs in a pod."""
        return _NAMESPACE_FILE.exists() or bool(os.environ.get("POD_NAMESPACE"))

    @property
    def policies(self) -> PolicySettings:
        """The built-in policy, and what other policies may do."""
        return PolicySettings(
            scheduler_name=self.scheduler_name,
            queue_sort=self.queue_sort,
            allowed_scheduler_names=self.allowed_scheduler_names,
            allow_unsafe=self.allow_unsafe_policies,
            waits_for_bad_policies=self.when_policy_is_bad == WAIT,
            shadow_only=self.shadow_only,
            configuration=self.config,
            extenders={**(self.extenders or {}), **({} if self.config is None else self.config.extenders)},
            asks_extenders=self.asks_extenders,
            signals={} if self.signals is None else self.signals.signals,
            namespace=own_namespace(),
        )

    @property
    def leader_election(self) -> LeaderElection:
        """The file's settings, with the flags that were given instead, and with the default name of the Lease."""
        configured = (
            LeaderElection(leader_elect=self.as_kube_scheduler)
            if self.config is None
            else self.config.settings.leader_election
        )
        given: dict[str, Any] = {"leader_elect": self.leader_elect}
        for name in ("lease_duration", "renew_deadline", "retry_period"):
            seconds = getattr(self, f"leader_elect_{name}")
            given[name] = None if seconds is None else format_duration(seconds)
        defaults = KUBE_SCHEDULER_LEASE if self.as_kube_scheduler else (PODWRIGHT_LEASE, own_namespace())
        for name, default in zip(("resource_name", "resource_namespace"), defaults, strict=True):
            given[name] = getattr(self, f"leader_elect_{name}") or getattr(configured, name) or default
        return replace(configured, **{name: value for name, value in given.items() if value is not None})

    @property
    def kubeconfig_file(self) -> str | None:
        """The kubeconfig file. That of the configuration file wins, as with kube-scheduler, which never uses
        --kubeconfig then.
        """
        if self.config is None:
            return self.kubeconfig or None
        return (
            self.config.settings.client_connection.kubeconfig
            or (None if self.as_kube_scheduler else self.kubeconfig)
            or None
        )

    @property
    def kubeconfig_named_by(self) -> str:
        """The flag or field that can name the kubeconfig file, for errors."""
        if self.config is None:
            return "--kubeconfig"
        field = f"clientConnection.kubeconfig of {self.config.path}"
        return field if self.as_kube_scheduler else f"--kubeconfig, {field}"

    @property
    def warnings(self) -> Iterator[str]:
        """Warnings about options that were given and have no effect, with the reason."""
        for each in OPTIONS:
            if warning := each.warning(getattr(self, each.name)):
                yield warning
        yield from self.serving_warnings
        if self.config is not None and self.kubeconfig and self.kubeconfig_file != self.kubeconfig:
            beside = " beside --config, as with kube-scheduler" if self.as_kube_scheduler else ""
            unset = "" if self.kubeconfig_file else ", which is not set"
            yield f"--kubeconfig has no effect{beside}: clientConnection.kubeconfig of {self.config.path} counts{unset}"

    @property
    def waits(self) -> Waits:
        """How long pods wait in the queue."""
        source = self if self.config is None else self.config.settings
        return Waits(
            float(source.pod_initial_backoff_seconds),
            float(source.pod_max_backoff_seconds),
            self.pod_max_in_unschedulable_pods_duration,
        )

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Options:
        """The options under plain `kopf run`; an empty variable counts as not set. Raises OptionsError."""
        texts = {option: environ.get(option.variable) for option in OPTIONS if option.under_kopf}
        return cls(**{option.name: option.parse(text) for option, text in texts.items() if text})


def _position(option: Option) -> tuple[bool, bool]:
    """Options of the scheduler first, then those of its server, then those without effect."""
    return (bool(option.no_effect), option.name in {each.name for each in fields(ServingOptions)})


OPTIONS: Final = tuple(sorted(definitions(Options), key=_position))
"""The definitions of all options, in the order of `--help`."""


def own_namespace() -> str:
    """The namespace of the operator's pod; outside of a cluster, kube-system."""
    try:
        return os.environ.get("POD_NAMESPACE") or _NAMESPACE_FILE.read_text().strip() or SYSTEM_NAMESPACE
    except OSError:
        return SYSTEM_NAMESPACE
