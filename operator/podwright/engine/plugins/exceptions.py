"""Exceptions that plugins and their indexes raise: each traceback is logged once for each policy, then only counted.

A plugin that raises can do so for every pod and node, so the log would be full of the same traceback. Tracebacks are
the same if they pass through the same lines and end with the same type of exception, whatever the message says. The
policy's status shows them in short (kube/policies), and `podwright_plugin_exceptions_total` counts them all. Exceptions
are not kept, because their tracebacks refer to pods and nodes.
"""

from __future__ import annotations

import logging
import traceback
from collections import OrderedDict, deque
from collections.abc import Collection, Iterable
from typing import Any, Final

from podwright.api.compile import CompiledPolicy
from podwright.core.framework.errors import ContractError, ReportException, plugin_traceback, raised_at
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import described
from podwright.engine.records.metrics import PLUGIN_EXCEPTIONS, Metrics
from podwright.engine.records.policy_activity import Activities

log = logging.getLogger(__name__)

REMEMBERED: Final = 1_000
SHOWN: Final = 3
"""How many different exceptions the status of a policy shows."""
_TEXT_LIMIT: Final = 200
_FRAMES: Final = 20
"""How many of the innermost frames are compared to tell tracebacks apart."""

_Trace = tuple[str, str, str, tuple[tuple[str, int], ...]]
"""Plugin, extension point, type of exception, and the files and lines."""


@dataclass(slots=True)
class _Known:
    text: str
    count: int = 1
    next_logged: int = 10


Report = tuple[_Trace, str]
"""The traceback, and a short text."""
_MOST_REPORTS: Final = 100


class PluginExceptions:
    """See the module."""

    def __init__(self, metrics: Metrics, limit: int = REMEMBERED, activities: Activities | None = None) -> None:
        """`limit`: how many tracebacks are remembered, for all policies together. `activities`: where exceptions are
        counted as faults of policies.
        """
        self._metrics = metrics
        self._limit = limit
        self._activities = activities
        self._known: OrderedDict[tuple[CompiledPolicy | None, _Trace], _Known] = OrderedDict()
        self.reports: deque[Report] = deque(maxlen=_MOST_REPORTS)
        """The latest reports, which a child sends to its parent."""

    def reporter(self, policy: CompiledPolicy) -> ReportException:
        """The function to which the plugins of this policy report their exceptions."""

        def report(plugin: str, point: str, error: BaseException) -> None:
            self._metrics.count(PLUGIN_EXCEPTIONS, plugin, point[:1].upper() + point[1:])
            self._report(policy, plugin, point, error)

        return report

    def index_failed(self, kind: type[Any], method: str, error: BaseException) -> None:
        """An index that a plugin has registered with the cache raised an exception: what it says of pods may be
        wrong.
        """
        self._metrics.count(PLUGIN_EXCEPTIONS, kind.__name__, "Index")
        self._report(None, kind.__name__, method, error)

    def _report(self, policy: CompiledPolicy | None, plugin: str, point: str, error: BaseException) -> None:
        """`policy`: None for an index, which all policies share."""
        trace = plugin_traceback(error)
        lines = ((frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(trace))  # reads no files
        key = (plugin, point, type(error).__name__, tuple(deque(lines, _FRAMES)))
        report = key, _shortened(plugin, point, error)
        if policy is not None:
            self.reports.append(report)
        if self._add(policy, report):
            log.error(
                "%s raised an exception at %s%s (logged once; later ones are counted)",
                _who(policy, plugin),
                point,
                "" if policy else ", so what it says of pods may be wrong",
                exc_info=(type(error), error, trace),
            )

    def take(self, policy: CompiledPolicy, reports: Iterable[Report]) -> None:
        """Adds what was reported in another process, which has logged and counted it."""
        for report in reports:
            self._add(policy, report)

    def _add(self, policy: CompiledPolicy | None, report: Report) -> bool:
        """Returns whether the exception is a new one."""
        trace, text = report
        if policy is not None and self._activities is not None:
            self._activities.fault(policy.name, text)
        key = policy, trace
        known = self._known.get(key)
        if known is not None:
            self._count(_who(policy, trace[0]), known)
            self._known.move_to_end(key)
            return False
        self._known[key] = _Known(text)
        if len(self._known) > self._limit:
            self._known.popitem(last=False)
        return True

    def _count(self, who: str, known: _Known) -> None:
        known.count += 1
        if known.count >= known.next_logged:
            known.next_logged *= 10
            log.error("%s raised the same exception %d times: %s", who, known.count, known.text)

    def summary(self, policy: CompiledPolicy) -> str:
        """A short text about the exceptions of this policy's plugins, for its status. "" if there were none."""
        texts = [known.text for (owner, _), known in self._known.items() if owner is policy]
        texts.sort()
        more = len(texts) - SHOWN
        return "\n".join([*texts[:SHOWN], *([f"and {more} more, see the log"] if more > 0 else ())])

    def forget(self, policies: Collection[CompiledPolicy]) -> None:
        """Forgets the exceptions of these policies, because they have other plugins now."""
        for key in [key for key in self._known if key[0] in policies]:
            del self._known[key]

    def keep(self, policies: Collection[CompiledPolicy]) -> None:
        """Forgets the exceptions of all other policies."""
        for key in [key for key in self._known if key[0] is not None and key[0] not in policies]:
            del self._known[key]


def _who(policy: CompiledPolicy | None, plugin: str) -> str:
    return f"policy {policy.name}: plugin {plugin}" if policy else f"index {plugin}"


def _shortened(plugin: str, point: str, error: BaseException) -> str:
    text = described(error)
    if len(text) > _TEXT_LIMIT:
        text = f"{text[:_TEXT_LIMIT]} ..."
    if isinstance(error, ContractError):
        return f"plugin {plugin} {error} at {point}"
    return f"plugin {plugin} raised {text} ({raised_at(error)}) at {point}"
