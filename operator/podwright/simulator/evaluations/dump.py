"""Evaluates one pod on a dumped cluster: the output of `kubectl get … -o json`, with the SchedulerPolicies in it.

The dumped policies are accepted or rejected, and the one that takes the pod is selected, by the code of the operator
(api/policy_set.py). The answer also names the kinds on which it depends but of which the dump has no object.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from podwright.api.local_policy import LOCAL_KIND, LOCAL_PLURAL
from podwright.api.policy_result import ApplyResult
from podwright.api.policy_set import PolicySet
from podwright.api.scheduler_policy import GROUP, KIND, PLURAL, identity_of
from podwright.api.scheduling_queue import QUEUE_KIND, QUEUE_PLURAL
from podwright.api.workload_grouping import GROUPING_KIND, GROUPING_PLURAL
from podwright.core.framework.errors import PluginError
from podwright.core.framework.features import missing_api
from podwright.core.framework.framework import Framework
from podwright.core.framework.profile import ProfileError
from podwright.core.objects.errors import InvalidObjectError, described
from podwright.core.objects.pod import PodInfo, parse_pod
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
from podwright.core.plugins.rules.params import CONFIG_MAP, ConfigMap
from podwright.core.queues.queues import QUEUE_LABEL, queues_of
from podwright.core.state.object_store import Object, ObjectStore, key_of
from podwright.kube.kinds import KUEUE_FLAVOR, KUEUE_WORKLOAD, RESERVATION
from podwright.kube.queues.kinds import QUEUE_KINDS
from podwright.kube.queues.names import QueueNames
from podwright.simulator.evaluations.cases import CaseError
from podwright.simulator.evaluations.evaluation import Expectation, evaluate
from podwright.simulator.loaded import LoadOptions, take_group
from podwright.simulator.made_groups import MadeGroups
from podwright.simulator.params import label_of, lacking, take
from podwright.simulator.queue_objects import begin, queue_kind_of
from podwright.simulator.queue_objects import take as take_queue
from podwright.simulator.snapshot import CLAIM_TEMPLATE
from podwright.simulator.world import NOW, World, objects_of

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


def evaluate_pod(dump: object, raw_pod: Mapping[str, Any], options: LoadOptions) -> Expectation:
    """The `expect` of a case, with the fields that docs/evaluate.md lists for one pod on a dump. Raises CaseError."""
    if not isinstance(dump, dict) or not isinstance(dump.get("items"), list):
        raise CaseError("the dump has no items: expected the output of kubectl get … -o json")
    try:
        return _evaluate(objects_of(dump["items"], "items"), raw_pod, options)
    except (InvalidObjectError, ProfileError, PluginError) as error:
        raise CaseError(str(error)) from error
    except Exception as error:
        raise CaseError(f"{type(error).__name__}: {error}") from error


def _evaluate(items: Sequence[Object], raw_pod: Mapping[str, Any], options: LoadOptions) -> Expectation:
    store = _RecordingStore()
    world = World(options.features, clock=lambda: NOW, store=store, signals=options.settings.signal_definitions)
    _take_groups(items, world)
    world.fill(_lists_of(items))
    pod = world.cache.groups.ranked(parse_pod(raw_pod, keep_raw=True))
    pod, bad_groupings = _take_groupings(items, world, pod)
    unread = _take_params(items, world, options.settings.namespace)
    policies, refused = _policies(items, world, options)
    bad_queues = _take_queues(items, world, policies)
    labels = world.cache.namespace_labels(pod.namespace)
    queues = queues_of(world.cache)
    queues.serves = policies.scheduler_names.__contains__
    if any(policy.spec.queue is not None for policy in policies.active):
        queues.membership.choice_by_policy = lambda each: _chosen(policies, each, world)
        queues.preemptible_by_policy = lambda each: _preemptible(policies, each, world)
        queues.regroup()
    selected = policies.select(pod, labels)
    policy = policies.default if selected is None else selected
    framework = Framework(policy.profile, options.classes, handle=world)
    waits_for = policy if policy.refusal else None
    policy = policies.default if waits_for is not None else policy

    store.kinds_read.clear()
    world.wait(pod)
    gate = framework.pre_enqueue(pod)
    answer = evaluate(framework, world.cache, pod)
    answer["policy"] = {"name": policy.name, "generation": policy.generation}
    if selected is None:
        answer["schedulerNameNotServed"] = pod.scheduler_name
    if refused:
        answer["policiesNotAccepted"] = [
            {"name": each.name, "generation": each.generation, "message": each.message} for each in refused
        ]
    if bad_queues:
        answer["queuesNotAccepted"] = [{"name": name, "message": why} for name, why in sorted(bad_queues.items())]
    if waits_for is not None:
        answer["waitsForPolicy"] = {"name": waits_for.name or pod.policy, "generation": waits_for.generation}
    if gate is not None:
        answer["gated"] = {"plugin": gate.plugin, "reasons": sorted(gate.reasons)}
    if bad_groupings:
        answer["groupingsNotAccepted"] = sorted(map(str, bad_groupings))
    if pod.group:
        group = world.cache.groups.get(pod.group)
        answer["podGroup"] = pod.group.partition(":")[2] if group is None else group.label
        if group is not None and group.workload:
            answer["workload"] = group.workload
    lacked = lacking([policy], store, unread)
    if lacked:
        answer["missingParams"] = sorted(f"{label_of(config_map)} {why}" for config_map, why in lacked.items())
    needed = _needed(store)
    if pod.group and not pod.group.startswith(MADE_API):
        needed.add(NAMED_OTHERWISE.get(pod.group.partition(":")[0], GROUP_KIND))
    if any(group.priority_class for group in world.cache.groups.all()):
        needed.add(PRIORITY_CLASS)
    if queues.queue_of(pod) or QUEUE_LABEL in labels:
        needed.add(QUEUE_KIND)
    missing = needed - {str(item.get("kind")) for item in items}
    if missing:
        answer["missingKinds"] = sorted(missing)
    return answer


def _take_groups(items: Sequence[Object], world: World) -> None:
    """Takes the pod groups into the cluster. The pods of one that is invalid wait for it."""
    for raw in items:
        if raw.get("kind") in (GROUP_KIND, *NAMED_OTHERWISE.values()):
            with suppress(InvalidObjectError):
                take_group(raw, world.cache, world.features)


def _take_groupings(
    items: Sequence[Object], world: World, pod: PodInfo
) -> tuple[PodInfo, Sequence[InvalidObjectError]]:
    """The pod in the group that WorkloadGroupings make of it, whose other members are in the cluster then; and what is
    wrong with groupings.
    """
    made = MadeGroups(world.cache)
    problems = made.take_groupings(raw for raw in items if _is_of(raw, GROUPING_KIND))
    made.take_owners(items, {})
    pod = made.joined(pod, world.cache.set_object)
    if not pod.group.startswith(MADE_API):
        return pod, problems
    for raw in items:
        if raw.get("kind") == POD_KIND.kind:
            other = made.joined(world.cache.groups.ranked(parse_pod(raw)), world.cache.set_object)
            if other.node_name:
                world.cache.set_pod(other)
            elif not other.finished:
                world.wait(other)
    return pod, problems


def _take_params(items: Sequence[Object], world: World, namespace: str) -> Mapping[ConfigMap, str]:
    """Takes the ConfigMaps into the cluster. Returns why some are refused."""
    problems = {key_of(raw): take(raw, world.cache, namespace) for raw in items if raw.get("kind") == CONFIG_MAP}
    return {config_map: problem for config_map, problem in problems.items() if problem}


def _take_queues(items: Sequence[Object], world: World, policies: PolicySet) -> Mapping[str, str]:
    """Takes the queues into the cluster. Returns what is wrong with some, by name."""
    queues, problems = queues_of(world.cache), dict[str, str]()
    names = QueueNames(queues, policies.scheduler_names.__contains__)
    begin(names)
    for raw in items:
        if (kind := queue_kind_of(raw)) is not None:
            try:
                take_queue(names, kind, raw)
            except Exception as error:  # noqa: BLE001 -- one bad object must not stop the others
                problems[identity_of(raw)[0]] = (
                    str(error) if isinstance(error, InvalidObjectError) else described(error)
                )
    return {**{name: str(error) for name, error in queues.problems.items()}, **problems}


def _chosen(policies: PolicySet, pod: PodInfo, world: World) -> str:
    """The queue that the pod's policy chooses for it; "" for none."""
    policy = policies.select(pod, world.cache.namespace_labels(pod.namespace))
    return "" if policy is None else policy.queue_of(pod, world.cache)


