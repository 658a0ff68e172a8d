"""Several instances with leader election, each behind a proxy of its own and with a wall clock of its own, and what can
happen to the leader.

To add a fault, add a function of (Instances, place) and a `Fault` with it to the table that should have it.
"""

from __future__ import annotations

import itertools
import os
import signal
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from podwright.testing import AnswerError, wait_until
from support.control_plane import operator_process as kit
from support.faults.arena import OURS, Arena
from support.faults.proxy import FaultProxy, RequestFilter, everything
from support.faults.stepping_clock import SteppingClock

LEASE_SECONDS = 4
LONGER_LEASE_SECONDS = 15
"""For thousands of pods at once, which leave the API server little time for renewals on a small machine."""
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{kit.ACCOUNT[0]}/leases/podwright"
ACQUIRED = "successfully acquired lease"
DAY, BACK = 86_400, -2_400
SUSPENSION_SECONDS = 60


@dataclass
class Instances:
    """Operators of which one leads. `places` number them; an operator that has ended is replaced at its place."""

    arena: Arena
    proxies: Sequence[FaultProxy | None]
    clocks: Sequence[SteppingClock]
    intake: str
    lease_seconds: int
    operators: list[kit.Operator] = field(default_factory=list)
    lost_under_load: int = 0
    """How many leaders have lost the Lease without a fault, because the machine was too busy for a renewal in time."""

    @property
    def election(self) -> Sequence[str]:
        """The flags of leader election. The shares are about those of the defaults."""
        return (
            "--leader-elect",
            f"--leader-elect-lease-duration={self.lease_seconds}s",
            f"--leader-elect-renew-deadline={self.lease_seconds * 750}ms",
            f"--leader-elect-retry-period={self.lease_seconds * 125}ms",
            f"--leader-elect-resource-namespace={kit.ACCOUNT[0]}",
        )

    def start(self, place: int, *, ready: bool = True) -> kit.Operator:
        """Start an operator at this place. Its log has a line for each import."""
        name = f"operator-{place}-{time.monotonic_ns()}"
        environ = {**self.clocks[place].environ, "PYTHONPROFILEIMPORTTIME": "1"}
        return self.arena.start(
            self.proxies[place], *self.election, f"--pod-intake={self.intake}", name=name, environ=environ, ready=ready
        )

    def start_all(self) -> None:
        """Start one at each place, all at the same time."""
        self.operators = [self.start(place, ready=False) for place in range(len(self.proxies))]

        def ready() -> bool:
            self.restart_ended()
            return all(operator.ready for operator in self.operators)

        wait_until(ready, 60, "all operators are ready")

    @property
    def holder(self) -> str:
        """The identity in the Lease; empty if there is no Lease."""
        with suppress(AnswerError):
            return str(self.arena.cluster.client.get(LEASE)["spec"].get("holderIdentity") or "")
        return ""

    def leader(self) -> int:
        """The place of the operator that holds the Lease."""

        def found() -> list[int]:
            self.restart_ended()
            holder = self.holder
            return [i for i, operator in enumerate(self.operators) if holder and f" as {holder}" in operator.log()]

        wait_until(found, 30, "one of the operators holds the Lease")
        return found()[0]

    def one_leads(self) -> bool:
        """True if one operator says that it leads, and the others say that they do not."""
        self.restart_ended()
        said = [operator.metric("leader_election_master_status", name="podwright") for operator in self.operators]
        return sorted(said) == [0] * (len(said) - 1) + [1]

    def cut_off(self, place: int, only: RequestFilter = everything) -> None:
        """Let these requests of the operator at this place wait."""
        proxy = self.proxies[place]
        assert proxy is not None
        proxy.hold(only)

    def reconnect(self, place: int) -> None:
        """Let them pass again."""
        proxy = self.proxies[place]
        if proxy is not None:
            proxy.release()

    def first_binding(self, instance: str) -> float | None:
        """When this instance bound its first pod, on the ledger's clock."""
        found = [binding.at for binding in list(self.arena.ledger.bindings.values()) if binding.instance == instance]
        return min(found, default=None)

    def restart_ended(self, besides: int | None = None) -> None:
        """Start operators again that have lost the Lease because the machine is busy, as a supervisor does. `besides`:
        the one with a fault.
        """
        for place, operator in enumerate(self.operators):
            if place != besides and not operator.process.alive:
                assert operator.process.returncode == 1, operator.process.log_tail(40)
                assert "leader election lost" in operator.log()
                self.lost_under_load += 1
                self.operators[place] = self.start(place, ready=False)

    def takeover(self, fault: Fault, place: int) -> float:
        """Inject a fault into the leader, and wait until another instance binds. Returns the seconds from one to the
        other.
        """
        former = self.holder
        began = time.monotonic()
        fault.inject(self, place)

        def successor() -> bool:
            self.restart_ended(besides=place)
            holder = self.holder
            return bool(holder) and holder != former and self.first_binding(holder) is not None

        wait_until(successor, self.lease_seconds + 60, f"another instance binds after: {fault.name}")
        first = self.first_binding(self.holder)
        assert first is not None
        return first - began

    def undisturbed(self, fault: Fault, place: int) -> None:
        """Inject a fault that must not end the leadership, and wait until it would have, and the leader has bound
        another pod.

        On a machine that delayed everything by half of the renewal deadline, the leader may have lost the Lease for
        that reason. Then again.
        """
        for _ in range(3):
            holder, began = self.holder, time.monotonic()
            fault.inject(self, place)
            time.sleep(self.lease_seconds + 1)
            since = time.monotonic()
            wait_until(lambda since=since: self.arena.ledger.last_binding_at() > since, 30, "the leader goes on")
            if self.holder == holder:
                return
            delay = self.arena.ledger.machine_delay.worst_since(began)
            assert delay > self.lease_seconds * 0.75 / 2, f"the leader has changed after: {fault.name}"
            place = self.leader()
        raise AssertionError(f"the leader changes each time after: {fault.name}")

    def imports_since_the_takeover(self) -> list[str]:
        """Returns the leader's imports since it got the Lease."""
        _, _, since = self.operators[self.leader()].log().partition(ACQUIRED)
        return [line for line in since.splitlines() if line.startswith("import time:")]

    def interleaved(self) -> list[str]:
        """Returns Bindings by an instance after the first one by its successor. Any such Binding means that two
        instances decided at the same time.
        """
        spans: dict[str, list[int]] = {}
        for binding in list(self.arena.ledger.bindings.values()):
            if binding.instance:
                spans.setdefault(binding.instance, []).append(binding.version)
        ordered = sorted(spans.items(), key=lambda span: min(span[1]))
        return [
            f"{one} bound until version {max(versions)}, {other} from {min(later)} on"
            for (one, versions), (other, later) in itertools.pairwise(ordered)
            if max(versions) > min(later)
        ]


