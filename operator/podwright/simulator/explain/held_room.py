"""Explains that a waiting pod, or its group, would have room if Reservations did not hold it for others."""

from __future__ import annotations

from collections.abc import Callable, Collection

from podwright.core.objects.times import rfc3339
from podwright.core.objects.wording import counted, listed
from podwright.core.state.reservations import Reservation
from podwright.simulator.explain.results import Cause
from podwright.simulator.loaded import LoadedCluster


def held_room(cluster: LoadedCluster, plan: Callable[[], Collection[str]]) -> Cause | None:
    """Names the Reservations on the nodes that `plan` finds without them. None if it finds no nodes, or nothing is
    held.
    """
    reservations = cluster.cache.reservations
    if not len(reservations):
        return None
    restore = reservations.suspend()
    try:
        nodes = plan()
    finally:
        restore()
    found = {each.name: each for node in nodes for each in reservations.holding(node)}
    if not found:
        return None
    room = f"room on {listed(sorted(nodes)[:3])}" if len(nodes) <= 3 else f"room on {counted(len(nodes), 'node')}"
    text = f"there would be {room}, which is held by {listed([_named(each) for each in found.values()], 3)}"
    return Cause(reason="RoomHeld", text=text, nodes=len(nodes))


def _named(reservation: Reservation) -> str:
    whom = (
        f"pod group {reservation.group.partition(':')[2]}" if reservation.group else f"pods of {reservation.namespace}"
    )
    return f"Reservation {reservation.name} for {whom} until {rfc3339(reservation.until)}"
