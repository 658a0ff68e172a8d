"""`podwright explain workload/x`: what the check would answer now, by its own code."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from podwright.kueue.decision import Fits, decide
from podwright.kueue.pod_sets import PLACE_LABEL
from podwright.kueue.workload import FITS, FLAVOR, GROUP, LACKS, READY, WORKLOAD, Workload
from podwright.simulator.explain.results import Cause, Explanation, PodState, WorkloadExplanation
from podwright.simulator.explain.targets import Target, TargetError, explain_selected
from podwright.simulator.loaded import LoadedCluster
from podwright.simulator.snapshot import Snapshot


def explain_workload(
    cluster: LoadedCluster, snapshot: Snapshot, target: Target, *, changes: bool = True
) -> Explanation | WorkloadExplanation:
    """Explains the pods of a Workload that has been started, else whether they would fit now. Raises TargetError,
    PluginError and ProfileError.
    """
    workload = _found(snapshot, target)
    if workload.is_true("Finished"):
        return Explanation(kind=WORKLOAD.kind, name=workload.key, state=PodState.FINISHED)
    places = ",".join(f"{workload.uid}-{index}" for index, _ in enumerate(workload.spec.get("podSets") or ()))
    pods = explain_selected(cluster, snapshot, workload.namespace, f"{PLACE_LABEL} in ({places})", changes=changes)
    if pods.pods:
        return replace(pods, kind=WORKLOAD.kind, name=workload.key)
    flavors = {raw["metadata"]["name"]: raw for raw in snapshot.of_kind(FLAVOR.kind)}
    held = any(each["state"] == READY for each in workload.checks)
    found = decide(cluster.cache, cluster.policies, workload, flavors, random.Random(0).randrange)
    if isinstance(found, Fits):
        state, cause = PodState.FITS, Cause(reason=FITS, text=found.message(held=held))
    else:
        state, cause = PodState.PENDING, Cause(reason=LACKS, text=f"does not fit now: {found.message}")
    return Explanation(
        kind=WORKLOAD.kind,
        name=workload.key,
        state=state,
        causes=(cause,),
        notes=tuple(_notes(workload)),
    )


def _found(snapshot: Snapshot, target: Target) -> Workload:
    for raw in snapshot.of_kind(WORKLOAD.kind):
        if str(raw.get("apiVersion") or "").startswith(f"{GROUP}/"):
            workload = Workload(raw)
            if (workload.namespace, workload.name) == (target.namespace, target.name):
                return workload
    why = snapshot.missing.get(WORKLOAD.kind)
    raise TargetError(f"{target} is not in the cluster{f' ({why})' if why else ''}")


def _notes(workload: Workload) -> Iterator[str]:
    if not workload.admission:
        yield "it has no quota now, so the node labels of the flavors that it will get are not known"
    for each in workload.checks:
        retries = f", after {each['retryCount']} retries" if each.get("retryCount") else ""
        yield f"its check {each['name']} is {each['state']}{retries}"
