"""LoadedCluster: a snapshot as the core sees it, with its policies built. Simulations and explanations begin here.

Objects are read as the operator reads them: a pod that has a node takes room even if parts of it cannot be understood,
and an invalid object affects no other one. `problems` lists all errors. Policies are accepted or rejected, and
selected, by the operator's code (engine/policies/active_policies.py). Nothing is ever written to a cluster.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final

from podwright.api.local_policy import LOCAL_KIND
from podwright.api.permissions import OFFLINE_SETTINGS, PolicySettings
from podwright.api.policy_result import NONE_IN_FORCE, ApplyResult
from podwright.api.policy_status import says_accepted
from podwright.api.rebalance_policy import REBALANCE_KIND
from podwright.api.reservation import RESERVATION_KIND, parse_reservation
from podwright.api.scheduler_policy import GROUP, KIND, identity_of
from podwright.api.spec.signals import Definitions
from podwright.api.topology import HYPER_NODE_KIND, TOPOLOGY_KIND, levels_of, parse_hyper_node, parse_topology
from podwright.api.workload_grouping import GROUPING_KIND
from podwright.core.framework.features import AUTOMATIC, NEWEST_MINOR, OLDEST_MINOR, Features
from podwright.core.framework.observer import NO_OBSERVER
from podwright.core.framework.profile import Classes
from podwright.core.gangs.run_times import run_times_of
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import PodInfo, parse_pod, parse_time
from podwright.core.objects.pod_group import (
    APIS,
    COMPOSITE_KIND,
    NAMED_OTHERWISE,
    WORKLOAD_API,
    fields_off,
    without_fields,
)
from podwright.core.objects.pod_group import KIND as GROUP_KIND
from podwright.core.objects.raw import Raw, value_at
from podwright.core.objects.readable import parse_assigned_pod, parse_known_node
from podwright.core.objects.watched_kinds import NODE_KIND, POD_KIND, PRIORITY_CLASS, STORED_KINDS, trimmed
from podwright.core.plugins import PLUGINS
from podwright.core.plugins.rules.params import CONFIG_MAP, ConfigMap
from podwright.core.queues.queues import Queues, queues_of
from podwright.core.state.cache import Cache
from podwright.core.state.devices.claims import CLAIM_KIND
from podwright.core.state.object_store import ObjectStore, key_of
from podwright.core.state.topologies import OWN_API
from podwright.engine.invalid_objects import InvalidObjects
from podwright.engine.plugins.exceptions import PluginExceptions
from podwright.engine.plugins.guard import PluginGuard
from podwright.engine.policies.active_policies import ActivePolicies
from podwright.engine.policies.active_policy import ActivePolicy
from podwright.engine.policies.policy_plugins import Conduct
from podwright.engine.queue_changes import let_policies_choose
from podwright.engine.records.local_budgets import LocalBudgets
from podwright.engine.records.metrics import Metrics
from podwright.engine.records.policy_activity import Activities
from podwright.kube.kinds import KUEUE_FLAVOR, KUEUE_WORKLOAD
from podwright.kube.queues.kinds import QUEUE_KINDS, QueueKind
from podwright.kube.queues.names import QueueNames
from podwright.simulator import params
from podwright.simulator.made_groups import MadeGroups, Put
from podwright.simulator.queue_objects import QUEUE_OBJECTS, begin, queue_kind_of, take
from podwright.simulator.snapshot import CLAIM_TEMPLATE, NOT_SERVED, Snapshot, group_kind
from podwright.simulator.world import NOW, World

if TYPE_CHECKING:
    from podwright.kube.node_signals.numbers import Numbers

_Read = Callable[[Raw], Sequence[InvalidObjectError] | None]

_STORED: Final = tuple(watched.kind for watched in STORED_KINDS)
_OF_KUEUE: Final = frozenset((KUEUE_WORKLOAD.kind, KUEUE_FLAVOR.kind))
"""Only an explanation of a Workload reads these."""
WORKLOAD_KINDS: Final = ("Deployment", "DaemonSet", "Job", "ReplicaSet", "StatefulSet", "ReplicationController")
"""Kinds from whose templates a simulation makes further pods."""


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """`classes`: the plugin classes; `settings`: the built-in policy, and what other policies may do, as the operator's
    options say it.

    `guard`: watches plugins that are not Podwright's own. `gather_after`: `QueueRules.gather_after` of the queues that
    do not say it.
    """

    features: Features = field(default_factory=Features)
    classes: Classes = field(default_factory=lambda: PLUGINS)
    settings: PolicySettings = OFFLINE_SETTINGS
    guard: PluginGuard | None = None
    gather_after: float = 0.0


def features_of(
    snapshot: Snapshot | None, gates: Mapping[str, bool] | None = None, emulated: int | None = None
) -> Features:
    """The feature gates of the operator on the snapshot's cluster. `gates`: those that are set; `emulated`: another
    minor version.
    """
    known = emulated if emulated is not None else None if snapshot is None else snapshot.minor
    minor = NEWEST_MINOR if known is None else max(OLDEST_MINOR, min(known, NEWEST_MINOR))
    return Features({**AUTOMATIC, **(gates or {})}, minor)


class Clock:
    """The time of a simulation in seconds since the epoch. It only advances when it is told to."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedCluster:
    """See the module. `pending`: the pods that wait for a node, by uid, in the order in which they were created."""

    world: World
    clock: Clock
    policies: ActivePolicies
    queue_names: QueueNames
    """The object that is the queue of a name."""
    made_groups: MadeGroups
    """The groups that WorkloadGroupings make."""
    missing: Mapping[str, str]
    """Kinds that the snapshot could not contain, with the reason."""
    unread: dict[ConfigMap, str]
    """ConfigMaps with params of policies that the snapshot could not contain, with the reason."""
    pending: dict[str, PodInfo] = field(default_factory=dict)
    workloads: dict[tuple[str, str, str], Raw] = field(default_factory=dict)
    """The workloads by kind, namespace and name."""
    assigned: dict[str, Raw] = field(default_factory=dict)
    """The raw objects of pods that have nodes, by uid. A pod that is recreated is made from them."""
    claim_templates: dict[tuple[str, str], Raw] = field(default_factory=dict)
    """By namespace and name of a ResourceClaimTemplate: the spec of its claims, from a claim that was made of it if the
    snapshot lacks the template.
    """
    policy_objects: dict[str, Raw] = field(default_factory=dict)
    """The SchedulerPolicies as they were written, by name."""
    queue_objects: dict[QueueKind, dict[str, Raw]] = field(default_factory=lambda: {kind: {} for kind in QUEUE_KINDS})
    """By API: the valid queues as they were written, by name."""
    rebalance_objects: dict[str, Raw] = field(default_factory=dict)
    """The RebalancePolicies as they were written, by name."""
    problems: list[str] = field(default_factory=list)
    """The errors in objects. Each names the object and the field."""
    refused: list[ApplyResult] = field(default_factory=list)
    """The policies that are not accepted."""
    accepted_by_operator: dict[str, str] = field(default_factory=dict)
    """The rejected policies that the operator has accepted, by name, with a note. Options of the operator are missing
    here.
    """
    ignored: Counter[str] = field(default_factory=Counter)
    """How many objects there were of each kind that scheduling does not depend on."""

    @property
    def stored_kinds(self) -> Sequence[str]:
        """The kinds of the object store whose objects a simulation can try. A PriorityClass would change pods that are
        there.
        """
        return [kind for kind in _STORED if kind != PRIORITY_CLASS]

    @property
    def cache(self) -> Cache:
        return self.world.cache

    def queue_object(self, name: str) -> tuple[QueueKind, Raw] | None:
        """The object that is the queue of this name, with its API. None if it is missing or invalid."""
        kind = self.queue_names.holder(name)
        raw = None if kind is None else self.queue_objects[kind].get(name)
        return None if kind is None or raw is None else (kind, raw)

    @property
    def queues(self) -> Queues:
        return queues_of(self.world.cache)

    def joined(self, pod: PodInfo, put: Put) -> PodInfo:
        """The pod as a member of its group, which may give it its priority. `put` stores a group made by groupings."""
        return self.made_groups.joined(self.cache.groups.ranked(pod), put)

    def parsed(self, raw: Raw) -> PodInfo:
        """A pod, as a member of its group. Raises InvalidObjectError."""
        return self.joined(parse_pod(raw, keep_raw=True), self.cache.set_object)

    def policies_changed(self) -> None:
        """To be called after any policy has changed."""
        self.policies.check_due()
        self.queue_names.refresh()
        let_policies_choose(self.queues, self.policies)

    def policy_for(self, pod: PodInfo) -> ActivePolicy:
        """The policy that decides about the pod. If no policy serves its scheduler name, it is the built-in one, which
        decides as another scheduler would.
        """
        found = self.policies.of(pod)
        return self.policies.default if found is None else found

    @property
    def missing_notes(self) -> Sequence[str]:
        """The kinds that count as empty, for each reason why they could not be read. A kind that the API server does
        not serve is not mentioned, because there can be no objects of it, nor are queues that would not count, nor
        Kueue's.
        """
        by_reason: dict[str, list[str]] = {}
        others = {each.key for each in QUEUE_KINDS if each.scheduler_name and not self.queue_names.counts(each)}
        for kind, why in self.missing.items():
            if why != NOT_SERVED and kind not in others and kind not in _OF_KUEUE:
                by_reason.setdefault(why, []).append(kind)
        return [f"without {', '.join(kinds)}: {_of(why, len(kinds))}" for why, kinds in by_reason.items()]

    def lacks_groups_of(self, pod: PodInfo) -> bool:
        """True if the pod names a PodGroup of an API whose groups could not be read."""
        why = self.missing.get(group_kind(pod.group.partition(":")[0]), NOT_SERVED)
        return bool(pod.group) and why != NOT_SERVED

    def params_note(self, policy: str) -> str:
        """A note that the named policy decides without its ConfigMap; "" if the policy has it or needs none."""
        return params.note_of(policy, self.policies, self.cache.store, self.unread)

    @property
    def params_notes(self) -> Sequence[str]:
        """Notes about the policies that decide without their ConfigMaps."""
        return params.notes_of(self.policies, self.cache.store, self.unread)


