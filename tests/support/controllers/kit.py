"""A runtime as Kopf's side sees it, and what is registered with Kopf."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest


class Events:
    """An intake that keeps the events."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def take_event(self, event: Any) -> None:
        self.events.append(event)


class FakePolicies(Events):
    def __init__(self, *, readable: bool) -> None:
        super().__init__()
        self.readable = readable
        self.appeared = asyncio.Event()


class FakeRuntime:
    """A runtime that has started and does nothing."""

    def __init__(self, *, kopf_watches_pods: bool = True, readable: bool = True, serves: bool = True) -> None:
        self.kopf_watches_pods = kopf_watches_pods
        self.policies = FakePolicies(readable=readable)
        self.pending = Events()
        self.source = SimpleNamespace()
        self.leadership = SimpleNamespace(lost=asyncio.Event())
        self.pending_selector = "spec.nodeName="
        self.crds_watchable = True
        self.calls: list[str] = []
        self._serves = serves

    def serves(self, _body: Any) -> bool:
        return self._serves

    def task_restarted(self, name: str) -> None:
        self.calls.append(f"restarted {name}")

    async def start(self) -> None:
        self.calls.append("start")

    async def stop(self) -> None:
        self.calls.append("stop")


@dataclass
class Handler:
    """What was registered with `kopf.on`."""

    kind: str
    resource: tuple[str, ...]
    function: Callable[..., Any]
    filters: dict[str, Any] = field(default_factory=dict)


def record_handlers(monkeypatch: pytest.MonkeyPatch) -> list[Handler]:
    """The handlers that are registered from now on, and not with Kopf."""
    handlers: list[Handler] = []

    def recorder(kind: str) -> Callable[..., Any]:
        def on(*resource: str, registry: Any = None, **filters: Any) -> Callable[..., Any]:
            def register(function: Callable[..., Any]) -> Callable[..., Any]:
                handlers.append(Handler(kind, resource, function, filters))
                return function

            return register

        return on

    for kind in ("login", "event"):
        monkeypatch.setattr(f"kopf.on.{kind}", recorder(kind))
    return handlers
