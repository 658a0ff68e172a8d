"""Waiting pods that name a pod group and ask for a scheduler that we are not: their group cannot be complete, and is told why."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import DEFAULT_SCHEDULER_NAME
from podwright.core.objects.pod_group import group_of


@dataclass(frozen=True, slots=True)
class Stranger:
    """`group`: the key of its pod group; `pod`: namespace/name."""

    uid: str
    group: str
    pod: str
    scheduler_name: str


class Strangers:
    """See the module. `changed` is called with a group's key when its strangers have changed."""

    def __init__(self, changed: Callable[[str], None]) -> None:
        self._changed = changed
        self._by_uid: dict[str, Stranger] = {}
        self._by_group: dict[str, dict[str, Stranger]] = {}

    def __len__(self) -> int:
        return len(self._by_uid)

    @property
    def namespaces(self) -> set[str]:
        """Where they are."""
        return {stranger.pod.partition("/")[0] for stranger in self._by_uid.values()}

    def of(self, key: str) -> Collection[Stranger]:
        """Those of a group, the first known first."""
        return self._by_group.get(key, {}).values()

    def seen(self, raw: Mapping[str, Any]) -> None:
        """A pod that asks for somebody else. Never raises: what cannot be understood names no group."""
        stranger = _stranger(raw)
        if stranger is None or self._by_uid.get(stranger.uid) == stranger:
            return
        self.left(stranger.uid)
        self._by_uid[stranger.uid] = self._by_group.setdefault(stranger.group, {})[stranger.uid] = stranger
        self._changed(stranger.group)

    def left(self, uid: str) -> None:
        """The pod waits no more, or is ours; one that is not known is no error."""
        stranger = self._by_uid.pop(uid, None)
        if stranger is not None:
            others = self._by_group[stranger.group]
            del others[uid]
            if not others:
                del self._by_group[stranger.group]
            self._changed(stranger.group)

    def only(self, namespace: str, there: AbstractSet[str]) -> None:
        """The uids of all pods of the namespace that ask for somebody else: others have left."""
        for stranger in list(self._by_uid.values()):
            if stranger.pod.startswith(f"{namespace}/") and stranger.uid not in there:
                self.left(stranger.uid)


def _stranger(raw: Mapping[str, Any]) -> Stranger | None:
    try:
        metadata, spec = raw["metadata"], raw["spec"]
        namespace = str(metadata.get("namespace") or "default")
        key = group_of(spec, metadata.get("labels") or {}, namespace)
        name = str(spec.get("schedulerName") or DEFAULT_SCHEDULER_NAME)
        return Stranger(str(metadata["uid"]), key, f"{namespace}/{metadata['name']}", name) if key else None
    except (InvalidObjectError, KeyError, TypeError, AttributeError):
        return None
