"""Takes the pods of Kopf's lists in page by page, so that Kopf starts no worker for each of them.

Kopf makes an event of each listed object, with a task, a queue and memory for it, which costs many times as much as
reading the object. When Kopf starts with many pending pods, and whenever it lists again, these tasks would compete with
decisions for seconds, mostly for pods that the queue has already. Kopf gets the page without its pods, and watches from
the list's resourceVersion as always.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any

import aiohttp

from podwright.kube.client.json_text import loads
from podwright.kube.client.pages import objects_of
from podwright.kube.kinds import POD


def response_class(take_in: Callable[[Mapping[str, Any]], None]) -> type[aiohttp.ClientResponse]:
    """The class of responses for Kopf's HTTP session. `take_in` gets each raw pod of a list; it is called in the lists'
    order.
    """

    class ListedPods(aiohttp.ClientResponse):
        """Its `json` returns lists of pods without their items."""

        async def json(self, **options: Any) -> Any:
            if self.status != 200 or not _lists_pods(self.url.path):
                return await super().json(**options)
            answer = loads(await self.read())
            async with aclosing(objects_of(answer)) as pods:
                async for raw in pods:
                    take_in(raw)
            return {**answer, "items": []}

    return ListedPods


def _lists_pods(path: str) -> bool:
    """True if the path is that of all pods, or of a namespace's pods."""
    if path == POD.collection:
        return True
    parent, _, plural = path.rpartition("/")
    return plural == POD.plural and path == POD.collection_in(parent.rpartition("/")[2])
