"""The `ApiClient` of the kubernetes package, for what is read once: snapshots, and a running operator's answers.

`connected` makes one with our credentials. Callers of the library bring their own. The operator itself sends with
`http`, which needs a fraction of the CPU (ADR 0005). This module is imported when it is needed: the package takes long.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

import urllib3
from kubernetes.client import ApiClient, ApiException, Configuration
from urllib3.exceptions import HTTPError, InsecureRequestWarning

from podwright.kube.client.answers import Answer
from podwright.kube.client.credentials.credentials import Credentials
from podwright.kube.client.errors import TooLongError, UnreachableError
from podwright.kube.client.media_types import JSON
from podwright.kube.client.pages import PAGE_SIZE, SMALLER, next_limit
from podwright.kube.client.response import BODY_LIMIT
from podwright.kube.client.wire import CONNECT_SECONDS, REQUEST_SECONDS, USER_AGENT


class _Client(ApiClient):
    """An ApiClient with the headers of credentials; one name may have several values."""

    def __init__(self, configuration: Configuration, credentials: Credentials) -> None:
        super().__init__(configuration)
        self.headers = credentials.headers
        if credentials.ssl_context is not None:
            self.rest_client.pool_manager.connection_pool_kw["ssl_context"] = credentials.ssl_context

    def call_api(self, method: str, url: str, header_params: Any = None, *args: Any, **options: Any) -> Any:
        headers = urllib3.HTTPHeaderDict(header_params or {})
        for name, value in self.headers:
            headers.add(name, value.encode().decode("latin-1"))  # as Latin-1, which it is sent in, it is UTF-8
        return super().call_api(method, url, headers, *args, **options)


def connected(credentials: Credentials) -> ApiClient:
    """A client with these credentials. Its owner closes it. A request without an answer is sent once more."""
    context, proxy = credentials.ssl_context, urlsplit(credentials.proxy or "")
    login = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}" if proxy.username else None
    configuration = Configuration(
        host=credentials.server,
        proxy=credentials.proxy or "",
        no_proxy="",
        proxy_headers=urllib3.make_headers(proxy_basic_auth=login),
        proxy_ssl_context=context,
        tls_server_name=getattr(context, "server_name", None),
        # A redirect would take the headers to another server.
        retries=urllib3.Retry(5, connect=0, read=1, redirect=False),
    )
    if context is not None and context.verify_mode == ssl.CERT_NONE:
        configuration.verify_ssl = False
        urllib3.disable_warnings(InsecureRequestWarning)
    client = _Client(configuration, credentials)
    client.user_agent = USER_AGENT
    return client


class ApiReader:
    """Reads from the API server of a client, which may be any."""

    def __init__(self, client: ApiClient, seconds: float = REQUEST_SECONDS) -> None:
        """`seconds`: how long a connection, and each pause of an answer, may take."""
        self._client = client
        self._seconds = seconds

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        """The parsed object at a path. Raises ApiError and UnreachableError."""
        return self._answer(path, query or {}).json()

    def objects_at(self, path: str) -> Iterator[Any]:
        """The objects of a list, read in pages as by `pages`. Raises ApiError and UnreachableError."""
        limit, token = PAGE_SIZE, ""
        while True:
            try:
                answer = self._answer(path, {"limit": str(limit), **({"continue": token} if token else {})})
            except TooLongError:
                if limit == 1:
                    raise
                limit = max(1, limit // SMALLER)
                continue
            page = answer.json()
            yield from (items := page.get("items") or ())
            limit, token = next_limit(limit, len(answer.body), len(items)), page["metadata"].get("continue")
            if not token:
                return

    def _answer(self, path: str, query: Mapping[str, str]) -> Answer:
        # The setting is for the tokens of clients that are not ours.
        request = self._client.param_serialize(
            "GET", path, query_params=[*query.items()], header_params={"Accept": JSON}, auth_settings=["BearerToken"]
        )
        try:
            response = self._client.call_api(*request, _request_timeout=(CONNECT_SECONDS, self._seconds)).response
            body = response.read(BODY_LIMIT + 1)
        except (HTTPError, ApiException) as error:
            raise UnreachableError(str(getattr(error, "reason", None) or error)) from error
        if len(body) > BODY_LIMIT:
            response.close()
            raise TooLongError("the response is too long")
        response.release_conn()
        return Answer(response.status, body)
