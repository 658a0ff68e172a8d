"""The status of a SchedulingQueue: whether it is valid, what its pods have and wait for, and the bound that holds the
first one.

Accepted says whether the newest generation is valid, Active whether pods of the queue are scheduled. Amounts are
quantities, as in a pod's requests.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from functools import partial
from typing import Any, Final

from podwright.api.own_objects import CheckedStatus, accepted, checked_status, conditions, count
from podwright.api.policy_status import ACTIVE, Condition, UntimedCondition
from podwright.api.scheduler_policy import LastAccepted
from podwright.core.framework.args import encode
from podwright.core.framework.validation import declared, unique_by
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import parse_time
from podwright.core.objects.times import rfc3339
from podwright.core.queues.amounts import amount_text, unit_of
from podwright.core.queues.queues import Queues
from podwright.core.queues.shares import UNBOUNDED
from podwright.core.queues.shown import first_bound, held_by, waiting_below, warnings
from podwright.core.queues.tree import NO_QUOTA, Quota
from podwright.core.queues.usage import MAX_USERS, Record

USAGE_SECONDS: Final = 600.0
"""How old the usage in a status may be before it is written again."""
MAX_RESOURCES: Final = 64
"""How many resources a status names."""
USER_RESOURCES: Final = 8
"""How many it names of each user."""


def described_amounts(description: str) -> Any:
    """A field of amounts by resource."""
    return declared(
        description, default_factory=dict, maxProperties=MAX_RESOURCES, additionalProperties={"maxLength": 64}
    )


@dataclass(frozen=True, slots=True)
class QueueCondition(Condition):
    type: str = declared(
        "Accepted (the newest generation is valid) and Active (pods of the queue are scheduled). Only while they hold: "
        "OverLimit (pods that run have more than a limit), FlavorWithoutNodes (no node has the labels of a flavor), "
        "CapacityUnknown (not all devices of a class are counted) and GuaranteesNotCovered (queues below may lack what "
        "they are guaranteed).",
        maxLength=316,
    )
    reason: str = declared(
        "Accepted: Accepted, Invalid. Active: InForce, LastGoodGeneration, NotAccepted, NotOpen. Others: their type.",
        maxLength=1024,
    )


@dataclass(frozen=True, slots=True)
class FirstWaiting:
    pod: str = declared("The pod as namespace/name.", maxLength=512)
    message: str = declared("The bound that it waits for, with numbers.", maxLength=1024)


@dataclass(frozen=True, slots=True)
class UserUsage:
    user: str = declared("The label podwright.dev/user of the user's pods.", maxLength=63)
    hours: Mapping[str, str] = described_amounts(
        "The part of the queue's hours that belongs to these pods, by resource."
    )


@dataclass(frozen=True, slots=True)
class UsageStatus:
    observed_at: str = declared("When it was counted.", format="date-time")
    average: Mapping[str, str] = described_amounts("What the queue used on average, with its half-life, by resource.")
    hours: Mapping[str, str] = described_amounts(
        "What it has used since the record began, in CPU-hours, byte-hours, GPU-hours and so on, by resource."
    )
    since: str = declared("When the record began. An RFC 3339 time.", default="", maxLength=32)
    users: tuple[UserUsage, ...] = declared(
        "Those who have used most. What is left of the hours belongs to others, and to pods without a user.",
        default=(),
        maxItems=MAX_USERS,
        **unique_by("user"),
    )


@dataclass(frozen=True, slots=True)
class QueueStatus(CheckedStatus):
    conditions: tuple[QueueCondition, ...] = conditions("Accepted, Active, and warnings.")
    last_accepted: LastAccepted | None = declared(
        "The generation that was accepted last. It stays in force while a newer one is invalid.", default=None
    )
    summary: str = declared(
        "In short what the queue has of each resource that it has a quota of, or without any, of all: "
        "`nvidia.com/gpu 32 of 32`.",
        default="",
        maxLength=1024,
    )
    allocated: Mapping[str, str] = described_amounts(
        "What the pods of the queue that have a node request, by resource."
    )
    share: Mapping[str, str] = described_amounts(
        "The queue's fair share of the cluster now, by resource. It depends on what the queues request."
    )
    borrowed: Mapping[str, str] = described_amounts("How much of what it has is above its guarantee, by resource.")
    lent: Mapping[str, str] = described_amounts("How much of its guarantee it does not use, by resource.")
    capacity: Mapping[str, str] = described_amounts(
        "Of a queue at the top: what all queues share. It is what ready, uncordoned nodes offer, less what pods "
        "outside of queues have."
    )
    pending: Mapping[str, str] = described_amounts(
        "What the pods of the queue that wait for a node request, by resource."
    )
    pending_pods: int = count("How many pods of the queue wait for a node.")
    usage: UsageStatus | None = declared(
        "What the queue has used over time. Written with other changes, or once in ten minutes.", default=None
    )
    first_waiting: FirstWaiting | None = declared(
        "The first pod that a bound of the queue, or of one above it, holds back.", default=None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueReport:
    """The inputs of a queue's status.

    `counts`: True if this object is the queue of its name. `problem`: of its newest generation, whose spec is `spec`,
    or "". `orphan`: True if the problem is a missing parent. `previous`: its present status. `now`: an RFC 3339 time.
    Shares are as in `Accounts.last_shared_out`.
    """

    queues: Queues
    name: str
    generation: int
    spec: object
    previous: Mapping[str, Any]
    now: str
    counts: bool = True
    problem: str = ""
    orphan: bool = False


def status_of(report: QueueReport) -> dict[str, Any]:
    """The status of a SchedulingQueue. If it equals the previous one, nothing has to be written."""
    queues = report.queues
    in_tree = report.counts and queues.get(report.name) is not None
    warned = warnings(queues, report.name) if in_tree else {}
    found = [
        accepted("queue", report.problem),
        active(report, in_tree=in_tree),
        *(UntimedCondition(kind, True, kind, str(warning)) for kind, warning in warned.items()),
    ]
    status = {
        **encode(amounts_in(queues, report.name) if in_tree else QueueStatus()),
        **checked_status(
            found,
            generation=report.generation,
            previous=report.previous,
            now=report.now,
            keeps=(report.problem, report.spec),
        ),
    }
    if report.counts and (usage := _usage(queues.records.get(report.name), report.previous)):
        status["usage"] = usage
    return {key: value for key, value in status.items() if value or key == "observedGeneration"}


def _usage(record: Record | None, previous: Mapping[str, Any]) -> object:
    """Returns the usage for the status: the previous one if that is not old."""
    before = usage_of(previous)
    if record is None or not record.at or (before is not None and record.at - before.at < USAGE_SECONDS):
        return previous.get("usage")
    users = [UserUsage(user, _decimals(record.users[user], USER_RESOURCES)) for user in record.largest_users()]
    found: dict[str, Any] = encode(
        UsageStatus(
            observed_at=rfc3339(record.at),
            average=_decimals(record.average),
            hours=_decimals(record.hours),
            since=rfc3339(record.since),
            users=tuple(each for each in users if each.hours),
        )
    )
    return found if found["users"] else {key: value for key, value in found.items() if key != "users"}


def _decimals(amounts: Mapping[str, float], most: int = MAX_RESOURCES) -> dict[str, str]:
    """Returns the amounts that show in four decimals, of at most `most` resources, extended ones first."""
    shown = [name for name, amount in amounts.items() if amount >= 0.00005 * unit_of(name)]
    chosen = sorted(shown, key=lambda name: ("/" not in name, -amounts[name]))[:most]
    return {name: f"{amounts[name] / unit_of(name):.4f}".rstrip("0").rstrip(".") for name in sorted(chosen)}


def usage_of(status: Any) -> Record | None:
    """Returns the usage in a status, which may contain anything; None without usage."""
    try:
        usage = status["usage"]
        average, hours = (_amounts(usage.get(key) or {}) for key in ("average", "hours"))
        at, since = parse_time(usage["observedAt"], ""), parse_time(usage.get("since") or usage["observedAt"], "")
        users = {str(each["user"]): _amounts(each["hours"]) for each in (usage.get("users") or ())[:MAX_USERS]}
    except (AttributeError, InvalidObjectError, KeyError, TypeError, ValueError):
        return None
    if at is None or since is None:
        return None
    return Record(at, since, average, hours, users, users_at=at)


def _amounts(texts: Any) -> dict[str, float]:
    """Raises ValueError for amounts that nothing can have, and AttributeError and TypeError."""
    found = {str(name): float(text) * unit_of(name) for name, text in texts.items()}
    if not all(0 <= amount < 1e30 for amount in found.values()):
        raise ValueError(found)
    return found


def active(report: QueueReport, *, in_tree: bool) -> UntimedCondition:
    """The condition Active."""
    shut = report.queues.shut_by(report.name)
    if not in_tree:
        return UntimedCondition(
            ACTIVE, False, "NotAccepted", "No generation of this queue was accepted: its pods wait."
        )
    if shut:
        return UntimedCondition(ACTIVE, False, "NotOpen", f"Pods of the queue wait: {shut}.")
    if report.problem:
        return UntimedCondition(ACTIVE, True, "LastGoodGeneration", "The last valid generation is in force.")
    return UntimedCondition(ACTIVE, True, "InForce", "Pods of the queue are scheduled.")


def amounts_in(queues: Queues, name: str) -> QueueStatus:
    """Returns the queue's amounts of at most MAX_RESOURCES resources."""
    rules, held, share = queues.get(name), held_by(queues, name), queues.last_share(name)
    assert rules is not None
    quotas = rules.quotas
    texts = partial(amount_texts, first=quotas)
    found = {r: quotas.get(r, NO_QUOTA).guarantee for r in {*quotas, *held}}
    guarantees = {r: most for r, most in found.items() if most != UNBOUNDED}
    first = first_bound(queues, name)
    return QueueStatus(
        summary="; ".join(
            f"{resource} {amount_text(resource, held.get(resource, 0))}{_of(quotas, share, resource)}"
            for resource in sorted(quotas or held)
        )[:1024],
        allocated=texts(held),
        share=texts(share),
        borrowed=texts({r: held.get(r, 0) - most for r, most in guarantees.items()}),
        lent=texts({r: most - held.get(r, 0) for r, most in guarantees.items()}),
        pending=texts(queues.waiting(name)),
        capacity={} if rules.parent else texts(queues.tree().top.share),
        pending_pods=waiting_below(queues, name),
        first_waiting=None if first is None else FirstWaiting(first[0].key, first[1].message[:1024]),
    )


def amount_texts(amounts: Mapping[str, int], first: Container[str] = (), least: int = 1) -> dict[str, str]:
    """Returns the amounts of `least` or more, of at most MAX_RESOURCES resources, the `first` ones first."""
    chosen = sorted(amounts, key=lambda resource: (resource not in first, resource))[:MAX_RESOURCES]
    return {resource: amount_text(resource, amounts[resource]) for resource in chosen if amounts[resource] >= least}


def _of(quotas: Mapping[str, Quota], share: Mapping[str, int], resource: str) -> str:
    """Returns the bound to compare usage with: the queue's limit, else its share if that is known; as text, or ""."""
    limit = quotas.get(resource, NO_QUOTA).limit
    most = share.get(resource) if limit == UNBOUNDED else limit
    return "" if most is None else f" of {amount_text(resource, most)}"
