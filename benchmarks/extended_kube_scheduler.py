"""Measures the cost of extenders for kube-scheduler: the rate at which it places a backlog alone, with `podwright
extender`, and with one that decides nothing.

On a small machine the API server, etcd, kube-scheduler and the extender share the cores, so a rate says little without
the CPU time behind it, and without what `null_extender` leaves of it. A round runs each series once, in turn.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.backlog import Backlog, place_backlog
from benchmarks.http_client import connect
from benchmarks.workloads import MEASURED_PREFIX
from podwright.testing import ControlPlane, Process, pod
from podwright.testing.processes import free_port

ROOT: Final = Path(__file__).parents[1]
_NO_FILTER: Final = {"filterVerb": ""}


@dataclass(frozen=True, slots=True)
class Series:
    """One configuration of kube-scheduler.

    `asks`: the extender that it calls. `changed`: fields that differ from `_EXTENDER`. `beside`: the series in which
    the null extender gets the same calls.
    """

    title: str
    asks: str = ""
    changed: Mapping[str, Any] | None = None
    beside: str = ""


OURS, NULL = "podwright", "null"
_EXTENDER: Final = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 1, "nodeCacheCapable": True}
SERIES: Final[Mapping[str, Series]] = {
    "alone": Series("alone"),
    "podwright": Series("Podwright", OURS, {}, "null"),
    "podwright-prioritize": Series("Podwright, prioritize alone", OURS, _NO_FILTER, "null-prioritize"),
    "null": Series("null extender", NULL, {}),
    "null-prioritize": Series("null extender, prioritize alone", NULL, _NO_FILTER),
    "podwright-bind": Series("Podwright, with bind", OURS, {"bindVerb": "bind"}),
    "podwright-nodes-sent": Series("Podwright, nodes sent", OURS, {"nodeCacheCapable": False}),
}
BY_DEFAULT: Final = ("alone", "podwright", "podwright-prioritize", "null", "null-prioritize")


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Those of `compare`."""
    command.add_argument("--pods", type=int, default=1000, help="of one series in one round")
    command.add_argument("--rounds", type=int, default=1, help="how often each series runs, in turn")
    command.add_argument("--series", nargs="+", choices=tuple(SERIES), default=BY_DEFAULT)


def compare(cluster: ControlPlane, ours: tuple[int, str], *, chosen: Sequence[str], pods: int, rounds: int) -> str:
    """A table. `ours`: pid and URL of the extender; `chosen`: keys of SERIES."""
    null, url = _start_null(cluster)
    extenders = {OURS: ours, NULL: (null.pid, url)}
    found: dict[str, list[Backlog]] = {name: [] for name in chosen}
    try:
        for number in range(rounds):
            for name in chosen:
                series = SERIES[name]
                pid, url = extenders.get(series.asks, (0, ""))
                asked = [] if series.changed is None else [{"urlPrefix": url, **_EXTENDER, **series.changed}]
                others = {"extender": pid} if pid else {}
                found[name].append(asyncio.run(_place(cluster, pods, asked, others, f"{name}-{number}")))
    finally:
        null.stop()
    return table(found)


def _start_null(cluster: ControlPlane) -> tuple[Process, str]:
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.null_extender", str(port)]
    process = cluster.start_process("null-extender", command, {"PYTHONPATH": str(ROOT)})
    return process, f"http://127.0.0.1:{port}"


async def _place(
    cluster: ControlPlane, count: int, extenders: Sequence[Mapping[str, Any]], others: Mapping[str, int], name: str
) -> Backlog:
    waiting = [pod(f"{MEASURED_PREFIX}{name}-{index}") for index in range(count)]

    def start() -> Process:
        return cluster.start_scheduler({"extenders": list(extenders)}, name=name, wait=False)

    async with connect(cluster.kubeconfig) as api:
        backlog = await place_backlog(cluster, api, waiting, start, others)
    cluster.client.request("DELETE", "/api/v1/namespaces/default/pods", query={"gracePeriodSeconds": "0"})
    return backlog


_PROCESSES: Final = ("API server", "scheduler", "etcd", "extender")
_COLUMNS: Final = ("pods/s", "of alone", "of null", *_PROCESSES, "together", "machine", "others")


def table(found: Mapping[str, Sequence[Backlog]]) -> str:
    """Medians of each series over all rounds: the rate, and CPU milliseconds per pod. Then the rate of each round."""
    rates = {name: statistics.median(each.pods_per_s for each in backlogs) for name, backlogs in found.items()}
    lines = [f"{'':32}{''.join(f'{column:>11}' for column in _COLUMNS)}"]
    for name, backlogs in found.items():
        series = SERIES[name]
        spent = [
            statistics.median(each.cpu_ms_per_pod.get(process, 0.0) for each in backlogs) for process in _PROCESSES
        ]
        together = statistics.median(sum(each.cpu_ms_per_pod.values()) for each in backlogs)
        cells = (
            f"{rates[name]:.0f}",
            _share(rates[name], rates.get("alone")),
            _share(rates[name], rates.get(series.beside)),
            *(f"{each:.2f}" for each in (*spent, together)),
            f"{statistics.median(each.machine_used for each in backlogs):.0%}",
            f"{statistics.median(each.others for each in backlogs):.0%}",
        )
        lines.append(f"{series.title:32}{''.join(f'{cell:>11}' for cell in cells)}")
    lines.append("API server, scheduler, etcd, extender, together: CPU milliseconds per pod. machine: the share of all")
    lines.append("cores that was used; others: the part of it that other programs used. Rates of the rounds:")
    for name, backlogs in found.items():
        lines.append(f"{SERIES[name].title:32}{''.join(f'{each.pods_per_s:11.0f}' for each in backlogs)}")
    return "\n".join(lines)


def _share(rate: float, of: float | None) -> str:
    return f"{rate / of:.2f}" if of else ""
