"""A controller of policies with a scripted API server, and what it has done to the engine."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass

from podwright.engine.engine import Engine
from podwright.kube.policies.controller import PolicyController
from podwright.kube.write.write_limit import WriteLimit
from support.engine.kit import Rig
from support.http.kit import Script, api, says
from support.objects.builders import make_policy
from support.waiting import patience


@dataclass
class Controlled:
    """A controller, the API server that it talks to, and what it has done to the engine."""

    controller: PolicyController
    script: Script
    engine: Engine
    names_served: list[frozenset[str]]

    @property
    def active(self):
        return self.engine.policies.policy_set.active

    async def becomes(self, holds):
        """Returns once this holds."""
        async with patience():
            while not holds():
                await asyncio.sleep(0.005)

    async def requests(self, count):
        """The requests, of which there must be this many."""
        async with patience():
            while len(self.script.requests) < count:
                await asyncio.sleep(0.005)
        await asyncio.sleep(0.02)
        assert len(self.script.requests) == count
        return self.script.requests


@asynccontextmanager
async def controlled(*answers, default=None, rig=None, kind=None, events=None):
    engine, served = (rig or Rig()).engine, []
    async with api(*answers, default=default or says(200, {})) as (http, script):
        unbounded = WriteLimit(per_second=1e6, at_once=1_000_000)
        clock = lambda: 1_700_000_000.0
        controller = PolicyController(
            http, engine, clock=clock, on_names_served=served.append, kind=kind, events=events, limit=unbounded
        )
        task = asyncio.gather(controller.run_status_writes(), controller.run_changes())
        try:
            yield Controlled(controller, script, engine, served)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def policy(name="p", generation=1, uid="u", strategy=None, status=None, **spec):
    raw = make_policy(name, generation, uid, strategy={"type": strategy or "Random"}, **spec)
    return {**raw, "status": status} if status is not None else raw
