"""The current numbers of signals, for snapshots: each source is asked once, as by a running operator."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from math import isfinite

from podwright.api.configuration.signals import Signals
from podwright.core.state.signals import SignalDefinition
from podwright.core.state.signals.signals import Sample, Taken
from podwright.engine.records.metrics import Metrics
from podwright.kube.client.http import Http
from podwright.kube.node_signals.feeds import feed_of

Numbers = Mapping[str, Mapping[str, float]]
"""By signal and node: in the unit of the source, which for metricsAPI is that of the resource."""


class _Numbers:
    """Keeps what a source says, instead of the cache. `nodes`: how many there are, which bounds the answers."""

    def __init__(self, nodes: int, definition: SignalDefinition) -> None:
        self.nodes = nodes
        self.found: dict[str, float] = {}
        self._definition = definition

    @property
    def now(self) -> float:
        return time.monotonic()

    async def take(self, name: str, samples: Mapping[str, Sample], asked: float) -> Taken:
        least, greatest = self._definition.least, self._definition.greatest
        right = {
            node: each for node, each in samples.items() if isfinite(each.value) and least <= each.value <= greatest
        }
        late = self.now - asked
        fresh = {
            node: each.value for node, each in right.items() if max(each.age, 0.0) + late <= self._definition.staleness
        }
        self.found.update(fresh)
        return Taken(new=len(fresh), wrong=len(samples) - len(right), old=len(right) - len(fresh))

    def tick(self) -> None:
        """Nothing grows old meanwhile."""


async def current_numbers(signals: Signals, http: Http, nodes: int) -> tuple[Numbers, Mapping[str, str]]:
    """The numbers of the signals that have a source to ask, and the problems of sources by name of the signal. `http`:
    with the caller's rights.

    Raises ConfigError for a proxy that cannot be used.
    """
    metrics = Metrics(time.monotonic)
    found: dict[str, _Numbers] = {}
    feeds = []
    for name, defined in signals.items():
        intake = _Numbers(nodes, defined.definition)
        feed = feed_of(defined, http, intake=intake, metrics=metrics, wall=time.time)
        if feed is not None:
            found[name] = intake
            feeds.append(feed)
    try:
        await asyncio.gather(*(feed.ask() for feed in feeds))
    finally:
        for feed in feeds:
            await feed.close()
    problems = {feed.name: feed.problem for feed in feeds if feed.problem}
    return {name: numbers.found for name, numbers in found.items()}, problems
