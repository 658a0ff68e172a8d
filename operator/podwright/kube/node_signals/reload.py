"""Loads the definitions of signals again when the file of --signals changes: either all of them take effect, or none.

    read the file ─► two readings agree ─► parse it in a thread ─► can all policies go on?
        ─► swap, between two decisions
    anything fails ─► the definitions before go on; log, metric and /readyz say why

A signal whose definition has changed begins without samples, as at the start. The others keep theirs, and their feeds
go on.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from podwright.api.configuration.documents import MAX_BYTES
from podwright.api.configuration.signals import Signals, SignalsFile, load_signals
from podwright.core.framework.profile import ProfileError
from podwright.core.objects.wording import first_of
from podwright.engine.engine import Engine
from podwright.engine.process.file_reload import FileReload
from podwright.engine.process.side_thread import NoAnswerError, SideThread
from podwright.engine.records.metrics import SIGNAL_RELOADS, Metrics
from podwright.kube.bounded_files import read_at_most
from podwright.kube.client.errors import ConfigError
from podwright.kube.node_signals.feeds import SignalFeeds

log = logging.getLogger(__name__)

POLL_SECONDS: Final = 1.0
"""How often the file is read."""
READ_SECONDS: Final = 10.0
"""How long it may take to read or to parse it: a network file system may hang."""
_SHOWN: Final = 5


class SignalReload(FileReload):
    """See the module."""

    poll_seconds = POLL_SECONDS
    what = "the definitions in the file of --signals are"

    def __init__(self, file: SignalsFile, *, engine: Engine, feeds: SignalFeeds, metrics: Metrics) -> None:
        """`file`: as it was read at the start."""
        super().__init__()
        self._path = Path(file.path)
        self.running = file.content
        self._engine = engine
        self._feeds = feeds
        self._metrics = metrics
        self._thread = SideThread("podwright file of --signals")

    async def read(self) -> bytes | None:
        try:
            return await self._thread.call(lambda: read_at_most(self._path, MAX_BYTES), READ_SECONDS)
        except OSError as error:
            self._report(error.strerror or str(error), None)
        except NoAnswerError as error:
            self._report(str(error), None)
        return None

    async def take(self, found: bytes) -> None:
        try:
            signals = await self._thread.call(lambda: load_signals(found), READ_SECONDS)
            await self._engine.node_signals.may_change()
            before = self._feeds.signals
            afresh = [name for name, defined in signals.items() if defined != before.get(name)]
            feeds = self._feeds.feeds_of([signals[name] for name in afresh])
        except ProfileError as error:
            self._report(str(error).removeprefix(": "), found)
            return
        except (ConfigError, NoAnswerError) as error:
            self._report(str(error), found)
            return
        definitions = {name: defined.definition for name, defined in signals.items()}
        if lacking := self._engine.policies.lacking(definitions):
            self._report("; ".join(first_of(lacking, _SHOWN)), found, retry=True)
            return
        gone = [name for name in before if name not in signals]
        self._engine.cache.define_signals([*definitions.values()], afresh)
        self._engine.policies.policy_set.define_signals(signals)
        self._engine.policies_changed()
        closed = self._feeds.define(signals, feeds)
        self.running = found
        self._metrics.count(SIGNAL_RELOADS, "success")
        log.info("the file of --signals was taken: %s", _changes(before, afresh, gone))
        self.succeed()
        await self._engine.node_signals.read_nodes(afresh)
        for feed in closed:
            await feed.close()

    def succeed(self) -> None:
        super().succeed()
        self._feeds.refusal = ""

    def _report(self, problem: str, content: bytes | None, *, retry: bool = False) -> None:
        """Reports that the file cannot be used. `content`: None if it cannot be read. `retry`: try it again later,
        because the policies may change.
        """
        text = (
            f"the file of --signals was not taken, and the signals that were defined before go on: {self._path}: "
            f"{problem}"
        )
        self._feeds.refusal = text
        if self.fail(problem if content is None else content, retry=retry):
            self._metrics.count(SIGNAL_RELOADS, "error")
            log.error("%s", text)


def _changes(before: Signals, afresh: Sequence[str], gone: Sequence[str]) -> str:
    new = [name for name in afresh if name not in before]
    changed = [name for name in afresh if name in before]
    parts = (("new", new), ("changed", changed), ("gone", gone))
    return "; ".join(f"{what}: {', '.join(names)}" for what, names in parts if names) or "its signals are as before"
