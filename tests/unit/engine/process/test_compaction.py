"""Memory of deleted objects is freed regularly, also while the loop is busy."""

from __future__ import annotations

import asyncio

from podwright.engine import engine
from support.engine.kit import Rig, deciding, settle


async def test_housekeeping_compacts_caches_while_the_loop_is_busy(monkeypatch):
    monkeypatch.setattr(engine, "HOUSEKEEPING_SECONDS", 0)
    rig = Rig(bindings_at_once=1)
    compactions = []
    monkeypatch.setattr(rig.engine, "compact", lambda: compactions.append(len(rig.engine.binding_cycles)))
    rig.node("a")
    rig.cluster.outcomes = [asyncio.get_running_loop().create_future()]
    for name in ("slow", "next", "last"):
        rig.pod(name)
    async with deciding(rig):
        housekeeping = asyncio.create_task(rig.engine.run_housekeeping())
        await settle()
        assert set(compactions) == {1}
        housekeeping.cancel()
        await asyncio.gather(housekeeping, return_exceptions=True)


async def test_decisions_after_a_compaction_are_those_of_before():
    rig = Rig()
    for name in "ab":
        rig.node(name, labels={"kubernetes.io/hostname": name})
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    async with deciding(rig):
        for number in range(6):
            rig.pod(f"web{number}", labels={"app": "web"}, spec={"topologySpreadConstraints": [spread]})
            await settle()
            rig.engine.compact()
    assert sorted(node for _, node in rig.cluster.bound) == ["a"] * 3 + ["b"] * 3
