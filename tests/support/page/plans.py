"""A policy that would empty nodes of four racks, in an engine that the page shows."""

from __future__ import annotations

from podwright.engine.rebalance.recent import RecentMoves
from support.engine.kit import Rig, on_node, ours
from support.page.teams import GPU
from support.rebalance.fragmented import owner
from support.rebalance.kit import rules


def plans(rig: Rig, name: str = "tidy", note: str = "") -> None:
    """Plans soon, in the loop that is running. `note`: in the names of pods and racks."""
    for number in range(48):
        labels = {"rack": f"rack-{number // 12}{note}"}
        rig.node(f"node-{number:02}", labels=labels, allocatable={"cpu": "64", GPU: "8"})
        for each in range(number % 4):
            app = f"web-{number}-{each}"
            raw = ours(
                f"{app}{note}",
                namespace="team" if number % 2 else "other",
                requests={"cpu": "4", GPU: "1" if number % 3 else "2"},
                metadata={"ownerReferences": [owner(app)]},
            )
            rig.engine.assigned.put(on_node(raw, f"node-{number:02}"))
    given = rules(name=name, mode="Plan", cooldown="0s", goals=[{"type": "EmptyNodes"}], maxMoves=40)
    rig.engine.rebalancing.set(given, RecentMoves())
    rig.engine.rebalancing.begin()
