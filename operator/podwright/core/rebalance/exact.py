"""Exact: the best moves for a goal, all at once, from a solver, where pods and nodes are few.

    the pods that may move come off their nodes ─► the program of where all of them are then (`moves_program`)
        ─► a solver ─► pods that are on other nodes than before move, and are proved as any others

As in every plan, a node that gives pods away takes none. Pods of one policy move.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from podwright.core.framework.errors import PluginError
from podwright.core.framework.program import Solver, TooLargeError
from podwright.core.rebalance.moves_program import MovesProgram
from podwright.core.state.cache import Cache

SECONDS: Final = 5.0
"""How long solvers may work for one plan."""
MOST_PODS: Final = 2_000
"""The most placed pods with which a cluster is searched exactly."""
NOT_SEARCHED: Final = "only the local search: "
NO_PROCESS: Final = NOT_SEARCHED + "there is no process for the solver"
TOO_LARGE: Final = NOT_SEARCHED + "the pods and the nodes are too many"
NO_TIME: Final = f"only the local search for a part: the solver has had its {SECONDS:g} s"
TOO_LATE: Final = "only the local search for a part: the plan had taken long by then"
BETTER: Final = "the exact search found better moves"
NOTHING_BETTER: Final = "the exact search found nothing better"
NOT_IN_TIME: Final = f"the exact search found nothing better in {SECONDS:g} s"


class ExactSearch:
    """Asks the solver, and remembers what came of it. `solve`: None: nothing is searched exactly."""

    def __init__(self, cache: Cache, solve: Solver | None) -> None:
        self._cache = cache
        self._solve = solve
        self._left = SECONDS
        self._found = ""
        self._notes: dict[str, None] = {}

    @property
    def outcome(self) -> str:
        """The outcomes of all searches, as text; "" if there was nothing to search for."""
        return "; ".join(self._notes)

    def may_begin(self, *, late: bool = False) -> bool:
        """False if nothing is searched. `late`: the plan has taken long already. Raises TookLongError where there may
        be a process for it.
        """
        if self._solve is None:
            return False
        self._found, why_not = "", ""
        if self._cache.pod_count > MOST_PODS:
            why_not = TOO_LARGE
        elif late:
            why_not = TOO_LATE
        elif self._left <= 0:
            why_not = NO_TIME
        else:
            self._cache.deadline.expect(2 * SECONDS)
            why_not = NO_PROCESS if self._cache.deadline.check is not None else ""
        if why_not:
            self._notes[why_not] = None
        return not why_not

    def search(self, make: Callable[[], MovesProgram]) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """The nodes of the pods that move in the best solution, and those of the members of a gang, by uid."""
        assert self._solve is not None, "see may_begin"
        try:
            made = make()
        except TooLargeError:
            self._solve = None  # the next program would have the same pods and nodes
            self._notes[TOO_LARGE] = None
            return {}, {}
        except (PluginError, ValueError) as error:
            self._notes[NOT_SEARCHED + str(error)] = None
            return {}, {}
        answer = self._solve(made.program(), self._left)
        self._left -= answer.seconds
        if answer.problem:
            self._solve = None  # which would cost as much again
            self._notes[NOT_SEARCHED + answer.problem] = None
            return {}, {}
        self._found = NOTHING_BETTER if answer.proved else NOT_IN_TIME
        return ({}, {}) if answer.found is None else (made.targets(answer.found), made.seats(answer.found))

    def judge(self, *, better: bool) -> None:
        """Notes the outcome of the last search. `better`: its moves beat those of the local search."""
        if found := BETTER if better else self._found:
            self._notes[found] = None
