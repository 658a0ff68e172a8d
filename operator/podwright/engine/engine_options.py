"""The options of an engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from podwright.api.permissions import DEFAULT_SETTINGS, PolicySettings
from podwright.core.objects.dataclass import dataclass
from podwright.core.queue import DEFAULT_WAITS, Waits
from podwright.engine.outcomes.binding.limiter import PROMPT_LIMIT
from podwright.engine.plugins.guard import BUDGET_SECONDS
from podwright.engine.process.instance import UNNAMED, Instance

ATTEMPTS_AT_EXTENDERS: Final = 32
"""How many attempts may be out at an extender by default."""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """`policies`: the built-in policy, and what other policies may do; `waits`: backoffs and the maximum wait of
    rejected pods; `bindings_at_once`: how many prompt Bindings may be in progress; `attempts_at_extenders`: how many
    attempts may be out at an extender that has no limit of its own; `instance`: the name of this process;
    `plugin_budget`: how many seconds a third-party plugin may take for a pod; `disabled_plugins`: by name, why plugins
    are off from the start; `gather_after`: after how many seconds queues that do not say it gather room for gangs, 0
    for never.
    """

    policies: PolicySettings = DEFAULT_SETTINGS
    waits: Waits = DEFAULT_WAITS
    bindings_at_once: int = PROMPT_LIMIT
    attempts_at_extenders: int = ATTEMPTS_AT_EXTENDERS
    instance: Instance = UNNAMED
    plugin_budget: float = BUDGET_SECONDS
    disabled_plugins: Mapping[str, str] = field(default_factory=dict)
    gather_after: float = 0.0


DEFAULT_OPTIONS: Final = EngineOptions()
