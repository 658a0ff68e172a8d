"""A response of the API server: status and body as they came. Errors are in `errors`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import orjson

from podwright.core.objects.dataclass import dataclass
from podwright.kube.client.errors import ApiError, UnreachableError
from podwright.kube.client.json_text import loads

_SECONDS: Final = re.compile(r"[0-9]{1,9}")


def retry_after_seconds(value: str) -> float | None:
    """The seconds of a Retry-After header; None for a date or anything else."""
    return float(value) if _SECONDS.fullmatch(value) else None


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP response. `retry_after` in seconds, from the header of a 4xx or 5xx."""

    status: int
    body: bytes
    retry_after: float | None = None

    def json(self, loads: Callable[[bytes], Any] = loads) -> Any:
        """The parsed body. Raises ApiError for any status but 2xx, UnreachableError for a body that is not JSON."""
        if self.status >= 300:
            raise self.error()
        try:
            return loads(self.body)
        except orjson.JSONDecodeError as error:
            raise UnreachableError(f"the response is not JSON: {self.body[:100]!r}") from error

    def error(self) -> ApiError:
        """The error that a status other than 2xx stands for. Redirects are not followed: credentials would go to
        another server.
        """
        try:
            status = orjson.loads(self.body)
            return ApiError(
                self.status, str(status.get("reason", "")), str(status.get("message", "")), self.retry_after
            )
        except (orjson.JSONDecodeError, AttributeError):
            text = self.body[:200].decode(errors="replace").strip()
            return ApiError(self.status, "", f"HTTP {self.status} {text}".strip(), self.retry_after)
