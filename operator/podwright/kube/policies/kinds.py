"""The two kinds of policies as the controller sees them: SchedulerPolicies by name, LocalSchedulerPolicies by
namespace/name.
"""

from __future__ import annotations

from collections.abc import Callable

from podwright.api.local_policy import local_key_of
from podwright.api.policy_result import ApplyResult
from podwright.api.policy_status import Policies
from podwright.api.scheduler_policy import identity_of, namespace_of
from podwright.core.objects.raw import Raw
from podwright.engine.engine import Engine
from podwright.kube.kinds import LOCAL_POLICY, POLICY


class PolicyKind:
    """The controller's treatment of policies of one kind.

    After a change was applied, the next one waits for `pause_factor` times as long as that took: SchedulerPolicies get
    a fifth of the time, local ones a twentieth. `announce_seconds`: the shortest time between two notifications of the
    engine about changes.
    """

    def __init__(self, engine: Engine, *, local: bool = False) -> None:
        """`local`: LocalSchedulerPolicies."""
        self._engine = engine
        self._set = engine.policies.policy_set
        self._local = local
        self.resource = LOCAL_POLICY if local else POLICY
        self.plural = "LocalSchedulerPolicies" if local else "SchedulerPolicies"
        self.pause_factor, self.announce_seconds = (19.0, 1.0) if local else (4.0, 0.0)
        self.policies: Policies = self._set.local if local else self._set
        self.off = (
            "LocalSchedulerPolicies are off (%s: %s): only SchedulerPolicies decide"
            if local
            else "SchedulerPolicies are off (%s: %s): the built-in default policy decides"
        )
        """The log line if the kind cannot be read, with the path and the reason left out."""
        without = self.off.partition("): ")[2]
        self.gone = f"{self.plural} are not served any more: {without}"

    def key_of(self, raw: Raw) -> str:
        return local_key_of(raw) if self._local else identity_of(raw)[0]

    def namespace_of(self, raw: Raw) -> str:
        return namespace_of(raw) if self._local else ""

    def apply(self, raw: Raw) -> ApplyResult:
        policies = self._engine.policies
        return policies.apply_local(raw) if self._local else policies.apply(raw)

    def remove(self, key: str) -> None:
        self._engine.policies.remove(key)

    def next_due(self) -> str | None:
        """Returns the next policy to check because another one has changed; None if no policy is due."""
        return self._set.local.next_due() if self._local else None

    def check(self, key: str) -> ApplyResult:
        return self._engine.policies.check_local(key)

    def is_outdated(self, key: str) -> bool:
        """True if the policy is to be applied again although it has not changed."""
        return not self._local and key in self._set.outdated

    def listen(self, wake: Callable[[], None], relist: Callable[[], None]) -> None:
        """`wake`: called when something is due; `relist`: when something is outdated."""
        (self._set.local if self._local else self._set).listen(wake if self._local else relist)

    def announce(self, namespaces: frozenset[str]) -> None:
        if self._local:
            self._engine.policies_changed(namespaces)
        else:
            self._engine.policies_changed()
