"""Flags that earlier versions of kube-scheduler had. They are refused with what to write instead.

Source: the release notes of Kubernetes 1.13 to 1.26.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_HEALTH: Final = (
    "write --bind-address and --secure-port for health and metrics over HTTPS, or --health-address=HOST:PORT for "
    "plain HTTP"
)
_POLICY: Final = (
    "write plugins into a KubeSchedulerConfiguration and give its file with --config, or create SchedulerPolicies"
)
_LOG_FILES: Final = (
    "logs go to stderr; let systemd, supervisord or the container runtime keep them, or redirect stderr to a file"
)
_LOG_FORM: Final = "write --logging-format=text or --logging-format=json"

REFUSED: Final[Mapping[str, str]] = {
    "--address": _HEALTH,
    "--port": _HEALTH,
    "--policy-config-file": _POLICY,
    "--policy-configmap": _POLICY,
    "--policy-configmap-namespace": _POLICY,
    "--use-legacy-policy-config": _POLICY,
    "--algorithm-provider": "the default plugins are used; to change them, " + _POLICY,
    "--hard-pod-affinity-symmetric-weight": "write hardPodAffinityWeight of InterPodAffinity into the file of --config",
    "--failure-domains": "write topologyKey into the pods' affinity terms",
    "--lock-object-name": "write --leader-elect-resource-name",
    "--lock-object-namespace": "write --leader-elect-resource-namespace",
    "--log-dir": _LOG_FILES,
    "--log-file": _LOG_FILES,
    "--log-file-max-size": _LOG_FILES,
    "--logtostderr": _LOG_FILES,
    "--alsologtostderr": _LOG_FILES,
    "--stderrthreshold": _LOG_FILES,
    "--one-output": _LOG_FILES,
    "--add-dir-header": _LOG_FORM,
    "--skip-headers": _LOG_FORM,
    "--skip-log-headers": _LOG_FILES,
    "--log-backtrace-at": "write --v or --vmodule for more details",
}
"""Advice by flag."""
ACCEPTED: Final[Mapping[str, tuple[str, ...]]] = {
    "--port": ("0",),
    "--logtostderr": ("true",),
    "--alsologtostderr": ("true", "false"),
    "--use-legacy-policy-config": ("false",),
}
"""Values that say what Podwright does anyway, by flag."""
