"""Changes of a pod, by the plugin that rejects it: what it would have to ask for less, tolerate or select instead.

An editor yields changed manifests, the smallest change first, each with a text. It may guess: nothing is shown that was not tried.
"""

from __future__ import annotations

import copy
import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from podwright.core.framework.framework import Framework
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.resources import amounts_of, parse_amounts
from podwright.core.plugins.resources.node_resources_fit import NodeResourcesFit
from podwright.core.state.cache import Cache
from podwright.core.state.nodeinfo import NodeInfo
from podwright.simulator.explain.amounts import called, quantity, readable
from podwright.simulator.explain.causes import lifecycle
from podwright.simulator.explain.details import untolerated, written
from podwright.simulator.explain.verdicts import FIT

Raw = dict[str, Any]
Option = tuple[str, Raw]
"""A text, and the changed pod."""
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_CLOSE: Final = 0.6
_MOST_VALUES: Final = 500
_SKEWS: Final = 3
_PODS_READ: Final = 20_000


@dataclass(frozen=True, slots=True)
class Place:
    """A pod and a node that rejects it. `pod` is parsed from `raw`."""

    framework: Framework
    cache: Cache
    pod: PodInfo
    raw: Raw
    node: NodeInfo


def edits_for(plugin: str, place: Place) -> Iterator[Option]:
    """Changes after which the plugin may accept the node."""
    editor = _EDITORS.get(plugin)
    return iter(()) if editor is None else editor(place)


def spec_of(raw: Raw) -> Raw:
    """A deep copy of the pod, to be changed."""
    made = copy.deepcopy(raw)
    made["spec"] = dict(made.get("spec") or {})
    return made


# Resources


def lacking(place: Place) -> Mapping[str, int]:
    """What the node lacks for the pod, by resource; empty if that would not be enough."""
    fit = place.framework.plugins.get(FIT)
    if not isinstance(fit, NodeResourcesFit) or len(place.node.pods) + 1 > place.node.allocatable("pods"):
        return {}
    found = {}
    for resource, amount in fit.checked_requests(place.pod.requests):
        free = max(0, place.node.allocatable(resource) - place.node.requested.get(resource, 0))
        if amount > free:
            found[resource] = amount - free
    return found


def with_less(raw: Raw, pod: PodInfo, less: Mapping[str, int]) -> Option | None:
    """The pod with smaller requests; None if its containers do not request so much. `pod` is parsed from `raw`."""
    made, texts = spec_of(raw), []
    for resource, amount in less.items():
        if not _take_away(made["spec"], resource, amount):
            return None
        before = dict(pod.requests.spec_requests)[resource]
        texts.append(
            f"request {readable(resource, amount)} {called(resource)} less"
            f" ({quantity(resource, before - amount)} instead of {quantity(resource, before)})"
        )
    return " and ".join(texts), made


def _less(place: Place) -> Iterator[Option]:
    less = lacking(place)
    if less and (option := with_less(place.raw, place.pod, less)) is not None:
        yield option


def _take_away(spec: Raw, resource: str, amount: int) -> bool:
    """Lowers the pod's request, or that of the container that requests most. Whether that is possible."""
    if (spec.get("resources") or {}).get("requests", {}).get(resource) is not None:
        return _lower(spec, resource, amount)
    containers = sorted(spec.get("containers") or (), key=lambda each: -_requested(each, resource))
    left = amount
    for container in containers:
        part = min(left, _requested(container, resource))
        if part and not _lower(container, resource, part):
            return False
        left -= part
        if not left:
            return True
    return False


def _requested(holder: Mapping[str, Any], resource: str) -> int:
    requests = (holder.get("resources") or {}).get("requests") or {}
    if resource not in requests:
        return 0
    return amounts_of(parse_amounts({resource: requests[resource]}, "requests"))[resource]


