"""Hinting: calls the queueing hints of the plugins that rejected a pod, to decide whether an event may help it.

Hints may be third-party code. An exception, or any answer other than Skip, counts as Queue, so that a faulty hint never
loses a pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from podwright.core.framework.cluster_events import ANY, Action, ClusterEvent, EventHint, Hint
from podwright.core.framework.observer import Observer
from podwright.core.objects.control_flow import passes_through
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.queue.queued_pod import QueuedPod

Hints = Mapping[str, Sequence[EventHint]]

EVERYTHING_CHANGED: Final = ClusterEvent(ANY, Action.ALL)
"""An event that helps every pod: a policy changed, or a pod has waited for too long."""
ALWAYS: Final = (EventHint(EVERYTHING_CHANGED),)
"""The hints of a plugin without hints: any event may help."""
SAMPLE_INTERVAL: Final = 16
"""Only one of this many calls is measured, because one event may call a hint for ten thousand pods."""
MAX_CACHED: Final = 256
"""The number of plugin sets for which registrations are cached."""
ERROR: Final = "Error"


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One occurrence of an event, with the object before and after it."""

    event: ClusterEvent
    before: Any
    after: Any
    only: str = ""
    """The uid of the only pod that it concerns; empty for all pods."""


class Hinting:
    """See the module. Reports a sample of the calls to `observer`
    (`scheduler_queueing_hint_execution_duration_seconds`).
    """

    def __init__(self, hints_of: Callable[[PodInfo], Hints], observer: Observer) -> None:
        self._hints_of = hints_of
        self._observer = observer
        self._calls = 0
        self._matching: dict[tuple[int, frozenset[str]], tuple[Hints, dict[ClusterEvent, frozenset[str]]]] = {}

    def registered_for(self, plugins: frozenset[str], pod: PodInfo, event: ClusterEvent) -> frozenset[str]:
        """Returns those of the plugins that have a hint for this event. Cached by set of plugins."""
        if event.resource == ANY:
            return plugins
        hints = self._hints_of(pod)
        key = (id(hints), plugins)
        known = self._matching.get(key)
        if known is None:
            if len(self._matching) >= MAX_CACHED:
                self._matching.clear()
            known = self._matching[key] = (hints, {})
        found = known[1].get(event)
        if found is None:
            found = known[1][event] = frozenset(name for name in plugins if registered(hints, name, event))
        return found

    def clear(self) -> None:
        """Drops cached registrations, which also hold hints of policies that were deleted."""
        self._matching.clear()

    def helped(self, plugins: Iterable[str], queued: QueuedPod, occurrence: Occurrence) -> set[str]:
        """Returns those of the plugins whose hints say that the event may help the pod.

        For a costly pod the hints are not called, because they would check all its terms at each event: any event for
        which there is a hint may help it, after its backoff. The lane bounds how often it is retried.
        """
        if occurrence.event.resource == ANY:
            return set(plugins)
        pod = queued.pod
        hints = self._hints_of(pod)
        if queued.cost is not None:
            return {name for name in plugins if registered(hints, name, occurrence.event)}
        return {
            name
            for name in plugins
            if any(self._helps(name, hint, pod, occurrence) for hint in hints.get(name, ALWAYS))
        }

    def helped_meanwhile(
        self, queued: QueuedPod, missed: Iterable[tuple[ClusterEvent, Iterable[Occurrence]]]
    ) -> tuple[bool, bool]:
        """True if an event that the pod missed while it was in flight may have helped it, and if so, whether it skips
        its backoff.
        """
        rejectors, helped = queued.rejectors, False
        for event, occurrences in missed:
            concerned = self.registered_for(rejectors, queued.pod, event)
            for occurrence in occurrences if concerned else ():
                if plugins := self.helped(concerned, queued, occurrence):
                    helped = True
                    at_once = skips_backoff(queued, plugins, occurrence)
                    if at_once or not queued.pending_plugins:
                        return True, at_once
        return helped, False

    def label(self, plugins: Iterable[str], queued: QueuedPod, occurrence: Occurrence) -> str:
        """The event's label. If the event combines several changes, the label of the first one that helps on its
        own.
        """
        if occurrence.event.action.bit_count() > 1 and occurrence.event.resource != ANY:
            for part in occurrence.event.parts:
                if self.helped(plugins, queued, replace(occurrence, event=part)):
                    return part.label
        return occurrence.event.label

    def _helps(self, plugin: str, hint: EventHint, pod: PodInfo, occurrence: Occurrence) -> bool:
        if not hint.event.matches(occurrence.event):
            return False
        if hint.function is None:
            return True
        self._calls += 1
        if self._calls % SAMPLE_INTERVAL:
            return _call(hint.function, pod, occurrence) != Hint.SKIP.value
        started = self._observer.start()
        answer = _call(hint.function, pod, occurrence)
        self._observer.hint_ended(started, plugin, occurrence.event.label, answer)
        return answer != Hint.SKIP.value


def _call(function: Callable[[PodInfo, Any, Any], Any], pod: PodInfo, occurrence: Occurrence) -> str:
    """The answer in kube-scheduler's words: `Queue`, `QueueSkip`, or `Error` for an exception or an invalid answer."""
    try:
        answer = function(pod, occurrence.before, occurrence.after)
    except BaseException as error:
        if passes_through(error):
            raise
        return ERROR
    return answer.value if isinstance(answer, Hint) else ERROR


def hints_for(hints: Hints, plugin: str, event: ClusterEvent, *, gate: bool = False) -> Sequence[EventHint]:
    """The plugin's hints for this event; `gate`: those that may open its gate."""
    return [each for each in hints.get(plugin, ALWAYS) if each.event.matches(event) and (each.opens_gate or not gate)]


def registered(hints: Hints, plugin: str, event: ClusterEvent) -> bool:
    """True if the plugin has a hint for this event."""
    return any(hint.event.matches(event) for hint in hints.get(plugin, ALWAYS))


def skips_backoff(queued: QueuedPod, helped: set[str], occurrence: Occurrence) -> bool:
    """True if a plugin that rejected the pod as Pending is helped by this event. Events that help every pod do not skip
    backoff.

    Nor do other events for a costly pod whose hints are not called, because nothing says whether they help it.
    """
    if queued.cost is not None or occurrence.event.resource == ANY:
        return False
    return bool(helped & queued.pending_plugins)
