"""The one retry policy of the API client: which errors are retried, how often, and after which pauses.

Pauses double from `shortest` to `longest`. A `Retry-After` of the server is honoured, up to `longest_retry_after`. A
policy never swallows an error: the last one is raised, and cancellation passes through at once.

`run` and `resume` retry with tenacity. Building its retry state costs more CPU than a short request, so the first
attempt is always made without it: `run` does so itself, and hot paths (bindings, events) send their first request
directly and call `resume` only after a failure. So a start does not import it, either. State machines that cannot be
one coroutine (the reflector, the work queue) take `pause` only.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeVar

from podwright.core.framework.interface import ClusterError
from podwright.core.objects.dataclass import dataclass
from podwright.kube.client.errors import is_retryable, retry_after

if TYPE_CHECKING:
    from tenacity import RetryCallState

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """See the module. All times are in seconds."""

    shortest: float
    longest: float
    attempts: int | None = None
    """The first one included; None: no limit."""
    seconds: float | None = None
    """No attempt starts later than this after the first failure; None: no limit."""
    retries: Callable[[BaseException], bool] = is_retryable
    """True if an error is worth another attempt."""
    jitter: tuple[float, float] = (1.0, 1.0)
    """The backoff is multiplied by a random number from this range."""
    longest_retry_after: float = 30.0
    """The longest `Retry-After` that is honoured."""
    retry_after: Callable[[BaseException | None], float] = retry_after
    """How long the server asked to wait."""
    adds_backoff: bool = False
    """The backoff comes on top of a `Retry-After`, so that requests refused together do not return together."""

    def pause(self, failures: int, error: BaseException | None = None) -> float:
        """Seconds to wait after `failures` failed attempts in a row (at least one), the last with `error`."""
        doubled = self.shortest * 2.0 ** min(failures - 1, 30)
        backoff = min(self.longest, doubled) * random.uniform(*self.jitter)
        asked = min(self.longest_retry_after, self.retry_after(error))
        return asked + backoff if self.adds_backoff else max(asked, backoff)

    async def run(
        self, work: Callable[[], Awaitable[T]], *, on_retry: Callable[[BaseException], None] | None = None
    ) -> T:
        """Calls `work` until it succeeds, and returns its result. `on_retry` gets each error that is followed by a
        retry.

        Raises the error of the last attempt, and at once an error that is not retried.
        """
        try:
            return await work()
        except Exception as error:
            if not self.retries(error):
                raise
            failure = error
        return await self.resume(work, failure, on_retry=on_retry)

    async def resume(
        self,
        work: Callable[[], Awaitable[T]],
        failure: Exception,
        *,
        on_retry: Callable[[BaseException], None] | None = None,
    ) -> T:
        """Like `run`, after the caller has made the first attempt itself, which raised `failure`."""
        import tenacity  # noqa: PLC0415 -- see the module

        failures = [failure]

        async def attempt() -> T:
            if failures:
                raise failures.pop()
            return await work()

        def error_of(state: RetryCallState) -> BaseException | None:
            return state.outcome.exception() if state.outcome is not None else None

        def before_sleep(state: RetryCallState) -> None:
            error = error_of(state)
            if on_retry is not None and error is not None:
                on_retry(error)

        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(self.retries),
            wait=lambda state: self.pause(state.attempt_number, error_of(state)),
            stop=tenacity.stop_any(
                *(() if self.attempts is None else (tenacity.stop_after_attempt(self.attempts),)),
                *(() if self.seconds is None else (tenacity.stop_after_delay(self.seconds),)),
            ),
            before_sleep=before_sleep,
            reraise=True,
        )
        return await retrying(attempt)


ANY_CLUSTER_ERROR: Final = RetryPolicy(
    shortest=0.2, longest=5.0, longest_retry_after=5.0, retries=lambda error: isinstance(error, ClusterError)
)


async def retry_until_answered(what: str, work: Callable[[], Awaitable[T]]) -> T:
    """Repeats `work` while it raises ClusterError, and returns its result. `what` names it in the log.

    For requests without whose answer the scheduler cannot go on.
    """
    return await ANY_CLUSTER_ERROR.run(work, on_retry=lambda error: log.warning("%s: %s; trying again", what, error))
