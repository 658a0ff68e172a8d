"""The watch of policies. In the operator, Kopf watches them."""

from __future__ import annotations

from podwright.core.objects.raw import Raw
from podwright.kube.policies.controller import PolicyController


class PolicySink:
    """Passes watched policies on to their controller."""

    def __init__(self, controller: PolicyController) -> None:
        self._controller = controller

    def key(self, raw: Raw) -> str:
        return self._controller.key_of(raw)

    def put(self, raw: Raw) -> None:
        self._controller.take_event({"type": "MODIFIED", "object": raw})

    def drop(self, key: str, raw: Raw | None) -> None:
        if raw is None:
            self._controller.remove(key)
        else:
            self._controller.take_event({"type": "DELETED", "object": raw})
