"""Queues in simulations: objects of all APIs of queues become queues of the core as in the operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from podwright.api.own_objects import last_valid
from podwright.api.scheduler_policy import identity_of
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.raw import Raw
from podwright.core.queues.flavors import parts_of
from podwright.kube.queues.kinds import QUEUE_KINDS, QueueKind
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


def begin(names: QueueNames) -> None:
    """All APIs are served, as far as there are objects of them."""
    for kind in QUEUE_KINDS:
        names.begin(kind)


def take(names: QueueNames, kind: QueueKind, raw: Raw) -> None:
    """Takes a queue. One that is invalid stays as its status says that it last was valid. Raises InvalidObjectError, or
    what else is wrong with it.
    """
    name, last = identity_of(raw)[0], last_valid(raw, kind.parse)
    if kind.implied is not None and name != kind.implied.name and names.claimed(kind, kind.implied.name) is None:
        names.claim(kind, kind.implied.name, kind.implied)
    try:
        names.claim(kind, name, kind.parse(raw), last)
    except InvalidObjectError as error:
        if last is not None:
            names.claim(kind, name, last, last)
        raise error if error.kind else error.in_object(kind.resource.kind, name) from error
