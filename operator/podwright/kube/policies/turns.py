"""Changed policies that wait to be applied: only the last change of each counts, and namespaces take turns."""

from __future__ import annotations

from podwright.core.objects.raw import Raw


class PolicyTurns:
    """See the module. In each namespace, the policy that changed first comes first."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[str, Raw]] = {}
        """The namespace whose turn it is comes first."""
        self._namespaces: dict[str, str] = {}
        """By the policy's key."""

    def __bool__(self) -> bool:
        return bool(self._namespaces)

    def get(self, key: str) -> Raw | None:
        """The change of this policy that waits, or None."""
        return self._by_namespace[self._namespaces[key]][key] if key in self._namespaces else None

    def put(self, key: str, namespace: str, raw: Raw) -> None:
        self._by_namespace.setdefault(namespace, {})[key] = raw
        self._namespaces[key] = namespace

    def discard(self, key: str) -> None:
        namespace = self._namespaces.pop(key, None)
        if namespace is not None:
            changes = self._by_namespace[namespace]
            del changes[key]
            if not changes:
                del self._by_namespace[namespace]

    def first(self) -> tuple[str, Raw]:
        """Returns the key and the change whose turn it is. Raises StopIteration without changes."""
        changes = next(iter(self._by_namespace.values()))
        return next(iter(changes.items()))

    def take(self, key: str) -> None:
        """Removes the change of this policy, which has had its turn."""
        namespace = self._namespaces[key]
        self._by_namespace[namespace] = self._by_namespace.pop(namespace)  # last from now on
        self.discard(key)
