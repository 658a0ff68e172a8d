"""Foreign pods: pending pods that name a pod group but ask for a scheduler that we do not serve.

Their group cannot be complete; attempts/gangs/group_changes.py says so in its status.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.items_by_key import drop
from podwright.core.objects.pod import KUBERNETES_DEFAULT_SCHEDULER_NAME
from podwright.core.objects.pod_group import groups_named
from podwright.core.state.pod_groups import PodGroups

SHARED_NAME: Final = "all pods in a single pod group should have the same .spec.schedulerName set"


@dataclass(frozen=True, slots=True)
class ForeignPod:
    """`group`: the key of its pod group; `pod`: namespace/name."""

    uid: str
    group: str
    pod: str
    scheduler_name: str


class ForeignPods:
    """See the module."""

    def __init__(self, groups: PodGroups) -> None:
        self._groups = groups
        self._listeners: list[Callable[[str], None]] = []
        self._by_uid: dict[str, ForeignPod] = {}
        self._by_group: dict[str, dict[str, ForeignPod]] = {}
        compact_regularly(self)

    def __len__(self) -> int:
        return len(self._by_uid)

    def listen(self, listener: Callable[[str], None]) -> None:
        """Calls `listener` with a group's key whenever the group's foreign pods change."""
        self._listeners.append(listener)

    @property
    def namespaces(self) -> set[str]:
        """The namespaces that have foreign pods."""
        return {foreign_pod.pod.partition("/")[0] for foreign_pod in self._by_uid.values()}

    def of(self, key: str) -> Collection[ForeignPod]:
        """A group's foreign pods, in the order in which they became known."""
        return self._by_group.get(key, {}).values()

    def problem(self, key: str, scheduler_name: str) -> str:
        """The error of a group that has foreign pods besides those of `scheduler_name`; "" without such pods."""
        other = next(iter(self.of(key)), None)
        if other is None:
            return ""
        return f'{SHARED_NAME}, got: "{other.scheduler_name}" of pod {other.pod} and "{scheduler_name}"'

    def seen(self, raw: Mapping[str, Any]) -> None:
        """Takes in a raw pod of another scheduler. Never raises: an invalid pod counts as one without a group."""
        foreign_pod = self._parse(raw)
        if foreign_pod is None or self._by_uid.get(foreign_pod.uid) == foreign_pod:
            return
        self.left(foreign_pod.uid)
        self._by_uid[foreign_pod.uid] = self._by_group.setdefault(foreign_pod.group, {})[foreign_pod.uid] = foreign_pod
        self._notify(foreign_pod.group)

    def left(self, uid: str) -> None:
        """Forgets a pod that is no longer pending, or that now asks for us. Unknown pods are ignored."""
        foreign_pod = self._by_uid.pop(uid, None)
        if foreign_pod is not None:
            drop(self._by_group, foreign_pod.group, uid)
            self._notify(foreign_pod.group)

    def keep_only(self, namespace: str, uids: AbstractSet[str]) -> None:
        """Forgets the foreign pods of the namespace that are not among these uids."""
        for foreign_pod in list(self._by_uid.values()):
            if foreign_pod.pod.startswith(f"{namespace}/") and foreign_pod.uid not in uids:
                self.left(foreign_pod.uid)

    def _notify(self, key: str) -> None:
        for listener in self._listeners:
            listener(key)

    def _parse(self, raw: Mapping[str, Any]) -> ForeignPod | None:
        try:
            metadata, spec = raw["metadata"], raw["spec"]
            namespace = str(metadata.get("namespace") or "default")
            named = groups_named(spec, metadata.get("labels") or {}, namespace, metadata.get("annotations"))
            key = self._groups.counting(named) or next(iter(named), "")
            name = str(spec.get("schedulerName") or KUBERNETES_DEFAULT_SCHEDULER_NAME)
            return ForeignPod(str(metadata["uid"]), key, f"{namespace}/{metadata['name']}", name) if key else None
        except (InvalidObjectError, KeyError, TypeError, AttributeError):
            return None
