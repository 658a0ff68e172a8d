"""PodDisruptionBudgets: which evictions would violate one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from podwright.core.objects.affinity import interned_selector
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import PodInfo


def split_by_budget(
    pods: Sequence[PodInfo], budgets: Iterable[Mapping[str, Any]]
) -> tuple[list[PodInfo], list[PodInfo]]:
    """(violating, others), both in the order given: evicting them in that order overdraws a budget or does not.

    A pod without labels violates none, and a budget with an empty or invalid selector, or one that counts the pod as
    disrupted already, does not concern it.
    """
    rules = [(budget, [_allowed(budget)]) for budget in budgets]
    violating: list[PodInfo] = []
    others: list[PodInfo] = []
    for pod in pods:
        (violating if _violates(pod, rules) else others).append(pod)
    return violating, others


def _allowed(budget: Mapping[str, Any]) -> int:
    allowed = (budget.get("status") or {}).get("disruptionsAllowed") or 0
    return allowed if isinstance(allowed, int) else 0


def _violates(pod: PodInfo, rules: Sequence[tuple[Mapping[str, Any], list[int]]]) -> bool:
    if not pod.labels:
        return False
    for budget, left in rules:
        if not _concerns(budget, pod):
            continue
        left[0] -= 1
        if left[0] < 0:
            return True
    return False


def _concerns(budget: Mapping[str, Any], pod: PodInfo) -> bool:
    if budget["metadata"].get("namespace") != pod.namespace:
        return False
    try:
        selector = interned_selector((budget.get("spec") or {}).get("selector"), "spec.selector")
    except InvalidObjectError:
        return False
    if selector.empty or not selector.matches(pod.labels):
        return False
    return pod.name not in ((budget.get("status") or {}).get("disruptedPods") or {})