def _preemptible(policies: PolicySet, pod: PodInfo, world: World) -> bool | None:
    """True if the pod's policy lets it be evicted for pods of queues; None if the policy does not say."""
    policy = policies.select(pod, world.cache.namespace_labels(pod.namespace))
    return None if policy is None else policy.preemptible


def _lists_of(items: Sequence[Object]) -> Mapping[str, Sequence[Object]]:
    """The items as the lists of a case, without kinds that have no list."""
    fields = {watched.kind: watched.plural_field for watched in WATCHED_KINDS}
    lists: dict[str, list[Object]] = {}
    for item in items:
        field = fields.get(str(item.get("kind") or ""))
        if field is not None:
            lists.setdefault(field, []).append(item)
    return lists


def _policies(items: Sequence[Object], world: World, options: LoadOptions) -> tuple[PolicySet, Sequence[ApplyResult]]:
    """The dumped policies, and the results of those that are not accepted."""
    classes = options.classes
    policies = PolicySet(
        classes,
        options.features,
        check=lambda policy: Framework(policy.profile, classes, handle=world),
        settings=options.settings,
        namespace_labels=world.cache.namespace_labels,
    )
    results = [policies.apply(item) for item in items if _is_of(item, KIND)]
    local = [item for item in items if _is_of(item, LOCAL_KIND)]
    results += [policies.local.apply(item) for item in local]
    return policies, [result for result in results if not result.accepted]


def _is_of(item: Object, kind: str) -> bool:
    return item.get("kind") == kind and str(item.get("apiVersion") or "").partition("/")[0] == GROUP


def _needed(store: _RecordingStore) -> set[str]:
    """The kinds that the answer depends on."""
    # Selectors of policies and affinity terms, also of placed pods, select namespaces by their labels.
    needed = {NODE_KIND.kind, POD_KIND.kind, "Namespace", KIND, *(store.kinds_read & _STORED)}
    if needed & _VOLUME_KINDS:
        needed |= _VOLUME_KINDS
    return needed
