"""Changes of what a pod selects: labels of nodes, spread over domains, other pods."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any, Final

from podwright.core.state.cache import Cache
from podwright.simulator.explain.changes.place import CLOSE, REQUIRED, Option, Place, Raw, spec_of

_MOST_VALUES: Final = 500
_SKEWS: Final = 3
_MOST_KEYS: Final = 2000
_PODS_READ: Final = 20_000
_TERMS_READ: Final = 10
"""How many terms of each kind are read."""


# Node affinity


def select(place: Place) -> Iterator[Option]:
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
    close = difflib.get_close_matches(key, labels, n=1, cutoff=CLOSE)
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
    if all(not term.expressions and not term.fields for term in required.terms):
        del spec["affinity"]["nodeAffinity"][REQUIRED]
        return ["do not require empty terms, which match no node"]
    wrong = [
        [i for i, each in enumerate(term.expressions) if not each.matches_value(labels.get(each.key))]
        for term in required.terms
    ]
    fields = [[i for i, each in enumerate(term.fields) if not each.matches_value(name)] for term in required.terms]
    usable = [index for index, term in enumerate(required.terms) if term.expressions or term.fields]
    best = min(usable, key=lambda index: len(wrong[index]) + len(fields[index]))
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
    close = difflib.get_close_matches(str(key), labels, n=1, cutoff=CLOSE)
    if operator == "In" and close and labels[close[0]] in values:
        expressions[index] = {**each, "key": close[0]}
        return f"name the label {close[0]} instead of {key}"
    expressions[index] = None
    return f"do not require {key} {operator} {', '.join(values[:3])}".rstrip()


# Spread


def spread(place: Place) -> Iterator[Option]:
    constraints = (place.raw.get("spec") or {}).get("topologySpreadConstraints") or ()
    hard = [i for i, each in enumerate(constraints) if each.get("whenUnsatisfiable") == "DoNotSchedule"]
    for index in hard:
        if (constraints[index].get("minDomains") or 1) > 1:
            yield _spread_with(place, {index: _any_domains})
    some = [[index] for index in hard] + ([hard] if len(hard) > 1 else [])
    for more in range(1, (_SKEWS if len(hard) == 1 else 1) + 1):
        for indices in some:
            yield _spread_with(place, dict.fromkeys(indices, partial(_skewed, more=more)))
    for indices in some:
        yield _spread_with(place, dict.fromkeys(indices, _soft))


def _spread_with(place: Place, changes: Mapping[int, Callable[[Raw], str]]) -> Option:
    made = spec_of(place.raw)
    constraints = made["spec"]["topologySpreadConstraints"]
    return " and ".join(change(constraints[index]) for index, change in changes.items()), made


def _any_domains(constraint: Raw) -> str:
    fewest = constraint.pop("minDomains")
    return f"do not ask for {fewest} domains of {constraint.get('topologyKey')} (minDomains)"


def _skewed(constraint: Raw, more: int) -> str:
    before = constraint.get("maxSkew", 1)
    constraint["maxSkew"] = before + more
    return f"allow maxSkew {before + more} instead of {before} over {constraint.get('topologyKey')}"


def _soft(constraint: Raw) -> str:
    constraint["whenUnsatisfiable"] = "ScheduleAnyway"
    constraint.pop("minDomains", None)  # only for DoNotSchedule
    return f"prefer to spread over {constraint.get('topologyKey')} instead of requiring it (ScheduleAnyway)"


# Pod affinity


def pod_affinity(place: Place) -> Iterator[Option]:
    affinity = (place.raw.get("spec") or {}).get("affinity") or {}
    required = ((affinity.get("podAffinity") or {}).get(REQUIRED) or ())[:_TERMS_READ]
    known = _labels_of(place.cache) if required else {}
    for index, term in enumerate(required):
        if not _is_met(place, index):
            yield from _corrected_term(place, known, index, term)
    for field, called_ in (("podAffinity", "pod affinity"), ("podAntiAffinity", "pod anti-affinity")):
        terms = (affinity.get(field) or {}).get(REQUIRED) or ()
        for index, term in enumerate(terms[:_TERMS_READ]):
            if field == "podAffinity" and _is_met(place, index):
                continue
            made = spec_of(place.raw)
            own = made["spec"]["affinity"][field]
            own[REQUIRED] = [each for i, each in enumerate(own[REQUIRED]) if i != index]
            if not own[REQUIRED]:
                del own[REQUIRED]
            of = f" to pods with {_selector(term)}" if len(terms) > 1 else ""
            yield f"do not require {called_} over {term.get('topologyKey')}{of}", made
    yield from _without_all(place)


def _without_all(place: Place) -> Iterator[Option]:
    """Without all terms that are, or may be, in the way, if there are several."""
    made, texts = spec_of(place.raw), []
    affinity = made["spec"].get("affinity") or {}
    for field, called_ in (("podAffinity", "pod affinity"), ("podAntiAffinity", "pod anti-affinity")):
        terms = (affinity.get(field) or {}).get(REQUIRED) or []
        left = [each for i, each in enumerate(terms[:_TERMS_READ]) if field == "podAffinity" and _is_met(place, i)]
        texts += [called_] * (len(terms) - len(left))
        if terms:
            affinity[field][REQUIRED] = left
    if len(texts) > 1:
        yield f"do without its {len(texts)} terms of required {' and '.join(dict.fromkeys(texts))}", made


def _is_met(place: Place, index: int) -> bool:
    """Whether a pod on the node itself matches the term, so that it is not in the way."""
    term = next(islice(place.pod.pod_affinity.required, index, None), None)
    there = islice(place.node.pods.values(), _PODS_READ)
    return (
        term is not None
        and term.topology_key in place.node.present.labels
        and any(
            term.matches(each.namespace, place.cache.namespace_labels(each.namespace), each.labels) for each in there
        )
    )


def _selector(term: Mapping[str, Any]) -> str:
    labels = (term.get("labelSelector") or {}).get("matchLabels") or {}
    return ", ".join(f"{key}={value}" for key, value in labels.items()) or "its expressions"


def _corrected_term(
    place: Place, known: Mapping[str, set[str]], index: int, term: Mapping[str, Any]
) -> Iterator[Option]:
    """The term with labels spelt as those of existing pods (`known`), or with the namespace of these pods."""
    selector = term.get("labelSelector") or {}
    for key, value in (selector.get("matchLabels") or {}).items():
        for close_key, close in _close(known, key, str(value)):
            made, own = _with_selector(place, index)
            own["matchLabels"] = {
                close_key if k == key else k: close if k == key else v for k, v in own["matchLabels"].items()
            }
            before = value if close_key == key else f"{key}={value}"
            yield f"look for pods with {close_key}={close} instead of {before}", made
    for number, each in enumerate(selector.get("matchExpressions") or ()):
        values = list(each.get("values") or ())
        if each.get("operator") != "In" or len(values) != 1:
            continue
        for close_key, close in _close(known, str(each.get("key")), str(values[0])):
            made, own = _with_selector(place, index)
            own["matchExpressions"][number] = {"key": close_key, "operator": "In", "values": [close]}
            before = str(values[0]) if close_key == each.get("key") else f"{each.get('key')}={values[0]}"
            yield f"look for pods with {close_key}={close} instead of {before}", made
    yield from _elsewhere(place, index, term)


def _with_selector(place: Place, index: int) -> tuple[Raw, Raw]:
    """A copy of the pod, and the term's selector in it."""
    made = spec_of(place.raw)
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


def _elsewhere(place: Place, index: int, term: Mapping[str, Any]) -> Iterator[Option]:
    """A namespace with pods that match the term."""
    if term.get("namespaces") or term.get("namespaceSelector") is not None:
        return
    parsed = next(islice(place.pod.pod_affinity.required, index, None), None)
    if parsed is None:
        return
    others = islice((other for info in place.cache.nodes.values() for other in info.pods.values()), _PODS_READ)
    found = next((other.namespace for other in others if parsed.selector.matches(other.labels)), "")
    if found and found != place.pod.namespace:
        made = spec_of(place.raw)
        made["spec"]["affinity"]["podAffinity"][REQUIRED][index]["namespaces"] = [found]
        yield f"look for pods in namespace {found} instead of {place.pod.namespace}", made
