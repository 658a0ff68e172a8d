"""SignalFeeds: the feeds of all signals, and the clock by which their numbers grow old.

feeds ─► feed (one source) ─► sources (HTTP) ─► entries (JSON) ─► answers (samples) ─► engine/intake/node_signals
    ─► core/state/signals
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import isfinite
from typing import Final

from podwright.api.configuration.signals import DefinedSignal, Signals
from podwright.core.objects.wording import first_of
from podwright.engine.intake.node_signals import NodeSignals
from podwright.engine.records.metrics import SIGNAL_AGE, SIGNAL_ERRORS, SIGNAL_NODES, Metrics
from podwright.kube.client.credentials.proxies import proxy_from_environment
from podwright.kube.client.http import Http
from podwright.kube.deadline import wait_at_most
from podwright.kube.node_signals.answers import metrics_reader, prometheus_reader
from podwright.kube.node_signals.feed import SampleIntake, SignalFeed
from podwright.kube.node_signals.sources import MetricsApiSource, PrometheusSource

Feeds = Mapping[str, SignalFeed]
"""Feeds by the names of their signals."""
TICK_SECONDS: Final = 1.0
FIRST_SECONDS: Final = 1.0
"""How long the first decisions wait for the first answers."""
SHOWN: Final = 5
"""How many problems a note has at most."""


class SignalFeeds:
    """See the module."""

    def __init__(
        self, signals: Signals, http: Http, *, intake: NodeSignals, metrics: Metrics, wall: Callable[[], float]
    ) -> None:
        """Raises ConfigError for a proxy that cannot be used."""
        self._signals = signals
        self._http = http
        self._intake = intake
        self._metrics = metrics
        self._wall = wall
        self.refusal = ""
        """Why the newest definitions are not in use; "" if they are."""
        self._group: asyncio.TaskGroup | None = None
        self._tasks: dict[SignalFeed, asyncio.Task[None]] = {}
        self._feeds = self.feeds_of(signals.values())
        metrics.compute(SIGNAL_AGE, self._ages)
        metrics.compute(SIGNAL_NODES, lambda: {(name,): intake.coverage(name).nodes for name in self._signals})
        self._count_errors()

    @property
    def feeds(self) -> Collection[SignalFeed]:
        """The feeds of all signals with a source to ask."""
        return self._feeds.values()

    @property
    def signals(self) -> Signals:
        """The definitions in use."""
        return self._signals

    def feeds_of(self, signals: Iterable[DefinedSignal]) -> Feeds:
        """New feeds of these signals, by name. Raises ConfigError for a proxy that cannot be used."""
        made = {
            each.definition.name: feed_of(each, self._http, intake=self._intake, metrics=self._metrics, wall=self._wall)
            for each in signals
        }
        return {name: feed for name, feed in made.items() if feed is not None}

    def define(self, signals: Signals, fresh: Feeds) -> Sequence[SignalFeed]:
        """Changes the definitions. `fresh`: the feeds of signals whose definitions have changed. Returns the feeds to
        close.
        """
        kept = {
            name: feed
            for name, feed in self._feeds.items()
            if name not in fresh and signals.get(name) == self._signals[name]
        }
        gone = [feed for name, feed in self._feeds.items() if name not in kept]
        for feed in gone:
            if (task := self._tasks.pop(feed, None)) is not None:
                task.cancel()
        self._signals, self._feeds = signals, kept | dict(fresh)
        self._count_errors()
        for feed in fresh.values():
            self._start(feed)
        return gone

    def _count_errors(self) -> None:
        for name in self._signals:
            self._metrics.counter(SIGNAL_ERRORS).of(name)

    async def run(self) -> None:
        """Asks all sources, and lets time pass, until it is cancelled."""
        try:
            async with asyncio.TaskGroup() as self._group:
                for feed in self.feeds:
                    self._start(feed)
                self._group.create_task(self._tick(), name="podwright signals")
        finally:
            self._group = None
            self._tasks.clear()

    def _start(self, feed: SignalFeed) -> None:
        """Starts the feed, if the other feeds have started."""
        if self._group is not None:
            self._tasks[feed] = self._group.create_task(feed.run(), name=f"podwright signal {feed.name}")

    async def first_answers(self) -> None:
        """Waits at most FIRST_SECONDS until each source has been asked once, so that the first decisions know its
        numbers.
        """
        waiting = [feed.asked.wait() for feed in self.feeds]
        await wait_at_most(FIRST_SECONDS, asyncio.gather(*waiting))

    async def close(self) -> None:
        for feed in self.feeds:
            await feed.close()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self._intake.tick()

    def problem(self) -> str:
        """Returns the problems of sources and annotations; "" without any."""
        found = [self.refusal] if self.refusal else []
        found += [f"signal {feed.name}: {feed.problem}" for feed in self.feeds if feed.problem]
        for name, defined in self._signals.items():
            coverage = self._intake.coverage(name)
            if defined.definition.time_annotation and not coverage.nodes and isfinite(coverage.age):
                found.append(f"signal {name}: none of its numbers is recent enough")
            wrong = coverage.malformed
            if wrong:
                key = defined.definition.annotation
                found.append(f"signal {name}: the annotation {key} of {wrong} nodes is no number within its bounds")
        return "; ".join(first_of(found, SHOWN))

    def _ages(self) -> Mapping[tuple[str, ...], float]:
        """Infinite without any sample. Signals whose samples do not grow old have no age."""
        return {
            (name,): self._intake.coverage(name).age
            for name, defined in self._signals.items()
            if isfinite(defined.definition.staleness)
        }


def feed_of(
    defined: DefinedSignal, http: Http, *, intake: SampleIntake, metrics: Metrics, wall: Callable[[], float]
) -> SignalFeed | None:
    """None for a signal without a source to ask."""
    if defined.prometheus is not None:
        proxy = proxy_from_environment(defined.prometheus.url, os.environ)
        source, read = PrometheusSource(defined.prometheus, proxy), prometheus_reader(defined.prometheus.node_label)
        return SignalFeed(defined, source, read=read, intake=intake, metrics=metrics, wall=wall)
    if defined.metrics_api is not None:
        read = metrics_reader(defined.definition.resource)
        return SignalFeed(defined, MetricsApiSource(http), read=read, intake=intake, metrics=metrics, wall=wall)
    return None
