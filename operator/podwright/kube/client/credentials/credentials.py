"""The API server's address and our credentials: the one source of both in the process.

`load` finds them as kubectl does, in a kubeconfig or in the pod's service account, and returns a `CredentialSource`.
`CredentialSource.current()` returns the current `Credentials`; it reads files or runs a credential plugin again only
when they are due or were refused. `kubeconfig` reads the kubeconfig; `http` and the login handler in controllers/ are
the only users.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import Callable
from dataclasses import field, replace
from pathlib import Path
from typing import Final

from podwright.core.objects.dataclass import dataclass
from podwright.kube.bounded_files import read_at_most
from podwright.kube.client.credentials.kubeconfig import KubeConfig, find_kubeconfig, read_kubeconfig
from podwright.kube.client.credentials.proxies import proxy_from_environment
from podwright.kube.client.credentials.tls import tls_context
from podwright.kube.client.errors import ApiError, ConfigError
from podwright.kube.client.retry import RetryPolicy
from podwright.kube.deadline import wait_at_most

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN_FILE_SECONDS: Final = 60.0
"""How long a token from a file is used before the file is read again; the kubelet rotates it well before it expires."""
SHORTEST_SECONDS: Final = 10.0
"""The shortest time between two loads, unless credentials are refused. To a clock that is ahead, every new token has
expired.
"""
FAILED_SECONDS: Final = 2.0
"""The pause after a load that failed: each load may start a program."""
REFUSED: Final = RetryPolicy(shortest=1.0, longest=10.0)
"""The pauses while the server refuses everything that the loads return. The first load follows a refusal at once."""
TRIAL_SECONDS: Final = 5.0
"""How long other requests wait for the result of the one request that tries refused credentials again."""

log = logging.getLogger(__name__)

Headers = tuple[tuple[str, str], ...]
"""Names and values; names may repeat."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """One consistent set: the server, its TLS context (None for plain HTTP), and the headers that authenticate us."""

    server: str
    ssl_context: ssl.SSLContext | None
    headers: Headers = field(repr=False)
    namespace: str = "default"
    proxy: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A loader's result: credentials, and when to load them again, on the clock whose time it was given."""

    credentials: Credentials
    renew_at: float = float("inf")


