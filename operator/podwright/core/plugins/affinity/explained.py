"""Why InterPodAffinity rejects a node, with the pods in the way, and changes of a pod's required terms."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from podwright.core.framework.explaining import CLOSE, REQUIRED, PodChange, Raw, Why, editable, some
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.wording import listed
from podwright.core.state.cache import Cache
from podwright.core.state.nodeinfo import NodeInfo

_MOST_VALUES: Final = 500
_MOST_KEYS: Final = 2000
_PODS_READ: Final = 20_000
_TERMS_READ: Final = 10
"""How many terms of each kind are read."""


def why_not_here(cache: Cache, pod: PodInfo, node: NodeInfo, message: str) -> Why:
    detail = some(_in_the_way(cache, pod, node))
    if "existing pods anti-affinity" in message:
        return Why("PodAntiAffinity", "a pod nearby has an anti-affinity to this pod", detail)
    if "anti-affinity" in message:
        return Why("PodAntiAffinity", "the pod has an anti-affinity to a pod nearby", detail)
    return Why("PodAffinity", _matching_none(cache, pod), detail)


def _in_the_way(cache: Cache, pod: PodInfo, node: NodeInfo) -> Iterator[str]:
    labels = node.present.labels
    for term in pod.pod_affinity.anti_required:
        matching = [
            other.key
            for other in _in_domain(cache, node, term.topology_key)
            if term.matches(other.namespace, cache.namespace_labels(other.namespace), other.labels)
        ]
        if matching:
            yield f"anti-affinity over {term.topology_key} to {listed(matching)}"
    for term in pod.pod_affinity.required:
        if term.topology_key not in labels:
            yield f"the node has no label {term.topology_key}"
    own_namespace = cache.namespace_labels(pod.namespace)
    placed = ((info, other) for info in cache.nodes.values() for other in info.pods.values() if info.node is not None)
    for info, other in islice(placed, _PODS_READ):
        for term in other.pod_affinity.anti_required:
            key = term.topology_key
            near = key in labels and info.present.labels.get(key) == labels[key]
            if near and term.matches(pod.namespace, own_namespace, pod.labels):
                yield f"anti-affinity of {other.key} over {key}, on {info.name}"


def _in_domain(cache: Cache, node: NodeInfo, key: str) -> Iterator[PodInfo]:
    """The pods in the node's domain, up to a number."""
    value = node.present.labels.get(key)
    near = (info for info in cache.nodes.values() if info.node is not None and info.present.labels.get(key) == value)
    if value is not None:
        yield from islice((other for info in near for other in info.pods.values()), _PODS_READ)


def _matching_none(cache: Cache, pod: PodInfo) -> str:
    for term in pod.pod_affinity.required:
        placed = (other for info in cache.nodes.values() for other in info.pods.values())
        if not any(term.matches(o.namespace, cache.namespace_labels(o.namespace), o.labels) for o in placed):
            return f"no pod anywhere matches the pod affinity over {term.topology_key}"
    return ""


# Changes of a pod


def changes_of_pod(cache: Cache, pod: PodInfo, node: NodeInfo) -> Iterator[PodChange]:
    affinity = ((pod.raw or {}).get("spec") or {}).get("affinity") or {}
    required = ((affinity.get("podAffinity") or {}).get(REQUIRED) or ())[:_TERMS_READ]
    known = _labels_of(cache) if required else {}
    for index, term in enumerate(required):
        if not _is_met(cache, pod, node, index):
            yield from _corrected_term(cache, pod, known, index, term)
    for field, called_ in (("podAffinity", "pod affinity"), ("podAntiAffinity", "pod anti-affinity")):
        terms = (affinity.get(field) or {}).get(REQUIRED) or ()
        for index, term in enumerate(terms[:_TERMS_READ]):
            if field == "podAffinity" and _is_met(cache, pod, node, index):
                continue
            made = editable(pod)
            own = made["spec"]["affinity"][field]
            own[REQUIRED] = [each for i, each in enumerate(own[REQUIRED]) if i != index]
            if not own[REQUIRED]:
                del own[REQUIRED]
            of = f" to pods with {_selector(term)}" if len(terms) > 1 else ""
            yield PodChange(f"do not require {called_} over {term.get('topologyKey')}{of}", made)
    yield from _without_all(cache, pod, node)


