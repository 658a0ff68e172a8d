"""The streams of the object store (volumes, services, budgets, ...), one for each kind, by namespace and name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from podwright.core.framework.cluster_events import ClusterEvent
from podwright.core.objects.raw import Raw
from podwright.core.objects.watched_kinds import trimmed, unchanged
from podwright.core.preemption.budgets import KIND as BUDGET
from podwright.core.preemption.budgets import allowed_by
from podwright.core.state.object_store import key_of
from podwright.engine.intake.object_changes import object_event
from podwright.engine.intake.stream import Stream, name_of
from podwright.engine.policies.active_policies import ActivePolicies
from podwright.engine.ports import Ports
from podwright.engine.state import EngineState

NAMESPACE: Final = "Namespace"


class KindStream(Stream):
    """The stream of one kind."""

    def __init__(self, kind: str, state: EngineState, ports: Ports) -> None:
        super().__init__(state, ports)
        self._kind = kind

    def key(self, raw: Raw) -> str:
        metadata = raw["metadata"]
        return f"{metadata.get('namespace') or ''}/{metadata['name']}"

    def put(self, raw: Raw) -> None:
        started = self._metrics.start()
        try:
            after = trimmed(self._kind, raw)
            namespace, name = key_of(after)
            before = self._cache.store.get(self._kind, name, namespace)
            if before is not None and unchanged(self._kind, before, after):
                return
            self._set(after)
            self._happened(object_event(self._kind, before, after), before, after, started)
        except Exception as error:  # noqa: BLE001 -- one bad object must not stop the others
            self._invalid_objects.report(self._kind, name_of(raw), error)

    def drop(self, key: str, _raw: Raw | None) -> None:
        namespace, _, name = key.partition("/")
        before = self._cache.store.get(self._kind, name, namespace)
        if before is not None:
            started = self._metrics.start()
            self._remove(name, namespace)
            self._happened(object_event(self._kind, before, None), before, None, started)

    def _set(self, raw: Raw) -> None:
        self._cache.set_object(self._kind, raw)

    def _remove(self, name: str, namespace: str) -> None:
        self._cache.remove_object(self._kind, name, namespace)


class DisruptionBudgets(KindStream):
    """The stream of PodDisruptionBudgets. When one allows disruptions again, pods of queues may take room back."""

    def __init__(self, state: EngineState, ports: Ports) -> None:
        super().__init__(BUDGET, state, ports)

    def _happened(self, event: ClusterEvent, before: Any, after: Any, started: float) -> None:
        if before is not None and allowed_by(before) <= 0 and (after is None or allowed_by(after) > 0):
            self._queue.retry_due_soon()
        super()._happened(event, before, after, started)


class Namespaces(KindStream):
    """The stream of namespaces, whose labels select the policies of their pods."""

    def __init__(self, state: EngineState, ports: Ports, policies: ActivePolicies) -> None:
        super().__init__(NAMESPACE, state, ports)
        self._policies = policies

    def _set(self, raw: Raw) -> None:
        metadata = raw["metadata"]
        with self._relabelled(metadata["name"], metadata.get("labels") or {}):
            super()._set(raw)

    def _remove(self, name: str, namespace: str) -> None:
        with self._relabelled(name, {}):
            super()._remove(name, namespace)

    @contextmanager
    def _relabelled(self, name: str, labels: object) -> Iterator[None]:
        """A context that gives the namespace these labels, and then retries those of its pods that got another
        policy.
        """
        if labels == self._cache.namespace_labels(name):
            yield
            return
        before = [(pod, self._policies.of(pod)) for pod in self._queue.undecided(name)]
        yield
        self._policies.namespace_relabelled(name)
        for pod, policy in before:
            if self._policies.of(pod) is not policy:
                self._queue.reconsider(pod.uid)
