"""The report of `podwright evaluate --pod`: a table of nodes, then which policy decides, what limits the answer, and
where the pod would go.

Names are never cut. If the columns do not fit the terminal, each node's scores are listed as text instead.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import click

from podwright.api.compile import BUILT_IN
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.wording import counted, first_of

Answer = Mapping[str, Any]

_GAP: Final = "  "
_DETAILS_WIDTH: Final = 40
"""Text beside a node's name gets at least as many columns, otherwise it goes below the name."""
_NAMES_SHOWN: Final = 5
_PROBLEMS_SHOWN: Final = 10
_NO_BREAK: Final = "\N{NO-BREAK SPACE}"
"""Between a plugin and its score."""


def report(answer: Answer, width: int | None, top: int | None) -> Iterator[str]:
    """Yields the lines. `width`: the columns of the terminal, None if lines may be of any length; `top`: see _Shown."""
    shown = _Shown.of(answer, top)
    if answer.get("nodes"):
        yield from _table(answer, shown, width)
        yield from shown.rest
        yield ""
    for sentence in (*_notes(answer), *_outcome(answer), *_devices(answer)):
        yield from _wrapped(sentence, width)


@dataclass(frozen=True, slots=True)
class _Shown:
    """The nodes in the table, best first: the `top` best feasible nodes, and the first `top` of the others; all if it
    is None.

    `rest`: lines that count the other nodes.
    """

    feasible: Sequence[str]
    rejected: Sequence[str]
    rest: Sequence[str]

    @staticmethod
    def of(answer: Answer, top: int | None) -> _Shown:
        nodes, totals = answer.get("nodes") or {}, answer.get("total") or {}
        feasible = sorted(
            (name for name in nodes if nodes[name]["feasible"]), key=lambda node: (-totals.get(node, 0), node)
        )
        rejected = sorted(name for name in nodes if not nodes[name]["feasible"])
        rest = []
        if top is not None and feasible[top:]:
            rest.append(f"and {counted(len(feasible) - top, 'more feasible node')}")
        if top is not None and rejected[top:]:
            reasons = Counter(_rejection(nodes[name]) for name in rejected[top:])
            rest.append(f"and {counted(len(rejected) - top, 'more infeasible node')}:")
            rest += [f"  {count:,} by {reason}" for reason, count in reasons.most_common()]
        return _Shown(feasible[:top], rejected[:top], rest)


# The table


def _table(answer: Answer, shown: _Shown, width: int | None) -> Iterator[str]:
    scores = answer.get("scores") or {}
    plugins = [plugin for plugin, by_node in scores.items() if len({*by_node.values()}) > 1]
    names = ["NODE", *shown.feasible, *shown.rejected]
    totals = ["TOTAL", *(str(answer["total"][name]) if "total" in answer else "" for name in shown.feasible)]
    rejections = [_rejection(answer["nodes"][name]) for name in shown.rejected]
    columns = [max(map(len, names)), max(map(len, totals)), *(max(len(plugin), 3) for plugin in plugins)]
    used = sum(columns) + len(_GAP) * len(columns)
    longest = max(map(len, rejections), default=0)
    if width is None or used + min(longest, _DETAILS_WIDTH) <= width:
        details = ["REJECTED BY", *("" for _ in shown.feasible), *rejections]
        cells = [plugins, *([str(scores[plugin][name]) for plugin in plugins] for name in shown.feasible)]
    else:
        texts = (
            ", ".join(f"{plugin}{_NO_BREAK}{scores[plugin][name]}" for plugin in plugins) for name in shown.feasible
        )
        details = ["SCORES, OR REJECTED BY", *texts, *rejections]
        cells, columns = [], columns[:2]
    if not rejections and cells:
        details[0] = ""
    best = set(answer.get("best") or ())
    for index, name in enumerate(names):
        row = [totals[index] if index < len(totals) else "", *(cells[index] if index < len(cells) else ())]
        lines = (line.replace(_NO_BREAK, " ") for line in _row(name, row, columns, details[index], width))
        color, header, rejected = "green" if name in best else None, index == 0, index > len(shown.feasible)
        yield from (click.style(line, fg=color, bold=header or None, dim=rejected or None) for line in lines)


