"""Evaluates one pod on a dumped cluster: the output of `kubectl get … -o json`, with the SchedulerPolicies in it.

The dumped policies are accepted or rejected, and the one that takes the pod is selected, by the code of the operator
(api/policy_set.py). The answer also names the kinds on which it depends but of which the dump has no object.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from podwright.api.local_policy import LOCAL_PLURAL
from podwright.api.scheduler_policy import KIND, PLURAL
from podwright.api.scheduling_queue import QUEUE_KIND, QUEUE_PLURAL
from podwright.api.workload_grouping import GROUPING_KIND, GROUPING_PLURAL
from podwright.core.framework.errors import PluginError
from podwright.core.framework.features import missing_api
from podwright.core.framework.profile import ProfileError
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod_group import (
    APIS,
    COMPOSITE_API,
    COMPOSITE_KIND,
    MADE_API,
    NAMED_OTHERWISE,
    WORKLOAD_API,
)
from podwright.core.objects.pod_group import KIND as GROUP_KIND
from podwright.core.objects.watched_kinds import NODE_KIND, POD_KIND, PRIORITY_CLASS, STORED_KINDS, WATCHED_KINDS
from podwright.core.queues.queues import QUEUE_LABEL
from podwright.core.state.object_store import Object, ObjectStore
from podwright.kube.kinds import KUEUE_FLAVOR, KUEUE_WORKLOAD, RESERVATION
from podwright.kube.queues.kinds import QUEUE_KINDS
from podwright.simulator.evaluations.cases import CaseError
from podwright.simulator.evaluations.evaluation import Expectation, evaluate
from podwright.simulator.loaded import LoadOptions, load
from podwright.simulator.params import label_of, lacking
from podwright.simulator.snapshot import CLAIM_TEMPLATE, NOT_SERVED, Snapshot

_STORED: Final = frozenset(watched.kind for watched in STORED_KINDS)
_VOLUME_KINDS: Final = frozenset(
    (
        "PersistentVolume",
        "PersistentVolumeClaim",
        "StorageClass",
        "CSINode",
        "CSIDriver",
        "CSIStorageCapacity",
        "VolumeAttachment",
    )
)
"""Plugins that read one of these kinds also use indexes that are built from the others."""


def dump_kinds(minor: int, served: Collection[str] = ()) -> Sequence[str]:
    """The kinds that can matter to an answer, as `kubectl get` takes them: those that this minor version of Kubernetes
    1 has, custom resources, policies and templates of claims. `served`: the output of `kubectl api-resources -o name`,
    which leaves out kinds that are not served; empty: all.
    """
    absent = missing_api(minor)
    groups = (
        f"{plural}.{WORKLOAD_API if api == COMPOSITE_API else api}"
        for kind, api in APIS.items()
        for plural in (f"{NAMED_OTHERWISE.get(api, GROUP_KIND).lower()}s",)
        if kind not in (GROUP_KIND, COMPOSITE_KIND) or GROUP_KIND not in absent
    )
    kinds = (
        *(each.plural for each in WATCHED_KINDS if each.kind not in absent),
        *groups,
        PLURAL,
        LOCAL_PLURAL,
        CLAIM_TEMPLATE.plural,
        QUEUE_PLURAL,
        GROUPING_PLURAL,
        *(f"{kind.resource.plural}.{kind.resource.group}" for kind in QUEUE_KINDS if kind.scheduler_name),
        *(f"{each.plural}.{each.group}" for each in (RESERVATION, KUEUE_WORKLOAD, KUEUE_FLAVOR)),
    )
    names = {*served, *(name.partition(".")[0] for name in served)}
    return [kind for kind in kinds if not served or kind in names]


class _RecordingStore(ObjectStore):
    """Records from which kinds objects were read."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds_read: set[str] = set()

    def get(self, kind: str, name: str, namespace: str = "") -> Object | None:
        self.kinds_read.add(kind)
        return super().get(kind, name, namespace)

    def list(self, kind: str, namespace: str | None = None) -> Iterable[Object]:
        self.kinds_read.add(kind)
        return super().list(kind, namespace)

    def version(self, kind: str) -> int:
        self.kinds_read.add(kind)
        return super().version(kind)


