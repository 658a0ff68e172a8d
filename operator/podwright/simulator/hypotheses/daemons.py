"""The pods that DaemonSets have on a node that is added like another one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import PodInfo, parse_pod
from podwright.core.objects.raw import Raw, value_at
from podwright.simulator.hypotheses.hypothesis import AppliedHypothesis, Waiting
from podwright.simulator.loaded import LoadedCluster
from podwright.simulator.placing import place
from podwright.simulator.trial import Trial, created_anew, pods_on

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def daemons_on(cluster: LoadedCluster, node_name: str) -> Sequence[PodInfo]:
    """The pods of DaemonSets on the node."""
    return [pod for pod in pods_on(cluster, node_name) if pod.owner is not None and pod.owner.kind == "DaemonSet"]


def copy_daemons(trial: Trial, daemons: Sequence[PodInfo], model: str, name: str, applied: AppliedHypothesis) -> None:
    """Adds copies of these pods of the node `model` to the added node. One that needs devices is scheduled there, or
    waits if they are missing.
    """
    for pod in daemons:
        made = created_anew(trial.cluster, pod, f"{pod.name}-{name}")
        if not made.resource_claims:
            trial.put(made, name)
            continue
        made = trial.with_claims(_meant_for(made, model, name))
        if not place(trial, trial.cluster.policy_for(made), made, only=name):
            trial.add_pending(made)
            applied.waiting.append(Waiting(made, "added"))


def _meant_for(pod: PodInfo, model: str, name: str) -> PodInfo:
    """The pod with the affinity that the DaemonSet controller gives it: to the node `name` in place of `model`."""
    raw = pod.raw
    terms = [] if raw is None else [*_terms(raw)]
    if raw is None or not terms:
        return pod
    affinity = raw["spec"]["affinity"]
    nodes = affinity["nodeAffinity"]
    required = {**nodes[_REQUIRED], "nodeSelectorTerms": [_renamed(term, model, name) for term in terms]}
    spec = {**raw["spec"], "affinity": {**affinity, "nodeAffinity": {**nodes, _REQUIRED: required}}}
    try:
        return parse_pod({**raw, "spec": spec}, keep_raw=True)
    except InvalidObjectError:
        return pod


def _terms(raw: Raw) -> Iterator[Raw]:
    """The required terms of the pod's node affinity; none if one of the fields is not of its type."""
    found = value_at(raw, "spec", "affinity", "nodeAffinity", _REQUIRED, "nodeSelectorTerms")
    if isinstance(found, list) and all(isinstance(term, Mapping) for term in found):
        yield from found


def _renamed(term: Raw, model: str, name: str) -> Raw:
    fields = term.get("matchFields")
    if not isinstance(fields, list):
        return term
    named = {"key": "metadata.name", "operator": "In", "values": [name]}
    return {**term, "matchFields": [named if each == {**named, "values": [model]} else each for each in fields]}
