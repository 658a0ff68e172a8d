"""The rate at which a scheduler places a backlog, from the first Binding to the last, as a watch sees them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from benchmarks.binding_observer import BindingObserver
from benchmarks.http_client import Api
from podwright.testing import ControlPlane

TIMEOUT: Final = 300.0
_AT_ONCE: Final = 500


async def backlog_rate(
    cluster: ControlPlane, api: Api, pods: Sequence[dict[str, Any]], start: Callable[[], Any]
) -> float:
    """Pods a second. `pods`: their names begin with MEASURED_PREFIX; they wait when `start` starts the scheduler, whose process it returns."""
    for first in range(0, len(pods), _AT_ONCE):
        await asyncio.to_thread(cluster.bulk.create, pods[first : first + _AT_ONCE])
    observer, started = BindingObserver(api, len(pods), lambda: None), asyncio.Event()
    watching = asyncio.create_task(observer.watch(started))
    await started.wait()
    process = await asyncio.to_thread(start)
    try:
        async with asyncio.timeout(TIMEOUT):
            await observer.done.wait()
    finally:
        watching.cancel()
        await asyncio.to_thread(process.stop)
    times = sorted(observer.bound_at.values())
    return (len(times) - 1) / (times[-1] - times[0])
