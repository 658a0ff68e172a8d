"""The steps that fault tests share: create nodes and pods, run operators, wait until the cluster settles, and verify
the outcome.

To add a fault test, write a test in `tests/faults` that takes the `arena` fixture, injects the fault, and ends with
`Arena.verify` and `Arena.report`. `verify` checks the same invariants after every fault, on the API server's own data.
A new kind of network fault goes to `proxy`.
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

from podwright.testing import ControlPlane, node, pod, processes, wait_until
from support.control_plane import operator_process as kit
from support.faults.ledger import Ledger, pods_that_would_fit
from support.faults.proxy import FaultProxy

OURS = "podwright"
WARM_UP = 100
"""Pods that an operator binds before the first measurement of its memory, so that all its code has run once."""
MAX_GROWTH = 1.2
"""The allowed ratio of memory after a fault to memory before it."""
SPARE_MIB = 4
"""Further resident memory that is allowed after a fault, for partly used pages. Memory in use gets no such allowance.
"""


def memory(operator: kit.Operator, field: str = "RssAnon") -> float:
    """A field of /proc/PID/status of the operator, in MiB. RssAnon is its private memory, VmHWM the peak including
    shared memory.
    """
    status = Path(f"/proc/{operator.process.pid}/status").read_text()
    found = re.search(rf"^{field}:\s+(\d+) kB", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1024


@dataclass(frozen=True)
class MemoryUse:
    """An operator's memory in MiB: private resident memory, and the part of it that is in use."""

    resident: float
    in_use: float


def memory_use(operator: kit.Operator) -> MemoryUse:
    in_use = operator.metric("podwright_memory_in_use_bytes") / 2**20
    assert not math.isnan(in_use), f"the operator says nothing of its memory\n{operator.process.log_tail(40)}"
    return MemoryUse(memory(operator), in_use)