def _without_all(cache: Cache, pod: PodInfo, node: NodeInfo) -> Iterator[PodChange]:
    """Yields the pod without all terms that are, or may be, in the way, if there are several."""
    made, texts = editable(pod), []
    affinity = made["spec"].get("affinity") or {}
    for field, called_ in (("podAffinity", "pod affinity"), ("podAntiAffinity", "pod anti-affinity")):
        terms = (affinity.get(field) or {}).get(REQUIRED) or []
        left = [
            each
            for i, each in enumerate(terms[:_TERMS_READ])
            if field == "podAffinity" and _is_met(cache, pod, node, i)
        ]
        texts += [called_] * (len(terms) - len(left))
        if terms:
            affinity[field][REQUIRED] = left
    if len(texts) > 1:
        text = f"do without its {len(texts)} terms of required {' and '.join(dict.fromkeys(texts))}"
        yield PodChange(text, made)


def _is_met(cache: Cache, pod: PodInfo, node: NodeInfo, index: int) -> bool:
    """True if a pod on the node itself matches the term, so that it is not in the way."""
    term = next(islice(pod.pod_affinity.required, index, None), None)
    there = islice(node.pods.values(), _PODS_READ)
    return (
        term is not None
        and term.topology_key in node.present.labels
        and any(term.matches(each.namespace, cache.namespace_labels(each.namespace), each.labels) for each in there)
    )


def _selector(term: Mapping[str, Any]) -> str:
    labels = (term.get("labelSelector") or {}).get("matchLabels") or {}
    return ", ".join(f"{key}={value}" for key, value in labels.items()) or "its expressions"


def _corrected_term(
    cache: Cache, pod: PodInfo, known: Mapping[str, set[str]], index: int, term: Mapping[str, Any]
) -> Iterator[PodChange]:
    """The term with labels spelt as those of existing pods (`known`), or with the namespace of these pods."""
    selector = term.get("labelSelector") or {}
    for key, value in (selector.get("matchLabels") or {}).items():
        for close_key, close in _close(known, key, str(value)):
            made, own = _with_selector(pod, index)
            own["matchLabels"] = {
                close_key if k == key else k: close if k == key else v for k, v in own["matchLabels"].items()
            }
            before = value if close_key == key else f"{key}={value}"
            yield PodChange(f"look for pods with {close_key}={close} instead of {before}", made)
    for number, each in enumerate(selector.get("matchExpressions") or ()):
        values = list(each.get("values") or ())
        if each.get("operator") != "In" or len(values) != 1:
            continue
        for close_key, close in _close(known, str(each.get("key")), str(values[0])):
            made, own = _with_selector(pod, index)
            own["matchExpressions"][number] = {"key": close_key, "operator": "In", "values": [close]}
            before = str(values[0]) if close_key == each.get("key") else f"{each.get('key')}={values[0]}"
            yield PodChange(f"look for pods with {close_key}={close} instead of {before}", made)
    yield from _elsewhere(cache, pod, index, term)


def _with_selector(pod: PodInfo, index: int) -> tuple[Raw, Raw]:
    """A copy of the pod, and the term's selector in it."""
    made = editable(pod)
    return made, made["spec"]["affinity"]["podAffinity"][REQUIRED][index]["labelSelector"]


def _labels_of(cache: Cache) -> Mapping[str, set[str]]:
    """The values of each label of placed pods."""
    known: dict[str, set[str]] = {}
    for other in islice((other for info in cache.nodes.values() for other in info.pods.values()), _PODS_READ):
        for key, value in other.labels.items():
            if key not in known and len(known) >= _MOST_KEYS:
                continue
            values = known.setdefault(key, set())
            if len(values) < _MOST_VALUES:
                values.add(value)
    return known


def _close(known: Mapping[str, set[str]], key: str, value: str) -> Iterator[tuple[str, str]]:
    """A label that the pair is a misspelt form of."""
    for close in difflib.get_close_matches(value, known.get(key, ()), n=1, cutoff=CLOSE):
        if close != value:
            yield key, close
    for close_key in difflib.get_close_matches(key, known, n=1, cutoff=CLOSE):
        if close_key != key and value in known[close_key]:
            yield close_key, value


def _elsewhere(cache: Cache, pod: PodInfo, index: int, term: Mapping[str, Any]) -> Iterator[PodChange]:
    """A namespace with pods that match the term."""
    if term.get("namespaces") or term.get("namespaceSelector") is not None:
        return
    parsed = next(islice(pod.pod_affinity.required, index, None), None)
    if parsed is None:
        return
    others = islice((other for info in cache.nodes.values() for other in info.pods.values()), _PODS_READ)
    found = next((other.namespace for other in others if parsed.selector.matches(other.labels)), "")
    if found and found != pod.namespace:
        made = editable(pod)
        made["spec"]["affinity"]["podAffinity"][REQUIRED][index]["namespaces"] = [found]
        yield PodChange(f"look for pods in namespace {found} instead of {pod.namespace}", made)
