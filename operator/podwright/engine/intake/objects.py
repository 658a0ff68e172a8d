"""The streams of the object store (volumes, services, budgets, ...), one for each kind, by namespace and name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from podwright.core.state.object_store import key_of
from podwright.engine.active_policies import ActivePolicies
from podwright.engine.intake.object_changes import object_event
from podwright.engine.intake.stream import Raw, Stream, name_of
from podwright.engine.ports import Ports
from podwright.engine.state import EngineState

NAMESPACE: Final = "Namespace"
SELECTOR_ONLY: Final = ("ReplicaSet", "StatefulSet", "ReplicationController")
"""Kinds of which only the selector is needed."""


class Objects(Stream):
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
            trimmed = _trimmed(self._kind, raw)
            namespace, name = key_of(trimmed)
            before = self._cache.store.get(self._kind, name, namespace)
            if before is not None and _same(self._kind, before, trimmed):
                return
            self._set(trimmed)
            self._happened(object_event(self._kind, before, trimmed), before, trimmed, started)
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


class Namespaces(Objects):
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
        """Gives the namespace these labels inside the block, then retries those of its pods that got another policy."""
        pods = () if labels == self._cache.namespace_labels(name) else self._queue.undecided(name)
        before = [(pod, self._policies.of(pod)) for pod in pods]
        yield
        for pod, policy in before:
            if self._policies.of(pod) is not policy:
                self._queue.reconsider(pod.uid)


def _trimmed(kind: str, raw: Raw) -> Raw:
    """The object without managed fields and, for controllers, without status and pod template."""
    kept = dict(raw)
    metadata = dict(raw["metadata"])
    metadata.pop("managedFields", None)
    kept["metadata"] = metadata
    if kind in SELECTOR_ONLY:
        kept.pop("status", None)
        spec = raw.get("spec")
        if isinstance(spec, Mapping):
            kept["spec"] = {"selector": spec.get("selector")}
    return kept


def _same(kind: str, before: Raw, after: Raw) -> bool:
    """Whether nothing that we keep has changed. For objects that plugins may update, a new resourceVersion is a change."""
    if before["metadata"].get("resourceVersion") == after["metadata"].get("resourceVersion"):
        return before == after
    if kind not in SELECTOR_ONLY or before.get("spec") != after.get("spec"):
        return False
    ignored = ("resourceVersion", "generation")
    old, new = before["metadata"], after["metadata"]
    return {k: v for k, v in old.items() if k not in ignored} == {k: v for k, v in new.items() if k not in ignored}
