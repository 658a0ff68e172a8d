"""The file of --signals: which signals exist, what each means, and where its numbers come from.

Only the operator's options define signals, because a source is an address to which the operator sends requests, perhaps
with a token. A policy only names the signals that it uses. podwright/kube/node_signals asks the sources.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import field
from math import inf, isfinite
from typing import Any, Final
from urllib.parse import urlsplit

from podwright.api.configuration.documents import read_document
from podwright.api.spec.signals import MAX_SIGNALS, SIGNAL_NAME
from podwright.core.framework.args import decode
from podwright.core.framework.validation import Problem, declared
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.durations import parse_duration
from podwright.core.state.signals import SignalDefinition
from podwright.core.state.signals.definition import LOAD_RESOURCES, Unit

MAX_SECONDS: Final = 3600.0
"""The longest interval, staleness and lag. The times of placements are kept for that long, so memory depends on it."""
_KEY: Final[Mapping[str, Any]] = {"schema": {"minLength": 1, "maxLength": 317}}
_RESERVED: Final = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "false",
        "for",
        "function",
        "if",
        "import",
        "in",
        "let",
        "loop",
        "namespace",
        "null",
        "package",
        "return",
        "true",
        "var",
        "void",
        "while",
    ]
)
"""Words that CEL does not accept as names."""
_SOURCES: Final = ("metrics_api", "prometheus", "annotation", "values")


@dataclass(frozen=True, slots=True)
class MetricsApi:
    """The nodes' usage of the signal's resource by metrics.k8s.io, as `kubectl top nodes` shows it."""


@dataclass(frozen=True, slots=True)
class Prometheus:
    """An instant query. Each series of the answer has the node's name in the label `node_label`."""

    url: str = ""
    query: str = ""
    node_label: str = "node"
    ca_file: str = ""
    bearer_token_file: str = ""

    def problems(self, where: str) -> Iterator[Problem]:
        for name, value in (("url", self.url), ("query", self.query), ("nodeLabel", self.node_label)):
            if not value:
                yield f"{where}.{name}", "a value is required"
        if self.url and (problem := _url_problem(self.url)):
            yield f"{where}.url", problem
        if self.url.startswith("http:") and self.bearer_token_file:
            yield f"{where}.bearerTokenFile", "is only sent over https"
        if self.url.startswith("http:") and self.ca_file:
            yield f"{where}.caFile", "is only used with https"


def _url_problem(url: str) -> str:
    try:
        parts = urlsplit(url)
        right = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        right = False
    if not right:
        return "expected a URL such as https://prometheus.monitoring:9090"
    if "@" in parts.netloc:
        return "must not have a user or a password"
    return "must have no query and no fragment" if parts.query or parts.fragment else ""


