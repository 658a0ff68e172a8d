"""The result of applying one generation of a policy, and the texts of its errors."""

from __future__ import annotations

from typing import Final

from podwright.api.scheduler_policy import PolicyError
from podwright.core.framework.errors import PluginError, raised_at
from podwright.core.framework.profile import ProfileError
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import described

NONE_IN_FORCE: Final = "No generation of this policy is in force"
"""A sentence of `ApplyResult.message`."""


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """The result of applying one generation of a policy. `name`: of a local policy, namespace/name.

    `reason` and `message` are those of the condition Accepted. `active_generation` is the generation that decides about
    pods from now on, None if no generation is active.
    """

    name: str
    generation: int
    accepted: bool
    reason: str
    message: str
    active_generation: int | None


def verdict(
    name: str, generation: int, error: BaseException | None, *, consequence: str, active_generation: int | None
) -> ApplyResult:
    """The result for a generation that was refused because of `error`, or accepted. `consequence`: a sentence about
    what decides instead.
    """
    reason, message = "Accepted", "The policy is valid."
    if error is not None:
        reason, problem = error.reason if isinstance(error, PolicyError) else "Invalid", problem_of(error)
        message = f"{problem}{'' if problem.endswith('?') else '.'} {consequence}."
    return ApplyResult(
        name=name,
        generation=generation,
        accepted=error is None,
        reason=reason,
        message=message,
        active_generation=active_generation,
    )


def problem_of(error: BaseException) -> str:
    """Why a policy was not accepted. Plugins validate their args, and may raise anything."""
    if isinstance(error, PolicyError):
        return error.message
    if isinstance(error, PluginError):
        return str(error) if error.__cause__ is None else f"{error} ({raised_at(error.__cause__)})"
    return str(error) if isinstance(error, ProfileError) else f"{described(error)} ({raised_at(error)})"