@contextmanager
def instances(
    arena: Arena, folder: Path, count: int, intake: str, *, behind_proxies: bool = True
) -> Iterator[Instances]:
    """`count` instances, started at once.

    Not `behind_proxies`: for thousands of pods at once, for which the proxies, threads of the test's own process, would
    be too slow.
    """
    with ExitStack() as stack:
        proxies = [stack.enter_context(FaultProxy(arena.cluster)) if behind_proxies else None for _ in range(count)]
        clocks = []
        for place in range(count):
            (at := folder / f"clock-{place}").mkdir()
            clocks.append(SteppingClock(at))
        found = Instances(arena, proxies, clocks, intake, LEASE_SECONDS if behind_proxies else LONGER_LEASE_SECONDS)
        try:
            found.start_all()
            yield found
        finally:
            for place in range(count):
                found.reconnect(place)
            for operator in found.operators:
                if operator.process.alive:
                    os.kill(operator.process.pid, signal.SIGCONT)
                    operator.process.stop(30)


PACKING = {
    "apiVersion": "podwright.dev/v1alpha1",
    "kind": "SchedulerPolicy",
    "metadata": {"name": "packing"},
    "spec": {"schedulerName": OURS, "strategy": {"type": "MostAllocated"}},
}
"""Nodes are filled one after the other, so a leader that misses a Binding over-commits one."""


@contextmanager
def steady_pods(arena: Arena, rate: float) -> Iterator[None]:
    """Create about `rate` pods per second until the block ends."""
    stop = threading.Event()

    def create() -> None:
        for number in itertools.count():
            body = arena.pod(f"p{number}")
            arena.retry(lambda body=body: arena.cluster.client.create(body))
            if stop.wait(1 / rate):
                break
        arena.cluster.client.close()

    thread = threading.Thread(target=create, name="creating pods")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


# Faults


