"""The operator's wall clock steps ahead and back, or the whole process is suspended for a while.

Backoff, request timeouts, credentials and event series must not depend on the wall clock. Only timestamps follow it.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from podwright.testing import wait_until
from support.control_plane import operator_process as kit
from support.faults.arena import Arena
from support.faults.proxy import FaultProxy, Faults, is_binding
from support.faults.stepping_clock import SteppingClock

PODS = 240
HOUR, DAY = 3_600, 86_400
BACK = -2_400
"""The API server's certificate, issued for these tests, is not valid much earlier."""


class Login:
    """A kubeconfig with a token file, as in a pod. A token is valid as long as the Secret that it is bound to
    exists.
    """

    def __init__(self, arena: Arena, folder: Path) -> None:
        self._arena = arena
        self._token, self._numbers = folder / "token", itertools.count()
        self._secret = self._issue()
        config = yaml.safe_load(arena.cluster.service_account_kubeconfig(*kit.ACCOUNT).read_text())
        config["users"][0]["user"] = {"tokenFile": str(self._token)}
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(yaml.safe_dump(config))

    def rotate(self) -> None:
        """Write a new token to the file, and invalidate the old one."""
        old, self._secret = self._secret, self._issue()
        self._arena.cluster.client.delete(old)

    def _issue(self) -> dict[str, Any]:
        client, (namespace, account) = self._arena.cluster.client, kit.ACCOUNT
        name = f"{self._arena.namespace}-{next(self._numbers)}"
        secret = client.create(
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}}
        )
        bound = {"apiVersion": "v1", "kind": "Secret", "name": name, "uid": secret["metadata"]["uid"]}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        answer = client.request("POST", path, {"spec": {"boundObjectRef": bound, "expirationSeconds": HOUR}})
        self._token.write_text(answer["status"]["token"])
        return secret


@pytest.fixture
def clock(tmp_path: Path) -> SteppingClock:
    return SteppingClock(tmp_path)


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([DAY], id="a day ahead"),
        pytest.param([BACK], id="40 minutes back"),
        pytest.param([HOUR, -2 * HOUR, 90, -60, DAY, -HOUR], id="ahead and back repeatedly", marks=pytest.mark.slow),
    ],
)
def test_pods_are_bound_while_the_wall_clock_steps(
    arena: Arena, clock: SteppingClock, tmp_path: Path, steps: list[int]
) -> None:
    arena.nodes(40, pods="12")
    login, turns = Login(arena, tmp_path), itertools.cycle(steps) if len(steps) > 1 else iter(steps)
    options = {"environ": clock.environ, "kubeconfig": login.kubeconfig}
    with arena.running(None, "--pod-intake=kopf", **options) as operator:
        arena.pods(5, "huge", cpu="100")
        waiting = lambda: operator.metric("scheduler_pending_pods", queue="unschedulable")
        wait_until(lambda: waiting() == 5, 60, "the huge pods are unschedulable")
        with arena.creating_pods(PODS, 80) as creating:
            _step_while(creating.is_alive, clock, turns)
        stepped = time.monotonic()
        arena.wait_bound(PODS)
        recovered = max(0.0, arena.ledger.last_binding_at() - stepped)
        login.rotate()
        time.sleep(11)  # the API server caches valid tokens for 10 s
        rotated = time.monotonic()
        arena.nodes(1, first=40, cpu="600")
        arena.pods(20, "later")
        arena.wait_bound(PODS + 25)
        arena.wait_settled()
        _wait_for_events_of_all_bindings(arena)
        _check_event_times(arena, clock, "later")
    arena.verify()
    arena.report(
        pods=PODS + 25,
        faults=f"{clock.steps} steps of the wall clock, one rotated token",
        seconds_until_all_bound_after_the_last_step=f"{recovered:.1f}",
        and_with_the_new_token=f"{arena.ledger.last_binding_at() - rotated:.1f}",
    )


def test_pods_leave_backoff_although_the_clock_steps_back(arena: Arena, clock: SteppingClock) -> None:
    arena.nodes(10, pods="12")
    with FaultProxy(arena.cluster) as proxy:
        with arena.running(proxy, "--pod-intake=watch", environ=clock.environ) as operator:
            proxy.faults = [Faults({"409": 1.0}, is_binding)]
            arena.pods(20)
            backing = lambda: operator.metric("scheduler_pending_pods", queue="backoff")
            wait_until(lambda: backing() == 20, 60, "all pods are in backoff")
            clock.step(-DAY)
            proxy.faults = []
            started = time.monotonic()
            arena.wait_bound(20)
            arena.wait_settled()
            _wait_for_events_of_all_bindings(arena)
            _check_event_times(arena, clock, "p")
        arena.verify()
    arena.report(
        pods=20,
        faults=f"{proxy.injected['409']} conflicts, the clock stepped one day back",
        seconds_until_all_bound=f"{arena.ledger.last_binding_at() - started:.1f}",
    )


def test_a_suspended_process_recovers(arena: Arena) -> None:
    """As on a suspended or starved machine: all timeouts have expired when the process resumes."""
    arena.nodes(40, pods="12")
    with arena.running(None, "--pod-intake=kopf") as operator:
        for half in range(2):
            with arena.creating_pods(PODS // 2, 60, f"p{half}-"):
                arena.wait_bound(half * PODS // 2 + 10)
                operator.process.pause()
                time.sleep(3)
                operator.process.resume()
        back = time.monotonic()
        arena.wait_bound(PODS)
        arena.wait_settled()
    arena.verify()
    arena.report(
        pods=PODS,
        faults="suspended twice for 3 s",
        seconds_to_recover=f"{max(0.0, arena.ledger.last_binding_at() - back):.1f}",
    )


def _step_while(alive: Any, clock: SteppingClock, turns: Iterator[int]) -> None:
    while alive():
        time.sleep(0.3)
        if step := next(turns, 0):
            clock.step(step)


def _check_event_times(arena: Arena, clock: SteppingClock, prefix: str) -> None:
    """The events of these pods have times of the stepped clock. Otherwise the clock had no effect and the test would
    prove nothing.
    """
    times = [
        event["eventTime"]
        for event in kit.events(arena.cluster, arena.namespace, "Scheduled")
        if event["regarding"]["name"].startswith(prefix)
    ]
    now = time.time() + clock.ahead
    off = [abs(datetime.fromisoformat(at).timestamp() - now) for at in times]
    assert max(off) < abs(clock.ahead) / 4, f"the clock is ahead by {clock.ahead}, but the events are off by {off}"


def _wait_for_events_of_all_bindings(arena: Arena) -> None:
    """Event names contain the time, so events with equal names could overwrite each other."""

    def missing() -> int:
        announced = {event["regarding"]["uid"] for event in kit.events(arena.cluster, arena.namespace, "Scheduled")}
        return len(arena.ledger.bindings.keys() - announced)

    wait_until(lambda: missing() == 0, 30, "every bound pod has an event")
