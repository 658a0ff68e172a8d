"""Tables: what `kubectl get` shows, for built-in kinds and by a CRD's `additionalPrinterColumns`."""

import re
import time
from calendar import timegm
from collections.abc import Callable, Iterable
from typing import Any

from podwright.sandbox.kinds import Kind, Obj
from podwright.sandbox.store import Entry

Column = tuple[str, Callable[[Obj], Any], int]  # header, cell, priority (1: only with -o wide)


def table(kind: Kind, entries: Iterable[Entry], metadata: Obj, include: str, *, headers: bool = True) -> Obj:
    """`include` is what rows carry besides cells: Metadata, Object or None."""
    columns = _columns(kind)
    shown = [{"name": name, "type": "string", "format": "", "description": "", "priority": p} for name, _, p in columns]
    if shown:
        shown[0]["format"] = "name"
    rows = []
    for entry in entries:
        row: Obj = {"cells": [_cell(cell, entry.obj) for _, cell, _ in columns]}
        if include == "Object":
            row["object"] = {"kind": kind.kind, "apiVersion": kind.api_version} | kind.outward(entry.obj)
        elif include != "None":
            partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
            row["object"] = partial | {"metadata": entry.obj["metadata"]}
        rows.append(row)
    head = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
    return head | {"columnDefinitions": shown if headers else None, "rows": rows}


def _cell(cell: Callable[[Obj], Any], obj: Obj) -> Any:
    value = cell(obj)
    return "<none>" if value is None or value == "" else value


def at(path: str) -> Callable[[Obj], Any]:
    """A cell by JSONPath: `.spec.a`, `.items[0].b`, `.conditions[?(@.type=="Ready")].status`, `['dotted.key']`."""
    steps = re.findall(
        r"\[\?\(@\.([\w.]+)\s*==\s*[\"']([^\"']*)[\"']\)\]|\[(\d+|\*)\]|\['([^']+)'\]|\.?([^.\[\]]+)", path
    )

    def find(obj: Obj) -> Any:
        value: Any = obj
        for field, wanted, index, quoted, name in steps:
            if field:
                items = value if isinstance(value, list) else []
                value = next((item for item in items if str(item.get(field)) == wanted), None)
            elif index:
                number = 0 if index == "*" else int(index)
                value = value[number] if isinstance(value, list) and number < len(value) else None
            else:
                value = value.get((quoted or name).replace("\\", "")) if isinstance(value, dict) else None
        return value

    return find


