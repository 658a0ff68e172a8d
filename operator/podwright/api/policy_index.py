"""Finds the first policy that matches a pod, without asking every policy.

A policy that requires a label is only asked about pods that have it, or whose namespace has it. Of the labels that a policy requires, the
index uses the one that the fewest policies require. Policies that require no label are always asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from podwright.api.compile import CompiledPolicy
from podwright.core.objects.selectors import LabelSelector

Labels = Mapping[str, str]
_Key = tuple[bool, str, str | None]
"""(whether it is a label of the namespace, its key, its value; None for any value)"""

FEW: Final = 8
"""So few policies are asked one after the other."""


class PolicyIndex:
    """An index of policies, which are in the order in which they apply. It is built when it is first needed."""

    def __init__(self, policies: Sequence[CompiledPolicy]) -> None:
        self._policies = policies
        self._built = len(policies) <= FEW
        self._always: Sequence[int] = range(len(policies)) if self._built else ()
        self._by_label: dict[_Key, list[int]] = {}

    def first(self, labels: Labels, namespace_labels: Labels) -> CompiledPolicy | None:
        """The first policy that matches a pod with these labels; None if none does."""
        if not self._built:
            self._build()
        policies = self._policies
        for position in self._candidates(labels, namespace_labels) if self._by_label else self._always:
            if policies[position].matches(labels, namespace_labels):
                return policies[position]
        return None

    def _candidates(self, labels: Labels, namespace_labels: Labels) -> Sequence[int]:
        found = list(self._always)
        by_label = self._by_label
        for of_namespace, own in ((False, labels), (True, namespace_labels)):
            for key, value in own.items():
                found += by_label.get((of_namespace, key, value), ())
                found += by_label.get((of_namespace, key, None), ())
        found.sort()
        return found

    def _build(self) -> None:
        required = [list(_required_by(policy)) for policy in self._policies]
        users = Counter(key for alternatives in required for keys in alternatives for key in keys)
        always = []
        for position, alternatives in enumerate(required):
            if not alternatives:
                always.append(position)
                if self._policies[position].matches_all:
                    break  # no pod gets past this one
            else:
                for key in min(alternatives, key=lambda keys: max(users[key] for key in keys)):
                    self._by_label.setdefault(key, []).append(position)
        self._always = always
        self._built = True


def _required_by(policy: CompiledPolicy) -> Iterator[Sequence[_Key]]:
    """What a policy's selectors require: of each yielded group, a pod must have at least one."""
    for of_namespace, selector in ((False, policy.pod_selector), (True, policy.namespace_selector)):
        if selector is not None:
            yield from _required_labels(selector, of_namespace=of_namespace)


def _required_labels(selector: LabelSelector, *, of_namespace: bool) -> Iterator[Sequence[_Key]]:
    for requirement in selector.requirements:
        if requirement.operator == "In":
            yield [(of_namespace, requirement.key, value) for value in requirement.values]
        elif requirement.operator == "Exists":
            yield [(of_namespace, requirement.key, None)]
