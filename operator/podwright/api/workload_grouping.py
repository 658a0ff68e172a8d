"""WorkloadGrouping v1alpha1: the pods of which workloads are pod groups, although no PodGroup is made for them.

Each field is declared once, in the dataclasses below: `parse_grouping` decodes and validates with them, and
podwright/api/crd.py derives the CustomResourceDefinition from them. core/groupings.py evaluates the expressions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from podwright.api.compiled_rules import issue_text
from podwright.api.own_objects import CheckedStatus, conditions, count, last_valid, read_object
from podwright.api.policy_status import ACTIVE, Condition, UntimedCondition
from podwright.api.scheduler_policy import LastAccepted, PolicyError
from podwright.api.spec.match import Selector
from podwright.api.spec.rules import MAX_EXPRESSION
from podwright.core.cel.errors import CelError
from podwright.core.framework.args import encode
from podwright.core.framework.validation import declared, whole_number
from podwright.core.groupings import Grouping, Kind
from podwright.core.objects.affinity import interned_selector
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.selectors import EVERYTHING

GROUPING_KIND: Final = "WorkloadGrouping"
GROUPING_PLURAL: Final = "workloadgroupings"
_VERSION: Final[Mapping[str, Any]] = {
    "minLength": 1,
    "maxLength": 253,
    "pattern": r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?v[a-z0-9]+$",
}
_KIND: Final[Mapping[str, Any]] = {"minLength": 1, "maxLength": 63, "pattern": r"^[A-Za-z][A-Za-z0-9]*$"}
_API_VERSION: Final = "Group and version, as in the references of pods to their owners: `batch/v1`."


@dataclass(frozen=True, slots=True)
class OwnerKind:
    api_version: str = declared(_API_VERSION, **_VERSION)
    kind: str = declared("The kind, for example `Job`.", **_KIND)

    @property
    def id(self) -> Kind:
        return self.api_version.rpartition("/")[0], self.kind


@dataclass(frozen=True, slots=True)
class SelectedOwner:
    api_version: str = declared(_API_VERSION, **_VERSION)
    kind: str = declared("The kind, for example `Job`.", **_KIND)
    selector: Selector | None = declared(
        "Selects owners by their labels. Not given, or empty: all of this kind.", default=None
    )


@dataclass(frozen=True, slots=True)
class PartOfGroup:
    key: str = declared(
        "A CEL expression of type string over owner, owners and pod. Pods of one group for which it has the same value "
        "are one part of it; with an empty value, a pod is in no part.",
        minLength=1,
        maxLength=MAX_EXPRESSION,
    )
    min_count: str = declared(
        "A CEL expression of type int over owner, owners and pod: how many pods of a part are placed together, or none "
        "of the part. It is evaluated for the first pod of each part.",
        minLength=1,
        maxLength=MAX_EXPRESSION,
    )


@dataclass(frozen=True, slots=True)
class GroupingSpec:
    owner: SelectedOwner = declared(
        "Which workloads. A pod belongs to its controller, to the controller of that, and so on upwards. If groupings "
        "select several of these owners, the highest decides."
    )
    through: tuple[OwnerKind, ...] = declared(
        "The kinds between these owners and their pods: Job and JobSet for a TrainJob.", default=(), maxItems=8
    )
    min_count: str = declared(
        "A CEL expression of type int over owner, owners and pod: how many pods of a group are placed together, or "
        "none. It is evaluated for the first pod of each group, and again when an owner changes. With 0 or 1, the pods "
        "are scheduled one by one, and without an expression as well.",
        default="",
        maxLength=MAX_EXPRESSION,
    )
    key: str = declared(
        "A CEL expression of type string over owner, owners and pod. Pods of one owner for which it has the same value "
        "are one group. Not given: all pods of an owner are one group.",
        default="",
        maxLength=MAX_EXPRESSION,
    )
    sub_group: PartOfGroup | None = declared(
        "Divides the pods of each group into parts, of which each has a minimum of its own.", default=None
    )
    on_failure: Literal["Wait", "Ignore"] = declared(
        "What becomes of pods whose owner is gone or cannot be read, or for which an expression fails. Wait: they "
        "wait. Ignore: they are scheduled one by one.",
        default="Wait",
    )
    precedence: int = whole_number(
        "If several groupings select one owner, the greatest wins, then the older.", -1_000_000, 1_000_000, default=0
    )

    def grouping(self, name: str, created: float) -> Grouping:
        """Returns the core's form of the object. `created`: seconds since the epoch. Raises PolicyError."""
        problems, compiled = [], {}
        from podwright.core.grouping_expressions import (  # noqa: PLC0415 -- CEL takes long
            compile_key,
            compile_min_count,
        )

        part = self.sub_group
        for where, text, compile_ in (
            ("key", self.key, compile_key),
            ("minCount", self.min_count, compile_min_count),
            ("subGroup.key", part.key if part else "", compile_key),
            ("subGroup.minCount", part.min_count if part else "", compile_min_count),
        ):
            try:
                compiled[where] = compile_(text) if text else None
            except CelError as error:
                problems += [(f"spec.{where}", issue_text(issue)) for issue in error.issues]
        if problems:
            raise PolicyError(name, "Invalid", problems)
        selector, owner = self.owner.selector, OwnerKind(self.owner.api_version, self.owner.kind)
        return Grouping(
            name=name,
            precedence=self.precedence,
            created=created,
            kind=owner.id,
            api_version=owner.api_version,
            read={each.id: each.api_version.rpartition("/")[2] for each in (*self.through, owner)},
            selector=EVERYTHING if selector is None else interned_selector(encode(selector), "spec.owner.selector"),
            key=compiled["key"],
            min_count=compiled["minCount"],
            texts=(self.key, self.min_count, *((part.key, part.min_count) if part else ())),
            part=compiled["subGroup.key"],
            part_count=compiled["subGroup.minCount"],
            waits=self.on_failure == "Wait",
        )


