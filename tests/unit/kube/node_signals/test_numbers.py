"""The numbers of sources for a snapshot: each is asked once, and one that fails harms no other."""

from __future__ import annotations

from podwright.api.configuration.signals import load_signals
from podwright.kube.node_signals.numbers import current_numbers
from support.http.kit import api, says, served
from support.signals.feeds import prometheus_says

FILE = """
signals:
- {name: used, resource: cpu, metricsAPI: {}}
- {name: busy, maximum: 100, staleness: 60s, prometheus: {url: URL, query: up}}
- {name: dead, timeout: 300ms, prometheus: {url: "http://127.0.0.1:1", query: up}}
- {name: noted, annotation: {key: example.com/load}}
"""


async def test_sources_are_asked_and_what_they_lack_is_named(monkeypatch):
    now = 1_800_000_000.0
    monkeypatch.setattr("podwright.kube.node_signals.numbers.time.time", lambda: now)
    stamp = "2027-01-15T07:59:50Z"
    items = [{"metadata": {"name": "a"}, "timestamp": stamp, "usage": {"cpu": "2500m"}}]
    result = [
        {"metric": {"node": name}, "value": [now - age, text]}
        for name, age, text in (("a", 5.0, "12.5"), ("b", 90.0, "30"), ("c", 5.0, "NaN"), ("d", 5.0, "101"))
    ]
    said = {"status": "success", "data": {"resultType": "vector", "result": result}}
    listed = says(200, {"kind": "NodeMetricsList", "items": items}, **{"Content-Type": "application/json"})
    async with api(listed) as (http, _), served(prometheus_says(said)) as (url, _script):
        signals = load_signals(FILE.replace("URL", url).encode())
        numbers, problems = await current_numbers(signals, http, nodes=4)
    assert numbers == {"used": {"a": 2.5}, "busy": {"a": 12.5}, "dead": {}}
    assert set(problems) == {"busy", "dead"}
    assert "the numbers of 2 nodes are not finite, or out of bounds" in problems["busy"]
