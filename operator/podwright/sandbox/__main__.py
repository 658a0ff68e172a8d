"""`python -m podwright.sandbox`: a sandbox until it is interrupted; prints where its kubeconfig is."""

import asyncio
import signal
import tempfile
from pathlib import Path

import click

from podwright.sandbox.runner import Sandbox


@click.command()
@click.option("--port", default=0, help="Port on the loopback interface; 0 takes a free one.")
@click.option("--nodes", default=0, help="Nodes to create.")
@click.option("--zones", default=3, show_default=True, help="Zones to spread them over.")
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="Where to write the kubeconfig; else a new file.")
@click.option("--kubelet/--no-kubelet", default=True, help="Turn bound pods Running.")
def main(port: int, nodes: int, zones: int, kubeconfig: Path | None, *, kubelet: bool) -> None:
    """Serve an in-memory Kubernetes API until interrupted."""
    with tempfile.TemporaryDirectory(prefix="podwright-sandbox-") as folder:
        path = kubeconfig or Path(folder, "kubeconfig")
        asyncio.run(_serve(Sandbox(port=port, kubelet=kubelet), nodes, zones, path))


async def _serve(sandbox: Sandbox, nodes: int, zones: int, path: Path) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with sandbox:
        sandbox.add_nodes(nodes, zones)
        click.echo(f"export KUBECONFIG={sandbox.write_kubeconfig(path)}")
        await stop.wait()


if __name__ == "__main__":
    main()
