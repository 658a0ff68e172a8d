"""The operator's wall clock steps, ahead and back, or the whole process stands still for a while.

What it measures must not depend on it: backoff, requests, credentials, event series. Timestamps are all that follow the clock.
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
from support.faults.clock import SteppingClock
from support.faults.kit import Arena
from support.faults.proxy import FaultProxy, Faults, is_binding

PODS = 240
HOUR, DAY = 3_600, 86_400
BACK = -2_400
"""Further back the API server's certificate, which was issued for these tests, would not be valid yet."""


class Login:
    """A kubeconfig with a token file, as a pod's account has one. A token lives as the Secret that it is bound to."""

    def __init__(self, arena: Arena, folder: Path) -> None:
        self._arena = arena
        self._token, self._numbers = folder / "token", itertools.count()
        self._secret = self._issue()
        config = yaml.safe_load(arena.cluster.service_account_kubeconfig(*kit.ACCOUNT).read_text())
        config["users"][0]["user"] = {"tokenFile": str(self._token)}
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(yaml.safe_dump(config))

    def rotate(self) -> None:
        """Another token is in the file, and the one before is worth nothing."""
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
        pytest.param([HOUR, -2 * HOUR, 90, -60, DAY, -HOUR], id="ahead and back over and over", marks=pytest.mark.slow),
    ],
)
def test_the_wall_clock_steps_while_pods_are_bound(
    arena: Arena, clock: SteppingClock, tmp_path: Path, steps: list[int]
) -> None:
    arena.nodes(40, pods="12")
    login, turns = Login(arena, tmp_path), itertools.cycle(steps) if len(steps) > 1 else iter(steps)
    options = {"environ": clock.environ, "kubeconfig": login.kubeconfig}
    with arena.running(None, "--pod-intake=kopf", **options) as operator:
        arena.pods(5, "huge", cpu="100")
        waiting = lambda: operator.metric("scheduler_pending_pods", queue="unschedulable")  # noqa: E731
        wait_until(lambda: waiting() == 5, 60, "the huge pods wait")
        with arena.filling(PODS, 80) as filling:
            _step_while(filling.is_alive, clock, turns)
        stepped = time.monotonic()
        arena.wait_bound(PODS)
        recovered = max(0.0, arena.ledger.latest() - stepped)
        login.rotate()
        time.sleep(11)  # as the API server may remember that a token was good
        exchanged = time.monotonic()
        arena.nodes(1, first=40, cpu="600")
        arena.pods(20, "later")
        arena.wait_bound(PODS + 25)
        arena.wait_calm()
        _every_binding_has_its_event(arena)
        _the_clock_was_seen(arena, clock, "later")
    arena.verify()
    arena.tell(
        pods=PODS + 25,
        faults=f"{clock.steps} steps of the wall clock, one exchanged token",
        seconds_until_all_bound_after_the_steps=f"{recovered:.1f}",
        and_with_the_new_token=f"{arena.ledger.latest() - exchanged:.1f}",
    )


def test_pods_in_backoff_come_back_although_the_clock_goes_back(arena: Arena, clock: SteppingClock) -> None:
    arena.nodes(10, pods="12")
    with FaultProxy(arena.cluster) as proxy:
        with arena.running(proxy, "--pod-intake=watch", environ=clock.environ) as operator:
            proxy.faults = [Faults({"409": 1.0}, is_binding)]
            arena.pods(20)
            backing = lambda: operator.metric("scheduler_pending_pods", queue="backoff")  # noqa: E731
            wait_until(lambda: backing() == 20, 60, "all Bindings have failed")
            clock.step(-DAY)
            proxy.faults = []
            began = time.monotonic()
            arena.wait_bound(20)
            arena.wait_calm()
            _every_binding_has_its_event(arena)
            _the_clock_was_seen(arena, clock, "p")
        arena.verify()
    arena.tell(
        pods=20,
        faults=f"{proxy.injected['409']} conflicts, the clock a day back",
        seconds_until_all_bound=f"{arena.ledger.latest() - began:.1f}",
    )


def test_the_process_stands_still_for_a_while(arena: Arena) -> None:
    """A machine that is suspended, or has nothing left for us: afterwards every timeout is over at once."""
    arena.nodes(40, pods="12")
    with arena.running(None, "--pod-intake=kopf") as operator:
        with arena.filling(PODS, 60):
            for _ in range(2):
                arena.wait_bound(arena.bound() + 10)
                operator.process.pause()
                time.sleep(3)
                operator.process.resume()
            back = time.monotonic()
        arena.wait_bound(PODS)
        arena.wait_calm()
    arena.verify()
    arena.tell(
        pods=PODS,
        faults="stopped twice for 3 s",
        seconds_to_recover=f"{max(0.0, arena.ledger.latest() - back):.1f}",
    )


def _step_while(alive: Any, clock: SteppingClock, turns: Iterator[int]) -> None:
    while alive():
        time.sleep(0.3)
        if step := next(turns, 0):
            clock.step(step)


def _the_clock_was_seen(arena: Arena, clock: SteppingClock, prefix: str) -> None:
    """What was told of these pods has the time of the stepped clock: without that the test would say nothing."""
    told = [
        event["eventTime"]
        for event in kit.events(arena.cluster, arena.namespace, "Scheduled")
        if event["regarding"]["name"].startswith(prefix)
    ]
    now = time.time() + clock.ahead
    off = [abs(datetime.fromisoformat(at).timestamp() - now) for at in told]
    assert max(off) < abs(clock.ahead) / 4, f"ahead by {clock.ahead}, but off by {off}"


def _every_binding_has_its_event(arena: Arena) -> None:
    """None is lost for its name, which is made of the time."""

    def missing() -> int:
        told = {event["regarding"]["uid"] for event in kit.events(arena.cluster, arena.namespace, "Scheduled")}
        return len(arena.ledger.bindings.keys() - told)

    wait_until(lambda: missing() == 0, 30, "every pod that was bound has an event")
