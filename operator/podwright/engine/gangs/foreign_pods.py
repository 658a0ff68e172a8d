"""Waiting pods that name a pod group and ask for a scheduler that we are not: their group cannot be complete, and is told why."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import KUBERNETES_DEFAULT_SCHEDULER_NAME
from podwright.core.objects.pod_group import group_of


@dataclass(frozen=True, slots=True)
class ForeignPod:
    """`group`: the key of its pod group; `pod`: namespace/name."""

    uid: str
    group: str
    pod: str
    scheduler_name: str


class ForeignPods:
    """See the module. `changed` is called with a group's key when its foreign_pods have changed."""

    def __init__(self, changed: Callable[[str], None]) -> None:
        self._changed = changed
        self._by_uid: dict[str, ForeignPod] = {}
        self._by_group: dict[str, dict[str, ForeignPod]] = {}

    def __len__(self) -> int:
        return len(self._by_uid)

    @property
    def namespaces(self) -> set[str]:
        """Where they are."""
        return {foreign_pod.pod.partition("/")[0] for foreign_pod in self._by_uid.values()}

    def of(self, key: str) -> Collection[ForeignPod]:
        """Those of a group, the first known first."""
        return self._by_group.get(key, {}).values()

    def seen(self, raw: Mapping[str, Any]) -> None:
        """A pod that asks for somebody else. Never raises: what cannot be understood names no group."""
        foreign_pod = _stranger(raw)
        if foreign_pod is None or self._by_uid.get(foreign_pod.uid) == foreign_pod:
            return
        self.left(foreign_pod.uid)
        self._by_uid[foreign_pod.uid] = self._by_group.setdefault(foreign_pod.group, {})[foreign_pod.uid] = foreign_pod
        self._changed(foreign_pod.group)

    def left(self, uid: str) -> None:
        """The pod waits no more, or is ours; one that is not known is no error."""
        foreign_pod = self._by_uid.pop(uid, None)
        if foreign_pod is not None:
            others = self._by_group[foreign_pod.group]
            del others[uid]
            if not others:
                del self._by_group[foreign_pod.group]
            self._changed(foreign_pod.group)

    def only(self, namespace: str, there: AbstractSet[str]) -> None:
        """The uids of all pods of the namespace that ask for somebody else: others have left."""
        for foreign_pod in list(self._by_uid.values()):
            if foreign_pod.pod.startswith(f"{namespace}/") and foreign_pod.uid not in there:
                self.left(foreign_pod.uid)


def _stranger(raw: Mapping[str, Any]) -> ForeignPod | None:
    try:
        metadata, spec = raw["metadata"], raw["spec"]
        namespace = str(metadata.get("namespace") or "default")
        key = group_of(spec, metadata.get("labels") or {}, namespace)
        name = str(spec.get("schedulerName") or KUBERNETES_DEFAULT_SCHEDULER_NAME)
        return ForeignPod(str(metadata["uid"]), key, f"{namespace}/{metadata['name']}", name) if key else None
    except (InvalidObjectError, KeyError, TypeError, AttributeError):
        return None
