"""Explains a pod, or all pods of a workload, a pod group or a queue, in a cluster that was loaded from a snapshot."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from typing import Final

from podwright.api.scheduler_policy import GROUP
from podwright.api.scheduling_queue import QUEUE_KIND
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import PodInfo, parse_pod
from podwright.core.objects.pod_group import (
    APIS,
    COMPOSITE_KIND,
    GROVE_API,
    GROVE_KIND,
    NAMED_OTHERWISE,
    WORKLOAD_API,
    group_key,
)
from podwright.core.objects.raw import Raw, mapping_at, value_at
from podwright.core.objects.selectors import LabelSelector, parse_label_selector
from podwright.core.objects.similar_names import did_you_mean
from podwright.engine.intake.owners import OwnerObject, UnusableError
from podwright.kube.kinds import KUEUE, KUEUE_WORKLOAD
from podwright.simulator.explain.explanation import explain_pod
from podwright.simulator.explain.results import Explanation, SharedCause, WorkloadExplanation
from podwright.simulator.loaded import LoadedCluster
from podwright.simulator.queue_rows import rows_of
from podwright.simulator.redaction import replica_failures
from podwright.simulator.snapshot import Snapshot

_KINDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("po", "pod", "pods"), "Pod"),
    **dict.fromkeys(("deploy", "deployment", "deployments"), "Deployment"),
    **dict.fromkeys(("rs", "replicaset", "replicasets"), "ReplicaSet"),
    **dict.fromkeys(("sts", "statefulset", "statefulsets"), "StatefulSet"),
    **dict.fromkeys(("ds", "daemonset", "daemonsets"), "DaemonSet"),
    **dict.fromkeys(("rc", "replicationcontroller", "replicationcontrollers"), "ReplicationController"),
    **dict.fromkeys(("job", "jobs"), "Job"),
    **dict.fromkeys(("podgroup", "podgroups"), "PodGroup"),
    **dict.fromkeys(("compositepodgroup", "compositepodgroups"), COMPOSITE_KIND),
    **dict.fromkeys(("podgang", "podgangs"), GROVE_KIND),
    **dict.fromkeys(("wl", "workload", "workloads"), KUEUE_WORKLOAD.kind),
    **dict.fromkeys(("squeue", "queue", "queues", "schedulingqueue", "schedulingqueues"), QUEUE_KIND),
}
_GROUPS: Final[Mapping[str, Collection[str]]] = {
    **dict.fromkeys(("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"), ("apps",)),
    "Job": ("batch",),
    "PodGroup": tuple(APIS.values()),
    COMPOSITE_KIND: (WORKLOAD_API,),
    GROVE_KIND: (GROVE_API,),
    QUEUE_KIND: (GROUP,),
    KUEUE_WORKLOAD.kind: (KUEUE,),
}
"""By kind: the API groups with which it may be written, as in job.batch/x or job.v1.batch/x."""
_GROUP_KINDS: Final = ("PodGroup", *NAMED_OTHERWISE.values())
Pods = Mapping[tuple[str, str], Raw]
"""By namespace and name."""
PODS_EXPLAINED: Final = 100
"""How many waiting pods of a workload are explained. Changes are searched for the first of them only."""
_EXAMPLES: Final = 3
_REQUIREMENT: Final = re.compile(r"(!?)\s*([^\s=!,()]+)\s*(?:(==|=|!=)\s*([^\s=!,()]*)|(in|notin)\s*\(([^)]*)\))?")


class TargetError(Exception):
    """The target of an explanation does not exist, or its name cannot be understood."""


@dataclass(frozen=True, slots=True)
class Target:
    """A kind, a namespace and a name."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name if self.kind == QUEUE_KIND else f'{self.namespace}/{self.name}'}"


