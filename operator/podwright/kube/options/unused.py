"""Flags of kube-scheduler that have no effect in Podwright. A value that is given is checked, and one warning at start
says why.

Source: `kube-scheduler --help` of Kubernetes 1.37.
"""

from __future__ import annotations

from typing import Final

from podwright.core.objects.dataclass import dataclass
from podwright.kube.options.definitions import without_effect
from podwright.kube.options.values import (
    DURATION,
    FILE,
    MINOR,
    NAME,
    NAMES,
    NUMBER,
    PREVIOUS_MINOR,
    QUANTITY,
    SWITCH,
    WHOLE,
)

_ONLY_HTTP_1: Final = "the server speaks HTTP/1.1 only"
_NO_PROFILING: Final = "there are no profiling endpoints"
_PACE: Final = "the API server's answers set the pace of requests"
_STREAM: Final = "all log lines go to stderr, and each is written at once"
_LABELS: Final = "the labels of Podwright's metrics have bounded values"


@dataclass(frozen=True, kw_only=True)
class UnusedOptions:
    """See the module. None: not given."""

    disable_http2_serving: bool | None = without_effect(SWITCH, _ONLY_HTTP_1, already="true")
    http2_max_streams_per_connection: int | None = without_effect(WHOLE, _ONLY_HTTP_1, already="0")
    permit_address_sharing: bool | None = without_effect(SWITCH, "SO_REUSEADDR is always set", already="true")
    profiling: bool | None = without_effect(SWITCH, _NO_PROFILING, already="false")
    contention_profiling: bool | None = without_effect(SWITCH, _NO_PROFILING, already="false")
    kube_api_qps: float | None = without_effect(NUMBER, _PACE)
    kube_api_burst: int | None = without_effect(WHOLE, _PACE)
    kube_api_content_type: str | None = without_effect(
        NAME, "requests to the API server are JSON", already="application/json"
    )
    min_compatibility_version: int | None = without_effect(
        MINOR, "Podwright works with API servers from Kubernetes 1.34 on"
    )
    allow_metric_labels: str | None = without_effect(NAME, _LABELS)
    allow_metric_labels_manifest: str | None = without_effect(FILE, _LABELS)
    disabled_metrics: tuple[str, ...] | None = without_effect(NAMES, "all metrics are served", already="")
    show_hidden_metrics_for_version: str | None = without_effect(PREVIOUS_MINOR, "no metrics are hidden", already="")
    log_flush_frequency: float | None = without_effect(DURATION, _STREAM)
    log_json_info_buffer_size: int | None = without_effect(QUANTITY, _STREAM, already="0")
    log_json_split_stream: bool | None = without_effect(SWITCH, _STREAM, already="false")
    log_text_info_buffer_size: int | None = without_effect(QUANTITY, _STREAM, already="0")
    log_text_split_stream: bool | None = without_effect(SWITCH, _STREAM, already="false")
