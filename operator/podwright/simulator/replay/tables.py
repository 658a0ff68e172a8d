"""Scorecards side by side: one row for each figure, one column for each policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from podwright.core.objects.wording import readable
from podwright.core.queues.flavors import parts_of
from podwright.simulator.replay.plots import duration
from podwright.simulator.replay.scorecard import Scorecard

_ROWS: Final[Sequence[tuple[str, Callable[[Scorecard], str]]]] = (
    ("pods placed", lambda card: f"{card.placed:,} of {card.arrived:,}"),
    ("never placed", lambda card: f"{card.never_placed:,}"),
    ("preemptions", lambda card: f"{card.preemptions:,}"),
    ("waiting time, mean", lambda card: duration(card.waiting.mean)),
    ("waiting time, median", lambda card: duration(card.waiting.median)),
    ("waiting time, 99th percentile", lambda card: duration(card.waiting.p99)),
    ("waiting time, longest", lambda card: duration(card.waiting.longest)),
    ("waited more than a minute", lambda card: f"{card.waiting.long:,}"),
    ("fragmentation", lambda card: f"{card.fragmentation:.1%}"),
    ("spread", lambda card: f"{card.spread:.1%}"),
    ("nodes in use, mean", lambda card: f"{card.nodes_in_use:,.1f} of {card.nodes:,.0f}"),
    ("nodes in use, most", lambda card: f"{card.most_nodes_in_use:,}"),
    ("nodes that could be off, mean", lambda card: f"{card.nodes_off:,.1f}"),
    ("cost of nodes in use", lambda card: f"{card.cost:,.0f}"),
    ("cost of all nodes", lambda card: f"{card.cost_of_all:,.0f}"),
)
_SHARES: Final[Sequence[tuple[str, Callable[[Scorecard], Mapping[str, float]]]]] = (
    ("allocation", lambda card: card.allocation),
    ("peak allocation", lambda card: card.peak_allocation),
    ("utilisation", lambda card: card.utilisation),
)
"""Figures of each resource."""
_MOVED: Final[Sequence[tuple[str, Callable[[Scorecard], int]]]] = (
    ("pods moved by rebalancing", lambda card: sum(each.moves for each in card.rebalancing)),
    ("gain of rebalancing", lambda card: sum(each.gain for each in card.rebalancing)),
)


def rows(cards: Sequence[Scorecard]) -> list[list[str]]:
    """The table, with its header."""
    header = ["", *(card.policy for card in cards)]
    table = [[name, *(value(card) for card in cards)] for name, value in _ROWS]
    shares: list[list[str]] = []
    for resource in cards[0].allocation:
        for name, of in _SHARES:
            shares.append([f"{name} of {resource}", *(f"{of(card)[resource]:.1%}" for card in cards)])
    moved = [[name, *(f"{value(card):,}" for card in cards)] for name, value in _MOVED]
    return [header, *table[:8], *shares, *table[8:], *(moved if any(card.rebalancing for card in cards) else ())]


def queue_rows(cards: Sequence[Scorecard]) -> list[list[str]]:
    """Returns each queue's figures under each policy, with a header; empty without queues."""
    names = dict.fromkeys(figures.queue for card in cards for figures in card.queues)
    found = [
        [
            "queue",
            "policy",
            "pods placed",
            "evicted",
            "wait, mean",
            "wait, 99th percentile",
            "has",
            "share",
            "below share",
        ]
    ]
    for name in sorted(names):
        for card in cards:
            for each in card.queues:
                if each.queue == name:
                    has, share = (
                        readable(parts_of(each.resource)[0], round(amount)) for amount in (each.allocated, each.share)
                    )
                    placed, waiting = f"{each.placed:,} of {each.arrived:,}", each.waiting
                    times = duration(waiting.mean), duration(waiting.p99)
                    of = f" {each.resource}"
                    found.append(
                        [
                            name,
                            card.policy,
                            placed,
                            f"{each.preempted:,}",
                            *times,
                            has + of,
                            share + of,
                            f"{each.below_share:.1%}",
                        ]
                    )
    return found if names else []


def markdown(cards: Sequence[Scorecard]) -> str:
    """The table for a document."""
    tables = [_markdown(rows(cards))]
    if cards and (of_queues := queue_rows(cards)):
        tables.append(_markdown(of_queues))
    return "\n".join(tables)


def _markdown(table: list[list[str]]) -> str:
    header, *body = table
    lines = ["| " + " | ".join(header) + " |", "| --- |" + " ---: |" * (len(header) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in body), ""])
