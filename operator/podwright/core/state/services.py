"""ServiceSelectors: the labels that the Services which select a pod require, for default spread constraints.

Invariant: the index holds the selectors of exactly the Services in the store. It follows each change of a Service, so
that a decision after a change costs no more than any other, however many Services the namespace has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from podwright.core.objects.affinity import interned_selector
from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.selectors import Labels, LabelSelector
from podwright.core.state.object_store import Object, ObjectStore, key_of
from podwright.core.state.podindex.selecting import SelectorIndex

KIND: Final = "Service"


class ServiceSelectors:
    """See the module."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._index: SelectorIndex[tuple[str, LabelSelector]] = SelectorIndex()
        self._services: dict[tuple[str, LabelSelector], int] = {}
        """The number of Services with each selector, by namespace and selector."""
        for service in store.list(KIND):
            self._changed(None, service)
        store.listen(KIND, self._changed)
        compact_regularly(self)

    def labels_for(self, namespace: str, labels: Labels) -> dict[str, str]:
        """The labels that all Services together require which select a pod with these labels."""
        joined: dict[str, str] = {}
        if self._store.version(KIND):  # a read of the store, so that a record of the kinds read has this one
            for _, selector in self._index.candidates(namespace, labels):
                if selector.matches(labels):
                    joined.update((r.key, next(iter(r.values))) for r in selector.requirements)
        return joined

    def _changed(self, before: Object | None, after: Object | None) -> None:
        was, now = _selector_of(before), _selector_of(after)
        if was == now:
            return
        if was is not None:
            self._services[was] -= 1
            if not self._services[was]:
                del self._services[was]
                self._index.remove(was)
        if now is not None:
            self._services[now] = self._services.get(now, 0) + 1
            self._index.add(now, now[1], now[0])


def plain_selector(controller: Object | None) -> Mapping[str, str] | None:
    """`spec.selector` of a Service or a ReplicationController as labels; None if it is missing or not a map of
    strings.
    """
    spec = None if controller is None else controller.get("spec")
    selector = spec.get("selector") if isinstance(spec, Mapping) else None
    if not isinstance(selector, Mapping) or not all(isinstance(value, str) for value in selector.values()):
        return None
    return selector


def _selector_of(service: Object | None) -> tuple[str, LabelSelector] | None:
    """The namespace and the interned selector; None if the Service selects no pods."""
    wanted = plain_selector(service)
    if service is None or not wanted:
        return None
    return key_of(service)[0], interned_selector({"matchLabels": dict(wanted)}, "spec.selector")
