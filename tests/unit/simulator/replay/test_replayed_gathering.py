"""Room that large gangs gather in a replay, beside the engine on the same pods."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from podwright.api.scheduling_queue import parse_queue
from podwright.core.objects.pod import parse_pod
from podwright.core.objects.pod_group import GROUP_LABEL, PLUGINS_API, PLUGINS_KIND
from podwright.core.queues.queues import QUEUE_LABEL, queues_of
from podwright.core.state.reservations import gathered_name
from podwright.simulator.loaded import LoadOptions
from podwright.simulator.replay.run import BUILT_IN, ReplayCandidate, ReplayOptions, replay
from podwright.simulator.replay.stream import Arrival, PodLeaves, ReplayStream, sorted_events
from support.engine.kit import Rig, deciding, on_node, settle
from support.objects.queues import queue
from support.simulator.kit import item, node, pod

Waits = Mapping[str, float | None]

NODES = ("n0", "n1")
END = 2900.0
COMES = 610.0
"""When the gang comes."""


def rfc3339(seconds: float) -> str:
    return f"1970-01-01T00:{int(seconds) // 60:02d}:{int(seconds) % 60:02d}Z"


@dataclass(frozen=True)
class Comes:
    """A pod comes, and runs for so long on its node."""

    time: float
    name: str
    raw: dict[str, Any]
    runs: float = 600.0


def single(time: float, name: str, *, says: bool, runs: float = 600.0, of: str = "small") -> Comes:
    """`says`: it declares for how long it runs. Else it has an owner whose earlier pods ran for as long."""
    spec = {"activeDeadlineSeconds": int(runs)} if says else {}
    metadata = {"creationTimestamp": rfc3339(time)}
    labels = {QUEUE_LABEL: of}
    raw = pod(name, cpu="2", owner="" if says else "job", labels=labels, metadata=metadata, spec=spec)
    return Comes(time, name, raw, runs)


def stream(*, says: bool) -> list[Comes]:
    """A gang that needs both nodes, and pods that leave these in turn, so that they are never empty together. One comes
    while room is held, and says that it ends before the gang can start.
    """
    turns = [single(300.0 * k - 20 * bool(k), f"s{k}{i}", says=says) for k in range(9) for i in range(2)]
    labels, metadata = {QUEUE_LABEL: "large", GROUP_LABEL: "g"}, {"creationTimestamp": rfc3339(COMES)}
    gang = [Comes(COMES, f"g{i}", pod(f"g{i}", cpu="4", labels=labels, metadata=metadata)) for i in range(2)]
    return sorted([*turns, *gang, single(1220, "short", says=True, runs=200, of="others")], key=lambda each: each.time)


GROUP = item(
    "PodGroup",
    {"metadata": {"name": "g", "namespace": "default", "uid": "g"}, "spec": {"minMember": 2}},
    f"{PLUGINS_API}/v1alpha1",
)


def queues(gather_after: str) -> list[dict[str, Any]]:
    small = queue("small", resources={"cpu": {}}, reclaimMinRuntime="24h")
    said = {"gatherAfter": gather_after} if gather_after else {}
    large = queue("large", resources={"cpu": {"guarantee": "8"}}, **said)
    return [large, queue("others", resources={"cpu": {}}), small]


def waited(
    pods: list[Comes],
    gather_after: str,
    *more: dict[str, Any],
    leaves: Sequence[PodLeaves] = (),
    options: ReplayOptions | None = None,
) -> Waits:
    """How long the pods of each queue waited at most in a replay; None if they have no node in the end."""
    arrivals = [Arrival(each.time, parse_pod(each.raw), each.runs) for each in pods]
    initial = [*map(node, NODES), *queues(gather_after), GROUP, *more]
    played = ReplayStream(initial=initial, events=sorted_events([*arrivals, *leaves]), start=0.0, end=END)
    (card,) = replay(played, [ReplayCandidate(BUILT_IN)], options)
    return {each.queue: each.waiting.longest if each.placed else None for each in card.queues}


async def engine_starts(pods: list[Comes], gather_after: str) -> float:
    """When the engine starts the gang, which looks after gangs each second."""
    rig = Rig()
    rig.now = 0.0
    for name in NODES:
        rig.engine.nodes.put(node(name))
    for raw in queues(gather_after):
        queues_of(rig.engine.cache).set(parse_queue(raw))
    rig.engine.objects(PLUGINS_KIND).put(GROUP)
    by_name, started = {each.name: each for each in pods}, dict[str, float]()
    async with deciding(rig):
        while "g0" not in started and rig.now < END:
            for each in pods:
                if each.name in started and rig.now == started[each.name] + each.runs:
                    rig.engine.assigned.drop(each.raw["metadata"]["uid"], None)
                if each.time == rig.now:
                    rig.engine.pending.put(each.raw)
            rig.engine.wake()
            await settle()
            for name, where in rig.cluster.bound[len(started) :]:
                started[name] = rig.now
                running = {"status": {"phase": "Running", "startTime": rfc3339(rig.now)}}
                rig.confirm(on_node(by_name[name].raw | running, where), where)
            rig.engine.reservations.expire()
            rig.engine.gathering.begin()
            names = ("podwright release of gathered room", "podwright gathering of room")
            await asyncio.gather(*(task for task in asyncio.all_tasks() if task.get_name() in names))
            await settle()
            rig.now += 1
    assert started["g0"] == started["g1"]
    return started["g0"]


@pytest.mark.parametrize("says", [True, False], ids=["pods say how long they run", "earlier pods of their owner tell"])
async def test_a_large_gang_that_starves_starts_with_the_room_that_it_gathers_when_the_engine_starts_it(says):
    pods = stream(says=says)
    assert waited(pods, "0s")["large"] is None
    waits = waited(pods, "5m")
    assert waits["large"] == await engine_starts(pods, "5m") - COMES == 870.0
    assert waits["others"] == 0


@pytest.mark.parametrize(("said", "waits"), [("", 870.0), ("0s", None)])
def test_the_option_of_the_operator_counts_for_a_queue_that_does_not_say_when(said, waits):
    options = ReplayOptions(load=LoadOptions(gather_after=300.0))
    assert waited(stream(says=True), said, options=options)["large"] == waits


@pytest.mark.parametrize("comes", [True, False])
def test_room_that_was_held_at_the_start_is_held_for_its_gang_alone(comes):
    held = {
        "apiVersion": "podwright.dev/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": gathered_name("g"), "creationTimestamp": rfc3339(0)},
        "spec": {
            "namespace": "default",
            "podGroup": {"apiGroup": PLUGINS_API, "name": "g", "uid": "g"},
            "slots": [{"node": name, "requests": {"cpu": "4"}} for name in NODES],
            "duration": "1h",
        },
    }
    gang = [replace(each, time=0.0) for each in stream(says=True) if each.name in ("g0", "g1")]
    small = [single(1, f"s{i}", says=True) for i in range(2)]
    before = pod("before", on="n0", cpu="4", labels={QUEUE_LABEL: "small"})
    waits = waited([*(gang if comes else ()), *small], "5m", held, before, leaves=[PodLeaves(500, "default/before")])
    assert waits == ({"large": 500, "small": 1099} if comes else {"small": 0})
