"""The process of the extender: what it serves of the scheduler's, and that it ends at once."""

from __future__ import annotations

import aiohttp

from podwright.extender.server.options import ExtenderOptions
from podwright.extender.server.runtime import ExtenderRuntime
from podwright.kube.options.options import Options
from support.runtime.server import api_server


async def test_it_serves_health_and_metrics_but_no_page_and_explains_no_pods(tmp_path, monkeypatch):
    async with api_server(tmp_path, monkeypatch) as server:
        server.node("a")
        kubeconfig = str(server.sandbox.write_kubeconfig(tmp_path / "extender"))
        common = Options(kubeconfig=kubeconfig, asks_extenders=False)
        runtime = ExtenderRuntime(ExtenderOptions(common=common, address=("127.0.0.1", 0)))
        await runtime.start()
        assert runtime.missing() == []
        found = {}
        async with aiohttp.ClientSession(f"http://127.0.0.1:{runtime.port}") as session:
            for path in ("/livez", "/readyz", "/metrics", "/configz", "/", "/debug/explain", "/debug/shadow"):
                async with session.get(path) as answer:
                    found[path] = answer.status
        await runtime.stop()
        served = dict.fromkeys(("/livez", "/readyz", "/metrics", "/configz"), 200)
        assert found == served | dict.fromkeys(("/", "/debug/explain", "/debug/shadow"), 404)