def load(snapshot: Snapshot, options: LoadOptions | None = None, store: ObjectStore | None = None) -> LoadedCluster:
    """Makes a cluster of a snapshot. `store`: an empty one for its objects.

    Raises ProfileError or PluginError if the built-in policy cannot be built. All other errors are in `problems` and
    `refused`.
    """
    options = options or LoadOptions()
    clock = Clock(NOW if snapshot.taken_at is None else snapshot.taken_at)
    signals = _as_recorded(options.settings.signal_definitions, snapshot.signals)
    world = World(options.features, clock, store=store, signals=signals)
    metrics = Metrics(time.perf_counter)
    policies = ActivePolicies(
        options.classes,
        world,
        settings=options.settings,
        invalid_objects=InvalidObjects(metrics),
        conduct=Conduct(
            observer=NO_OBSERVER,
            exceptions=PluginExceptions(metrics),
            budgets=LocalBudgets(time.monotonic, cpu=time.thread_time),
            activities=Activities(metrics, wall=clock),
            guard=options.guard,
        ),
    )
    queues = queues_of(world.cache)
    queues.gather_after, queues.serves = options.gather_after, policies.serves
    kinds, unread = params.split_missing(snapshot.missing)
    cluster = LoadedCluster(
        world=world,
        clock=clock,
        policies=policies,
        queue_names=QueueNames(queues, policies.serves),
        made_groups=MadeGroups(world.cache),
        missing=kinds,
        unread=dict(unread),
    )
    _Reading(cluster, options.settings.namespace).take(snapshot)
    queues.pending = lambda: [*cluster.pending.values()]
    return cluster


