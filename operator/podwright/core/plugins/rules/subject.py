"""Subject: what the expressions of a policy read besides the node, for one pod; and Inputs, which parts of it an expression reads.

Pods whose inputs are equal get equal results, so results are kept by the inputs' values.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

from podwright.core.cel.checking.tree import Call, Comprehension, Const, Ident, Node, Select, children
from podwright.core.cel_columns.counts import SCOPE
from podwright.core.objects.pod import PodInfo
from podwright.core.plugins.rules.owner import Owner
from podwright.core.state.cache import Cache

NAMESPACE: Final = "namespaceObject"
"""The variable with the pod's namespace, named as in Kubernetes: `namespace` is a reserved word of CEL."""
CACHE: Final = "@cache"
"""The variable with the cache whose pods are counted."""
_NOTHING: Final[Mapping[str, Any]] = {}


class Subject:
    """See the module. `params`: those of the owner, with those of its ConfigMap."""

    def __init__(self, pod: PodInfo, owner: Owner, params: Mapping[str, str], cache: Cache) -> None:
        self.pod = pod
        self.owner = owner
        self.params = params
        self._cache = cache
        self._values: dict[str, object] = {}

    @cached_property
    def annotations(self) -> Mapping[str, str]:
        """The pod's. Only pending pods have them."""
        return _texts((self.pod.raw or _NOTHING).get("metadata"), "annotations")

    @cached_property
    def namespace(self) -> Mapping[str, Any]:
        """The metadata of the pod's namespace; empty if it is unknown."""
        found = self._cache.store.get("Namespace", self.pod.namespace)
        return _NOTHING if found is None else found["metadata"]

    def spec_text(self, field: str) -> str:
        """A text of the pod's spec that the scheduler does not read itself."""
        spec = (self.pod.raw or _NOTHING).get("spec")
        found = spec.get(field) if isinstance(spec, Mapping) else None
        return found if isinstance(found, str) else ""

    def variables(self, names: Iterable[str]) -> Mapping[str, object]:
        """The values of these variables."""
        return {name: self._values[name] if name in self._values else self._value(name) for name in names}

    def _value(self, name: str) -> object:
        found = self._values[name] = _VALUES[name](self)
        return found

    @property
    def cache(self) -> Cache:
        return self._cache


def _texts(holder: object, field: str) -> Mapping[str, str]:
    """A map of texts of an object's metadata, which users may have malformed."""
    found = holder.get(field) if isinstance(holder, Mapping) else None
    if not isinstance(found, Mapping):
        return {}
    return found if all(isinstance(value, str) for value in found.values()) else {}


def _tolerations(subject: Subject) -> list[Mapping[str, str]]:
    return [
        {"key": each.key, "operator": each.operator or "Equal", "value": each.value, "effect": each.effect}
        for each in subject.pod.tolerations.items
    ]


def _owner(subject: Subject) -> Mapping[str, str]:
    owner = subject.pod.owner
    if owner is None:
        return {"apiVersion": "", "kind": "", "name": ""}
    return {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name}


_POD_VALUES: Final[Mapping[str, Callable[[Subject], object]]] = {
    "name": lambda subject: subject.pod.name,
    "namespace": lambda subject: subject.pod.namespace,
    "labels": lambda subject: dict(subject.pod.labels),
    "annotations": lambda subject: subject.annotations,
    "priority": lambda subject: subject.pod.priority,
    "priorityClassName": lambda subject: subject.spec_text("priorityClassName"),
    "schedulerName": lambda subject: subject.pod.scheduler_name,
    "serviceAccountName": lambda subject: subject.spec_text("serviceAccountName"),
    "nodeSelector": lambda subject: subject.pod.node_affinity.node_selector,
    "requests": lambda subject: subject.pod.requests.amounts,
    "tolerations": _tolerations,
    "images": lambda subject: [*subject.pod.images.init_containers, *subject.pod.images.containers],
    "owner": _owner,
}
"""The fields of `pod`, as values of CEL."""
_VALUES: Final[Mapping[str, Callable[[Subject], object]]] = {
    "pod": lambda subject: {name: read(subject) for name, read in _POD_VALUES.items()},
    NAMESPACE: lambda subject: {
        "name": subject.pod.namespace,
        "labels": _texts(subject.namespace, "labels"),
        "annotations": _texts(subject.namespace, "annotations"),
    },
    "policy": lambda subject: {"name": subject.owner.policy, "params": subject.owner.params},
    "params": lambda subject: subject.params,
    CACHE: lambda subject: subject.cache,
    SCOPE: lambda subject: subject.owner.scope,
}
"""The variables of an evaluation, but for the node."""
VARIABLES: Final = tuple(_VALUES)
_POD_KEYS: Final[Mapping[str, Callable[[Subject], Hashable]]] = {
    "labels": lambda subject: subject.pod.labels,
    "annotations": lambda subject: tuple(subject.annotations.items()),
    "nodeSelector": lambda subject: tuple(subject.pod.node_affinity.node_selector.items()),
    "requests": lambda subject: subject.pod.requests,
    "tolerations": lambda subject: subject.pod.tolerations,
    "images": lambda subject: subject.pod.images,
    "owner": lambda subject: subject.pod.owner,
}
"""Keys that stand for the values of a field if these are not hashable or take long to compare."""
_POD_MAPS: Final[Mapping[str, Callable[[Subject], Mapping[str, Any]]]] = {
    "labels": lambda subject: subject.pod.labels,
    "annotations": lambda subject: subject.annotations,
    "nodeSelector": lambda subject: subject.pod.node_affinity.node_selector,
    "requests": lambda subject: subject.pod.requests.amounts,
}


