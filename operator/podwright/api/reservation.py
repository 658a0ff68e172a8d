"""Reservation v1alpha1: room on nodes that is held for pods to come, until a time.

Each field is declared once, in the dataclasses below: `parse_reservation` decodes and validates with them, and
podwright/api/crd.py derives the CustomResourceDefinition from them. core/state/reservations.py holds the room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from podwright.api.own_objects import CheckedStatus, accepted, checked_status, conditions, count, read_object
from podwright.api.policy_status import ACTIVE, Condition, UntimedCondition
from podwright.api.scheduler_policy import GROUP
from podwright.api.scheduling_queue import QUANTITY, QuotaAmount
from podwright.api.spec.match import NAMESPACE, Selector
from podwright.core.framework.args import encode
from podwright.core.framework.validation import SET, Problem, Rule, declared, key_path, whole_number
from podwright.core.objects.affinity import interned_selector
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.durations import parse_duration
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import Owner, parse_time
from podwright.core.objects.resources import is_qualified_name, resource_list
from podwright.core.objects.selectors import EVERYTHING
from podwright.core.objects.times import rfc3339
from podwright.core.state.reservations import Replaced, Reservation, Reservations, Slot

RESERVATION_KIND: Final = "Reservation"
RESERVATION_PLURAL: Final = "reservations"
MAX_SLOTS: Final = 1_000
"""The most slots of a reservation, with their counts."""
LONGEST: Final = 10 * 366 * 86_400
"""In seconds: for how long room may be held, ten years. A status cannot name any later time."""
_NODE: Final[Mapping[str, Any]] = {"minLength": 1, "maxLength": 253}


@dataclass(frozen=True, slots=True)
class ReservedSlot:
    node: str = declared("The name of the node.", **_NODE)
    requests: Mapping[str, QuotaAmount] = declared(
        "What a pod requests there, by resource as in a container's requests. Quantities.",
        default_factory=dict,
        rules=[
            Rule(
                violations=lambda self: (key_path(key) for key in self if not is_qualified_name(key)),
                message="is not the name of a resource",
            )
        ],
        maxProperties=32,
        additionalProperties=QUANTITY,
    )
    count: int = whole_number("For how many such pods.", 1, MAX_SLOTS, default=1)


@dataclass(frozen=True, slots=True)
class ReservedGroup:
    api_group: str = declared("The API of the group, such as scheduling.k8s.io.", maxLength=253)
    name: str = declared("The name of the PodGroup, in this namespace.", minLength=1, maxLength=253)
    uid: str = declared("Its uid.", default="", maxLength=128)


@dataclass(frozen=True, slots=True)
class ReservedOwner:
    api_version: str = declared("Its apiVersion.", minLength=1, maxLength=316)
    kind: str = declared("Its kind.", minLength=1, maxLength=63)
    name: str = declared("Its name.", minLength=1, maxLength=253)
    uid: str = declared("Its uid.", minLength=1, maxLength=128)


@dataclass(frozen=True, slots=True)
class ReplacedPod:
    name: str = declared("The name of the pod.", minLength=1, maxLength=253)
    uid: str = declared("Its uid.", minLength=1, maxLength=128)
    owner: ReservedOwner = declared("Its controller.")
    labels: Mapping[str, str] = declared(
        "Its labels: the new pod has no others.", default_factory=dict, maxProperties=1024
    )
    others: tuple[str, ...] = declared(
        "The uids of other pods of the controller on the node, which are not the new one.",
        default=(),
        maxItems=1024,
        items={"maxLength": 128},
        **SET,
    )


@dataclass(frozen=True, slots=True)
class ReservationSpec:
    namespace: str = declared("The namespace of the pods that the room is for.", **NAMESPACE)
    pod_selector: Selector | None = declared(
        "Selects these pods by their labels. Not given, or empty: all pods of the namespace.", default=None
    )
    pod_group: ReservedGroup | None = declared(
        "The pod group whose members they are, instead of podSelector.", default=None
    )
    replaced_pod: ReplacedPod | None = declared(
        "A pod that leaves its node. Instead of podSelector: the room is for the pod that its controller creates in "
        "its place.",
        default=None,
    )
    start_time: str = declared(
        "When the pods are expected. Others that declare to end before may use the room. An RFC 3339 time. Not given: "
        "unknown.",
        default="",
        maxLength=32,
    )
    slots: tuple[ReservedSlot, ...] = declared(
        "The room, for one pod each, or for as many alike as count says. The whole spec may consist of 3,000 values, "
        "which is enough for 350 entries with a count and four resources each.",
        default=(),
        minItems=1,
        maxItems=MAX_SLOTS,
    )
    duration: str = declared(
        "For how long the room is held, from the creation of the object. A duration such as 90s or 1h30m.",
        default="10m",
        maxLength=32,
        pattern=r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$",
    )
    priority: int = declared(
        "Pods of a greater priority may take the room. By default, only system-critical pods may.",
        default=1_000_000_000,
        format="int32",
    )

    def validate(self, where: str) -> Iterator[Problem]:
        try:
            parse_time(self.start_time or None, "")
        except InvalidObjectError:
            yield f"{where}.startTime", f"{self.start_time!r} is no RFC 3339 time"
        if (slots := sum(slot.count for slot in self.slots)) > MAX_SLOTS:
            yield f"{where}.slots", f"has {slots} slots with their counts, the maximum is {MAX_SLOTS}"
        if parse_duration(self.duration) > LONGEST:
            yield f"{where}.duration", f"{self.duration} is more than ten years"
        if self.replaced_pod is not None and slots != 1:
            yield f"{where}.slots", f"has {slots} slots with their counts, but one pod comes in place of another"

    def reservation(self, name: str, created: float) -> Reservation:
        """Returns the core's form of the object. `created`: seconds since the epoch."""
        where = "spec.slots[0].requests"
        selector, group, pod = self.pod_selector, self.pod_group, self.replaced_pod
        return Reservation(
            name=name,
            namespace=self.namespace,
            until=created + parse_duration(self.duration),
            slots=[Slot(slot.node, slot.requests) for slot in self.slots for _ in range(slot.count)],
            selector=EVERYTHING if selector is None else interned_selector(encode(selector), "spec.podSelector"),
            priority=self.priority,
            group="" if group is None else f"{group.api_group}:{self.namespace}/{group.name}",
            group_uid="" if group is None else group.uid,
            at=parse_time(self.start_time or None, "") or 0.0,
            replaced=None
            if pod is None
            else Replaced(
                name=pod.name,
                uid=pod.uid,
                owner=Owner(pod.owner.api_version, pod.owner.kind, pod.owner.name, pod.owner.uid),
                labels=pod.labels,
                requests={name: size for name, size in resource_list(self.slots[0].requests, where).items() if size},
                others=frozenset(pod.others),
            ),
        )


