"""The data of the page: read from the scheduler a few times a second, once for all viewers, and only while there are
any.

The scheduler is asked in steps of about a millisecond, between which it decides. A viewer who does not read fast enough
is dropped.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson

from podwright.core.queues.queues import queues_of
from podwright.core.state.cache import Cache
from podwright.engine.process.interruption import cancel
from podwright.engine.records.recent_decisions import RecentDecision
from podwright.engine.view.nodes import node_changes
from podwright.engine.view.policies import policy_rows
from podwright.engine.view.queues import QueueTreeView, queue_tree
from podwright.engine.view.rebalancing import PlanRows, plan_rows
from podwright.engine.view.waiting import PendingPod, Waiting, waiting_pods
from podwright.kube.serve.answers.steps import ANSWER_SECONDS, Asker
from podwright.kube.serve.page.nodes import PageNodes
from podwright.kube.serve.page.shown import Shown
from podwright.kube.serve.page.sight import Sight

log = logging.getLogger(__name__)

MOST_VIEWERS: Final = 16
TICK_SECONDS: Final = 0.4
"""The pause between two readings of nodes and decisions."""
QUEUE_SECONDS: Final = 1.0
"""The pause between two readings of the queue, at least."""
PODS_A_SECOND: Final = 10_000
"""How many queued pods are read each second, on average."""
KEEP_SECONDS: Final = 10.0
"""How long data is kept after the last viewer has left, so that a viewer who comes back soon costs little."""
COMPLETE_SECONDS: Final = 10.0
"""The pause between two complete readings of the nodes that further resources ask for."""
MOST_MESSAGES: Final = 32
"""How many messages wait for a viewer until it is dropped."""
DECISIONS_AT_ONCE: Final = 25
DECISIONS_AT_FIRST: Final = 50
LONGEST: Final = 300
"""Characters of a message about a pod."""


class Viewer:
    """A viewer of the page. `messages`: to be sent, None at the end."""

    def __init__(self, sight: Sight) -> None:
        self.sight = sight
        self.messages: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.has_nodes = False
        self.decisions_seen = -1
        self.policies_seen: Sequence[Any] | None = None
        self.queues_seen: QueueTreeView | None = None
        self.plans_seen = PlanRows((), 0)
        self.stale_seen = self.samples_seen = 0
        self.dropped = False

    def send(self, message: bytes) -> None:
        """Queues the message, or drops the viewer if too many wait."""
        if self.dropped:
            return
        if self.messages.qsize() >= MOST_MESSAGES:
            self.dropped = True
            self.messages.put_nowait(None)
        else:
            self.messages.put_nowait(message)


class Feed:
    """See the module. Runs in the server's thread; `shown` and its result are used in the cache's thread. `shown`: None
    before the start.
    """

    def __init__(
        self, shown: Callable[[], Shown | None], asker: Asker, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ask_shown = shown
        self._asker = asker
        self._clock = clock
        self._viewers: set[Viewer] = set()
        self._running: asyncio.Task[None] | None = None
        self._forget: asyncio.TimerHandle | None = None
        self._reset()

    def _reset(self) -> None:
        self._nodes = PageNodes()
        self._cache: Cache | None = None
        self._completed = self._queue_due = float("-inf")
        self._answered = self._clock()

    @property
    def full(self) -> bool:
        """True if there are as many viewers as there may be."""
        return self.viewers >= MOST_VIEWERS

    @property
    def viewers(self) -> int:
        """How many there are."""
        return len(self._viewers)

    @property
    def running(self) -> bool:
        """True if the feed reads from the scheduler."""
        return self._running is not None

    def add(self, viewer: Viewer) -> None:
        """Adds a viewer, who first gets everything, then the changes."""
        self._viewers.add(viewer)
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        if self._forget is not None:
            self._forget.cancel()
            self._forget = None

    def remove(self, viewer: Viewer) -> None:
        self._viewers.discard(viewer)

    async def _run(self) -> None:
        try:
            while self._viewers:
                try:
                    await self._tick()
                    self._answered = self._clock()
                except TimeoutError:
                    log.debug("the scheduler's loop does not answer the page")
                    self._tell_stale(self._clock() - self._answered, "the scheduler does not answer")
                await asyncio.sleep(TICK_SECONDS)
        except Exception:
            log.exception("the page cannot be kept current")
            self._reset()
            for viewer in self._viewers:
                viewer.messages.put_nowait(None)
        finally:
            self._running = None
            self._forget = asyncio.get_running_loop().call_later(KEEP_SECONDS, self._reset)

    async def close(self) -> None:
        """Stops reading from the scheduler."""
        await cancel([self._running])
        if self._forget is not None:
            self._forget.cancel()

    async def _tick(self) -> None:
        shown = await self._asker.call(self._ask_shown, ANSWER_SECONDS)
        if shown is None:
            return
        if shown.cache is not self._cache:
            self._reset()
            self._cache = shown.cache
        await self._send_nodes(shown)
        await self._send_decisions(shown)
        if self._clock() >= self._queue_due:
            await self._send_waiting(shown)
            await self._send_policies(shown)
            await self._send_queues(shown)
            await self._send_plans(shown)
            await self._send_history(shown)
        self._tell_stale(*await self._asker.call(shown.stale, ANSWER_SECONDS))

    def _tell_stale(self, seconds: float, why: str) -> None:
        """Tells viewers once a second how old what they see is, and when it is current again."""
        age = round(seconds)
        for viewer in self._viewers:
            if viewer.stale_seen != age:
                viewer.stale_seen = age
                viewer.send(event("stale", {"seconds": age, "why": why}))

    async def _send_nodes(self, shown: Shown) -> None:
        nodes, now = self._nodes, self._clock()
        again = nodes.further_resources and now >= self._completed + COMPLETE_SECONDS
        position = None if again else nodes.position
        changes = await self._asker.compute(lambda: node_changes(shown.cache, position), ANSWER_SECONDS)
        known = nodes.everything() if changes.complete and nodes.position is not None else None
        change = nodes.take(changes)
        if changes.complete:
            self._completed = now
            if known is None or nodes.everything() != known:
                for viewer in self._viewers:
                    viewer.has_nodes = False
        if change is not None:
            message = event("change", change)
            for viewer in self._viewers:
                if viewer.has_nodes:
                    viewer.send(message)
        new = [viewer for viewer in self._viewers if not viewer.has_nodes]
        if new:
            message = event("nodes", {**nodes.everything(), "simulated": shown.simulated})
            for viewer in new:
                viewer.has_nodes = True
                viewer.send(message)

    async def _send_decisions(self, shown: Shown) -> None:
        recent = shown.decisions
        if recent is None:
            return
        viewers = [*self._viewers]  # a viewer who joins meanwhile needs more than this reading gives
        seen = min((viewer.decisions_seen for viewer in viewers), default=0)

        def read() -> tuple[int, Sequence[tuple[str, RecentDecision]]]:
            return recent.count, recent.since(seen)

        count, decisions = await self._asker.call(read, ANSWER_SECONDS)
        for viewer in viewers:
            first = viewer.decisions_seen < 0
            if viewer.decisions_seen == count:
                continue
            new = count if first else count - viewer.decisions_seen
            viewer.decisions_seen = count
            mine = [*decisions[-min(new, len(decisions)) :]] if decisions else []
            seen_by = [each for each in mine if viewer.sight.shows(each[0].partition("/")[0])]
            listed = seen_by[-(DECISIONS_AT_FIRST if first else DECISIONS_AT_ONCE) :]
            unlisted = 0 if first else new - len(listed)
            viewer.send(event("decisions", {"list": [*map(_decision, listed)], "unlisted": unlisted}))

    async def _send_waiting(self, shown: Shown) -> None:
        viewers = [*self._viewers]
        sights = {viewer.sight.namespace for viewer in viewers if viewer.sight.namespace is not None}
        started = await self._asker.call(shown.clock, ANSWER_SECONDS)
        found: Waiting = await self._asker.compute(lambda: waiting_pods(shown.pods(), started, sights), ANSWER_SECONDS)
        total = sum(map(sum, found.counts.values()))
        self._queue_due = self._clock() + max(QUEUE_SECONDS, total / PODS_A_SECOND)
        for viewer in viewers:
            pods = () if viewer.sight.namespace is None else found.oldest[viewer.sight.namespace]
            listed = [_pending(pod, started) for pod in pods]
            viewer.send(
                event("queue", {"counts": found.counts, "pods": listed, "seesPods": viewer.sight.namespace is not None})
            )

    async def _send_history(self, shown: Shown) -> None:
        history = shown.history
        if history is None:
            return
        viewers = [*self._viewers]
        seen = min((viewer.samples_seen for viewer in viewers), default=0)
        count, samples = await self._asker.call(lambda: (history.count, history.since(seen)), ANSWER_SECONDS)
        for viewer in viewers:
            new = min(count - viewer.samples_seen, len(samples))
            viewer.samples_seen = count
            if new:
                viewer.send(event("history", {"samples": [*map(tuple, samples[-new:])]}))

    async def _send_policies(self, shown: Shown) -> None:
        found = await self._asker.compute(lambda: policy_rows(shown.policies), ANSWER_SECONDS)
        for viewer in self._viewers:
            shows = viewer.sight.shows
            rows = [tuple(row) for row in found.rows if not row.namespace or shows(row.namespace)]
            if viewer.policies_seen != rows:
                viewer.policies_seen = rows
                viewer.send(event("policies", {"list": rows, "unlisted": found.count - len(rows)}))

    async def _send_queues(self, shown: Shown) -> None:
        found = await self._asker.compute(lambda: queue_tree(queues_of(shown.cache)), ANSWER_SECONDS)
        message = b""
        for viewer in self._viewers:
            if viewer.queues_seen != found and (found.lines or viewer.queues_seen is not None):
                viewer.queues_seen = found
                message = message or event(
                    "queues",
                    {
                        "resources": found.resources,
                        "list": [*map(tuple, found.lines)],
                        "unlisted": found.count - len(found.lines),
                    },
                )
                viewer.send(message)

    async def _send_plans(self, shown: Shown) -> None:
        rebalancing = shown.rebalancing
        if rebalancing is None:
            return
        found = await self._asker.compute(lambda: plan_rows(rebalancing), ANSWER_SECONDS)
        for viewer in self._viewers:
            if viewer.plans_seen != found:
                viewer.plans_seen = found
                rows = [*map(tuple, found.rows)]
                viewer.send(event("plans", {"list": rows, "unlisted": found.count - len(rows)}))


def event(name: str, data: Any) -> bytes:
    """A server-sent event. JSON has no line breaks."""
    return b"event: " + name.encode() + b"\ndata: " + orjson.dumps(data) + b"\n\n"


def _pending(pod: PendingPod, now: float) -> Sequence[Any]:
    age = round(max(0.0, now - pod.since))
    return pod.namespace, pod.name, pod.place, age, pod.attempts, pod.policy, pod.why


def _decision(each: tuple[str, RecentDecision]) -> Sequence[Any]:
    key, decision = each
    namespace, _, name = key.partition("/")
    return (
        round(decision.at, 2),
        decision.outcome,
        namespace,
        name,
        decision.node or decision.nominated,
        decision.policy,
        decision.message[:LONGEST],
    )
