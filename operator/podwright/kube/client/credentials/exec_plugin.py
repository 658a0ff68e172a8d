"""Credential plugins (`users[].user.exec`): programs that print credentials, by client.authentication.k8s.io.

As in client-go, except that a plugin never gets a terminal: Podwright has none. What a plugin writes to its standard
error is logged with --v=10 only, because it may contain secrets.
"""

from __future__ import annotations

import datetime
import json
import logging
import os
import shutil
import subprocess
from collections.abc import Mapping
from typing import Any, Final

from podwright.core.objects.dataclass import dataclass
from podwright.kube.client.errors import ConfigError

VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
RUN_SECONDS: Final = 60.0
OUTPUT_LIMIT: Final = 1 << 20
"""Bytes of output that are parsed."""
STDERR_LIMIT: Final = 2_000
"""Bytes of a plugin's standard error that are logged."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Issued:
    """The credentials that a plugin returned; `expires` in seconds since the epoch."""

    token: str | None
    certificate: str | None
    key: str | None
    expires: float | None


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A plugin, and where the kubeconfig names it. `cluster`: the data about the cluster that the plugin gets if it
    asks for them.
    """

    command: str
    args: tuple[str, ...]
    env: Mapping[str, str]
    api_version: str
    cluster: Mapping[str, Any] | None
    where: str
    install_hint: str = ""

    def run(self) -> Issued:
        """Runs the program and returns its credentials. Raises ConfigError."""
        program = shutil.which(self.command)
        if program is None:
            raise self._error(f"was not found. {self.install_hint}".strip())
        spec: dict[str, Any] = {"interactive": False}
        if self.cluster is not None:
            spec["cluster"] = self.cluster
        info = {"apiVersion": self.api_version, "kind": "ExecCredential", "spec": spec}
        environ = {**os.environ, **self.env, "KUBERNETES_EXEC_INFO": json.dumps(info)}
        try:
            done = subprocess.run(  # noqa: S603 -- the kubeconfig's owner named the program
                [program, *self.args],
                env=environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=RUN_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise self._error(f"did not end within {RUN_SECONDS:g} s") from None
        except (OSError, ValueError) as error:
            raise self._error(f"cannot be run: {error}") from error
        if done.stderr:
            log.debug("%s: %s wrote: %r", self.where, self.command, done.stderr[:STDERR_LIMIT])
        if done.returncode:
            raise self._error(f"ended with {done.returncode}; its messages are logged with --v=10")
        return self._parse(done.stdout)

    def _error(self, problem: str) -> ConfigError:
        return ConfigError(f"{self.where}: credential plugin {self.command} {problem}")

    def _parse(self, output: bytes) -> Issued:
        if len(output) > OUTPUT_LIMIT:
            raise self._error(f"printed more than {OUTPUT_LIMIT} bytes")
        try:
            answer = json.loads(output)
            if answer.get("kind") != "ExecCredential":
                raise self._error(f"printed kind {answer.get('kind')!r}, not ExecCredential")
            if answer.get("apiVersion") != self.api_version:
                raise self._error(f"printed version {answer.get('apiVersion')!r}, not {self.api_version}")
            status = answer.get("status") or {}
            issued = Issued(
                token=_text(status, "token"),
                certificate=_text(status, "clientCertificateData"),
                key=_text(status, "clientKeyData"),
                expires=_time(_text(status, "expirationTimestamp")),
            )
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            # The output is not shown: it may contain the token.
            raise self._error(f"printed something else than an ExecCredential ({type(error).__name__})") from None
        if not issued.token and not issued.certificate and not issued.key:
            raise self._error("returned neither a token nor a certificate with its key")
        if bool(issued.certificate) != bool(issued.key):
            raise self._error("returned only one of certificate and key")
        return issued


def _text(status: Mapping[str, Any], key: str) -> str | None:
    """Raises TypeError for another type."""
    value = status.get(key)
    if value is not None and not isinstance(value, str):
        raise TypeError(key)
    return value or None


def _time(text: str | None) -> float | None:
    """Seconds since the epoch. Raises ValueError if the text is not a time with its zone."""
    if text is None:
        return None
    time = datetime.datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError(text)
    return time.timestamp()
