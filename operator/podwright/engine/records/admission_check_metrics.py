"""The metrics of `podwright admission-check`, a part of the catalogue. See `metrics`, and kueue/checks.py."""

from __future__ import annotations

from typing import Final

from podwright.engine.records.families import Counter, Gauge, Histogram, exponential

CHECK_ANSWERS: Final = Counter(
    "podwright_admission_check_answers",
    "Answers to Kueue about Workloads, by verdict: Ready, Retry or Rejected.",
    ("verdict",),
)
CHECK_SECONDS: Final = Histogram(
    "podwright_admission_check_duration_seconds",
    "From the moment at which a worker took a Workload until Kueue had the answer, by verdict.",
    ("verdict",),
    exponential(0.01, 2, 14),
)
CHECK_WAITING: Final = Gauge(
    "podwright_admission_check_waiting_workloads", "Workloads with quota whose check has no answer yet."
)
CHECK_PLACES: Final = Gauge("podwright_admission_check_places", "Workloads whose place is held.")