def _row(name: str, cells: Sequence[str], columns: Sequence[int], details: str, width: int | None) -> Iterator[str]:
    """The lines of one row; `details` wraps beside the cells, or below them if there is too little room."""
    row = [*cells, *("" for _ in columns[1 + len(cells) :])]
    fixed = _GAP.join(
        [name.ljust(columns[0]), *(cell.rjust(size) for cell, size in zip(row, columns[1:], strict=True))]
    )
    if width is None or len(fixed) + len(_GAP) + len(details) <= width:
        yield f"{fixed}{_GAP}{details}".rstrip()
        return
    beside = width - len(fixed) - len(_GAP)
    if beside >= _DETAILS_WIDTH:
        first, *others = _wrapped(details, beside)
        yield f"{fixed}{_GAP}{first}"
        yield from (" " * (len(fixed) + len(_GAP)) + line for line in others)
    else:
        yield fixed.rstrip()
        yield from ("    " + line for line in _wrapped(details, width - 4))


def _rejection(verdict: Answer) -> str:
    return f"{verdict['plugin']}: {'; '.join(verdict['reasons'])}"


def _wrapped(text: str, width: int | None) -> Sequence[str]:
    """Lines of whole words: no name is broken."""
    if width is None:
        return [text]
    return textwrap.wrap(text, max(width, 20), break_long_words=False, break_on_hyphens=False) or [""]


# The sentences below it


def _notes(answer: Answer) -> Iterator[str]:
    for policy in answer.get("policiesNotAccepted") or ():
        yield f"Policy {policy['name']}, generation {policy['generation']}, is not accepted: {policy['message']}"
    for queue in answer.get("queuesNotAccepted") or ():
        yield f"Queue {queue['name']} is not accepted: {queue['message']}"
    problems = [*(answer.get("groupingsNotAccepted") or ()), *(answer.get("problems") or ())]
    yield from first_of((f"Problem: {problem}" for problem in problems), _PROBLEMS_SHOWN, "problem")
    missing = answer.get("missingKinds") or ()
    if missing:
        yield (
            f"These kinds matter to the answer but are missing from the dump: {', '.join(missing)}. If the cluster "
            "has any, dump them, too: "
            "`podwright evaluate --kinds` lists all kinds."
        )
    name, generation = answer["policy"]["name"], answer["policy"]["generation"]
    for problem in answer.get("missingParams") or ():
        yield f"Policy {name} takes params from a ConfigMap: {problem}. The params of the policy alone are used."
    if "schedulerNameNotServed" in answer:
        yield (
            f"No policy serves the pod's scheduler name {answer['schedulerNameNotServed']}, so Podwright would ignore "
            "the pod. "
            "This is the answer of the built-in policy."
        )
    elif "waitsForPolicy" in answer:
        yield (
            f"No generation of policy {answer['waitsForPolicy']['name']} was accepted, so the pod would wait. "
            "This is the answer of the built-in policy."
        )
    elif name == BUILT_IN:
        yield "No SchedulerPolicy in the dump takes the pod, so the built-in policy decides."
    else:
        yield f"Policy {name}, generation {generation}, takes the pod."
    if "podGroup" in answer:
        group, workload = answer["podGroup"], answer.get("workload", "")
        yield (
            f"The pod belongs to the PodGroup {group}{f' of {workload}' if workload not in ('', group) else ''}, whose pods are placed all together or not at all. "
            "This is the answer for this pod alone."
        )


def _outcome(answer: Answer) -> Iterator[str]:
    gated = answer.get("gated")
    if gated is not None:
        yield f"The pod is gated, and not scheduled: {gated['plugin']}: {'; '.join(gated['reasons'])}."
    held = gated is not None or "waitsForPolicy" in answer
    best = answer.get("best")
    if best is None:
        reason = answer.get("error") or answer["message"]
        yield f"Without that: {reason}" if held else str(reason)
        return
    would_go = "Without that, it would go to" if held else "The pod would go to"
    if answer.get("nominatedTaken"):
        yield f"{would_go} {best[0]}, its nominated node."
    elif len(best) == 1:
        yield f"{would_go} {best[0]}."
    elif len(best) <= _NAMES_SHOWN:
        yield f"{would_go} {_any_of(best)}, which have the same total."
    else:
        yield f"{would_go} one of {len(best):,} nodes with the same total, such as {_any_of(best[:_NAMES_SHOWN])}."


def _devices(answer: Answer) -> Iterator[str]:
    """The devices that the pod's claims would get."""
    allocation = answer.get("allocation")
    if allocation is None:
        return
    extended = allocation.get("extendedResourceClaim")
    given = [(f"claim {name}", raw) for name, raw in allocation["claims"].items()]
    given += [] if extended is None else [("the claim for its extended resources", extended["allocation"])]
    for claim, raw in given:
        found = ("/".join((each["driver"], each["pool"], each["device"])) for each in raw["devices"].get("results", ()))
        yield f"On {allocation['node']}, {claim} would get {', '.join(found) or 'no device'}."
    if allocation.get("waits"):
        yield f"The pod would wait until the binding conditions of its devices on {allocation['node']} are met."


def _any_of(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}"
