"""Changes of a pod that the scheduler does not even try: its scheduler name, its scheduling gates."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Iterator

from podwright.core.objects.pod import PodInfo
from podwright.simulator.explain.amounts import listed
from podwright.simulator.explain.changes.pod_edits import Option
from podwright.simulator.explain.deciders import Deciders


def entering(deciders: Deciders, pod: PodInfo) -> Iterator[Option]:
    """Changes with which the scheduler tries the pod, the smallest first."""
    if pod.raw is None:
        return
    if deciders.policy_of(pod) is None:
        served = sorted(deciders.policies.scheduler_names)
        for name in dict.fromkeys((*difflib.get_close_matches(pod.scheduler_name, served, n=1), *served)):
            made = copy.deepcopy(dict(pod.raw))
            made["spec"] = {**made["spec"], "schedulerName": name}
            yield f"ask for the scheduler {name} instead of {pod.scheduler_name}", made
    elif pod.gates:
        made = copy.deepcopy(dict(pod.raw))
        made["spec"] = {key: value for key, value in made["spec"].items() if key != "schedulingGates"}
        yield f"take away its scheduling gates ({listed(pod.gates)})", made