class CredentialSource:
    """Credentials, kept fresh. Loading may read files or start a program, so it runs in a thread.

    `loader` gets the time of `clock` in seconds since the epoch, which may step; durations are measured with `steady`,
    which never steps. Credentials that cannot be renewed stay in use unless they were refused; the next load follows
    some seconds later.

    Its user reports which credentials the server `refused` or `accepted`. Refused credentials are loaded again at once.
    If the server refuses those too, nothing is sent for a pause that grows. After it, they are loaded again, and a
    single request tries them.
    """

    def __init__(
        self,
        loader: Callable[[float], Loaded],
        clock: Callable[[], float],
        steady: Callable[[], float] | None = None,
    ) -> None:
        self._loader = loader
        self._clock = clock
        self._steady = steady or clock
        self._credentials: Credentials | None = None
        self._renew_at = float("-inf")
        self._refused = False
        self._failure: Exception | None = None
        self._lock = asyncio.Lock()
        self._refused_since: float | None = None
        self._refusals = 0
        """In a row."""
        self._accepted = asyncio.Event()
        self._accepted.set()
        self._trial_ends: float | None = None
        """While one request tries credentials that follow refused ones."""

    @property
    def due(self) -> bool:
        """True to ask `current()`: it loads again, or lets no other request through."""
        return self._trial_ends is not None or self._steady() >= self._renew_at

    @property
    def refused_since(self) -> float | None:
        """Since when the server has refused all our credentials, on the clock `steady`; None if it has accepted the
        last ones.
        """
        return self._refused_since

    @property
    def pause(self) -> float:
        """The seconds until refused credentials are tried again; 0 if they are accepted."""
        ends = self._trial_ends or (self._renew_at if self._refused else 0.0)
        return max(0.0, ends - self._steady())

    def load(self) -> Credentials:
        """Credentials for a few requests: loaded now, and not kept fresh. Raises ConfigError and OSError."""
        return self._loader(self._clock()).credentials

    async def current(self) -> Credentials:
        """Returns the current credentials.

        Raises ConfigError or OSError without usable credentials, and ApiError with status 401 while the server refuses
        them.
        """
        credentials = self._credentials
        if credentials is not None and not self._refused and not self.due:
            return credentials
        async with self._lock:
            if self._steady() >= self._renew_at:
                await self._load()
            elif self._trial_ends is not None and self._steady() < self._trial_ends:
                raise self._refusal()
            if self._failure is not None and (self._refused or self._credentials is None):
                raise self._failure.with_traceback(None)
            if self._refused:
                raise self._refusal()
            assert self._credentials is not None
            if self._refusals > 1:
                self._trial_ends = self._steady() + TRIAL_SECONDS
            return self._credentials

    def _refusal(self) -> ApiError:
        text = "the API server refuses our credentials"
        return ApiError(401, "Unauthorized", text, retry_after=max(1.0, self.pause))

    async def _load(self) -> None:
        now = self._clock()
        try:
            loaded = await asyncio.to_thread(self._loader, now)
        except (ConfigError, OSError) as error:
            if self._failure is None and self._credentials is not None:
                log.warning("cannot renew the credentials: %s", error)
            self._failure = error
            self._renew_at = self._steady() + FAILED_SECONDS
            return
        self._credentials, self._failure, self._refused = loaded.credentials, None, False
        self._renew_at = self._steady() + max(SHORTEST_SECONDS, loaded.renew_at - now)

    def forget(self) -> None:
        """Makes the next `current()` load again. Has no effect while the server refuses our credentials: loads are
        paced then.
        """
        if self._refused_since is None:
            self._renew_at = float("-inf")

    async def wait_while_refused(self, timeout: float) -> None:
        """Waits until the server accepts our credentials, for at most `timeout` seconds."""
        await wait_at_most(timeout, self._accepted.wait())

    def refused(self, credentials: Credentials) -> None:
        """The server answered 401 to these. Many requests may report it; the first one counts."""
        if self._credentials is not credentials or self._refused:
            return
        self._refused = True
        self._trial_ends = None
        self._refusals += 1
        if self._refusals == 1:
            log.info("the API server no longer accepts our credentials; loading them again")
            self._refused_since = self._steady()
            self._accepted.clear()
            self._renew_at = float("-inf")
            return
        if self._refusals == 2:
            log.warning("the API server refuses our credentials; loading and trying them again with growing pauses")
        self._renew_at = self._steady() + REFUSED.pause(self._refusals - 1)

    def accepted(self, credentials: Credentials) -> None:
        """The server answered something else than 401 to these. To be called while `refused_since` is not None."""
        if self._credentials is not credentials or self._refused:
            return
        if self._refusals > 1:
            log.info("the API server accepts our credentials again")
        self._refused_since = self._trial_ends = None
        self._refusals = 0
        self._accepted.set()


def load(
    kubeconfig: str | None,
    context: str | None,
    clock: Callable[[], float],
    steady: Callable[[], float] | None = None,
    *,
    server: str | None = None,
    named_by: str = "--kubeconfig",
    impersonation: Headers = (),
) -> CredentialSource:
    """Credentials from a kubeconfig (the given one, `KUBECONFIG`, or ~/.kube/config), else from the pod's service
    account.

    `server`: the URL of the API server, instead of the one in the kubeconfig. Without a kubeconfig, it gets no
    credentials. `named_by`: the option or variable that the error message mentions if there is no kubeconfig.
    `impersonation`: headers in place of the kubeconfig's own ones of that kind.

    Raises ConfigError if neither exists, and if the kubeconfig cannot be used.
    """
    paths = find_kubeconfig(kubeconfig)
    if paths:

        def read() -> KubeConfig:
            found = read_kubeconfig(paths, context, server)
            return replace(found, impersonation=impersonation) if impersonation else found

        read()
        return CredentialSource(lambda now: _from_kubeconfig(read(), now), clock, steady=steady)
    if impersonation:
        raise ConfigError("--as needs a kubeconfig")
    if server:
        bare = KubeConfig(server=server, namespace="default", cluster_where="--master", user_where="--master")
        return CredentialSource(lambda now: _from_kubeconfig(bare, now), clock, steady=steady)
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return in_cluster(clock, steady=steady)
    raise ConfigError(
        f"no kubeconfig was found ({named_by}, KUBECONFIG, ~/.kube/config), and this process does not run in a pod"
    )


