"""Compiles the label and field selectors of a query string to predicates over stored objects.

A `ListSelection` holds all criteria of a list or watch. A missing field equals the empty string, as in Kubernetes.
"""

import re
from collections.abc import Callable

from podwright.core.objects.dataclass import dataclass
from podwright.sandbox.errors import bad_request
from podwright.sandbox.kinds import EVENT_FIELDS, Kind, Obj

Predicate = Callable[[Obj], bool]
FIELDS = {  # in addition to metadata.name and metadata.namespace
    "pods": "spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName spec.hostNetwork status.phase"
    " status.podIP status.nominatedNodeName",
    "events": "involvedObject.kind involvedObject.namespace involvedObject.name involvedObject.uid"
    " involvedObject.apiVersion involvedObject.fieldPath reason reportingComponent source type",
    "nodes": "spec.unschedulable",
    "namespaces": "status.phase",
    "secrets": "type",
    "replicasets.apps": "status.replicas",
    "jobs.batch": "status.successful",
}
BOOLEANS = ("spec.unschedulable", "spec.hostNetwork")
_KEY = r"[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?"
_REQUIREMENT = re.compile(
    rf"\s*(?:!\s*(?P<absent>{_KEY})|(?P<key>{_KEY})\s*"
    rf"(?:(?P<op>==|=|!=)\s*(?P<value>[-A-Za-z0-9_.]*)|\b(?P<set>in|notin)\s*\((?P<values>[^()]*)\))?)\s*(?:,|$)"
)


@dataclass(frozen=True, slots=True)
class ListSelection:
    """A namespace ("" for all) and the predicates that an object must satisfy."""

    namespace: str = ""
    predicates: tuple[Predicate, ...] = ()

    def matches(self, obj: Obj) -> bool:
        if self.namespace and obj["metadata"].get("namespace") != self.namespace:
            return False
        return all(predicate(obj) for predicate in self.predicates)


def selection(kind: Kind, namespace: str, labels: str, fields: str) -> ListSelection:
    """Parses the selectors. Raises ApiError 400 for a syntax error or an unsupported field."""
    return ListSelection(namespace, (*_labels(labels), *_fields(kind, fields)))


def _labels(text: str) -> list[Predicate]:
    found, position = [], 0
    while position < len(text):
        match = _REQUIREMENT.match(text, position)
        if match is None:
            raise bad_request(f"unable to parse requirement: {text[position:]!r}")
        found.append(_label_predicate(match))
        position = match.end()
    return found


def _label_predicate(match: re.Match[str]) -> Predicate:
    key = match["absent"] or match["key"]
    if match["op"] is None and match["set"] is None:
        return lambda obj: (key in (obj["metadata"].get("labels") or ())) is not bool(match["absent"])
    values = {match["value"]} if match["op"] else {value.strip() for value in match["values"].split(",")}
    wanted = match["op"] != "!=" and match["set"] != "notin"
    return lambda obj: ((obj["metadata"].get("labels") or {}).get(key) in values) is wanted


def _fields(kind: Kind, text: str) -> list[Predicate]:
    known = ["metadata.name", "metadata.namespace", *FIELDS.get(kind.stored, "").split()]
    known += [field["jsonPath"].lstrip(".") for field in (kind.crd or {}).get("selectableFields", ())]
    names = {name: stored for stored, name in EVENT_FIELDS.items()} if kind.renamed else {}
    found = []
    for term in re.findall(r"(?:\\.|[^\\,]|\\\Z)+", text, re.DOTALL):
        match = re.fullmatch(r"([^!=.]+)([^!=]*)(==|!=|=)((?:\\[\\,=]|[^\\,=])*)", term, re.DOTALL)
        if match is None:
            raise bad_request(f"invalid selector: {text!r}; can't understand {term!r}")
        path = names.get(match[1], match[1]) + match[2]
        if path not in known:
            raise bad_request(f"field label not supported: {match[1]}{match[2]}")
        found.append(_field_predicate(path, re.sub(r"\\(.)", r"\1", match[4]), equal=match[3] != "!="))
    return found


def _field_predicate(path: str, wanted: str, *, equal: bool) -> Predicate:
    steps = path.split(".") if path != "source" else ["source", "component"]
    missing = "false" if path in BOOLEANS else ""

    def matches(obj: Obj) -> bool:
        value: object = obj
        for step in steps:
            value = value.get(step) if isinstance(value, dict) else None
        text = missing if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        return (text == wanted) is equal

    return matches
