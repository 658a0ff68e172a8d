"""Measures `podwright admission-check` on a real API server: `make bench-kueue`.

A stand-in for Kueue's controller gives quota by sums, to the Workloads of several queues, on a cluster whose free room
is in fragments. It does with the answers what Kueue does, and the pods that it starts run for some seconds. Meanwhile
the check and the scheduler are killed once each. Then many Workloads that never fit come back at the rate that their
pauses allow. Its own count of free CPU, which gives room back late, says whether a no was right.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from benchmarks.http_client import Api, connect
from benchmarks.process_cost import cost, machine_busy_s
from podwright.kube.options.options import Options
from podwright.kueue.options import CheckOptions
from podwright.testing import ControlPlane, node, pod
from support.control_plane import operator_process as kit
from support.kueue import stand_in
from support.kueue.stand_in import API, CHECK, RESERVATIONS, condition, pod_set
from support.waiting import until

Json = dict[str, Any]

NAMESPACE: Final = "research"
NODE_CPU: Final = 8
SEEN_SECONDS: Final = 5.0
"""So long after a no, all places that were taken before it have been seen."""
LATE_SECONDS: Final = 20.0
"""So long after its pods and its place have gone, their room counts as free: nobody may wait for it longer than for the
longest retry.
"""
KILLED_AT: Final = (0.3, 0.6)
"""When the check, then the scheduler, is killed: the share of Workloads that are done."""
DELETED: Final = 50
"""One Workload in so many is deleted while its place is held."""
PATIENCE: Final = 300.0
RATE: Final = 20
SHARE: Final = 0.05
"""The targets: answers a second, and the share of a core for those that never fit."""


@dataclass(frozen=True)
class Settings:
    """`seconds`: for how long those that never fit come back."""

    nodes: int = 500
    queues: int = 20
    workloads: int = 2_000
    never: int = 10_000
    seconds: float = 60.0
    seed: int = 1
    flags: Sequence[str] = ("--first-retry=2s", "--longest-retry=20s")

    @property
    def pause(self) -> float:
        """Seconds between two attempts at a Workload that never fits."""
        return CheckOptions(common=Options()).pause(32, self.never)


@dataclass(eq=False)
class Job:
    """A Workload. `sets`: count and CPUs of each pod set."""

    name: str
    queue: int
    sets: Sequence[tuple[int, int]]
    raw: Json = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    retry_at: float = 0.0
    bound: set[str] = field(default_factory=set)
    places: dict[str, Counter[str]] = field(default_factory=dict)
    """By Reservation: CPUs that are held for it, or that its pods use, by node."""
    held: set[str] = field(default_factory=set)
    """The Reservations that exist."""
    running: bool = False

    def see(self, raw: Json) -> None:
        """A version of the object, if it is newer: responses and watch events have no common order."""
        if not self.raw or int(raw["metadata"]["resourceVersion"]) > int(self.raw["metadata"]["resourceVersion"]):
            self.raw = raw
            self.changed.set()

    @property
    def cpu(self) -> int:
        return sum(count * cpu for count, cpu in self.sets)

    @property
    def pods(self) -> int:
        return sum(count for count, _ in self.sets)

    @property
    def check(self) -> Json:
        states = self.raw.get("status", {}).get("admissionChecks", ())
        return next((each for each in states if each["name"] == CHECK), {})


@dataclass
class Result:
    """`waits`: seconds from quota to the answer, of each answer."""

    waits: list[float] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    """Noes although there was room."""
    admitted: int = 0
    whole: int = 0
    deleted: int = 0
    seconds: float = 0.0


class Kueue:
    """The stand-in: see the module. `free`: CPUs by node."""

    def __init__(self, api: Api, free: Counter[str], settings: Settings) -> None:
        self._api = api
        self._free = free
        self._settings = settings
        self._random = random.Random(settings.seed)
        self._quota = sum(free.values()) // settings.queues
        self._used: Counter[int] = Counter()
        self._waiting: list[list[Job]] = [[] for _ in range(settings.queues)]
        self._jobs: dict[str, Job] = {}
        self._done = 0
        self.result = Result()

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        watches = {
            f"{API}/workloads": self._workload,
            f"{RESERVATIONS}": self._reservation,
            f"/api/v1/namespaces/{NAMESPACE}/pods": self._pod,
        }
        tasks = [asyncio.create_task(self._watch(path, take)) for path, take in watches.items()]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self, path: str, take: Callable[[str, Json], None]) -> None:
        version = (await self._api.get(f"{path}?limit=1"))["metadata"]["resourceVersion"]
        async for event in self._api.watch(f"{path}?timeoutSeconds=3000", version):
            take(event["type"], event["object"])

    def _workload(self, kind: str, raw: Json) -> None:
        if (job := self._jobs.get(raw["metadata"]["name"])) is not None and kind != "DELETED":
            job.see(raw)

    def _reservation(self, kind: str, raw: Json) -> None:
        name = raw["metadata"]["name"]
        job = self._jobs.get(raw["metadata"]["annotations"]["podwright.dev/workload"].partition("/")[2])
        if job is None:
            return
        if kind == "DELETED":
            job.held.discard(name)
            self._give_back(job)
        else:
            job.held.add(name)
            slots = raw["spec"]["slots"]
            cpus = [Counter({each["node"]: int(each["requests"]["cpu"]) * each["count"]}) for each in slots]
            job.places[name] = sum(cpus, Counter())

    def _give_back(self, job: Job) -> None:
        """The room of a job is free, late, once its pods and its Reservations have gone."""
        asyncio.get_running_loop().call_later(LATE_SECONDS, self._is_free, job)

    def _is_free(self, job: Job) -> None:
        for name in () if job.running else job.places.keys() - job.held:
            del job.places[name]

    def _pod(self, kind: str, raw: Json) -> None:
        job = self._jobs.get(raw["metadata"].get("annotations", {}).get("kueue.x-k8s.io/workload", ""))
        if job is not None and kind != "DELETED" and raw["spec"].get("nodeName"):
            job.bound.add(raw["metadata"]["name"])
            job.changed.set()

    @property
    def holding(self) -> bool:
        """True if there is any place."""
        return any(job.held for job in self._jobs.values())

    # The queues

    async def run(self, kills: Mapping[float, Callable[[], None]]) -> Result:
        """All Workloads of the queues, to their end. `kills`: what happens when a share of them is done."""
        started, settings = time.monotonic(), self._settings
        jobs = [self._new(f"train-{index}", index % settings.queues) for index in range(settings.workloads)]
        await self._create(jobs)
        for job in jobs:
            self._waiting[job.queue].append(job)
        due = sorted(kills.items())
        async with asyncio.TaskGroup() as lives, asyncio.timeout(PATIENCE):
            while self._done < len(jobs):
                for job in self._next():
                    lives.create_task(self._live(job))
                if due and self._done >= due[0][0] * len(jobs):
                    await asyncio.to_thread(due.pop(0)[1])
                await asyncio.sleep(0.05)
        self.result.seconds = time.monotonic() - started
        return self.result

    def _new(self, name: str, queue: int) -> Job:
        sets = [(self._random.randint(1, 3), self._random.randint(1, 4)) for _ in range(self._random.randint(1, 2))]
        return Job(name, queue, sets)

    def _next(self) -> Iterator[Job]:
        """The Workloads that get quota now: in each queue in order, except those that wait for their retry."""
        now = time.monotonic()
        for queue, waiting in enumerate(self._waiting):
            for job in [*waiting]:
                if job.retry_at > now:
                    continue
                if self._used[queue] + job.cpu > self._quota:
                    break
                waiting.remove(job)
                self._used[queue] += job.cpu
                yield job

    async def _live(self, job: Job) -> None:
        before = self._fits(job)
        answer = await self._ask(job)
        if answer["state"] == "Retry":
            await self._evict(job)
            job.retry_at = time.monotonic() + answer["requeueAfterSeconds"]
            await asyncio.sleep(SEEN_SECONDS)
            if before and self._fits(job):
                self.result.wrong.append(f"{job.name} {job.sets}: {answer['message']}")
            self._waiting[job.queue].insert(0, job)
        else:
            if self._random.randrange(DELETED):
                await self._admit(job)
            else:
                self.result.deleted += 1
            await self._api.delete(f"{API}/namespaces/{NAMESPACE}/workloads/{job.name}")
            self._done += 1
            self._give_back(job)
        self._used[job.queue] -= job.cpu

    async def _ask(self, job: Job, retries: int = 0) -> Json:
        started = time.monotonic()
        await self._write(job, lambda raw: _with_quota(raw, retries))
        await self._until(job, lambda: job.check["state"] != "Pending")
        self.result.waits.append(time.monotonic() - started)
        self.result.answers[job.check["state"]] += 1
        return job.check

    async def _admit(self, job: Job) -> None:
        """Kueue starts the job; its pods run for some seconds."""
        labels = {each["name"]: each["labels"] for each in job.check["podSetUpdates"]}
        await self._write(job, lambda raw: raw["status"]["conditions"].append(condition("Admitted", True)))
        self.result.admitted += 1
        job.running = True
        names = []
        for index, (count, cpu) in enumerate(job.sets):
            for number in range(count):
                made = pod(f"{job.name}-{index}-{number}", NAMESPACE, scheduler="podwright", cpu=str(cpu), memory=None)
                made["metadata"] |= {
                    "labels": labels[f"set-{index}"],
                    "annotations": {"kueue.x-k8s.io/workload": job.name},
                }
                names.append(made["metadata"]["name"])
                assert await self._api.post(f"/api/v1/namespaces/{NAMESPACE}/pods", made) == 201
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE / 2):
                await self._until(job, lambda: len(job.bound) == job.pods)
        self.result.whole += len(job.bound) == job.pods
        await asyncio.sleep(self._random.uniform(1, 3))
        for name in names:
            await self._api.delete(f"/api/v1/namespaces/{NAMESPACE}/pods/{name}")
        job.running = False

    async def _evict(self, job: Job) -> None:
        await self._write(job, _without_quota)

    def _fits(self, job: Job) -> bool:
        """True if there is room for one pod set, by sums; several are left out, because sums do not tell."""
        if len(job.sets) > 1:
            return False
        ((count, cpu),) = job.sets
        others = (each for each in self._jobs.values() if each is not job)
        taken: Counter[str] = sum((place for each in others for place in each.places.values()), Counter())
        return sum((free - taken[name]) // cpu for name, free in self._free.items() if free > taken[name]) >= count

    # Those that never fit

    async def refuse(self) -> Sequence[Job]:
        """Creates Workloads that no node can take."""
        jobs = [Job(f"never-{index}", 0, ((4, 8 * NODE_CPU),)) for index in range(self._settings.never)]
        await self._create(jobs)
        return jobs

    async def come_back(self, jobs: Sequence[Job]) -> Result:
        """They come back, as often as their pauses allow."""
        started, settings = time.monotonic(), self._settings
        async with asyncio.TaskGroup() as lives:
            for index, job in enumerate(jobs[: int(settings.seconds * len(jobs) / settings.pause)]):
                await asyncio.sleep(started + index * settings.pause / len(jobs) - time.monotonic())
                lives.create_task(self._refused(job))
        self.result.seconds = time.monotonic() - started
        return self.result

    async def _refused(self, job: Job) -> None:
        await self._ask(job, retries=10)
        await self._evict(job)

    # The API server

    async def _create(self, jobs: Sequence[Job]) -> None:
        path = f"{API}/namespaces/{NAMESPACE}/workloads"
        remaining = iter(jobs)

        async def create() -> None:
            for job in remaining:
                self._jobs[job.name] = job
                sets = [
                    pod_set(f"set-{index}", count, cpu=str(cpu), request=None)
                    for index, (count, cpu) in enumerate(job.sets)
                ]
                body = {
                    "apiVersion": "kueue.x-k8s.io/v1beta2",
                    "kind": "Workload",
                    "metadata": {"name": job.name},
                    "spec": {"queueName": f"team-{job.queue}", "podSets": sets},
                }
                job.see(await self._api.send("POST", path, body))

        await asyncio.gather(*(create() for _ in range(16)))

    async def _write(self, job: Job, change: Callable[[Json], Any]) -> None:
        path = f"{API}/namespaces/{NAMESPACE}/workloads/{job.name}/status"
        while True:
            raw = {**job.raw, "status": {**job.raw.get("status", {})}}
            change(raw)
            try:
                job.see(await self._api.send("PUT", path, raw))
            except RuntimeError as error:
                if "HTTP 409" not in str(error):
                    raise
                await asyncio.sleep(0.05)
            else:
                return

    async def _until(self, job: Job, done: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not done():
                job.changed.clear()
                await job.changed.wait()


def _with_quota(raw: Json, retries: int) -> None:
    sets = [{"name": each["name"], "count": each["count"], "flavors": {}} for each in raw["spec"]["podSets"]]
    known = raw["status"].get("admissionChecks")
    fresh = {"name": CHECK, "state": "Pending", "message": "", "retryCount": retries}
    raw["status"] |= {
        "admission": {"clusterQueue": raw["spec"]["queueName"], "podSetAssignments": sets},
        "conditions": [condition("QuotaReserved", True), condition("Evicted", False)],
        "admissionChecks": known or [{**fresh, "lastTransitionTime": condition("x", True)["lastTransitionTime"]}],
    }


def _without_quota(raw: Json) -> None:
    (state,) = raw["status"]["admissionChecks"]
    kept = {key: state[key] for key in ("name", "requeueAfterSeconds", "lastTransitionTime")}
    again = {"state": "Pending", "message": "Reset to Pending", "retryCount": state.get("retryCount", 0) + 1}
    raw["status"].pop("admission")
    raw["status"] |= {
        "conditions": [condition("QuotaReserved", False), condition("Evicted", True, "AdmissionCheck")],
        "admissionChecks": [{**kept, **again}],
    }


# The cluster


def fragmented(cluster: ControlPlane, settings: Settings) -> Counter[str]:
    """Nodes on which other pods leave little room. Returns the free CPUs by node."""
    rng, free = random.Random(settings.seed), Counter[str]()
    cluster.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    names = [f"n{index}" for index in range(settings.nodes)]
    cluster.bulk.create([node(name, cpu=str(NODE_CPU)) for name in names])
    residents = []
    for name in names:
        used = rng.randint(2, NODE_CPU - 1)
        free[name] = NODE_CPU - used
        residents.append(pod(f"resident-{name}", cpu=str(used), memory=None, nodeName=name))
    cluster.bulk.create(residents)
    return free


@dataclass
class Processes:
    """The check and the scheduler. Each may be killed and started again."""

    cluster: ControlPlane
    flags: Sequence[str]
    check: kit.Operator = field(init=False)
    scheduler: kit.Operator = field(init=False)
    kills: int = 0
    spent: list[float] = field(default_factory=lambda: [0.0, 0.0])
    """CPU seconds of those that were killed."""

    def __post_init__(self) -> None:
        self.start_scheduler()
        self.start_check()

    def start_check(self) -> None:
        self.check = stand_in.start(self.cluster, *self.flags, name=f"admission-check-{self.kills}")

    def start_scheduler(self) -> None:
        self.scheduler = kit.start(self.cluster, "--pod-intake=watch", name=f"operator-{self.kills}")

    @property
    def cpu(self) -> Sequence[float]:
        """CPU seconds of the check and of the scheduler."""
        running = (self.check, self.scheduler)
        return [spent + cost(each.process.pid).cpu_s for spent, each in zip(self.spent, running, strict=True)]

    def kill_check(self) -> None:
        self.spent[0] = self.cpu[0]
        self.check.process.kill()
        self.kills += 1
        self.start_check()
        self.cluster.client.close()  # that of this thread

    def kill_scheduler(self) -> None:
        self.spent[1] = self.cpu[1]
        self.scheduler.process.kill()
        self.kills += 1
        self.start_scheduler()
        self.cluster.client.close()  # likewise

    def stop(self) -> None:
        for each in (self.check, self.scheduler):
            each.process.stop(30)


@dataclass
class Share:
    """The CPU that the processes take over a time, as shares of a core."""

    processes: Processes
    begun: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self._before, self._busy = self.processes.cpu, machine_busy_s()

    def shares(self) -> Sequence[float]:
        """Of the check, of the scheduler, and of the whole machine."""
        seconds = time.monotonic() - self.begun
        spent = [after - before for after, before in zip(self.processes.cpu, self._before, strict=True)]
        return [each / seconds for each in (*spent, machine_busy_s() - self._busy)]


async def measure_queues(cluster: ControlPlane, settings: Settings) -> tuple[Result, Sequence[float]]:
    """The Workloads of the queues, with both processes killed once, and the shares of a core."""
    free = fragmented(cluster, settings)
    processes = Processes(cluster, settings.flags)
    try:
        async with connect(cluster.kubeconfig) as api:
            kueue = Kueue(api, free, settings)
            async with kueue.watching():
                kills = dict(zip(KILLED_AT, (processes.kill_check, processes.kill_scheduler), strict=True))
                share = Share(processes)
                result = await kueue.run(kills)
                shares = share.shares()
                await until(lambda: not kueue.holding)
                return result, shares
    finally:
        processes.stop()


async def measure_never(cluster: ControlPlane, settings: Settings) -> tuple[Result, Sequence[float]]:
    """Workloads that never fit, and the shares of a core that they take."""
    free = fragmented(cluster, settings)
    processes = Processes(cluster, ())
    try:
        async with connect(cluster.kubeconfig) as api:
            kueue = Kueue(api, free, settings)
            async with kueue.watching():
                jobs = await kueue.refuse()
                await asyncio.sleep(5)
                share = Share(processes)
                return await kueue.come_back(jobs), share.shares()
    finally:
        processes.stop()


@contextmanager
def installed() -> Iterator[ControlPlane]:
    """A control plane with Podwright and Kueue's CRDs."""
    with ControlPlane() as cluster:
        kit.install(cluster)
        kit.wait_listed(cluster, "reservations")
        stand_in.install(cluster)
        yield cluster


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    defaults = Settings()
    for name in ("nodes", "queues", "workloads", "never", "seconds", "seed"):
        parser.add_argument(f"--{name}", type=type(getattr(defaults, name)), default=getattr(defaults, name))
    parser.add_argument("--part", choices=("queues", "never"), help="only this part")
    options = vars(parser.parse_args())
    part = options.pop("part")
    settings = replace(defaults, **options)
    missed = []
    if part != "never":
        with installed() as cluster:
            result, shares = asyncio.run(measure_queues(cluster, settings))
        missed += show(result, settings, shares)
    if part != "queues":
        with installed() as cluster:
            result, (check, scheduler, machine) = asyncio.run(measure_never(cluster, settings))
        print(
            f"{settings.never:,} Workloads that never fit, {sum(result.answers.values())} answers in {result.seconds:.0f} s: "
            f"the check takes {check:.1%} of a core, the scheduler {scheduler:.1%}, the whole machine {machine:.1%}"
        )
        missed += [
            f"{name} takes {share:.1%} of a core"
            for name, share in (("the check", check), ("the scheduler", scheduler))
            if share >= SHARE
        ]
    sys.exit("; ".join(missed) or 0)


def show(result: Result, settings: Settings, shares: Sequence[float]) -> Sequence[str]:
    """Prints the figures. Returns what falls short."""
    answers = sum(result.answers.values())
    waits = sorted(result.waits)
    print(
        f"{settings.workloads:,} Workloads of {settings.queues} queues on {settings.nodes} nodes: {dict(result.answers)} in "
        f"{result.seconds:.0f} s, {answers / result.seconds:.1f} answers/s; from quota to answer "
        f"{waits[len(waits) // 2]:.2f} s, 99 % {waits[len(waits) * 99 // 100]:.2f} s, longest {waits[-1]:.2f} s; "
        f"{result.whole} of {result.admitted} admitted ones bound whole, {result.deleted} deleted while held, "
        f"{len(result.wrong)} noes although there was room; the check takes {shares[0]:.0%} of a core, which is "
        f"{1000 * shares[0] * result.seconds / answers:.1f} ms per answer, the machine {shares[2]:.0%}"
    )
    short = []
    if answers / result.seconds < RATE:
        short.append(f"fewer than {RATE} answers/s")
    if result.whole < result.admitted:
        short.append("not all admitted Workloads were bound whole")
    return [*short, *result.wrong]


if __name__ == "__main__":
    main()
