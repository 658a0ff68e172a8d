"""A running reflector with a sink that records, and what a watch may answer."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

from podwright.kube.kinds import NODE
from podwright.kube.watch.reflector import Reflector
from support.http.kit import api, forever, streams


class Recording:
    """A sink that records the objects that exist, with their version, and the keys that were dropped."""

    def __init__(self) -> None:
        self.objects: dict[str, str] = {}
        self.dropped: list[str] = []

    def key(self, raw):
        return raw["metadata"]["name"]

    def put(self, raw):
        self.objects[self.key(raw)] = raw["metadata"]["resourceVersion"]

    def drop(self, key, raw):
        self.objects.pop(key, None)
        self.dropped.append(key)


def item(name, version):
    return {"metadata": {"name": name, "resourceVersion": str(version)}}


def event(kind, raw):
    return {"type": kind, "object": raw}


def expired():
    return event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})


@asynccontextmanager
async def reflecting(*answers, resource=NODE, default=None, sink=None, **options):
    """A running reflector. After the answers its watch stays open, unless there is a default answer."""
    sink = sink or Recording()
    async with api(*answers, default=default or streams(then=forever)) as (http, script):
        reflector = Reflector(http, resource, sink, **options)
        task = asyncio.create_task(reflector.run())
        try:
            yield sink, script, reflector
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
