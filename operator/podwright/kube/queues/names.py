"""Chooses the object that is the queue of a name. If objects of several APIs have the name, the one of the first API in
`QUEUE_KINDS` counts, and the others stand by.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.queues.queues import QueueRules, Queues
from podwright.kube.queues.kinds import QUEUE_KINDS, SCHEDULING_QUEUES, QueueKind

log = logging.getLogger(__name__)

C = TypeVar("C", QueueRules, str)

_RANKS: Final = {kind: rank for rank, kind in enumerate(QUEUE_KINDS)}


class QueueNames:
    """See the module. `serves`: whether a scheduler name is served now."""

    def __init__(self, queues: Queues, serves: Callable[[str], bool]) -> None:
        self._queues = queues
        self._serves = serves
        self._served: set[QueueKind] = set()
        self._counting: tuple[QueueKind, ...] = ()
        self._claims: dict[str, dict[int, QueueRules | str]] = {}
        """By name and rank of the API: the valid objects, and the problems of those that never were valid."""
        self._holders: dict[str, QueueKind] = {}
        queues.as_written = self._as_written
        compact_regularly(self)

    def begin(self, kind: QueueKind) -> None:
        """The API server serves this API."""
        self._served.add(kind)
        self.refresh()
        if kind not in self._counting:
            log.info("%s count when a policy serves the scheduler name %s", kind.about, kind.scheduler_name)

    def end(self, kind: QueueKind) -> None:
        """It no longer does."""
        self._served.discard(kind)
        self.refresh()

    def refresh(self) -> None:
        """Other scheduler names may be served now."""
        counting = tuple(
            kind
            for kind in QUEUE_KINDS
            if kind in self._served and (not kind.scheduler_name or self._serves(kind.scheduler_name))
        )
        if counting != self._counting:
            self._counting = counting
            self._queues.name_by([key for kind in counting for key in kind.keys])
            for name in [*self._claims]:
                self._settle(name)

    def claim(self, kind: QueueKind, name: str, rules: QueueRules, last: QueueRules | None = None) -> None:
        """An object of this API is valid by itself, or has changed. `last`: see `Queues.remember`."""
        self._claims.setdefault(name, {})[_RANKS[kind]] = rules
        first = self._first(name, QueueRules)
        if last is not None and first is not None and first[0] is kind:
            self._queues.remember(last)
        self._settle(name)

    def refuse(self, kind: QueueKind, name: str, problem: str) -> None:
        """An object of this API is invalid. It stays as it last was valid, if that is known."""
        claims = self._claims.setdefault(name, {})
        if not isinstance(claims.get(_RANKS[kind]), QueueRules):
            claims[_RANKS[kind]] = problem
            self._settle(name)

    def release(self, kind: QueueKind, name: str) -> None:
        """The object was deleted. Ignores an unknown one."""
        claims = self._claims.get(name, {})
        claims.pop(_RANKS[kind], None)
        self._settle(name)
        if not claims:
            self._claims.pop(name, None)

    def claimed(self, kind: QueueKind, name: str) -> QueueRules | str | None:
        """Returns the rules in the object of this API and name as it last was valid, or its problem if it never was;
        None without such an object.
        """
        return self._claims.get(name, {}).get(_RANKS[kind])

    def counts(self, kind: QueueKind) -> bool:
        """True if objects of this API can be queues now."""
        return kind in self._counting

    def holder(self, name: str) -> QueueKind | None:
        """The API whose object is the queue of this name."""
        return self._holders.get(name)

    def standing_by(self, *names: str) -> Iterator[InvalidObjectError]:
        """Yields the problem of each valid object that is not the queue of its name. By default, of all names."""
        for name in names or self._claims:
            holder, claims = self._holders.get(name), self._claims.get(name, {})
            for kind in self._counting if holder is not None else ():
                claim = claims.get(_RANKS[kind])
                if holder not in (None, kind) and isinstance(claim, QueueRules) and claim is not kind.implied:
                    problem = InvalidObjectError("metadata.name", counts_instead(holder, kind))
                    yield problem.in_object(kind.resource.kind, name)

    def _as_written(self, problem: InvalidObjectError) -> InvalidObjectError:
        kind, name = self._holders.get(problem.name, SCHEDULING_QUEUES), problem.name
        return InvalidObjectError(kind.place(problem.where), problem.problem, kind=kind.resource.kind, name=name)

    def _settle(self, name: str) -> None:
        first, before = self._first(name, QueueRules), self._holders.get(name)
        if before is not None and (first is None or first[0] is not before):
            del self._holders[name]
            self._queues.remove(name)
        if first is not None:
            self._holders[name], rules = first
            self._queues.set(rules)
        refused = self._first(name, str) if first is None else None
        self._queues.refuse(name, "" if refused is None else refused[1])

    def _first(self, name: str, claim_of: type[C]) -> tuple[QueueKind, C] | None:
        """Returns the first API that counts and has such a claim to the name, with the claim."""
        claims = self._claims.get(name, {})
        found = ((kind, claims.get(_RANKS[kind])) for kind in self._counting)
        return next(((kind, claim) for kind, claim in found if isinstance(claim, claim_of)), None)


def counts_instead(holder: QueueKind, kind: QueueKind) -> str:
    """Says why an object of the second API is not the queue of its name."""
    other = holder.resource
    return f"a {other.kind} of {other.group} has this name, and counts instead of this {kind.resource.kind}"
