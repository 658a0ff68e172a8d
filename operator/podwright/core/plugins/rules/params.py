"""Params: the texts that rules read as `params`, from the policy and from a ConfigMap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podwright.core.plugins.rules.owner import Owner
from podwright.core.state.object_store import ObjectStore

CONFIG_MAP = "ConfigMap"


class Params:
    """The params of the policy, and those of its ConfigMap, which take precedence.

    While the ConfigMap does not exist, its last known content stays in use. If it has never been seen, only the policy's own params are.
    """

    def __init__(self, owner: Owner, store: ObjectStore) -> None:
        self._own = own = owner.params
        self._config_map = owner.params_from
        self._store = store
        self._seen: Mapping[str, Any] | None = None
        self._merged = own

    @property
    def missing(self) -> str:
        """The ConfigMap that does not exist, as namespace/name; "" if none is missing."""
        if (
            self._config_map is None
            or self._store.get(CONFIG_MAP, self._config_map[1], self._config_map[0]) is not None
        ):
            return ""
        return "/".join(self._config_map)

    @property
    def stale(self) -> bool:
        """Whether the content of a ConfigMap is in use that does not exist any more."""
        self.current()
        return bool(self.missing) and self._seen is not None

    def current(self) -> Mapping[str, str]:
        """The params. The same object as long as they are the same."""
        if self._config_map is None:
            return self._own
        namespace, name = self._config_map
        found = self._store.get(CONFIG_MAP, name, namespace)
        if found is not None and found is not self._seen:
            self._seen = found
            data = found.get("data")
            texts = data.items() if isinstance(data, Mapping) else ()
            self._merged = {**self._own, **{str(key): value for key, value in texts if isinstance(value, str)}}
        return self._merged
