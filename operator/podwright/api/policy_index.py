"""Finds the first policy that matches a pod, without asking every policy.

A policy that requires a label, a namespace or a priority class is only asked about pods that have it, or whose
namespace has it. The index uses the requirement of a policy that the fewest policies share. Policies that require
nothing are always asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from podwright.api.compile import CompiledPolicy
from podwright.api.spec.match import Subject
from podwright.core.objects.selectors import LabelSelector

_OF_POD: Final = "label of the pod"
_OF_NAMESPACE: Final = "label of the namespace"
_NAMESPACE: Final = "namespace"
_PRIORITY_CLASS: Final = "priority class"
_Key = tuple[str, str, str | None]
"""(what it is, the key of a label, the value; None for any value)"""

FEW: Final = 8
"""If there are at most this many policies, they are asked one by one."""


class PolicyIndex:
    """An index of policies, which are in the order in which they apply. It is built when it is first needed."""

    def __init__(self, policies: Sequence[CompiledPolicy]) -> None:
        self._policies = policies
        self._built = len(policies) <= FEW
        self._always: Sequence[int] = range(len(policies)) if self._built else ()
        self._by_key: dict[_Key, list[int]] = {}

    def first(self, subject: Subject) -> CompiledPolicy | None:
        """The first policy that matches such a pod; None if no policy does."""
        if not self._built:
            self._build()
        policies = self._policies
        for position in self._candidates(subject) if self._by_key else self._always:
            if policies[position].matches(subject):
                return policies[position]
        return None

    def _candidates(self, subject: Subject) -> Sequence[int]:
        found = list(self._always)
        by_key = self._by_key
        for of_what, own in ((_OF_POD, subject.labels), (_OF_NAMESPACE, subject.namespace_labels)):
            for key, value in own.items():
                found += by_key.get((of_what, key, value), ())
                found += by_key.get((of_what, key, None), ())
        found += by_key.get((_NAMESPACE, "", subject.namespace), ())
        found += by_key.get((_PRIORITY_CLASS, "", subject.priority_class), ())
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
                    break  # this policy takes every pod
            else:
                for key in min(alternatives, key=lambda keys: max(users[key] for key in keys)):
                    self._by_key.setdefault(key, []).append(position)
        self._always = always
        self._built = True


def _required_by(policy: CompiledPolicy) -> Iterator[Sequence[_Key]]:
    """Yields groups of keys. A pod that the policy takes has at least one key of each group."""
    match = policy.match
    for of_what, selector in ((_OF_POD, match.pods), (_OF_NAMESPACE, match.namespaces)):
        if selector is not None:
            yield from _required_labels(selector, of_what)
    for of_what, names in ((_NAMESPACE, match.namespace_names), (_PRIORITY_CLASS, match.priority_classes)):
        if names:
            yield [(of_what, "", name) for name in names]


def _required_labels(selector: LabelSelector, of_what: str) -> Iterator[Sequence[_Key]]:
    for requirement in selector.requirements:
        if requirement.operator == "In":
            yield [(of_what, requirement.key, value) for value in requirement.values]
        elif requirement.operator == "Exists":
            yield [(of_what, requirement.key, None)]
