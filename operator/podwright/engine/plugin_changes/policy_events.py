"""Events that regard policies: what became of their plugins."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, Literal

from podwright.api.local_policy import LOCAL_KIND
from podwright.api.scheduler_policy import GROUP, KIND, VERSION
from podwright.engine.active_policies import ActivePolicies
from podwright.engine.ports import Recorder, Regarding

MOST_POLICIES: Final = 10
"""About so many policies are events recorded of one cause. The statuses of all of them say it."""
_ACTION: Final = "Scheduling"


class PolicyEvents:
    """See the module. `own`: what events regard that no policy is concerned by, if that is known."""

    def __init__(
        self, policies: ActivePolicies, recorder: Recorder, *, scheduler_name: str, own: Callable[[], Regarding | None]
    ) -> None:
        self._policies = policies
        self._recorder = recorder
        self._scheduler_name = scheduler_name
        self._own = own

    def record(self, names: Collection[str], kind: Literal["Normal", "Warning"], reason: str, note: str) -> None:
        """An event for each of these policies, for a few of them if there are many. `names`: of local ones, namespace/name."""
        found = [each for name in sorted(names) if (each := self._regarding(name)) is not None]
        own = None if found else self._own()
        for regarding in found[:MOST_POLICIES] if own is None else [own]:
            self._recorder.record(regarding, kind, reason, _ACTION, note)

    def _regarding(self, name: str) -> Regarding | None:
        """None for a built-in policy, which has no object."""
        namespace, _, local = name.rpartition("/")
        policies = self._policies.policy_set
        uid = policies.local.uid_of(name) if namespace else policies.uid_of(name)
        kind = LOCAL_KIND if namespace else KIND
        if not uid:
            return None
        return Regarding(namespace, local, uid, "", self._scheduler_name, kind, f"{GROUP}/{VERSION}")
