"""Makes one measurement: one scheduler, one workload, one fresh cluster.

The rate of a backlog is measured from the first binding to the last, so that it excludes the start of the process,
which is a figure of its own. When pods are created live, it is measured from the first creation. CPU time is counted
over the same period, extended to the last event. Pods of a backlog wait from the start of the scheduler. How long live
pods waited comes from the API server's audit log.
"""

import asyncio
import contextlib
import os
import tempfile
import time
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass
from pathlib import Path

from benchmarks.audit_log import AuditLog, percentiles_ms
from benchmarks.binding_observer import BindingObserver, count_events, count_scheduled, settle
from benchmarks.http_client import Api, connect
from benchmarks.kubelets import Kubelets
from benchmarks.load_generator import LoadGenerator
from benchmarks.prepared_cluster import Prepared, start_claim_controller
from benchmarks.process_cost import Cost, cost, machine_busy_s
from benchmarks.quality import quality
from benchmarks.request_counts import read_request_counts
from benchmarks.schedulers import Series
from podwright.testing import Binaries, ControlPlane, Process

_STALL_TIMEOUT_S = 120.0
_READY_TIMEOUT_S = 60
_IDLE_CPU_S = 0.05
_EVENTS_PATIENCE_S = 1.5
_AUDIT_LOG_READS = 25


class RunFailed(RuntimeError):  # noqa: N818 -- it reads as a sentence where it is raised
    """A run did not complete. The message says how far it came and ends with the scheduler's log."""


@dataclass(frozen=True, slots=True)
class Settings:
    """`backlog`: the pods exist before the scheduler starts; `pods_per_second`: the rate of live creation (0: as fast
    as possible); `fsync`: etcd syncs.
    """

    backlog: bool = True
    pods_per_second: float = 0.0
    fsync: bool = False

    @property
    def mode(self) -> str:
        """The mode's name in results. It includes the rate, since runs at different rates form no pair."""
        if self.backlog:
            return "backlog"
        return f"live, {self.pods_per_second:g} pods/s" if self.pods_per_second else "live"


@dataclass(slots=True)
class _Costs:
    """Costs of the scheduler, the API server and etcd at one moment, and CPU seconds of the machine and of the
    benchmark.
    """

    at: float
    scheduler: Cost
    api_server: Cost
    etcd: Cost
    machine_s: float
    ours_s: float

    @classmethod
    def now(cls, scheduler: Process, cluster: ControlPlane) -> "_Costs":
        own, server, etcd = cost(scheduler.pid), cost(cluster.api_server.pid), cost(cluster.etcd.pid)
        ours = time.process_time() + own.cpu_s + server.cpu_s + etcd.cpu_s
        return cls(time.monotonic(), own, server, etcd, machine_busy_s(), ours)

    def others_share(self, earlier: "_Costs") -> float:
        """The share of the machine that other processes have used since `earlier`."""
        used = (self.machine_s - earlier.machine_s) - (self.ours_s - earlier.ours_s)
        return max(0.0, used) / max(self.at - earlier.at, 1e-9) / (os.cpu_count() or 1)


@dataclass(slots=True)
class _Marks:
    """Moments of a run, with the costs so far."""

    started: float = 0.0
    first: _Costs | None = None
    last: _Costs | None = None


