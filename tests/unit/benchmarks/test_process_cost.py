"""Process costs are read from /proc, and request counts from the API server's metrics."""

import subprocess
import sys
import textwrap

import pytest
from benchmarks.process_cost import cost, machine_busy_s
from benchmarks.request_counts import read_request_counts

BUSY = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass\n"


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(BUSY + "print(flush=True); time.sleep(60)", id="the process itself"),
        pytest.param(
            f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BUSY!r}]); print(flush=True); input()",
            id="an ended child",
        ),
        pytest.param(
            "import subprocess, sys\n"
            f"subprocess.run([sys.executable, '-c', {BUSY + 'print(flush=True); time.sleep(60)'!r}])",
            id="a living child",
        ),
    ],
)
def test_cost_includes_all_descendants(program):
    before = machine_busy_s()
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        process.stdout.readline()
        spent = cost(process.pid)
        used = machine_busy_s() - before
        for member in subprocess.run(
            ["ps", "-o", "pid=", "-s", str(process.pid)], capture_output=True, text=True, check=False
        ).stdout.split():
            subprocess.run(["kill", "-9", member], check=False)
    assert spent.cpu_s >= 0.28  # the kernel counts in hundredths of a second
    assert spent.peak_mb > 1
    assert used >= 0.25


def test_an_ended_process_costs_nothing():
    process = subprocess.Popen(["true"])
    process.wait()
    assert cost(process.pid).cpu_s == 0


class Metrics:
    def __init__(self, text):
        self._text = textwrap.dedent(text)

    async def text(self, path):
        assert path == "/metrics"
        return self._text


async def test_only_requests_that_schedulers_make_per_pod_are_counted():
    before = await read_request_counts(
        Metrics('apiserver_request_total{code="201",resource="pods",subresource="binding",verb="POST"} 5\n')
    )
    after = await read_request_counts(
        Metrics("""\
            # HELP apiserver_request_total [STABLE] Requests
            apiserver_request_total{code="201",resource="pods",subresource="binding",verb="POST"} 15
            apiserver_request_total{code="409",resource="pods",subresource="binding",verb="POST"} 1
            apiserver_request_total{code="201",resource="events",subresource="",verb="POST"} 2e+01
            apiserver_request_total{code="200",resource="pods",subresource="",verb="GET"} 3
            apiserver_request_total{code="200",resource="pods",subresource="",verb="LIST"} 100
            apiserver_request_total{code="200",resource="leases",subresource="",verb="PUT"} 100
            apiserver_request_total_other{resource="pods",verb="POST"} 100
        """)
    )
    assert after.minus(before).of_schedulers() == 10 + 1 + 20 + 3
