"""What the fault tests do over and over: fill a cluster while things go wrong, wait for calm, and check that nothing was lost.

`Arena.verify` is the heart: the same demands after every fault, told from the API server's own data.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from podwright.testing import ControlPlane, node, pod, wait_until
from support.control_plane import operator_process as kit
from support.faults.ledger import Ledger, waits_without_cause
from support.faults.proxy import FaultProxy

OURS = "podwright"
WARM_UP = 100
"""Pods that an operator binds before its memory is measured for the first time: it has done all it does at least once then."""
MEMORY_BACK = 1.2
"""After a fault no more memory than so many times that of before."""
KEPT_MIB = 4
"""And so much more of what the system gave: of pages that are not quite empty. What is in use gets no such allowance."""


def memory(operator: kit.Operator, what: str = "RssAnon") -> float:
    """MiB of its own that the operator holds; with VmHWM the most, with what it shares."""
    status = Path(f"/proc/{operator.process.pid}/status").read_text()
    found = re.search(rf"^{what}:\s+(\d+) kB", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1024


@dataclass(frozen=True)
class Held:
    """What an operator holds, in MiB: what the system gave it, and what is in use of that."""

    given: float
    used: float


def held_by(operator: kit.Operator) -> Held:
    return Held(memory(operator), operator.metric("podwright_memory_in_use_bytes") / 2**20)


@dataclass
class Arena:
    """A cluster in which things go wrong. `told` takes the figures of the test."""

    cluster: ControlPlane
    namespace: str
    ledger: Ledger
    told: Callable[..., None]
    memories: list[str] = field(default_factory=list)
    operators: list[kit.Operator] = field(default_factory=list)

    # Making things happen

    def nodes(self, count: int, first: int = 0, **options: Any) -> list[dict[str, Any]]:
        bodies = [
            node(f"n{i}", **{"cpu": "4", "memory": "64Gi", "pods": "30", **options})
            for i in range(first, first + count)
        ]
        self.cluster.bulk.create(bodies)
        return bodies

    def pod(self, name: str, **options: Any) -> dict[str, Any]:
        return pod(name, self.namespace, **{"scheduler": OURS, "cpu": "200m", "memory": "100Mi", **options})

    def pods(self, count: int, prefix: str = "p", **options: Any) -> None:
        self.cluster.bulk.create([self.pod(f"{prefix}{i}", **options) for i in range(count)])

    @contextmanager
    def filling(self, count: int, rate: float, prefix: str = "p", **options: Any) -> Iterator[threading.Thread]:
        """Pods are created at that rate (a second), or slower, in the background; all are there at the end of the block.

        A pod that the API server could not take at once is created later.
        """
        thread = threading.Thread(target=self._fill, args=(count, rate, prefix, options), name="filling")
        thread.start()
        try:
            yield thread
        finally:
            thread.join()

    def _fill(self, count: int, rate: float, prefix: str, options: Mapping[str, Any]) -> None:
        batch = max(1, round(rate / 5))
        for first in range(0, count, batch):
            due = time.monotonic() + batch / rate
            for i in range(first, min(count, first + batch)):
                body = self.pod(f"{prefix}{i}", **options)
                self.insist(lambda body=body: self.cluster.client.create(body))
            time.sleep(max(0.0, due - time.monotonic()))
        self.cluster.client.close()

    def insist(self, work: Callable[[], Any], seconds: float = 60) -> Any:
        """Does it as the API server can; that it is done already is fine."""
        ends = time.monotonic() + seconds
        while True:
            try:
                return work()
            except Exception as error:
                status = getattr(error, "status", 500)
                if status in (404, 409):
                    return None
                if (status < 500 and status != 429) or time.monotonic() > ends:
                    raise
                time.sleep(0.1)

    def start(self, proxy: FaultProxy | None = None, *arguments: str, **options: Any) -> kit.Operator:
        """An operator, behind a proxy if one is given. It is killed with the arena at the latest."""
        if proxy is not None:
            direct = self.cluster.service_account_kubeconfig(*kit.ACCOUNT)
            options["kubeconfig"] = proxy.kubeconfig(direct)
        operator = kit.start(self.cluster, *arguments, **options)
        self.operators.append(operator)
        self.ledger.slack.pids.append(operator.process.pid)
        return operator

    @contextmanager
    def running(
        self, proxy: FaultProxy | None = None, *arguments: str, warm: bool = True, pages: bool = True, **options: Any
    ) -> Iterator[kit.Operator]:
        """An operator that lives through the block: at its end it must be there, hold no more memory, and end in peace.

        `warm`: it binds some pods before, which are gone at the start of the block; else nothing is said of its memory.
        Without `pages` only what is in use must be back, not what the system gave for it.
        """
        operator = self.start(proxy, *arguments, **options)
        try:
            before = self._warm(operator) if warm else Held(0, 0)
            yield operator
            assert operator.process.alive, operator.process.log_tail(40)
            if warm:
                self.wait_memory(operator, before, pages=pages)
        finally:
            operator.process.stop(30)
        assert operator.process.returncode == 0, operator.process.log_tail(40)

    def _warm(self, operator: kit.Operator) -> Held:
        """What it holds after some work."""
        self.pods(WARM_UP, "warm", cpu="1m", memory="1Mi")
        self.wait_bound(WARM_UP)
        return self.emptied(operator)

    def emptied(self, operator: kit.Operator) -> Held:
        """Deletes all pods; what it holds once it knows of none."""
        self.delete_pods()
        self.wait_emptied(operator)
        self.ledger.forget_gone()
        return held_by(operator)

    def wait_emptied(self, operator: kit.Operator) -> None:
        """Waits until it knows of no pods any more."""

        def left() -> float:
            kept = [operator.metric("scheduler_cache_size", type=of) for of in ("pods", "assumed_pods")]
            return sum(kept) + operator.metric("scheduler_pending_pods")

        wait_until(lambda: left() == 0, 180, "the operator knows of no pods")

    def delete_pods(self) -> None:
        """Deletes all pods of the namespace, and waits until the ledger knows."""
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        mine = {raw["metadata"]["uid"] for raw in self.cluster.client.items(path)}
        ends = time.monotonic() + 900
        while self.cluster.client.get(path, limit="1")["items"] and time.monotonic() < ends:
            with suppress(OSError):  # many pods take longer than a request may
                self.cluster.client.request("DELETE", path, query={"gracePeriodSeconds": "0"})
        wait_until(lambda: mine <= self.ledger.gone.keys(), 60, "the ledger knows that the pods are gone")

    def wait_memory(self, operator: kit.Operator, before: Held, timeout: float = 150, *, pages: bool = True) -> None:
        """Waits until it holds no more than before, give or take."""
        began, most_given = time.monotonic(), MEMORY_BACK * before.given + KEPT_MIB if pages else math.inf
        after = held_by(operator)
        while after.given > most_given or after.used > MEMORY_BACK * before.used:
            assert time.monotonic() < began + timeout, f"{after} are held, {before} were before"
            time.sleep(0.5)
            after = held_by(operator)
        took = time.monotonic() - began
        most = memory(operator, "VmHWM") - memory(operator, "RssFile")
        self.memories.append(
            f"{before.given:.0f} -> {after.given:.0f} after {took:.0f} s (at most {most:.0f}), "
            f"in use {before.used:.0f} -> {after.used:.0f}"
        )

    def tell(self, **figures: Any) -> None:
        """Adds a line to the figures that are printed at the end."""
        memories = {"memory_in_MiB": "; ".join(self.memories)} if self.memories else {}
        self.told(**figures, **memories, machine_late_by_seconds=f"{self.ledger.slack.worst:.1f}")

    # Waiting

    def bound(self, scheduler: str = OURS) -> int:
        """Pods that this scheduler bound, as the ledger has it."""
        return sum(1 for b in list(self.ledger.bindings.values()) if b.scheduler == scheduler)

    def wait_bound(self, count: int, timeout: float = 60, scheduler: str = OURS) -> None:
        wait_until(lambda: self.bound(scheduler) >= count, timeout, f"{count} pods of {scheduler} are bound")

    def wait_calm(self, timeout: float = 60) -> None:
        """Every pod is bound or was told that it fits nowhere, and none waits without cause."""
        ends = time.monotonic() + timeout
        while found := self.unsettled():
            if time.monotonic() > ends:
                raise TimeoutError(f"not calm within {timeout:g} s: {found[:5]}")
            time.sleep(0.3)

    def unsettled(self, schedulers: Sequence[str] = (OURS,)) -> list[str]:
        """Pods that wait and should not, or were not told why."""
        found = waits_without_cause(self.cluster)
        for raw in kit.pods(self.cluster):
            if raw["spec"].get("nodeName") or raw["spec"]["schedulerName"] not in schedulers:
                continue
            if kit.condition(raw).get("reason") != "Unschedulable":
                found.append(f"{raw['metadata']['name']} was not told why it waits: {kit.condition(raw)}")
        return found

    # What must hold

    def verify(self, *, disturbed: bool = False, alone: bool = True) -> None:
        """Nothing lost, nothing bound twice, nothing over-committed.

        `disturbed`: a rival, or a shrinking node, may have made nodes too full; then we must have placed nothing more there once
        that could be known. `alone`: all bindings of our scheduler name are by one instance.
        """
        ledger = self.ledger
        waiting, careless = self.unsettled(), ledger.careless({OURS}, alone=alone)
        assert not waiting, waiting
        assert not ledger.moved, ledger.moved
        assert not careless, careless
        crowded = {} if disturbed else kit.over_committed(self.cluster)
        assert not crowded, crowded
        placed = {raw["metadata"]["uid"]: raw["spec"].get("nodeName", "") for raw in kit.pods(self.cluster)}
        noted = {uid: b.node_name for uid, b in ledger.bindings.items() if uid in placed}
        assert noted == {uid: name for uid, name in placed.items() if name}
        told = Counter(event["regarding"]["uid"] for event in kit.events(self.cluster, self.namespace, "Scheduled"))
        assert [uid for uid, count in told.items() if count > 1] == []
