"""Creates measured pods, churns objects and deletes pods while a scheduler works."""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable

from benchmarks.http_client import Api, Json
from benchmarks.workloads import Churn, DeletePods, Workload, render_pod
from podwright.testing.objects import collection_path, object_path

_IN_FLIGHT = 32


class LoadGenerator:
    """Sends the requests of one run."""

    def __init__(self, api: Api, workload: Workload, pods_per_second: float) -> None:
        self._api = api
        self._workload = workload
        self._interval = 1 / pods_per_second if pods_per_second else 0.0
        self.created_at: dict[str, float] = {}
        """By the names of measured pods: when the API server had created them, in `time.monotonic()`."""

    async def create_measured(self, bound: Callable[[str], Awaitable[object]]) -> None:
        """Create the measured pods at the configured rate. `bound` waits until the pod of this name is bound."""
        started = time.monotonic()
        numbers = iter(range(self._workload.measured.count))

        async def worker() -> None:
            for number in numbers:
                await asyncio.sleep(max(0.0, started + number * self._interval - time.monotonic()))
                body = self._workload.measured.object(number)
                await self._create(body)
                name = body["metadata"]["name"]
                self.created_at[name] = time.monotonic()
                if self._workload.measured.one_by_one:
                    await bound(name)

        measured = self._workload.measured
        async with asyncio.TaskGroup() as workers:
            for _ in range(1 if measured.one_by_one or measured.in_order else _IN_FLIGHT):
                workers.create_task(worker())

    async def run_background(self) -> None:
        """Run the workload's churn and deletions until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for operation in self._workload.background:
                if isinstance(operation, Churn):
                    tasks.create_task(self._churn(operation))
                else:
                    tasks.create_task(self._delete(operation))

    async def _churn(self, churn: Churn) -> None:
        for number in itertools.count():
            bodies = [_named(template, f"churn-{number}") for template in churn.templates]
            for body in bodies:
                await self._create(body)
            await asyncio.sleep(churn.interval_s)
            for body in bodies if not churn.keep else ():
                await self._api.delete(object_path(body))

    async def _delete(self, operation: DeletePods) -> None:
        for number in itertools.count():
            status = await self._api.delete(f"/api/v1/namespaces/{operation.namespace}/pods/{operation.prefix}{number}")
            if status == 404:
                return
            await asyncio.sleep(1 / operation.per_second)

    async def _create(self, body: Json) -> None:
        status = await self._api.post(collection_path(body), body)
        if status != 201:
            raise RuntimeError(f"creating {body['kind']} {body['metadata']['name']} failed with HTTP {status}")


def _named(template: Json, name: str) -> Json:
    if template["kind"] == "Pod":
        return render_pod(template, name, "default")
    return {**template, "metadata": {**template.get("metadata", {}), "name": name}}
