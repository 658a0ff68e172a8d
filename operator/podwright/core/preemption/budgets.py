"""PodDisruptionBudgets: which evictions violate one.

    StoredBudgets ─► BudgetRules: the budgets of all namespaces, compiled
        ─► Budgets: what they still allow on one candidate node

A user may create thousands of budgets, and a dry run asks about the pods of hundreds of nodes. So selectors are parsed
once, those of a namespace are evaluated together, and the answer for a set of labels is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import is_
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from podwright.core.objects.affinity import interned_selector
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import LabelSet, PodInfo
from podwright.core.objects.selectors import NOTHING, LabelSelector
from podwright.core.state.deadline import never
from podwright.core.state.object_store import ObjectStore
from podwright.core.state.podindex.selector_rows import SelectorRows

KIND: Final = "PodDisruptionBudget"
_MOST: Final = 1 << 30
"""More disruptions than this are as good as this many."""
MOST_KEPT: Final = 2_000_000
"""The most verdicts about a selector and a set of labels that are kept for the pods of one namespace."""
Bools = NDArray[np.bool_]
Point = Callable[[], None]
Applying = tuple[int, Bools]
"""The first budget that applies to a pod, and bool[budgets]: all that do."""


class _Selected:
    """Which of these selectors match the labels of the pods that were asked about."""

    __slots__ = ("_kept", "_matching", "_rows", "selectors")

    def __init__(self, selectors: Sequence[LabelSelector]) -> None:
        self.selectors: Final = selectors
        self._rows = SelectorRows()
        for selector in selectors:
            self._rows.append(selector)
        self._matching: WeakKeyDictionary[LabelSet, Applying | None] = WeakKeyDictionary()
        self._kept = 0

    def by(self, labels: LabelSet) -> Applying | None:
        """Which of them match; None if none does."""
        try:
            return self._matching[labels]
        except KeyError:
            rows = self._rows.matching(labels)
        found: Applying | None = None
        if len(rows):
            mask = np.zeros(len(self.selectors), np.bool_)
            mask[rows] = True
            found = int(rows[0]), mask
        self._kept += len(self.selectors)
        if self._kept > MOST_KEPT:
            self._matching.clear()
            self._kept = len(self.selectors)
        self._matching[labels] = found
        return found


class _Namespace:
    """The budgets of one namespace, one in each row. `before`: the namespace as it was compiled earlier."""

    __slots__ = ("_disrupted", "allowed", "objects", "selected")

    def __init__(self, objects: Sequence[Mapping[str, Any]], before: _Namespace | None, point: Point) -> None:
        self.objects = objects
        selectors = []
        for budget in objects:
            point()
            selectors.append(_selector(budget))
        selected = None if before is None else before.selected
        self.selected: Final[_Selected] = (
            selected if selected is not None and selected.selectors == selectors else _Selected(selectors)
        )
        self.allowed = np.array([allowed_by(budget) for budget in objects], np.int32)
        """How many disruptions each allows."""
        disrupted = ((row, (budget.get("status") or {}).get("disruptedPods")) for row, budget in enumerate(objects))
        self._disrupted = {row: frozenset(names) for row, names in disrupted if names}

    def applying(self, pod: PodInfo) -> Applying | None:
        """The budgets that apply to the pod; None if none does."""
        found = self.selected.by(pod.labels)
        if not self._disrupted or found is None:
            return found
        _, mask = found
        without = [row for row, names in self._disrupted.items() if mask[row] and pod.name in names]
        if not without:
            return found
        mask = mask.copy()
        mask[without] = False
        first = int(mask.argmax())
        return (first, mask) if mask[first] else None


_NOTHING_KNOWN: Final[Mapping[str, _Namespace]] = {}


class BudgetRules:
    """The budgets of all namespaces. A namespace is compiled when the first of its pods is asked about.

    `known`: namespaces that were compiled earlier, whose budgets may have changed. `point`: called where the attempt
    may pause.
    """

    def __init__(
        self,
        budgets: Iterable[Mapping[str, Any]],
        known: Mapping[str, _Namespace] = _NOTHING_KNOWN,
        point: Point = never,
    ) -> None:
        self._point = point
        self._objects: dict[str, list[Mapping[str, Any]]] = {}
        for budget in budgets:
            self._objects.setdefault(str(budget["metadata"].get("namespace") or ""), []).append(budget)
        self._known = {name: known[name] for name in self._objects if name in known}
        self._compiled: dict[str, _Namespace] = {}

    @property
    def known(self) -> Mapping[str, _Namespace]:
        """The namespaces that these or earlier rules compiled."""
        return {**self._known, **self._compiled}

    @property
    def namespaces(self) -> Collection[str]:
        """The namespaces with budgets."""
        return self._objects.keys()

    def __bool__(self) -> bool:
        """True if there are any budgets."""
        return bool(self._objects)

    def of(self, namespace: str) -> _Namespace | None:
        """The budgets of a namespace; None if it has none."""
        found = self._compiled.get(namespace)
        if found is None and namespace in self._objects:
            objects, before = self._objects[namespace], self._known.get(namespace)
            same = before is not None and len(before.objects) == len(objects) and all(map(is_, before.objects, objects))
            found = before if before is not None and same else _Namespace(objects, before, self._point)
            self._compiled[namespace] = found
            self._known.pop(namespace, None)
        return found


class StoredBudgets:
    """The rules of the budgets in a store, compiled again only where they have changed."""

    def __init__(self, store: ObjectStore, point: Point = never) -> None:
        self._store = store
        self._point = point
        self._version = -1
        self._rules = BudgetRules(())

    def rules(self) -> BudgetRules:
        version = self._store.version(KIND)
        if version != self._version:
            self._version = version
            self._rules = BudgetRules(self._store.list(KIND), self._rules.known, self._point)
        return self._rules


class Budgets:
    """The disruptions that budgets still allow, while pods are chosen as victims one by one.

    A pod without labels violates no budget. A budget does not apply to a pod if its selector is empty or invalid, or if
    it already lists the pod in `disruptedPods`. The latter says nothing to the Eviction API (`by_eviction`): it refuses
    to evict a pod again, for two minutes, that an interrupted request left there.
    """

    def __init__(self, rules: BudgetRules, *, by_eviction: bool = False) -> None:
        self._rules = rules
        self._by_eviction = by_eviction
        self._left: dict[str, NDArray[np.int32]] = {}

    def violations(self, pods: Iterable[PodInfo]) -> int:
        """How many of these pods violate a budget. Pods of earlier calls count as evicted."""
        return sum(map(self._violates, pods))

    def spend(self, pods: Iterable[PodInfo]) -> bool:
        """Counts these pods as evicted, unless one of them violates a budget. Returns whether they count."""
        restore = self.restorer()
        if not self.violations(pods):
            return True
        restore()
        return False

    def left(self, pod: PodInfo) -> tuple[tuple[str, int], int] | None:
        """The first budget that applies to an eviction of the pod, and how many it still allows; None if none does."""
        budgets = self._rules.of(pod.namespace) if pod.labels else None
        applying = None if budgets is None else budgets.selected.by(pod.labels)
        if budgets is None or applying is None:
            return None
        left = self._left.get(pod.namespace, budgets.allowed)
        return (pod.namespace, applying[0]), max(0, int(left[applying[0]]))

    def restorer(self) -> Callable[[], None]:
        """A function after which only those count as evicted that do now."""
        before = {namespace: left.copy() for namespace, left in self._left.items()}

        def restore() -> None:
            self._left = before

        return restore

    def _violates(self, pod: PodInfo) -> bool:
        budgets = self._rules.of(pod.namespace) if pod.labels else None
        if budgets is None:
            return False
        applying = budgets.selected.by(pod.labels) if self._by_eviction else budgets.applying(pod)
        if applying is None:
            return False
        first, mask = applying
        left = self._left.get(pod.namespace)
        if left is None:
            left = self._left[pod.namespace] = budgets.allowed.copy()
        # As in kube-scheduler, the budgets after the first violated one do not count the pod. Often that is the very
        # first one.
        if left[first] <= 0:
            left[first] -= 1
            return True
        used_up = left <= 0
        used_up &= mask
        violated = int(used_up.argmax())
        if used_up[violated]:
            left[: violated + 1] -= mask[: violated + 1]
            return True
        left -= mask
        return False


def allowed_by(budget: Mapping[str, Any]) -> int:
    """How many disruptions the budget allows now, cut to 31 bits; 0 if that cannot be read."""
    allowed = (budget.get("status") or {}).get("disruptionsAllowed") or 0
    return max(-_MOST, min(_MOST, allowed)) if isinstance(allowed, int) else 0


def _selector(budget: Mapping[str, Any]) -> LabelSelector:
    """The budget's selector; NOTHING if it is empty or invalid."""
    try:
        selector = interned_selector((budget.get("spec") or {}).get("selector"), "spec.selector")
    except InvalidObjectError:
        return NOTHING
    return NOTHING if selector.empty else selector
