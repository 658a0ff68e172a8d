"""Subject: what the expressions of a policy read besides the node, for one pod; and Inputs, which parts of it an
expression reads.

Pods whose inputs are equal get equal results, so results are kept by the inputs' values. Parts that read nothing but
the time, such as `now.getHours('UTC') >= 22`, are inputs as a whole: results stay valid until such a part gets another
value.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

from podwright.core.cel.checking.tree import Call, Comprehension, Const, Ident, Select, TreeNode, children
from podwright.core.cel.errors import EvaluationError
from podwright.core.cel.values import Timestamp
from podwright.core.cel_columns.counts import SCOPE
from podwright.core.cel_columns.limits import COST_LIMIT
from podwright.core.cel_columns.run import Evaluate
from podwright.core.objects.pod import PodInfo, body_of
from podwright.core.plugins.rules.owner import RuleOwner
from podwright.core.state.cache import Cache

NAMESPACE: Final = "namespaceObject"
"""The variable with the pod's namespace, named as in Kubernetes: `namespace` is a reserved word of CEL."""
NOW: Final = "now"
"""The variable with the time, in whole minutes."""
CACHE: Final = "@cache"
"""The variable with the cache whose pods are counted."""
_NOTHING: Final[Mapping[str, Any]] = {}


class RuleSubject:
    """See the module. `params`: those of the owner, with those of its ConfigMap. `minute`: of the decision, since
    1970.
    """

    def __init__(
        self, pod: PodInfo, owner: RuleOwner, params: Mapping[str, str], cache: Cache, minute: int = 0
    ) -> None:
        self.pod = pod
        self.owner = owner
        self.params = params
        self.minute = minute
        self._cache = cache
        self._values: dict[str, object] = {}

    @cached_property
    def annotations(self) -> Mapping[str, str]:
        """The pod's. Only pending pods have them."""
        return _texts((body_of(self.pod) or _NOTHING).get("metadata"), "annotations")

    @cached_property
    def namespace(self) -> Mapping[str, Any]:
        """The metadata of the pod's namespace; empty if it is unknown."""
        found = self._cache.store.get("Namespace", self.pod.namespace)
        return _NOTHING if found is None else found["metadata"]

    def spec_text(self, field: str) -> str:
        """A text of the pod's spec that the scheduler does not read itself."""
        spec = (body_of(self.pod) or _NOTHING).get("spec")
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


def _tolerations(subject: RuleSubject) -> list[Mapping[str, str]]:
    return [
        {"key": each.key, "operator": each.operator or "Equal", "value": each.value, "effect": each.effect}
        for each in subject.pod.tolerations.items
    ]


def _owner(subject: RuleSubject) -> Mapping[str, str]:
    owner = subject.pod.owner
    if owner is None:
        return {"apiVersion": "", "kind": "", "name": ""}
    return {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name}


