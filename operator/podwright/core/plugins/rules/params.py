"""Params: the texts that rules read as `params`, from the policy and from a ConfigMap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podwright.core.plugins.rules.owner import RuleOwner
from podwright.core.state.object_store import ObjectStore

CONFIG_MAP = "ConfigMap"
ConfigMap = tuple[str, str]
"""Namespace and name."""
Unreadable = Mapping[ConfigMap, str]
"""Why ConfigMaps cannot be read: `cannot be read (...)`."""


class Params:
    """The params of the policy, and those of its ConfigMap, which take precedence.

    While the ConfigMap does not exist, its last known content stays in use. If it has never been seen, only the
    policy's own params are.
    """

    def __init__(self, owner: RuleOwner, store: ObjectStore) -> None:
        self._own = own = owner.params
        self._config_map = owner.params_from
        self._store = store
        self._seen: Mapping[str, Any] | None = None
        self._merged = own

    def problem(self, unreadable: Unreadable) -> str:
        """Returns the problem of the ConfigMap, and what is used instead; "" without a problem."""
        self.current()
        config_map = self._config_map
        if config_map is None:
            return ""
        why = unreadable.get(config_map, "")
        if not why and self._store.get(CONFIG_MAP, config_map[1], config_map[0]) is not None:
            return ""
        used = "the params of the policy alone are used" if self._seen is None else "its last content stays in use"
        return f"ConfigMap {'/'.join(config_map)} {why or 'does not exist'}: {used}"

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
