"""The retry policy: which errors it retries, how often, and how long it waits."""

from __future__ import annotations

import asyncio

import pytest

from podwright.kube.client import errors
from podwright.kube.client.errors import ApiError, ConfigError, UnreachableError
from podwright.kube.client.retry import RetryPolicy

QUICK = RetryPolicy(shortest=0.0, longest=0.0, attempts=3)
UNAVAILABLE = ApiError(503, "ServiceUnavailable", "try again")
THROTTLED = ApiError(429, "TooManyRequests", "slow down", retry_after=7.0)


class Work:
    """Raises `failures` one after the other, then returns "done"."""

    def __init__(self, *failures: BaseException) -> None:
        self.failures = list(failures)
        self.calls = 0

    async def __call__(self) -> str:
        self.calls += 1
        if self.failures:
            raise self.failures.pop(0)
        return "done"


async def test_run_retries_until_the_work_succeeds():
    work, retried = Work(UNAVAILABLE, UnreachableError("cut off")), []
    assert await QUICK.run(work, on_retry=retried.append) == "done"
    assert work.calls == 3
    assert [str(error) for error in retried] == ["try again", "cut off"]


async def test_run_raises_the_last_error_after_the_last_attempt():
    work = Work(*[UNAVAILABLE] * 2, UnreachableError("the third"), UNAVAILABLE)
    with pytest.raises(UnreachableError, match="the third"):
        await QUICK.run(work)
    assert work.calls == 3


@pytest.mark.parametrize("first", [True, False], ids=["on the first attempt", "on a retry"])
async def test_an_error_that_is_not_retryable_is_raised_at_once(first):
    refusal = ApiError(403, "Forbidden", "no")
    work = Work(*([] if first else [UNAVAILABLE]), refusal)
    with pytest.raises(ApiError, match="no"):
        await QUICK.run(work)
    assert work.calls == (1 if first else 2)


async def test_resume_counts_the_attempt_that_the_caller_made():
    work = Work(*[UNAVAILABLE] * 5)
    with pytest.raises(ApiError):
        await QUICK.resume(work, UNAVAILABLE)
    assert work.calls == 2


async def test_resume_raises_a_first_error_that_is_not_retryable():
    work = Work()
    with pytest.raises(ConfigError):
        await QUICK.resume(work, ConfigError("no token"))
    assert work.calls == 0


async def test_a_policy_without_limits_never_gives_up():
    work = Work(*[UNAVAILABLE] * 50)
    assert await RetryPolicy(shortest=0.0, longest=0.0).run(work) == "done"


async def test_a_policy_with_a_time_limit_gives_up():
    work = Work(*[UNAVAILABLE] * 1000)
    with pytest.raises(ApiError):
        await RetryPolicy(shortest=0.01, longest=0.01, seconds=0.05).run(work)
    assert 2 <= work.calls <= 7


@pytest.mark.parametrize("when", ["in the work", "in the pause"])
async def test_cancellation_is_not_retried(when):
    started = asyncio.Event()

    async def work():
        started.set()
        if when == "in the pause":
            raise UNAVAILABLE
        await asyncio.Event().wait()

    task = asyncio.create_task(RetryPolicy(shortest=60.0, longest=60.0).run(work))
    await started.wait()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    ("policy", "failures", "error", "shortest", "longest"),
    [
        pytest.param({}, 1, UNAVAILABLE, 0.5, 0.5, id="the first pause"),
        pytest.param({}, 3, UNAVAILABLE, 2.0, 2.0, id="pauses double"),
        pytest.param({}, 1000, UNAVAILABLE, 4.0, 4.0, id="pauses are bounded"),
        pytest.param({}, 1, THROTTLED, 7.0, 7.0, id="Retry-After is honoured"),
        pytest.param({"longest_retry_after": 5.0}, 1, THROTTLED, 5.0, 5.0, id="Retry-After is bounded"),
        pytest.param({"shortest": 8.0, "longest": 8.0}, 1, THROTTLED, 8.0, 8.0, id="the longer of the two counts"),
        pytest.param({"jitter": (0.5, 1.5)}, 2, None, 0.5, 1.5, id="jitter"),
        pytest.param({"jitter": (0.0, 1.0), "adds_backoff": True}, 1, THROTTLED, 7.0, 7.5, id="backoff is added"),
    ],
)
def test_pauses(policy, failures, error, shortest, longest):
    pauses = [RetryPolicy(**{"shortest": 0.5, "longest": 4.0} | policy).pause(failures, error) for _ in range(50)]
    assert shortest <= min(pauses) <= max(pauses) <= longest
    assert (len(set(pauses)) > 1) == (shortest < longest)


UID = ApiError(422, "Invalid", 'Pod "web" is invalid: metadata.uid: field is immutable')
INITIALIZING = ApiError(429, "TooManyRequests", "storage is (re)initializing", retry_after=1.0)


@pytest.mark.parametrize(
    ("error", "holds"),
    [
        pytest.param(UnreachableError("cut"), {"is_retryable", "is_retryable_write", "may_have_been_carried_out"}),
        pytest.param(UNAVAILABLE, {"is_retryable", "is_retryable_write", "may_have_been_carried_out"}),
        pytest.param(THROTTLED, {"is_retryable", "is_retryable_write", "is_throttled"}),
        pytest.param(INITIALIZING, {"is_retryable", "is_retryable_write", "is_initializing", "is_throttled"}),
        pytest.param(ApiError(409, "Conflict", ""), {"is_conflict", "is_retryable_write"}),
        pytest.param(ApiError(404, "NotFound", ""), {"is_not_found"}),
        pytest.param(ApiError(410, "Expired", ""), {"is_expired"}),
        pytest.param(ApiError(403, "Forbidden", ""), set()),
        pytest.param(UID, {"uid_mismatch"}),
        pytest.param(ConfigError("no token"), set()),
        pytest.param(OSError("no route"), set()),
    ],
    ids=lambda value: " and ".join(sorted(value)) or "nothing" if isinstance(value, set) else repr(value),
)
def test_what_the_predicates_say_of_each_error(error, holds):
    names = [name for name in dir(errors) if name.startswith(("is_", "may_", "uid_"))]
    assert {name for name in names if getattr(errors, name)(error)} == holds
