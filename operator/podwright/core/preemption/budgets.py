"""PodDisruptionBudgets: which evictions violate one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from podwright.core.objects.affinity import interned_selector
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import PodInfo


class Budgets:
    """The disruptions that budgets still allow, while pods are chosen as victims one by one.

    A pod without labels violates no budget. A budget does not apply to a pod if its selector is empty or invalid, or if it already
    lists the pod in `disruptedPods`.
    """

    def __init__(self, budgets: Iterable[Mapping[str, Any]]) -> None:
        self._rules: dict[str, list[tuple[Mapping[str, Any], list[int]]]] = {}
        for budget in budgets:
            namespace = str(budget["metadata"].get("namespace") or "")
            self._rules.setdefault(namespace, []).append((budget, [_allowed(budget)]))

    def __bool__(self) -> bool:
        """Whether there are any budgets."""
        return bool(self._rules)

    def violations(self, pods: Iterable[PodInfo]) -> int:
        """How many of these pods violate a budget. Pods of earlier calls count as evicted."""
        return sum(map(self._violates, pods))

    def _violates(self, pod: PodInfo) -> bool:
        if not pod.labels:
            return False
        for budget, left in self._rules.get(pod.namespace, ()):
            if not _applies(budget, pod):
                continue
            left[0] -= 1
            if left[0] < 0:
                return True
        return False


def _allowed(budget: Mapping[str, Any]) -> int:
    allowed = (budget.get("status") or {}).get("disruptionsAllowed") or 0
    return allowed if isinstance(allowed, int) else 0


def _applies(budget: Mapping[str, Any], pod: PodInfo) -> bool:
    try:
        selector = interned_selector((budget.get("spec") or {}).get("selector"), "spec.selector")
    except InvalidObjectError:
        return False
    if selector.empty or not selector.matches(pod.labels):
        return False
    return pod.name not in ((budget.get("status") or {}).get("disruptedPods") or {})
