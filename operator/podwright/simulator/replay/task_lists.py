"""Lists of nodes and tasks as CSV, in the form of published traces of GPU clusters.

Nodes: `sn,cpu_milli,memory_mib,gpu,model`. Tasks:
`name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time, scheduled_time`. A
share of a GPU, `gpu_milli` below 1000, is rounded up to a whole one unless shares are asked for. `gpu_spec` names the
allowed models, joined by `|`. The nodes' columns `gpu` and `model` may be missing. So may all of the tasks' columns but
the name, CPU, memory and `creation_time`.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any, Final

from podwright.api.scheduler_policy import PODWRIGHT_SCHEDULER_NAME
from podwright.core.objects.node import HOSTNAME
from podwright.core.objects.pod import PodInfo, parse_pod
from podwright.core.objects.raw import Raw
from podwright.core.objects.resources import resource_list
from podwright.simulator.replay.stream import Arrival, ReplayStream, StreamError, lines_of, sorted_events

Row = Mapping[str, str]

GPU: Final = "nvidia.com/gpu"
GPU_SHARE: Final = "nvidia.com/gpu-milli"
"""The resource of which a GPU has UNITS_PER_GPU, where tasks get shares."""
UNITS_PER_GPU: Final = 1000
MODEL: Final = "nvidia.com/gpu.product"
"""The label with a node's model of GPU."""
QOS: Final = "qos"
"""The label of pods with the task's class of service."""
PODS_PER_NODE: Final = 1024
_NODE_COLUMNS: Final = ("sn", "cpu_milli", "memory_mib")
_TASK_COLUMNS: Final = ("name", "cpu_milli", "memory_mib", "creation_time")
_LARGEST: Final = 1e15
_SHOWN: Final = 40
"""Characters of a wrong value that an error shows."""


def read_nodes(path: str, *, shares: bool = False) -> list[Raw]:
    """The nodes of a list. `shares`: they offer shares of GPUs. Raises StreamError naming file and line."""
    nodes: dict[str, Raw] = {}
    for row in _rows(path, _NODE_COLUMNS):
        name = row.text("sn")
        if name in nodes:
            row.fail("sn", f"{name[:_SHOWN]!r} is given twice")
        labels = {HOSTNAME: name}
        amounts = {
            "cpu": f"{row.whole('cpu_milli')}m",
            "memory": f"{row.whole('memory_mib')}Mi",
            "pods": str(PODS_PER_NODE),
        }
        if gpus := row.whole("gpu", 0):
            amounts |= {GPU_SHARE: str(gpus * UNITS_PER_GPU)} if shares else {GPU: str(gpus)}
            if model := row.text("model", ""):
                labels[MODEL] = model
        nodes[name] = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "uid": name, "labels": labels},
            "status": {"allocatable": amounts, "capacity": amounts},
        }
    return [*nodes.values()]


def read_tasks(path: str, *, shares: bool = False) -> list[Arrival]:
    """The tasks of a list, in its order. `shares`: they request shares of GPUs. Raises StreamError naming file and
    line.

    A task runs from its scheduled time to its deletion time, or from its creation if it was never scheduled. Such a
    task gives up when it was deleted.
    """
    names: set[str] = set()
    arrivals = []
    for row in _rows(path, _TASK_COLUMNS):
        name = row.text("name")
        if name in names:
            row.fail("name", f"{name[:_SHOWN]!r} is given twice")
        names.add(name)
        created = row.number("creation_time")
        deleted = row.number("deletion_time", None)
        scheduled = row.number("scheduled_time", None)
        started = created if scheduled is None else scheduled
        if deleted is not None and deleted < started:
            row.fail("deletion_time", f"{deleted:g} is before the task started, {started:g}")
        arrivals.append(
            Arrival(
                created,
                _pod(row, name, shares=shares),
                runs_for=None if deleted is None else deleted - started,
                gives_up_at=deleted if scheduled is None and "scheduled_time" in row.columns else None,
            )
        )
    return arrivals


def stream_of(nodes: Sequence[Raw], arrivals: Sequence[Arrival]) -> ReplayStream:
    """The tasks come at their times, to empty nodes."""
    events = sorted_events(arrivals)
    start = events[0].time if events else 0.0
    ends = (each.time + (each.runs_for or 0.0) for each in arrivals)
    return ReplayStream(initial=nodes, events=events, start=start, end=max(ends, default=start))


