"""Reservation v1alpha1: room on nodes that is held for pods to come, until a time.

Each field is declared once, in the dataclasses below: `parse_reservation` decodes and validates with them, and
podwright/api/crd.py derives the CustomResourceDefinition from them. core/state/reservations.py holds the room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from podwright.api.policy_status import (
    ACCEPTED,
    ACTIVE,
    Condition,
    UntimedCondition,
    conditions_by_type,
    rfc3339,
    timed,
)
from podwright.api.scheduler_policy import GROUP, NAMELESS, PolicyError, check_kind, decoded, identity_of
from podwright.api.scheduling_queue import QUANTITY, QuotaAmount
from podwright.api.spec.match import NAMESPACE, Selector
from podwright.core.framework.args import encode
from podwright.core.framework.durations import parse_duration
from podwright.core.framework.validation import SET, Problem, Rule, describe, key_path, unique_by
from podwright.core.objects.affinity import interned_selector
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import Owner, parse_time
from podwright.core.objects.resources import is_qualified_name, resource_list
from podwright.core.objects.selectors import EVERYTHING
from podwright.core.state.reservations import Replaced, Reservation, Reservations, Slot

RESERVATION_KIND: Final = "Reservation"
RESERVATION_PLURAL: Final = "reservations"
MAX_SLOTS: Final = 1_000
"""The most slots of a reservation, with their counts."""
_LONGEST: Final = 10 * 366 * 86_400.0
"""In seconds: ten years. A status cannot name any later time."""
_NODE: Final[Mapping[str, Any]] = {"minLength": 1, "maxLength": 253}


@dataclass(frozen=True, slots=True)
class ReservedSlot:
    node: str = field(metadata=describe("The name of the node.", **_NODE))
    requests: Mapping[str, QuotaAmount] = field(
        default_factory=dict,
        metadata=describe(
            "What a pod requests there, by resource as in a container's requests. Quantities.",
            rules=[
                Rule(
                    violations=lambda self: (key_path(key) for key in self if not is_qualified_name(key)),
                    message="is not the name of a resource",
                )
            ],
            maxProperties=32,
            additionalProperties=QUANTITY,
        ),
    )
    count: int = field(
        default=1,
        metadata=describe("For how many such pods.", format="int32", minimum=1, maximum=MAX_SLOTS),
    )


@dataclass(frozen=True, slots=True)
class ReservedGroup:
    api_group: str = field(metadata=describe("The API of the group, such as scheduling.k8s.io.", maxLength=253))
    name: str = field(metadata=describe("The name of the PodGroup, in this namespace.", minLength=1, maxLength=253))
    uid: str = field(default="", metadata=describe("Its uid.", maxLength=128))


@dataclass(frozen=True, slots=True)
class ReservedOwner:
    api_version: str = field(metadata=describe("Its apiVersion.", minLength=1, maxLength=316))
    kind: str = field(metadata=describe("Its kind.", minLength=1, maxLength=63))
    name: str = field(metadata=describe("Its name.", minLength=1, maxLength=253))
    uid: str = field(metadata=describe("Its uid.", minLength=1, maxLength=128))


@dataclass(frozen=True, slots=True)
class ReplacedPod:
    name: str = field(metadata=describe("The name of the pod.", minLength=1, maxLength=253))
    uid: str = field(metadata=describe("Its uid.", minLength=1, maxLength=128))
    owner: ReservedOwner = field(metadata=describe("Its controller."))
    labels: Mapping[str, str] = field(
        default_factory=dict, metadata=describe("Its labels: the new pod has no others.", maxProperties=1024)
    )
    others: tuple[str, ...] = field(
        default=(),
        metadata=describe(
            "The uids of other pods of the controller on the node, which are not the new one.",
            maxItems=1024,
            items={"maxLength": 128},
            **SET,
        ),
    )


@dataclass(frozen=True, slots=True)
class ReservationSpec:
    namespace: str = field(metadata=describe("The namespace of the pods that the room is for.", **NAMESPACE))
    pod_selector: Selector | None = field(
        default=None,
        metadata=describe("Selects these pods by their labels. Not given, or empty: all pods of the namespace."),
    )
    pod_group: ReservedGroup | None = field(
        default=None,
        metadata=describe("The pod group whose members they are, instead of podSelector."),
    )
    replaced_pod: ReplacedPod | None = field(
        default=None,
        metadata=describe(
            "A pod that leaves its node. Instead of podSelector: the room is for the pod that its controller creates "
            "in its place."
        ),
    )
    start_time: str = field(
        default="",
        metadata=describe(
            "When the pods are expected. Others that declare to end before may use the room. An RFC 3339 time. Not given: "
            "unknown.",
            maxLength=32,
        ),
    )
    slots: tuple[ReservedSlot, ...] = field(
        default=(),
        metadata=describe("The room, for one pod each.", minItems=1, maxItems=MAX_SLOTS),
    )
    duration: str = field(
        default="10m",
        metadata=describe(
            "For how long the room is held, from the creation of the object. A duration such as 90s or 1h30m.",
            maxLength=32,
            pattern=r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$",
        ),
    )
    priority: int = field(
        default=1_000_000_000,
        metadata=describe(
            "Pods of a greater priority may take the room. By default, only system-critical pods may.", format="int32"
        ),
    )

    def validate(self, where: str) -> Iterator[Problem]:
        try:
            parse_time(self.start_time or None, "")
        except InvalidObjectError:
            yield f"{where}.startTime", f"{self.start_time!r} is no RFC 3339 time"
        if (slots := sum(slot.count for slot in self.slots)) > MAX_SLOTS:
            yield f"{where}.slots", f"has {slots} slots with their counts, the maximum is {MAX_SLOTS}"
        if parse_duration(self.duration) > _LONGEST:
            yield f"{where}.duration", f"{self.duration} is more than ten years"
        if self.replaced_pod is not None and slots != 1:
            yield f"{where}.slots", f"has {slots} slots with their counts, but one pod comes in place of another"

    def reservation(self, name: str, created: float) -> Reservation:
        """As the core has it. `created`: seconds since the epoch."""
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
    """The object for the room of a pod group, or of a pod that moves. `created`: when it is created, in seconds since
    the epoch.
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
        duration=f"{max(1, round(reservation.until - created))}s",
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
    name = identity_of(raw)[0]
    try:
        if name == NAMELESS:
            raise PolicyError(name, "Invalid", [("metadata.name", "a name is required")])
        check_kind(raw, RESERVATION_KIND)
        found = decoded(raw, ReservationSpec, raw.get("spec"))
        return found.spec.reservation(name, found.created)
    except PolicyError as error:
        where, _, problem = error.message.partition(": ")
        raise InvalidObjectError(where, problem).in_object(RESERVATION_KIND, name) from error


