"""A Cluster port with ResourceClaims in memory: versions, conflicts, generated names. What it stores reaches the cache
only by `deliver`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from podwright.core.framework.interface import ClusterError, ClusterTimeoutError
from podwright.core.state.cache import Cache

Raw = dict[str, Any]
KIND = "ResourceClaim"


class ClaimServer:
    """`before_write` is called before each write, so that a test can get in between; it may raise."""

    def __init__(self, cache: Cache) -> None:
        self.claims: dict[str, Raw] = {}
        self.pods: dict[str, Raw] = {}
        self.patches: list[tuple[str, str, Mapping[str, Any]]] = []
        self.writes: list[str] = []
        self.before_write: Callable[[str], None] = lambda _what: None
        self._cache = cache
        self._version = 100

    def add(self, raw: Raw) -> None:
        """A claim that is stored, and known."""
        self._store(copy.deepcopy(raw))
        self.deliver()

    def deliver(self) -> None:
        """The watch reports everything."""
        for raw in self._cache.store.list(KIND):
            if raw["metadata"]["name"] not in self.claims:
                self._cache.remove_object(KIND, raw["metadata"]["name"], "default")
        for raw in self.claims.values():
            self._cache.set_object(KIND, copy.deepcopy(raw))

    def change(self, name: str, change: Callable[[Raw], None]) -> None:
        """Somebody else changes a claim."""
        change(self.claims[name])
        self._store(self.claims[name])

    async def get(self, kind: str, name: str, _namespace: str = "") -> Raw | None:
        return copy.deepcopy((self.pods if kind == "Pod" else self.claims).get(name))

    async def update(self, _kind: str, raw: Mapping[str, Any], subresource: str = "") -> Raw:
        name = raw["metadata"]["name"]
        self._write(f"update {name}{'/' if subresource else ''}{subresource}")
        known = self.claims.get(name)
        if known is None:
            raise ClusterError("not found", 404)
        if known["metadata"]["resourceVersion"] != raw["metadata"]["resourceVersion"]:
            raise ClusterError("conflict", 409)
        changed = copy.deepcopy(dict(known))
        if subresource:
            changed["status"] = copy.deepcopy(raw.get("status") or {})
        else:
            changed["metadata"], changed["spec"] = copy.deepcopy(raw["metadata"]), copy.deepcopy(raw["spec"])
        return self._store(changed)

    async def create(self, _kind: str, raw: Mapping[str, Any]) -> Raw:
        self._write("create")
        created = copy.deepcopy(dict(raw))
        name = f"{created['metadata'].pop('generateName')}x1"
        created["metadata"] |= {"name": name, "uid": f"uid-{name}"}
        return self._store(created)

    async def patch(
        self, kind: str, name: str, _namespace: str, change: Mapping[str, Any], _subresource: str = ""
    ) -> Mapping[str, Any]:
        self._write(f"patch {kind} {name}")
        self.patches.append((kind, name, change))
        if kind != KIND:
            return change
        gone = {entry["uid"] for entry in change["status"]["reservedFor"]}
        changed = copy.deepcopy(self.claims[name])
        changed["status"]["reservedFor"] = [e for e in changed["status"]["reservedFor"] if e["uid"] not in gone]
        return self._store(changed)

    async def delete(self, _kind: str, name: str, _namespace: str, _uid: str) -> None:
        self._write(f"delete {name}")
        self.claims.pop(name, None)

    async def wait_for(
        self, _kind: str, name: str, namespace: str, done: Callable[[Any], bool], _timeout: float
    ) -> None:
        self.before_write("wait")
        self.deliver()
        if not done(self._cache.store.get(KIND, name, namespace)):
            raise ClusterTimeoutError("not yet")

    def _write(self, what: str) -> None:
        self.before_write(what)
        self.writes.append(what)

    def _store(self, raw: Raw) -> Raw:
        self._version += 1
        raw["metadata"]["resourceVersion"] = str(self._version)
        self.claims[raw["metadata"]["name"]] = raw
        return copy.deepcopy(raw)