def filling_stream(
    nodes: Sequence[Raw], arrivals: Sequence[Arrival], share: float, seed: int, resource: str
) -> ReplayStream:
    """One task comes each second: first all tasks in an order that `seed` shuffles, then further ones drawn from the
    list. A task that gets no node at once has failed, and no task leaves. The stream ends before the requests for the
    resource would exceed this share of the nodes' offer. Source of the method: Weng et al., "Beware of Fragmentation",
    USENIX ATC '23. Raises StreamError if no task requests the resource.
    """
    chance = Random(seed)
    offered = sum(_offered(node, resource) for node in nodes)
    order = [*arrivals]
    chance.shuffle(order)
    amounts = [each.pod.requests.amounts.get(resource, 0) for each in order]
    if not any(amounts):
        raise StreamError(f"no task requests {resource}")
    events: list[Arrival] = []
    asked = 0
    while True:
        drawn = len(events) if len(events) < len(order) else chance.randrange(len(order))
        asked += amounts[drawn]
        if asked > share * offered:
            break
        pod = order[drawn].pod
        number = len(events)
        pod = pod if number < len(order) else _again(pod, number)
        events.append(Arrival(float(number), pod, gives_up_at=number + 0.5))
    return ReplayStream(initial=nodes, events=events, start=0.0, end=float(len(events)))


def _again(pod: PodInfo, number: int) -> PodInfo:
    name = f"{pod.name}-again-{number}"
    return replace(pod, name=name, uid=name, key=f"{pod.namespace}/{name}")


def _offered(node: Raw, resource: str) -> int:
    return resource_list(node["status"]["allocatable"], "status.allocatable").get(resource, 0)


def _pod(row: _Row, name: str, *, shares: bool) -> PodInfo:
    requests = {"cpu": f"{row.whole('cpu_milli')}m", "memory": f"{row.whole('memory_mib')}Mi"}
    gpus, share = row.whole("num_gpu", 0), row.whole("gpu_milli", UNITS_PER_GPU)
    spec: dict[str, Any] = {"schedulerName": PODWRIGHT_SCHEDULER_NAME}
    if gpus and share:
        requests |= {GPU_SHARE: str(gpus * share)} if shares else {GPU: str(gpus)}
    models = [model for model in row.text("gpu_spec", "").split("|") if model]
    if models and gpus and share:
        expression = {"key": MODEL, "operator": "In", "values": sorted(models)}
        required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    spec["containers"] = [{"name": "task", "resources": {"requests": requests}}]
    qos = row.text("qos", "")
    labels = {QOS: qos} if qos else {}
    return parse_pod({"metadata": {"name": name, "uid": name, "labels": labels}, "spec": spec}, keep_raw=True)


class _Row:
    """One row, whose errors name the file, the line and the column."""

    def __init__(self, path: str, number: int, columns: Row) -> None:
        self.columns = columns
        self._where = f"{path}:{number}"

    def fail(self, column: str, problem: str) -> None:
        raise StreamError(f"{self._where}: {column}: {problem}")

    def text(self, column: str, otherwise: str | None = None) -> str:
        value = (self.columns.get(column) or "").strip()
        if not value and otherwise is None:
            self.fail(column, "is empty")
        return value or otherwise or ""

    def number(self, column: str, otherwise: float | None = math.nan) -> Any:
        """A number; `otherwise` where the column is empty or missing, and an error without one."""
        value = (self.columns.get(column) or "").strip()
        if not value:
            if otherwise is not None and math.isnan(otherwise):
                self.fail(column, "is empty")
            return otherwise
        try:
            found = float(value)
        except ValueError:
            found = math.nan
        if not 0 <= found <= _LARGEST:
            self.fail(column, f"{value[:_SHOWN]!r} is not a number from 0 to {_LARGEST:g}")
        return found

    def whole(self, column: str, otherwise: int | None = None) -> int:
        """A whole number, rounded up."""
        found: float = self.number(column, math.nan if otherwise is None else float(otherwise))
        return math.ceil(found)


def _rows(path: str, required: Sequence[str]) -> Iterator[_Row]:
    """The rows of a CSV file with a header. Raises StreamError."""
    lines = lines_of(path)
    try:
        reader = csv.reader((line.decode() for _, line in lines), strict=True)
        header = [name.strip().lstrip("\ufeff") for name in next(reader, [])]
        missing = [name for name in required if name not in header]
        if missing:
            some = f"column {missing[0]} is" if len(missing) == 1 else f"columns {', '.join(missing)} are"
            raise StreamError(f"{path}:1: the {some} missing")
        if twice := [name for name in header if header.count(name) > 1]:
            raise StreamError(f"{path}:1: the column {twice[0][:_SHOWN]} is given twice")
        for values in reader:
            if not values:
                continue
            if len(values) != len(header):
                raise StreamError(f"{path}:{reader.line_num}: has {len(values)} columns, and the header {len(header)}")
            yield _Row(path, reader.line_num, dict(zip(header, values, strict=True)))
    except (csv.Error, UnicodeDecodeError) as error:
        raise StreamError(f"{path}:{reader.line_num + 1}: is not CSV: {error}") from error