def _as_recorded(definitions: Definitions, numbers: Numbers) -> Definitions:
    """The signals, with the numbers of the snapshot as their values. These do not grow old."""
    return {
        name: replace(each, fixed=numbers[name], staleness=inf) if name in numbers else each
        for name, each in definitions.items()
    }


class _Reading:
    """Takes in the objects of a snapshot, kind by kind. Pods come last, because the operator also waits for all other
    kinds first.
    """

    def __init__(self, cluster: LoadedCluster, namespace: str) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._world = cluster.world
        self._cache = cluster.cache
        self._policies = cluster.policies

    def take(self, snapshot: Snapshot) -> None:
        cluster = self._cluster
        by_kind: dict[str, list[Raw]] = {}
        for raw in snapshot.objects:
            by_kind.setdefault(str(raw["kind"]), []).append(raw)
        for kind in _STORED:
            self._take(kind, by_kind.get(kind, ()), self._store)
        relevant = params.relevant_in(snapshot.objects, self._namespace)
        self._take(CONFIG_MAP, by_kind.pop(CONFIG_MAP, ()), partial(self._config_map, relevant))
        self._serve_groups(snapshot)
        for kind in (GROUP_KIND, *NAMED_OTHERWISE.values()):
            self._take(kind, by_kind.pop(kind, ()), self._group)
        for kind in WORKLOAD_KINDS:
            self._take(kind, by_kind.get(kind, ()), self._workload)
        readers: Sequence[tuple[str, _Read]] = (
            (CLAIM_TEMPLATE.kind, self._claim_template),
            (NODE_KIND.kind, self._node),
            (TOPOLOGY_KIND, self._topology),
            (HYPER_NODE_KIND, self._hyper_node),
            (RESERVATION_KIND, self._reservation),
        )
        for kind, read in readers:
            self._take(kind, by_kind.pop(kind, ()), read)
        for name in self._cache.reservations.expired(self._world.now()):
            self._cache.reservations.remove(name)
        for kind, read in ((KIND, self._policy), (LOCAL_KIND, self._local_policy)):
            self._take(kind, by_kind.pop(kind, ()), read)
        queues = queues_of(self._cache)
        let_policies_choose(queues, self._policies)
        begin(cluster.queue_names)
        for kind in QUEUE_OBJECTS:
            self._take(kind, by_kind.pop(kind, ()), self._queue)
        cluster.problems.extend(map(str, [*queues.problems.values(), *cluster.queue_names.standing_by()]))
        for raw in by_kind.pop(REBALANCE_KIND, ()):
            cluster.rebalance_objects[identity_of(raw)[0]] = raw
        cluster.problems.extend(map(str, cluster.made_groups.take_groupings(by_kind.pop(GROUPING_KIND, ()))))
        owners = cluster.made_groups.take_owners(snapshot.objects, snapshot.missing)
        self._take("Pod", by_kind.pop(POD_KIND.kind, ()), self._pod)
        arrived = sorted(cluster.pending.values(), key=lambda pod: (pod.creation, pod.key))
        cluster.pending.clear()
        cluster.pending.update((pod.uid, pod) for pod in arrived)
        for pod in arrived if queues.active else ():
            queues.add_waiting(pod)  # again, in this order
        for kind, items in by_kind.items():
            if kind not in (*_STORED, *WORKLOAD_KINDS, *owners) and kind not in _OF_KUEUE:
                cluster.ignored[kind] += len(items)

    def _take(self, kind: str, raws: Iterable[Raw], read: _Read) -> None:
        problems = self._cluster.problems
        for raw in raws:
            try:
                problems.extend(str(problem) for problem in read(raw) or ())
            except InvalidObjectError as error:
                problems.append(str(error if error.kind else error.in_object(kind, _name_of(raw))))
            except Exception as error:  # noqa: BLE001 -- one bad object must not stop the others
                problems.append(f"{kind} {_name_of(raw)}: {type(error).__name__}: {error}")

    def _store(self, raw: Raw) -> None:
        kind = str(raw["kind"])
        _check_metadata(raw)
        self._cache.set_object(kind, trimmed(kind, raw))

    def _config_map(self, relevant: Callable[[ConfigMap], bool], raw: Raw) -> None:
        if not relevant(key_of(raw)):
            self._cluster.ignored[CONFIG_MAP] += 1
        elif problem := params.take(raw, self._cache, self._namespace):
            self._cluster.unread[key_of(raw)] = problem

    def _workload(self, raw: Raw) -> None:
        metadata = _check_metadata(raw)
        self._cluster.workloads[str(raw["kind"]), str(metadata.get("namespace") or ""), str(metadata["name"])] = raw

    def _claim_template(self, raw: Raw) -> None:
        _check_metadata(raw)
        self._cluster.claim_templates[template_key(raw)] = spec_of_template(raw)

    def _serve_groups(self, snapshot: Snapshot) -> None:
        """A snapshot of a live cluster shows which APIs of pod groups are served, even if it contains no group."""
        for api in APIS.values() if snapshot.minor is not None else ():
            if api in NAMED_OTHERWISE or group_kind(api) in snapshot.missing:
                continue
            if api != WORKLOAD_API or self._world.features.enabled("GenericWorkload"):
                self._cache.groups.serve(api)

    def _group(self, raw: Raw) -> None:
        """As in the operator, feature gates say whether groups of the Workload API count, and which of their fields."""
        enabled = self._world.features.enabled
        group = str(raw.get("apiVersion") or "").partition("/")[0]
        kind = next((kind for kind, api in APIS.items() if api == group), None)
        if raw["kind"] == COMPOSITE_KIND:
            kind = COMPOSITE_KIND
        if kind is None:
            raise InvalidObjectError("apiVersion", f"{raw.get('apiVersion')!r} is no API of pod groups")
        if kind in (GROUP_KIND, COMPOSITE_KIND) and not enabled("GenericWorkload"):
            self._cluster.ignored[str(raw["kind"])] += 1
            return
        _check_metadata(raw)
        self._cache.set_object(kind, without_fields(raw, fields_off(enabled)))
        if invalid := self._cache.groups.invalid(_group_key(APIS[kind], raw)):
            raise invalid[1]

    def _node(self, raw: Raw) -> Sequence[InvalidObjectError]:
        node, problems = parse_known_node(raw)
        self._cache.set_node(node)
        return problems

    def _topology(self, raw: Raw) -> None:
        api = str(raw.get("apiVersion") or "").partition("/")[0]
        levels = parse_topology(raw) if api == OWN_API else levels_of(raw)
        self._cache.topologies.set(f"{api}/{identity_of(raw)[0]}", levels)

    def _hyper_node(self, raw: Raw) -> None:
        self._cache.topologies.hyper_nodes.set(identity_of(raw)[0], parse_hyper_node(raw))

    def _reservation(self, raw: Raw) -> None:
        self._cache.reservations.set(parse_reservation(raw))

    def _policy(self, raw: Raw) -> None:
        if str(raw.get("apiVersion") or "").partition("/")[0] != GROUP:
            self._cluster.ignored[KIND] += 1
            return
        result = self._policies.apply(raw)
        self._cluster.policy_objects[result.name] = raw
        self._note_refusal(result, raw)

    def _local_policy(self, raw: Raw) -> None:
        if str(raw.get("apiVersion") or "").partition("/")[0] != GROUP:
            self._cluster.ignored[LOCAL_KIND] += 1
            return
        self._note_refusal(self._policies.apply_local(raw), raw)

    def _queue(self, raw: Raw) -> None:
        kind = queue_kind_of(raw)
        if kind is None:
            self._cluster.ignored[str(raw["kind"])] += 1
            return
        take(self._cluster.queue_names, kind, raw)
        self._cluster.queue_objects[kind][str(raw["metadata"]["name"])] = raw

    def _note_refusal(self, result: ApplyResult, raw: Raw) -> None:
        if result.accepted:
            return
        if says_accepted(raw):
            why = result.message.partition(NONE_IN_FORCE)[0].rstrip(" .")
            text = (
                "the operator has accepted it, so options of the operator are missing here, such as --plugin-dir: "
                f"{why}"
            )
            self._cluster.accepted_by_operator[result.name] = text
            result = replace(result, message=text)
        self._cluster.refused.append(result)

    def _pod(self, raw: Raw) -> Sequence[InvalidObjectError]:
        spec = raw.get("spec")
        if isinstance(spec, Mapping) and spec.get("nodeName"):
            pod, problems = parse_assigned_pod(raw)
            pod = self._cluster.joined(pod, self._cache.set_object)
            learn_templates(self._cluster.claim_templates, self._cache, pod)
            self._cache.set_pod(pod)
            if not pod.finished:
                self._cluster.assigned[pod.uid] = raw
            elif pod.phase == "Succeeded":
                self._cache.groups.add_succeeded(pod)
                if pod.start_time is not None and (ended := _ended_at(raw)):
                    run_times_of(self._cache).ended(pod, ended - pod.start_time)
            return problems
        pod = self._cluster.parsed(raw)
        learn_templates(self._cluster.claim_templates, self._cache, pod)
        if not pod.finished:
            self._cluster.pending[pod.uid] = pod
            self._cache.groups.add_waiting(pod)
            if pod.nominated_node_name:
                self._cache.nominator.add(pod, pod.nominated_node_name)
        return ()