class Input(NamedTuple):
    """A part that an expression reads: `pod.labels.app` is ("pod", "labels", "app"). `key` None: the whole field; `field` "": all."""

    root: str
    field: str = ""
    key: str | None = None

    def reader(self) -> Callable[[Subject], Hashable]:
        """A function that gives the key of the part's value."""
        if self.root == "pod":
            return _pod_reader(self.field, self.key)
        if self.root == NAMESPACE:
            return _namespace_reader(self.field, self.key)
        key = self.key
        of_policy = self.root == "policy"

        def read(subject: Subject) -> Hashable:
            params = subject.owner.params if of_policy else subject.params
            return tuple(params.items()) if key is None else params.get(key)

        return (lambda subject: subject.owner.policy) if self == ("policy", "name", None) else read


def _pod_reader(field: str, key: str | None) -> Callable[[Subject], Hashable]:
    if not field:
        return lambda subject: (subject.pod.uid, subject.pod.resource_version)
    if key is not None and field in _POD_MAPS:
        get = _POD_MAPS[field]
        return lambda subject: get(subject).get(key)
    return _POD_KEYS.get(field) or _POD_VALUES[field]


def _namespace_reader(field: str, key: str | None) -> Callable[[Subject], Hashable]:
    if field == "name":
        return lambda subject: subject.pod.namespace
    if not field:
        return lambda subject: (subject.pod.namespace, subject.namespace.get("resourceVersion"))
    if key is not None:
        return lambda subject: _texts(subject.namespace, field).get(key)
    return lambda subject: tuple(_texts(subject.namespace, field).items())


_ROOTS: Final = ("pod", NAMESPACE, "policy", "params")


def inputs_of(tree: Node) -> Sequence[Input]:
    """What an expression reads besides the node, each part once."""
    found: dict[Input, None] = {}
    _collect(tree, frozenset(), found)
    return tuple(found)


def _collect(node: Node, bound: frozenset[str], found: dict[Input, None]) -> None:
    path = _path(node, bound)
    if path is not None:
        found[path] = None
        step = _step(node)
        for child in children(node):
            if step is None or child is not step[0] or _path(child, bound) is None:
                _collect(child, bound, found)
        return
    if isinstance(node, Comprehension):
        inner = bound | {node.variable, node.second, node.accumulator}
        for part in (node.range, node.init):
            _collect(part, bound, found)
        for part in (node.condition, node.step, node.result):
            _collect(part, inner, found)
        return
    for child in children(node):
        _collect(child, bound, found)


def _path(node: Node, bound: frozenset[str]) -> Input | None:
    """The part that a node reads, if it is a variable with at most a field and a key."""
    if isinstance(node, Ident):
        return Input(node.name) if node.name in _ROOTS and node.name not in bound else None
    step = _step(node)
    if step is None:
        return None
    operand, key = step
    before = _path(operand, bound)
    if before is None or before.key is not None:
        return None
    if before.root == "params":
        return Input("params", "", key)
    if not before.field:
        return None if key is None else Input(before.root, key)
    if before.root == "pod" and before.field not in _POD_MAPS:
        return before
    return before if before.field == "name" else Input(before.root, before.field, key)


def _step(node: Node) -> tuple[Node, str | None] | None:
    """The operand of a field or index, and its constant text; None for an index that is not constant."""
    match node:
        case Select():
            return node.operand, node.field
        case Call(function="_[_]" | "_[?_]" | "_?._"):
            return node.args[0], _constant(node.args[1])
        case Call(function="@in", overloads=("in_map",)):
            return node.args[1], _constant(node.args[0])
    return None


def _constant(node: Node) -> str | None:
    return node.value if isinstance(node, Const) and isinstance(node.value, str) else None
