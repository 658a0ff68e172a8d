"""Feeds of signals on a rig, and what a Prometheus says."""

from __future__ import annotations

import orjson
from aiohttp import web

from podwright.kube.client.http import Http
from podwright.kube.node_signals.feeds import SignalFeeds
from support.http.kit import source_of

WALL = 1_800_000_000.0


def feeds_of(rig, http=None):
    return SignalFeeds(
        rig.signals,
        http or Http(source_of("http://127.0.0.1:1")),
        intake=rig.engine.node_signals,
        metrics=rig.ports.metrics,
        wall=lambda: WALL,
    )


def vector(age=1.0, **loads):
    result = [{"metric": {"node": name, "x": "y"}, "value": [WALL - age, str(load)]} for name, load in loads.items()]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


def prometheus_says(body, status=200, content_type="application/json"):
    async def answer(_request):
        content = body if isinstance(body, bytes) else orjson.dumps(body)
        return web.Response(status=status, body=content, headers={"Content-Type": content_type})

    return answer
