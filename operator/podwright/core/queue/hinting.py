"""What happened in the cluster, and whether it may help a rejected pod: the queueing hints of its rejectors, asked.

A hint is a stranger's code: whatever it raises or returns but a clear Skip counts as Queue, so that it never loses a pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from podwright.core.framework.cluster_events import ANY, Action, ClusterEvent, EventHint, Hint
from podwright.core.objects.pod import PodInfo

Hints = Mapping[str, Sequence[EventHint]]
OnHint = Callable[[str, str, str, float], None]
"""(plugin, label of the event, result, seconds)"""

EVERYTHING_CHANGED: Final = ClusterEvent(ANY, Action.ALL)
"""Helps every pod: a policy changed, or time is up."""
ALWAYS: Final = (EventHint(EVERYTHING_CHANGED),)
"""The hints of a plugin that has none: any event may help."""
SAMPLED: Final = 16
"""One hint in so many is measured: ten thousand pods may be asked about for one event."""
KEPT: Final = 256
"""Sets of rejecting plugins for which is kept who asked for what; policies that are gone have some, too."""
ERROR: Final = "Error"


@dataclass(frozen=True, slots=True)
class Happened:
    event: ClusterEvent
    before: Any
    after: Any
    only: str = ""
    """The uid of the one pod that it concerns; empty: all."""


class Hinting:
    """Asks hints. `on_hint` is told of some of them (`scheduler_queueing_hint_execution_duration_seconds`)."""

    def __init__(self, clock: Callable[[], float], hints_of: Callable[[PodInfo], Hints], on_hint: OnHint) -> None:
        self._clock = clock
        self._hints_of = hints_of
        self._on_hint = on_hint
        self._asked = 0
        self._matching: dict[tuple[int, frozenset[str]], tuple[Hints, dict[ClusterEvent, frozenset[str]]]] = {}

    def asked(self, plugins: frozenset[str], pod: PodInfo, event: ClusterEvent) -> frozenset[str]:
        """Those of the plugins whose hints are registered for such an event. Looked up once for pods that the same ones rejected."""
        if event.resource == ANY:
            return plugins
        hints = self._hints_of(pod)
        key = (id(hints), plugins)
        known = self._matching.get(key)
        if known is None:
            if len(self._matching) >= KEPT:
                self._matching.clear()
            known = self._matching[key] = (hints, {})
        found = known[1].get(event)
        if found is None:
            found = known[1][event] = frozenset(name for name in plugins if registered(hints, name, event))
        return found

    def forget(self) -> None:
        """Lets go of hints that nobody may use any more."""
        self._matching.clear()

    def worth(self, plugins: Iterable[str], pod: PodInfo, happened: Happened) -> set[str]:
        """Those of the plugins which say that the event may help the pod."""
        if happened.event.resource == ANY:
            return set(plugins)
        hints = self._hints_of(pod)
        return {
            name for name in plugins if any(self._helps(name, hint, pod, happened) for hint in hints.get(name, ALWAYS))
        }

    def label(self, plugins: Iterable[str], pod: PodInfo, happened: Happened) -> str:
        """The event's label; of several changes at once, that of the first one that helps by itself."""
        parts = happened.event.parts
        if len(parts) > 1 and happened.event.resource != ANY:
            for part in parts:
                if self.worth(plugins, pod, replace(happened, event=part)):
                    return part.label
        return happened.event.label

    def _helps(self, plugin: str, hint: EventHint, pod: PodInfo, happened: Happened) -> bool:
        if not hint.event.matches(happened.event):
            return False
        if hint.function is None:
            return True
        self._asked += 1
        if self._asked % SAMPLED:
            return _ask(hint.function, pod, happened) != Hint.SKIP.value
        started = self._clock()
        answer = _ask(hint.function, pod, happened)
        self._on_hint(plugin, happened.event.label, answer, self._clock() - started)
        return answer != Hint.SKIP.value


def _ask(function: Callable[[PodInfo, Any, Any], Any], pod: PodInfo, happened: Happened) -> str:
    """The answer by kube-scheduler's words; nonsense is an error, and an error is no Skip."""
    try:
        answer = function(pod, happened.before, happened.after)
    except (Exception, SystemExit):  # noqa: BLE001 -- a faulty hint must not lose a pod
        return ERROR
    return answer.value if isinstance(answer, Hint) else ERROR


def registered(hints: Hints, plugin: str, event: ClusterEvent) -> bool:
    """Whether a hint of the plugin is registered for such an event."""
    return any(hint.event.matches(event) for hint in hints.get(plugin, ALWAYS))
