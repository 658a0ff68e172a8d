"""Pods that a hypothesis adds, and workloads that it scales."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace

from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import PodInfo, parse_pod
from podwright.core.objects.pod_group import MADE_API
from podwright.core.objects.raw import Raw, mapping_at
from podwright.simulator.hypotheses.hypothesis import MAX_PODS, AppliedHypothesis, HypothesisError, Scale, Waiting
from podwright.simulator.loaded import LoadedCluster
from podwright.simulator.trial import Trial, created_anew


def scale_workload(trial: Trial, scale: Scale, applied: AppliedHypothesis) -> None:
    cluster = trial.cluster
    label = f"{scale.kind} {scale.namespace}/{scale.name}"
    placed, pending = _pods_of(cluster, scale)
    _scale_owner(trial, scale, [*placed, *pending])
    more = scale.replicas - len(placed) - len(pending)
    if more > 0:
        model = _model_of(cluster, scale, [*placed, *pending])
        if model is None:
            raise HypothesisError(f"scale: {label} has no pods, and the snapshot has no template of it")
        if len(applied.waiting) + more > MAX_PODS:
            raise HypothesisError(f"scale: more than {MAX_PODS:,} pods in all")
        number = 0
        for _ in range(more):
            applied.go_on()
            number += 1
            while (made := created_anew(cluster, model, f"{scale.name}-added-{number}")).uid in cluster.pending:
                number += 1
            made = trial.with_claims(made)
            trial.add_pending(made)
            applied.waiting.append(Waiting(made, "scaled"))
        return
    # As the ReplicaSet controller does it: pending pods go first, then the youngest.
    leaving = [*reversed(pending), *sorted(placed, key=lambda pod: -pod.creation)][: -more or None] if more else []
    applied.gone += leaving
    trial.evict([pod for pod in leaving if pod.uid not in cluster.pending])
    trial.drop_pending([pod for pod in leaving if pod.uid in cluster.pending])


def _scale_owner(trial: Trial, scale: Scale, pods: Sequence[PodInfo]) -> None:
    """WorkloadGroupings read the new number from the workload: its groups may have other minimums."""
    raw = trial.cluster.workloads.get((scale.kind, scale.namespace, scale.name))
    if raw is None or not isinstance(raw.get("spec"), Mapping):
        return
    spec = dict(raw["spec"])
    if scale.kind != "Job":
        spec["replicas"] = scale.replicas
    else:
        # Of an elastic indexed Job, both change together.
        if spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism"):
            spec["completions"] = scale.replicas
        spec["parallelism"] = scale.replicas
    trial.set_owner({**raw, "spec": spec})
    for pod in {pod.group: pod for pod in pods if pod.group.startswith(MADE_API)}.values():
        trial.cluster.made_groups.joined(replace(pod, group=""), trial.set_object, anew=True)


def _pods_of(cluster: LoadedCluster, scale: Scale) -> tuple[list[PodInfo], list[PodInfo]]:
    """The workload's pods on nodes, and those that wait."""
    owners = {(scale.kind, scale.name)}
    if scale.kind == "Deployment":
        owners = {
            ("ReplicaSet", name)
            for (kind, namespace, name), raw in cluster.workloads.items()
            if kind == "ReplicaSet" and namespace == scale.namespace and _is_owned_by(raw, scale)
        }

    def belongs(pod: PodInfo) -> bool:
        owner = pod.owner
        if owner is None or pod.namespace != scale.namespace or pod.terminating:
            return False
        if (owner.kind, owner.name) in owners:
            return True
        # Without the ReplicaSets, their names show their owner: a Deployment's name and a hash.
        return scale.kind == "Deployment" and owner.kind == "ReplicaSet" and owner.name.rpartition("-")[0] == scale.name

    nodes = cluster.cache.nodes.values()
    placed = [pod for info in nodes if info.node is not None for pod in info.pods.values() if belongs(pod)]
    return placed, [pod for pod in cluster.pending.values() if belongs(pod)]


def _is_owned_by(raw: Raw, scale: Scale) -> bool:
    references = (raw.get("metadata") or {}).get("ownerReferences")
    return isinstance(references, list) and any(
        isinstance(each, Mapping) and each.get("kind") == scale.kind and each.get("name") == scale.name
        for each in references
    )