def _ended_at(raw: Raw) -> float:
    """When the last container of a pod ended, in seconds since the epoch; 0 if it does not say."""
    found = 0.0
    with suppress(AttributeError, InvalidObjectError, TypeError):
        for each in raw["status"].get("containerStatuses") or ():
            at = ((each.get("state") or {}).get("terminated") or {}).get("finishedAt")
            found = max(found, parse_time(at, "") or 0.0)
    return found


def learn_templates(templates: dict[tuple[str, str], Raw], cache: Cache, pod: PodInfo) -> None:
    """Learns unknown ResourceClaimTemplates from the claims of the pod."""
    for entry in pod.resource_claims:
        key, made = (pod.namespace, entry.template), pod.generated_claims.get(entry.name)
        if made and entry.template and key not in templates:
            claim = cache.store.get(CLAIM_KIND, made, pod.namespace)
            if claim is not None and isinstance(claim.get("spec"), Mapping):
                templates[key] = claim["spec"]


def _of(why: str, count: int) -> str:
    """The reason, in words for this number of kinds."""
    return why if count == 1 else f"{why.removesuffix(' it')} them" if why.endswith(" it") else why


def template_key(raw: Raw) -> tuple[str, str]:
    """(namespace, name). Raises InvalidObjectError."""
    namespace, name = key_of(raw)
    return namespace or "default", name


def spec_of_template(raw: Raw) -> Raw:
    """The spec of the claims that are made from a ResourceClaimTemplate. Raises InvalidObjectError."""
    inner = value_at(raw, "spec", "spec")
    if not isinstance(inner, Mapping):
        raise InvalidObjectError("spec.spec", "expected an object")
    return inner


def _check_metadata(raw: Raw) -> Raw:
    metadata = raw.get("metadata")
    if not isinstance(metadata, Mapping) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        raise InvalidObjectError("metadata.name", "a name is required")
    return metadata


def _group_key(api: str, raw: Raw) -> str:
    metadata = raw["metadata"]
    return f"{api}:{metadata.get('namespace') or 'default'}/{metadata['name']}"


def _name_of(raw: Raw) -> str:
    metadata = raw.get("metadata")
    if not isinstance(metadata, Mapping):
        return "?"
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata.get('name') or '?'}" if namespace else str(metadata.get("name") or "?")
