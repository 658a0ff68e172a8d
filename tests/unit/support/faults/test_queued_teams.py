"""What the ledger of queues says of evictions: the checks of fault tests must notice what they are for."""

from __future__ import annotations

from typing import Any, cast

import pytest

from podwright.core.objects.pod_group import GROUP_LABEL
from support.faults import queued_teams as kit


def pod(name: str, queue: str, node: str = "", gang: str = "", *, evicted: bool = False) -> dict[str, Any]:
    labels = {kit.LABEL: queue, **({GROUP_LABEL: gang} if gang else {})}
    metadata = {"name": name, "uid": name, "labels": labels, **({"deletionTimestamp": "now"} if evicted else {})}
    conditions = {"Ready": "True", "DisruptionTarget": str(evicted)}
    found = [{"type": type_, "status": status} for type_, status in conditions.items()]
    return {"metadata": metadata, "spec": {"nodeName": node} if node else {}, "status": {"conditions": found}}


def ledger(pods: int) -> kit.QueueLedger:
    """Teams 1 to 7 of department d0 have so many pods. The department is guaranteed 18."""
    teams = kit.QueuedTeams(cast("Any", None), seed=3)
    teams.wanted.update(dict.fromkeys(teams.wanted, kit.MOST))
    made = teams.ledger
    for i in range(pods):
        made.record("ADDED", pod(f"p{i}", f"d0-t{1 + i % 7}", f"n{i % kit.NODES}"))
    return made


def evict(made: kit.QueueLedger, *victims: int) -> None:
    for i in victims:
        gone = pod(f"p{i}", f"d0-t{1 + i % 7}", f"n{i % kit.NODES}", evicted=True)
        made.record("MODIFIED", gone)
        made.record("DELETED", gone)


@pytest.mark.parametrize(
    ("pods", "claimant", "placed", "wrong"),
    [
        pytest.param(19, "d1-t1", True, [], id="what a department has above its guarantee"),
        pytest.param(
            18, "d1-t1", True, ["the eviction of p4 for claimant left 17 of 18 of d0"], id="what it is guaranteed"
        ),
        pytest.param(18, "d0-t1", True, [], id="within the department"),
        pytest.param(
            19, "d1-t1", False, ["p4 was evicted for claimant of d1-t1, which has no place"], id="for nothing"
        ),
    ],
)
def test_a_single_claimant(pods: int, claimant: str, placed: bool, wrong: list[str]) -> None:
    made = ledger(pods)
    made.record("ADDED", pod("claimant", claimant))
    evict(made, 4)
    if placed:
        made.record("MODIFIED", pod("claimant", claimant, "n4"))
    assert [*made.wrong({"p4": "claimant"}, 0.0)] == wrong


def test_what_a_department_takes_from_itself_stays_its_own_until_the_claimant_has_its_place() -> None:
    made = ledger(19)
    made.record("ADDED", pod("inner", "d0-t1"))
    made.record("ADDED", pod("outer", "d1-t1"))
    evict(made, 4, 5)
    claims = {"p4": "inner", "p5": "outer"}
    for name, queue, node in (("inner", "d0-t1", "n4"), ("outer", "d1-t1", "n5")):
        made.record("MODIFIED", pod(name, queue, node))
    assert not [*made.wrong(claims, 0.0)]


def test_a_gang_has_its_place_when_all_its_members_have_nodes() -> None:
    made, claims = ledger(20), {"p4": "g0-0", "p5": "g0-0"}
    for i in range(4):
        made.record("ADDED", pod(f"member{i}", "g0", gang="g0-0"))
    evict(made, 4, 5)
    for i in range(4):
        assert len([*made.wrong(claims, 0.0)]) == 2
        made.record("MODIFIED", pod(f"member{i}", "g0", "n8", "g0-0"))
    assert not [*made.wrong(claims, 0.0)]
