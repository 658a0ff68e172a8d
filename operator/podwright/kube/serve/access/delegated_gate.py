"""The gate of HTTPS: users authenticate by token or client certificate, and the API server says what they may read.

Results are kept for some seconds, and clients cannot make the scheduler flood the API server: a peer has few requests
under review at a time, waits for its turn when there are many, and waits after each review that refuses it. Source:
k8s.io/apiserver, DelegatingAuthenticationOptions and DelegatingAuthorizationOptions.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterator
from contextlib import ExitStack, contextmanager
from enum import Enum
from functools import partial
from typing import Any, Final, Generic, TypeVar

import orjson
from aiohttp import web

from podwright.kube.options.options import Options
from podwright.kube.serve.access.client_issuers import ClientIssuers
from podwright.kube.serve.access.delegation import ANONYMOUS, AUTHENTICATED, FAILURES, AccessDelegation, User
from podwright.kube.serve.access.impersonation import Impersonated, ImpersonationError, impersonated
from podwright.kube.serve.answers.explanations import wanted_pod
from podwright.kube.serve.answers.shadow_reports import SHADOW_PATH
from podwright.kube.serve.event_loops import SchedulerLoop
from podwright.kube.serve.page.sight import DATA, EVERYTHING, NOTHING, SIGHT, Sight, is_file, wanted_namespace

log = logging.getLogger(__name__)

V = TypeVar("V")

_Turn = Callable[[], Awaitable[None]]
"""Called before a review: see `_Turns.of`."""

MASTERS: Final = "system:masters"
"""The group that may do everything; the API server need not be asked."""
REVIEW_SECONDS: Final = 10.0
MOST_RESULTS: Final = 1024
"""How many results of each kind are kept."""
REVIEWS: Final = 32
"""How many requests are reviewed at once."""
REVIEWS_OF_A_PEER: Final = 4
TURN_SECONDS: Final = 5.0
"""How long a request waits for its turn to be reviewed."""
REFUSED_SECONDS: Final = 0.5
"""How long a client waits for the answer that a review has refused it."""


class Results(Generic[V]):
    """Keeps results of reviews for some seconds. If there are too many, the oldest are dropped."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: dict[Hashable, tuple[float, V]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Hashable) -> V | None:
        """The result, if it is not too old."""
        ends, value = self._kept.get(key, (0.0, None))
        return value if value is not None and self._clock() < ends else None

    def put(self, key: Hashable, value: V, seconds: float) -> None:
        self._kept.pop(key, None)
        if len(self._kept) >= MOST_RESULTS:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = (self._clock() + seconds, value)


class _BusyError(Exception):
    """Too many requests are being reviewed."""


class _Turns:
    """Bounds the requests under review, in all and for each peer. The request that has waited longest is next."""

    def __init__(self) -> None:
        self._of = Counter[str]()
        """Requests that are under review or wait for it, by peer."""
        self._free = asyncio.Semaphore(REVIEWS)

    @contextmanager
    def of(self, peer: str) -> Iterator[_Turn]:
        """A context that gives the function which a request of this peer calls before each review. The first call takes
        a turn, which ends with the context. The call raises _BusyError if the peer has too many requests, or if no turn
        comes in time.
        """
        with ExitStack() as taken:
            mine = False

            async def take() -> None:
                nonlocal mine
                if mine:
                    return
                if self._of[peer] >= REVIEWS_OF_A_PEER:
                    raise _BusyError
                mine = True
                self._of[peer] += 1
                taken.callback(self._end, peer)
                try:
                    async with asyncio.timeout(TURN_SECONDS):
                        await self._free.acquire()
                except TimeoutError:
                    raise _BusyError from None
                taken.callback(self._free.release)

            yield take

    def _end(self, peer: str) -> None:
        self._of[peer] -= 1
        if not self._of[peer]:
            del self._of[peer]


