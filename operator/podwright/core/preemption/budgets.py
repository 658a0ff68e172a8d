"""PodDisruptionBudgets: which evictions would violate one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from podwright.core.objects.affinity import interned_selector
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import PodInfo


class Budgets:
    """What budgets still allow while one pod after the other is given up.

    A pod without labels violates none, and a budget with an empty or invalid selector, or one that counts the pod as
    disrupted already, does not concern it.
    """

    def __init__(self, budgets: Iterable[Mapping[str, Any]]) -> None:
        self._rules: dict[str, list[tuple[Mapping[str, Any], list[int]]]] = {}
        for budget in budgets:
            namespace = str(budget["metadata"].get("namespace") or "")
            self._rules.setdefault(namespace, []).append((budget, [_allowed(budget)]))

    def __bool__(self) -> bool:
        """There are any."""
        return bool(self._rules)

    def violations(self, pods: Iterable[PodInfo]) -> int:
        """How many of these pods overdraw a budget, on top of those asked about before."""
        return sum(map(self._violates, pods))

    def _violates(self, pod: PodInfo) -> bool:
        if not pod.labels:
            return False
        for budget, left in self._rules.get(pod.namespace, ()):
            if not _concerns(budget, pod):
                continue
            left[0] -= 1
            if left[0] < 0:
                return True
        return False


def _allowed(budget: Mapping[str, Any]) -> int:
    allowed = (budget.get("status") or {}).get("disruptionsAllowed") or 0
    return allowed if isinstance(allowed, int) else 0


def _concerns(budget: Mapping[str, Any], pod: PodInfo) -> bool:
    try:
        selector = interned_selector((budget.get("spec") or {}).get("selector"), "spec.selector")
    except InvalidObjectError:
        return False
    if selector.empty or not selector.matches(pod.labels):
        return False
    return pod.name not in ((budget.get("status") or {}).get("disruptedPods") or {})