def parse_target(text: str, namespace: str) -> Target:
    """Parses `pod/web-0`, `deploy/web`, or the name of a pod alone. A kind outside `_KINDS` may be that of an owner of
    pods; `explain_target` finds out. Raises TargetError.
    """
    kind, slash, name = text.partition("/")
    if not slash:
        kind, name = "pod", text
    known = kind_of(kind)
    word = kind.lower().partition(".")[0]
    if known is None and (word in _KINDS or (hint := did_you_mean(word, _KINDS))):
        raise TargetError(f"{text!r}: kind {kind!r} cannot be explained{'' if word in _KINDS else hint}")
    if not name or "/" in name:
        raise TargetError(f"{text!r}: expected KIND/NAME, as in pod/web-0")
    return Target(known or word, namespace, name)


def kind_of(text: str) -> str | None:
    """The kind that kubectl understands by this word, such as `po`, `Jobs` or `job.batch`; None if it cannot be
    explained.
    """
    word, _, group = text.lower().partition(".")
    known = _KINDS.get(word)
    if known is not None and group and re.sub(r"^v\d\w*\.", "", group) not in _GROUPS.get(known, ()):
        return None
    return known


def kinds_like(text: str) -> Sequence[str]:
    """The words for kinds that begin like this."""
    return [word for word in _KINDS if word.startswith(text.lower())]


def explain_selected(
    cluster: LoadedCluster, snapshot: Snapshot, namespace: str, selector: str, *, changes: bool = True
) -> WorkloadExplanation:
    """Explains the pods of a namespace, empty: of all, that kubectl's flag -l selects by this text. Raises TargetError,
    PluginError and ProfileError.
    """
    wanted, selects = parse_selector(selector), {_key(raw): raw for raw in snapshot.of_kind("Pod")}
    chosen = [raw for key, raw in selects.items() if namespace in ("", key[0]) and wanted.matches(_labels(raw))]
    name = f"{namespace or 'all namespaces'}{f' with {selector}' if selector else ''}"
    return _of_pods(cluster, "Pods", name, chosen, (), changes=changes)


def parse_selector(text: str) -> LabelSelector:
    """A label selector as kubectl's flag -l takes it: `a=b,c!=d,e in (f,g),h notin (i),j,!k`. Raises TargetError."""
    expressions: list[Raw] = []
    for part in re.findall(r"(?:[^,(]|\([^)]*\))+", text):
        found = _REQUIREMENT.fullmatch(part.strip())
        if found is None:
            raise TargetError(f"selector {text!r}: {part.strip()!r} is no requirement such as app=web or tier in (a,b)")
        absent, key, sign, value, word, values = found.groups()
        if sign:
            operator, listed = ("NotIn" if sign == "!=" else "In"), [value]
        elif word:
            operator, listed = ("In" if word == "in" else "NotIn"), [each.strip() for each in values.split(",")]
        else:
            operator, listed = ("DoesNotExist" if absent else "Exists"), []
        expressions.append({"key": key, "operator": operator, **({"values": listed} if listed else {})})
    try:
        return parse_label_selector({"matchExpressions": expressions}, f"selector {text!r}")
    except InvalidObjectError as error:
        raise TargetError(str(error)) from error


def explain_target(
    cluster: LoadedCluster, snapshot: Snapshot, target: Target, *, changes: bool = True
) -> Explanation | WorkloadExplanation:
    """Explains the pod, or the pods of the workload or queue. Raises TargetError, PluginError and ProfileError."""
    pods = {_key(raw): raw for raw in snapshot.of_kind("Pod")}
    if target.kind == QUEUE_KIND:
        return _queue(cluster, target, pods, changes=changes)
    if target.kind == KUEUE_WORKLOAD.kind:
        raise TargetError(f"{target}: Workloads of Kueue are explained by the command `podwright explain` only")
    if target.kind not in _KINDS.values():
        return _workload(cluster, snapshot, _of_owner(cluster, target), pods, changes=changes)
    if target.kind != "Pod":
        return _workload(cluster, snapshot, target, pods, changes=changes)
    raw = pods.get((target.namespace, target.name))
    if raw is None:
        raise TargetError(_not_found(target, pods))
    return explain_pod(cluster, _parsed(raw), changes=changes, raw=raw)


