"""The steps of the demo; each step ends with its checks.

web pods (LeastAllocated) ─► batch pods (MostAllocated) ─► pinned pods, a GPU pod (sandbox), a pod too big
    ─► edit the batch policy ─► more batch pods
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any, Final

from podwright.api.compile import BUILT_IN
from podwright.api.policy_status import ACCEPTED, ACTIVE
from podwright.cli.demo import checks
from podwright.cli.demo.api import DemoError, NotInTimeError, demo_errors, wait_until
from podwright.cli.demo.display import Display
from podwright.cli.demo.environment import DemoEnvironment
from podwright.cli.demo.objects import BATCH, COUNTS, GPU, NEXT, PINNED, TOO_BIG, UNITS, WEB, Size, gpus, pod, policy
from podwright.cli.demo.state import CheckResult, DemoPod, DemoState, fits, free
from podwright.core.objects.node import HOSTNAME
from podwright.core.objects.resources import CPU, MEMORY
from podwright.core.objects.volumes import ZONE
from podwright.core.state.nodeinfo import NodeInfo
from podwright.kube.kinds import EVENT, NODE, POD, POLICY, WATCHED

BEFORE: Final = "MostAllocated"
AFTER: Final = "LeastAllocated"
CLAIM: Final = WATCHED["ResourceClaim"]
LARGEST_UNIT: Final = 500
SMALLEST_UNIT: Final = 10
SHARE: Final = 160
"""A unit is at most 1/160 of the free CPU, so that all pods together request less than half of it."""
SLACK: Final = 0.1
"""On a cluster, nodes differ in shape, and other plugins may prefer a node whose usage is higher by up to this
fraction.
"""


class Scenario:
    """Runs the steps; see the module. `pace`: seconds between pods, so that people can follow."""

    def __init__(self, environment: DemoEnvironment, state: DemoState, display: Display, pace: float) -> None:
        self._environment, self._state, self._display, self._pace = environment, state, display, pace
        self._api, self._names = environment.api, environment.names
        self._size = Size(LARGEST_UNIT, 0)
        self._slack = 0.0 if environment.sandbox else SLACK

    async def run(self) -> None:
        """Runs all steps. A failed check is recorded in the state. Raises DemoError when the demo cannot continue."""
        async with demo_errors("the API server"):
            await self._refresh_cluster()
            self._size = self._unit()
            await self._policies()
            await self._web()
            await self._batch()
            await self._pinned()
            if self._environment.sandbox:
                await self._gpu()
            await self._too_big()
            await self._edit()
            await self._next()
            await self._refresh_cluster()
            self._report(checks.not_overcommitted(self._state))

    # Steps

    async def _policies(self) -> None:
        names = self._names
        self._display.step(f"Two policies: web pods are spread ({AFTER}), batch pods are packed ({BEFORE})")
        for name, group, strategy in ((names.web_policy, WEB, AFTER), (names.batch_policy, BATCH, BEFORE)):
            created = await self._api.create(policy(names, name, group, strategy))
            await self._wait_until_active(name, created["metadata"]["generation"])

    async def _web(self) -> None:
        self._display.step(f"{COUNTS[WEB]} web pods: each goes to the emptiest node")
        pods = await self._submit(WEB)
        self._report(checks.decided_by(pods, self._names.web_policy, 1))
        self._report(checks.emptiest(self._state, pods, self._size.times(UNITS[WEB]), self._slack))

    async def _batch(self) -> None:
        self._display.step(f"{COUNTS[BATCH]} batch pods: they fill one node before using the next")
        pods = await self._submit(BATCH)
        self._report(checks.decided_by(pods, self._names.batch_policy, 1))
        self._report(checks.packed(self._state, pods, self._size.times(UNITS[BATCH])))

    async def _pinned(self) -> None:
        selector = self._selector()
        (value,) = selector.values()
        self._display.step(
            f"{COUNTS[PINNED]} pods without a policy: kube-scheduler's defaults place them on the nodes that they "
            f"select ({value})"
        )
        pods = await self._submit(PINNED, selector)
        self._report(checks.decided_by(pods, BUILT_IN, 0))
        self._report(checks.selected(self._state, pods, selector))

    async def _gpu(self) -> None:
        request = self._size.times(UNITS[GPU])
        node = next(info.name for info in reversed(self._state.usable()) if fits(info, request))
        self._display.step(f"A pod with a ResourceClaim: {node} has the only GPU, and the pod gets it")
        (raw,) = self._raw(GPU, None)
        *published, claim = gpus(self._names, node, raw["metadata"]["name"])
        for created in (*published, claim):
            await self._api.create(created)
        (own,) = await self._submit(GPU)
        stored = await self._api.read(CLAIM.path(claim["metadata"]["name"], self._names.namespace))
        self._report(checks.has_device(own, stored, node))

    async def _too_big(self) -> None:
        self._display.step("A pod that requests 1000 CPUs: it stays pending, and its event says why")
        (raw,) = self._raw(TOO_BIG, None)
        own = self._state.add_pod(TOO_BIG, TOO_BIG)
        await self._api.create(raw)

        async def failed() -> bool:
            await self._refresh_pods()
            own.failure = await self._note(own)
            return bool(own.failure)

        await wait_until(
            failed, f"a FailedScheduling event for pod {own.name}", check_alive=self._environment.check_operator
        )
        self._display.update()
        self._report(checks.unplaced(own, len(self._state.nodes())))

    async def _edit(self) -> None:
        name = self._names.batch_policy
        self._display.step(f"Policy {name} is edited while the operator runs")
        diff = ["  strategy:", f"-   type: {BEFORE}", f"+   type: {AFTER}"]
        self._state.edit_title, self._state.edit = f"kubectl edit schedulerpolicy {name}", diff
        self._display.update()
        changed = await self._api.merge(POLICY, name, {"spec": {"strategy": {"type": AFTER}}})
        generation = changed["metadata"]["generation"]
        seconds = await self._wait_until_active(name, generation)
        found = f"generation {generation} was active within {math.ceil(seconds * 10) / 10 or 0.1} s"
        self._report(CheckResult("the edited policy takes effect without a restart", found, holds=generation == 2))
        await asyncio.sleep(5 * self._pace)

    async def _next(self) -> None:
        self._display.step(f"{COUNTS[NEXT]} more batch pods follow the edited policy: each goes to the emptiest node")
        pods = await self._submit(NEXT)
        self._report(checks.decided_by(pods, self._names.batch_policy, 2))
        self._report(checks.emptiest(self._state, pods, self._size.times(UNITS[NEXT]), self._slack))
        await asyncio.sleep(5 * self._pace)

    # Parts of steps

    def _report(self, result: CheckResult) -> None:
        self._state.results.append(result)
        self._display.result(result)

    def _raw(self, group: str, selector: dict[str, str] | None) -> list[dict[str, Any]]:
        count = COUNTS[group]
        names = [f"{group}-{i + 1:02d}" for i in range(count)] if count > 1 else [group]
        return [pod(self._names, name, group, self._size, selector) for name in names]

    async def _submit(self, group: str, selector: dict[str, str] | None = None) -> Sequence[DemoPod]:
        """Creates the group's pods and waits until all of them are bound."""
        raws = self._raw(group, selector)
        for raw in raws:
            name = raw["metadata"]["name"]
            self._state.add_pod(name, group)
            await self._api.create(raw)
            await self._refresh_pods()
            await asyncio.sleep(self._pace)
        pods = self._state.group(group)

        async def bound() -> bool:
            await self._refresh_pods()
            return all(own.node for own in pods)

        try:
            await wait_until(
                bound, f"all {len(raws)} {group} pods to be bound", check_alive=self._environment.check_operator
            )
        except NotInTimeError as error:
            notes = [f"{own.name}: {await self._note(own) or 'no event'}" for own in pods if not own.node]
            raise NotInTimeError("\n".join([str(error), *notes])) from error
        await self._refresh_cluster()
        await asyncio.sleep(5 * self._pace)
        return pods

    async def _refresh_cluster(self) -> None:
        nodes, pods = await self._api.list(NODE), await self._api.list(POD)
        self._state.set_cluster(nodes, pods, self._names.namespace)
        self._display.update()

    async def _refresh_pods(self) -> None:
        self._environment.check_operator()
        self._state.set_pods(await self._api.list(POD, self._names.namespace))
        self._display.update()

    async def _note(self, own: DemoPod) -> str:
        """The note of the newest FailedScheduling event of a pod; empty without such an event."""
        events = await self._api.list(EVENT, self._names.namespace)
        notes = [
            str(event.get("note") or "")
            for event in events
            if event.get("reason") == "FailedScheduling" and event["regarding"].get("uid") == own.uid
        ]
        return notes[-1] if notes else ""

    async def _wait_until_active(self, name: str, generation: int) -> float:
        """Waits until this generation of a policy is active, and returns the seconds this took. Raises DemoError if it
        is rejected.
        """

        async def active() -> bool:
            status = (await self._api.read(POLICY.path(name))).get("status") or {}
            if status.get("observedGeneration") != generation:
                return False
            conditions = {condition["type"]: condition for condition in status.get("conditions") or ()}
            if conditions[ACCEPTED]["status"] != "True":
                raise DemoError(f"policy {name} was not accepted: {conditions[ACCEPTED]['message']}")
            return bool(conditions[ACTIVE]["status"] == "True")

        expected = f"generation {generation} of policy {name} to become active"
        return await wait_until(active, expected, check_alive=self._environment.check_operator)

    def _unit(self) -> Size:
        """The unit of the pods' requests, small against the free capacity. Raises DemoError if there is too little
        room.
        """
        usable = self._state.usable()
        if len(usable) < 2:
            raise DemoError(f"the demo needs at least two nodes that accept pods; this cluster has {len(usable)}")
        room = {name: sum(max(0, free(info, name)) for info in usable) for name in (CPU, MEMORY)}
        has = {name: sum(info.allocatable(name) for info in usable) for name in (CPU, MEMORY)}
        cpu = max(SMALLEST_UNIT, min(LARGEST_UNIT, room[CPU] // SHARE))
        memory = cpu * min(has[MEMORY] // max(1, has[CPU]), room[MEMORY] // max(1, room[CPU]))
        size = Size(cpu, memory)
        wanted = sum(COUNTS[group] for group in UNITS)
        places = sum(_places(info, size) for info in usable)
        if places < wanted:
            raise DemoError(
                f"the cluster has room for only {places} of the demo's {wanted} pods ({cpu}m CPU or more each)"
            )
        return size

    def _selector(self) -> dict[str, str]:
        """A node selector for the second zone, or for one node if the cluster has fewer than two zones."""
        zones = [zone for zone in self._state.zones() if zone]
        if len(zones) > 1:
            return {ZONE: zones[1]}
        request = self._size.times(UNITS[PINNED] * COUNTS[PINNED])
        node = next((info for info in reversed(self._state.usable()) if fits(info, request)), None)
        if node is None:
            raise DemoError(f"no node has room for the {COUNTS[PINNED]} pods that select it")
        return {HOSTNAME: node.present.labels.get(HOSTNAME, node.name)}


def _places(info: NodeInfo, size: Size) -> int:
    """How many more of the largest pods fit on a node."""
    largest = size.times(max(UNITS.values()))
    by_amount = min(free(info, name) // max(1, amount) for name, amount in largest.items())
    return max(0, min(by_amount, info.allocatable("pods") - len(info.pods)))
