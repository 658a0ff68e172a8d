"""Two instances with leader election, of which the leading one is killed, suspended, terminated or cut off, while pods are created.

The election's times are short, so that a round takes seconds. The slow test injects 52 faults.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import pytest

from podwright.testing import wait_until
from support.control_plane import operator_process as kit
from support.faults.arena import Arena
from support.faults.proxy import FaultProxy, everything

LEASE_SECONDS = 4
ELECTION = (
    "--leader-elect",
    f"--leader-elect-lease-duration={LEASE_SECONDS}s",
    "--leader-elect-renew-deadline=3s",
    "--leader-elect-retry-period=500ms",
    f"--leader-elect-resource-namespace={kit.ACCOUNT[0]}",
)
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{kit.ACCOUNT[0]}/leases/podwright"
PODS_PER_SECOND = 20
SECONDS_PER_ROUND = 10


@dataclass
class Pair:
    """Two operators, each behind a proxy of its own."""

    arena: Arena
    proxies: list[FaultProxy]
    intake: str
    operators: list[kit.Operator] = field(default_factory=list)

    def start(self, place: int) -> kit.Operator:
        name = f"operator-{place}-{time.monotonic_ns()}"
        return self.arena.start(self.proxies[place], *ELECTION, f"--pod-intake={self.intake}", name=name)

    @property
    def holder(self) -> str:
        return str(self.arena.cluster.client.get(LEASE)["spec"].get("holderIdentity") or "")

    def leader(self) -> int:
        """The place of the operator that holds the Lease."""

        def found() -> list[int]:
            holder = self.holder
            return [i for i, operator in enumerate(self.operators) if holder and f" as {holder}" in operator.log()]

        wait_until(found, 30, "one of the operators holds the Lease")
        return found()[0]

    def takeover(self, fault: Callable[[int], None]) -> float:
        """Injects a fault into the leader, and waits until the other one binds. Returns the seconds from one to the other."""
        place = self.leader()
        standby = self.operators[1 - place]
        began = time.monotonic()
        fault(place)
        decided = "this instance decides now"
        wait_until(lambda: decided in standby.log(), LEASE_SECONDS + 30, "the standby has taken over")
        since = time.monotonic()
        wait_until(lambda: self.arena.ledger.last_binding_at() > since, 30, "the new leader binds")
        return min(b.at for b in list(self.arena.ledger.bindings.values()) if b.at > since) - began


@contextmanager
def pair(arena: Arena, intake: str) -> Iterator[Pair]:
    with ExitStack() as stack:
        proxies = [stack.enter_context(FaultProxy(arena.cluster)) for _ in range(2)]
        found = Pair(arena, proxies, intake)
        try:
            found.operators = [found.start(0), found.start(1)]
            yield found
        finally:
            for operator in found.operators:
                if operator.process.alive:
                    os.kill(operator.process.pid, signal.SIGCONT)
                    operator.process.stop(30)


def kill(pair: Pair, place: int) -> None:
    os.kill(pair.operators[place].process.pid, signal.SIGKILL)
    pair.operators[place].process.wait(10)


def terminate(pair: Pair, place: int) -> None:
    os.kill(pair.operators[place].process.pid, signal.SIGTERM)


def suspend(pair: Pair, place: int) -> None:
    os.kill(pair.operators[place].process.pid, signal.SIGSTOP)


def cut_off(pair: Pair, place: int) -> None:
    pair.proxies[place].hold(everything)


def recover(pair: Pair, place: int) -> int | None:
    """Undoes the fault, and waits for the end of the former leader. Returns its exit status."""
    process = pair.operators[place].process
    os.kill(process.pid, signal.SIGCONT) if process.alive else None
    pair.proxies[place].release()
    process.wait(30)
    return process.returncode


Fault = Callable[[Pair, int], None]
STATUSES: dict[Fault, int] = {kill: -signal.SIGKILL, terminate: 0, suspend: 1, cut_off: 1}
"""The exit status of a leader after each fault."""


@pytest.mark.parametrize(
    ("faults", "intake"),
    [
        pytest.param([suspend, terminate], "watch", id="suspended, then terminated"),
        pytest.param([cut_off, kill], "kopf", id="cut off from the API server, then killed"),
    ],
)
def test_the_other_instance_takes_over_when_the_leader_is(arena: Arena, faults: list[Fault], intake: str) -> None:
    take_over(arena, faults, intake)


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_the_other_instance_takes_over_52_times(arena: Arena) -> None:
    take_over(arena, [*STATUSES] * 13, "watch")


def take_over(arena: Arena, faults: list[Fault], intake: str) -> None:
    count = PODS_PER_SECOND * SECONDS_PER_ROUND * len(faults)
    arena.nodes(count // 16 + 1, pods="18")
    seconds: dict[str, list[float]] = {}
    with pair(arena, intake) as both, arena.creating_pods(count, PODS_PER_SECOND):
        wait_until(lambda: arena.bound() > 10, 60, "pods are under way")
        for fault in faults:
            place = both.leader()
            seconds.setdefault(fault.__name__, []).append(both.takeover(lambda at, fault=fault: fault(both, at)))
            assert recover(both, place) == STATUSES[fault], both.operators[place].process.log_tail(40)
            both.operators[place] = both.start(place)
        arena.wait_bound(count, 120)
        arena.wait_settled()
        arena.verify()
    times = {name: ", ".join(f"{each:.1f}" for each in sorted(found)) for name, found in seconds.items()}
    arena.report(
        lease_in_seconds=LEASE_SECONDS,
        pods=count,
        **{f"seconds_to_first_binding_after_{k}": v for k, v in times.items()},
    )
