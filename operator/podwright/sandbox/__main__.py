"""`python -m podwright.sandbox`: runs a sandbox until interrupted, and prints the path of its kubeconfig."""

import asyncio
import signal
import tempfile
from pathlib import Path

import click

from podwright.sandbox.runner import Sandbox


@click.command()
@click.option("--port", default=0, help="Port on the loopback interface; 0 chooses a free one.")
@click.option("--nodes", default=0, help="Number of nodes to create.")
@click.option("--zones", default=3, show_default=True, help="Number of zones for the nodes.")
@click.option(
    "--kubeconfig", type=click.Path(path_type=Path), help="Where to write the kubeconfig; by default a temporary file."
)
@click.option("--kubelet/--no-kubelet", default=True, help="Simulate kubelets, which turn bound pods Running.")
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
