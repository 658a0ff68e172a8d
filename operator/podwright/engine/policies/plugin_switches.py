"""Switches off plugins that are too slow, as `onPluginFailure` of their policy says, and reports it in status, event,
metric and log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from podwright.api.compile import CompiledPolicy
from podwright.core.framework.guarded import GuardedPlugin
from podwright.engine.plugins.guard import PluginGuard
from podwright.engine.policies.active_policies import ActivePolicies
from podwright.engine.policies.policy_events import PolicyEvents
from podwright.engine.records.metrics import PLUGINS_OFF, Metrics

log = logging.getLogger(__name__)


class PluginSwitches:
    """See the module. A plugin is switched on again when its file or its policy changes, or when the operator
    restarts.
    """

    def __init__(
        self,
        policies: ActivePolicies,
        policies_changed: Callable[[], None],
        *,
        guard: PluginGuard,
        metrics: Metrics,
        events: PolicyEvents,
    ) -> None:
        self._policies = policies
        self._policies_changed = policies_changed
        self._events = events
        metrics.compute(PLUGINS_OFF, self._counts)
        guard.listen(self._switch_soon)

    def tell_of_disabled(self) -> None:
        """Records events on the policies whose plugins are off since the start. Call it once the policies are known."""
        for active in self._policies.built:
            if problem := self._policies.plugins.problem(active.compiled):
                self._tell(active.compiled, problem)

    def _tell(self, policy: CompiledPolicy, problem: str) -> None:
        log.error("policy %s: %s", policy.name, problem)
        self._events.record([policy.name], "Warning", "PluginSwitchedOff", problem)

    def _switch_soon(self, plugin: GuardedPlugin, why: str) -> None:
        """Switches the plugin off after the current attempt, because the plugin may still be running in it."""
        asyncio.get_running_loop().call_soon(self._switch, plugin.owner, plugin.name, why)

    def _switch(self, policy: CompiledPolicy, plugin: str, why: str) -> None:
        text = self._policies.switch_off(policy, plugin, why)
        if not text:
            return
        self._tell(policy, text)
        self._policies_changed()

    def _counts(self) -> Mapping[tuple[str, ...], float]:
        return {(): self._policies.plugins.switched_off_count}
