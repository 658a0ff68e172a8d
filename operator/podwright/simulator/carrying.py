"""How decisions are carried out: in a trial, which rolls everything back (`trial`), or permanently (`Committed`). Both
do the same to the ResourceClaims of the pods: see `claims`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from podwright.core.cycle import Placement
from podwright.core.framework.errors import PluginError
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import FollowUp
from podwright.core.framework.status import Code, Status
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.raw import Raw
from podwright.core.state.reservations import Reservation
from podwright.simulator.claims import Change, free_claims, take_back, with_claims, write_reserved
from podwright.simulator.loaded import LoadedCluster, learn_templates


class Carrier(Protocol):
    """Carries decisions out."""

    def place(self, framework: Framework, placement: Placement) -> Status | None:
        """Puts the pod on its node, and allocates its claims. Returns the rejection of a Reserve plugin, or None.
        Raises PluginError.
        """

    def evict(self, pods: Sequence[PodInfo]) -> Sequence[Change]:
        """Removes the pods from their nodes. Returns the changes of their claims."""

    def follow_up(self, follow_ups: Sequence[FollowUp]) -> Sequence[Change]:
        """Changes claims as plugins ask after a rejection. Returns the changes."""

    def nominate(self, pod: PodInfo, node_name: str) -> None:
        """Nominates the pod to the node. An empty name clears the nomination."""

    def hold(self, reservation: Reservation) -> None:
        """Adds a reservation."""


def permitted(framework: Framework, placement: Placement) -> Status | None:
    """Why a Permit plugin rejects the pod. A pod that would have to wait is approved. Raises PluginError."""
    refused, _ = framework.permit(placement.state, placement.pod, placement.node_name)
    return None if refused is None or refused.code is Code.WAIT else refused


class Committed:
    """Carries decisions out permanently."""

    def __init__(self, cluster: LoadedCluster) -> None:
        self._cluster = cluster
        self._cache = cluster.cache

    # Decisions

    def place(self, framework: Framework, placement: Placement) -> Status | None:
        cache, pod, state = self._cache, placement.pod, placement.state
        placed = replace(pod, start_time=self._cluster.clock.now)
        cache.assume(placed, placement.node_name)
        try:
            refused = framework.reserve(state, pod, placement.node_name)
            if refused is None:
                refused = permitted(framework, placement)
                if refused is not None:
                    framework.unreserve(state, pod, placement.node_name)
        except PluginError:
            cache.forget(pod.uid)
            raise
        if refused is not None:
            cache.forget(pod.uid)
            return refused
        cache.set_pod(placed.on(placement.node_name))
        cache.nominator.remove(pod.uid)
        cache.groups.remove_waiting(pod.uid)
        write_reserved(self._cluster, self, framework, placement)
        return None

    def evict(self, pods: Sequence[PodInfo]) -> Sequence[Change]:
        for pod in pods:
            self._cache.remove_pod(pod.uid)
        return free_claims(self._cluster, self, pods)

    def follow_up(self, follow_ups: Sequence[FollowUp]) -> Sequence[Change]:
        return take_back(self._cluster, self, follow_ups)

    def nominate(self, pod: PodInfo, node_name: str) -> None:
        if node_name:
            self._cache.nominator.add(pod, node_name)
        else:
            self._cache.nominator.remove(pod.uid)

    def hold(self, reservation: Reservation) -> None:
        self._cache.reservations.set(reservation)

    # Pods that wait

    def add_pending(self, pod: PodInfo) -> PodInfo:
        """Adds a pod that waits, creates claims from its templates, and adds it to its group."""
        learn_templates(self._cluster.claim_templates, self._cache, pod)
        made = with_claims(self._cluster, self, pod)
        self._cache.groups.add_waiting(made)
        return made

    def drop_pending(self, pod: PodInfo) -> Sequence[Change]:
        """Removes a pod that waits. Returns the changes of its claims."""
        self._cache.groups.remove_waiting(pod.uid)
        self._cache.nominator.remove(pod.uid)
        return free_claims(self._cluster, self, (pod,))

    # Objects

    def set_object(self, kind: str, raw: Raw) -> None:
        """Adds or replaces an object. Raises InvalidObjectError without a name."""
        self._cache.set_object(kind, raw)

    def remove_objects(self, kind: str, keys: Sequence[tuple[str, str]]) -> None:
        """Removes objects by namespace and name; unknown ones are ignored."""
        for namespace, name in keys:
            self._cache.remove_object(kind, name, namespace)