@dataclass(frozen=True, slots=True)
class Annotation:
    """An annotation of the node with the number, and perhaps one with its time (RFC 3339)."""

    key: str = field(default="", metadata=_KEY)
    time_key: str = field(default="", metadata={"schema": {"maxLength": 317}})


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str = field(default="", metadata={"schema": {"pattern": SIGNAL_NAME}})
    default: float | None = None
    resource: str = ""
    unit: Unit = "Percent"
    minimum: float = 0.0
    maximum: float | None = None
    interval: str | None = None
    timeout: str = "10s"
    staleness: str | None = None
    lag: str = "1m"
    metrics_api: MetricsApi | None = field(default=None, metadata={"name": "metricsAPI"})
    prometheus: Prometheus | None = None
    annotation: Annotation | None = None
    values: Mapping[str, float] | None = None

    @property
    def polled(self) -> bool:
        return self.metrics_api is not None or self.prometheus is not None

    def problems(self, where: str) -> Iterator[Problem]:
        if not self.name:
            yield f"{where}.name", "a value is required"
        if self.name in _RESERVED:
            yield f"{where}.name", f"{self.name!r} is a reserved word of CEL"
        given = [name for name in _SOURCES if getattr(self, name) is not None]
        if len(given) != 1:
            yield where, "needs exactly one of metricsAPI, prometheus, annotation and values"
        if self.resource not in ("", *LOAD_RESOURCES):
            yield f"{where}.resource", f"must be {' or '.join(LOAD_RESOURCES)}"
        elif self.metrics_api is not None and not self.resource:
            yield f"{where}.resource", "is required with metricsAPI"
        for name, number in (("default", self.default), ("minimum", self.minimum), ("maximum", self.maximum)):
            if number is not None and not isfinite(number):
                yield f"{where}.{name}", "must be a finite number"
        if self.maximum is not None and self.maximum < self.minimum:
            yield f"{where}.maximum", "is less than the minimum"
        yield from self._time_problems(where)
        if self.prometheus is not None:
            yield from self.prometheus.problems(f"{where}.prometheus")
        if self.annotation is not None and not self.annotation.key:
            yield f"{where}.annotation.key", "a value is required"

    def _time_problems(self, where: str) -> Iterator[Problem]:
        for name, text, least in (
            ("interval", self.interval, 1.0),
            ("timeout", self.timeout, 0.1),
            ("staleness", self.staleness, 1.0),
            ("lag", self.lag, 0.0),
        ):
            try:
                seconds = least if text is None else parse_duration(text)
            except ValueError:
                yield f"{where}.{name}", "expected a duration such as 15s or 2m"
                continue
            if not least <= seconds <= MAX_SECONDS:
                yield f"{where}.{name}", f"must be from {least:g}s to 1h"
        timed = self.polled or (self.annotation is not None and bool(self.annotation.time_key))
        if self.interval is not None and not self.polled:
            yield f"{where}.interval", "is only for metricsAPI and prometheus: others are known as soon as they change"
        if self.staleness is not None and not timed:
            yield f"{where}.staleness", "needs a source that says when its numbers were true: annotation.timeKey"

    @property
    def definition(self) -> SignalDefinition:
        annotation = self.annotation or Annotation()
        timed = self.polled or bool(annotation.time_key)
        return SignalDefinition(
            name=self.name,
            default=self.default or 0.0,
            mean_if_unknown=bool(self.resource) and self.default is None,
            staleness=parse_duration(self.staleness or "2m") if timed else inf,
            lag=parse_duration(self.lag),
            resource=self.resource,
            unit=self.unit,
            amounts=self.metrics_api is not None,
            least=self.minimum,
            greatest=inf if self.maximum is None else self.maximum,
            annotation=annotation.key,
            time_annotation=annotation.time_key,
            fixed=self.values,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinedSignal:
    """A signal: what it means, and the source that is asked, if there is one. `interval` and `timeout` in seconds."""

    definition: SignalDefinition
    interval: float = 15.0
    timeout: float = 10.0
    metrics_api: MetricsApi | None = None
    prometheus: Prometheus | None = None


Signals = Mapping[str, DefinedSignal]
"""Signals by name."""


@dataclass(frozen=True, slots=True)
class _File:
    signals: tuple[_Entry, ...] = declared("The signals.", default=(), maxItems=MAX_SIGNALS)

    def validate(self, where: str) -> Iterator[Problem]:
        counts = Counter(entry.name for entry in self.signals)
        for i, entry in enumerate(self.signals):
            if entry.name and counts[entry.name] > 1:
                yield f"signals[{i}].name", f"{entry.name!r} is given twice"
            yield from entry.problems(f"signals[{i}]")


@dataclass(frozen=True, slots=True)
class SignalsFile:
    """The file of `--signals` as it was read."""

    path: str
    content: bytes
    signals: Signals


def load_signals(content: bytes) -> Signals:
    """Reads the file of `--signals`. Raises ProfileError, or ArgsError with all problems, each with the path of
    its field.
    """
    return parse_signals(read_document(content))


def parse_signals(raw: Mapping[str, Any]) -> Signals:
    """The content of such a file. Raises ArgsError with all problems."""
    return {
        entry.name: DefinedSignal(
            definition=entry.definition,
            interval=parse_duration(entry.interval or "15s"),
            timeout=parse_duration(entry.timeout),
            metrics_api=entry.metrics_api,
            prometheus=entry.prometheus,
        )
        for entry in decode(_File, raw, "").signals
    }
