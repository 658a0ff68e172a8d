"""Compares answers with what is expected: kube-scheduler's own answers, in the conformance cases.

Where kube-scheduler's answer is random or depends on its iteration order, every answer that it could give is accepted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from podwright.simulator.evaluations.allocations import allocation_differences

Expectation = Mapping[str, Any]

_EQUAL_FIELDS = (
    "prefilterStatus",
    "skippedFilters",
    "nodes",
    "skippedScores",
    "scores",
    "total",
    "best",
    "nominatedTaken",
    "preEnqueue",
)


def differences(ours: Mapping[str, Any], case: Mapping[str, Any]) -> Iterator[str]:
    """Yields the differences between an answer and the expectation in its case, in words."""
    if case.get("steps") is None:
        yield from _differences(ours.get("expect") or {}, _expected(case.get("expect")))
        return
    for index, (mine, step) in enumerate(zip(ours.get("steps") or (), case["steps"], strict=False)):
        if "schedule" not in step:
            continue
        for difference in _differences(mine.get("expect") or {}, _expected(step.get("expect"))):
            yield f"step {index}: {difference}"
        if mine.get("placed") != step.get("placed"):
            yield f"step {index}: placed: {mine.get('placed')!r}, expected {step.get('placed')!r}"


def _expected(raw: object) -> Expectation:
    """An expectation that is not an object counts as empty, so that it differs from every answer."""
    return raw if isinstance(raw, Mapping) else {}


def _differences(ours: Expectation, theirs: Expectation) -> Iterator[str]:
    for key in _EQUAL_FIELDS:
        if ours.get(key) != theirs.get(key):
            yield _first_difference(key, ours.get(key), theirs.get(key))
    errors = theirs.get("errors") or [theirs.get("error")]
    if ours.get("error") not in errors:
        yield _first_difference("error", ours.get("error"), errors[0])
    if ours.get("allocation") != theirs.get("allocation"):
        yield from allocation_differences(ours.get("allocation") or {}, theirs.get("allocation") or {})
    messages = theirs.get("messages") or [theirs.get("message")]
    if ours.get("message") not in messages:
        yield _first_difference("message", ours.get("message"), messages[0])
    if ours.get("filterMessage") != theirs.get("filterMessage"):
        yield _first_difference("filterMessage", ours.get("filterMessage"), theirs.get("filterMessage"))
    if "preemption" in theirs:
        yield from _preemption(ours.get("preemption") or {}, theirs.get("preemption") or {})


def _preemption(ours: Expectation, theirs: Expectation) -> Iterator[str]:
    possible = theirs.get("acceptable") or [theirs.get("nominatedNode")]
    node = ours.get("nominatedNode")
    if node not in possible:
        yield _first_difference("preemption.nominatedNode", node, possible)
    if ours.get("acceptable") != theirs.get("acceptable") and not theirs.get("ambiguous"):
        yield _first_difference("preemption.acceptable", ours.get("acceptable"), theirs.get("acceptable"))
    mine, expected = ours.get("status") or {}, theirs.get("status") or {}
    compared = ("code", "plugin") if len(possible) > 1 or theirs.get("ambiguous") else ("code", "plugin", "reasons")
    for key in compared:
        if mine.get(key) != expected.get(key):
            yield _first_difference(f"preemption.status.{key}", mine.get(key), expected.get(key))
    yield from _candidates(ours.get("candidates") or {}, theirs.get("candidates") or {})
    if ours.get("notCandidates") != theirs.get("notCandidates"):
        yield _first_difference("preemption.notCandidates", ours.get("notCandidates"), theirs.get("notCandidates"))
    if node and not _victims_agree(ours.get("victims") or (), (theirs.get("candidates") or {}).get(node) or {}):
        yield _first_difference("preemption.victims", ours.get("victims"), theirs.get("victims"))


def _candidates(ours: Expectation, theirs: Expectation) -> Iterator[str]:
    if set(ours) != set(theirs):
        yield _first_difference("preemption.candidates", sorted(ours), sorted(theirs))
        return
    for node, expected in theirs.items():
        if not _victims_agree(ours[node]["victims"], expected) or (
            ours[node]["pdbViolations"] != expected["pdbViolations"] and not expected.get("alternatives")
        ):
            yield _first_difference(f"preemption.candidates.{node}", ours[node], expected)


def _victims_agree(ours: Sequence[str], expected: Expectation) -> bool:
    possible = [expected.get("victims") or (), *(expected.get("alternatives") or ())]
    return any(set(ours) == set(victims) for victims in possible)


def _first_difference(path: str, ours: Any, theirs: Any) -> str:
    """Describes the first place where two values differ."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        for key in sorted({*ours, *theirs}):
            if ours.get(key) != theirs.get(key):
                return _first_difference(f"{path}.{key}", ours.get(key), theirs.get(key))
    return f"{path}: {ours!r}, expected {theirs!r}"
