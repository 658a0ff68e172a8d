"""The imports of `podwright run`, and their times. Each case runs in a separate process."""

import asyncio
import contextlib
import gc
import subprocess
import sys
from subprocess import PIPE

import pytest

from podwright.cli.processes import scheduler
from podwright.kube.options.options import Options
from podwright.kube.runtime import Runtime
from podwright.sandbox import Sandbox
from podwright.testing import node, pod
from support.waiting import patience

LATER = {
    *("cel_expr_python", "cryptography", "google.protobuf", "jsonschema", "kopf", "kubernetes", "re2", "rich"),
    *("podwright.core.cel.environment", "podwright.core.cel_columns.compiler"),
    *("podwright.engine.view.node_details", "podwright.kube.serve.page.routes"),
    *("podwright.controllers", "podwright.extender.server", "podwright.policies", "podwright.simulator"),
    *("podwright.api.crd", "podwright.sandbox", "podwright.testing", "requests", "tenacity", "urllib3"),
}
"""Modules that the first decision does not need, and that take long to import."""
START = """
import asyncio
import contextlib
import sys
from podwright.cli.commands import run
from podwright.cli.processes import scheduler
from podwright.kube.options.options import Options
from podwright.kube.runtime import Runtime

async def start():
    runtime = Runtime(Options(kubeconfig=sys.argv[1], pod_intake="watch"))
    await runtime.start()
    while runtime.missing():
        await asyncio.sleep(0.01)
    ready = set(sys.modules)
    print(*ready, flush=True)
    await asyncio.to_thread(input)
    print(*(set(sys.modules) - ready))
    await runtime.stop()

asyncio.run(start())
"""


async def test_a_start_imports_what_the_first_decisions_need_and_nothing_else(tmp_path):
    """So that a standby which takes over does not pause for an import."""
    async with Sandbox(delay=0, controllers=False) as sandbox:
        cluster = sandbox.cluster
        kubeconfig = sandbox.write_kubeconfig(tmp_path / "kubeconfig")
        program = await asyncio.create_subprocess_exec(
            sys.executable, "-c", START, str(kubeconfig), stdin=PIPE, stdout=PIPE, stderr=PIPE, limit=1 << 20
        )
        imported = set((await program.stdout.readline()).decode().split())
        cluster.create(cluster.kinds.named("nodes"), "", node("node", cpu="4"))
        for name, cpu in (("fits", "1"), ("too-large", "100")):
            cluster.create(cluster.kinds.named("pods"), "default", pod(name, scheduler="podwright", cpu=cpu))
        pods = cluster.store["pods"].entries
        async with patience():
            while not (
                pods["default", "fits"].obj["spec"].get("nodeName")
                and pods["default", "too-large"].obj["status"].get("conditions")
            ):
                await asyncio.sleep(0.01)
        output, errors = await program.communicate(b"\n")
    assert program.returncode == 0, errors.decode()
    assert "podwright.kube.runtime" in imported
    assert LATER & imported == set()
    assert output.decode().split() == []


@pytest.mark.parametrize("intake", ["kopf", "watch"])
async def test_kopf_is_imported_after_the_first_decisions(intake, tmp_path, monkeypatch):
    runtimes, stops, decided = [], [], []

    class Observed(Runtime):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            runtimes.append(self)

    class Supervisor:
        @staticmethod
        async def supervise(stop, _runtime, _register):
            stop.set()

    def imported():
        decided.append(runtimes[0].engine.first_idle.is_set())
        return Supervisor

    monkeypatch.setattr(gc, "freeze", lambda: None)  # it would keep the garbage of this test for ever
    monkeypatch.setattr(scheduler, "Runtime", Observed)
    monkeypatch.setattr(scheduler, "catch_signals", stops.append)
    monkeypatch.setattr(scheduler, "import_supervisor", imported)
    monkeypatch.setattr(scheduler, "SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(scheduler, "FIRST_PODS_SECONDS", 300.0)
    async with Sandbox(delay=0, controllers=False) as sandbox, patience():
        kubeconfig = sandbox.write_kubeconfig(tmp_path / "kubeconfig")
        await scheduler.run(Options(kubeconfig=str(kubeconfig), pod_intake=intake))
    assert decided == [True]


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(
            "import podwright.cli.commands.run, podwright.cli.processes.scheduler\n"
            "assert not {'aiohttp', 'kopf', 'kubernetes', 'tenacity', 'cryptography'} & sys.modules.keys()",
            id="no aiohttp before the first requests, no Kopf, client library or tenacity before the first decision, and "
            "no TLS without a secure port",
        ),
        pytest.param(
            "import gc, os; from podwright.cli.main import main; main.get_command(None, 'run'); import numpy\n"
            "assert gc.get_freeze_count() > 10_000; assert os.listdir('/proc/self/task') == [str(os.getpid())]",
            id="without looking for garbage and without threads of NumPy's, which spin meanwhile",
        ),
        pytest.param(
            "import podwright.cli.processes.scheduler as s; s.import_late(); found = set(sys.modules)\n"
            "from podwright.core.devices.compiling import compile_expression; compile_expression('device.driver == \"x\"')\n"
            "from podwright.core.plugins.rules.known_expressions import compiled; compiled('node.name == \"x\"', score=False)\n"
            "assert {name for name in set(sys.modules) - found if name.startswith('podwright')} == {"
            "'podwright.core.cel.checking.checked', 'podwright.core.cel.checking.checker'}",
            id="what compiles expressions, after the first decisions, but for the library that checks types",
        ),
        pytest.param(
            "import podwright.cli.processes.scheduler as s; s.import_supervisor()\n"
            "assert 'kopf' in sys.modules and 'kubernetes' not in sys.modules\n"
            "import kubernetes.client; assert kubernetes.client.V1Pod",
            id="Kopf without the client library, which can be imported afterwards",
        ),
    ],
)
def test_what_podwright_run_imports_and_when(program):
    done = subprocess.run([sys.executable, "-c", f"import sys\n{program}"], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr


async def test_what_kopf_has_left_is_cancelled_until_it_ends(monkeypatch):
    """Kopf's requests swallow a cancellation while it stops."""
    monkeypatch.setattr(scheduler, "KOPF_STOP_SECONDS", 0.01)
    older, left = asyncio.all_tasks(), []

    async def request():
        for _ in range(2):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
        await asyncio.Event().wait()

    async def kopf():
        left.append(asyncio.create_task(request()))
        await asyncio.gather(*left)

    running = asyncio.create_task(kopf())
    await scheduler.wait_for_kopf(running, older)
    assert running.done()
    assert left[0].cancelled()
