"""The operator, as a separate process with 1,024 file descriptors, under clients that open 1,100 connections and finish
no request.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from podwright.sandbox import Sandbox
from podwright.testing import Process
from podwright.testing.processes import free_port
from support.control_plane.operator_process import Operator, wait_ready
from support.objects.builders import make_pod

DESCRIPTORS, CONNECTIONS = 1024, 1100
LIMITED = ["/bin/bash", "-c", f'ulimit -n {DESCRIPTORS}; exec "$@"', "limited"]
SENT = {"http": b"GET /livez HTTP/1.1\r\nHost: here\r\n", "https": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"}
"""Half a request, and half a TLS handshake."""

pytestmark = pytest.mark.slow


@pytest.fixture
def many_descriptors():
    """This process needs more descriptors than the operator has."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4 * CONNECTIONS:
        pytest.fail(f"the hard limit of open files is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4 * CONNECTIONS), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def started(sandbox: Sandbox, folder: Path, scheme: str) -> Iterator[Operator]:
    port = free_port()
    command = [sys.executable, "-m", "podwright", "run", "--pod-intake=watch"]
    command.append(f"--kubeconfig={sandbox.write_kubeconfig(folder / 'kubeconfig')}")
    if scheme == "https":
        command += ["--bind-address=127.0.0.1", f"--secure-port={port}"]
    else:
        command += [f"--health-address=127.0.0.1:{port}"]
    process = Process("operator", [*LIMITED, *command], folder / "operator.log")
    process.start()
    try:
        yield Operator(process, port, scheme=scheme)
    finally:
        process.stop(30)


def half_sent(port: int, scheme: str) -> list[socket.socket]:
    """Connections that the operator may have closed by now."""
    held = []
    for _ in range(CONNECTIONS):
        client = socket.socket()
        client.settimeout(20)
        held.append(client)
        client.connect(("127.0.0.1", port))
        try:
            client.send(SENT[scheme])
        except ConnectionError:
            continue  # it was dropped already
    return held


def bound(sandbox: Sandbox) -> bool:
    return all(pod.obj["spec"].get("nodeName") for pod in sandbox.cluster.store["pods"].entries.values())


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_clients_that_hold_connections_stop_neither_health_nor_scheduling(tmp_path, scheme, many_descriptors):
    async with Sandbox(kubelet=False, controllers=False) as sandbox:
        sandbox.add_nodes(1)
        with started(sandbox, tmp_path, scheme) as operator:
            await asyncio.to_thread(wait_ready, operator)
            held = await asyncio.to_thread(half_sent, operator.port, scheme)
            for _ in range(10):
                assert await asyncio.to_thread(operator.get, "/livez") == (200, "ok")
            kind = sandbox.cluster.kinds.named("pods")
            for number in range(20):
                sandbox.cluster.create(kind, "default", make_pod(f"p{number}", spec={"schedulerName": "podwright"}))
            async with asyncio.timeout(60):
                while not bound(sandbox):
                    await asyncio.sleep(0.05)
            for client in held:
                client.close()
            assert (await asyncio.to_thread(operator.get, "/readyz"))[0] == 200
        assert operator.process.returncode == 0
        log = operator.log()
        assert "Traceback" not in log
        assert "too many open files" not in log.lower()
        assert len(log) < 20_000