class DelegatedGate:
    """See the module. `clock` gives seconds and never steps back."""

    def __init__(
        self,
        delegation: AccessDelegation,
        options: Options,
        *,
        issuers: Callable[[], ClientIssuers],
        loop: SchedulerLoop,
        clock: Callable[[], float],
    ) -> None:
        """`issuers`: the current issuers of client certificates."""
        self._issuers = issuers
        self._delegation = delegation
        self._options = options
        self._loop = loop
        self._users = Results[tuple[User | None]](clock)
        self._access = Results[bool](clock)
        self._turns = _Turns()

    async def refusal(self, request: web.Request) -> web.StreamResponse | None:
        """See `AccessGate`."""
        if is_file(request.path):
            return None
        with self._turns.of(request.remote or "") as turn:
            try:
                return await self._reviewed_refusal(request, turn)
            except _BusyError:
                return _status(429, "TooManyRequests", "too many requests are being reviewed", {"Retry-After": "1"})

    def _is_open(self, path: str) -> bool:
        return any(
            path.startswith(allowed[:-1]) if allowed.endswith("*") else path == allowed
            for allowed in self._options.authorization_always_allow_paths
        )

    async def _reviewed_refusal(self, request: web.Request, turn: _Turn) -> web.StreamResponse | None:
        try:
            user = await self._user(request, turn)
        except FAILURES as error:
            log.warning("a token cannot be reviewed: %s", error or type(error).__name__)
            user = None
        if user is None:
            return _status(401, "Unauthorized", "Unauthorized")
        if self._is_open(request.path):
            return None
        verb = request.method.lower()
        try:
            if (found := impersonated(request)) is not None:
                for needed in found[1]:
                    if not await self._may_impersonate(user, needed, turn):
                        what = f'{needed.resource} "{needed.name}" is forbidden'
                        return _status(403, "Forbidden", f'{what}: User "{user.name}" cannot impersonate it')
                user = found[0]
            if MASTERS in user.groups:
                request[SIGHT] = Sight(wanted_namespace(request)) if request.path in DATA else EVERYTHING
                return None
            asked = partial(self._delegation.allows, user, verb, request.path)
            if await self._allows(user, (verb, request.path), asked, turn):
                if request.path in DATA:
                    request[SIGHT] = await self._sight(user, request, turn)
                return await self._refusal_of_pods(user, request, turn)
        except ImpersonationError as error:
            return _status(400, "BadRequest", str(error))
        except FAILURES as error:
            log.warning("access cannot be reviewed: %s", error or type(error).__name__)
            return _status(500, "InternalError", "access cannot be reviewed")
        return _status(403, "Forbidden", f'forbidden: User "{user.name}" cannot {verb} path "{request.path}"')

    async def _may_impersonate(self, user: User, needed: Impersonated, turn: _Turn) -> bool:
        if MASTERS in user.groups:
            return True
        return await self._allows(
            user, ("impersonate", *needed), partial(self._delegation.allows_impersonation, user, *needed), turn
        )

    async def _refusal_of_pods(self, user: User, request: web.Request, turn: _Turn) -> web.StreamResponse | None:
        """A user who asks about a pod must be allowed to get it. A user who asks about pods of all namespaces must be
        allowed to list them.
        """
        if request.path == SHADOW_PATH:
            if await self._may_list_pods(user, "", turn):
                return None
            return _status(
                403, "Forbidden", f'pods is forbidden: User "{user.name}" cannot list resource "pods" in all namespaces'
            )
        pod = wanted_pod(request)
        if pod is None or await self._allows(user, pod, partial(self._delegation.allows_pod, user, *pod), turn):
            return None
        message = (
            f'pods "{pod[1]}" is forbidden: User "{user.name}" cannot get resource "pods" in the namespace "{pod[0]}"'
        )
        return _status(403, "Forbidden", message)

    async def _sight(self, user: User, request: web.Request, turn: _Turn) -> Sight:
        """The pods of a namespace, or of all, that a request of the page asks for, if the user may list them."""
        namespace = wanted_namespace(request)
        return Sight(namespace) if await self._may_list_pods(user, namespace, turn, patient=True) else NOTHING

    async def _may_list_pods(self, user: User, namespace: str, turn: _Turn, *, patient: bool = False) -> bool:
        """`namespace`: "" for all."""
        asked = partial(self._delegation.allows_pods, user, namespace)
        return await self._allows(user, ("list pods in", namespace), asked, turn, patient=patient)

    async def _user(self, request: web.Request, turn: _Turn) -> User | None:
        """The user of the request; None if the request shows an invalid token. Raises FAILURES."""
        certified = _certified_user(request, self._issuers())
        if isinstance(certified, User):
            return certified
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return ANONYMOUS if certified is None else None
        key = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        found = self._users.get(key)
        if found is not None:
            return found[0]
        await turn()
        user = await self._loop.run(partial(self._delegation.user_of, token), REVIEW_SECONDS)
        self._users.put(key, (user,), self._options.authentication_token_webhook_cache_ttl)
        if user is None:
            await asyncio.sleep(REFUSED_SECONDS)
        return user

    async def _allows(
        self,
        user: User,
        what: tuple[str, ...],
        asked: Callable[[], Coroutine[Any, Any, bool]],
        turn: _Turn,
        *,
        patient: bool = False,
    ) -> bool:
        """`asked` asks the API server about `what`: a verb and a path, which begins with a slash, a namespace and a
        pod, or whom to impersonate.

        `patient`: a refusal is not delayed, because the request is not misuse.
        """
        key = (user.name, user.uid, user.groups, repr(sorted(user.extra.items())), *what)
        found = self._access.get(key)
        if found is not None:
            return found
        await turn()
        allowed = await self._loop.run(asked, REVIEW_SECONDS)
        options = self._options
        self._access.put(
            key,
            allowed,
            options.authorization_webhook_cache_authorized_ttl
            if allowed
            else options.authorization_webhook_cache_unauthorized_ttl,
        )
        if not (allowed or patient):
            await asyncio.sleep(REFUSED_SECONDS)
        return allowed


class _Unusable(Enum):
    """A certificate that TLS has verified, but that names no user."""

    CERTIFICATE = 1


def _certified_user(request: web.Request, issuers: ClientIssuers) -> User | _Unusable | None:
    """The user whom the client's certificate names, or whom a front proxy names with its own. TLS has verified the
    certificate.

    None: the client has no certificate; or one without a common name, and there are no front proxies that could have
    it.
    """
    connection: Any = request.transport.get_extra_info("ssl_object") if request.transport is not None else None
    certificate = connection.getpeercert() if connection is not None else None
    if not certificate:
        return None
    names: dict[str, list[str]] = {}
    for part in certificate.get("subject", ()):
        for name, value in part:
            names.setdefault(name, []).append(value)
    common = names.get("commonName", [""])[-1]
    role = issuers.role_of(connection, common)
    if role.front_proxy and (user := issuers.front_proxies.user_of(request)) is not None:
        return user
    if role.user and common:
        return User(common, (*names.get("organizationName", ()), AUTHENTICATED))
    return _Unusable.CERTIFICATE if issuers.front_proxies.issuers else None


def _status(code: int, reason: str, message: str, headers: dict[str, str] | None = None) -> web.Response:
    """An answer in the form of the API server's."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    return web.Response(status=code, body=orjson.dumps(body), content_type="application/json", headers=headers)