def parse_grouping(raw: Mapping[str, Any]) -> Grouping:
    """Decodes a WorkloadGrouping object. Raises InvalidObjectError naming the grouping and every field that is
    wrong.
    """
    return read_object(raw, GROUPING_KIND, GroupingSpec, lambda found: found.spec.grouping(found.name, found.created))


def grouping_in_force(raw: Mapping[str, Any]) -> tuple[Grouping | None, InvalidObjectError | None]:
    """The grouping, or if it is invalid, the one that last was valid and what is wrong with it."""
    try:
        return parse_grouping(raw), None
    except InvalidObjectError as error:
        return last_valid(raw, parse_grouping), error


@dataclass(frozen=True, slots=True)
class GroupingCondition(Condition):
    type: str = declared(
        "Accepted (the newest generation is valid) or Active (it makes groups of pods).", maxLength=316
    )
    reason: str = declared(
        "Accepted: Accepted, Invalid. Active: InForce, LastGoodGeneration, NoGroups, OwnersUnreadable, NotAccepted.",
        maxLength=1024,
    )


@dataclass(frozen=True, slots=True)
class GroupingStatus(CheckedStatus):
    conditions: tuple[GroupingCondition, ...] = conditions()
    last_accepted: LastAccepted | None = declared(
        "The generation that was accepted last. It stays in force while a newer one is invalid.", default=None
    )
    groups: int = count("How many groups it makes now.")


def active(grouping: Grouping | None, problem: str, unread: str) -> UntimedCondition:
    """Returns the condition Active. `grouping`: the generation in force, None before one is accepted. `problem`: why
    the newest one is invalid; `unread`: why kinds of owners cannot be read; "" without a problem.
    """
    if grouping is None:
        return UntimedCondition(ACTIVE, False, "NotAccepted", "No generation of this grouping was accepted.")
    if grouping.min_count is None:
        return UntimedCondition(ACTIVE, True, "NoGroups", "It keeps the pods of these owners out of groups.")
    if unread:
        then = "their pods wait" if grouping.waits else "their pods are scheduled one by one"
        return UntimedCondition(ACTIVE, False, "OwnersUnreadable", f"{unread}: {then}.")
    if problem:
        return UntimedCondition(ACTIVE, True, "LastGoodGeneration", "The last valid generation is in force.")
    return UntimedCondition(ACTIVE, True, "InForce", "It makes groups of the pods of these owners.")
