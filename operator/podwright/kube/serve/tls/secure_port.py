"""Keeps the TLS of the secure port current: its certificate, and the issuers of its clients' certificates."""

from __future__ import annotations

import asyncio
import datetime
import logging
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

from podwright.kube.client.errors import AccessError, ConfigError
from podwright.kube.options.options import Options
from podwright.kube.serve.access.client_issuers import CLIENTS, ClientIssuers, FrontProxies, certificates_of
from podwright.kube.serve.access.delegation import FAILURES, AccessDelegation
from podwright.kube.serve.event_loops import SchedulerLoop
from podwright.kube.serve.tls.certificate import read_pem
from podwright.kube.serve.tls.named_certificates import ServingCertificates

log = logging.getLogger(__name__)

CHECK_SECONDS: Final = 10.0
"""How often files are read again."""
LOOK_UP_CHECKS: Final = 6
"""The cluster's client CAs are looked up at every sixth check."""
LOOK_UP_SECONDS: Final = 15.0


class Tls:
    """See the module. Runs in the server's thread."""

    def __init__(
        self, options: Options, delegation: AccessDelegation, *, loop: SchedulerLoop, reloaded: Callable[[str], None]
    ) -> None:
        """`reloaded` gets "success" or "error" for each change of a certificate. Raises ConfigError for files that
        cannot be used.
        """
        self._options = options
        self._delegation = delegation
        self._loop = loop
        self._certificates = ServingCertificates(
            options, now=lambda: datetime.datetime.now(datetime.UTC), reloaded=reloaded
        )
        self._problem = ""
        self.issuers = ClientIssuers()
        """The issuers of client certificates."""
        self._trust(self._read(ClientIssuers()))

    def context(self, address: str) -> ssl.SSLContext:
        """Returns the context for a new connection to this local address."""
        return self._certificates.context(address)

    @property
    def expires(self) -> float:
        """When the first certificate expires, in seconds since the epoch."""
        return self._certificates.expires

    async def run(self) -> None:
        """Keeps everything current until it is cancelled."""
        checks = 0
        while True:
            failed = bool(self._problem)
            await self.check(look_up=failed or checks % LOOK_UP_CHECKS == 0)
            checks += 1
            await asyncio.sleep(CHECK_SECONDS)

    async def check(self, *, look_up: bool) -> None:
        """Reads all files again, and looks the client CAs up in the cluster. What cannot be used is logged once, and
        changes nothing.
        """
        self._certificates.reload()
        try:
            self._trust(self._read(self.issuers))
            if look_up:
                await self.look_up()
        except FAILURES as error:
            self._log(f"the issuers of client certificates stay as they are: {str(error) or type(error).__name__}")
        else:
            self._problem = ""

    async def look_up(self) -> None:
        """Takes the client CAs of the cluster for those that the options do not name. Raises FAILURES."""
        options = self._options
        if options.authentication_skip_lookup or (options.client_ca_file and options.requestheader_client_ca_file):
            return
        data = await self._loop.run(self._delegation.authentication, LOOK_UP_SECONDS)
        found = ClientIssuers(str(data.get(CLIENTS) or ""), FrontProxies.of_config_map(data))
        self._trust(self._read(found))

    def _read(self, others: ClientIssuers) -> ClientIssuers:
        """The issuers in the files of the options, and for those without a file the `others`. Raises ConfigError."""
        options, clients, proxies = self._options, others.clients, others.front_proxies
        if options.client_ca_file is not None:
            clients = _read_issuers(options.client_ca_file)
        if options.requestheader_client_ca_file is not None:
            proxies = FrontProxies.of_options(options, _read_issuers(options.requestheader_client_ca_file))
        if (clients, proxies) == (others.clients, others.front_proxies):
            return others
        return ClientIssuers(clients, proxies)

    def _trust(self, issuers: ClientIssuers) -> None:
        if issuers is not self.issuers:
            self._certificates.trust_clients_of(issuers.pem)
            self.issuers = issuers

    async def require(self) -> None:
        """For the start: `look_up`, unless its failures are tolerated. Raises AccessError."""
        if self._options.authentication_tolerate_lookup_failure:
            return
        try:
            await self.look_up()
        except FAILURES as error:
            raise AccessError(
                "the cluster's client CAs cannot be looked up (--authentication-tolerate-lookup-failure=false): "
                f"{error}"
            ) from error

    def _log(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            log.warning(problem)


def _read_issuers(file: str) -> str:
    pem = read_pem(Path(file))
    if not certificates_of(pem, file):
        raise ConfigError(f"{file} has no certificate")
    return pem
