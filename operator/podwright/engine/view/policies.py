"""The policies: which generation of each decides, what is wrong with it, and what it has decided.

Every viewer sees SchedulerPolicies. Only viewers who may see the pods of its namespace see a LocalSchedulerPolicy.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from podwright.api.compile import CompiledPolicy
from podwright.api.policy_result import ApplyResult
from podwright.core.objects.dataclass import dataclass
from podwright.engine.policies.active_policies import ActivePolicies
from podwright.engine.process.steps import Steps

MOST_POLICIES: Final = 200
LONGEST: Final = 300
"""Characters of a message in a row."""

Answer = dict[str, Any]


class PolicyRow(NamedTuple):
    """A policy in short. `namespace`: of a LocalSchedulerPolicy. `state`: Active, Shadow, Rejected (an earlier
    generation decides), Waits or Built in.

    `generation`: the one that decides about pods; None if none does.
    """

    namespace: str
    name: str
    state: str
    generation: int | None
    message: str
    precedence: int | None
    scheduler_name: str
    decisions: int
    errors: int


@dataclass(frozen=True, slots=True)
class PolicyRows:
    """The first MOST_POLICIES in the order in which they are shown. `count`: how many there are."""

    rows: tuple[PolicyRow, ...]
    count: int


def policy_rows(policies: ActivePolicies) -> Steps[PolicyRows]:
    """Reads the states of all policies."""
    known = policies.policy_set
    built_in = [_built_in(policies, compiled) for compiled in known.built_in]
    names = [*sorted(known.keys()), *sorted(known.local.keys())]
    rows = []
    for name in names[:MOST_POLICIES]:
        result = _result(policies, name)
        if result is not None:
            rows.append(_row(policies, name, result))
        yield
    rows.sort(key=lambda row: (-(row.precedence or 0), row.namespace, row.name))
    return PolicyRows((*rows, *built_in), len(names) + len(built_in))


def about_policy(policies: ActivePolicies, key: str, *, faults: bool) -> Answer:
    """Describes one policy; empty if unknown. `key`: its name, with its namespace before it if it is local. `faults`:
    includes what went wrong.
    """
    known = policies.policy_set
    built_in = next((each for each in known.built_in if each.name == key), None)
    result = _result(policies, key)
    if result is None and built_in is None:
        return {}
    row = _built_in(policies, built_in) if result is None and built_in is not None else None
    if row is None:
        assert result is not None
        row = _row(policies, key, result)
    accepted = known.local.last_accepted(key) if row.namespace else known.last_accepted(key)
    work = policies.work_of(key)
    found: Answer = {
        "name": row.name,
        "namespace": row.namespace,
        "state": row.state,
        "generation": row.generation,
        "newest": None if result is None else result.generation,
        "message": "" if result is None else result.message,
        "decisions": work.decisions,
        "errors": work.evaluation_errors,
        "spec": None if accepted is None else accepted.spec,
        "problems": [
            text for text in (work.switched_off, work.over_budget, work.missing_params, work.outdated_plugins) if text
        ],
        "interpreted": [*work.interpreted],
    }
    if faults:
        found["faults"] = [*work.faults, *((None, text) for text in (work.exceptions,) if text)]
    return found


def _result(policies: ActivePolicies, key: str) -> ApplyResult | None:
    known = policies.policy_set
    return known.local.result_of(key) if "/" in key else known.result_of(key)


def _row(policies: ActivePolicies, key: str, result: ApplyResult) -> PolicyRow:
    namespace, _, name = key.rpartition("/")
    compiled = _compiled(policies, key)
    work = policies.work_of(key)
    state = "Waits" if result.active_generation is None else "Rejected"
    if result.accepted:
        state = "Shadow" if compiled is not None and compiled.shadow else "Active"
    return PolicyRow(
        namespace,
        name,
        state,
        result.active_generation,
        "" if result.accepted else result.message[:LONGEST],
        None if compiled is None else compiled.spec.precedence,
        "" if compiled is None else compiled.spec.scheduler_name,
        work.decisions,
        work.evaluation_errors,
    )


def _compiled(policies: ActivePolicies, key: str) -> CompiledPolicy | None:
    known = policies.policy_set
    if "/" in key:
        return next(iter(known.local.compiled(key)), None)
    return known.decider(key)


def _built_in(policies: ActivePolicies, compiled: CompiledPolicy) -> PolicyRow:
    work = policies.work_of(compiled.name)
    return PolicyRow(
        "",
        compiled.name,
        "Built in",
        compiled.generation,
        "",
        None,
        compiled.spec.scheduler_name,
        work.decisions,
        work.evaluation_errors,
    )