def measure(series: Series, prepared: Prepared, settings: Settings, binaries: Binaries) -> dict[str, float]:
    """Run one scheduler on a fresh copy of the prepared cluster. Raises RunFailed and ProcessError."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="podwright-bench-audit-") as folder:
        audit = None if settings.backlog else AuditLog(Path(folder))
        flags = audit.flags if audit else ()
        with ControlPlane(
            binaries=binaries,
            etcd_data=prepared.data,
            fsync=settings.fsync,
            api_server_flags=flags,
            **prepared.workload.control_plane,
        ) as cluster:
            figures = asyncio.run(_Run(series, prepared, settings, cluster, audit).result())
    return {**figures, "run_s": time.monotonic() - started}


class _Run:
    def __init__(
        self, series: Series, prepared: Prepared, settings: Settings, cluster: ControlPlane, audit: AuditLog | None
    ) -> None:
        self._series = series
        self._prepared = prepared
        self._workload = prepared.workload
        self._settings = settings
        self._cluster = cluster
        self._audit = audit
        self._marks = _Marks()
        self._scheduler: Process | None = None
        self._running: list[asyncio.Task[None]] = []
        """The tasks that must not end before the measurement."""

    async def result(self) -> dict[str, float]:
        async with connect(self._cluster.kubeconfig) as api, self._kubelets(api) as kubelets:
            requests_before, sent_before = await read_request_counts(api), kubelets.sent
            on_first = self._note_first if self._settings.backlog else lambda: None
            measured = self._workload.measured
            observer = BindingObserver(api, measured.count, on_first, unschedulable=measured.unschedulable)
            load = LoadGenerator(api, self._workload, self._settings.pods_per_second)
            async with self._background(observer.watch(watching := asyncio.Event())) as watch:
                await watching.wait()
                await self._start()
                async with self._background(load.run_background()):
                    if not self._settings.backlog:
                        self._note_first()
                        async with self._background(load.create_measured(observer.bound)) as creation:
                            await self._until_bound(observer, watch, creation)
                    else:
                        await self._until_bound(observer, watch)
                await settle(
                    lambda: count_events(api), lambda: self._all_have_events(api), self._note_end, _EVENTS_PATIENCE_S
                )
            requests = (await read_request_counts(api)).minus(requests_before).of_schedulers()
            return {
                **self._figures(observer),
                **percentiles_ms(await self._waits(observer, load)),
                "events_missing": self._events - await count_scheduled(api),
                **self._requests(requests - (kubelets.sent - sent_before)),
                **await quality(api),
            }

    @contextlib.asynccontextmanager
    async def _kubelets(self, api: Api) -> AsyncIterator[Kubelets]:
        """The simulated kubelets, which run if the workload wants them."""
        kubelets, settled = Kubelets(api), asyncio.Event()
        if not self._workload.kubelets:
            yield kubelets
            return
        async with self._background(kubelets.run(settled)) as running:
            waiting = asyncio.create_task(settled.wait())
            await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                running.result()
            self._running.append(running)
            yield kubelets

    @property
    def _events(self) -> int:
        """How many measured pods get an event `Scheduled`."""
        return 0 if self._workload.measured.unschedulable else self._workload.measured.count

    async def _start(self) -> None:
        if self._series.prepare is not None:
            await asyncio.to_thread(self._series.prepare, self._cluster, self._prepared.installed)
        self._marks.started = time.monotonic()
        self._scheduler = await asyncio.to_thread(self._series.start, self._cluster, self._prepared.installed)
        if not self._settings.backlog:
            if self._workload.measured.needs_claims:
                await asyncio.to_thread(start_claim_controller, self._cluster)
            await self._until_ready()

    async def _until_ready(self) -> None:
        """Wait until the scheduler has listed the cluster, which shows in its CPU time: it stops growing."""
        before = 0.0
        for _ in range(_READY_TIMEOUT_S):
            await asyncio.sleep(1.0)
            self._check_alive()
            now = cost(self._process.pid).cpu_s
            if before and now - before < _IDLE_CPU_S:
                return
            before = now
        raise RunFailed(f"{self._series.name} is still busy after {_READY_TIMEOUT_S} s\n{self._process.log_tail()}")

    async def _all_have_events(self, api: Api) -> bool:
        return await count_scheduled(api) >= self._events

    async def _waits(self, observer: BindingObserver, load: LoadGenerator) -> dict[str, float]:
        """Seconds that each measured pod waited, by pod name."""
        if self._workload.measured.unschedulable:
            return {name: moment - load.created_at[name] for name, moment in observer.bound_at.items()}
        if self._audit is None:
            return {name: moment - self._marks.started for name, moment in observer.bound_at.items()}
        for _ in range(_AUDIT_LOG_READS):
            if len(waits := self._audit.waits()) >= len(observer.bound_at):
                return waits
            await asyncio.sleep(0.2)
        raise RunFailed(f"the audit log has only {len(waits)} of {len(observer.bound_at)} bound pods")

    def _note_first(self) -> None:
        self._marks.first = _Costs.now(self._process, self._cluster)

    def _note_end(self) -> None:
        self._marks.last = _Costs.now(self._process, self._cluster)

    @property
    def _process(self) -> Process:
        if self._scheduler is None:
            raise RunFailed("a pod was bound before the scheduler was started")
        return self._scheduler

    def _check_alive(self) -> None:
        if not self._process.alive:
            raise RunFailed(
                f"{self._series.name} ended with status {self._process.returncode}\n{self._process.log_tail()}"
            )

    async def _until_bound(self, observer: BindingObserver, *working: "asyncio.Task[None]") -> None:
        """Wait until all measured pods are bound. Raises what one of these tasks raised."""
        seen, changed = 0, time.monotonic()
        while not (observer.done.is_set() and all(task.done() for task in working)):
            await asyncio.wait({*working, *self._running}, timeout=0.2, return_when=asyncio.FIRST_EXCEPTION)
            for task in (*working, *self._running):
                if task.done():
                    task.result()
            self._check_alive()
            if len(observer.bound_at) != seen:
                seen, changed = len(observer.bound_at), time.monotonic()
            elif time.monotonic() - changed > _STALL_TIMEOUT_S:
                raise RunFailed(
                    f"{self._series.name} bound {seen} of {self._workload.measured.count} pods of {self._workload.title} "
                    f"and then none for {_STALL_TIMEOUT_S:.0f} s\n{self._process.log_tail()}"
                )

    def _figures(self, observer: BindingObserver) -> dict[str, float]:
        first, end = self._marks.first, self._marks.last
        assert first is not None
        assert end is not None
        times = sorted(observer.bound_at.values())
        pods = len(times)
        started = times[0] if self._settings.backlog else first.at
        counted = pods - 1 if self._settings.backlog else pods
        return {
            "pods": pods,
            "pods_per_s": counted / max(times[-1] - started, 1e-9),
            "pods_per_s_with_events": counted / max(end.at - started, 1e-9),
            "last_s": times[-1] - (self._marks.started if self._settings.backlog else first.at),
            "start_s": times[0] - self._marks.started if self._settings.backlog else 0.0,
            "cpu_ms_per_pod": 1000 * (end.scheduler.cpu_s - first.scheduler.cpu_s) / pods,
            "start_cpu_s": first.scheduler.cpu_s,
            "api_server_cpu_ms_per_pod": 1000 * (end.api_server.cpu_s - first.api_server.cpu_s) / pods,
            "etcd_cpu_ms_per_pod": 1000 * (end.etcd.cpu_s - first.etcd.cpu_s) / pods,
            "others_cpu_share": end.others_share(first),
            "peak_mb": end.scheduler.peak_mb,
        }

    def _requests(self, made: float) -> dict[str, float]:
        own = self._workload.measured.count if not self._settings.backlog else 0
        return {"requests_per_pod": (made - own) / self._workload.measured.count}

    @contextlib.asynccontextmanager
    async def _background(self, work: Coroutine[None, None, None]) -> AsyncIterator["asyncio.Task[None]"]:
        task = asyncio.create_task(work)
        try:
            yield task
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
