"""Time budgets of LocalSchedulerPolicies: all pods share one thread, so a team's rules must not delay the pods of
others.

Only what a local policy adds is measured: the calls of its rules and of the plugins that it enables, in CPU time. Two
bounds hold. A policy's `decisionBudget` is what a decision under it may take on average. And all local policies
together get `SHARE` of the time: if they take more, the policies that took most are over their budget, one by one,
until the others stay within the share. Their time outside the lane of costly pods is subtracted from the lane's share,
so that both together get no more than the lane may have.

For a minute, and twice as long each further time, the scores of a policy over its budget count 0 and its pods wait in
the lane of costly pods. Its filters always hold. If it is deleted, the policies of its namespace take over the penalty.
A policy that is new, or was over its budget, is on trial: its first decision takes place in the lane, too. So all
decisions of unknown length together get at most a tenth of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import wraps
from typing import Any, Final, NamedTuple

import numpy as np

from podwright.core.framework.cluster_events import EventHint, Hint
from podwright.core.framework.framework import Framework
from podwright.core.framework.status import SKIP
from podwright.core.objects.dataclass import dataclass

SHARE: Final = 0.05
"""The share of the time that all local policies together get."""
WINDOW_SECONDS: Final = 1.0
"""How often the share is checked."""
BURST: Final = 20.0
"""How many times its budget a policy may use for one decision: the first evaluation of a rule takes longer than later
ones.
"""
OVER_SECONDS: Final = (60.0, 3600.0)
"""How long a policy is over its budget: the first time, and at most."""
FORGIVEN_AFTER: Final = 10.0
"""After this many times the duration of the last penalty without another one, penalties begin with the shortest again.
"""

MAX_PENALTIES: Final = 10_000
"""For how many namespaces the penalties of deleted policies are remembered."""

_FILTERING: Final = ("pre_filter", "filter", "filter_all", "add_pod", "remove_pod")
_SCORING: Final = ("pre_score", "score", "score_all", "normalize")


@dataclass(slots=True, eq=False)
class Account:
    """The time of one local policy."""

    key: str
    budget: float
    """Seconds of a decision, on average."""
    left: float
    """Seconds until the budget is used up."""
    spent: float = 0.0
    """Seconds since the account was settled."""
    in_window: float = 0.0
    """Seconds in the running window."""
    decisions: int = 0
    """How many there were since the account was settled."""
    in_lane: bool = False
    """True if the last decision was in the lane, whose time is measured there."""
    outside: float = 0.0
    """Seconds since the account was settled that were not in the lane."""
    over_until: float = float("-inf")
    """The policy is over its budget until then."""
    why: str = ""
    times: int = 0
    """How often the policy has been over its budget."""
    penalty: float = 0.0
    """For how many seconds it was the last time."""
    muted: bool = False
    """True while it is."""
    trusted: bool = False
    """True once a decision `on_trial` stayed within the budget."""
    on_trial: bool = False
    total: float = 0.0
    """All seconds ever."""

    @property
    def most(self) -> float:
        return self.budget * BURST


class Penalty(NamedTuple):
    """A policy is over its budget until `over_until`, after this many seconds, for the reason `why`."""

    over_until: float
    seconds: float
    why: str


class LocalBudgets:
    """See the module. `clock` never steps back; `cpu` is the CPU time of the thread that decides. `charge_lane` gets
    the seconds that local policies take in decisions outside the lane.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        cpu: Callable[[], float],
        charge_lane: Callable[[float], object] = lambda _seconds: None,
    ) -> None:
        self._clock = clock
        self._cpu = cpu
        self._charge_lane = charge_lane
        self._accounts: dict[tuple[str, str], Account] = {}
        self._penalties: dict[str, Penalty] = {}
        """The penalties of deleted policies, by namespace."""
        self._window_began = clock()

    def account(self, key: str, owner: str, budget: float) -> Account:
        """The account of a local policy under the policy `owner`, whose generations share it. `budget`: seconds of a
        decision.
        """
        found = self._accounts.get((key, owner))
        if found is None:
            found = self._accounts[key, owner] = Account(key, budget, left=budget * BURST)
            penalty = self._penalties.get(_namespace(key))
            if penalty is not None and not self._forgiven(penalty):
                found.over_until, found.penalty, found.why = penalty.over_until, penalty.seconds, penalty.why
                found.muted = self._clock() < penalty.over_until
        found.budget = budget
        return found

    @property
    def accounts(self) -> Collection[Account]:
        return self._accounts.values()

    def forget(self, key: str) -> None:
        """Forgets a deleted local policy. Its penalty stays with its namespace, so that a new policy does not begin
        without one.
        """
        for known in [known for known in self._accounts if known[0] == key]:
            self._remember(self._accounts.pop(known))

    def _remember(self, account: Account) -> None:
        if not account.penalty:
            return
        self._penalties = {name: each for name, each in self._penalties.items() if not self._forgiven(each)}
        namespace, new = _namespace(account.key), Penalty(account.over_until, account.penalty, account.why)
        known = self._penalties.pop(namespace, None)
        self._penalties[namespace] = new if known is None else max(known, new)
        if len(self._penalties) > MAX_PENALTIES:
            del self._penalties[next(iter(self._penalties))]

    def _forgiven(self, penalty: Penalty) -> bool:
        return self._clock() > penalty.over_until + FORGIVEN_AFTER * penalty.seconds

    def watch(self, account: Account, framework: Framework, names: Iterable[str]) -> None:
        """Charges the time that these plugins of a framework take to the account."""
        hints = dict(framework.hints)
        for name in names:
            plugin = framework.plugins[name]
            for method in (*_FILTERING, *_SCORING):
                found = getattr(plugin, method, None)
                if found is not None:
                    setattr(plugin, method, self._timed(account, found, method))
            if name in hints:
                hints[name] = [self._timed_hint(account, hint) for hint in hints[name]]
        framework.hints = hints

    def _timed(self, account: Account, method: Callable[..., Any], name: str) -> Callable[..., Any]:
        cpu, scores = self._cpu, name in _SCORING

        @wraps(method)
        def timed(*args: Any, **kwargs: Any) -> Any:
            if scores and account.muted:
                return _nothing(name, args)
            started = cpu()
            try:
                return method(*args, **kwargs)
            finally:
                self._charge(account, cpu() - started, in_lane=account.in_lane)

        return timed

    def _timed_hint(self, account: Account, hint: EventHint) -> EventHint:
        """The hint, measured too. Every event may help a policy over its budget."""
        if hint.function is None:
            return hint
        function, cpu = hint.function, self._cpu

        def timed(*args: Any) -> Hint:
            if account.muted:
                return Hint.QUEUE
            started = cpu()
            try:
                return function(*args)
            finally:
                self._charge(account, cpu() - started, in_lane=False)

        return replace(hint, function=timed)

    def charge(self, account: Account, seconds: float) -> None:
        """Charges the time of a decision that another process has made."""
        self._charge(account, seconds, in_lane=True)

    def _charge(self, account: Account, seconds: float, *, in_lane: bool) -> None:
        account.spent += seconds
        account.total += seconds
        if not in_lane:
            account.outside += seconds
        if account.spent > account.most and not account.muted:
            self._settle(account)

    def begin(self, account: Account, *, in_lane: bool, pods: int = 1) -> bool:
        """Begins a decision about this many pods. False if the pods have to wait in the lane first."""
        now = self._clock()
        self._settle(account)
        if now >= self._window_began + WINDOW_SECONDS:
            self._end_window(now)
        if account.muted and now >= account.over_until:
            account.muted, account.why, account.left = False, "", account.most
        if account.muted:
            account.in_lane = in_lane
            return in_lane
        if not account.trusted:
            account.on_trial = in_lane
            if not in_lane:
                return False
        account.decisions += pods
        account.in_lane = in_lane
        return True

    def _settle(self, account: Account) -> None:
        """Counts the time of the decisions since the last call."""
        account.left = min(account.most, account.left + account.decisions * account.budget) - account.spent
        account.in_window += account.spent
        if account.outside:
            self._charge_lane(account.outside)
            account.outside = 0.0
        if account.left < 0.0 and not account.muted:
            self._over(account, f"what it adds took more than {account.budget * 1e3:g} ms in a decision, on average")
        elif account.on_trial and account.decisions:
            account.trusted, account.on_trial = True, False
        account.spent, account.decisions = 0.0, 0

    def _end_window(self, now: float) -> None:
        """Ends a window. If local policies took more than their share, the policies that took most are over their
        budget.
        """
        seconds, self._window_began = now - self._window_began, now
        used = [account for account in self._accounts.values() if account.in_window or account.spent]
        for account in used:
            self._settle(account)
        total = sum(account.in_window for account in used)
        for account in sorted(used, key=lambda each: -each.in_window):
            if total <= SHARE * seconds:
                break
            total -= account.in_window
            if not account.muted:
                share = f"{100 * account.in_window / seconds:.0f} %"
                self._over(
                    account, f"what it adds took {share} of the time; all local policies together get {SHARE:.0%}"
                )
        for account in used:
            account.in_window = 0.0

    def _over(self, account: Account, why: str) -> None:
        now, (shortest, longest) = self._clock(), OVER_SECONDS
        forgiven = self._forgiven(Penalty(account.over_until, account.penalty, account.why))
        account.penalty = shortest if forgiven else min(longest, 2 * account.penalty)
        account.over_until, account.why = now + account.penalty, why
        account.times += 1
        account.muted, account.trusted, account.on_trial = True, False, False

    def problem(self, key: str) -> str:
        """Why a policy is over its budget; "" if it is not."""
        return "; ".join(sorted({each.why for each in self._accounts.values() if each.key == key and each.muted}))

    def counts(self) -> Mapping[tuple[str, ...], float]:
        """How many local policies are over their budget."""
        return {(): sum(account.muted for account in self._accounts.values())}


def _namespace(key: str) -> str:
    """The namespace of a local policy."""
    return key.partition("/")[0]


def _nothing(method: str, args: tuple[Any, ...]) -> Any:
    """The answer of a plugin whose scores count 0."""
    if method == "pre_score":
        return SKIP
    return np.zeros(len(args[3]), np.int64) if method == "normalize" else 0
