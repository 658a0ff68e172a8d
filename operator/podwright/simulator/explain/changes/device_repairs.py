"""Repairs of a pod's ResourceClaims: of the name of a device class that does not exist, and of a selector that fails on
a device.

The spec of a claim cannot be changed: it has to be recreated, or its template. That of a DeviceClass can.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from podwright.core.objects.devices.claims import ResourceClaim
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.similar_names import similar_name
from podwright.core.objects.wording import listed
from podwright.core.plugins.devices.explained import missing_classes, open_claims
from podwright.core.state.cache import Cache
from podwright.core.state.devices import CLASS_KIND
from podwright.simulator.explain.changes.claims import with_claims
from podwright.simulator.explain.changes.trials import ClusterChange, with_objects
from podwright.simulator.explain.results import Edit

REPAIRS_TRIED: Final = 8
_OTHER_CLASSES: Final = 3
_LONGEST: Final = 10 * 1024
"""The longest expression of a selector that the API server accepts, in characters."""
_FAILED: Final = re.compile(r"(?:class (?P<device_class>\S+)|claim (?P<claim>\S+)): selector #(?P<index>\d+)[ :]")
"""A selector's error in kube-scheduler's words. They do not name the request."""
_READ: Final = re.compile(r"""(?<!has\()device\.(?:attributes|capacity)\[(["'])[^"'\\]+\1\]\.[A-Za-z_]\w*""")
"""An attribute or a capacity that a device may lack."""

Raw = dict[str, Any]


def fails_selector(problem: str) -> bool:
    """True if this is the error of a selector, of a claim or of a class."""
    return _FAILED.search(problem) is not None


def of_failing_selectors(cache: Cache, pod: PodInfo, problem: str) -> Iterator[ClusterChange]:
    """`problem`: the error of the plugin DynamicResources."""
    return islice(_without_error(cache, pod, problem), REPAIRS_TRIED)


# Classes


def with_other_classes(cache: Cache, pod: PodInfo) -> Iterator[ClusterChange]:
    """The claims with classes that exist in place of those that are missing."""
    missing = missing_classes(cache, pod)
    known = [str(raw["metadata"]["name"]) for raw in cache.store.list(CLASS_KIND)]
    close = {name: similar_name(name, known) for name in missing}
    tried = [close] if missing and all(close.values()) else []
    tried += [dict.fromkeys(missing, other) for other in known[:_OTHER_CLASSES]] if missing else []
    for names in tried:
        claims = [raw for claim in open_claims(cache, pod) if (raw := _edited(claim.raw, _rename(names))) is not None]
        pairs = listed([f"{other} instead of {name}" for name, other in names.items()])
        where = listed([f"{raw['metadata']['namespace']}/{raw['metadata']['name']}" for raw in claims])
        text = f"ask for devices of class {pairs} in claim {where}"
        yield with_claims(text, claims)


def _rename(names: Mapping[str, str]) -> Callable[[Raw], bool]:
    def change(ask: Raw) -> bool:
        name = str(ask.get("deviceClassName"))
        if name not in names:
            return False
        ask["deviceClassName"] = names[name]
        return True

    return change


def with_missing_classes(cache: Cache, pod: PodInfo) -> Iterator[ClusterChange]:
    """The classes that are missing."""
    missing = missing_classes(cache, pod)
    if missing:
        made = [
            {"apiVersion": "resource.k8s.io/v1", "kind": CLASS_KIND, "metadata": {"name": name}, "spec": {}}
            for name in missing
        ]
        names = (
            f"DeviceClass {missing[0]}, which takes"
            if len(missing) == 1
            else f"DeviceClasses {listed(missing)}, which take"
        )
        text = f"create the {names} all devices"
        edits = (
            Edit(verb="create", kind=CLASS_KIND, name=name, object=raw) for name, raw in zip(missing, made, strict=True)
        )
        yield with_objects(text, edits, [(CLASS_KIND, raw) for raw in made])


# Selectors


def _without_error(cache: Cache, pod: PodInfo, problem: str) -> Iterator[ClusterChange]:
    found = _FAILED.search(problem)
    if found is None:
        return
    index = int(found["index"])
    if found["device_class"]:
        raw = cache.store.get(CLASS_KIND, found["device_class"])
        if raw is not None:
            yield from _of_class(raw, index)
        return
    for claim in open_claims(cache, pod):
        if claim.key == found["claim"]:
            yield from _of_claim(claim, index)


def _of_class(raw: Mapping[str, Any], index: int) -> Iterator[ClusterChange]:
    for text, change in _changes(index):
        made = copy.deepcopy(dict(raw))
        if change(made["spec"]):
            name = str(raw["metadata"]["name"])
            edit = Edit(verb="patch", kind=CLASS_KIND, name=name, object={"spec": made["spec"]})
            yield with_objects(f"{text} of DeviceClass {name}", [edit], [(CLASS_KIND, made)])


def _of_claim(claim: ResourceClaim, index: int) -> Iterator[ClusterChange]:
    """Changes of one request at a time, because the error does not name the request; then of all."""
    asks = [*_asks(claim.raw)]
    for text, change in _changes(index):
        for position, (name, _) in enumerate(asks):
            made = _edited(claim.raw, change, only=position)
            if made is not None:
                yield with_claims(f"{text} of request {name} of claim {claim.key}", [made])
        made = _edited(claim.raw, change) if len(asks) > 1 else None
        if made is not None:
            yield with_claims(f"{text} of all requests of claim {claim.key}", [made])


def _changes(index: int) -> Iterator[tuple[str, Callable[[Raw], bool]]]:
    """Changes of what has `selectors`, the least first, each with a text."""
    yield "have the selectors use has(…) before they read what a device may lack: those", _guard
    yield f"leave out selector #{index}", lambda spec: _leave_out(spec, index)


def _guard(spec: Raw) -> bool:
    changed = False
    for each in spec.get("selectors") or ():
        cel = each.get("cel") or {}
        guarded = _guarded(str(cel.get("expression") or ""))
        if guarded:
            cel["expression"] = guarded
            changed = True
    return changed


def _guarded(expression: str) -> str:
    """The expression with guards: it is false where a device lacks what the expression reads. Empty if no guard is
    known.
    """
    reads = dict.fromkeys(found[0] for found in _READ.finditer(expression))
    reads = {read: None for read in reads if f"has({read})" not in expression}
    guarded = " && ".join([*(f"has({read})" for read in reads), f"({expression})"])
    return guarded if reads and len(guarded) <= _LONGEST else ""


def _leave_out(spec: Raw, index: int) -> bool:
    selectors = spec.get("selectors") or []
    if index >= len(selectors):
        return False
    spec["selectors"] = [*selectors[:index], *selectors[index + 1 :]]
    return True


# Requests


def _asks(raw: Mapping[str, Any]) -> Iterator[tuple[str, Raw]]:
    """The requests of a claim and their alternatives, by name."""
    for request in (raw["spec"].get("devices") or {}).get("requests") or ():
        if isinstance(request.get("exactly"), dict):
            yield str(request.get("name")), request["exactly"]
        for alternative in request.get("firstAvailable") or ():
            yield f"{request.get('name')}/{alternative.get('name')}", alternative


def _edited(raw: Mapping[str, Any], change: Callable[[Raw], bool], only: int | None = None) -> Raw | None:
    """A copy of the claim with its asks changed, or with one of them; None if nothing changes."""
    made = copy.deepcopy(dict(raw))
    changed = [change(ask) for position, (_, ask) in enumerate(_asks(made)) if only in (None, position)]
    return made if any(changed) else None
