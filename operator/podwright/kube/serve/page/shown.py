"""The data of the page, from a running scheduler or a simulated cluster. All of it runs in the cache's thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from podwright.core.objects.dataclass import dataclass
from podwright.core.state.cache import Cache
from podwright.engine.policies.active_policies import ActivePolicies
from podwright.engine.rebalance.rebalancing import Rebalancing
from podwright.engine.records.recent_decisions import RecentDecisions
from podwright.engine.view.history import History
from podwright.engine.view.waiting import PendingPod


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """See the module. `clock`: of the times since when `pods` wait. `simulated`: there is no scheduler; the page can
    try hypotheses. `stale`: how many seconds ago the cluster was last seen, and why; 0 while it is seen.
    """

    cache: Cache
    pods: Callable[[], Iterable[PendingPod | None]]
    policies: ActivePolicies
    clock: Callable[[], float]
    decisions: RecentDecisions | None = None
    history: History | None = None
    rebalancing: Rebalancing | None = None
    simulated: bool = False
    stale: Callable[[], tuple[float, str]] = lambda: (0.0, "")
