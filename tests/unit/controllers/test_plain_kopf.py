"""Plain `kopf run`: the runtime starts and stops with Kopf."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys

import kopf
import pytest

from podwright.controllers import plain_kopf
from podwright.controllers.plain_kopf import PlainKopf
from podwright.kube.client.errors import AccessError
from podwright.kube.options.values import OptionsError
from support.controllers.kit import FakeRuntime, record_handlers
from support.waiting import patience


@pytest.fixture(autouse=True)
def _own_log(monkeypatch):
    """The start changes the handlers of the root logger."""
    monkeypatch.setattr(logging.getLogger(), "handlers", [])


async def test_kopf_starts_the_runtime_and_then_registers_what_it_watches(monkeypatch):
    handlers, runtime, settings, operator = (
        record_handlers(monkeypatch),
        FakeRuntime(),
        kopf.OperatorSettings(),
        PlainKopf(),
    )
    monkeypatch.setattr(plain_kopf, "Runtime", lambda _options, _extenders: runtime)
    await operator.start(settings, kopf.OperatorRegistry())
    assert runtime.calls == ["start"]
    assert [handler.kind for handler in handlers] == ["login", "event", "event", "event"]
    assert settings.watching.field_selectors["pods"] == runtime.pending_selector
    await operator.stop()
    assert runtime.calls == ["start", "stop"]


@pytest.mark.parametrize("error", [AccessError("nodes: forbidden"), OptionsError("nonsense"), OSError("port in use")])
async def test_an_error_that_a_retry_cannot_help_ends_the_process_with_one_line(monkeypatch, error):
    def refuse(_options, _extenders):
        raise error

    monkeypatch.setattr(plain_kopf, "Runtime", refuse)
    operator = PlainKopf()
    with pytest.raises(SystemExit, match=f"^Error: {error}$"):
        await operator.start(kopf.OperatorSettings(), kopf.OperatorRegistry())
    await operator.stop()


async def test_the_process_ends_when_the_lease_is_lost(monkeypatch):
    record_handlers(monkeypatch)
    runtime, signals, operator = FakeRuntime(), [], PlainKopf()
    monkeypatch.setattr(plain_kopf, "Runtime", lambda _options, _extenders: runtime)
    monkeypatch.setattr(plain_kopf.signal, "raise_signal", signals.append)
    await operator.start(kopf.OperatorSettings(), kopf.OperatorRegistry())
    runtime.leadership.lost.set()
    async with patience():
        while not signals:
            await asyncio.sleep(0.001)
    assert signals == [signal.SIGTERM]
    with pytest.raises(SystemExit, match="leader election lost"):
        await operator.stop()
    assert runtime.calls == ["start", "stop"]


async def test_sigquit_ends_kopf_in_order(monkeypatch):
    record_handlers(monkeypatch)
    signals, operator, send = [], PlainKopf(), signal.raise_signal
    monkeypatch.setattr(plain_kopf, "Runtime", lambda _options, _extenders: FakeRuntime())
    monkeypatch.setattr(plain_kopf.signal, "raise_signal", signals.append)
    await operator.start(kopf.OperatorSettings(), kopf.OperatorRegistry())
    send(signal.SIGQUIT)
    async with patience():
        while not signals:
            await asyncio.sleep(0.001)
    assert signals == [signal.SIGTERM]
    await operator.stop()


def test_kopf_run_ends_with_one_line():
    """With Kopf itself, in a process of its own."""
    command = [sys.executable, "-m", "kopf", "run", "--all-namespaces", "-m", "podwright.controllers"]
    environ = {**os.environ, "PODWRIGHT_KUBECONFIG": "/missing", "PYTHONWARNINGS": "default"}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["Error: the kubeconfig /missing does not exist"]


LOSING = """
import asyncio
import kopf
from podwright.controllers import handlers, plain_kopf
from support.controllers.kit import FakeRuntime

class Losing(FakeRuntime):
    async def start(self):
        self.leadership.lost.set()

plain_kopf.Runtime = lambda _options, _extenders: Losing()
handlers.register_watches = lambda _registry, _runtime: None

def register_login(registry, _login):
    @kopf.on.login(registry=registry)
    async def wait(**_):
        await asyncio.Event().wait()

handlers.register_login = register_login
"""


def test_kopf_run_that_loses_the_lease_ends_with_one_line(tmp_path):
    """With Kopf itself, which names the login that it interrupts before."""
    (tmp_path / "losing.py").write_text(LOSING)
    command = [sys.executable, "-m", "kopf", "run", "--all-namespaces", str(tmp_path / "losing.py")]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONWARNINGS": "default"}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if "wait' is cancelled" not in line]
    assert lines == ["Error: leader election lost"]
