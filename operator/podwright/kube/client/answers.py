"""What comes back from the API server, and the errors that stand for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import orjson

from podwright.core.framework.interface import ClusterError

CONFLICT: Final = 409


class ApiError(ClusterError):
    """The API server refused. `reason` is the Status object's; `retry_after` in seconds, if it asked for a pause."""

    def __init__(self, status: int, reason: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(message or reason or f"HTTP {status}", status)
        self.reason = reason
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer as it came."""

    status: int
    body: bytes
    retry_after: float | None = None

    def json(self) -> Any:
        """The body, parsed. Raises ApiError for 4xx and 5xx, UnreachableError for a body that is no JSON."""
        if self.status >= 400:
            raise self.error()
        try:
            return orjson.loads(self.body)
        except orjson.JSONDecodeError as error:
            raise UnreachableError(f"an answer that is no JSON: {self.body[:100]!r}") from error

    def error(self) -> ApiError:
        """What a 4xx or 5xx says."""
        try:
            said = orjson.loads(self.body)
            return ApiError(self.status, str(said.get("reason", "")), str(said.get("message", "")), self.retry_after)
        except (orjson.JSONDecodeError, AttributeError):
            text = self.body[:200].decode(errors="replace").strip()
            return ApiError(self.status, "", f"HTTP {self.status} {text}".strip(), self.retry_after)


class UnreachableError(ClusterError):
    """No answer: a refused or broken connection, or a timeout. A request that was sent may have been carried out."""


def worth_retrying(error: BaseException) -> bool:
    """Whether the same request may succeed later."""
    return isinstance(error, UnreachableError) or (
        isinstance(error, ApiError) and (error.status == 429 or error.status >= 500)
    )


def another_of_its_name(error: ClusterError) -> bool:
    """Whether a patch was refused because the object of that name has another uid: to the API server a change of the uid."""
    return error.status == 422 and "metadata.uid" in str(error)
