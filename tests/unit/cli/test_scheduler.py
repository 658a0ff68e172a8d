"""What `podwright run` imports, and when. Each case runs in a separate process."""

import subprocess
import sys

import pytest


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
