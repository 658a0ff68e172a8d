"""The door of PriorityClasses: while an API is served whose pod groups name one, the object store has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from podwright.core.objects.pod_group import GROVE_KIND, KAI_KIND, VOLCANO_KIND
from podwright.engine.engine import Engine
from podwright.kube.kinds import PRIORITY_CLASSES, Resource
from podwright.kube.watch.served_kinds import Door


class PriorityClassDoor(Door):
    """See the module."""

    kind = PRIORITY_CLASSES.kind
    about = "PriorityClasses of pod groups"
    candidates: Sequence[Resource] = (PRIORITY_CLASSES,)
    only_with = (VOLCANO_KIND, KAI_KIND, GROVE_KIND)

    def __init__(self, engine: Engine) -> None:
        self._objects = engine.objects(self.kind)

    def key(self, raw: Mapping[str, Any]) -> str:
        return self._objects.key(raw)

    def put(self, raw: Mapping[str, Any]) -> None:
        self._objects.put(raw)

    def drop(self, key: str, raw: Mapping[str, Any] | None) -> None:
        self._objects.drop(key, raw)
