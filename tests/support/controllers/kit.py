"""A runtime as Kopf's side sees it, and what is registered with Kopf."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import kopf
import pytest

from podwright.controllers import handlers
from podwright.controllers.login import KopfLogin
from podwright.controllers.settings import configure
from podwright.kube.client.credentials.credentials import Credentials, CredentialSource, Loaded
from podwright.kube.runtime import Runtime


class Events:
    """An intake that keeps the events, and the objects of lists that Kopf does not get."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.listed: list[Any] = []

    def put_listed(self, raw: Any) -> None:
        self.listed.append(raw)

    def take_event(self, event: Any) -> None:
        self.events.append(event)


class FakePolicies(Events):
    def __init__(self, *, readable: bool) -> None:
        super().__init__()
        self.readable = readable
        self.appeared = asyncio.Event()


class FakeRuntime:
    """A runtime that has started and does nothing."""

    collections: Sequence[str] = ()
    kopf_has_work = Runtime.kopf_has_work

    def __init__(self, *, kopf_watches_pods: bool = True, readable: bool = True, serves: bool = True) -> None:
        self.kopf_watches_pods = kopf_watches_pods
        self.policies = FakePolicies(readable=readable)
        self.local_policies = FakePolicies(readable=readable)
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


def login_to(url: str, take_in: Callable[[Any], None]) -> KopfLogin:
    """Logs Kopf in to a server that asks for no credentials."""
    return KopfLogin(CredentialSource(lambda _now: Loaded(Credentials(url, None, ())), lambda: 0.0), take_in)


def served_kind(plural: str, kind: str, *, namespaced: bool = False) -> dict[str, Any]:
    """A kind as discovery lists it."""
    verbs = ["get", "list", "watch", "patch"]
    return {"name": plural, "singularName": kind.lower(), "namespaced": namespaced, "kind": kind, "verbs": verbs}


@asynccontextmanager
async def running_kopf(runtime: FakeRuntime, login: KopfLogin) -> AsyncIterator[asyncio.Future[None]]:
    """Runs Kopf with its settings and handlers, and yields what is done when Kopf has ended."""
    settings, registry, stop = kopf.OperatorSettings(), kopf.OperatorRegistry(), asyncio.Event()
    configure(settings, cast(Runtime, runtime))
    handlers.register_login(registry, login)
    handlers.register_watches(registry, cast(Runtime, runtime))
    ignored = asyncio.all_tasks()
    tasks = await kopf.spawn_tasks(
        settings=settings, registry=registry, standalone=True, clusterwide=True, stop_flag=stop
    )
    running = asyncio.create_task(kopf.run_tasks(tasks, ignored=[*ignored]))
    try:
        yield running
    finally:
        # Not by `stop`: then Kopf waits 5 s for its watches.
        for task in (running, *tasks):
            task.cancel()
        await asyncio.gather(running, *tasks, return_exceptions=True)


@dataclass
class Handler:
    """A handler registered with `kopf.on`."""

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
