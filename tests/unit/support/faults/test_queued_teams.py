"""What the ledger of queues says of evictions: the checks of fault tests must notice what they are for."""

from __future__ import annotations

from typing import Any, cast

import pytest

from podwright.core.objects.pod_group import GROUP_LABEL
from support.faults import queued_teams as kit


def pod(
    name: str, queue: str, node: str = "", gang: str = "", *, evicted: bool = False, ends: bool = False
) -> dict[str, Any]:
    labels = {kit.LABEL: queue, **({GROUP_LABEL: gang} if gang else {})}
    ended = {"deletionTimestamp": "now"} if evicted or ends else {}
    metadata = {"name": name, "uid": name, "labels": labels, **ended}
    conditions = {"Ready": "True", "DisruptionTarget": str(evicted)}
    found = [{"type": type_, "status": status} for type_, status in conditions.items()]
    return {"metadata": metadata, "spec": {"nodeName": node} if node else {}, "status": {"conditions": found}}


def ledger(pods: int, paused: str = "") -> kit.QueueLedger:
    """Teams 1 to 7 of department d0 have so many pods. The department is guaranteed 18. `paused`: a team that wants
    none.
    """
    teams = kit.QueuedTeams(cast("Any", None), seed=3)
    teams.wanted.update({name: kit.MOST * (name != paused) for name in teams.wanted})
    made = teams.ledger
    for i in range(pods):
        made.record("ADDED", pod(f"p{i}", f"d0-t{1 + i % 7}", f"n{i % kit.NODES}"))
    return made


def evict(made: kit.QueueLedger, *victims: int, by_eviction: bool = True) -> None:
    for i in victims:
        gone = pod(f"p{i}", f"d0-t{1 + i % 7}", f"n{i % kit.NODES}", evicted=by_eviction, ends=True)
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


@pytest.mark.parametrize(
    ("ended", "wrong"), [(False, []), (True, ["the eviction of p4 for outer left 15 of 18 of d0"])]
)
def test_an_eviction_may_have_been_decided_before_pods_were_scaled_down(ended: bool, wrong: list[str]) -> None:
    made = ledger(19)
    made.record("ADDED", pod("outer", "d1-t1"))
    evict(made, 1, 2, 3, by_eviction=False)
    if ended:
        made.scaled_down.clear()
    evict(made, 4)
    made.record("MODIFIED", pod("outer", "d1-t1", "n4"))
    assert [*made.wrong({"p4": "outer"}, 0.0)] == wrong


def test_a_pod_that_is_scaled_down_is_not_evicted_although_an_interrupted_eviction_marked_it() -> None:
    made = ledger(19, paused="d0-t5")
    evict(made, 4)
    assert ([*made.scaled_down], made.evicted) == (["p4"], {})


def test_a_gang_that_is_scaled_down_meanwhile_needs_no_place() -> None:
    made, members = ledger(20), [pod(f"member{i}", "g0", gang="g0-0") for i in range(4)]
    for each in members:
        made.record("ADDED", each)
    evict(made, 4, 5)
    for each in members:
        made.record("DELETED", each)
    for i in range(4):
        made.record("ADDED", pod(f"later{i}", "g0", gang="g0-0"))
    assert not [*made.wrong({"p4": "g0-0", "p5": "g0-0"}, 0.0)]