def _lower(holder: Raw, resource: str, amount: int) -> bool:
    resources = dict(holder.get("resources") or {})
    requests = dict(resources.get("requests") or {})
    left = _requested(holder, resource) - amount
    if left < 0:
        return False
    requests[resource] = quantity(resource, left)
    resources["requests"] = requests
    limits = dict(resources.get("limits") or {})
    if resource in limits and "/" in resource:
        limits[resource] = quantity(resource, left)  # the API server wants both to be equal
        resources["limits"] = limits
    holder["resources"] = resources
    return True


# Taints


def _tolerate(place: Place) -> Iterator[Option]:
    taints = untolerated(place.framework, place.pod, place.node.present.taints)
    if not taints or any(lifecycle(taint.key) for taint in taints):
        return
    made = spec_of(place.raw)
    added = [
        {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}
        if taint.value
        else {"key": taint.key, "operator": "Exists", "effect": taint.effect}
        for taint in taints
    ]
    made["spec"]["tolerations"] = [*(made["spec"].get("tolerations") or ()), *added]
    yield f"tolerate {' and '.join(map(written, taints))}", made


# Node affinity


def _select(place: Place) -> Iterator[Option]:
    labels = place.node.present.labels
    made, texts = spec_of(place.raw), []
    selector = dict(made["spec"].get("nodeSelector") or {})
    for key, value in list(selector.items()):
        if labels.get(key) == value:
            continue
        texts.append(_corrected(selector, key, value, place))
    if texts:
        made["spec"]["nodeSelector"] = selector
    texts += _corrected_terms(made["spec"], place)
    if texts:
        yield " and ".join(texts), made


def _corrected(selector: Raw, key: str, value: str, place: Place) -> str:
    labels = place.node.present.labels
    if key in labels:
        selector[key] = labels[key]
        return f"select {key}={labels[key]} instead of {value}"
    del selector[key]
    close = difflib.get_close_matches(key, labels, n=1, cutoff=_CLOSE)
    if close and labels[close[0]] == value:
        selector[close[0]] = value
        return f"select {close[0]}={value} instead of {key}={value}"
    return f"do not select {key}={value}"


def _corrected_terms(spec: Raw, place: Place) -> list[str]:
    """Corrects the required term that comes nearest to matching the node."""
    labels, name = place.node.present.labels, place.node.name
    required = place.pod.node_affinity.required
    if required is None or required.matches(labels, name):
        return []
    wrong = [
        [i for i, each in enumerate(term.expressions) if not each.matches_value(labels.get(each.key))]
        for term in required.terms
    ]
    fields = [[i for i, each in enumerate(term.fields) if not each.matches_value(name)] for term in required.terms]
    best = min(range(len(required.terms)), key=lambda index: len(wrong[index]) + len(fields[index]))
    affinity = spec["affinity"]["nodeAffinity"]
    term = affinity[REQUIRED]["nodeSelectorTerms"][best]
    expressions = list(term.get("matchExpressions") or ())
    texts = [_corrected_expression(expressions, index, labels) for index in wrong[best]]
    if wrong[best]:
        term["matchExpressions"] = [each for each in expressions if each is not None]
    if fields[best]:
        left = [each for i, each in enumerate(term.get("matchFields") or ()) if i not in fields[best]]
        term["matchFields"] = left
        texts.append("do not name the node in matchFields")
    if not term.get("matchExpressions") and not term.get("matchFields"):
        del affinity[REQUIRED]
    return texts


def _corrected_expression(expressions: list[Any], index: int, labels: Mapping[str, str]) -> str:
    each = expressions[index]
    key, operator, values = each.get("key"), each.get("operator"), list(each.get("values") or ())
    if operator == "In" and key in labels:
        expressions[index] = {**each, "values": [*values, labels[key]]}
        return f"allow {key}={labels[key]}, too, beside {', '.join(values[:3])}"
    close = difflib.get_close_matches(str(key), labels, n=1, cutoff=_CLOSE)
    if operator == "In" and close and labels[close[0]] in values:
        expressions[index] = {**each, "key": close[0]}
        return f"name the label {close[0]} instead of {key}"
    expressions[index] = None
    return f"do not require {key} {operator} {', '.join(values[:3])}".rstrip()


# Ports