def _of_owner(cluster: LoadedCluster, target: Target) -> Target:
    """The target with the kind of owners that WorkloadGroupings read and that is written so. Raises TargetError."""
    kinds = sorted({kind for _, kind in cluster.made_groups.owners.read})
    found = next((kind for kind in kinds if target.kind.removesuffix("s") == kind.lower().removesuffix("s")), None)
    if found is None:
        hint = f": expected {', '.join(sorted({*_KINDS.values(), *kinds}))}"
        raise TargetError(f"kind {target.kind!r} cannot be explained{hint}")
    return replace(target, kind=found)


def _key(raw: Raw) -> tuple[str, str]:
    metadata = mapping_at(raw, "metadata")
    return str(metadata.get("namespace") or "default"), str(metadata.get("name") or "")


def _labels(raw: Raw) -> Mapping[str, str]:
    return mapping_at(raw, "metadata", "labels")


def _parsed(raw: Raw) -> PodInfo:
    try:
        return parse_pod(raw, keep_raw=True)
    except InvalidObjectError as error:
        raise TargetError(f"the scheduler cannot read the pod: {error}") from error


def _not_found(target: Target, pods: Pods) -> str:
    elsewhere = [namespace for namespace, name in pods if name == target.name]
    here = [name for namespace, name in pods if namespace == target.namespace]
    hint = f"; there is one in namespace {elsewhere[0]}" if elsewhere else did_you_mean(target.name, here)
    return f"{target} is not in the cluster{hint}"


# Workloads


def _workload(
    cluster: LoadedCluster, snapshot: Snapshot, target: Target, pods: Pods, *, changes: bool
) -> WorkloadExplanation:
    of = _members if target.kind in _GROUP_KINDS else _owned if target.kind in _KINDS.values() else _below
    wanted = [*of(cluster, snapshot, target, pods)]
    if not wanted and not any(_key(raw) == (target.namespace, target.name) for raw in snapshot.of_kind(target.kind)):
        raise TargetError(f"{target} is not in the cluster")
    running = sum(not _parsed(raw).finished for raw in wanted)
    name = f"{target.namespace}/{target.name}"
    return _of_pods(cluster, target.kind, name, wanted, [*_not_created(snapshot, target, running)], changes=changes)


def _queue(cluster: LoadedCluster, target: Target, pods: Pods, *, changes: bool) -> WorkloadExplanation:
    """The pods of the queue and of those below it."""
    queues, rows = cluster.queues, rows_of(cluster.queues)
    position = next((index for index, row in enumerate(rows) if row.name == target.name), None)
    if position is None:
        raise TargetError(f"{target} is not in the cluster{did_you_mean(target.name, [row.name for row in rows])}")
    below = [*takewhile(lambda row: row.depth > rows[position].depth, rows[position + 1 :])]
    names = {row.name for row in (rows[position], *below)}
    wanted = []
    for raw in pods.values():
        try:
            if queues.queue_of(parse_pod(raw)) in names:
                wanted.append(raw)
        except InvalidObjectError:
            continue  # it is among the problems
    found = _of_pods(cluster, QUEUE_KIND, target.name, wanted, (), changes=changes)
    return replace(found, queue=(rows[position], *below))


def _of_pods(
    cluster: LoadedCluster, kind: str, name: str, wanted: Sequence[Raw], causes: Sequence[SharedCause], *, changes: bool
) -> WorkloadExplanation:
    """`causes`: those of pods that do not exist."""
    raws = {pod.uid: raw for raw in wanted if not (pod := _parsed(raw)).finished}
    parsed = sorted(map(_parsed, raws.values()), key=lambda pod: (pod.creation, pod.name))
    placed = [pod for pod in parsed if pod.node_name]
    waiting = [pod for pod in parsed if not pod.node_name]
    waiting.sort(key=lambda pod: cluster.queues.bounds.of(pod) is None)  # those that their queues forbid come first
    first = next(iter(waiting or placed), None)
    return WorkloadExplanation(
        kind=kind,
        name=name,
        pods=len(parsed),
        placed=len(placed),
        waiting=len(waiting),
        nodes=dict(Counter(pod.node_name for pod in placed).most_common()),
        causes=(*causes, *_shared(cluster, waiting[:PODS_EXPLAINED])),
        first=explain_pod(cluster, first, changes=changes, raw=raws[first.uid]) if first else None,
        notes=()
        if len(waiting) <= PODS_EXPLAINED
        else (f"the causes are those of the first {PODS_EXPLAINED} waiting pods",),
    )


