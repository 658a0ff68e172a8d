"""Every error of the API client, and what each one allows the caller to do next.

    ClusterError              the port's root (core/framework/interface.py); `status` is the HTTP code, 0 without a
    response
    ├── ClusterTimeoutError   an object did not reach the awaited state in time (core/framework/interface.py)
    ├── ApiError              the API server refused the request: `status`, `reason`, `retry_after`
    └── UnreachableError      no response; a request that was sent may have been carried out
        └── TooLongError      a response that is longer than this client reads
    ConfigError               no usable credentials: a file, an entry or a program is missing or wrong
    AccessError               a kind that the scheduler cannot work without is not served, or RBAC forbids it

The predicates are the only place that interprets status codes for retries; `retry` turns them into pauses. ConfigError
and AccessError are no ClusterErrors: waiting does not help, so they end the start.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from podwright.core.framework.interface import ClusterError

T = TypeVar("T")


class ApiError(ClusterError):
    """The API server refused. `reason` is the Status object's; `retry_after`: seconds to wait, if the server named
    any.
    """

    def __init__(self, status: int, reason: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(message or reason or f"HTTP {status}", status)
        self.reason = reason
        self.retry_after = retry_after


class UnreachableError(ClusterError):
    """No response: a refused or broken connection, or a timeout. A request that was sent may have been carried out."""


class TooLongError(UnreachableError):
    """The response is longer than this client reads. The same request would fail again; a smaller page of a list may
    not.
    """


class ConfigError(Exception):
    """No usable credentials: a file, an entry or a program is missing or wrong. The message says which."""


class AccessError(Exception):
    """A kind that the scheduler cannot work without is not served, or RBAC forbids reading it."""


def status_of(error: BaseException) -> int:
    """The HTTP status; 0 for an error without a response."""
    return error.status if isinstance(error, ClusterError) else 0


def retry_after(error: BaseException | None) -> float:
    """The seconds that the API server asked to wait; 0 if it named none."""
    return (error.retry_after or 0.0) if isinstance(error, ApiError) else 0.0


def is_retryable(error: BaseException) -> bool:
    """True if the same request may succeed later: no response, too many requests, or an error inside the server."""
    if isinstance(error, TooLongError):
        return False
    return isinstance(error, UnreachableError) or (
        isinstance(error, ApiError) and (error.status == 429 or error.status >= 500)
    )


def is_retryable_write(error: BaseException) -> bool:
    """Like `is_retryable`, for a write that each attempt builds from the current state: a conflict may pass too."""
    return is_conflict(error) or is_retryable(error)


def may_have_been_carried_out(error: BaseException) -> bool:
    """True if a write that failed with this error may have taken effect. A 429 is sent before anything is done."""
    return is_retryable(error) and status_of(error) != 429


def is_not_found(error: BaseException) -> bool:
    """404: the object, or its whole kind, is not there."""
    return status_of(error) == 404


async def if_there(answer: Awaitable[T]) -> T | None:
    """The answer; None if what was asked for is not there."""
    try:
        return await answer
    except ClusterError as error:
        if is_not_found(error):
            return None
        raise


def is_conflict(error: BaseException) -> bool:
    """409: the object has changed since it was read, or its uid is another than the precondition names."""
    return status_of(error) == 409


def is_expired(error: BaseException) -> bool:
    """410: the resourceVersion, or the continue token, is too old."""
    return status_of(error) == 410


def is_throttled(error: BaseException) -> bool:
    """429: too many requests."""
    return status_of(error) == 429


def is_initializing(error: BaseException | None) -> bool:
    """429 because the API server is still filling its watch cache of a kind, which takes milliseconds.

    It sends `Retry-After: 1` all the same, as it does under load.
    """
    return error is not None and status_of(error) == 429 and "initializing" in str(error)


def uid_mismatch(error: BaseException) -> bool:
    """True if a patch was refused because the object of that name has another uid: the API server sees a change of
    uid.
    """
    return status_of(error) == 422 and "metadata.uid" in str(error)
