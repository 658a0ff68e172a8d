"""Which of the declared queues make a valid tree, and what is wrong with the others."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Final, TypeVar

from podwright.core.objects.errors import InvalidObjectError
from podwright.core.queues.amounts import amount_text
from podwright.core.queues.flavors import Labels, field_of, labels_text
from podwright.core.queues.rules import QueueRules
from podwright.core.queues.shares import UNBOUNDED
from podwright.core.queues.tree import NO_QUOTA, Queue, QueueSpec, QueueTree

MAX_DEPTH: Final = 100
"""The most levels of queues."""

S = TypeVar("S", bound=QueueSpec)


def valid_specs(
    declared: Mapping[str, S], last: Mapping[str, S], refused: Container[str] = ()
) -> tuple[dict[str, S], dict[str, InvalidObjectError]]:
    """The specs of the tree by name, and by name what is wrong with a declared queue that is not in the tree as
    declared.

    A queue that is not below the top (its parent is missing, or below the queue itself), or too deep, stays as it was
    in `last`, the specs of the tree before. If it was not there, or that does not help, it is left out. A queue that
    was deleted stays as long as queues of the tree are below it. `refused`: the queues that were never valid.
    """
    problems: dict[str, InvalidObjectError] = {}
    wanted = dict(declared)
    reached = _below_top(wanted)
    for name in wanted.keys() - reached:
        problems[name] = _problem(declared, refused, name)
        if name in last:
            wanted[name] = last[name]
        else:
            del wanted[name]
    if problems:
        _keep_parents(wanted, last)
        reached = _below_top(wanted)
    return {name: spec for name, spec in wanted.items() if name in reached}, problems


def _below_top(specs: Mapping[str, QueueSpec]) -> set[str]:
    children: dict[str, list[str]] = {}
    for name, spec in specs.items():
        children.setdefault(spec.parent, []).append(name)
    reached: set[str] = set()
    level = [""]
    for _ in range(MAX_DEPTH):
        level = [child for name in level for child in children.get(name, ())]
        reached.update(level)
    return reached


def _problem(specs: Mapping[str, QueueSpec], refused: Container[str], name: str) -> InvalidObjectError:
    parent = specs[name].parent
    above = parent
    seen: set[str] = set()
    while above in specs and above not in seen and len(seen) < MAX_DEPTH:
        seen.add(above)
        above = specs[above].parent
    lacks = "is not valid" if above in refused else "does not exist"
    if parent not in specs:
        text = f"queue {parent!r} {lacks}"
    elif name in seen:
        text = f"queue {parent!r} is below this queue"
    elif above in seen:
        text = f"queue {parent!r} is below a cycle of parents"
    elif above and above not in specs:
        text = f"queue {above!r}, above queue {parent!r}, {lacks}"
    else:
        text = f"there are more than {MAX_DEPTH} levels of queues"
    return InvalidObjectError("spec.parent", text, kind="SchedulingQueue", name=name)


def _keep_parents(wanted: dict[str, S], last: Mapping[str, S]) -> None:
    """Adds the deleted parents of the queues that stay as they were."""
    for spec in [*wanted.values()]:
        parent = spec.parent
        while parent and parent not in wanted and parent in last:
            wanted[parent] = last[parent]
            parent = last[parent].parent


def overcommitted(queue: Queue) -> InvalidObjectError | None:
    """Returns the problem of a queue whose children's guarantees add up to more than its own. They are then met in
    proportion.
    """
    for resource, quota in queue.spec.quotas.items():
        amount = queue.guaranteed.get(resource, 0)
        if 0 < quota.guarantee < amount:
            where = f"{field_of(resource)}.guarantee"
            below, own = amount_text(resource, amount), amount_text(resource, quota.guarantee)
            text = f"the queues right below are guaranteed {below}, more than the {own} of this queue"
            return InvalidObjectError(where, text, kind="SchedulingQueue", name=queue.spec.name)
    return None


def uncovered(queue: Queue) -> InvalidObjectError | None:
    """Why the queues right below a queue may lack what they are guaranteed, although they do not contradict its own
    guarantee: its limit is less, or it has no guarantee and others may get its share.
    """
    for resource, amount in sorted(queue.guaranteed.items()):
        quota = queue.spec.quotas.get(resource, NO_QUOTA)
        if quota.guarantee > 0 or _is_sure(queue, resource, amount):
            continue
        below = amount_text(resource, amount)
        if UNBOUNDED != quota.limit < amount:
            field, more = "limit", f"this limit of {amount_text(resource, quota.limit)}"
        else:
            field, more = "guarantee", f"the {amount_text(resource, 0)} of this queue, so they may get less"
        text = f"the queues right below are guaranteed {below}, more than {more}"
        where = f"{field_of(resource)}.{field}"
        return InvalidObjectError(where, text, kind="SchedulingQueue", name=queue.spec.name)
    return None


def _is_sure(queue: Queue, resource: str, amount: int) -> bool:
    """True if the queue gets this amount if it is there, whatever others request."""
    for above in queue.path:
        quota = above.spec.quotas.get(resource, NO_QUOTA)
        if UNBOUNDED != quota.limit < amount:
            return False
        if quota.guarantee:
            return quota.guarantee == UNBOUNDED or quota.guarantee >= amount
        assert above.parent is not None, "the top has no parent"
        if quota.weight <= 0 or any(_gets_before(each, above, resource) for each in above.parent.children):
            return False
    return True


def _gets_before(other: Queue, queue: Queue, resource: str) -> bool:
    """True if the other queue of the same parent may get something before this one, which has no guarantee, or beside
    it.
    """
    quota = other.spec.quotas.get(resource, NO_QUOTA)
    first = quota.guarantee or (quota.weight > 0 and other.spec.priority >= queue.spec.priority)
    return other is not queue and quota.limit != 0 and bool(first)


def flavors_of(tree: QueueTree, specs: Mapping[str, QueueRules]) -> dict[str, tuple[str, Labels]]:
    """By flavor: the queue that says which nodes have it, and their labels. Of several, it is the one nearest to the
    top, then the first by name.
    """
    found: dict[str, tuple[str, Labels]] = {}
    level = tree.top.children if any(rules.flavors for rules in specs.values()) else []
    while level:
        for name in sorted(queue.spec.name for queue in level):
            for flavor, labels in specs[name].flavors.items():
                if labels:
                    found.setdefault(flavor, (name, labels))
        level = [child for queue in level for child in queue.children]
    return found


def flavor_problem(rules: QueueRules, flavors: Mapping[str, tuple[str, Labels]]) -> InvalidObjectError | None:
    """Returns the problem of a queue that names a flavor whose nodes no queue defines, or that another queue, which
    counts, defines differently.
    """
    for flavor, labels in rules.flavors.items():
        queue, known = flavors.get(flavor, ("", {}))
        if not known:
            text = "a value is required: no other queue says which nodes have this flavor"
        elif labels and labels != known:
            text = f"queue {queue} says that nodes of this flavor have the labels {labels_text(known)}, which counts"
        else:
            continue
        where = f"spec.flavors[{flavor}].nodeSelector"
        return InvalidObjectError(where, text, kind="SchedulingQueue", name=rules.name)
    return None
