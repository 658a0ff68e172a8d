"""The two kinds of policies as the controller sees them: SchedulerPolicies by name, LocalSchedulerPolicies by namespace/name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from podwright.api.local_policy import namespace_of
from podwright.api.policy_result import ApplyResult
from podwright.api.policy_status import Policies
from podwright.api.scheduler_policy import identity_of
from podwright.engine.engine import Engine
from podwright.kube.kinds import LOCAL_POLICY, POLICY, Resource

Raw = Mapping[str, Any]


class PolicyKind(Protocol):
    """What the controller does with policies of one kind. None of it raises, whatever an object contains."""

    resource: Resource
    plural: str
    off: str
    """The log line if the kind cannot be read, with the path and the reason left out."""
    gone: str
    """The log line when the kind is not served any more."""
    pause_factor: float
    """After a change was applied, the next one waits for this many times as long as that took."""
    announce_seconds: float
    """The shortest time between two notifications of the engine about changes."""

    @property
    def policies(self) -> Policies: ...
    def key_of(self, raw: Raw) -> str: ...
    def namespace_of(self, raw: Raw) -> str: ...
    def apply(self, raw: Raw) -> ApplyResult: ...
    def remove(self, key: str) -> None: ...
    def next_due(self) -> str | None: ...
    def check(self, key: str) -> ApplyResult: ...
    def is_outdated(self, key: str) -> bool:
        """Whether the policy is to be applied again although it has not changed."""
        ...

    def listen(self, wake: Callable[[], None], relist: Callable[[], None]) -> None:
        """`wake`: called when something is due; `relist`: when something is outdated."""

    def announce(self, namespaces: frozenset[str]) -> None: ...


class ClusterPolicies:
    """SchedulerPolicies. They get a fifth of the time."""

    resource, plural, pause_factor, announce_seconds = POLICY, "SchedulerPolicies", 4.0, 0.0
    off = "SchedulerPolicies are off (%s: %s): the built-in default policy decides"
    gone = "SchedulerPolicies are not served any more: the built-in default policy decides"

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def policies(self) -> Policies:
        return self._engine.policies.policy_set

    def key_of(self, raw: Raw) -> str:
        return identity_of(raw)[0]

    def namespace_of(self, _raw: Raw) -> str:
        return ""

    def apply(self, raw: Raw) -> ApplyResult:
        return self._engine.policies.apply(raw)

    def remove(self, key: str) -> None:
        self._engine.policies.remove(key)

    def next_due(self) -> str | None:
        return None

    def check(self, key: str) -> ApplyResult:
        raise KeyError(key)  # nothing is ever due

    def is_outdated(self, key: str) -> bool:
        return key in self._engine.policies.policy_set.outdated

    def listen(self, wake: Callable[[], None], relist: Callable[[], None]) -> None:
        self._engine.policies.policy_set.listen(relist)

    def announce(self, _namespaces: frozenset[str]) -> None:
        self._engine.policies_changed()


class NamespacePolicies:
    """LocalSchedulerPolicies. Changes get a twentieth of the time, namespaces take turns, and waiting pods are retried once a second at most."""

    resource, plural, pause_factor, announce_seconds = LOCAL_POLICY, "LocalSchedulerPolicies", 19.0, 1.0
    off = "LocalSchedulerPolicies are off (%s: %s): only SchedulerPolicies decide"
    gone = "LocalSchedulerPolicies are not served any more: only SchedulerPolicies decide"

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def policies(self) -> Policies:
        return self._engine.policies.policy_set.local

    def key_of(self, raw: Raw) -> str:
        return f"{namespace_of(raw)}/{identity_of(raw)[0]}"

    def namespace_of(self, raw: Raw) -> str:
        return namespace_of(raw)

    def apply(self, raw: Raw) -> ApplyResult:
        return self._engine.policies.apply_local(raw)

    def remove(self, key: str) -> None:
        self._engine.policies.remove_local(key)

    def next_due(self) -> str | None:
        return self._engine.policies.policy_set.local.next_due()

    def check(self, key: str) -> ApplyResult:
        return self._engine.policies.check_local(key)

    def is_outdated(self, _key: str) -> bool:
        return False

    def listen(self, wake: Callable[[], None], relist: Callable[[], None]) -> None:
        self._engine.policies.policy_set.local.listen(wake)

    def announce(self, namespaces: frozenset[str]) -> None:
        self._engine.policies_changed(namespaces)