def evaluate_pod(dump: Snapshot, raw_pod: Mapping[str, Any], options: LoadOptions) -> Expectation:
    """The `expect` of a case, with the fields that docs/evaluate.md lists for one pod on a dump. Raises CaseError."""
    try:
        return _evaluate(dump, raw_pod, options)
    except (InvalidObjectError, ProfileError, PluginError) as error:
        raise CaseError(str(error)) from error
    except Exception as error:
        raise CaseError(f"{type(error).__name__}: {error}") from error


def _evaluate(dump: Snapshot, raw_pod: Mapping[str, Any], options: LoadOptions) -> Expectation:
    store = _RecordingStore()
    cluster = load(dump, options, store)
    cache, queues = cluster.cache, cluster.queues
    pod = cluster.parsed(raw_pod)
    labels = cache.namespace_labels(pod.namespace)
    selected = cluster.policies.of(pod)
    asked = cluster.policies.default if selected is None else selected
    waits = bool(asked.compiled.refusal)
    policy = (cluster.policies.default if waits else asked).compiled

    store.kinds_read.clear()
    cluster.pending[pod.uid] = pod
    cache.groups.add_waiting(pod)
    gate = asked.framework.pre_enqueue(pod)
    answer = evaluate(asked.framework, cache, pod)
    answer["policy"] = {"name": policy.name, "generation": policy.generation}
    if selected is None:
        answer["schedulerNameNotServed"] = pod.scheduler_name
    if cluster.refused:
        answer["policiesNotAccepted"] = [
            {"name": each.name, "generation": each.generation, "message": each.message} for each in cluster.refused
        ]
    bad_queues = {**{name: str(error) for name, error in queues.problems.items()}, **queues.refused}
    if bad_queues:
        answer["queuesNotAccepted"] = [{"name": name, "message": why} for name, why in sorted(bad_queues.items())]
    if waits:
        answer["waitsForPolicy"] = {
            "name": asked.compiled.name or pod.policy,
            "generation": asked.compiled.generation,
        }
    if gate is not None:
        answer["gated"] = {"plugin": gate.plugin, "reasons": sorted(gate.reasons)}
    problems = {each: each.startswith(f"{GROUPING_KIND} ") for each in cluster.problems}
    if any(problems.values()):
        answer["groupingsNotAccepted"] = sorted(each for each, of_grouping in problems.items() if of_grouping)
    others = [each for each, of_grouping in problems.items() if not of_grouping and each not in bad_queues.values()]
    if others:
        answer["problems"] = others
    if pod.group:
        group = cache.groups.get(pod.group)
        answer["podGroup"] = pod.group.partition(":")[2] if group is None else group.label
        if group is not None and group.workload:
            answer["workload"] = group.workload
    lacked = lacking([policy], store, cluster.unread)
    if lacked:
        answer["missingParams"] = sorted(f"{label_of(config_map)} {why}" for config_map, why in lacked.items())
    needed = _needed(store)
    if pod.group and not pod.group.startswith(MADE_API):
        needed.add(NAMED_OTHERWISE.get(pod.group.partition(":")[0], GROUP_KIND))
    if any(group.priority_class for group in cache.groups.all()):
        needed.add(PRIORITY_CLASS)
    if queues.queue_of(pod) or QUEUE_LABEL in labels:
        needed.add(QUEUE_KIND)
    if dump.taken_at is not None:  # a snapshot says what it lacks
        needed &= {name.partition(".")[0] for name, why in dump.missing.items() if why != NOT_SERVED}
    missing = needed - {str(item.get("kind")) for item in dump.objects}
    if missing:
        answer["missingKinds"] = sorted(missing)
    return answer


def _needed(store: _RecordingStore) -> set[str]:
    """The kinds that the answer depends on."""
    # Selectors of policies and affinity terms, also of placed pods, select namespaces by their labels.
    needed = {NODE_KIND.kind, POD_KIND.kind, "Namespace", KIND, *(store.kinds_read & _STORED)}
    if needed & _VOLUME_KINDS:
        needed |= _VOLUME_KINDS
    return needed
