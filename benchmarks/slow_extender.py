"""`python -m benchmarks.slow_extender`: kube-scheduler and Podwright with the same extender, which takes some time for
each call.

Both place a backlog on the same API server, one after the other. The extender keeps all nodes and gives all the same
score. The rate is from the first Binding to the last, as a watch sees them.
"""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import click
import orjson
import yaml
from aiohttp import web

from benchmarks import schedulers
from benchmarks.backlog import place_backlog
from benchmarks.http_client import connect
from benchmarks.workloads import MEASURED_PREFIX
from podwright.testing import ControlPlane, Process, node, pod

TARGET = 10.0
"""How many times as many pods a second as kube-scheduler Podwright has to place."""


@asynccontextmanager
async def _extender(seconds: float) -> AsyncIterator[str]:
    """The URL of the extender."""

    async def filter_nodes(request: web.Request) -> web.Response:
        args = orjson.loads(await request.read())
        await asyncio.sleep(seconds)
        return web.Response(body=orjson.dumps({"NodeNames": args["NodeNames"]}))

    async def prioritize(request: web.Request) -> web.Response:
        args = orjson.loads(await request.read())
        await asyncio.sleep(seconds)
        return web.Response(body=orjson.dumps([{"Host": name, "Score": 5} for name in args["NodeNames"]]))

    app = web.Application(client_max_size=1 << 26)
    app.router.add_post("/filter", filter_nodes)
    app.router.add_post("/prioritize", prioritize)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def _configuration(name: str, url: str) -> dict[str, Any]:
    extender = {"urlPrefix": url, "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 1}
    return {"profiles": [{"schedulerName": name}], "extenders": [{**extender, "nodeCacheCapable": True}]}


def _start(cluster: ControlPlane, name: str, url: str, folder: Path, arguments: Sequence[str]) -> Process | Any:
    configuration = _configuration(name, url)
    if name == "kube-scheduler":
        return cluster.start_scheduler(configuration, name="slow-extender", wait=False)
    file = folder / "scheduler.yaml"
    header = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    file.write_text(yaml.safe_dump({**header, "leaderElection": {"leaderElect": False}, **configuration}))
    installed = schedulers.install(cluster)
    given = ("--leader-elect=false", f"--config={file}", *arguments)
    return schedulers.podwright(given).start(cluster, installed)


async def measure(nodes: int, pods: Mapping[str, int], seconds: float, arguments: Sequence[str]) -> dict[str, float]:
    """Pods a second of each scheduler. `pods`: how many each of them places; `seconds`: how long the extender takes for
    a call.
    """
    found = {}
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cluster = await asyncio.to_thread(ControlPlane().start)
        stack.callback(cluster.stop)
        await asyncio.to_thread(
            cluster.bulk.create, [node(f"node-{each}", cpu="64", pods="1000") for each in range(nodes)]
        )
        url = await stack.enter_async_context(_extender(seconds))
        api = await stack.enter_async_context(connect(cluster.kubeconfig))
        for name, count in pods.items():

            def start(name: str = name) -> Any:
                return _start(cluster, name, url, folder, arguments)

            names = (f"{MEASURED_PREFIX}{name}-{number}" for number in range(count))
            waiting = [pod(each, scheduler=name, cpu="10m", memory="1Mi") for each in names]
            found[name] = (await place_backlog(cluster, api, waiting, start)).pods_per_s
    return found


@click.command()
@click.option("--nodes", default=100, show_default=True)
@click.option("--pods", default=2_000, show_default=True, help="For Podwright; kube-scheduler places a tenth.")
@click.option("--milliseconds", default=20.0, show_default=True, help="How long the extender takes for a call.")
@click.option(
    "--podwright-argument", "arguments", multiple=True, help="An extra argument for `podwright run`. Repeatable."
)
def main(nodes: int, pods: int, milliseconds: float, arguments: Sequence[str]) -> None:
    """Measure kube-scheduler and Podwright with an extender that takes some time for each call."""
    counts = {"kube-scheduler": pods // 10, "podwright": pods}
    rates = asyncio.run(measure(nodes, counts, milliseconds / 1000, arguments))
    ratio = rates["podwright"] / rates["kube-scheduler"]
    click.echo(json.dumps({name: round(rate, 1) for name, rate in rates.items()}))
    click.echo(
        f"{ratio:.1f} times as many pods a second; the target is {TARGET:g}: {'met' if ratio >= TARGET else 'MISSED'}"
    )


if __name__ == "__main__":
    main()
