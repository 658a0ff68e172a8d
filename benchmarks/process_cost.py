"""Reads the CPU time and peak memory of a process and its descendants from /proc (Linux).

Also reads the CPU time of the whole machine, which shows whether other processes disturbed a run.
"""

import os
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU seconds so far, including descendants that have ended, and peak resident memory in MB."""

    cpu_s: float
    peak_mb: float


def cost(pid: int) -> Cost:
    """The cost of process `pid` and its living descendants. Zero if the process has ended."""
    costs = [_own_cost(member) for member in _process_tree(pid)]
    return Cost(sum(each.cpu_s for each in costs), sum(each.peak_mb for each in costs))


def machine_busy_s() -> float:
    """CPU seconds that all processes have used since the machine booted."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _idle, _waiting, *interrupts = map(int, fields[:8])
    return (user + nice + system + sum(interrupts)) / _TICKS_PER_S


def _process_tree(pid: int) -> list[int]:
    members = [pid]
    for member in members:  # the loop appends to the list
        try:
            for thread in Path(f"/proc/{member}/task").iterdir():
                members += map(int, (thread / "children").read_text().split())
        except OSError:
            continue
    return members


def _own_cost(pid: int) -> Cost:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return Cost(0.0, 0.0)
    ticks = sum(map(int, fields[11:15]))  # utime, stime, and the same of reaped children
    peak_kb = next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")), 0)
    return Cost(ticks / _TICKS_PER_S, peak_kb / 1024)
