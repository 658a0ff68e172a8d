"""The handlers of both ways to run Kopf. Each only delegates."""

from __future__ import annotations

from typing import Any

import kopf

from podwright.controllers.login import KopfLogin
from podwright.kube.runtime import Runtime


def register_login(registry: kopf.OperatorRegistry, login: KopfLogin) -> None:
    """Has Kopf log in with the credentials of the runtime."""

    @kopf.on.login(id="login", registry=registry)
    async def log_in(**_: Any) -> kopf.AiohttpSession:
        return await login.session()


def register_watches(registry: kopf.OperatorRegistry, runtime: Runtime) -> None:
    """Has Kopf watch what the runtime wants it to watch."""
    if runtime.kopf_watches_pods:
        _register_pods(registry, runtime)
    if runtime.policies.readable:
        _register_policies(registry, runtime)
    if runtime.local_policies.readable:
        _register_local_policies(registry, runtime)


def _register_pods(registry: kopf.OperatorRegistry, runtime: Runtime) -> None:
    """DELETED also comes for a pod that is no longer pending, because it was bound or deleted."""

    @kopf.on.event("pods", id="pods", when=lambda body, **_: runtime.serves(body), registry=registry)
    async def pod_event(event: kopf.RawEvent, **_: Any) -> None:
        runtime.pending.take_event(event)


def _register_policies(registry: kopf.OperatorRegistry, runtime: Runtime) -> None:
    @kopf.on.event("podwright.dev", "v1alpha1", "schedulerpolicies", id="policies", registry=registry)
    async def policy_event(event: kopf.RawEvent, **_: Any) -> None:
        runtime.policies.take_event(event)


def _register_local_policies(registry: kopf.OperatorRegistry, runtime: Runtime) -> None:
    @kopf.on.event("podwright.dev", "v1alpha1", "localschedulerpolicies", id="local-policies", registry=registry)
    async def local_policy_event(event: kopf.RawEvent, **_: Any) -> None:
        runtime.local_policies.take_event(event)
