"""The options of a scheduler process. Each is defined once, as a field of `Options`.

From the definition follow the flag of `podwright run` (`cli/run.py`), the environment variable (also under plain `kopf run`), the help
text, and the page docs/options.md. To add an option, add a field and run `make options`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from podwright.api.configuration.load import Configuration
from podwright.api.configuration.schema import LeaderElection
from podwright.api.kube_scheduler_configuration import QUEUE_SORT
from podwright.api.permissions import ANY_NAME, WAIT, PolicySettings
from podwright.api.scheduler_policy import PODWRIGHT_SCHEDULER_NAME
from podwright.core.framework.durations import format_duration
from podwright.core.queue import Waits
from podwright.kube.option_values import (
    ADDRESS,
    CIPHER_SUITES,
    CONFIGURATION,
    DIRECTORY,
    DURATION,
    FEATURE_GATES,
    FILE,
    IP_ADDRESS,
    NAME,
    PATHS,
    PORT,
    POSITIVE,
    SCHEDULER_NAME,
    SCHEDULER_NAMES,
    SECONDS,
    SWITCH,
    OptionsError,
    ValueType,
    choice,
)

PREFIX: Final = "PODWRIGHT_"
IN_CONFIGURATION: Final[Mapping[str, str]] = {
    "scheduler_name": "profiles[].schedulerName",
    "queue_sort": "profiles[].plugins.queueSort",
    "pod_initial_backoff_seconds": "podInitialBackoffSeconds",
    "pod_max_backoff_seconds": "podMaxBackoffSeconds",
}
"""Options for which a configuration file has a field, which replaces them."""


@dataclass(frozen=True, slots=True)
class Option:
    """The definition of one option.

    `default`: the value as a user would write it, None for none. `repeatable`: the flag can be given several times, and the variable
    is a list separated by `os.pathsep`; the value is a tuple. `under_kopf`: False if plain `kopf run` has a flag of its own for it.
    """

    name: str
    type: ValueType
    default: str | None
    help: str
    flag: str
    repeatable: bool
    under_kopf: bool

    @property
    def variable(self) -> str:
        """The environment variable."""
        return PREFIX + self.name.upper()

    def parse(self, text: str) -> Any:
        """The value of a variable's text. Raises OptionsError, which names the variable."""
        try:
            if self.repeatable:
                return tuple(self.type.parse(part) for part in text.split(os.pathsep) if part)
            return self.type.parse(text)
        except OptionsError as error:
            raise OptionsError(f"{self.variable}: {error}") from error