def _not_created(snapshot: Snapshot, target: Target, pods: int) -> Iterator[SharedCause]:
    """Why pods that the workload should have do not exist, in the words of a quota or of an admission webhook."""
    raw = next((raw for raw in snapshot.of_kind(target.kind) if _key(raw) == (target.namespace, target.name)), {})
    for failure in replica_failures(raw):
        replicas = value_at(raw, "spec", "replicas")
        lacking = max(0, (replicas if isinstance(replicas, int) else 1) - pods)
        why = failure.get("message") or f"{failure.get('reason')}, and a snapshot has no more of it"
        yield SharedCause(reason="ReplicaFailure", text=f"its controller cannot create them: {why}", pods=lacking)


def _shared(cluster: LoadedCluster, waiting: Sequence[PodInfo]) -> Iterator[SharedCause]:
    found: dict[tuple[str, str], list[str]] = {}
    for pod in waiting:
        cause = explain_pod(cluster, pod, changes=False).cause
        if cause is not None:
            found.setdefault((cause.reason, cause.text), []).append(pod.name)
    for (reason, text), names in sorted(found.items(), key=lambda pair: -len(pair[1])):
        yield SharedCause(reason=reason, text=text, pods=len(names), examples=tuple(names[:_EXAMPLES]))


def _members(cluster: LoadedCluster, _snapshot: Snapshot, target: Target, pods: Pods) -> Iterator[Raw]:
    """The pods of the groups of this name, or of those below it in a hierarchy."""
    groups = cluster.cache.groups
    apis = [api for api in APIS.values() if NAMED_OTHERWISE.get(api, "PodGroup") == target.kind]
    found = {group_key(api, target.namespace, target.name) for api in apis}
    for group in filter(None, map(groups.get, tuple(found))):
        found.update(below.key for below in groups.named_by_pods(group))
    for (namespace, _), raw in pods.items():
        if namespace == target.namespace and groups.ranked(_parsed(raw)).group in found:
            yield raw


def _below(cluster: LoadedCluster, _snapshot: Snapshot, target: Target, pods: Pods) -> Iterator[Raw]:
    """The pods that have the target among their owners."""
    for (namespace, _), raw in pods.items():
        pod, owners = _parsed(raw), list[OwnerObject]()
        if namespace != target.namespace or pod.owner is None:
            continue
        with suppress(UnusableError):
            owners = cluster.made_groups.owners.owners_of(pod, pod.owner)
        named = {(pod.owner.kind, pod.owner.name), *((each.kind[1], each.name) for each in owners)}
        if (target.kind, target.name) in named:
            yield raw


def _owned(_cluster: LoadedCluster, snapshot: Snapshot, target: Target, pods: Pods) -> Iterator[Raw]:
    owners = {(target.kind, target.name)}
    if target.kind == "Deployment":
        owners = {
            ("ReplicaSet", _key(raw)[1])
            for raw in snapshot.of_kind("ReplicaSet")
            if _key(raw)[0] == target.namespace and _controller(raw) == (target.kind, target.name)
        }
    for (namespace, _), raw in pods.items():
        if namespace != target.namespace:
            continue
        kind, name = _controller(raw)
        # Without the ReplicaSets, their names show their owner: a Deployment's name and a hash.
        by_name = target.kind == "Deployment" and kind == "ReplicaSet" and name.rpartition("-")[0] == target.name
        if (kind, name) in owners or (by_name and not owners):
            yield raw


def _controller(raw: Raw) -> tuple[str, str]:
    """Returns kind and name of the controlling owner; "" without one."""
    references = value_at(raw, "metadata", "ownerReferences")
    for each in references if isinstance(references, list) else ():
        if isinstance(each, Mapping) and each.get("controller"):
            return str(each.get("kind") or ""), str(each.get("name") or "")
    return "", ""
