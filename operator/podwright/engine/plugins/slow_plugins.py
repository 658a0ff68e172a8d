"""Finds the plugins that take long: all pods share one thread, so a plugin that takes a second delays every pod by a
second.

Reading the clock around every call of a plugin would slow down all attempts. So attempts are timed as a whole, which
costs nothing: the loop reads the clock after each of them anyway. If one takes `SLOW_SECONDS` or more, the plugins are
measured one by one in the next attempts under the same policy, in the same way as in the sample for the metrics. A
plugin that is slow for one kind of pod only is found at the next such pod, if it comes soon, or in the sample.
"""

from __future__ import annotations

import logging
from typing import Final

from podwright.core.framework.observer import Observer
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.engine.records.log_fields import fields
from podwright.engine.records.metrics import SLOW_PLUGIN_CALLS, Metrics

log = logging.getLogger(__name__)

SLOW_SECONDS: Final = 0.1
"""An attempt, or a plugin at one extension point in one attempt, is slow if it takes this long."""
MEASURED_ATTEMPTS: Final = 20
"""How many attempts under a policy are measured after a slow one."""
LOG_SECONDS: Final = 60.0
"""How often the log names the same plugin or policy."""
_MAX_MEASURED: Final = 1_000
"""For how many policies attempts are measured at the same time."""
_AWAITED: Final = frozenset(("PreBind", "Bind", "PostBind"))
"""Other pods are scheduled while these wait."""


@dataclass(slots=True)
class _Logged:
    """The last time that a line was logged, and what has happened since."""

    at: float
    count: int = 0
    longest: float = 0.0


class SlowPlugins:
    """See the module."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._clock = metrics.start
        self._to_measure: dict[str, int] = {}
        """How many attempts are still to be measured, by the name of the policy."""
        self._logged: dict[tuple[str, ...], _Logged] = {}

    def observer_for(self, policy: str) -> Observer | None:
        """The observer of the next attempt under the policy of this name; None if its plugins are not measured."""
        sampled = self._metrics.sampled()
        if not self._to_measure:
            return None if sampled is None else _Measuring(self, self._metrics, policy=policy, for_metrics=True)
        return self.observer_if_slow(policy, for_metrics=sampled is not None)

    def observer_if_slow(self, policy: str, *, for_metrics: bool = False) -> Observer | None:
        """The observer of the next attempt, if a recent one under this policy was slow."""
        left = self._to_measure.pop(policy, 0)
        if left > 1:
            self._to_measure[policy] = left - 1
        return _Measuring(self, self._metrics, policy=policy, for_metrics=for_metrics) if left or for_metrics else None

    def attempt_was_slow(self, policy: str, pod: PodInfo, seconds: float) -> None:
        """An attempt took SLOW_SECONDS or more."""
        if len(self._to_measure) >= _MAX_MEASURED:
            self._to_measure.clear()  # mostly policies that are gone
        self._to_measure[policy] = MEASURED_ATTEMPTS
        if self._count((policy,), seconds) is not None:
            where = fields(pod=pod, policy=policy, seconds=round(seconds, 1))
            log.info("an attempt was slow; measuring the plugins of the next ones", extra=where)

    def plugin_ended(self, policy: str, plugin: str, point: str, seconds: float) -> None:
        """A plugin ran in a measured attempt."""
        if seconds < SLOW_SECONDS or point in _AWAITED:
            return
        self._metrics.count(SLOW_PLUGIN_CALLS, plugin, point)
        since = self._count((policy, plugin, point), seconds)
        if since is None:
            return
        log.warning(
            "policy %s: plugin %s took %.1f s at %s, and all other pods waited for it%s",
            policy,
            plugin,
            seconds,
            point,
            f"; since the last warning {since.count} times, at most {since.longest:.1f} s" if since.count else "",
        )

    def _count(self, key: tuple[str, ...], seconds: float) -> _Logged | None:
        """Counts a slow call. Returns the calls since the last line about `key` if a line is due now."""
        now, before = self._clock(), self._logged.get(key)
        if before is not None and now < before.at + LOG_SECONDS:
            before.count += 1
            before.longest = max(before.longest, seconds)
            return None
        self._logged = {each: logged for each, logged in self._logged.items() if now < logged.at + 10 * LOG_SECONDS}
        self._logged[key] = _Logged(now)
        return before or _Logged(now)


class _Measuring(Observer):
    """Observes the plugins of one attempt. `for_metrics`: the attempt is in the sample for the metrics, too."""

    def __init__(self, slow_plugins: SlowPlugins, metrics: Metrics, policy: str, *, for_metrics: bool) -> None:
        self._slow_plugins = slow_plugins
        self._metrics = metrics
        self._policy = policy
        self._for_metrics = for_metrics

    def start(self) -> float:
        return self._metrics.start()

    def plugin_ended(self, started: float, plugin: str, point: str, status: str) -> None:
        self._slow_plugins.plugin_ended(self._policy, plugin, point, self._metrics.start() - started)
        if self._for_metrics:
            self._metrics.plugin_ended(started, plugin, point, status)

    def point_ended(self, started: float, profile: str, point: str, status: str) -> None:
        if self._for_metrics:
            self._metrics.point_ended(started, profile, point, status)
