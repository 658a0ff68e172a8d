"""A proxy that makes the network between the operator and the API server take time. It passes bytes on, and TLS with
them.

    with DelayProxy(cluster, seconds=0.05) as proxy:
        operator_kit.start(cluster, kubeconfig=proxy.kubeconfig(direct))

It runs in its own thread.
"""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any, Self

import yaml
from yarl import URL

from podwright.testing import ControlPlane


class DelayProxy:
    """`seconds`: there and back."""

    def __init__(self, cluster: ControlPlane, seconds: float) -> None:
        self.seconds = seconds
        self.port = 0
        self._target = URL(cluster.url)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="delay proxy", daemon=True)
        self._server: asyncio.Server

    def __enter__(self) -> Self:
        self._thread.start()
        self._run(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def kubeconfig(self, direct: Path) -> Path:
        """A copy of a kubeconfig that connects through this proxy."""
        config = yaml.safe_load(direct.read_text())
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{self.port}"
        path = direct.with_name(f"through-{self.port}-{direct.name}")
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(config))
        return path

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection(self._target.host, self._target.port)
            await asyncio.gather(self._pass_on(reader, back), self._pass_on(there, writer))
        except OSError:
            writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Bytes arrive half of the time later, in order, however many are on their way."""
        try:
            while data := await reader.read(1 << 18):
                self._loop.call_later(self.seconds / 2, writer.write, data)
        except OSError:
            pass
        finally:
            self._loop.call_later(self.seconds / 2, writer.close)
