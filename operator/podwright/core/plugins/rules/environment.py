"""The variables and functions of rules: typed `pod`, `node`, `signals`, `namespaceObject`, `policy`, `params` and
`now`, and functions that count placed pods.

Amounts of resources are whole numbers: CPU in milli-CPU, memory and storage in bytes, everything else in its own units.
Counting functions count on the node that is being evaluated, which is not among their arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final

from podwright.core.cel.checking.declarations import Overload
from podwright.core.cel.environment import KUBERNETES, Environment, Library
from podwright.core.cel.frame import Frame
from podwright.core.cel.types import BOOL, DOUBLE, INT, STRING, TIMESTAMP, Type, list_of, map_of, object_of
from podwright.core.cel.values import Value, no_such_overload
from podwright.core.cel_columns.compiler import DOMAIN_OF, NODE, PODS_IN_DOMAIN, PODS_ON_NODE, SIGNALS
from podwright.core.cel_columns.counts import in_domain, on_node, work_of
from podwright.core.cel_columns.nodes import NodeView
from podwright.core.plugins.rules.subject import CACHE, NAMESPACE, NOW
from podwright.core.state.cache import Cache

# Sizes bound the estimated cost of an expression. Names, keys and values of labels are bounded by the API server.
_NAME: Final = STRING.sized(253)
_KEY: Final = STRING.sized(317)
_VALUE: Final = STRING.sized(63)
_TEXT: Final = STRING.sized(1024)
_LABELS: Final = map_of(_KEY, _VALUE, 256)
_ANNOTATIONS: Final = map_of(_KEY, _TEXT, 256)
_AMOUNTS: Final = map_of(_KEY, INT, 64)

_USUAL_SIZES: Final = {"map": 32, "list": 8}

TAINT: Final = object_of("podwright.Taint", {"key": _KEY, "value": _VALUE, "effect": _NAME})
TOLERATION: Final = object_of(
    "podwright.Toleration", {"key": _KEY, "operator": _NAME, "value": _VALUE, "effect": _NAME}
)
OWNER: Final = object_of("podwright.Owner", {"apiVersion": _NAME, "kind": _NAME, "name": _NAME})
NODE_TYPE: Final = object_of(
    "podwright.Node",
    {
        "name": _NAME,
        "labels": _LABELS,
        "annotations": _ANNOTATIONS,
        "taints": list_of(TAINT, 64),
        "conditions": map_of(_KEY, _NAME, 64),
        "images": map_of(_TEXT, INT, 128),
        "allocatable": _AMOUNTS,
        "requested": _AMOUNTS,
        "free": _AMOUNTS,
        "podCount": INT,
        "unschedulable": BOOL,
    },
)
POD_TYPE: Final = object_of(
    "podwright.Pod",
    {
        "name": _NAME,
        "namespace": _NAME,
        "labels": _LABELS,
        "annotations": _ANNOTATIONS,
        "priority": INT,
        "priorityClassName": _NAME,
        "schedulerName": _NAME,
        "serviceAccountName": _NAME,
        "nodeSelector": _LABELS,
        "requests": _AMOUNTS,
        "tolerations": list_of(TOLERATION, 64),
        "images": list_of(_TEXT, 64),
        "owner": OWNER,
    },
)
NAMESPACE_TYPE: Final = object_of(
    "podwright.Namespace", {"name": _NAME, "labels": _LABELS, "annotations": _ANNOTATIONS}
)
_PARAMS: Final = map_of(_NAME, STRING.sized(4096), 64)
POLICY_TYPE: Final = object_of("podwright.Policy", {"name": _NAME, "params": _PARAMS})
VARIABLES: Final[Mapping[str, Type]] = {
    NODE: NODE_TYPE,
    "pod": POD_TYPE,
    NAMESPACE: NAMESPACE_TYPE,
    "policy": POLICY_TYPE,
    "params": _PARAMS,
    NOW: TIMESTAMP,
}


def _domain_of(node: Value, key: Value) -> Value:
    if not isinstance(node, NodeView) or not isinstance(key, str):
        raise no_such_overload()
    return node.info.present.labels.get(key, "")


_DOMAIN_COST: Final = 100
"""The cost of counting in a domain, which reads all nodes if the selector is new."""


def _view(frame: Frame) -> NodeView:
    node = frame.variables[NODE]
    assert isinstance(node, NodeView)
    return node


def _pods_on_node(frame: Frame, selector: Value) -> Value:
    if not isinstance(selector, str):
        raise no_such_overload()
    node = _view(frame)
    frame.cost += work_of(node, selector)
    frame.check()
    return on_node(node, selector, frame.variables)


def _pods_in_domain(frame: Frame, key: Value, selector: Value) -> Value:
    if not isinstance(key, str) or not isinstance(selector, str):
        raise no_such_overload()
    cache, node = frame.variables[CACHE], _view(frame)
    assert isinstance(cache, Cache)
    frame.cost += _DOMAIN_COST + work_of(node, selector)
    frame.check()
    return in_domain(cache, node, key, selector, frame.variables)


COUNTS: Final = Library(
    (
        Overload(PODS_ON_NODE, "pods_on_node_string", (STRING,), INT),
        Overload(PODS_IN_DOMAIN, "pods_in_domain_string_string", (STRING, STRING), INT),
        Overload(DOMAIN_OF, "domain_of_node_string", (NODE_TYPE, STRING), STRING),
    ),
    plain={DOMAIN_OF: _domain_of},
    allocating={PODS_ON_NODE: _pods_on_node, PODS_IN_DOMAIN: _pods_in_domain},
)


def variables_with(signals: Iterable[str]) -> Mapping[str, Type]:
    """Returns the variables, with these signals of the node. Without signals, `signals` is unknown."""
    fields = dict.fromkeys(signals, DOUBLE)
    return {**VARIABLES, SIGNALS: object_of("podwright.Signals", fields)} if fields else VARIABLES


def usual_variables(signals: Iterable[str]) -> Mapping[str, Type]:
    """The same variables with as many entries and elements as they usually have at most."""
    return {name: _usual(kind) for name, kind in variables_with(signals).items()}


def _usual(kind: Type) -> Type:
    most = _USUAL_SIZES.get(kind.name)
    return replace(
        kind,
        parameters=tuple(map(_usual, kind.parameters)),
        fields={name: _usual(field) for name, field in kind.fields.items()},
        size=kind.size if most is None or kind.size is None else min(kind.size, most),
    )


@lru_cache(maxsize=8)
def environment(signals: tuple[str, ...] = ()) -> Environment:
    """The environment of all rules, with the signals that the operator's configuration defines. Made when the first
    rule needs it.
    """
    return Environment(variables_with(signals), (KUBERNETES, COUNTS))
