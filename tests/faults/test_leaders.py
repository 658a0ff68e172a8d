"""Several instances with leader election. The leading one is killed, suspended, terminated or cut off, or its clock or
its Lease is changed, while pods are created.

The election's times are short, so that a round takes seconds. The slow tests inject 56 faults.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from podwright.testing import wait_until
from support.faults import leaders
from support.faults.arena import Arena
from support.faults.leaders import (
    CLOCKS_STEPPED,
    CUT_OFF,
    CUT_OFF_FROM_LEASE,
    DELETED,
    GIVEN_AWAY,
    KILL,
    LEASE_SECONDS,
    LONGER_LEASE_SECONDS,
    PACKING,
    QUIT,
    SUSPEND,
    SUSPEND_FOR_LONG,
    TERMINATE,
    Fault,
)

PODS_PER_SECOND = 20
BURST = 3_000


@pytest.mark.parametrize(
    ("faults", "count", "intake"),
    [
        pytest.param([SUSPEND, TERMINATE], 2, "watch", id="suspended, then terminated"),
        pytest.param([CUT_OFF, KILL], 2, "kopf", id="cut off from the API server, then killed"),
        pytest.param(
            [CLOCKS_STEPPED, DELETED, CUT_OFF_FROM_LEASE],
            3,
            "watch",
            id="of three: clocks stepped, Lease deleted, then cut off from the Lease",
        ),
    ],
)
def test_another_instance_takes_over_only_when_the_leader_is(
    arena: Arena, tmp_path: Path, faults: Sequence[Fault], count: int, intake: str
) -> None:
    take_over(arena, tmp_path, faults, count, intake)


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_another_of_three_instances_takes_over_44_times(arena: Arena, tmp_path: Path) -> None:
    each = [KILL, TERMINATE, SUSPEND, CUT_OFF, CLOCKS_STEPPED, QUIT, CUT_OFF_FROM_LEASE, DELETED, KILL, GIVEN_AWAY]
    take_over(arena, tmp_path, [*each * 4, SUSPEND_FOR_LONG, TERMINATE, SUSPEND_FOR_LONG, CLOCKS_STEPPED], 3, "watch")


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("intake", ["kopf", "watch"])
def test_another_instance_takes_over_6_times_with_3000_pods_under_way(
    arena: Arena, tmp_path: Path, intake: str
) -> None:
    arena.nodes(BURST // 18 + 1)
    arena.cluster.apply(PACKING)
    seconds: dict[str, list[float]] = {}
    with leaders.instances(arena, tmp_path, 2, intake, behind_proxies=False) as among:
        for fault in [KILL, TERMINATE, SUSPEND] * 2:
            creating = threading.Thread(target=arena.pods, args=(BURST,))
            creating.start()
            wait_until(lambda: arena.bound() >= BURST // 5, 120, "pods are under way")
            found = leaders.undergo(among, fault)
            assert found is not None
            seconds.setdefault(fault.name, []).append(found)
            creating.join()
            leaders.wait_bound(among, BURST)
            leaders.wait_settled(among)
            arena.verify()
            assert among.interleaved() == []
            arena.delete_pods()
            arena.ledger.forget_deleted()
    arena.report(
        lease_in_seconds=LONGER_LEASE_SECONDS,
        pods=BURST,
        leases_lost_under_load=among.lost_under_load,
        **leaders.distribution(seconds),
    )


def take_over(arena: Arena, folder: Path, faults: Sequence[Fault], count: int, intake: str) -> None:
    arena.nodes(len(faults) * 40)
    arena.cluster.apply(PACKING)
    seconds: dict[str, list[float]] = {}
    with leaders.instances(arena, folder, count, intake) as among:
        wait_until(among.one_leads, 60, "one of them says that it leads, and the others do not")
        with leaders.steady_pods(arena, PODS_PER_SECOND):
            wait_until(lambda: arena.bound() > 10, 60, "pods are under way")
            for fault in faults:
                if (found := leaders.undergo(among, fault)) is not None:
                    if not seconds and not among.lost_under_load:  # else the next leader may have started just now
                        assert among.imports_since_the_takeover() == []
                    seconds.setdefault(fault.name, []).append(found)
        leaders.wait_settled(among)
        arena.verify()
        assert among.interleaved() == []
    bound = arena.bound()
    arena.delete_pods()
    arena.report(
        lease_in_seconds=LEASE_SECONDS,
        instances=count,
        pods=bound,
        leases_lost_under_load=among.lost_under_load,
        **leaders.distribution(seconds),
    )
