"""Gangs of KAI that have lost members run on for a time; then what is left of them is evicted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from podwright.core.objects.pod_group import GROUP_LABEL, KAI_API, KAI_KIND, PLUGINS_API, PLUGINS_KIND
from podwright.engine import engine as engine_module
from support.engine.kit import Rig, deciding, on_node, ours, settle
from support.waiting import until

NOTE = (
    "default/gang: 2 of 3 pods that start together have a node, 2 exist; after 1m0s without the minimum, what is left is"
    " evicted"
)


def rig_with(placed: int = 3, scheduler: str = "podwright", **spec: Any) -> Rig:
    """A gang of three pods, each on a node of its own."""
    rig = Rig()
    rig.evictor.waits = True
    rig.engine.cache.groups.serve(KAI_API)
    group(rig, **spec)
    for index in range(placed):
        rig.node(f"n{index}")
        rig.engine.assigned.put(running(index, {"schedulerName": scheduler}))
    return rig


def group(rig: Rig, **spec: Any) -> None:
    made = {"metadata": {"name": "gang", "namespace": "default"}, "spec": {"minMember": 3, **spec}}
    rig.engine.objects(KAI_KIND).put(made)


def member(index: int, spec: Any = None, sub_group: str = "", **options: Any) -> dict[str, Any]:
    labels = {"kai.scheduler/subgroup-name": sub_group} if sub_group else None
    metadata = {"annotations": {"pod-group-name": "gang"}, **options.pop("metadata", {})}
    return ours(f"m{index}", requests={"cpu": "8"}, spec=spec or {}, labels=labels, metadata=metadata, **options)


def running(index: int, spec: Any = None, **options: Any) -> dict[str, Any]:
    return on_node(member(index, spec, **options), f"n{index}")


def lose(rig: Rig, index: int = 2) -> None:
    rig.engine.assigned.drop(f"default/m{index}", None)


async def after(rig: Rig, seconds: float) -> list[str]:
    """The pods that have been evicted when so many seconds have passed."""
    rig.now += seconds
    await rig.engine.stale_gangs.evict()
    return sorted(name for name, _, _ in rig.evictor.evicted)


@pytest.mark.parametrize(
    ("period", "seconds"),
    [
        pytest.param({}, 60, id="by default a minute"),
        pytest.param({"stalenessGracePeriod": "1m30s"}, 90, id="as long as it says"),
    ],
)
async def test_a_gang_that_has_lost_a_member_is_evicted_after_its_period(period, seconds):
    rig = rig_with(**period)
    assert await after(rig, 1000) == []
    lose(rig)
    assert await after(rig, 1000) == []
    assert await after(rig, seconds - 1) == []
    assert await after(rig, 1) == ["m0", "m1"]
    assert rig.evictor.within_budgets == {"m0", "m1"}


async def test_events_of_the_group_and_of_its_pods_say_why():
    rig = rig_with()
    lose(rig)
    await after(rig, 0)
    await after(rig, 60)
    assert rig.recorder.events == [("gang", "StalePodGroup", NOTE)]
    assert {(event.reason, event.note) for event in rig.evictor.events} == {("Evicted", NOTE)}


@pytest.mark.parametrize(("period", "evicted"), [("0s", ["m0", "m1"]), ("-1s", [])])
async def test_a_period_of_none_is_over_at_once_and_a_negative_one_never(period, evicted):
    rig = rig_with(stalenessGracePeriod=period)
    lose(rig)
    assert await after(rig, 0) == evicted
    assert await after(rig, 10**6) == evicted


async def test_a_gang_that_has_its_minimum_again_has_its_whole_period_anew():
    rig = rig_with()
    lose(rig)
    await after(rig, 0)
    await after(rig, 59)
    rig.engine.assigned.put(running(2))
    await after(rig, 1)
    lose(rig)
    await after(rig, 0)
    assert await after(rig, 59) == []
    assert await after(rig, 1) == ["m0", "m1"]


async def test_a_member_that_terminates_counts_until_it_is_gone():
    rig = rig_with()
    rig.engine.assigned.put(running(2, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}))
    await after(rig, 0)
    assert await after(rig, 1000) == []
    lose(rig)
    await after(rig, 0)
    assert await after(rig, 60) == ["m0", "m1"]


async def test_a_gang_of_which_a_pod_has_succeeded_runs_on_while_that_pod_is_there():
    rig = rig_with()
    rig.engine.assigned.put(running(2, status={"phase": "Succeeded"}))
    await after(rig, 0)
    assert await after(rig, 1000) == []
    lose(rig)
    await after(rig, 0)
    assert await after(rig, 60) == ["m0", "m1"]


async def test_a_gang_of_which_a_pod_has_failed_is_evicted():
    rig = rig_with()
    rig.engine.assigned.put(running(2, status={"phase": "Failed"}))
    await after(rig, 0)
    assert await after(rig, 60) == ["m0", "m1"]


async def test_a_gang_waits_for_the_room_of_a_replacement_that_preempts():
    rig = rig_with()
    lose(rig)
    rig.engine.assigned.put(on_node(ours("other", requests={"cpu": "8"}, priority=-5), "n2"))
    rig.engine.pending.put(member(3, priority=0))
    async with deciding(rig):
        await settle()
        assert [name for name, _, _ in rig.evictor.evicted] == ["other"]
        await after(rig, 0)
        assert await after(rig, 1000) == ["other"]


async def test_what_could_not_be_evicted_is_evicted_again_after_the_period():
    rig = rig_with()
    lose(rig)
    await after(rig, 0)
    await after(rig, 60)
    for answer in rig.evictor.answers.values():
        answer(False)
    assert len(await after(rig, 59)) == 2
    assert await after(rig, 1) == ["m0", "m0", "m1", "m1"]


async def test_only_what_the_minimum_of_the_whole_group_needs_counts():
    parts = [{"name": name, "minMember": 1} for name in "abc"]
    rig = rig_with(placed=0, minMember=None, minSubGroup=2, subGroups=parts)
    for index, part in enumerate("abc"):
        rig.node(f"n{index}")
        rig.engine.assigned.put(running(index, sub_group=part))
    lose(rig)
    await after(rig, 0)
    assert await after(rig, 60) == []
    lose(rig, 1)
    await after(rig, 0)
    assert await after(rig, 60) == ["m0"]


async def test_gangs_of_other_schedulers_are_left_to_these():
    rig = rig_with(scheduler="kai-scheduler")
    lose(rig)
    await after(rig, 0)
    assert await after(rig, 1000) == []


async def test_gangs_of_an_api_without_such_a_period_run_on():
    rig = Rig()
    rig.engine.cache.groups.serve(PLUGINS_API)
    made = {"metadata": {"name": "gang", "namespace": "default"}, "spec": {"minMember": 2}}
    rig.engine.objects(PLUGINS_KIND).put(made)
    rig.node("n0")
    rig.engine.assigned.put(on_node(ours("m0", labels={GROUP_LABEL: "gang"}), "n0"))
    await after(rig, 0)
    assert await after(rig, 10**6) == []


async def test_the_engine_looks_after_them(monkeypatch):
    monkeypatch.setattr(engine_module, "HOUSEKEEPING_SECONDS", 0.001)
    rig = rig_with(stalenessGracePeriod="0s")
    lose(rig)
    async with deciding(rig):
        housekeeping = asyncio.create_task(rig.engine.run_housekeeping())
        await until(lambda: sorted(name for name, _, _ in rig.evictor.evicted) == ["m0", "m1"])
        housekeeping.cancel()


@pytest.mark.parametrize("field", ["stalenessGracePeriod", "preemptionDelay"])
async def test_a_period_that_cannot_be_read_is_named_and_the_last_valid_one_counts(field):
    rig = rig_with()
    group(rig, **{field: "soon"})
    _, error = rig.engine.cache.groups.invalid("scheduling.run.ai:default/gang")
    assert str(error) == f"PodGroup default/gang: spec.{field}: 'soon' is not a duration"
    lose(rig)
    await after(rig, 0)
    assert await after(rig, 60) == ["m0", "m1"]
