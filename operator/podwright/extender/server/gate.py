"""The extender's gate: a caller needs a client certificate of the given issuers, or the token of a file.

Only kube-scheduler should: `bind` can place any pod on any node. The port is open to everybody only if an option says
so.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from podwright.engine.records.log_fields import fields
from podwright.kube.client.errors import ConfigError
from podwright.kube.serve.access.gates import PUBLIC

log = logging.getLogger(__name__)

LONGEST_TOKEN: Final = 1 << 14


class ExtenderGate:
    """See the module. Health is for everybody."""

    def __init__(self, *, certificates: bool, names: Collection[str], token_file: Path | None) -> None:
        """`certificates`: whether TLS verifies client certificates; `names`: their common names, none for all.

        Without `certificates` and `token_file`, everybody may call. Raises ConfigError for a file without a token.
        """
        self._certificates = certificates
        self._names = frozenset(names)
        self._token_file = token_file
        self._token = "" if token_file is None else read_token(token_file)

    def reload(self) -> None:
        """Reads the token again. One that cannot be read changes nothing."""
        if self._token_file is not None:
            try:
                self._token = read_token(self._token_file)
            except ConfigError as error:
                log.error("the extender keeps its token: %s", error)  # noqa: TRY400 -- the message says it all

    async def refusal(self, request: web.Request) -> web.StreamResponse | None:
        """See `AccessGate`."""
        if request.path.startswith(PUBLIC) or self._may_call(request):
            return None
        why = self._why_not(request)
        # Nothing that the caller chooses: equal lines are counted, others are written.
        log.warning("A caller is refused", extra=fields(caller=request.remote, err=why))
        return web.Response(status=401, text=f"{why}\n", headers={"WWW-Authenticate": "Bearer"})

    def _why_not(self, request: web.Request) -> str:
        names = _common_names(request) if self._certificates else ()
        if names:
            return f"no name of the client certificate ({', '.join(names)}) is in --allowed-client-names"
        if self._token and _bearer_token(request) is not None:
            return "the bearer token is not the one of --token-file"
        kinds = {"a client certificate": self._certificates, "a bearer token": bool(self._token)}
        return f"{' or '.join(kind for kind, counts in kinds.items() if counts)} is required"

    def _may_call(self, request: web.Request) -> bool:
        if not self._certificates and not self._token:
            return True
        return self._has_certificate(request) or self._has_token(request)

    def _has_certificate(self, request: web.Request) -> bool:
        if not self._certificates or not _certificate(request):
            return False
        return not self._names or bool(self._names.intersection(_common_names(request)))

    def _has_token(self, request: web.Request) -> bool:
        token = _bearer_token(request)
        if not self._token or token is None:
            return False
        return hmac.compare_digest(token.encode("utf-8", "surrogateescape"), self._token.encode())


def _bearer_token(request: web.Request) -> str | None:
    """The token that the caller sent, or None."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def _certificate(request: web.Request) -> Any:
    """The verified certificate of the caller, as `ssl.SSLSocket.getpeercert` gives it. None, or empty, without one."""
    return request.transport.get_extra_info("peercert") if request.transport is not None else None


def _common_names(request: web.Request) -> Sequence[str]:
    subject = (_certificate(request) or {}).get("subject", ())
    return [value for part in subject for key, value in part if key == "commonName"]


def read_token(path: Path) -> str:
    """The token in the file. Raises ConfigError."""
    try:
        with path.open("rb") as file:
            token = file.read(LONGEST_TOKEN + 1).decode("ascii").strip()
    except OSError as error:
        raise ConfigError(f"--token-file: cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"--token-file: {path} has no token") from error
    if not token or len(token) > LONGEST_TOKEN:
        raise ConfigError(f"--token-file: {path} has no token")
    return token