def _count(description: str) -> int:
    return field(default=0, metadata=describe(description, format="int32", minimum=0))


@dataclass(frozen=True, slots=True)
class ReservationCondition(Condition):
    type: str = field(metadata=describe("Accepted (the reservation is valid) or Active (room is held).", maxLength=316))
    reason: str = field(
        metadata=describe("Accepted: Accepted, Invalid. Active: Held, Expired, NotAccepted.", maxLength=1024)
    )


@dataclass(frozen=True, slots=True)
class ReservationStatus:
    observed_generation: int | None = field(
        default=None, metadata=describe("The newest generation that the operator has checked.", minimum=0)
    )
    conditions: tuple[ReservationCondition, ...] = field(
        default=(), metadata=describe("Accepted and Active.", maxItems=16, **unique_by("type"))
    )
    until: str = field(default="", metadata=describe("Until when the room is held. An RFC 3339 time.", maxLength=32))
    free: int = _count("How many slots are held for pods to come.")
    taken: int = _count("How many slots the pods have that they are for.")
    lost: int = _count("How many slots more important pods have taken.")


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
    before, held = conditions_by_type(previous), reservations.get(name) is not None
    if problem:
        active = UntimedCondition(ACTIVE, False, "NotAccepted", "The reservation is not valid, and holds nothing.")
    elif held:
        active = UntimedCondition(ACTIVE, True, "Held", "The room is held.")
    else:
        active = UntimedCondition(ACTIVE, False, "Expired", "The time of the reservation is over.")
    accepted = UntimedCondition(
        ACCEPTED, not problem, "Invalid" if problem else "Accepted", problem or "The reservation is valid."
    )
    status: dict[str, Any] = {
        "observedGeneration": generation,
        "conditions": [timed(each, before.get(each.type), generation, now) for each in (accepted, active)],
    }
    if not problem:
        status["until"] = until
    if held:
        status |= dict(zip(("free", "taken", "lost"), reservations.counts(name), strict=True))
    return status
