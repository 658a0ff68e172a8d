"""Room that one gang takes over from another: what pods of a PodGang of Grove leave is held for the gang that names it
in `spec.reuseReservationRef`, until that one has started. For Grove this is a suggestion, so other nodes do as well.

Grove's API: `PodGangSpec` in `scheduler/api/core/v1alpha1/podgang.go` at fcc3b3bb.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final

from podwright.core.gangs.gathering import slot_for
from podwright.core.objects.items_by_key import drop
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import PodGroup
from podwright.core.state.reservations import Reservation, reused_name
from podwright.engine.ports import Ports, Regarding
from podwright.engine.reservations import ReservationChanges
from podwright.engine.state import EngineState

KEPT_SECONDS: Final = 600.0
"""For how long room is held after the last pod has left it."""
MOST_NAMING: Final = 16
"""How many gangs that name the same one are asked whether they need room."""


class ReusedRoom:
    """See the module. `leads`: whether this instance decides; else the objects of the API server say what is held."""

    def __init__(
        self, state: EngineState, ports: Ports, *, reservations: ReservationChanges, leads: Callable[[], bool]
    ) -> None:
        self._cache = state.cache
        self._wall = state.sources.wall
        self._recorder = ports.recorder
        self._reservations = reservations
        self._leads = leads
        self._naming: dict[str, dict[str, None]] = {}
        """By the key of a group: the keys of the groups that name it."""
        state.cache.groups.listen_to_groups(self._group_changed)

    def pod_left(self, pod: PodInfo, node: str) -> None:
        """The pod has left its node, and no other pod has got its room yet. A pod that was evicted for others leaves
        its room to them.
        """
        if not pod.group or pod.preempted or self._cache.present(node) is None or not self._leads():
            return
        known = map(self._cache.groups.get, islice(self._naming.get(pod.group, ()), MOST_NAMING))
        group = next((each for each in known if each is not None and self._is_short(each)), None)
        if group is not None:
            self._hold(group, pod, node)

    def held(self) -> Mapping[str, Reservation]:
        """The reservations, by name."""
        return {each.name: each for each in self._cache.reservations.all() if each.is_reused}

    def release(self) -> None:
        """Gives back the room of gangs that have started, or are gone."""
        for name, each in self.held().items():
            group = self._cache.groups.get(each.group)
            if group is None or group.uid != each.group_uid or not self._waits(group):
                self._reservations.remove(name)

    def _waits(self, group: PodGroup) -> bool:
        groups = self._cache.groups
        return not groups.minimum_placed(group) or groups.members(group.key).unplaced_count > 0

    def _is_short(self, group: PodGroup) -> bool:
        """Less room is held than the gang has pods that wait. Pods that come and go hold no more than that."""
        name, reservations = reused_name(group.uid), self._cache.reservations
        free = 0 if reservations.get(name) is None else reservations.counts(name)[0]
        return free < self._cache.groups.members(group.key).unplaced_count

    def _hold(self, group: PodGroup, pod: PodInfo, node: str) -> None:
        name, until, slots = reused_name(group.uid), self._wall() + KEPT_SECONDS, [slot_for(pod, node)]
        if self._cache.reservations.get(name) is not None:
            self._cache.reservations.extend(name, slots, until)
            return
        of_class = self._cache.groups.class_priority(group.key)
        self._reservations.set(
            Reservation(
                name=name,
                namespace=group.namespace,
                until=until,
                slots=slots,
                priority=pod.priority if of_class is None else of_class,
                group=group.key,
                group_uid=group.uid,
            )
        )
        note = f"the room that pods of PodGang {pod.group.partition(':')[2]} leave is held for this gang"
        self._recorder.record(Regarding.group(group, pod.scheduler_name), "Normal", "RoomHeld", "Scheduling", note)

    def _group_changed(self, before: PodGroup | None, after: PodGroup | None) -> None:
        if before is not None and before.reuses:
            drop(self._naming, before.reuses, before.key)
        if after is not None and after.reuses:
            self._naming.setdefault(after.reuses, {})[after.key] = None
