"""Policies in shadow mode, and pods of another scheduler that they look at."""

from __future__ import annotations

from typing import Any

from podwright.engine.process.steps import at_once
from podwright.engine.shadow.comparison import ComparisonOutcome
from podwright.engine.shadow.report import reports
from podwright.engine.shadow.tally import AgreementStats
from support.engine.kit import Rig, on_node, settle
from support.objects.builders import make_pod

OTHER = "default-scheduler"


def shadow_policy(name: str = "eye", generation: int = 1, **spec: Any) -> dict[str, Any]:
    """A policy that looks at the pods of the default scheduler."""
    return {
        "metadata": {"name": name, "uid": name, "generation": generation},
        "spec": {"schedulerName": OTHER, "mode": "Shadow", **spec},
    }


def theirs(name: str, *, unschedulable: str | None = None, nominated: str = "", **options: Any) -> dict[str, Any]:
    """A pending pod of another scheduler. `unschedulable`: why that finds no node, as its condition says."""
    raw = make_pod(name, spec={"schedulerName": OTHER, **options.pop("spec", {})}, **options)
    status: dict[str, Any] = raw.setdefault("status", {})
    if unschedulable is not None:
        status["conditions"] = [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": unschedulable}
        ]
    if nominated:
        status["nominatedNodeName"] = nominated
    return raw


class ShadowRig(Rig):
    """An engine with policies in shadow mode; tests play the other scheduler."""

    async def apply(self, *policies: dict[str, Any]) -> None:
        """Applies policies as their controller does."""
        for raw in policies:
            result = self.engine.policies.apply(raw)
            assert result.accepted, result.message
        self.engine.policies_changed()
        await settle()

    async def appears(self, raw: dict[str, Any]) -> dict[str, Any]:
        """A pod of another scheduler is pending, or has changed."""
        self.engine.shadow.pods.put(raw)
        await settle()
        return raw

    async def placed(self, raw: dict[str, Any], node: str, *, seen: bool = True) -> None:
        """Another scheduler has placed the pod, which was pending before if it was `seen`."""
        if seen:
            self.engine.shadow.pods.put(raw)
        uid = raw["metadata"]["uid"]
        self.engine.assigned.put(on_node(raw, node))
        self.engine.shadow.pods.drop(uid, raw)
        await settle()

    async def caught_up(self) -> None:
        """Until every pod is compared or skipped, and the worlds have taken everything over."""
        shadow = self.engine.shadow
        for _ in range(2_000):
            await settle()
            if not shadow.waiting and not shadow.worlds.has_work:
                await settle()
                return
        raise AssertionError("the policies in shadow mode have not caught up")

    def tally(self, name: str = "eye") -> AgreementStats:
        """The tally of a policy, which must be in shadow mode."""
        found = self.engine.shadow.tallies.of(name)
        assert found is not None, f"policy {name} is not in shadow mode"
        return found

    def outcomes(self, name: str = "eye") -> dict[ComparisonOutcome, int]:
        """How often each outcome was."""
        return {outcome: count for outcome, count in self.tally(name).outcomes.items() if count}

    def report(self, name: str = "") -> dict[str, Any]:
        """The answer of /debug/shadow."""
        return at_once(reports(self.engine.shadow, name))


def small_and_large() -> ShadowRig:
    """A rig with two nodes, `a` and the larger `b`, and room for any number of pods."""
    rig = ShadowRig()
    for name, cpu in (("a", "1000"), ("b", "9000")):
        rig.node(name, allocatable={"cpu": cpu, "pods": "100000"})
    return rig
