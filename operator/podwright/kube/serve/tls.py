"""Keeps the TLS of the secure port current: its certificate, and the issuers of its clients' certificates."""

from __future__ import annotations

import asyncio
import datetime
import logging
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

from podwright.kube.client.errors import AccessError
from podwright.kube.options import Options
from podwright.kube.serve.certificates import ServingCertificate, read_pem
from podwright.kube.serve.delegation import FAILURES, Delegation
from podwright.kube.serve.event_loops import SchedulerLoop

log = logging.getLogger(__name__)

CHECK_SECONDS: Final = 10.0
"""How often files are read again."""
LOOK_UP_CHECKS: Final = 6
"""The cluster's client CAs are looked up at every sixth check."""
LOOK_UP_SECONDS: Final = 15.0


class Tls:
    """See the module. Runs in the server's thread."""

    def __init__(
        self, options: Options, delegation: Delegation, *, loop: SchedulerLoop, reloaded: Callable[[str], None]
    ) -> None:
        """`reloaded` gets "success" or "error" for each change of the certificate. Raises ConfigError for files that cannot be used."""
        self._options = options
        self._delegation = delegation
        self._loop = loop
        self._certificate = ServingCertificate(
            options, now=lambda: datetime.datetime.now(datetime.UTC), reloaded=reloaded
        )
        self._problem = ""
        if options.client_ca_file is not None:
            self._certificate.trust_clients_of(read_pem(Path(options.client_ca_file)))

    def context(self) -> ssl.SSLContext:
        """The context for a new connection."""
        return self._certificate.context

    @property
    def expires(self) -> float:
        """When the certificate expires, in seconds since the epoch."""
        return self._certificate.expires.timestamp()

    async def run(self) -> None:
        """Keeps everything current until it is cancelled."""
        checks = 0
        while True:
            failed = bool(self._problem)
            await self.check(look_up=failed or checks % LOOK_UP_CHECKS == 0)
            checks += 1
            await asyncio.sleep(CHECK_SECONDS)

    async def check(self, *, look_up: bool) -> None:
        """Reads all files again, and looks the client CAs up in the cluster. What cannot be used is logged once, and changes nothing."""
        self._certificate.reload()
        try:
            if self._options.client_ca_file is not None:
                self._certificate.trust_clients_of(read_pem(Path(self._options.client_ca_file)))
            elif look_up:
                await self.look_up()
        except FAILURES as error:
            self._log(f"the issuers of client certificates stay as they are: {error or type(error).__name__}")
        else:
            self._problem = ""

    async def look_up(self) -> None:
        """Takes the client CAs of the cluster, unless the options say otherwise. Raises FAILURES."""
        if self._options.client_ca_file is None and not self._options.authentication_skip_lookup:
            authorities = await self._loop.run(self._delegation.client_authorities, LOOK_UP_SECONDS)
            self._certificate.trust_clients_of(authorities)

    async def require(self) -> None:
        """For the start: `look_up`, unless its failures are tolerated. Raises AccessError."""
        if self._options.authentication_tolerate_lookup_failure:
            return
        try:
            await self.look_up()
        except FAILURES as error:
            raise AccessError(
                f"the cluster's client CAs cannot be looked up (--authentication-tolerate-lookup-failure=false): {error}"
            ) from error

    def _log(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            log.warning(problem)