def object_of(reservation: Reservation, created: float) -> dict[str, Any]:
    """The object for the room of a pod group, or of a pod that moves, until LONGEST after `created`, in seconds since
    the epoch, which is when it is created.
    """
    api_group, _, key = reservation.group.partition(":")
    pod, group = reservation.replaced, None
    if reservation.group:
        group = ReservedGroup(api_group, key.partition("/")[2], reservation.group_uid)
    slots = Counter((slot.node, tuple(sorted(slot.requests.items()))) for slot in reservation.slots)
    spec = ReservationSpec(
        namespace=reservation.namespace,
        pod_group=group,
        replaced_pod=None
        if pod is None
        else ReplacedPod(
            pod.name,
            pod.uid,
            ReservedOwner(pod.owner.api_version, pod.owner.kind, pod.owner.name, pod.owner.uid),
            dict(pod.labels),
            tuple(sorted(pod.others)),
        ),
        start_time=rfc3339(reservation.at) if reservation.at else "",
        slots=tuple(ReservedSlot(node, dict(requests), count) for (node, requests), count in slots.items()),
        duration=f"{max(1, min(round(reservation.until - created), LONGEST))}s",
        priority=reservation.priority,
    )
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": RESERVATION_KIND,
        "metadata": {"name": reservation.name},
        "spec": encode(spec),
    }


def parse_reservation(raw: Mapping[str, Any]) -> Reservation:
    """Decodes a Reservation object. Raises InvalidObjectError naming the reservation and every field that is wrong."""
    return read_object(
        raw, RESERVATION_KIND, ReservationSpec, lambda found: found.spec.reservation(found.name, found.created)
    )


@dataclass(frozen=True, slots=True)
class ReservationCondition(Condition):
    type: str = declared("Accepted (the reservation is valid) or Active (room is held).", maxLength=316)
    reason: str = declared("Accepted: Accepted, Invalid. Active: Held, Expired, NotAccepted.", maxLength=1024)


@dataclass(frozen=True, slots=True)
class ReservationStatus(CheckedStatus):
    conditions: tuple[ReservationCondition, ...] = conditions()
    until: str = declared("Until when the room is held. An RFC 3339 time.", default="", maxLength=32)
    free: int = count("How many slots are held for pods to come.")
    taken: int = count("How many slots the pods have that they are for.")
    lost: int = count("How many slots more important pods have taken.")


def status_of(
    reservations: Reservations,
    name: str,
    *,
    generation: int,
    problem: str,
    previous: Mapping[str, Any],
    now: str,
    until: str,
) -> dict[str, Any]:
    """The status of a reservation. `problem`: what is wrong with it; empty for nothing. `now`, `until`: RFC 3339
    times.
    """
    held = reservations.get(name) is not None
    if problem:
        active = UntimedCondition(ACTIVE, False, "NotAccepted", "The reservation is not valid, and holds nothing.")
    elif held:
        active = UntimedCondition(ACTIVE, True, "Held", "The room is held.")
    else:
        active = UntimedCondition(ACTIVE, False, "Expired", "The time of the reservation is over.")
    found = (accepted("reservation", problem), active)
    status = checked_status(found, generation=generation, previous=previous, now=now)
    if not problem:
        status["until"] = until
    if held:
        status |= dict(zip(("free", "taken", "lost"), reservations.counts(name), strict=True))
    return status
