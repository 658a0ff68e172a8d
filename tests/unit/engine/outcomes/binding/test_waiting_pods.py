"""WaitingPod: a pod waits in Permit until the plugins allow it, or one rejects it."""

import asyncio

import pytest

from podwright.core.objects.durations import format_duration, parse_duration
from podwright.core.objects.pod import parse_pod
from podwright.engine.outcomes.binding.waiting_pods import PermitWaitingPod
from support.objects.builders import make_pod

POD = parse_pod(make_pod("web"))


async def test_the_wait_ends_when_the_last_plugin_allows_the_pod():
    waiting = PermitWaitingPod(POD, "a", {"One": 60, "Two": 60})
    waiting.allow("One")
    waiting.allow("Unknown")
    assert list(waiting.pending_plugins) == ["Two"]
    waiting.allow("Two")
    assert await waiting.wait() is None


async def test_one_rejection_ends_the_wait_and_the_first_verdict_counts():
    waiting = PermitWaitingPod(POD, "a", {"One": 60, "Two": 60})
    waiting.reject("One", "not today")
    waiting.allow("Two")
    status = await waiting.wait()
    assert (status.plugin, status.reasons) == ("One", ("not today",))


@pytest.mark.parametrize(
    "allowed, plugin",
    [
        pytest.param([], "Hasty", id="the plugin with the shortest timeout"),
        pytest.param(["Hasty"], "Patient", id="not a plugin that has allowed the pod"),
    ],
)
async def test_a_plugin_that_has_not_allowed_the_pod_times_out(allowed, plugin):
    waiting = PermitWaitingPod(POD, "a", {"Patient": 0.02, "Hasty": 0.01})
    for name in allowed:
        waiting.allow(name)
    status = await waiting.wait()
    assert status.plugin == plugin
    waited = "20ms" if plugin == "Patient" else "10ms"
    assert status.message == f"rejected due to timeout after waiting {waited} at plugin {plugin}"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.25, "250ms"), (2.5, "2.5s"), (60, "1m0s"), (90, "1m30s"), (900, "15m0s"), (3661, "1h1m1s")],
)
def test_durations_are_formatted_as_in_go(seconds, text):
    assert format_duration(seconds) == text
    assert parse_duration(text) == seconds


async def test_a_cancelled_wait_leaves_no_timer():
    waiting = PermitWaitingPod(POD, "a", {"One": 60})
    task = asyncio.create_task(waiting.wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert list(waiting.pending_plugins) == []
