"""Changes of a pod that the scheduler does not even try: its scheduler name, its scheduling gates."""

from __future__ import annotations

import copy
from collections.abc import Iterator

from podwright.core.framework.explaining import Raw
from podwright.core.objects.pod import POLICY_ANNOTATION, PodInfo
from podwright.core.objects.similar_names import similar_name
from podwright.core.objects.wording import listed
from podwright.core.plugins.scheduling_gates import is_field
from podwright.simulator.loaded import LoadedCluster


def entering(cluster: LoadedCluster, pod: PodInfo) -> Iterator[tuple[str, Raw]]:
    """Changes with which the scheduler tries the pod, the smallest first."""
    if pod.raw is None:
        return
    policy = cluster.policies.of(pod)
    if policy is not None and policy.compiled.misnamed:
        made = copy.deepcopy(dict(pod.raw))
        annotations = made["metadata"].get("annotations") or {}
        made["metadata"]["annotations"] = {key: value for key, value in annotations.items() if key != POLICY_ANNOTATION}
        yield f"take away its annotation {POLICY_ANNOTATION}", made
    elif policy is None or policy.refusal:
        served = sorted(cluster.policies.policy_set.scheduler_names - {pod.scheduler_name})
        for name in dict.fromkeys(filter(None, (similar_name(pod.scheduler_name, served), *served))):
            made = copy.deepcopy(dict(pod.raw))
            made["spec"] = {**(made.get("spec") or {}), "schedulerName": name}
            yield f"ask for the scheduler {name} instead of {pod.scheduler_name}", made
    elif pod.gates and not is_field(pod.gates[-1]):
        made = copy.deepcopy(dict(pod.raw))
        made["spec"] = {key: value for key, value in made["spec"].items() if key != "schedulingGates"}
        yield f"take away its scheduling gates ({listed(pod.gates)})", made
