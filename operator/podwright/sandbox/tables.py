"""Tables: the output of `kubectl get`, for built-in kinds and for the `additionalPrinterColumns` of CRDs."""

import re
import time
from calendar import timegm
from collections.abc import Callable, Iterable
from typing import Any

from podwright.sandbox.kinds import Kind, Obj
from podwright.sandbox.store import Revision

Cell = Callable[[Obj], Any]
Column = tuple[str, Cell, int]  # header, cell, priority (1: only with -o wide)
# Header=cell; * marks priority 1; a cell is a JSONPath, #path for a number, or @name of an entry in CELLS.
TABLE = """
- Name=@name Age=@age
pods Name=@name Ready=@pod_ready Status=@pod_status Restarts=@restarts Age=@age *IP=.status.podIP *Node=.spec.nodeName *Nominated_Node=.status.nominatedNodeName *Readiness_Gates=.none
nodes Name=@name Status=@node_status Roles=@roles Age=@age Version=.status.nodeInfo.kubeletVersion *OS-Image=.status.nodeInfo.osImage
events Last_Seen=@last_seen Type=.type Reason=.reason Object=@about Message=.message *Source=@source *Name=@name
namespaces Name=@name Status=.status.phase Age=@age
services Name=@name Type=.spec.type Cluster-IP=.spec.clusterIP Age=@age
deployments.apps Name=@name Ready=@ready Up-to-date=#.status.updatedReplicas Available=#.status.availableReplicas Age=@age
replicasets.apps Name=@name Desired=#.spec.replicas Current=#.status.replicas Ready=#.status.readyReplicas Age=@age
leases.coordination.k8s.io Name=@name Holder=.spec.holderIdentity Age=@age
priorityclasses.scheduling.k8s.io Name=@name Value=.value Global-Default=.globalDefault Age=@age
poddisruptionbudgets.policy Name=@name Min_Available=.spec.minAvailable Max_Unavailable=.spec.maxUnavailable Allowed_Disruptions=#.status.disruptionsAllowed Age=@age
"""
# (upper limit in seconds, unit, its seconds, smaller unit, its seconds)
UNITS = [(120, "s", 1, "", 0), (600, "m", 60, "s", 1), (10_800, "m", 60, "", 0)]
UNITS += [(28_800, "h", 3600, "m", 60), (172_800, "h", 3600, "", 0), (691_200, "d", 86_400, "h", 3600)]
STEPS = re.compile(r"\[\?\(@\.([\w.]+)\s*==\s*[\"']([^\"']*)[\"']\)\]|\[(\d+|\*)\]|\['([^']+)'\]|\.?([^.\[\]]+)")


def table(kind: Kind, entries: Iterable[Revision], metadata: Obj, include: str, *, headers: bool = True) -> Obj:
    """A Table of the entries. `include`: what each row contains besides its cells, one of Metadata, Object and None."""
    columns = _columns(kind)
    shown = [{"name": name, "type": "string", "format": "", "description": "", "priority": p} for name, _, p in columns]
    rows = []
    for entry in entries:
        row: Obj = {
            "cells": ["<none>" if (value := cell(entry.obj)) in (None, "") else value for _, cell, _ in columns]
        }
        if include == "Object":
            row["object"] = {"kind": kind.kind, "apiVersion": kind.api_version} | kind.outward(entry.obj)
        elif include != "None":
            partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
            row["object"] = partial | {"metadata": entry.obj["metadata"]}
        rows.append(row)
    head = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
    return head | {"columnDefinitions": shown if headers else None, "rows": rows}


def at(path: str) -> Cell:
    """A cell by JSONPath: `.spec.a`, `.items[0].b`, `.conditions[?(@.type=="Ready")].status`, `['dotted.key']`."""
    steps = STEPS.findall(path)

    def find(obj: Obj) -> Any:
        value: Any = obj
        for field, wanted, index, quoted, name in steps:
            items = value if isinstance(value, list) else []
            if field:
                value = next((item for item in items if str(item.get(field)) == wanted), None)
            elif index:
                value = next(iter(items[0 if index == "*" else int(index) :]), None)
            else:
                value = value.get(quoted or name) if isinstance(value, dict) else None
        return value

    return find


def age(path: str) -> Cell:
    find = at(path)

    def cell(obj: Obj) -> str:
        text = find(obj)
        return duration(time.time() - timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S"))) if text else "<unknown>"

    return cell


def duration(seconds: float) -> str:
    """An age in kubectl's format: 90s, 5m10s, 47m, 3h20m, 30h, 4d6h, 90d."""
    total = max(0, int(seconds))
    for limit, unit, size, rest, small in UNITS:
        if total < limit:
            left = total % size // small if small else 0
            return f"{total // size}{unit}" + (f"{left}{rest}" if left else "")
    return f"{total // 86400}d"


def _columns(kind: Kind) -> list[Column]:
    custom = (kind.crd or {}).get("additionalPrinterColumns")
    return [COLUMNS["-"][0], *map(_custom, custom)] if custom else COLUMNS.get(kind.stored, COLUMNS["-"])


def _custom(column: Obj) -> Column:
    find = age if column["type"] == "date" else at
    return column["name"], find(column["jsonPath"]), column.get("priority", 0)


def _containers(pod: Obj) -> list[Obj]:
    return (pod.get("status") or {}).get("containerStatuses") or []


def _pod_status(pod: Obj) -> Any:
    if "deletionTimestamp" in pod["metadata"]:
        return "Terminating"
    if at('.status.conditions[?(@.reason=="SchedulingGated")]')(pod):
        return "SchedulingGated"
    return at(".status.reason")(pod) or at(".status.phase")(pod)


def _node_status(node: Obj) -> str:
    ready = at('.status.conditions[?(@.type=="Ready")].status')(node)
    word = {"True": "Ready", "False": "NotReady"}.get(ready, "Unknown")
    return word + (",SchedulingDisabled" if at(".spec.unschedulable")(node) else "")


def _roles(node: Obj) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = node["metadata"].get("labels") or {}
    return ",".join(sorted(key.removeprefix(prefix) for key in labels if key.startswith(prefix)))


def _last_seen(event: Obj) -> Any:
    times = (".series.lastObservedTime", ".lastTimestamp", ".eventTime", ".metadata.creationTimestamp")
    return age(next(path for path in times if at(path)(event)))(event)


CELLS: dict[str, Cell] = {
    "name": at(".metadata.name"),
    "age": age(".metadata.creationTimestamp"),
    "pod_ready": lambda pod: f"{sum(bool(c.get('ready')) for c in _containers(pod))}/{len(pod['spec']['containers'])}",
    "pod_status": _pod_status,
    "restarts": lambda pod: str(sum(c.get("restartCount", 0) for c in _containers(pod))),
    "node_status": _node_status,
    "roles": _roles,
    "last_seen": _last_seen,
    "about": lambda event: "{kind}/{name}".format_map({"name": ""} | event["involvedObject"]).lower(),
    "source": lambda event: at(".source.component")(event) or event.get("reportingComponent"),
    "ready": lambda obj: f"{at('.status.readyReplicas')(obj) or 0}/{obj['spec']['replicas']}",
}


def _column(text: str) -> Column:
    header, _, cell = text.partition("=")
    find = CELLS[cell[1:]] if cell[0] == "@" else at(cell.lstrip("#"))
    shown = (lambda obj: str(find(obj) or 0)) if cell[0] == "#" else find
    return header.lstrip("*").replace("_", " "), shown, int(header[0] == "*")


COLUMNS = {line.split()[0]: [_column(text) for text in line.split()[1:]] for line in TABLE.strip().splitlines()}
