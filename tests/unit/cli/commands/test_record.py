"""`podwright record` on the sandbox: what it writes can be replayed."""

import asyncio
import contextlib
import gzip
import io
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from click.testing import CliRunner

from podwright.cli.main import main
from podwright.sandbox import Sandbox, SandboxThread
from podwright.simulator.live import LiveConnection
from podwright.simulator.replay.record import record
from podwright.simulator.replay.recording import read_recording
from podwright.simulator.replay.run import BUILT_IN, ReplayCandidate, replay
from podwright.testing.objects import collection_path
from support.examples.clusters import SandboxApi
from support.http.credentials import kubeconfig
from support.simulator.kit import node, pod
from support.waiting import PATIENCE_SECONDS


class Lines(io.BytesIO):
    """A file that tells when it has a line with these words."""

    def __init__(self):
        super().__init__()
        self.changed = asyncio.Event()

    def write(self, data):
        self.changed.set()
        return super().write(data)

    async def wait_for(self, *words):
        while not any(all(word in line for word in words) for line in self.getvalue().decode().splitlines()):
            self.changed.clear()
            await asyncio.wait_for(self.changed.wait(), PATIENCE_SECONDS)


@contextlib.asynccontextmanager
async def running_sandbox():
    """Closes after the threads that recordings left running, which would connect again and again."""
    async with Sandbox(kubelet=False, controllers=False) as sandbox:
        yield sandbox
        for thread in threading.enumerate():
            if thread.name in ("podwright owners", "podwright snapshot"):
                await asyncio.to_thread(thread.join)


async def test_what_a_cluster_does_is_recorded_and_can_be_replayed(tmp_path):
    async with running_sandbox() as sandbox:
        api = SandboxApi(sandbox.url)

        async def request(*args):
            return await asyncio.to_thread(api.request, *args)

        config = {"clusters": [{"name": "c", "cluster": {"server": sandbox.url}}], "contexts": [{"name": "x", "context": {"cluster": "c"}}], "current-context": "x"}  # fmt: skip
        path = tmp_path / "kubeconfig"
        path.write_text(json.dumps(config))
        await request("POST", "/api/v1/nodes", node("a"))
        hidden = {"containers": [{"name": "c", "env": [{"name": "A", "value": "hunter2"}], "resources": {"requests": {"cpu": "1"}}}]}  # fmt: skip
        await request("POST", collection_path(pod("there")), pod("there", spec=hidden))
        file, stop = Lines(), asyncio.Event()
        recording = asyncio.create_task(record(LiveConnection(kubeconfig=str(path)), file, None, stop))
        await file.wait_for('"there"')
        await request("POST", "/api/v1/nodes", node("b"))
        await file.wait_for('"ADDED"', '"b"')
        await request("POST", collection_path(pod("later")), pod("later"))
        await file.wait_for('"ADDED"', '"later"')
        await request("DELETE", "/api/v1/namespaces/default/pods/later")
        await file.wait_for('"DELETED"', '"later"')
        stop.set()
        recorder = await recording

    lines = file.getvalue().decode()
    assert recorder.lines == len(lines.splitlines())
    assert "hunter2" not in lines
    written = tmp_path / "recording.jsonl"
    written.write_text(lines)
    stream = read_recording(str(written))
    (card,) = replay(stream, [ReplayCandidate(BUILT_IN)])
    assert (card.arrived, card.placed) == (2, 2)


def kubeconfig_of(sandbox, path):
    config = {"clusters": [{"name": "c", "cluster": {"server": sandbox.url}}], "contexts": [{"name": "x", "context": {"cluster": "c"}}], "current-context": "x"}  # fmt: skip
    path.write_text(json.dumps(config))
    return str(path)


async def test_a_pod_that_comes_before_the_first_list_is_part_of_the_stream(tmp_path, monkeypatch):
    began = time.time()
    monkeypatch.setattr("podwright.simulator.replay.record.time.time", lambda: began)
    async with running_sandbox() as sandbox:
        api = SandboxApi(sandbox.url)
        connection = LiveConnection(kubeconfig=kubeconfig_of(sandbox, tmp_path / "kubeconfig"))
        for path, raw in (("/api/v1/nodes", node("a")), (collection_path(pod("new")), pod("new", on="a"))):
            await asyncio.to_thread(api.request, "POST", path, raw)
        file, stop = Lines(), asyncio.Event()
        recording = asyncio.create_task(record(connection, file, None, stop))
        await file.wait_for('"ADDED"', '"new"')
        stop.set()
        await recording


class Stuck:
    """A pipe that nobody reads any more."""

    def write(self, _data):
        raise BrokenPipeError

    def flush(self):
        pass

    def fileno(self):
        raise ValueError


async def test_a_recording_ends_when_a_line_cannot_be_written(tmp_path):
    async with running_sandbox() as sandbox:
        await asyncio.to_thread(SandboxApi(sandbox.url).request, "POST", "/api/v1/nodes", node("a"))
        connection = LiveConnection(kubeconfig=kubeconfig_of(sandbox, tmp_path / "kubeconfig"))
        recorder = await asyncio.wait_for(record(connection, Stuck(), None, asyncio.Event()), 30)
    assert recorder.lines == 0


@pytest.mark.parametrize("end", ["its reader is gone", "SIGTERM"])
def test_the_command_says_how_to_stop_and_ends(tmp_path, end):
    with SandboxThread() as sandbox:
        SandboxApi(sandbox.url).request("POST", "/api/v1/nodes", node("a"))
        config = kubeconfig_of(sandbox, tmp_path / "kubeconfig")
        command = [sys.executable, "-m", "podwright", "record", "--kubeconfig", config]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stderr.readline() == b"Recording. Press Ctrl-C to stop.\n"
            assert b'"Node"' in process.stdout.readline()
            if end == "SIGTERM":
                process.send_signal(signal.SIGTERM)
            else:
                process.stdout.close()
            said = process.stderr.read()
            assert process.wait(30) == 0
    assert re.fullmatch(rb"\d+ lines\n", said)


@pytest.mark.parametrize("end", ["its reader is gone", "SIGTERM", "SIGINT"])
def test_the_command_ends_while_the_api_server_accepts_connections_and_never_answers(tmp_path, end):
    with socket.create_server(("127.0.0.1", 0)) as server:
        config = kubeconfig(tmp_path, cluster={"server": f"http://127.0.0.1:{server.getsockname()[1]}"})
        command = [sys.executable, "-m", "podwright", "record", "--kubeconfig", str(config)]
        command += ["--seconds", "0.2"]  # which count once the whole cluster was read
        started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with started as process, contextlib.ExitStack() as connections:
            try:
                server.settimeout(PATIENCE_SECONDS)
                connections.enter_context(server.accept()[0])
                if end == "its reader is gone":
                    process.stdout.close()
                else:
                    process.send_signal(signal.Signals[end])
                said = process.communicate(timeout=PATIENCE_SECONDS)[1].splitlines()[1:]
            finally:
                process.kill()
    assert (said, process.returncode) == ([b"0 lines"], 0)


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz"])
def test_a_cluster_that_cannot_be_read_is_an_error(tmp_path, name):
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps({"clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}], "contexts": [{"name": "x", "context": {"cluster": "c"}}], "current-context": "x"}))  # fmt: skip
    result = CliRunner().invoke(
        main, ["record", "--kubeconfig", str(path), "-o", str(tmp_path / name), "--seconds", "1"]
    )
    assert result.exit_code == 1
    assert "Error: cannot record the cluster" in result.output
    content = (tmp_path / name).read_bytes()
    assert (gzip.decompress(content) if name.endswith(".gz") else content) == b""
