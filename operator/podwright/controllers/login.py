"""How Kopf logs in: with the credentials of the runtime, in a session of its own."""

from __future__ import annotations

import asyncio
import time
from typing import Final

import kopf

from podwright.kube.client.credentials import Source
from podwright.kube.client.http import new_session

LOGIN_SECONDS: Final = 1.0
"""Kopf logs in again whenever a request is refused (401). There is at most one login in this time."""


class KopfLogin:
    """Makes sessions for Kopf."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._last_login = float("-inf")

    async def session(self) -> kopf.AiohttpSession:
        """A session with the current credentials. Right after another one, it waits and reads the credentials again."""
        if time.monotonic() < self._last_login + LOGIN_SECONDS:
            await asyncio.sleep(LOGIN_SECONDS)
            self._source.forget()
        self._last_login = time.monotonic()
        credentials = await self._source.current()
        return kopf.AiohttpSession(
            server=credentials.server,
            aiohttp_session=new_session(credentials, authenticated=True),
            default_namespace=credentials.namespace,
        )
