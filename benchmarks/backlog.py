"""The rate at which a scheduler places a backlog, from the first Binding to the last as a watch sees them, and the CPU
time that this takes.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.binding_observer import BindingObserver
from benchmarks.http_client import Api
from benchmarks.process_cost import cost, machine_busy_s
from podwright.testing import ControlPlane

TIMEOUT: Final = 300.0
_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class Backlog:
    """How a backlog was placed. `cpu_ms_per_pod`: by process. `machine_used`: the share of all cores, whoever used
    them; `others`: the part of it that neither these processes nor this one used.
    """

    pods_per_s: float
    cpu_ms_per_pod: Mapping[str, float]
    machine_used: float
    others: float


@dataclass(frozen=True, slots=True)
class _Spent:
    """CPU seconds so far: of processes by name, of the machine, and of this process."""

    at: float
    processes: Mapping[str, float]
    machine: float
    own: float

    @classmethod
    def now(cls, pids: Mapping[str, int]) -> _Spent:
        costs = {name: cost(pid).cpu_s for name, pid in pids.items()}
        return cls(time.monotonic(), costs, machine_busy_s(), time.process_time())


async def place_backlog(
    cluster: ControlPlane,
    api: Api,
    pods: Sequence[dict[str, Any]],
    start: Callable[[], Any],
    others: Mapping[str, int] | None = None,
) -> Backlog:
    """`pods`: their names begin with MEASURED_PREFIX; they wait when `start` starts the scheduler, whose process it
    returns.

    The CPU time of the scheduler, the API server and etcd is measured, and that of `others`, which are pids by name.
    """
    for first in range(0, len(pods), _AT_ONCE):
        await asyncio.to_thread(cluster.bulk.create, pods[first : first + _AT_ONCE])
    pids = {"API server": cluster.api_server.pid, "etcd": cluster.etcd.pid, **(others or {})}
    spent: list[_Spent] = []
    observer = BindingObserver(api, len(pods), lambda: spent.append(_Spent.now(pids)))
    started = asyncio.Event()
    watching = asyncio.create_task(observer.watch(started))
    await started.wait()
    process = await asyncio.to_thread(start)
    pids["scheduler"] = process.pid
    try:
        async with asyncio.timeout(TIMEOUT):
            await observer.done.wait()
        spent.append(_Spent.now(pids))
    finally:
        watching.cancel()
        await asyncio.to_thread(process.stop)
    times = sorted(observer.bound_at.values())
    return _backlog(len(times), times[-1] - times[0], *spent)


def _backlog(pods: int, seconds: float, first: _Spent, last: _Spent) -> Backlog:
    used = {name: last.processes[name] - before for name, before in first.processes.items()}
    cores = (os.cpu_count() or 1) * (last.at - first.at)
    machine = last.machine - first.machine
    others = machine - sum(used.values()) - (last.own - first.own)
    return Backlog(
        (pods - 1) / seconds,
        {name: spent / pods * 1e3 for name, spent in used.items()},
        machine / cores,
        max(0.0, others) / cores,
    )
