"""Kopf's settings: fast for many small events, deaf to faults that pass, and leaving no trace on any object.

Where a figure comes from is in docs/adr; never set `worker_limit`, which would make throughput a matter of `idle_timeout`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any, Final

import kopf

from podwright.kube.runtime import Runtime

WORKER_IDLE_SECONDS: Final = 0.1
"""Nearer to 0 workers exit before they have processed anything; much more costs memory in bursts."""
LONGEST_BACKOFF: Final = 10.0


class EndlessBackoffs(Iterable[float]):
    """Seconds between tries that never run out: Kopf ends the process when they do."""

    def __iter__(self) -> Iterator[float]:
        pause = 0.2
        while True:
            yield pause
            pause = min(LONGEST_BACKOFF, 2 * pause)


class NoDiffBase(kopf.DiffBaseStorage):
    """Remembers nothing of an object, so Kopf writes nothing to it and copies nothing of it."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    def fetch(self, **_: Any) -> kopf.BodyEssence | None:
        return None

    def store(self, **_: Any) -> None:
        pass


class NoProgress(kopf.ProgressStorage):
    """Remembers nothing of handlers."""

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
    """Sets up Kopf for a runtime that has started."""
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
    # One line of INFO for each event that was handled is no news.
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)
