"""What `podwright run` imports, and when. Each case runs in a separate process."""

import asyncio
import subprocess
import sys

import pytest

from podwright.sandbox import Sandbox

LATER = {"cel_expr_python", "cryptography", "google.protobuf", "jsonschema", "kopf", "kubernetes", "re2", "rich"}
"""Packages that the first decision does not need: their import would take longer than the rest of the start."""
START = """
import asyncio
import sys
from podwright.cli import run, scheduler
from podwright.kube.options import Options
from podwright.kube.runtime import Runtime

async def start():
    runtime = Runtime(Options(kubeconfig=sys.argv[1], pod_intake="watch"))
    await runtime.start()
    while runtime.missing():
        await asyncio.sleep(0.01)
    print(*sys.modules)
    await runtime.stop()

asyncio.run(start())
"""


async def test_a_start_imports_nothing_that_the_first_decision_does_not_need(tmp_path):
    async with Sandbox(delay=0, controllers=False) as sandbox:
        kubeconfig = sandbox.write_kubeconfig(tmp_path / "kubeconfig")
        command = [sys.executable, "-c", START, str(kubeconfig)]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False, timeout=60)
    assert not done.returncode, done.stderr
    imported = set(done.stdout.split())
    assert "podwright.kube.runtime" in imported
    assert not LATER & imported


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(
            "import podwright.cli.run, podwright.cli.scheduler; assert not {'kopf', 'kubernetes'} & sys.modules.keys()",
            id="neither Kopf nor the client library before the first decision",
        ),
        pytest.param(
            "import podwright.cli.run, podwright.cli.scheduler; assert 'cryptography' not in sys.modules",
            id="nothing for TLS without a secure port",
        ),
        pytest.param(
            "import gc; from podwright.cli.main import main; main.get_command(None, 'run'); assert gc.get_freeze_count() > 10_000",
            id="without looking for garbage meanwhile",
        ),
        pytest.param(
            "import podwright.cli.scheduler as s; s.import_supervisor(); import kubernetes.client\n"
            "assert 'kopf' in sys.modules and kubernetes.client.V1Pod",
            id="the client library can be imported after Kopf",
        ),
        pytest.param(
            "import podwright.cli.scheduler as s; s.import_supervisor()\n"
            "assert 'kopf' in sys.modules and 'kubernetes' not in sys.modules",
            id="Kopf does not import the client library",
        ),
    ],
)
def test_what_podwright_run_imports_and_when(program):
    done = subprocess.run([sys.executable, "-c", f"import sys\n{program}"], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
