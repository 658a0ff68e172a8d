"""Measures how long ordinary pods wait beside hostile objects: `make bench-beside`.

Each run is a process of its own: the whole engine on a real clock, with real child processes, and a cluster that
accepts everything at once. Ordinary pods arrive at a fixed rate, first alone, then beside a hostile load. Runs of a
load follow one another, so that both alternate. Latency is measured from the time at which a pod is due to its Binding,
so a loop that is held also delays the pods that arrive meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import multiprocessing
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from resource import RUSAGE_THREAD, getrusage
from textwrap import shorten
from typing import Any, Final

from benchmarks.core.decisions import plain
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import WORKLOAD_API
from podwright.engine.ports import Regarding
from podwright.engine.process.forks import Forks
from podwright.engine.process.memory import configure_memory, freeze_objects
from podwright.engine.process.solving import solve
from podwright.kube.policies.preparation import prepare
from support.engine.kit import FakeEvictor, Rig
from support.hostile.harness import FAILED
from support.hostile.loads import LOADS, Load
from support.hostile.subjects import node

LABELS: Final = {f"example.com/label-{i}": f"value-{i}" for i in range(20)}
ANNOTATIONS: Final = {"long": "ab" * 200}
FINISH_SECONDS: Final = 120.0
"""How long the ordinary pods may take after the last one was due."""
EVICTION_SECONDS: Final = 0.004
"""Between two of them."""
TICK_SECONDS: Final = 0.005
"""How often the loop is asked whether it is held."""
STACK: Final = 12
"""How many frames of a stack are written."""
PAUSE_FACTOR: Final = 1.0
"""As in the operator, expressions are compiled in a thread, with a pause of this factor after each."""


@dataclass(frozen=True)
class Settings:
    """All times are in seconds. `patience`: how long the hostile pods may take once the second period is over.
    `divisor`: each load has its size divided by this. `stacks`: the loop's stack is written once it is held for so
    long.
    """

    nodes: int = 2_000
    rate: float = 50.0
    warm_up: float = 1.0
    alone: float = 5.0
    beside: float = 10.0
    patience: float = 5.0
    divisor: int = 1
    stacks: float = 0.0


@dataclass(frozen=True)
class Period:
    """Latencies of the pods that were due in it, and the longest time for which the loop was held, all in ms."""

    latencies: list[float]
    held: float

    def quantile(self, share: float) -> float:
        return sorted(self.latencies)[math.ceil(share * len(self.latencies)) - 1]


@dataclass(frozen=True)
class Run:
    """`outcome`: what became of the hostile objects."""

    alone: Period
    beside: Period
    outcome: str


class _Intake:
    """Hands over what the watches bring, unless the engine holds it back."""

    def __init__(self) -> None:
        self._held: list[Callable[[], None]] | None = None

    def hold_back(self) -> None:
        if self._held is None:
            self._held = []

    def go_on(self) -> None:
        held, self._held = self._held or [], None
        for each in held:
            each()

    def bring(self, change: Callable[[], None]) -> None:
        if self._held is None:
            change()
        else:
            self._held.append(change)


class _Evictor(FakeEvictor):
    """Evicts one pod after another. A loop that is held delays evictions, too."""

    def __init__(self, deleted: Callable[[str], None]) -> None:
        super().__init__()
        self._deleted = deleted
        self._waiting: asyncio.Queue[tuple[Any, ...]] = asyncio.Queue()

    def evict(self, *eviction: Any, **_: bool) -> None:
        self._waiting.put_nowait(eviction)

    async def run(self) -> None:
        while True:
            victim, *rest = await self._waiting.get()
            await asyncio.sleep(EVICTION_SECONDS)
            super().evict(victim, *rest)
            self._deleted(victim.uid)


class _Live(Rig):
    """A rig on a real clock. Other processes and waits do not count as CPU time, as in the operator."""

    now = property(lambda _self: time.monotonic(), lambda _self, _value: None)
    stalled = property(lambda _self: time.monotonic() - time.thread_time(), lambda _self, _value: None)
    waits = property(lambda _self: getrusage(RUSAGE_THREAD).ru_nvcsw, lambda _self, _value: None)


class Beside:
    """An engine with nodes and the objects of a load, to run once."""

    def __init__(self, load: Load, settings: Settings) -> None:
        self._settings = settings
        self._every = load.every
        self._evictor = _Evictor(lambda uid: self._intake.bring(lambda: self._engine.assigned.drop(uid, None)))
        self._rig = _Live(children=Forks(), evictor=self._evictor, solve=solve if load.solves else None)
        self._engine = self._rig.engine
        self._intake = _Intake()
        self._rig.intake.hold_back = self._intake.hold_back
        self._rig.intake.go_on = self._intake.go_on
        self._rig.cluster.bind = self._bind
        self._record, self._rig.recorder.record = self._rig.recorder.record, self._record_event
        self._pods: dict[str, dict[str, Any]] = {}
        self._bound: dict[str, float] = {}
        """The time of each Binding, by the pod's name."""
        self._decided: dict[str, float] = {}
        """The time of each pod's first decision: its Binding, or that it is rejected."""
        self._news = asyncio.Event()
        """Set when something is decided."""
        self._held = 0.0
        """The longest time in this period for which the loop was held, in seconds."""
        self._turned = 0.0
        """When the loop was last seen to go on."""
        self._engine.cache.groups.serve(WORKLOAD_API)
        for index in range(settings.nodes):
            self._engine.nodes.put(node(index, annotations=ANNOTATIONS, labels=LABELS))
        self._objects = load.make(max(1, load.size // settings.divisor), settings.nodes)
        self._hostile = {raw["metadata"]["name"] for stream, raw in self._objects.hostile if stream == "Pod"}

    async def run(self) -> Run:
        """Measures alone and beside the load."""
        settings = self._settings
        for item in self._objects.before:
            await self._put(*item)
        configure_memory()
        freeze_objects()
        tasks = [
            asyncio.create_task(each) for each in (self._engine.run(), self._evictor.run(), self._watch_the_loop())
        ]
        try:
            await self._arrive("first", settings.warm_up)
            alone = await self._arrive("alone", settings.alone)
            loading = asyncio.create_task(self._load())
            beside = await self._arrive("beside", settings.beside)
            started = await loading
            with contextlib.suppress(TimeoutError):
                await self._wait(self._hostile, self._decided, settings.patience)
                if len(self._engine.cache.nominator):  # they wait for their victims
                    await self._wait(self._hostile, self._bound, settings.patience)
            return Run(alone, beside, self._outcome(started))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._engine.stop(0)

    async def _load(self) -> float:
        """Brings the hostile objects. Returns when it began."""
        started = time.monotonic()
        for item in self._objects.hostile:
            await self._put(*item)
            await asyncio.sleep(self._every)
        return started

    async def _put(self, stream: str, raw: dict[str, Any]) -> None:
        engine = self._engine
        if stream in ("SchedulerPolicy", "LocalSchedulerPolicy"):
            await prepare(raw, engine.policies.policy_set.signal_names, PAUSE_FACTOR)
            apply = engine.policies.apply if stream == "SchedulerPolicy" else engine.policies.apply_local
            apply(raw)
            engine.policies_changed()
        elif stream == "Pod":
            self._create(raw)
        else:
            self._rig.cluster.objects[stream, raw["metadata"]["name"]] = raw
            put = engine.assigned.put if stream == "placed" else engine.objects(stream).put
            self._intake.bring(lambda: put(raw))

    def _create(self, raw: dict[str, Any]) -> None:
        self._pods[raw["metadata"]["name"]] = raw
        self._intake.bring(lambda: self._engine.pending.put(raw))

    async def _bind(self, pod: PodInfo, node_name: str, _annotations: Mapping[str, str]) -> None:
        """The API server accepts the Binding. The watches bring it a little later."""
        self._bound[pod.name] = time.monotonic()
        self._decide(pod.name)
        raw = self._pods[pod.name]

        def confirm() -> None:
            self._rig.confirm(raw, node_name)

        asyncio.get_running_loop().call_soon(self._intake.bring, confirm)

    def _record_event(self, regarding: PodInfo | Regarding, kind: str, reason: str, *rest: str, **options: str) -> None:
        self._record(regarding, kind, reason, *rest, **options)
        if reason == FAILED:
            self._decide(regarding.name)

    def _decide(self, name: str) -> None:
        self._decided.setdefault(name, time.monotonic())
        self._news.set()

    async def _wait(self, names: Iterable[str], known: Mapping[str, float], seconds: float) -> None:
        """Until all names are known. Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            while not known.keys() >= set(names):
                self._news.clear()
                await self._news.wait()

    async def _arrive(self, name: str, seconds: float) -> Period:
        """Ordinary pods arrive for as long, and all of them are bound."""
        settings, due, started = self._settings, {}, time.monotonic()
        self._held = 0.0
        for number in range(int(seconds * settings.rate)):
            at = started + number / settings.rate
            await asyncio.sleep(at - time.monotonic())
            raw = plain(number, name)
            due[raw["metadata"]["name"]] = at
            self._create(raw)
        held = self._held
        await self._wait(due.keys(), self._bound, FINISH_SECONDS)
        return Period([1000 * (self._bound[pod] - at) for pod, at in due.items()], 1000 * max(held, self._held))

    async def _watch_the_loop(self) -> None:
        if self._settings.stacks:
            threading.Thread(target=self._write_stacks, args=[threading.get_ident()], daemon=True).start()
        while True:
            started = self._turned = time.monotonic()
            await asyncio.sleep(TICK_SECONDS)
            self._held = max(self._held, time.monotonic() - started - TICK_SECONDS)

    def _write_stacks(self, thread: int) -> None:
        """In a thread of its own: writes the stack of the loop's thread each time when that is found held."""
        while True:
            time.sleep(self._settings.stacks / 2)
            held = time.monotonic() - self._turned
            if held >= self._settings.stacks:
                print(f"the loop is held for {1000 * held:.0f} ms", file=sys.stderr)
                traceback.print_stack(sys._current_frames()[thread], limit=STACK)  # noqa: SLF001 -- it is documented

    def _outcome(self, started: float) -> str:
        """The hostile pods, counted by outcome, when the last one was decided, and the event of one that was
        rejected.
        """
        hostile, decided = self._hostile, self._hostile & self._decided.keys()
        notes = {pod: note for pod, reason, note in self._rig.recorder.events if reason == FAILED}
        bound = hostile & self._bound.keys()
        counts = {"bound": len(bound), "rejected": len(decided - bound), "undecided": len(hostile - decided)}
        counts["pods evicted"] = len(self._evictor.evicted)
        parts = [f"{count} {what}" for what, count in counts.items() if count]
        if decided:
            parts.append(f"after {max(self._bound.get(pod, self._decided[pod]) for pod in decided) - started:.1f} s")
        if rejected := decided - bound:
            parts.append(f'"{notes[min(rejected)]}"')
        return ", ".join(parts)


def measure(name: str, settings: Settings) -> Run:
    """One run beside the load of this name."""
    (load,) = (load for load in LOADS if load.name == name)
    return asyncio.run(Beside(load, settings).run())


def row(load: Load, runs: list[Run]) -> dict[str, Any]:
    """The runs of a load together, in ms."""
    found: dict[str, Any] = {"load": load.name}
    for name in ("alone", "beside"):
        periods: list[Period] = [getattr(run, name) for run in runs]
        together = Period([each for period in periods for each in period.latencies], max(p.held for p in periods))
        found[name] = {
            "pods": len(together.latencies),
            "p50": round(together.quantile(0.5), 2),
            "p99": round(together.quantile(0.99), 2),
            "max": round(max(together.latencies), 1),
            "loop_held": round(together.held, 1),
        }
    return {**found, "outcomes": [run.outcome for run in runs]}


def line(found: Mapping[str, Any]) -> str:
    """A row of the table."""
    cells = [
        " / ".join(f"{found[name][figure]:.1f}" for figure in ("p50", "p99", "max", "loop_held"))
        for name in ("alone", "beside")
    ]
    return f"| {found['load']} | {' | '.join(cells)} | {shorten(found['outcomes'][-1], 160)} |"


def main() -> None:
    given = Settings()
    parser = argparse.ArgumentParser("python -m benchmarks.core.beside", description=__doc__)
    parser.add_argument("--only", default="", help="only loads whose name contains this")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--nodes", type=int, default=given.nodes)
    parser.add_argument("--rate", type=float, default=given.rate, help="ordinary pods per second")
    parser.add_argument("--alone", type=float, default=given.alone, help="seconds without the load in each round")
    parser.add_argument("--beside", type=float, default=given.beside, help="seconds with it")
    parser.add_argument("--warm-up", type=float, default=given.warm_up, help="seconds before both, not measured")
    parser.add_argument(
        "--patience", type=float, default=given.patience, help="seconds to wait for hostile pods in the end"
    )
    parser.add_argument("--divisor", type=int, default=given.divisor, help="of the size of each load")
    parser.add_argument(
        "--stacks", type=float, default=0.0, help="print the loop's stack once it is held for so long, in s"
    )
    parser.add_argument("--json", type=Path)
    options = vars(parser.parse_args())
    only, rounds, file = (options.pop(name) for name in ("only", "rounds", "json"))
    settings, rows = Settings(**options), []
    print("| load | alone: p50 / p99 / max / longest hold, ms | beside it | what became of it |\n|---|---|---|---|")
    spawned = multiprocessing.get_context("spawn")
    for load in (load for load in LOADS if only in load.name):
        with ProcessPoolExecutor(1, mp_context=spawned, max_tasks_per_child=1) as pool:
            runs = [pool.submit(measure, load.name, settings).result() for _ in range(rounds)]
        rows.append(row(load, runs))
        print(line(rows[-1]), flush=True)
    if file:
        file.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
