"""The one runtime of this process, and what Kopf's handlers ask of it.

Under plain `kopf run` it starts and ends with Kopf, set up by PODWRIGHT_ environment variables. Under `podwright run`
(see `operator`) it was started before and is only lent to Kopf, which may come and go.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import time
from collections.abc import Mapping
from typing import Any, Final

import kopf

from podwright.controllers.settings import configure
from podwright.core.framework.registry import RegistryError
from podwright.kube.client.errors import AccessError, ConfigError
from podwright.kube.client.http import new_session
from podwright.kube.option_values import OptionsError
from podwright.kube.options import Options
from podwright.kube.runtime import Runtime

log = logging.getLogger(__name__)

LOGIN_SECONDS: Final = 1.0
"""Kopf logs in anew whenever it is refused; not more often than this."""


class Process:
    """See the module."""

    def __init__(self) -> None:
        self._runtime: Runtime | None = None
        self._lent = False
        self._last_login = float("-inf")

    @property
    def runtime(self) -> Runtime:
        """The runtime, once it has started."""
        assert self._runtime is not None, "nothing has started yet"
        return self._runtime

    def lend(self, runtime: Runtime) -> None:
        """Kopf is to use this runtime, which has started, and to leave it running."""
        self._runtime = runtime
        self._lent = True

    def serves(self, body: Mapping[str, Any]) -> bool:
        """Whether a pod asks for a scheduler that a policy in force serves."""
        spec = body.get("spec")
        name = spec.get("schedulerName") if isinstance(spec, Mapping) else None
        return isinstance(name, str) and self.runtime.engine.policies.serves(name)

    async def kopf_starts(self, settings: kopf.OperatorSettings) -> None:
        """Starts the runtime unless it was lent, sets Kopf up and registers the handlers of what may be watched."""
        if not self._lent:
            await self._start()
        configure(settings, self.runtime)
        if self.runtime.options.pod_intake == "kopf":
            importlib.import_module("podwright.controllers.pod_handlers")
        if self.runtime.policies_allowed:
            importlib.import_module("podwright.controllers.policy_handlers")

    async def _start(self) -> None:
        try:
            self._runtime = Runtime(Options.from_environment())
            await self._runtime.start()
        except (AccessError, ConfigError, OptionsError, RegistryError, OSError) as error:
            # Kopf tries again after any other error, and these will not pass.
            raise kopf.PermanentError(str(error)) from error

    async def kopf_ends(self) -> None:
        """Stops the runtime unless it was lent."""
        if not self._lent and self._runtime is not None:
            await self.runtime.stop()

    async def login(self) -> kopf.AiohttpSession:
        """A session for Kopf, with the credentials of this moment."""
        source = self.runtime.source
        now = time.monotonic()
        if now < self._last_login + LOGIN_SECONDS:
            await asyncio.sleep(LOGIN_SECONDS)
            source.forget()
        self._last_login = time.monotonic()
        credentials = await source.current()
        session = new_session(credentials, authenticated=True)
        return kopf.AiohttpSession(
            server=credentials.server, aiohttp_session=session, default_namespace=credentials.namespace
        )


process: Final = Process()