def age(path: str) -> Callable[[Obj], str]:
    find = at(path)

    def cell(obj: Obj) -> str:
        text = find(obj)
        return duration(time.time() - timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S"))) if text else "<unknown>"

    return cell


def duration(seconds: float) -> str:
    """As kubectl writes ages: 90s, 5m10s, 47m, 3h20m, 30h, 4d6h, 90d."""
    total = max(0, int(seconds))
    minutes, hours, days = total // 60, total // 3600, total // 86400
    for limit, text, rest in (
        (120, f"{total}s", ""),
        (600, f"{minutes}m", f"{total % 60}s"),
        (10_800, f"{minutes}m", ""),
        (28_800, f"{hours}h", f"{minutes % 60}m"),
        (172_800, f"{hours}h", ""),
        (691_200, f"{days}d", f"{hours % 24}h"),
    ):
        if total < limit:
            return text if rest.startswith("0") else text + rest
    return f"{days}d"


def _columns(kind: Kind) -> list[Column]:
    name: Column = ("Name", at(".metadata.name"), 0)
    created: Column = ("Age", age(".metadata.creationTimestamp"), 0)
    if kind.crd is not None:
        custom = kind.crd.get("additionalPrinterColumns")
        if not custom:
            return [name, created]
        return [name, *(_custom(column) for column in custom)]
    columns = COLUMNS.get(kind.stored, ())
    if kind.stored == "events":
        return list(columns)
    return [name, *(c for c in columns if c[2] == 0), created, *(c for c in columns if c[2])]


def _custom(column: Obj) -> Column:
    path = column["jsonPath"]
    return column["name"], age(path) if column["type"] == "date" else at(path), column.get("priority", 0)


def _pod_status(pod: Obj) -> str:
    if "deletionTimestamp" in pod["metadata"]:
        return "Terminating"
    status = pod.get("status") or {}
    if any(c.get("reason") == "SchedulingGated" for c in status.get("conditions") or ()):
        return "SchedulingGated"
    for container in status.get("containerStatuses") or ():
        state = container.get("state") or {}
        if reason := (state.get("waiting") or state.get("terminated") or {}).get("reason"):
            return str(reason)
    return str(status.get("reason") or status.get("phase") or "Unknown")


def _pod_ready(pod: Obj) -> str:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return f"{sum(bool(item.get('ready')) for item in statuses)}/{len(pod['spec']['containers'])}"


def _restarts(pod: Obj) -> str:
    return str(sum(item.get("restartCount", 0) for item in (pod.get("status") or {}).get("containerStatuses") or ()))


def _node_status(node: Obj) -> str:
    ready = at('.status.conditions[?(@.type=="Ready")].status')(node)
    word = {"True": "Ready", "False": "NotReady"}.get(ready, "Unknown")
    return word + (",SchedulingDisabled" if (node.get("spec") or {}).get("unschedulable") else "")


def _roles(node: Obj) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = node["metadata"].get("labels") or {}
    return ",".join(sorted(key.removeprefix(prefix) for key in labels if key.startswith(prefix)))


def _event_object(event: Obj) -> str:
    about = event.get("involvedObject") or {}
    return f"{about.get('kind', '').lower()}/{about.get('name', '')}"


def _last_seen(event: Obj) -> str:
    for path in ("series.lastObservedTime", "lastTimestamp", "eventTime", "metadata.creationTimestamp"):
        if at(path)(event):
            return age(path)(event)
    return "<unknown>"


def _ready_of(obj: Obj) -> str:
    return f"{at('status.readyReplicas')(obj) or 0}/{(obj.get('spec') or {}).get('replicas', 1)}"


def _count(path: str) -> Callable[[Obj], str]:
    return lambda obj: str(at(path)(obj) or 0)


def _ports(service: Obj) -> str:
    ports = (service.get("spec") or {}).get("ports") or ()
    return ",".join(f"{port['port']}/{port.get('protocol', 'TCP')}" for port in ports)


COLUMNS: dict[str, tuple[Column, ...]] = {
    "pods": (
        ("Ready", _pod_ready, 0),
        ("Status", _pod_status, 0),
        ("Restarts", _restarts, 0),
        ("IP", at("status.podIP"), 1),
        ("Node", at("spec.nodeName"), 1),
        ("Nominated Node", at("status.nominatedNodeName"), 1),
        ("Readiness Gates", lambda _: None, 1),
    ),
    "nodes": (
        ("Status", _node_status, 0),
        ("Roles", _roles, 0),
        ("Version", at("status.nodeInfo.kubeletVersion"), 0),
        ("Internal-IP", at('status.addresses[?(@.type=="InternalIP")].address'), 1),
        ("OS-Image", at("status.nodeInfo.osImage"), 1),
    ),
    "events": (
        ("Last Seen", _last_seen, 0),
        ("Type", at("type"), 0),
        ("Reason", at("reason"), 0),
        ("Object", _event_object, 0),
        ("Message", at("message"), 0),
        ("Source", lambda event: at("source.component")(event) or at("reportingComponent")(event), 1),
        ("Name", at("metadata.name"), 1),
    ),
    "namespaces": (("Status", at("status.phase"), 0),),
    "services": (("Type", at("spec.type"), 0), ("Cluster-IP", at("spec.clusterIP"), 0), ("Port(s)", _ports, 0)),
    "deployments.apps": (
        ("Ready", _ready_of, 0),
        ("Up-to-date", _count("status.updatedReplicas"), 0),
        ("Available", _count("status.availableReplicas"), 0),
    ),
    "replicasets.apps": (
        ("Desired", _count("spec.replicas"), 0),
        ("Current", _count("status.replicas"), 0),
        ("Ready", _count("status.readyReplicas"), 0),
    ),
    "leases.coordination.k8s.io": (("Holder", at("spec.holderIdentity"), 0),),
    "priorityclasses.scheduling.k8s.io": (("Value", at("value"), 0), ("Global-Default", at("globalDefault"), 0)),
}