def _no_port(place: Place) -> Iterator[Option]:
    made, taken = spec_of(place.raw), []
    for field in ("containers", "initContainers"):
        for container in made["spec"].get(field) or ():
            for port in container.get("ports") or ():
                if port.get("hostPort") and _is_taken(port, place):
                    taken.append(f"{port['hostPort']}/{port.get('protocol') or 'TCP'}")
                    del port["hostPort"]
                    port.pop("hostIP", None)
    if taken:
        yield f"do without host port {', '.join(taken)}", made


def _is_taken(port: Mapping[str, Any], place: Place) -> bool:
    return any(
        each.port == port["hostPort"]
        and each.protocol == (port.get("protocol") or "TCP")
        and place.node.ports.conflicts(each)
        for each in place.pod.ports
    )


# Spread


def _spread(place: Place) -> Iterator[Option]:
    constraints = (place.raw.get("spec") or {}).get("topologySpreadConstraints") or ()
    hard = [i for i, each in enumerate(constraints) if each.get("whenUnsatisfiable") == "DoNotSchedule"]
    for more in range(1, _SKEWS + 1):
        for index in hard:
            made = spec_of(place.raw)
            each = made["spec"]["topologySpreadConstraints"][index]
            before = each.get("maxSkew", 1)
            each["maxSkew"] = before + more
            yield f"allow maxSkew {before + more} instead of {before} over {each.get('topologyKey')}", made
    for index in hard:
        made = spec_of(place.raw)
        each = made["spec"]["topologySpreadConstraints"][index]
        each["whenUnsatisfiable"] = "ScheduleAnyway"
        yield f"prefer to spread over {each.get('topologyKey')} instead of requiring it (ScheduleAnyway)", made


# Pod affinity


def _pod_affinity(place: Place) -> Iterator[Option]:
    affinity = (place.raw.get("spec") or {}).get("affinity") or {}
    for index, term in enumerate((affinity.get("podAffinity") or {}).get(REQUIRED) or ()):
        yield from _corrected_selectors(place, index, term)
    for field, called_ in (("podAffinity", "pod affinity"), ("podAntiAffinity", "pod anti-affinity")):
        for index, term in enumerate((affinity.get(field) or {}).get(REQUIRED) or ()):
            made = spec_of(place.raw)
            own = made["spec"]["affinity"][field]
            own[REQUIRED] = [each for i, each in enumerate(own[REQUIRED]) if i != index]
            if not own[REQUIRED]:
                del own[REQUIRED]
            yield f"do not require {called_} over {term.get('topologyKey')}", made


def _corrected_selectors(place: Place, index: int, term: Mapping[str, Any]) -> Iterator[Option]:
    """The labels that the affinity term looks for, spelt as those of pods that exist."""
    wanted = (term.get("labelSelector") or {}).get("matchLabels") or {}
    known: dict[str, set[str]] = {}
    for number, other in enumerate(other for info in place.cache.nodes.values() for other in info.pods.values()):
        if number >= _PODS_READ:
            break
        for key, value in other.labels.items():
            values = known.setdefault(key, set())
            if len(values) < _MOST_VALUES:
                values.add(value)
    for key, value in wanted.items():
        close = difflib.get_close_matches(str(value), known.get(key, ()), n=1, cutoff=_CLOSE)
        if close and close[0] != value:
            made = spec_of(place.raw)
            labels = made["spec"]["affinity"]["podAffinity"][REQUIRED][index]["labelSelector"]["matchLabels"]
            labels[key] = close[0]
            yield f"look for pods with {key}={close[0]} instead of {value}", made


_EDITORS: Final[Mapping[str, Callable[[Place], Iterator[Option]]]] = {
    FIT: _less,
    "TaintToleration": _tolerate,
    "NodeAffinity": _select,
    "NodePorts": _no_port,
    "PodTopologySpread": _spread,
    "InterPodAffinity": _pod_affinity,
}


def safely(options: Iterator[Option]) -> Iterator[Option]:
    """The options up to a field that is not of the type that its place demands."""
    try:
        yield from options
    except (InvalidObjectError, AttributeError, KeyError, TypeError, IndexError):
        return
