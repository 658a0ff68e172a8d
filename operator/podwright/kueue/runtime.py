"""The process of `podwright admission-check`: the caches, policies and plugins of a scheduler, and the checks in the
place of its decisions. It binds no pod.
"""

from __future__ import annotations

import time

from podwright.kube.parts import Parts
from podwright.kube.runtime import Runtime
from podwright.kueue.checks import Checks
from podwright.kueue.options import CheckOptions
from podwright.kueue.places import HeldPlaces
from podwright.kueue.rights import CHECKING
from podwright.kueue.workload import ADMISSION_CHECK, WORKLOAD


class CheckRuntime(Runtime):
    """See the module. A process has one, created in its event loop."""

    scheduling = CHECKING
    collections = (WORKLOAD.collection, ADMISSION_CHECK.collection)
    kopf_has_work = True

    def __init__(self, options: CheckOptions) -> None:
        """Raises as Runtime does."""
        super().__init__(options.common)
        self._check_options = options
        self._kueue: Checks | None = None

    @property
    def checks(self) -> Checks:
        """The checks, once the runtime has started."""
        assert self._kueue is not None, "the runtime has not started"
        return self._kueue

    def _built(self, parts: Parts) -> None:
        options = self._check_options
        self._kueue = Checks(
            self._http,
            parts.engine,
            HeldPlaces(self._http, parts.engine, seconds=options.hold, now=time.time),
            recorder=parts.events,
            metrics=self._base.metrics,
            options=options,
            now=time.time,
        )
        parts.engine.first_idle.set()  # Kopf need not wait for a first burst of decisions

    def _start_writers(self, parts: Parts) -> None:
        self._writing = True
        parts.events.muted = False
        self._start_tasks(("events", parts.events.run))

    async def _run_decisions(self, parts: Parts) -> None:
        await self.checks.run()