def _option(
    type: ValueType,  # noqa: A002
    help: str,  # noqa: A002
    *,
    default: str | None = None,
    flag: str = "",
    repeatable: bool = False,
    under_kopf: bool = True,
) -> Any:
    """A field of Options. `flag` is only needed where it is not the field's name."""
    parts = {
        "type": type,
        "help": help,
        "default": default,
        "flag": flag,
        "repeatable": repeatable,
        "under_kopf": under_kopf,
    }

    def value() -> Any:
        if default is None:
            return () if repeatable else None
        return type.parse(default)

    return field(default_factory=value, metadata=parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The values of all options. Raises OptionsError for values that contradict each other."""

    kubeconfig: str | None = _option(
        FILE, "The kubeconfig file. Default: KUBECONFIG, ~/.kube/config, or the service account of the pod."
    )
    config: Configuration | None = _option(  # noqa: RUF009 -- a field, as the others
        CONFIGURATION,
        "A KubeSchedulerConfiguration file (v1, v1beta3, v1beta2 or v1alpha1). Its profiles become built-in policies.",
    )
    context: str | None = _option(NAME, "The context of the kubeconfig. Default: the current context.")
    scheduler_name: str = _option(
        SCHEDULER_NAME,
        "The schedulerName that the built-in policy serves.",
        default=PODWRIGHT_SCHEDULER_NAME,
    )
    allowed_scheduler_names: tuple[str, ...] = _option(
        SCHEDULER_NAMES,
        "The scheduler names that policies may serve, besides --scheduler-name. * stands for any text, but default-scheduler must "
        "be listed by its name.",
        default=ANY_NAME,
    )
    allow_unsafe_policies: bool = _option(
        SWITCH,
        "Let policies disable the filters that keep pods off nodes where they cannot run, and ignore resources.",
        default="false",
    )
    when_policy_is_bad: str = _option(
        choice(WAIT, "default"),
        "What becomes of the pods of a policy of which no generation was accepted: they wait, or the next policy that matches decides, in "
        "the end the built-in default.",
        default=WAIT,
    )
    leader_elect: bool | None = _option(
        SWITCH,
        "Take a Lease before deciding, so that several instances can run, of which one decides. Default: with --config what the file says, "
        "which is true if it says nothing; otherwise false.",
    )
    leader_elect_lease_duration: float | None = _option(
        DURATION,
        "After this time without a renewal, another instance takes the Lease. Default: what --config says, otherwise 15s.",
    )
    leader_elect_renew_deadline: float | None = _option(
        DURATION, "A leader that cannot renew the Lease for this long ends. Default: what --config says, otherwise 10s."
    )
    leader_elect_retry_period: float | None = _option(
        DURATION, "The pause between two renewals, and between two tries. Default: what --config says, otherwise 2s."
    )
    leader_elect_resource_lock: str | None = _option(
        choice("leases"), "The kind of the lock. Only leases are possible."
    )
    leader_elect_resource_name: str | None = _option(
        NAME, "The name of the Lease. Default: what --config says, otherwise podwright."
    )
    leader_elect_resource_namespace: str | None = _option(
        NAME,
        "The namespace of the Lease. Default: what --config says, otherwise that of the operator's pod, or kube-system.",
    )
    pod_intake: str = _option(
        choice("kopf", "watch"),
        "Where pending pods come from: Kopf's handlers, or Podwright's own watch.",
        default="kopf",
    )
    feature_gates: Mapping[str, bool] = _option(FEATURE_GATES, "Feature gates, named as in kube-scheduler.", default="")
    plugin_dirs: tuple[str, ...] = _option(
        DIRECTORY, "A directory of plugin files (*.py). Can be repeated.", flag="--plugin-dir", repeatable=True
    )
    queue_sort: str = _option(
        NAME, "The QueueSort plugin. There is one queue, so it is the same for all policies.", default=QUEUE_SORT
    )
    pod_initial_backoff_seconds: int = _option(
        POSITIVE, "Backoff after a pod's first failed attempt. It doubles with each further failure.", default="1"
    )
    pod_max_backoff_seconds: int = _option(POSITIVE, "The longest backoff.", default="10")
    pod_max_in_unschedulable_pods_duration: float = _option(
        DURATION, "An unschedulable pod that no event has helped is tried again after this time.", default="5m"
    )
    health_address: tuple[str, int] | None = _option(
        ADDRESS,
        "Where to serve health over plain HTTP; to clients on the same machine also metrics and /configz. Default: not served.",
    )
    bind_address: str = _option(
        IP_ADDRESS,
        "The address for --secure-port. An unspecified one stands for all addresses.",
        default="0.0.0.0",  # noqa: S104 -- as kube-scheduler
    )
    secure_port: int = _option(
        PORT,
        "Where to serve health, metrics and /configz over HTTPS, with authentication and authorization. 0: not served.",
        default="0",
    )
    cert_dir: str | None = _option(
        FILE,
        "The directory of the certificate for --secure-port, kube-scheduler.crt and kube-scheduler.key. If it has none, a self-signed "
        "one is written there. Default: a self-signed one, in memory.",
    )
    tls_cert_file: str | None = _option(
        FILE, "The certificate for --secure-port, followed by those of its issuers. Read again when it changes."
    )
    tls_private_key_file: str | None = _option(FILE, "The private key of --tls-cert-file.")
    tls_min_version: str = _option(
        choice("VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"),
        "The oldest version of TLS for --secure-port. TLS 1.0 and 1.1 are never used.",
        default="VersionTLS12",
    )
    tls_cipher_suites: tuple[str, ...] = _option(
        CIPHER_SUITES, "The cipher suites of TLS 1.2 for --secure-port. Default: those of OpenSSL.", default=""
    )
    client_ca_file: str | None = _option(
        FILE,
        "The issuers of client certificates that authenticate users of --secure-port. Default: those of the cluster, in the "
        "ConfigMap kube-system/extension-apiserver-authentication.",
    )
    authentication_kubeconfig: str | None = _option(
        FILE, "The kubeconfig for TokenReviews and the lookup of client CAs. Default: the same as for everything else."
    )
    authentication_skip_lookup: bool = _option(SWITCH, "Do not look up the cluster's client CAs.", default="false")
    authentication_tolerate_lookup_failure: bool = _option(
        SWITCH, "Start even if the cluster's client CAs cannot be looked up.", default="true"
    )
    authentication_token_webhook_cache_ttl: float = _option(
        DURATION, "How long the result of a TokenReview is used.", default="10s"
    )
    authorization_kubeconfig: str | None = _option(
        FILE, "The kubeconfig for SubjectAccessReviews. Default: the same as for everything else."
    )
    authorization_always_allow_paths: tuple[str, ...] = _option(
        PATHS,
        "The paths of --secure-port that everybody may read. A final * stands for any text.",
        default="/healthz,/readyz,/livez",
    )
    authorization_webhook_cache_authorized_ttl: float = _option(
        DURATION, "How long a SubjectAccessReview that allowed a request is used.", default="10s"
    )
    authorization_webhook_cache_unauthorized_ttl: float = _option(
        DURATION, "How long a SubjectAccessReview that refused a request is used.", default="10s"
    )
    pod_uid: str = _option(
        NAME,
        "The uid of the pod in which this process runs, from the downward API. Some events then regard its Deployment.",
        default="",
    )
    grace: float = _option(
        SECONDS,
        "Time for bindings and evictions in progress after SIGTERM. Its last 3 seconds, at most half of it, are reserved for events "
        "and statuses.",
        default="20",
    )
    log_level: str = _option(
        choice("debug", "info", "warning", "error", any_case=True),
        "Log messages of this level and above.",
        default="info",
        under_kopf=False,
    )

    def __post_init__(self) -> None:
        if self.pod_max_backoff_seconds < self.pod_initial_backoff_seconds:
            raise OptionsError("pod-max-backoff-seconds must not be less than pod-initial-backoff-seconds")
        if (self.tls_cert_file is None) != (self.tls_private_key_file is None):
            raise OptionsError("tls-cert-file and tls-private-key-file must be given together")
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
                f"--leader-elect-renew-deadline ({renew}) must be greater than 1.2 times --leader-elect-retry-period ({retry})"
            )

    def _check_configuration(self, config: Configuration) -> None:
        for name, key in IN_CONFIGURATION.items():
            (own,) = (option for option in OPTIONS if option.name == name)
            if own.default is not None and getattr(self, name) != own.type.parse(own.default):
                raise OptionsError(f"{own.flag} and --config contradict each other: write it into the file, as {key}")
        if config.settings.extenders:
            raise OptionsError("--config: extenders: this version cannot call extenders")

    @property
    def policies(self) -> PolicySettings:
        """The built-in policy, and what other policies may do."""
        return PolicySettings(
            scheduler_name=self.scheduler_name,
            queue_sort=self.queue_sort,
            allowed_scheduler_names=self.allowed_scheduler_names,
            allow_unsafe=self.allow_unsafe_policies,
            waits_for_bad_policies=self.when_policy_is_bad == WAIT,
            configuration=self.config,
        )

    @property
    def leader_election(self) -> LeaderElection:
        """The file's settings, with the flags that were given instead."""
        configured = LeaderElection(leader_elect=False) if self.config is None else self.config.settings.leader_election
        given: dict[str, Any] = {"leader_elect": self.leader_elect}
        for name in ("lease_duration", "renew_deadline", "retry_period"):
            seconds = getattr(self, f"leader_elect_{name}")
            given[name] = None if seconds is None else format_duration(seconds)
        for name in ("resource_name", "resource_namespace"):
            given[name] = getattr(self, f"leader_elect_{name}")
        return replace(configured, **{name: value for name, value in given.items() if value is not None})

    @property
    def kubeconfig_file(self) -> str | None:
        """The kubeconfig file: the flag wins over the configuration, as with kube-scheduler's --kubeconfig and --master."""
        configured = None if self.config is None else self.config.settings.client_connection.kubeconfig
        return self.kubeconfig or configured or None

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


def _definition(name: str, parts: Mapping[str, Any]) -> Option:
    return Option(name=name, **{**parts, "flag": parts["flag"] or f"--{name.replace('_', '-')}"})


OPTIONS: Final = tuple(_definition(each.name, each.metadata) for each in fields(Options))
"""The definitions of all options, in the order of `--help`."""