@dataclass
class Arena:
    """A cluster for one fault test. `add_figures` takes the figures that the test prints."""

    cluster: ControlPlane
    namespace: str
    ledger: Ledger
    add_figures: Callable[..., None]
    memories: list[str] = field(default_factory=list)

    # Actions

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
    def creating_pods(self, count: int, rate: float, prefix: str = "p", **options: Any) -> Iterator[threading.Thread]:
        """Create pods in the background at up to `rate` per second. All are created when the block ends.

        A creation that the API server cannot process is retried.
        """
        thread = threading.Thread(target=self._create_pods, args=(count, rate, prefix, options), name="creating pods")
        thread.start()
        try:
            yield thread
        finally:
            thread.join()

    def _create_pods(self, count: int, rate: float, prefix: str, options: Mapping[str, Any]) -> None:
        batch = max(1, round(rate / 5))
        for first in range(0, count, batch):
            due = time.monotonic() + batch / rate
            for i in range(first, min(count, first + batch)):
                body = self.pod(f"{prefix}{i}", **options)
                self.retry(lambda body=body: self.cluster.client.create(body))
            time.sleep(max(0.0, due - time.monotonic()))
        self.cluster.client.close()

    def retry(self, work: Callable[[], Any], seconds: float = 60) -> Any:
        """Retry `work` until the API server processes it. HTTP 404 and 409 mean that it is done already."""
        deadline = time.monotonic() + seconds * processes.patience
        while True:
            try:
                return work()
            except Exception as error:
                status = getattr(error, "status", 500)
                if status in (404, 409):
                    return None
                if (status < 500 and status != 429) or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def start(self, proxy: FaultProxy | None = None, *arguments: str, **options: Any) -> kit.Operator:
        """Start an operator, behind a proxy if one is given. It ends no later than the control plane."""
        if proxy is not None:
            direct = self.cluster.service_account_kubeconfig(*kit.ACCOUNT)
            options["kubeconfig"] = proxy.kubeconfig(direct)
        operator = kit.start(self.cluster, *arguments, **options)
        self.ledger.machine_delay.add_operator(operator.process.pid)
        return operator

    @contextmanager
    def running(
        self,
        proxy: FaultProxy | None = None,
        *arguments: str,
        warm_up: bool = True,
        check_resident: bool = True,
        **options: Any,
    ) -> Iterator[kit.Operator]:
        """An operator that must survive the block, release the memory that it used, and exit with status 0.

        With `warm_up` it first binds some pods, which are deleted before the block. Without, its memory is not checked.
        Without `check_resident`, only its memory in use must return to the former level, not its resident memory.
        """
        operator = self.start(proxy, *arguments, **options)
        try:
            before = self._warm_up(operator) if warm_up else MemoryUse(0, 0)
            yield operator
            assert operator.process.alive, operator.process.log_tail(40)
            if warm_up:
                self.wait_memory(operator, before, check_resident=check_resident)
        finally:
            operator.process.stop(30)
        assert operator.process.returncode == 0, operator.process.log_tail(40)

    def _warm_up(self, operator: kit.Operator) -> MemoryUse:
        """Let the operator bind and drop some pods. Returns its memory use afterwards."""
        self.pods(WARM_UP, "warm", cpu="1m", memory="1Mi")
        self.wait_bound(WARM_UP)
        return self.empty(operator)

    def empty(self, operator: kit.Operator) -> MemoryUse:
        """Delete all pods and wait until the operator has dropped them. Returns its memory use then."""
        self.delete_pods()
        self.wait_empty(operator)
        self.ledger.forget_deleted()
        return memory_use(operator)

    def wait_empty(self, operator: kit.Operator) -> None:
        """Wait until the operator has neither cached nor pending pods."""

        def remaining() -> float:
            cached = [operator.metric("scheduler_cache_size", type=of) for of in ("pods", "assumed_pods")]
            return sum(cached) + operator.metric("scheduler_pending_pods")

        wait_until(lambda: remaining() == 0, 180, "the operator has dropped all pods")

    def delete_pods(self) -> None:
        """Delete all pods of the namespace, and wait until the ledger has recorded it."""
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        uids = {raw["metadata"]["uid"] for raw in self.cluster.client.items(path)}
        deadline = time.monotonic() + 900
        while self.cluster.client.get(path, limit="1")["items"] and time.monotonic() < deadline:
            with suppress(OSError):  # deleting many pods may exceed the request timeout
                self.cluster.client.request("DELETE", path, query={"gracePeriodSeconds": "0"})
        wait_until(lambda: uids <= self.ledger.deleted_at.keys(), 60, "the ledger has recorded the deletions")

    def wait_memory(
        self, operator: kit.Operator, before: MemoryUse, timeout: float = 150, *, check_resident: bool = True
    ) -> None:
        """Wait until the operator's memory is back within the allowed growth."""
        started = time.monotonic()
        max_resident = MAX_GROWTH * before.resident + SPARE_MIB if check_resident else math.inf
        after = memory_use(operator)
        while after.resident > max_resident or after.in_use > MAX_GROWTH * before.in_use:
            assert time.monotonic() < started + timeout, f"memory is still {after}, it was {before}"
            time.sleep(0.5)
            after = memory_use(operator)
        took = time.monotonic() - started
        peak = memory(operator, "VmHWM") - memory(operator, "RssFile")
        self.memories.append(
            f"{before.resident:.0f} -> {after.resident:.0f} after {took:.0f} s (peak {peak:.0f}), "
            f"in use {before.in_use:.0f} -> {after.in_use:.0f}"
        )

    def report(self, **figures: Any) -> None:
        """Add a line to the figures that pytest prints at the end."""
        memories = {"memory_in_MiB": "; ".join(self.memories)} if self.memories else {}
        self.add_figures(**figures, **memories, machine_delay_in_seconds=f"{self.ledger.machine_delay.worst:.1f}")

    # Waiting

    def bound(self, scheduler: str = OURS) -> int:
        """The number of pods that this scheduler has bound, according to the ledger."""
        return sum(1 for b in list(self.ledger.bindings.values()) if b.scheduler == scheduler)

    def wait_bound(self, count: int, timeout: float = 60, scheduler: str = OURS) -> None:
        wait_until(lambda: self.bound(scheduler) >= count, timeout, f"{count} pods of {scheduler} are bound")

    def wait_settled(self, timeout: float = 60) -> None:
        """Wait until every pod is bound, or fits nowhere and is marked Unschedulable."""
        deadline = time.monotonic() + timeout * processes.patience
        while found := self.unsettled():
            if time.monotonic() > deadline:
                raise TimeoutError(f"not settled within {timeout:g} s: {found[:5]}")
            time.sleep(0.3)

    def unsettled(self, schedulers: Sequence[str] = (OURS,)) -> list[str]:
        """Pods that would fit, and pods of these schedulers that are neither bound nor marked Unschedulable."""
        pods = kit.pods(self.cluster)
        found = pods_that_would_fit(self.cluster, pods)
        for raw in pods:
            if raw["spec"].get("nodeName") or raw["spec"]["schedulerName"] not in schedulers:
                continue
            if kit.condition(raw).get("reason") != "Unschedulable":
                found.append(f"{raw['metadata']['name']} is not marked Unschedulable: {kit.condition(raw)}")
        return found

    # Invariants

    def verify(self, *, disturbed: bool = False, single_instance: bool = True) -> None:
        """Check that no pod is lost or bound twice, and that no node is over-committed.

        `disturbed`: another scheduler or a shrinking node may have over-committed nodes. Then Podwright must have bound
        no more pods to them once it had to know. `single_instance`: one instance made all bindings of Podwright's
        scheduler name.
        """
        ledger = self.ledger
        waiting, stale = self.unsettled(), ledger.stale_bindings({OURS}, single_instance=single_instance)
        assert not waiting, waiting
        assert not ledger.moved, ledger.moved
        assert not stale, stale
        crowded = {} if disturbed else kit.over_committed(self.cluster)
        assert not crowded, crowded
        placed = {raw["metadata"]["uid"]: raw["spec"].get("nodeName", "") for raw in kit.pods(self.cluster)}
        bound = {uid for uid, name in placed.items() if name}
        wait_until(lambda: ledger.bindings.keys() >= bound, 60, "the ledger has recorded the bindings")
        recorded = {uid: b.node_name for uid, b in ledger.bindings.items() if uid in placed}
        assert recorded == {uid: name for uid, name in placed.items() if name}
        announced = Counter(
            event["regarding"]["uid"] for event in kit.events(self.cluster, self.namespace, "Scheduled")
        )
        assert [uid for uid, count in announced.items() if count > 1] == []
