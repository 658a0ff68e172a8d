"""Reads objects of Podwright's kinds other than policies, and makes the status fields that report the result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from podwright.api.policy_status import ACCEPTED, UntimedCondition, conditions_by_type, timed
from podwright.api.scheduler_policy import NAMELESS, Policy, PolicyError, check_kind, decoded, identity_of
from podwright.core.framework.args import ArgsError
from podwright.core.framework.validation import declared, unique_by
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.raw import Raw

S = TypeVar("S")
T = TypeVar("T")


def read_object(raw: Raw, kind: str, spec_type: type[S], convert: Callable[[Policy[S]], T]) -> T:
    """Decodes an object. Raises InvalidObjectError naming the object and every field that is wrong."""
    try:
        check_kind(raw, kind)
        return convert(decoded(raw, spec_type, raw.get("spec")))
    except PolicyError as error:
        where, _, problem = error.message.partition(": ")
        raise InvalidObjectError(where, problem).in_object(kind, identity_of(raw)[0]) from error


@contextmanager
def naming(kind: str, raw: Raw) -> Iterator[str]:
    """Around the reading of another API's object: hands over its name. What is wrong becomes an InvalidObjectError that
    names the object.
    """
    name = identity_of(raw)[0]
    try:
        if name == NAMELESS:
            raise InvalidObjectError("metadata.name", "a name is required")
        yield name
    except (ArgsError, InvalidObjectError) as error:
        raise InvalidObjectError(error.where, error.problem).in_object(kind, name) from error


def last_valid(raw: Raw, parse: Callable[[Raw], T]) -> T | None:
    """The object as its status says that it last was valid. None without that, and if it cannot be read: anybody may
    have written it.
    """
    try:
        return parse({**raw, "spec": raw["status"]["lastAccepted"]["spec"]})
    except Exception:  # noqa: BLE001 -- see above
        return None


@dataclass(frozen=True, slots=True)
class CheckedStatus:
    observed_generation: int | None = declared(
        "The newest generation that the operator has checked.", default=None, minimum=0
    )


def conditions(description: str = "Accepted and Active.") -> Any:
    """The field with the conditions."""
    return declared(description, default=(), maxItems=16, **unique_by("type"))


def count(description: str, size: str = "int32") -> Any:
    """A field with a number."""
    return declared(description, default=0, format=size, minimum=0)


def accepted(about: str, problem: str) -> UntimedCondition:
    """Returns the condition Accepted. `about`: the object's kind in words; `problem`: why it is invalid, or ""."""
    return UntimedCondition(
        ACCEPTED, not problem, "Invalid" if problem else "Accepted", problem or f"The {about} is valid."
    )


def checked_status(
    found: Sequence[UntimedCondition],
    *,
    generation: int,
    previous: Raw,
    now: str,
    keeps: tuple[str, object] | None = None,
) -> dict[str, Any]:
    """The status fields for these conditions and the generation that they describe. `previous`: the status until now.
    `now`: an RFC 3339 time. `keeps`: of kinds whose last valid generation stays in force, what is wrong with this one,
    and its spec.
    """
    before = conditions_by_type(previous)
    status: dict[str, Any] = {
        "observedGeneration": generation,
        "conditions": [timed(each, before.get(each.type), generation, now) for each in found],
    }
    if keeps is not None:
        problem, spec = keeps
        kept = previous.get("lastAccepted") if problem else {"generation": generation, "spec": spec}
        if isinstance(kept, Mapping):
            status["lastAccepted"] = kept
    return status
