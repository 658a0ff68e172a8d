"""What the runtime makes of its options: what the log says of feature gates at the start, and how long pods wait."""

from __future__ import annotations

import json

import pytest

from podwright.core.objects.pod import parse_pod
from podwright.kube.options import Options
from podwright.kube.runtime import Runtime
from support.objects.builders import make_pod


@pytest.fixture
def kubeconfig(tmp_path):
    path = tmp_path / "config"
    parts = {
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "c", **parts}))
    return str(path)


@pytest.mark.parametrize(
    ("gates", "said"),
    [
        pytest.param({}, [], id="the defaults"),
        pytest.param({"GenericWorkload": False, "VolumeLimitScaling": False}, [], id="gates that are honoured or as by default"),
        pytest.param(
            {"SchedulerAsyncAPICalls": True, "DRAExtendedResource": False},
            ["this version does not know what these feature gates do: SchedulerAsyncAPICalls, DRAExtendedResource"],
            id="gates that would have to do something",
        ),
    ],
)  # fmt: skip
async def test_gates_without_effect_are_said_once(kubeconfig, gates, said, caplog):
    Runtime(Options(kubeconfig=kubeconfig, feature_gates=gates))._build(37)
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == said


async def test_pods_wait_as_long_as_the_options_say(kubeconfig):
    runtime = Runtime(Options(kubeconfig=kubeconfig, pod_initial_backoff_seconds=7))
    runtime._build(37)
    queue = runtime.engine.queue
    queue.add(parse_pod(make_pod("web")))
    queued = queue.pop()
    queue.fault(queued)
    assert queued.backoff_until == int(queued.timestamp + 7)
