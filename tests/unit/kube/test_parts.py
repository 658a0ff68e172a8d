"""The effects of options on the parts: feature gates, and how long pods wait."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager

import pytest

from podwright.api.configuration.load import load_configuration
from podwright.core.framework.errors import PluginError
from podwright.core.framework.registry import RegistryError
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins import PLUGINS
from podwright.engine.process.instance import UNNAMED
from podwright.engine.records.metrics import Metrics
from podwright.kube.background import BackgroundTasks
from podwright.kube.options.options import Options
from podwright.kube.parts import Base, Parts, check_profiles, enabled_features
from podwright.kube.watch.watches import Watches
from support.http.kit import api
from support.objects.builders import make_pod


@asynccontextmanager
async def base(classes=PLUGINS, **options):
    async with api() as (http, _):
        tasks = BackgroundTasks()
        yield Base(
            options=Options(**options),
            classes=classes,
            http=http,
            metrics=Metrics(time.monotonic),
            tasks=tasks,
            watches=Watches(http, tasks.start),
            instance=UNNAMED,
        )


@pytest.mark.parametrize(
    "gates, warnings",
    [
        pytest.param({}, [], id="the defaults"),
        pytest.param({"GenericWorkload": False, "VolumeLimitScaling": False}, [], id="gates with an effect"),
        pytest.param(
            {"SchedulerAsyncAPICalls": True, "DRANodeAllocatableResources": True},
            ["these feature gates have no effect in this version: SchedulerAsyncAPICalls, DRANodeAllocatableResources"],
            id="gates without effect",
        ),
    ],
)
def test_gates_without_effect_are_logged(gates, warnings, caplog):
    enabled_features(Options(feature_gates=gates), 37)
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == warnings


@pytest.mark.parametrize(
    ("minor", "lines"),
    [
        pytest.param(None, [], id="the server reports no version"),
        pytest.param(37, [], id="the newest"),
        pytest.param(
            36,
            [
                ("Kubernetes 1.36: these feature gates are off, as in its kube-scheduler: "
                 "StorageCapacityScoring, VolumeLimitScaling; "
                 "its API does not have: CSIDriver.spec.preventPodSchedulingIfMissing, DeviceTaintRule")
            ],
            id="an older one",
        ),
        pytest.param(38, ["Podwright is not tested with Kubernetes 1.38, but with 1.34 to 1.37"], id="newer than the newest"),
    ],
)  # fmt: skip
def test_what_the_version_of_the_server_lacks_is_logged_in_one_line(minor, lines, caplog):
    caplog.set_level("INFO")
    features = enabled_features(Options(), minor)
    assert [record.getMessage() for record in caplog.records] == lines
    assert features.enabled("StorageCapacityScoring") == (minor != 36)


async def test_pods_wait_as_long_as_the_options_say():
    async with base(pod_initial_backoff_seconds=7) as given:
        queue = Parts(given, 37).engine.queue
    queue.add(parse_pod(make_pod("web")))
    queued = queue.pop()
    queue.fault(queued)
    assert queued.backoff_until == int(queued.timestamp + 7)


async def test_a_built_in_policy_that_cannot_be_built_is_an_error_of_the_plugins(monkeypatch):
    def broken(*_, **__):
        raise PluginError("PrioritySort", "less", "broken")

    monkeypatch.setattr("podwright.kube.parts.Engine", broken)
    async with base() as given:
        with pytest.raises(RegistryError, match="the built-in policy cannot be built"):
            Parts(given, 37)


@pytest.mark.parametrize(
    ("profile", "problem"),
    [
        pytest.param("{schedulerName: a}", "", id="a valid profile"),
        pytest.param(
            "{plugins: {score: {enabled: [{name: Nope}]}}}",
            "--config: profiles[0].plugins.score.enabled: plugin 'Nope' does not exist",
            id="a plugin that does not exist",
        ),
        pytest.param(
            "{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrateg: {}}}]}",
            "--config: profiles[0].pluginConfig[0].args.scoringStrateg: unknown field",
            id="args with a typo",
        ),
    ],
)
def test_the_profiles_of_a_configuration_file_are_checked_before_anything_starts(profile, problem):
    text = f"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{profile}]\n"
    options = Options(config=load_configuration(text.encode()), leader_elect=False)
    if not problem:
        check_profiles(options, PLUGINS)
        return
    with pytest.raises(RegistryError) as caught:
        check_profiles(options, PLUGINS)
    assert str(caught.value).startswith(problem)
