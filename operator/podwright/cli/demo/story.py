"""What happens in the demo, act by act; each act ends with what must be true then.

web (LeastAllocated) ─► batch (MostAllocated) ─► pinned, too big ─► the batch policy edited ─► more batch pods
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any, Final

from podwright.api.compile import BUILT_IN
from podwright.api.policy_status import ACCEPTED, ACTIVE
from podwright.cli.demo import checks
from podwright.cli.demo.api import DemoError, NotInTimeError, explained, until
from podwright.cli.demo.objects import BATCH, COUNTS, NEXT, PINNED, TOO_BIG, UNITS, WEB, ZONE, Size, pod, policy
from podwright.cli.demo.scene import DemoPod, Finding, Scene, fits, free
from podwright.cli.demo.setting import Setting, cluster_objects
from podwright.cli.demo.stage import Stage
from podwright.core.objects.resources import CPU, MEMORY
from podwright.core.state.nodeinfo import NodeInfo
from podwright.kube.kinds import EVENT, POD, POLICY

BEFORE: Final = "MostAllocated"
AFTER: Final = "LeastAllocated"
HOSTNAME: Final = "kubernetes.io/hostname"
LARGEST_UNIT: Final = 500
SMALLEST_UNIT: Final = 10
SHARE: Final = 160
"""A unit is at most this part of the CPU that is free; all pods together ask for less than half of it."""
SLACK: Final = 0.1
"""On a cluster other plugins may prefer a node that is fuller by so much: nodes are not all of one shape there."""


class Story:
    """See the module. `pace`: seconds between two pods, for people to watch."""

    def __init__(self, setting: Setting, scene: Scene, stage: Stage, pace: float) -> None:
        self._setting, self._scene, self._stage, self._pace = setting, scene, stage, pace
        self._api, self._names = setting.api, setting.names
        self._size = Size(LARGEST_UNIT, 0)
        self._slack = 0.0 if setting.sandbox else SLACK

    async def play(self) -> None:
        """All acts. What does not hold is a finding of the scene. Raises DemoError when it cannot go on."""
        async with explained("the API server"):
            await self._look()
            self._size = self._unit()
            await self._policies()
            await self._web()
            await self._batch()
            await self._pinned()
            await self._too_big()
            await self._edit()
            await self._next()
            await self._look()
            self._find(checks.not_overcommitted(self._scene))

    # Acts

    async def _policies(self) -> None:
        names = self._names
        self._stage.act(f"Two policies: web pods are spread ({AFTER}), batch pods are packed ({BEFORE})")
        for name, group, strategy in ((names.web_policy, WEB, AFTER), (names.batch_policy, BATCH, BEFORE)):
            created = await self._api.create(policy(names, name, group, strategy))
            await self._in_force(name, created["metadata"]["generation"])

    async def _web(self) -> None:
        self._stage.act(f"{COUNTS[WEB]} web pods: each goes to the emptiest node")
        pods = await self._submit(WEB)
        self._find(checks.decided_by(pods, self._names.web_policy, 1))
        self._find(checks.emptiest(self._scene, pods, self._size.times(UNITS[WEB]), self._slack))

    async def _batch(self) -> None:
        self._stage.act(f"{COUNTS[BATCH]} batch pods: one node is filled before the next is begun")
        pods = await self._submit(BATCH)
        self._find(checks.decided_by(pods, self._names.batch_policy, 1))
        self._find(checks.packed(self._scene, pods, self._size.times(UNITS[BATCH])))

    async def _pinned(self) -> None:
        selector = self._selector()
        (value,) = selector.values()
        self._stage.act(
            f"{COUNTS[PINNED]} pods of no policy: kube-scheduler's defaults, and the nodes that they select ({value})"
        )
        pods = await self._submit(PINNED, selector)
        self._find(checks.decided_by(pods, BUILT_IN, 0))
        self._find(checks.selected(self._scene, pods, selector))

    async def _too_big(self) -> None:
        self._stage.act("A pod that asks for 1000 CPUs: it stays pending, and says why")
        (raw,) = self._raw(TOO_BIG, None)
        own = self._scene.pods[TOO_BIG] = DemoPod(TOO_BIG, TOO_BIG)
        await self._api.create(raw)

        async def told() -> bool:
            await self._refresh()
            own.why = await self._note(own)
            return bool(own.why)

        await until(told, f"an event FailedScheduling of pod {own.name}", alive=self._setting.check_operator)
        self._stage.update()
        self._find(checks.unplaced(own, len(self._scene.nodes())))

    async def _edit(self) -> None:
        name = self._names.batch_policy
        self._stage.act(f"Policy {name} is edited while everything runs")
        self._scene.edit_title = f"kubectl edit schedulerpolicy {name}"
        self._scene.edit = ["  strategy:", f"-   type: {BEFORE}", f"+   type: {AFTER}"]
        self._stage.update()
        changed = await self._api.merge(POLICY, name, {"spec": {"strategy": {"type": AFTER}}})
        generation = changed["metadata"]["generation"]
        seconds = await self._in_force(name, generation)
        found = f"generation {generation} was active within {math.ceil(seconds * 10) / 10 or 0.1} s"
        self._find(Finding("the edited policy is in force, nothing was restarted", found, holds=generation == 2))
        await asyncio.sleep(5 * self._pace)

    async def _next(self) -> None:
        self._stage.act(f"The next {COUNTS[NEXT]} batch pods follow the edited policy: to the emptiest nodes")
        pods = await self._submit(NEXT)
        self._find(checks.decided_by(pods, self._names.batch_policy, 2))
        self._find(checks.emptiest(self._scene, pods, self._size.times(UNITS[NEXT]), self._slack))
        await asyncio.sleep(5 * self._pace)

    # What acts are made of

    def _find(self, finding: Finding) -> None:
        self._scene.findings.append(finding)
        self._stage.finding(finding)

    def _raw(self, group: str, selector: dict[str, str] | None) -> list[dict[str, Any]]:
        count = COUNTS[group]
        names = [f"{group}-{i + 1:02d}" for i in range(count)] if count > 1 else [group]
        return [pod(self._names, name, group, self._size, selector) for name in names]

    async def _submit(self, group: str, selector: dict[str, str] | None = None) -> Sequence[DemoPod]:
        """Creates the group's pods and waits until all of them are bound."""
        raws = self._raw(group, selector)
        for raw in raws:
            name = raw["metadata"]["name"]
            self._scene.pods[name] = DemoPod(name, group)
            await self._api.create(raw)
            await self._refresh()
            await asyncio.sleep(self._pace)
        pods = self._scene.group(group)

        async def bound() -> bool:
            await self._refresh()
            return all(own.node for own in pods)

        try:
            await until(bound, f"all {len(raws)} {group} pods being bound", alive=self._setting.check_operator)
        except NotInTimeError as error:
            notes = [f"{own.name}: {await self._note(own) or 'no event'}" for own in pods if not own.node]
            raise NotInTimeError("\n".join([str(error), *notes])) from error
        await self._look()
        await asyncio.sleep(5 * self._pace)
        return pods

    async def _look(self) -> None:
        nodes, pods = await cluster_objects(self._api)
        self._scene.set_cluster(nodes, pods, self._names.namespace)
        self._stage.update()

    async def _refresh(self) -> None:
        self._setting.check_operator()
        self._scene.take(await self._api.list(POD, self._names.namespace))
        self._stage.update()

    async def _note(self, own: DemoPod) -> str:
        """The note of the newest FailedScheduling event of a pod, empty if there is none."""
        events = await self._api.list(EVENT, self._names.namespace)
        notes = [
            str(event.get("note") or "")
            for event in events
            if event.get("reason") == "FailedScheduling" and event["regarding"].get("uid") == own.uid
        ]
        return notes[-1] if notes else ""

    async def _in_force(self, name: str, generation: int) -> float:
        """Waits until this generation of a policy decides; the seconds it took. Raises DemoError if it is not accepted."""

        async def active() -> bool:
            status = (await self._api.read(POLICY.path(name))).get("status") or {}
            if status.get("observedGeneration") != generation:
                return False
            conditions = {condition["type"]: condition for condition in status.get("conditions") or ()}
            if conditions[ACCEPTED]["status"] != "True":
                raise DemoError(f"policy {name} was not accepted: {conditions[ACCEPTED]['message']}")
            return bool(conditions[ACTIVE]["status"] == "True")

        what = f"generation {generation} of policy {name} being in force"
        return await until(active, what, alive=self._setting.check_operator)

    def _unit(self) -> Size:
        """A size that leaves the cluster at ease. Raises DemoError if there is too little room."""
        usable = self._scene.usable()
        if len(usable) < 2:
            raise DemoError(f"two nodes that take pods are needed to show a choice; this cluster has {len(usable)}")
        room = {name: sum(max(0, free(info, name)) for info in usable) for name in (CPU, MEMORY)}
        has = {name: sum(info.allocatable(name) for info in usable) for name in (CPU, MEMORY)}
        cpu = max(SMALLEST_UNIT, min(LARGEST_UNIT, room[CPU] // SHARE))
        memory = cpu * min(has[MEMORY] // max(1, has[CPU]), room[MEMORY] // max(1, room[CPU]))
        size = Size(cpu, memory)
        wanted = sum(COUNTS[group] for group in UNITS)
        places = sum(_places(info, size) for info in usable)
        if places < wanted:
            raise DemoError(f"there is room for {places} of the demo's {wanted} pods ({cpu}m CPU and more each)")
        return size

    def _selector(self) -> dict[str, str]:
        """A zone that is not the first, or a node where there are no zones."""
        zones = [zone for zone in self._scene.zones() if zone]
        if len(zones) > 1:
            return {ZONE: zones[1]}
        request = self._size.times(UNITS[PINNED] * COUNTS[PINNED])
        node = next((info for info in reversed(self._scene.usable()) if fits(info, request)), None)
        if node is None:
            raise DemoError("no node has room for two pods")
        return {HOSTNAME: node.present.labels.get(HOSTNAME, node.name)}


def _places(info: NodeInfo, size: Size) -> int:
    """How many of the largest pods still fit on a node."""
    largest = size.times(max(UNITS.values()))
    by_amount = min(free(info, name) // max(1, amount) for name, amount in largest.items())
    return max(0, min(by_amount, info.allocatable("pods") - len(info.pods)))