@dataclass(frozen=True)
class Fault:
    """`status`: the exit status of the leader afterwards, or None if it must go on leading."""

    name: str
    inject: Callable[[Instances, int], None]
    status: int | None
    lasts: float = 0.0
    """For how many seconds at least, before it is undone."""


def send(number: signal.Signals) -> Callable[[Instances, int], None]:
    return lambda among, place: os.kill(among.operators[place].process.pid, number)


def cut_off(among: Instances, place: int) -> None:
    among.cut_off(place)


def cut_off_from_the_lease(among: Instances, place: int) -> None:
    """The leader could still bind pods."""
    among.cut_off(place, is_lease)


def is_lease(method: str, path: str) -> bool:
    return path.startswith("/apis/coordination.k8s.io/")


def step_clocks(among: Instances, place: int) -> None:
    """The leader's wall clock steps ahead, the others' step back; the next time they step the other way."""
    for other, clock in enumerate(among.clocks):
        clock.step(-clock.ahead or (DAY if other == place else BACK))


def delete_the_lease(among: Instances, place: int) -> None:
    among.arena.cluster.client.request("DELETE", LEASE)


def give_the_lease_away(among: Instances, place: int) -> None:
    """The stranger never renews it."""
    client = among.arena.cluster.client

    def given() -> bool:
        lease = client.get(LEASE)
        lease["spec"]["holderIdentity"] = "a stranger"
        return client.raw("PUT", LEASE, lease)[0] == 200  # the leader may renew it in between

    wait_until(given, 60, "the Lease is given away")


KILL = Fault("kill -9", send(signal.SIGKILL), -signal.SIGKILL)
TERMINATE = Fault("SIGTERM", send(signal.SIGTERM), 0)
QUIT = Fault("SIGQUIT", send(signal.SIGQUIT), 0)
SUSPEND = Fault("SIGSTOP", send(signal.SIGSTOP), 1)
SUSPEND_FOR_LONG = Fault("SIGSTOP for a minute", send(signal.SIGSTOP), 1, SUSPENSION_SECONDS)
CUT_OFF = Fault("cut off from the API server", cut_off, 1)
CUT_OFF_FROM_LEASE = Fault("cut off from the Lease alone", cut_off_from_the_lease, 1)
GIVEN_AWAY = Fault("Lease given to a stranger", give_the_lease_away, 1)
CLOCKS_STEPPED = Fault("clocks stepped", step_clocks, None)
DELETED = Fault("Lease deleted", delete_the_lease, None)


def undergo(among: Instances, fault: Fault) -> float | None:
    """One round: the fault, and what has to follow from it. Returns the seconds to the first Binding of another leader,
    if there has to be one.
    """
    place = among.leader()
    if fault.status is None:
        among.undisturbed(fault, place)
        return None
    began = time.monotonic()
    seconds = among.takeover(fault, place)
    time.sleep(max(0.0, began + fault.lasts - time.monotonic()))
    process = among.operators[place].process
    if process.alive:
        os.kill(process.pid, signal.SIGCONT)
    process.wait(30)
    assert process.returncode == fault.status, process.log_tail(40)
    among.reconnect(place)
    among.operators[place] = among.start(place)
    return seconds


def wait_bound(among: Instances, count: int) -> None:
    """Wait until so many pods are bound, and start operators again that end meanwhile."""

    def bound() -> bool:
        among.restart_ended()
        return among.arena.bound() >= count

    wait_until(bound, 300, f"{count} pods are bound")


def wait_settled(among: Instances) -> None:
    """`Arena.wait_settled`, and start operators again that end meanwhile."""

    def settled() -> bool:
        among.restart_ended()
        return not among.arena.unsettled()

    wait_until(settled, 120, "every pod is bound, or fits nowhere and is marked Unschedulable")


def distribution(seconds: Mapping[str, Sequence[float]]) -> dict[str, str]:
    """For the figures: minimum, median, 90th percentile and maximum for each fault."""
    texts = {}
    for name, found in seconds.items():
        deciles = statistics.quantiles(found, n=10, method="inclusive") if len(found) > 1 else [found[0]] * 9
        texts[f"seconds_to_first_binding_after_{name}"] = (
            f"{min(found):.2f}/{deciles[4]:.2f}/{deciles[8]:.2f}/{max(found):.2f} ({len(found)} rounds)"
        )
    return texts
