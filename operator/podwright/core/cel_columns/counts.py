"""`podsOnNode(selector)` and `podsInDomain(key, selector)`: how many placed pods match a label selector.

Pods count as soon as they are assumed, and until they are gone. The selector has kubectl's form: `app=web,tier!=db,env
in (a,b),!old`. Which namespaces' pods count, and what a dry run has changed, are variables of the evaluation whose
names no expression can use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from podwright.core.cel.errors import EvaluationError
from podwright.core.cel_columns.nodes import NodeView
from podwright.core.objects.compaction import cleared_regularly
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.selectors import EVERYTHING, NOTHING, LabelSelector, Requirement
from podwright.core.state.cache import Cache
from podwright.core.state.podindex import PodSelector

SCOPE: Final = "@namespace"
"""The variable with the only namespace whose pods count; "" for all namespaces."""
CHANGES: Final = "@changes"
"""The variable with the pods that a dry run has moved, as Changes."""
MAX_SELECTOR: Final = 4_096
_TERM: Final = re.compile(
    r"\s*+(?:(?P<absent>!)\s*+(?P<gone>[^\s!=,()]++)"
    r"|(?P<key>[^\s!=,()]++)(?:\s*+(?P<operator>==?|!=)\s*+(?P<value>[^\s!=,()]*+)"
    r"|\s++(?P<set>in|notin)\s*+\((?P<values>[^()]*+)\))?)\s*+(?P<end>,|$)"
)


class PodCountChange(NamedTuple):
    """A dry run has added (1) or removed (-1) a pod on a node with these labels."""

    pod: PodInfo
    labels: Mapping[str, str]
    delta: int


@cleared_regularly
@lru_cache(maxsize=1024)
def selector_of(text: str) -> LabelSelector:
    """The label selector. Raises EvaluationError."""
    if len(text) > MAX_SELECTOR:
        raise EvaluationError(f"a selector has more than {MAX_SELECTOR} characters")
    if not text.strip():
        return EVERYTHING
    requirements = []
    at = 0
    ended = False
    while not ended:
        found = _TERM.match(text, at)
        if found is None:
            raise EvaluationError(f"'{text}' is not a label selector")
        requirements.append(_requirement(found))
        at, ended = found.end(), found["end"] == ""
    return LabelSelector(tuple(requirements))


def _requirement(found: re.Match[str]) -> Requirement:
    if found["absent"]:
        return Requirement(found["gone"], "DoesNotExist", frozenset())
    if found["set"]:
        values = frozenset(value.strip() for value in found["values"].split(","))
        return Requirement(found["key"], "In" if found["set"] == "in" else "NotIn", values)
    if found["operator"]:
        return Requirement(found["key"], "NotIn" if found["operator"] == "!=" else "In", frozenset((found["value"],)))
    return Requirement(found["key"], "Exists", frozenset())


@cleared_regularly
@lru_cache(maxsize=1024)
def _pod_selector(text: str, scope: str) -> PodSelector:
    namespaces = frozenset((scope,)) if scope else frozenset[str]()
    return PodSelector(selector_of(text), namespaces, NOTHING if scope else EVERYTHING)


def counted(cache: Cache, selector: str, key: str | None, variables: Mapping[str, object]) -> NDArray[np.int64]:
    """int64[nodes]: the pods on each node, or with a `key` in its domain. Raises EvaluationError."""
    index = cache.pods_index
    counter = index.counter((_pod_selector(selector, str(variables.get(SCOPE, ""))),))
    if key is None:
        return counter.column(cache.table.size).astype(np.int64)
    sums = index.sums(counter, key)
    return sums.domains.per_node(sums.values).astype(np.int64)


def work_of(node: NodeView, selector: str) -> int:
    """The cost of counting the pods of one node, beside that of the call. Raises EvaluationError."""
    return len(selector) // 16 + len(node.info.pods) * len(selector_of(selector).requirements) // 8


def on_node(node: NodeView, selector: str, variables: Mapping[str, object]) -> int:
    """The pods on one node. Raises EvaluationError."""
    wanted, scope = selector_of(selector), variables.get(SCOPE, "")
    pods: Iterable[PodInfo] = node.info.pods.values()
    return sum(wanted.matches(pod.labels) for pod in pods if not scope or pod.namespace == scope)


def in_domain(cache: Cache, node: NodeView, key: str, selector: str, variables: Mapping[str, object]) -> int:
    """The pods in the domain of one node; 0 if the node lacks the label. Raises EvaluationError."""
    wanted, scope = selector_of(selector), variables.get(SCOPE, "")
    own = node.info.present.labels.get(key)
    if own is None:
        return 0
    index = cache.pods_index
    sums = index.sums(index.counter((_pod_selector(selector, str(scope)),)), key)
    found = int(sums.values[sums.domains.of_node[node.info.slot]])
    changes = variables.get(CHANGES, ())
    assert isinstance(changes, Iterable)
    for pod, labels, delta in changes:
        if labels.get(key) == own and (not scope or pod.namespace == scope) and wanted.matches(pod.labels):
            found += delta
    return found