_POD_VALUES: Final[Mapping[str, Callable[[RuleSubject], object]]] = {
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
_VALUES: Final[Mapping[str, Callable[[RuleSubject], object]]] = {
    "pod": lambda subject: {name: read(subject) for name, read in _POD_VALUES.items()},
    NAMESPACE: lambda subject: {
        "name": subject.pod.namespace,
        "labels": _texts(subject.namespace, "labels"),
        "annotations": _texts(subject.namespace, "annotations"),
    },
    "policy": lambda subject: {"name": subject.owner.policy, "params": subject.owner.params},
    "params": lambda subject: subject.params,
    NOW: lambda subject: time_of(subject.minute),
    CACHE: lambda subject: subject.cache,
    SCOPE: lambda subject: subject.owner.scope,
}
"""The variables of an evaluation, but for the node."""
VARIABLES: Final = tuple(_VALUES)
_POD_KEYS: Final[Mapping[str, Callable[[RuleSubject], Hashable]]] = {
    "labels": lambda subject: subject.pod.labels,
    "annotations": lambda subject: tuple(subject.annotations.items()),
    "nodeSelector": lambda subject: tuple(subject.pod.node_affinity.node_selector.items()),
    "requests": lambda subject: subject.pod.requests,
    "tolerations": lambda subject: subject.pod.tolerations,
    "images": lambda subject: subject.pod.images,
    "owner": lambda subject: subject.pod.owner,
}
"""Keys that stand for the values of a field if these are not hashable or take long to compare."""
_POD_MAPS: Final[Mapping[str, Callable[[RuleSubject], Mapping[str, Any]]]] = {
    "labels": lambda subject: subject.pod.labels,
    "annotations": lambda subject: subject.annotations,
    "nodeSelector": lambda subject: subject.pod.node_affinity.node_selector,
    "requests": lambda subject: subject.pod.requests.amounts,
}


class Input(NamedTuple):
    """A part that an expression reads: `pod.labels.app` is ("pod", "labels", "app"). `key` None: the whole field;
    `field` "": all.
    """

    root: str
    field: str = ""
    key: str | None = None

    def reader(self) -> Callable[[RuleSubject], Hashable]:
        """A function that gives the key of the part's value."""
        if self.root == "pod":
            return _pod_reader(self.field, self.key)
        if self.root == NAMESPACE:
            return _namespace_reader(self.field, self.key)
        key = self.key
        of_policy = self.root == "policy"

        def read(subject: RuleSubject) -> Hashable:
            params = subject.owner.params if of_policy else subject.params
            return tuple(params.items()) if key is None else params.get(key)

        return (lambda subject: subject.owner.policy) if self == ("policy", "name", None) else read


def _pod_reader(field: str, key: str | None) -> Callable[[RuleSubject], Hashable]:
    if not field:
        return lambda subject: (subject.pod.uid, subject.pod.resource_version)
    if key is not None and field in _POD_MAPS:
        get = _POD_MAPS[field]
        return lambda subject: get(subject).get(key)
    return _POD_KEYS.get(field) or _POD_VALUES[field]


def _namespace_reader(field: str, key: str | None) -> Callable[[RuleSubject], Hashable]:
    if field == "name":
        return lambda subject: subject.pod.namespace
    if not field:
        return lambda subject: (subject.pod.namespace, subject.namespace.get("resourceVersion"))
    if key is not None:
        return lambda subject: _texts(subject.namespace, field).get(key)
    return lambda subject: tuple(_texts(subject.namespace, field).items())


def time_of(minute: int) -> Timestamp:
    """A minute since 1970 as a value of CEL."""
    return Timestamp(minute * 60 * 10**9)


class TimeInput:
    """A part that reads nothing but the time."""

    root = NOW

    def __init__(self, evaluate: Evaluate) -> None:
        self._evaluate = evaluate
        self._known: dict[int, str] = {}

    def key(self, minute: int) -> str:
        """A text that stands for the part's value or error in this minute."""
        found = self._known.get(minute)
        if found is None:
            if len(self._known) >= _KNOWN_MINUTES:
                self._known.clear()
            try:
                found = repr(self._evaluate({NOW: time_of(minute)}, COST_LIMIT, None))
            except EvaluationError as error:
                found = f"{_ERROR}{error}"
            self._known[minute] = found
        return found

    def problem(self) -> str:
        """Why the part never has a value: a time zone does not exist; "" if it may have one."""
        found = self.key(0)
        return found.removeprefix(_ERROR) if found.startswith(_NO_ZONE) else ""

    def reader(self) -> Callable[[RuleSubject], Hashable]:
        """As that of an Input."""
        return lambda subject: self.key(subject.minute)


_KNOWN_MINUTES: Final = 4
_ERROR: Final = "error "
_NO_ZONE: Final = (f"{_ERROR}unknown time zone ", f"{_ERROR}time: invalid location name")
_ROOTS: Final = ("pod", NAMESPACE, "policy", "params")
Inputs = dict[Input | TimeInput, None]


def inputs_of(
    tree: TreeNode, free: Mapping[int, frozenset[str]], evaluator: Callable[[TreeNode], Evaluate]
) -> Sequence[Input | TimeInput]:
    """Returns the inputs of an expression besides the node, each once. `free`: the free variables of each part by its
    id; `evaluator` makes a function that evaluates a part.
    """
    found: Inputs = {}
    _collect(tree, frozenset(), found, lambda node: TimeInput(evaluator(node)) if free[id(node)] == {NOW} else None)
    return tuple(found)


def _collect(
    node: TreeNode, bound: frozenset[str], found: Inputs, time_input: Callable[[TreeNode], TimeInput | None]
) -> None:
    if NOW not in bound and (of_time := time_input(node)) is not None:
        found[of_time] = None
        return
    path = _path(node, bound)
    if path is not None:
        found[path] = None
        step = _step(node)
        for child in children(node):
            if step is None or child is not step[0] or _path(child, bound) is None:
                _collect(child, bound, found, time_input)
        return
    if isinstance(node, Comprehension):
        inner = bound | {node.variable, node.second, node.accumulator}
        for part in (node.range, node.init):
            _collect(part, bound, found, time_input)
        for part in (node.condition, node.step, node.result):
            _collect(part, inner, found, time_input)
        return
    for child in children(node):
        _collect(child, bound, found, time_input)


def _path(node: TreeNode, bound: frozenset[str]) -> Input | None:
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


def _step(node: TreeNode) -> tuple[TreeNode, str | None] | None:
    """The operand of a field or index, and its constant text; None for an index that is not constant."""
    match node:
        case Select():
            return node.operand, node.field
        case Call(function="_[_]" | "_[?_]" | "_?._"):
            return node.args[0], _constant(node.args[1])
        case Call(function="@in", overloads=("in_map",)):
            return node.args[1], _constant(node.args[0])
    return None


def _constant(node: TreeNode) -> str | None:
    return node.value if isinstance(node, Const) and isinstance(node.value, str) else None
