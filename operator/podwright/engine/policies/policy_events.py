"""Events on policies: that one is refused, and about changes of their plugins."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, Literal

from podwright.api.local_policy import LOCAL_KIND
from podwright.api.scheduler_policy import GROUP, KIND, VERSION
from podwright.engine.policies.active_policies import ActivePolicies
from podwright.engine.ports import Recorder, Regarding

MOST_POLICIES: Final = 10
"""The most policies that get an event of one cause. The status of every policy names the cause."""
_ACTION: Final = "Scheduling"


class PolicyEvents:
    """See the module. `own`: the object of events that concern no policy, if it is known."""

    def __init__(
        self, policies: ActivePolicies, recorder: Recorder, *, scheduler_name: str, own: Callable[[], Regarding | None]
    ) -> None:
        self._policies = policies
        self._recorder = recorder
        self._scheduler_name = scheduler_name
        self._own = own

    def record(self, names: Collection[str], kind: Literal["Normal", "Warning"], reason: str, note: str) -> None:
        """Records an event on each of these policies, or on MOST_POLICIES of them if there are more. `names`:
        namespace/name for local policies.
        """
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