def _model_of(cluster: LoadedCluster, scale: Scale, pods: Sequence[PodInfo]) -> PodInfo | None:
    """A model for further pods: the workload's template if there is one, otherwise its youngest pod."""
    raw = cluster.workloads.get((scale.kind, scale.namespace, scale.name))
    if raw is not None and (made := _from_template(raw, scale.name)) is not None:
        return made
    return max(pods, key=lambda pod: pod.creation, default=None)


def _from_template(raw: Raw, name: str) -> PodInfo | None:
    """A pod of the workload's template; None if it has none. Raises HypothesisError."""
    spec = raw.get("spec")
    template = spec.get("template") if isinstance(spec, Mapping) else None
    if not isinstance(template, Mapping):
        return None
    metadata = mapping_at(template, "metadata")
    namespace = str((raw.get("metadata") or {}).get("namespace") or "default")
    owner = {
        "apiVersion": raw.get("apiVersion") or "apps/v1",
        "kind": str(raw.get("kind")),
        "name": name,
        "uid": _uid_of(raw, name),
        "controller": True,
    }
    pod = {
        "metadata": {
            **metadata,
            "name": name,
            "namespace": namespace,
            "uid": f"template/{namespace}/{name}",
            "ownerReferences": [owner],
        },
        "spec": template.get("spec"),
    }
    try:
        return parse_pod(pod, keep_raw=True)
    except InvalidObjectError as error:
        raise HypothesisError(f"{raw.get('kind')} {namespace}/{name}: spec.template: {error}") from error


def _uid_of(raw: Raw, name: str) -> str:
    return str((raw.get("metadata") or {}).get("uid") or name)


def add_pods(trial: Trial, raw: Raw, where: str, applied: AppliedHypothesis) -> None:
    """Adds the pod, or the pods of a workload."""
    kind = raw.get("kind")
    if kind == "Pod":
        pods = [_parsed(raw, where)]
    elif isinstance(raw.get("spec"), Mapping) and isinstance(raw["spec"].get("template"), Mapping):
        pods = _replicas(trial.cluster, raw, where)
        name = str((raw.get("metadata") or {}).get("name") or "added")
        identity = {"namespace": "default", **(raw.get("metadata") or {}), "name": name, "uid": _uid_of(raw, name)}
        trial.set_owner({**raw, "metadata": identity})
    else:
        if kind is None:
            raise HypothesisError(f"{where}: has no kind; expected Pod, or a workload with a template")
        raise HypothesisError(f"{where}: kind {kind!r} is neither Pod nor a workload with a template")
    if len(applied.waiting) + len(pods) > MAX_PODS:
        raise HypothesisError(f"pods: more than {MAX_PODS:,}")
    for pod in pods:
        if pod.uid in trial.cluster.pending or trial.cluster.cache.placement(pod.uid) is not None:
            pod = replace(pod, uid=f"{pod.uid}/added/{len(applied.waiting)}")  # noqa: PLW2901 -- manifests have none
        made = trial.with_claims(pod)
        trial.add_pending(made)
        applied.waiting.append(Waiting(made, "added"))


def _parsed(raw: Raw, where: str) -> PodInfo:
    try:
        pod = parse_pod(raw, keep_raw=True)
    except InvalidObjectError as error:
        raise HypothesisError(f"{where}: {error}") from error
    return replace(pod, node_name="", phase="Pending")


def _replicas(cluster: LoadedCluster, raw: Raw, where: str) -> list[PodInfo]:
    name = str((raw.get("metadata") or {}).get("name") or "added")
    spec = raw["spec"]
    count = spec.get("replicas", spec.get("parallelism"))
    count = 1 if count is None else count
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= MAX_PODS:
        raise HypothesisError(f"{where}: spec.replicas: expected a number from 0 to {MAX_PODS:,}")
    try:
        model = _from_template(copy.deepcopy(dict(raw)), name)
    except HypothesisError as error:
        raise HypothesisError(f"{where}: {error}") from error
    assert model is not None, "the caller has checked"
    return [created_anew(cluster, model, f"{name}-{number + 1}") for number in range(count)]
