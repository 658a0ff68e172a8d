"""What the log says of feature gates at the start."""

from __future__ import annotations

import json

import pytest

from podwright.kube.options import Options
from podwright.kube.runtime import Runtime


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
