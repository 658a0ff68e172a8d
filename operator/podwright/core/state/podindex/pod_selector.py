"""PodSelector: which pods a term of a pending pod, or a spread constraint, counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from podwright.core.objects.affinity import PodAffinityTerm
from podwright.core.objects.selectors import NOTHING, Labels, LabelSelector

NamespaceLabels = Callable[[str], Labels | None]
"""Returns the labels of a namespace by its name; None for an unknown namespace."""


class PodSelector(NamedTuple):
    """A label selector for pods in the listed namespaces and in those that `namespace_selector` matches.

    An unknown namespace matches only by its name or by the empty selector.
    """

    selector: LabelSelector
    namespaces: frozenset[str]
    namespace_selector: LabelSelector = NOTHING

    @classmethod
    def of_term(cls, term: PodAffinityTerm) -> PodSelector:
        """The selector of an affinity term of a pending pod."""
        return cls(term.selector, term.namespaces, term.namespace_selector)

    def matches(self, namespace: str, labels: Labels, namespaces: NamespaceLabels) -> bool:
        """True if a pod with these labels in this namespace matches."""
        return self.selector.matches(labels) and includes_namespace(self, namespace, namespaces)

    @property
    def single_namespace(self) -> str | None:
        """The only namespace whose pods can match; None if there may be others."""
        if len(self.namespaces) == 1 and self.namespace_selector.nothing:
            return next(iter(self.namespaces))
        return None


def includes_namespace(term: PodSelector | PodAffinityTerm, namespace: str, namespaces: NamespaceLabels) -> bool:
    """True if a term of a pending pod applies to the pods of a namespace."""
    if namespace in term.namespaces:
        return True
    selector = term.namespace_selector
    if selector.nothing or selector.empty:
        return not selector.nothing
    labels = namespaces(namespace)
    return labels is not None and selector.matches(labels)
