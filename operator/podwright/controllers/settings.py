"""Kopf's settings: fast for many small events, patient with failing requests, and no annotations or finalizers on
objects.

docs/adr says where the figures come from. Do not set `worker_limit`: throughput would then depend on `idle_timeout`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any, Final

import kopf

from podwright.kube.runtime import Runtime

WORKER_IDLE_SECONDS: Final = 0.1
"""A worker with a much shorter timeout exits before it has processed anything; a much longer one costs memory in
bursts.
"""
FIRST_BACKOFF: Final = 0.2
LONGEST_BACKOFF: Final = 10.0
"""Seconds."""


class EndlessBackoffs(Iterable[float]):
    """Seconds between attempts. They never run out: Kopf would end the process when they do."""

    def __iter__(self) -> Iterator[float]:
        pause = FIRST_BACKOFF
        while True:
            yield pause
            pause = min(LONGEST_BACKOFF, 2 * pause)


class NoDiffBase(kopf.DiffBaseStorage):
    """Stores no last-seen state, so Kopf neither writes it to objects nor copies it."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    def fetch(self, **_: Any) -> kopf.BodyEssence | None:
        return None

    def store(self, **_: Any) -> None:
        pass


class NoProgress(kopf.ProgressStorage):
    """Stores no progress of handlers."""

    def fetch(self, **_: Any) -> kopf.ProgressRecord | None:
        return None

    def store(self, **_: Any) -> None:
        pass

    def purge(self, **_: Any) -> None:
        pass

    def touch(self, **_: Any) -> None:
        pass

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        return essence


def configure(settings: kopf.OperatorSettings, runtime: Runtime) -> None:
    """Configures Kopf for a runtime that has started."""
    settings.peering.standalone = True
    settings.posting.enabled = False
    settings.persistence.diffbase_storage = NoDiffBase()
    settings.persistence.progress_storage = NoProgress()
    settings.queueing.idle_timeout = WORKER_IDLE_SECONDS
    settings.networking.error_backoffs = EndlessBackoffs()
    settings.networking.request_timeout = 60
    settings.watching.chunk_size = 500
    settings.watching.field_selectors["pods"] = runtime.pending_selector
    settings.scanning.disabled = not runtime.crds_watchable
    _quieten_kopf()


def _quieten_kopf() -> None:
    """Leaves out Kopf's lines that repeat ours, or that say nothing to those who run the scheduler."""
    # A line at INFO for each event that is handled, for each activity of Kopf itself, and for its stop.
    for name in ("kopf.objects", "kopf.activities", "kopf._core.engines.activities", "kopf._core.reactor.running"):
        logging.getLogger(name).setLevel(logging.WARNING)
    observer = logging.getLogger("kopf._core.reactor.observation")
    if _says_what_we_lack not in observer.filters:
        observer.addFilter(_says_what_we_lack)


def _says_what_we_lack(record: logging.LogRecord) -> bool:
    """False for Kopf's warning about kinds that are not served: kube/policies names them, with the reason."""
    return not str(record.msg).startswith("Unresolved resources")
