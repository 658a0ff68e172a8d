"""Keeps Kopf running while a kind that it watches is not served, because its CRD was deleted.

Kopf ends with a traceback when a list or watch is answered with 404, and `kopf run` ends with it. So Kopf does not get
this answer: the request is sent again until it gets another one, or until Kopf cancels it because it has noticed that
the kind is gone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import Final

from aiohttp import ClientHandlerType, ClientRequest, ClientResponse

from podwright.kube.client.retry import RetryPolicy

log = logging.getLogger(__name__)

RETRY: Final = RetryPolicy(shortest=0.5, longest=10.0)


class MissingKinds:
    """A middleware of Kopf's HTTP sessions. It changes only the answers to requests for these collections, by URL
    path.
    """

    def __init__(self, collections: Collection[str]) -> None:
        self._collections = frozenset(collections)
        self._missing: set[str] = set()

    async def __call__(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        path, failures = request.url.path, 0
        while True:
            response = await handler(request)
            if path not in self._collections:
                return response
            if response.status != 404:
                self._found(path)
                return response
            response.release()
            if path not in self._missing:
                self._missing.add(path)
                log.warning("%s is not served any more (was the CRD deleted?); Kopf waits for it", path)
            failures += 1
            await asyncio.sleep(RETRY.pause(failures))

    def _found(self, path: str) -> None:
        if path in self._missing:
            self._missing.remove(path)
            log.info("%s is served again", path)
