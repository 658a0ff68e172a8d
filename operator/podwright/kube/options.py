"""How a scheduler process is set up: what the command line, or the environment under plain `kopf run`, says."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from podwright.api.kube_scheduler_configuration import QUEUE_SORT
from podwright.api.scheduler_policy import PODWRIGHT_SCHEDULER_NAME
from podwright.core.framework.durations import seconds_of
from podwright.core.framework.features import DEFAULTS
from podwright.core.queue import Waits

PodIntake = Literal["kopf", "watch"]
PREFIX: Final = "PODWRIGHT_"


class OptionsError(ValueError):
    """An option that makes no sense. The message names it."""


@dataclass(frozen=True, slots=True)
class Options:
    """`pod_intake`: pending pods come through Kopf's handlers or through a reflector of our own.

    `health_address` is host:port for health and metrics, None for none; `grace` the seconds that bindings under way get at
    the end, a few of which are kept to say what became of them; `scheduler_name` the name that the built-in default policy serves;
    `plugin_dirs` folders of plugin files; `queue_sort` the plugin that orders the queue. The last three are kube-scheduler's, the
    duration in seconds.
    """

    kubeconfig: str | None = None
    context: str | None = None
    pod_intake: PodIntake = "kopf"
    scheduler_name: str = PODWRIGHT_SCHEDULER_NAME
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    health_address: str | None = None
    grace: float = 20.0
    plugin_dirs: tuple[str, ...] = ()
    queue_sort: str = QUEUE_SORT
    pod_initial_backoff_seconds: int = 1
    pod_max_backoff_seconds: int = 10
    pod_max_in_unschedulable_pods_duration: float = 300.0

    def __post_init__(self) -> None:
        """Raises OptionsError for what no place that options come from may say."""
        parse_scheduler_name(self.scheduler_name)
        if self.pod_initial_backoff_seconds <= 0:
            raise OptionsError("pod-initial-backoff-seconds must be greater than 0")
        if self.pod_max_backoff_seconds < self.pod_initial_backoff_seconds:
            raise OptionsError("pod-max-backoff-seconds must not be less than pod-initial-backoff-seconds")

    @property
    def waits(self) -> Waits:
        """How long pods wait in the queue."""
        return Waits(
            float(self.pod_initial_backoff_seconds),
            float(self.pod_max_backoff_seconds),
            self.pod_max_in_unschedulable_pods_duration,
        )

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Options:
        """PODWRIGHT_KUBECONFIG, PODWRIGHT_POD_INTAKE and so on: the options of `podwright run` but for its log level, PLUGIN_DIRS
        a path list. Raises OptionsError.
        """

        def given(name: str) -> str | None:
            return environ.get(PREFIX + name) or None

        intake = given("POD_INTAKE") or "kopf"
        if intake not in ("kopf", "watch"):
            raise OptionsError(f"{PREFIX}POD_INTAKE: {intake!r} is neither kopf nor watch")
        return cls(
            kubeconfig=given("KUBECONFIG"),
            context=given("CONTEXT"),
            pod_intake="watch" if intake == "watch" else "kopf",
            scheduler_name=given("SCHEDULER_NAME") or PODWRIGHT_SCHEDULER_NAME,
            feature_gates=parse_feature_gates(given("FEATURE_GATES") or ""),
            health_address=given("HEALTH_ADDRESS"),
            grace=parse_grace(given("GRACE") or "20"),
            queue_sort=given("QUEUE_SORT") or QUEUE_SORT,
            pod_initial_backoff_seconds=_whole(
                "POD_INITIAL_BACKOFF_SECONDS", given("POD_INITIAL_BACKOFF_SECONDS") or "1"
            ),
            pod_max_backoff_seconds=_whole("POD_MAX_BACKOFF_SECONDS", given("POD_MAX_BACKOFF_SECONDS") or "10"),
            pod_max_in_unschedulable_pods_duration=parse_duration(
                given("POD_MAX_IN_UNSCHEDULABLE_PODS_DURATION") or "5m"
            ),
            plugin_dirs=tuple(filter(None, (given("PLUGIN_DIRS") or "").split(os.pathsep))),
        )


def parse_feature_gates(text: str) -> dict[str, bool]:
    """`Name=true,Other=false`, as kube-scheduler takes it. Raises OptionsError."""
    gates: dict[str, bool] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = part.partition("=")
        if name not in DEFAULTS:
            raise OptionsError(f"unknown feature gate {name!r}")
        if not equals or value.lower() not in ("true", "false"):
            raise OptionsError(f"feature gate {name}: {value!r} is neither true nor false")
        gates[name] = value.lower() == "true"
    return gates


def parse_scheduler_name(name: str) -> str:
    """The name itself: the API server gives pods that ask for "" another one. Raises OptionsError."""
    if not name.strip():
        raise OptionsError("the scheduler name must not be empty")
    return name


def parse_grace(text: str) -> float:
    """Seconds. Raises OptionsError."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise OptionsError(f"{PREFIX}GRACE: {text!r} is no number of seconds")
    return seconds


def _whole(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise OptionsError(f"{PREFIX}{name}: {text!r} is no whole number") from error


def parse_duration(text: str) -> float:
    """Seconds of a duration as Go writes it, `5m`; it cannot be negative. Raises OptionsError."""
    try:
        seconds = seconds_of(text)
    except ValueError:
        seconds = -1.0
    if seconds < 0:
        raise OptionsError(f"{text!r} is no duration such as 5m or 1m30s")
    return seconds


def parse_address(address: str) -> tuple[str, int]:
    """`host:port` or `:port`. Raises OptionsError."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise OptionsError(f"{address!r} is not host:port")
    return host.strip("[]"), int(port)
