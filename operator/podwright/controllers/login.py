"""How Kopf logs in: with the credentials of the runtime, in a session of its own."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import kopf

from podwright.controllers.listed_pods import response_class
from podwright.controllers.missing_kinds import MissingKinds
from podwright.kube.client.credentials.credentials import Credentials, CredentialSource
from podwright.kube.client.errors import ApiError
from podwright.kube.client.streams import new_session
from podwright.kube.kinds import LOCAL_POLICY, POLICY

LOGIN_SECONDS: Final = 1.0
"""Kopf logs in again whenever a request is refused (401). There is at most one login in this time."""
REFUSED_SECONDS: Final = 10.0
"""How long a login waits for the runtime's own requests to be accepted, before Kopf tries refused credentials itself.
"""


class KopfLogin:
    """Makes sessions for Kopf. `take_in` gets the raw pods of Kopf's lists, which Kopf does not get. `also`: the
    collections, besides those of policies, that Kopf watches and that may not be served.
    """

    def __init__(
        self, source: CredentialSource, take_in: Callable[[Mapping[str, Any]], None], also: Collection[str] = ()
    ) -> None:
        self._source = source
        self._response_class = response_class(take_in)
        self._last_login = float("-inf")
        self._missing_kinds = MissingKinds([POLICY.collection, LOCAL_POLICY.collection, *also])

    async def session(self) -> kopf.AiohttpSession:
        """A session with the current credentials. Right after another one, it waits and reads the credentials again."""
        if time.monotonic() < self._last_login + LOGIN_SECONDS:
            await asyncio.sleep(LOGIN_SECONDS)
            self._source.forget()
        self._last_login = time.monotonic()
        credentials = await self._credentials()
        return kopf.AiohttpSession(
            server=credentials.server,
            aiohttp_session=new_session(
                credentials,
                authenticated=True,
                middlewares=(self._missing_kinds,),
                response_class=self._response_class,
            ),
            default_namespace=credentials.namespace,
        )

    async def _credentials(self) -> Credentials:
        while True:
            await self._source.wait_while_refused(REFUSED_SECONDS)
            with contextlib.suppress(ApiError):  # another request tries them
                return await self._source.current()
