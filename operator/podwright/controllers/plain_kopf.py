"""Plain `kopf run`: the runtime starts and stops with Kopf. Importing this module registers its handlers with Kopf.

Its options come from PODWRIGHT_ environment variables (docs/options.md).
"""

from __future__ import annotations

import asyncio
import logging
import signal
from typing import Any, Final

import kopf

from podwright.controllers import handlers
from podwright.controllers.login import KopfLogin
from podwright.controllers.settings import configure
from podwright.core.framework.registry import RegistryError
from podwright.extender.clients import clients_of
from podwright.kube.client.errors import AccessError, ConfigError
from podwright.kube.log_format import make_safe
from podwright.kube.options.options import Options
from podwright.kube.options.values import OptionsError
from podwright.kube.repeated_lines import count_repeated_lines
from podwright.kube.runtime import Runtime


class PlainKopf:
    """Holds the runtime of the process while Kopf runs."""

    def __init__(self) -> None:
        self._runtime: Runtime | None = None
        self._watching: asyncio.Task[None] | None = None

    async def start(self, settings: kopf.OperatorSettings, registry: kopf.OperatorRegistry) -> None:
        """Starts the runtime, then configures Kopf for it. Raises SystemExit, which ends the process with one line."""
        make_safe(logging.getLogger())
        count_repeated_lines()
        try:
            options = Options.from_environment()
            runtime = self._runtime = Runtime(options, clients_of(options))
            await runtime.start()
        except (AccessError, ConfigError, OptionsError, RegistryError, OSError) as error:
            await asyncio.sleep(0)  # Kopf's tasks begin, or Python warns that they never did
            # Kopf would retry the start after an ordinary error, and end with its own traceback after a permanent one.
            raise SystemExit(f"Error: {error}") from error
        # Kopf itself ends with SIGTERM and SIGINT only.
        asyncio.get_running_loop().add_signal_handler(signal.SIGQUIT, signal.raise_signal, signal.SIGTERM)
        self._watching = asyncio.create_task(self._end_when_lost(runtime), name="podwright end of leadership")
        configure(settings, runtime)
        handlers.register_login(registry, KopfLogin(runtime.source, runtime.pending.put_listed))
        handlers.register_watches(registry, runtime)

    @staticmethod
    async def _end_when_lost(runtime: Runtime) -> None:
        await runtime.leadership.lost.wait()
        signal.raise_signal(signal.SIGTERM)

    async def stop(self) -> None:
        """Stops the runtime, if there is one. Raises SystemExit if the Lease was lost."""
        if self._watching is not None:
            self._watching.cancel()
        if self._runtime is not None:
            await self._runtime.stop()
            if self._runtime.leadership.lost.is_set():
                raise SystemExit("Error: leader election lost")


_operator: Final = PlainKopf()


@kopf.on.startup()
async def start(settings: kopf.OperatorSettings, **_: Any) -> None:
    await _operator.start(settings, kopf.get_default_registry())


@kopf.on.cleanup()
async def stop(**_: Any) -> None:
    await _operator.stop()
