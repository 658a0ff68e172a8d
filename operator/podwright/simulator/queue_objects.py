"""Queues in simulations: objects of all APIs of queues become queues of the core as in the operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from podwright.api.kai_queue import KAI_UNITS
from podwright.api.own_objects import last_valid
from podwright.api.scheduler_policy import identity_of
from podwright.core.framework.validation import path_text
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.raw import Raw, value_at
from podwright.core.objects.wording import quantity
from podwright.core.queues.flavors import parts_of
from podwright.kube.queues.kinds import KAI_QUEUES, QUEUE_KINDS, SCHEDULING_QUEUES, QueueKind
from podwright.kube.queues.names import QueueNames

QUEUE_OBJECTS: Final = frozenset(kind.resource.kind for kind in QUEUE_KINDS)
"""The kinds of queues. Other groups have kinds of the same name."""


def queue_kind_of(raw: Raw) -> QueueKind | None:
    """The API of queues to which the object belongs; None for another object."""
    kind, group = raw.get("kind"), str(raw.get("apiVersion") or "").partition("/")[0]
    return next((each for each in QUEUE_KINDS if (each.resource.kind, each.resource.group) == (kind, group)), None)


def with_quota(spec: Raw, name: str, change: Callable[[Raw], Raw]) -> dict[str, Any]:
    """The spec of a SchedulingQueue with another quota of a resource, or of one in a flavor (`RESOURCE@FLAVOR`)."""
    resource, flavor = parts_of(name)
    if flavor:
        flavors = [*(spec.get("flavors") or ())]
        if all(each.get("name") != flavor for each in flavors):
            flavors.append({"name": flavor})
        changed = [with_quota(each, resource, change) if each.get("name") == flavor else each for each in flavors]
        return {**spec, "flavors": changed}
    resources = spec.get("resources") or {}
    return {**spec, "resources": {**resources, resource: change(resources.get(resource) or {})}}


def with_amount(kind: QueueKind, raw: Raw, field: str, name: str, amount: int) -> tuple[dict[str, Any], str] | None:
    """Returns the queue with another guarantee, limit, lendingLimit or entry of userLimits, and for other APIs than
    ours which field of theirs that is, with its values. None if the API has no such field.

    `name`: a resource, or one in a flavor; `amount`: in the core's units.
    """
    resource, _ = parts_of(name)
    value: str | int = quantity(resource, amount)
    if kind is SCHEDULING_QUEUES:
        if field == "userLimits":
            return _with(raw, ("spec", field, resource), value), ""
        return {**raw, "spec": with_quota(raw["spec"], name, lambda quota: {**quota, field: value})}, ""
    assert kind.amount_path is not None, "only SchedulingQueues have flavors"
    path = kind.amount_path(resource, field)
    if not path:
        return None
    if kind is KAI_QUEUES:
        value = -(-amount // next(units for ours, units in KAI_UNITS.values() if ours == resource))
    elif field == "lendingLimit":  # Volcano says what is kept
        value = quantity(resource, kind.parse(raw).quotas[resource].guarantee - amount)
    before = value_at(raw, *path)
    return _with(raw, path, value), f"{path_text(path)} to {value} instead of {0 if before is None else before}"


def _with(raw: Raw, path: Sequence[str], value: object) -> dict[str, Any]:
    first, *rest = path
    return {**raw, first: _with(raw.get(first) or {}, rest, value) if rest else value}


def begin(names: QueueNames) -> None:
    """All APIs are served, as far as there are objects of them."""
    for kind in QUEUE_KINDS:
        names.begin(kind)


def take(names: QueueNames, kind: QueueKind, raw: Raw) -> None:
    """Takes a queue. One that is invalid stays as its status says that it last was valid. Raises InvalidObjectError, or
    what else is wrong with it.
    """
    name, last = identity_of(raw)[0], last_valid(raw, kind.parse)
    if kind.implied is not None and names.claimed(kind, kind.implied.name) is None:
        names.claim(kind, kind.implied.name, kind.implied)
    try:
        names.claim(kind, name, kind.parse(raw), last)
    except InvalidObjectError as error:
        if last is not None:
            names.claim(kind, name, last, last)
        problem = error if error.kind else error.in_object(kind.resource.kind, name)
        names.refuse(kind, name, str(problem))
        raise problem from error
