"""The checks of /readyz: what the scheduler waits for, and whether its view of the cluster is current. The checks, and
the metrics of the same facts, are computed in the scheduler's thread.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable
from typing import Final

from podwright.core.framework.interface import ClusterError
from podwright.core.objects.dataclass import dataclass
from podwright.engine.records.metrics import (
    API_SERVER_SILENT_SECONDS,
    CREDENTIALS_REFUSED_SECONDS,
    WATCH_BLIND_SECONDS,
    Metrics,
)
from podwright.kube.background import BackgroundTasks
from podwright.kube.client.credentials.credentials import CredentialSource
from podwright.kube.client.errors import ConfigError, status_of
from podwright.kube.client.http import Http
from podwright.kube.serve.answers.checks import PING, Problems
from podwright.kube.watch.watches import Watches

BLIND_SECONDS: Final = 30.0
"""A watch that is not open, an API server that does not answer, and refused credentials fail their checks after this
time.
"""
STALE_SECONDS: Final = 10.0
"""How long the page shows what may be out of date without saying so."""
ASK_SECONDS: Final = 5.0
"""How often the API server is asked for a sign of life, and how long it may take to answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """`steady` gives seconds and never steps back; `wall` gives seconds since the epoch."""

    steady: Callable[[], float]
    wall: Callable[[], float]


class ApiServerContact:
    """Asks the API server for a sign of life. Watches alone do not show that it is gone: they may be silent for a
    minute.
    """

    def __init__(self, http: Http, clock: Callable[[], float]) -> None:
        self._http = http
        self._clock = clock
        self._last_answer = clock()
        self.failure = ""
        """Why the last question was not answered; empty if it was."""

    @property
    def silent_seconds(self) -> float:
        """How long ago the last answer came; 0 unless the last question failed."""
        return self._clock() - self._last_answer if self.failure else 0.0

    async def run(self) -> None:
        """Asks until it is cancelled."""
        while True:
            await self.ask()
            await asyncio.sleep(ASK_SECONDS)

    async def ask(self) -> None:
        """Asks once. Any answer but an error of the server, or of a proxy before it, is a sign of life."""
        try:
            async with asyncio.timeout(ASK_SECONDS):
                await self._http.call("GET", "/version")
        except TimeoutError:
            self.failure = f"no answer within {ASK_SECONDS:g} s"
        except (ClusterError, ConfigError, OSError) as error:
            if 400 <= status_of(error) < 500:
                self._answered()
            else:
                self.failure = str(error) or type(error).__name__
        else:
            self._answered()

    def _answered(self) -> None:
        self._last_answer, self.failure = self._clock(), ""


class Readiness:
    """See the module."""

    def __init__(
        self,
        contact: ApiServerContact,
        watches: Watches,
        *,
        source: CredentialSource,
        missing: Callable[[], list[str]],
        tasks: BackgroundTasks,
        clocks: Clocks,
    ) -> None:
        """`missing` names what the scheduler waits for before its first decision."""
        self._contact = contact
        self._watches = watches
        self._source = source
        self._missing = missing
        self._tasks = tasks
        self._clocks = clocks
        self.stopping = False
        """True if the process is shutting down."""

    def problems(self) -> Problems:
        """Why each check fails; empty if it does not."""
        missing = self._missing()
        return {
            PING: "",
            "shutdown": "the process is shutting down" if self.stopping else "",
            "informer-sync": f"not complete: {', '.join(missing)}" if missing else "",
            "api-server": self._lasting(self._contact.silent_seconds, "no answer", self._contact.failure),
            "credentials": self._lasting(self._refused_seconds, "refused by the API server"),
            "watches": self._blind(),
            "background-tasks": self._tasks.problem(),
        }

    def stale(self) -> tuple[float, str]:
        """How many seconds ago the cluster was last seen as it was then, and why; 0 and "" while it is seen, or for
        STALE_SECONDS.
        """
        blind = [(seconds, f"{name} cannot be listed") for name, seconds in self._watches.blind().items()]
        silent = (self._contact.silent_seconds, f"the API server does not answer: {self._contact.failure}")
        worst = max((silent, *blind))
        return worst if worst[0] >= STALE_SECONDS else (0.0, "")

    def register(self, metrics: Metrics) -> None:
        """Registers the metrics of how long each problem has lasted."""
        metrics.compute(WATCH_BLIND_SECONDS, self._blind_by_watch)
        metrics.compute(API_SERVER_SILENT_SECONDS, lambda: {(): self._contact.silent_seconds})
        metrics.compute(CREDENTIALS_REFUSED_SECONDS, lambda: {(): self._refused_seconds})

    @property
    def _refused_seconds(self) -> float:
        since = self._source.refused_since
        return 0.0 if since is None else self._clocks.steady() - since

    def _blind_by_watch(self) -> dict[tuple[str, ...], float]:
        blind = self._watches.blind()
        return {(name,): blind.get(name, 0.0) for name in self._watches.names}

    def _blind(self) -> str:
        blind = {name: seconds for name, seconds in self._watches.blind().items() if seconds >= BLIND_SECONDS}
        return "; ".join(self._lasting(seconds, f"{name} not listed") for name, seconds in blind.items())

    def _lasting(self, seconds: float, what: str, why: str = "") -> str:
        """The problem if it has lasted long enough to fail a check; otherwise ""."""
        if seconds < BLIND_SECONDS:
            return ""
        since = datetime.datetime.fromtimestamp(self._clocks.wall() - seconds, datetime.UTC)
        return f"{what} for {seconds:.0f} s, since {since:%Y-%m-%dT%H:%M:%SZ}{f': {why}' if why else ''}"
