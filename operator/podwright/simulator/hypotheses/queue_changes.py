"""A SchedulingQueue with another value in one field, as `podwright simulate --set` names it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from podwright.core.objects.similar_names import did_you_mean
from podwright.simulator.hypotheses.hypothesis import HypothesisError
from podwright.simulator.queue_objects import with_quota

Raw = Mapping[str, Any]

_KINDS: Final = ("queue", "queues", "squeue", "schedulingqueue", "schedulingqueues")
_OF_QUEUE: Final = ("parent", "priority", "state", "preemptMinRuntime", "reclaimMinRuntime")
_OF_RESOURCE: Final = ("guarantee", "limit", "lendingLimit", "weight")
_NUMBERS: Final = ("priority", "weight")


def with_field(queues: Mapping[str, Raw], text: str) -> Raw:
    """The queue that `queue/NAME/RESOURCE/FIELD=VALUE` or `queue/NAME/FIELD=VALUE` names, changed so. A RESOURCE may be
    one of a flavor: `nvidia.com/gpu@h100`. Without a VALUE, the field is removed. `queues`: by name. Raises
    HypothesisError; whether the value is valid, the parser of queues says.
    """
    path, equals, value = text.partition("=")
    kind, _, rest = path.partition("/")
    name, _, rest = rest.partition("/")
    resource, _, field = rest.removeprefix("spec/").removeprefix("resources/").rpartition("/")
    known = _OF_RESOURCE if resource else _OF_QUEUE
    if kind.lower() not in _KINDS or not equals or not name or not field:
        raise HypothesisError(f"set: {text!r} is not of the form queue/NAME/RESOURCE/limit=8 or queue/NAME/state=Hold")
    if field not in known:
        raise HypothesisError(f"set: {text!r}: {field!r} is none of {', '.join(known)}{did_you_mean(field, known)}")
    if name not in queues:
        raise HypothesisError(f"set: {text!r}: there is no valid queue {name!r}{did_you_mean(name, queues)}")
    found: Any = int(value) if field in _NUMBERS and value.removeprefix("-").isdecimal() and len(value) < 20 else value
    spec = dict(queues[name]["spec"])
    if resource:
        spec = with_quota(spec, resource, lambda quota: _changed(quota, field, found))
    else:
        spec = _changed(spec, field, found)
    return {**queues[name], "spec": spec}


def _changed(fields: Raw, name: str, value: Any) -> dict[str, Any]:
    left = {key: each for key, each in fields.items() if key != name}
    return left if value == "" else {**left, name: value}
