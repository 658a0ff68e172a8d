"""Measures how long pods of one queue take to get the room of as many of another, with the whole engine in one process.

A cluster that accepts everything at once stands for the API server, the kubelets and the controllers: a victim ends a
moment after its eviction, and another pod of its queue comes and waits. CPU time of one thread.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import time
from collections.abc import Mapping
from typing import Any, Final

from podwright.core.objects.pod import PodInfo
from podwright.core.queues.queues import QUEUE_LABEL, QueueRules, queues_of
from podwright.core.queues.tree import Quota
from podwright.engine.ports import Regarding
from support.engine.kit import FakeEvictor, Rig, on_node, ours
from support.objects.builders import make_node

GPU: Final = "nvidia.com/gpu"
GPUS: Final = 8
EVICTION_SECONDS: Final = 0.004
"""Between two of them: about what a busy API server takes for all requests about one."""
END_SECONDS: Final = 0.05
"""From an eviction to the end of the pod."""


class _Live(Rig):
    """A rig on a real clock."""

    now = property(lambda _self: time.monotonic(), lambda _self, _value: None)


class _Evictor(FakeEvictor):
    """The watch shows what becomes of a victim after the answer to the eviction."""

    def __init__(self, reclaim: Reclaim) -> None:
        super().__init__()
        self._reclaim = reclaim
        self._free_at = 0.0

    def evict(self, victim: PodInfo, preemptor: PodInfo | Regarding, node_name: str, done: Any, **_: bool) -> None:
        loop = asyncio.get_running_loop()
        self.evicted.append((victim.name, preemptor.name, node_name))
        self._free_at = max(self._free_at, loop.time()) + EVICTION_SECONDS
        loop.call_at(self._free_at, done, True)
        loop.call_at(self._free_at + END_SECONDS, self._reclaim.ends, victim)


class Reclaim:
    """See the module. `nodes` with 8 GPUs each, all of which are taken."""

    def __init__(self, nodes: int) -> None:
        self._rig = _Live(evictor=_Evictor(self))
        self._rig.cluster.bind = self._bind
        self._engine = self._rig.engine
        self._pods: dict[str, dict[str, Any]] = {}
        self._left = nodes * GPUS
        self._done = asyncio.Event()
        self.bound = 0
        queues = queues_of(self._engine.cache)
        queues.set(QueueRules("team", quotas={GPU: Quota(weight=1), "cpu": Quota(weight=1)}))
        queues.set(QueueRules("spare", quotas={GPU: Quota(weight=0)}))
        for index in range(nodes):
            self._engine.nodes.put(make_node(f"node-{index}", allocatable={"cpu": "32", GPU: str(GPUS), "pods": "110"}))
            for number in range(GPUS):
                self._engine.assigned.put(on_node(self._pod(f"spare-{index}-{number}", "spare"), f"node-{index}"))
        for number in range(self._left):
            self._engine.pending.put(self._pod(f"team-{number}", "team"))

    @property
    def evictions(self) -> int:
        return len(self._rig.evictor.evicted)

    async def run(self, seconds: float) -> None:
        """Until all are bound. Raises TimeoutError."""
        engine = asyncio.create_task(self._engine.run())
        try:
            async with asyncio.timeout(seconds):
                await self._done.wait()
        finally:
            engine.cancel()
            await asyncio.gather(engine, return_exceptions=True)
            await self._engine.stop(0)

    def ends(self, victim: PodInfo) -> None:
        """The victim is gone, and its controller creates another one."""
        self._engine.assigned.drop(victim.uid, None)
        self._engine.pending.put(self._pod(f"{victim.name}.", "spare"))

    def _pod(self, name: str, queue: str) -> dict[str, Any]:
        self._pods[name] = ours(name, requests={GPU: "1"}, labels={QUEUE_LABEL: queue})
        return self._pods[name]

    async def _bind(self, pod: PodInfo, node_name: str, _annotations: Mapping[str, str]) -> None:
        self.bound += 1
        asyncio.get_running_loop().call_soon(self._rig.confirm, self._pods[pod.name], node_name)
        if self.bound == self._left:
            self._done.set()


async def _measure(nodes: int, seconds: float) -> Reclaim:
    reclaim = Reclaim(nodes)
    try:
        await reclaim.run(seconds)
    except TimeoutError:
        print("not all are bound")
    return reclaim


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.core.reclaim", description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="*", default=[20, 100, 500])
    parser.add_argument("--seconds", type=float, default=120, help="the longest time for each")
    parser.add_argument("--profile", type=int, default=0, help="print so many functions that took the longest")
    given = parser.parse_args()
    for nodes in given.nodes:
        profiler = cProfile.Profile()
        if given.profile:
            profiler.enable()
        started, cpu_started = time.monotonic(), time.thread_time()
        reclaim = asyncio.run(_measure(nodes, given.seconds))
        seconds, cpu = time.monotonic() - started, time.thread_time() - cpu_started
        profiler.disable()
        print(
            f"{nodes} nodes: {reclaim.bound} of {nodes * GPUS} bound after {seconds:.1f} s, {reclaim.evictions} evictions, "
            f"{1000 * cpu / max(1, reclaim.bound):.2f} ms of CPU time for each",
            flush=True,
        )
        if given.profile:
            pstats.Stats(profiler).sort_stats("cumulative").print_stats(given.profile)


if __name__ == "__main__":
    main()
