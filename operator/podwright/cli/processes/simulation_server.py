"""Runs the HTTP API of `podwright simulate --serve` until it is interrupted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import click
from aiohttp import web

from podwright.kube.bounded_files import read_at_most
from podwright.kube.serve.access.gates import is_loopback
from podwright.kube.signals import catch_signals
from podwright.simulator.loaded import LoadedCluster
from podwright.simulator.server import RequestLimits, SimulationServer


def serve(read: Callable[[], LoadedCluster], listen: str, token_file: str | None, seconds: float) -> None:
    """Serves until SIGTERM or SIGINT. Raises UsageError and ClickException."""
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise click.UsageError(f"--listen: {listen!r} is not of the form 127.0.0.1:8089")
    local = is_loopback(host)
    if not local and token_file is None:
        raise click.UsageError(f"--listen: {host} is not a loopback address, so --token-file is needed")
    try:
        token = "" if token_file is None else read_at_most(Path(token_file)).decode().strip()
        if token_file is not None and not token:
            raise click.UsageError(f"--token-file: {token_file} is empty")
        server = SimulationServer(read, limits=RequestLimits(seconds=seconds), token=token, local=local)
        asyncio.run(_serve(server, host.strip("[]"), int(port)))
    except (OSError, UnicodeDecodeError) as error:
        raise click.ClickException(str(error)) from error


async def _serve(server: SimulationServer, host: str, port: int) -> None:
    stop = asyncio.Event()
    catch_signals(stop)
    runner = web.AppRunner(server.application(), handler_cancellation=True, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        url = f"http://{runner.addresses[0][0]}:{runner.addresses[0][1]}"
        click.echo(f"listening on {url}", err=True)
        click.echo(f"the page: {url}/page/", err=True)
        await stop.wait()
    finally:
        await runner.cleanup()
