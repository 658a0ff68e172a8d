"""SignalFeed: asks one source at regular intervals, and passes its samples on. Whatever the source does, only the
numbers of its own signal are affected.

A question has a time limit, an answer a limit on its bytes and its entries. Answers are read in short steps, between
which the loop goes on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final, Protocol

from podwright.api.configuration.signals import DefinedSignal
from podwright.core.framework.interface import ClusterError
from podwright.core.state.signals.signals import Sample, Taken
from podwright.engine.records.metrics import SIGNAL_ERRORS, Metrics
from podwright.kube.client.errors import ConfigError
from podwright.kube.node_signals.answers import Read, SourceAnswer
from podwright.kube.node_signals.entries import Entries, MalformedError
from podwright.kube.node_signals.sources import SignalSource, SourceError

log = logging.getLogger(__name__)

SLICE_SECONDS: Final = 0.002
"""How long an answer is read before other tasks run."""
SHARE: Final = 0.1
"""Reading gets at most this share of the time."""
MOST_BYTES: Final = (1 << 20, 4 << 10)
"""The most bytes of an answer, and further ones for each node. A NodeMetrics object repeats the labels of its node."""
MOST_ENTRIES: Final = (1_000, 4)
"""How many entries an answer may have, and how many more for each node."""
TAKEN_AT_ONCE: Final = 500
"""How many samples are taken at once, which takes a millisecond or two."""
MAX_TEXT: Final = 300
"""Characters of an error."""


class SampleIntake(Protocol):
    """The receiver of samples: NodeSignals in a running operator."""

    @property
    def nodes(self) -> int:
        """How many nodes there are."""

    @property
    def now(self) -> float:
        """The time by which samples are dated."""

    async def take(self, name: str, samples: Mapping[str, Sample], asked: float) -> Taken:
        """Takes the samples of a source that was asked at this time, by name of the node."""

    def tick(self) -> None:
        """Called after all samples of an answer were taken."""


class SignalFeed:
    """See the module. One signal and its source."""

    def __init__(
        self,
        defined: DefinedSignal,
        source: SignalSource,
        *,
        read: Read,
        intake: SampleIntake,
        metrics: Metrics,
        wall: Callable[[], float],
    ) -> None:
        """`read` reads an entry; `wall`: seconds since the epoch."""
        self.name = defined.definition.name
        self._defined = defined
        self._source = source
        self._read = read
        self._intake = intake
        self._metrics = metrics
        self._wall = wall
        self.problem = ""
        """The problem with the last answer; "" without one."""
        self.asked = asyncio.Event()
        """Set when the source has been asked once."""

    async def run(self) -> None:
        """Asks until it is cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            ends = clock() + self._defined.interval
            await self.ask()
            await asyncio.sleep(max(ends - clock(), self._defined.interval / 10))

    async def ask(self) -> None:
        """Asks once. Errors are counted, and logged when they begin and end."""
        try:
            asked = self._intake.now
            async with asyncio.timeout(self._defined.timeout):
                answer = await self._answer()
            problem = await self._pass_on(answer, asked)
        except TimeoutError:
            problem = f"no answer within {self._defined.timeout:g} s"
        except (SourceError, MalformedError, ClusterError, ConfigError, OSError) as error:
            problem = str(error) or type(error).__name__
        except Exception as error:  # one source must not stop the others
            log.exception("signal %s", self.name)
            problem = type(error).__name__
        self._ended(_printable(problem))

    async def close(self) -> None:
        await self._source.close()

    async def _answer(self) -> SourceAnswer:
        """Raises what sources raise, MalformedError, and SourceError for an answer that is too long."""
        nodes = self._intake.nodes
        bytes_left = MOST_BYTES[0] + MOST_BYTES[1] * nodes
        most = MOST_ENTRIES[0] + MOST_ENTRIES[1] * nodes
        clock = asyncio.get_running_loop().time
        found, entries, now = SourceAnswer(), Entries(self._source.path), self._wall()
        async with self._source.answer() as pieces:
            slice_ends = clock() + SLICE_SECONDS
            async for piece in pieces:
                bytes_left -= len(piece)
                if bytes_left < 0:
                    raise SourceError("the answer is too long")
                for entry in entries.feed(piece):
                    found.add(self._read(entry, now))
                if found.entries > most:
                    raise SourceError(f"the answer has more than {most} entries")
                if clock() >= slice_ends:
                    await asyncio.sleep(SLICE_SECONDS / SHARE)
                    slice_ends = clock() + SLICE_SECONDS
        entries.end()
        return found

    async def _pass_on(self, answer: SourceAnswer, asked: float) -> str:
        """Passes on the samples of an answer. Returns what is wrong with it; "" if nothing is."""
        taken = Taken()
        samples = iter(answer.samples.items())
        while part := dict(islice(samples, TAKEN_AT_ONCE)):
            taken += await self._intake.take(self.name, part, asked)
            await asyncio.sleep(0)
        self._intake.tick()
        return _shortcomings(answer, taken)

    def _ended(self, problem: str) -> None:
        if problem:
            self._metrics.count(SIGNAL_ERRORS, self.name)
        if problem and not self.problem:
            log.warning("signal %s: %s", self.name, problem)
        elif self.problem and not problem:
            log.info("signal %s: its source answers again", self.name)
        self.problem = problem
        self.asked.set()


def _shortcomings(answer: SourceAnswer, taken: Taken) -> str:
    found = []
    if not answer.entries:
        found.append("the answer has no entries")
    if answer.malformed:
        found.append(f"{answer.malformed} entries have no node, no number or no time")
    if answer.twice:
        found.append(f"{len(answer.twice)} nodes have several entries, such as {min(answer.twice):.63}")
    if taken.wrong:
        found.append(f"the numbers of {taken.wrong} nodes are not finite, or out of bounds")
    if answer.samples and taken.unknown == len(answer.samples):
        found.append(f"none of its nodes exists, such as {next(iter(answer.samples)):.63}")
    if taken.old and taken.old + taken.wrong + taken.unknown == len(answer.samples):
        found.append("none of its numbers is recent enough")
    return "; ".join(found)


def _printable(text: str) -> str:
    """In one line of bounded length: sources and their answers are not trusted."""
    found = "".join(char if char.isprintable() else " " for char in text[:MAX_TEXT])
    return found if len(text) <= MAX_TEXT else f"{found[: MAX_TEXT - 3]}..."