def namespace_of(kubeconfig: str | None, context: str | None) -> str:
    """Returns the namespace of the context or, without a kubeconfig, of the pod's service account; `default` without
    either. Raises ConfigError.
    """
    paths = find_kubeconfig(kubeconfig)
    if paths:
        return read_kubeconfig(paths, context, None).namespace
    return _own_namespace(SERVICE_ACCOUNT)


def _own_namespace(folder: Path) -> str:
    namespace = folder / "namespace"
    return namespace.read_text().strip() if namespace.exists() else "default"


def in_cluster(
    clock: Callable[[], float], folder: Path = SERVICE_ACCOUNT, steady: Callable[[], float] | None = None
) -> CredentialSource:
    """The service account of our pod. Raises ConfigError outside a cluster."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise ConfigError("KUBERNETES_SERVICE_HOST is not set: this process does not run in a pod")
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    where = "the service account"

    def loader(now: float) -> Loaded:
        authority = _read(folder / "ca.crt", where)
        headers = (("Authorization", f"Bearer {_read(folder / 'token', where)}"),)
        credentials = Credentials(
            server=server,
            ssl_context=tls_context(authority, None, None, where=(where, where)),
            headers=_checked(headers, where),
            namespace=_own_namespace(folder),
            proxy=proxy_from_environment(server, os.environ),
        )
        return Loaded(credentials, now + TOKEN_FILE_SECONDS)

    return CredentialSource(loader, clock, steady=steady)


def _from_kubeconfig(config: KubeConfig, now: float) -> Loaded:
    authorization = config.authorization
    renew_at = float("inf")
    certificate, key = config.client_certificate, config.client_key
    if config.token_file is not None:
        authorization = f"Bearer {_file_token(config, config.token_file)}"
        renew_at = now + TOKEN_FILE_SECONDS
    elif config.token is not None:
        authorization = f"Bearer {config.token}"
    elif config.plugin is not None:
        issued = config.plugin.run()
        authorization = f"Bearer {issued.token}" if issued.token else None
        certificate, key = issued.certificate, issued.key
        renew_at = issued.expires if issued.expires is not None else renew_at
    context = None
    if config.server.startswith("https://"):
        context = tls_context(
            config.certificate_authority,
            certificate,
            key,
            insecure=config.insecure,
            server_name=config.tls_server_name,
            where=(config.cluster_where, config.user_where),
        )
    headers: Headers = (("Authorization", authorization),) if authorization is not None else ()
    credentials = Credentials(
        server=config.server,
        ssl_context=context,
        headers=_checked(headers + config.impersonation, config.user_where),
        namespace=config.namespace,
        proxy=config.proxy or proxy_from_environment(config.server, os.environ),
    )
    return Loaded(credentials, renew_at)


def _file_token(config: KubeConfig, path: Path) -> str:
    """Returns the token of a token file or, if that cannot be read, `token` of the same user. Raises ConfigError."""
    try:
        return _read(path, f"{config.user_where}.tokenFile")
    except ConfigError:
        if config.token is None:
            raise
        return config.token


def _checked(headers: Headers, where: str) -> Headers:
    """Raises ConfigError for a header that HTTP cannot carry."""
    for name, value in headers:
        if any(character != "\t" and (character < " " or character == "\x7f") for character in name + value):
            raise ConfigError(f"{where}: the header {name!r} would contain a control character")
    return headers


def _read(path: Path, where: str) -> str:
    try:
        text = read_at_most(path).decode().strip()
    except OSError as error:
        raise ConfigError(f"{where}: cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise ConfigError(f"{where}: {path} is not text") from None
    if not text:
        raise ConfigError(f"{where}: {path} is empty")
    return text
