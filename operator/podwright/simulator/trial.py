"""Trial: changes of any kind to a loaded cluster, which are rolled back afterwards.

    with Trial(cluster) as trial: nodes, pods, objects and policies change ─► pods are scheduled
        ─► everything is as it was

Invariant: after a trial the cluster is as before it, down to the order of nodes and pods. Pods are placed and removed
in transactions on the cache (core/state/transaction.py), in which nodes must not change. So a change of another kind
ends the transaction at hand; the next placement begins another one inside it. All are undone in reverse order. Nothing
is copied: a trial costs what it changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Self, TypeVar

from podwright.api.policy_result import ApplyResult
from podwright.api.scheduler_policy import identity_of
from podwright.core.cycle import Placement
from podwright.core.framework.errors import PluginError
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import FollowUp
from podwright.core.framework.status import Status
from podwright.core.gangs.simulation import reserve
from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.raw import Raw
from podwright.core.queues.queues import QueueRules
from podwright.core.state.object_store import key_of
from podwright.core.state.reservations import Reservation
from podwright.core.state.transaction import CacheTransaction
from podwright.kube.queues.kinds import SCHEDULING_QUEUES
from podwright.simulator.carrying import permitted
from podwright.simulator.claims import Change, free_claims, take_back, with_claims, write_reserved
from podwright.simulator.loaded import LoadedCluster, spec_of_template, template_key
from podwright.simulator.made_groups import kind_of
from podwright.simulator.queue_objects import queue_kind_of

K = TypeVar("K")


class Trial:
    """See the module. Trials may be nested; the inner one must end first."""

    def __init__(self, cluster: LoadedCluster) -> None:
        self.cluster = cluster
        self._cache = cluster.cache
        self._undo = ExitStack()
        self._transaction: CacheTransaction | None = None
        self._ordered: dict[str, set[str]] = {}
        """By kind: the namespaces in which the order of objects is restored when the trial ends."""

    def __enter__(self) -> Self:
        now = self.cluster.clock.now
        self._undo.callback(lambda: self._set_clock(now))
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()

    def keep(self, inner: Trial) -> None:
        """Keeps the changes of an inner trial when the inner trial ends. They are undone when this trial ends."""
        self._transaction = None
        self._undo.enter_context(inner._undo.pop_all())

    # Nodes, objects and policies

    def set_node(self, node: Node) -> None:
        """Adds or changes a node."""
        known = self._cache.present(node.name)
        before = None if known is None else known.node
        self._cache.set_node(node)
        if before is None:
            self._changed(lambda: self._cache.remove_node(node.name))
        else:
            self._changed(lambda: self._cache.set_node(before))

    def remove_node(self, name: str) -> None:
        """Removes the node. Its pods no longer count. Raises KeyError if the node does not exist."""
        info = self._cache.nodes[name]
        node = info.node
        if node is None:
            raise KeyError(name)
        order = None if info.pods else [*self._cache.nodes]
        self._cache.remove_node(name)

        def undo() -> None:
            self._cache.set_node(node)
            if order is not None:  # the cache has dropped the node, and now has it at the end
                nodes = self._cache.nodes
                for later in order[order.index(name) + 1 :]:
                    nodes[later] = nodes.pop(later)

        self._changed(undo)

    def set_object(self, kind: str, raw: Raw) -> None:
        """Adds or replaces an object of the object store. Raises InvalidObjectError without a name."""
        namespace, name = key_of(raw)
        before = self._cache.store.get(kind, name, namespace)
        self._cache.set_object(kind, raw)
        if before is None:
            self._changed(lambda: self._cache.remove_object(kind, name, namespace))
        else:
            self._changed(lambda: self._cache.set_object(kind, before))

    def remove_objects(self, kind: str, keys: Sequence[tuple[str, str]]) -> None:
        """Removes objects by namespace and name; unknown ones are ignored. The first call costs as much as all objects
        of the kind in these namespaces.
        """
        store = self._cache.store
        known = [raw for namespace, name in keys if (raw := store.get(kind, name, namespace)) is not None]
        if not known:
            return
        new = {key_of(raw)[0] for raw in known} - self._ordered.get(kind, set())
        order = store.order(kind, new)
        self._ordered.setdefault(kind, set()).update(new)
        for raw in known:
            namespace, name = key_of(raw)
            self._cache.remove_object(kind, name, namespace)

        def undo() -> None:
            for raw in known:
                self._cache.set_object(kind, raw)
            if new:  # what was removed later is back already
                store.restore_order(kind, order)

        self._changed(undo)

    def set_claim_template(self, raw: Raw) -> None:
        """Adds or replaces a ResourceClaimTemplate. Raises InvalidObjectError."""
        key, templates = template_key(raw), self.cluster.claim_templates
        before, templates[key] = templates.get(key), spec_of_template(raw)
        self._changed(lambda: _put_back(templates, key, before))

    def set_owner(self, raw: Raw) -> None:
        """Adds or replaces an owner of pods, as WorkloadGroupings read it. Raises InvalidObjectError."""
        owners, kind = self.cluster.made_groups.owners, kind_of(raw)
        before = owners.get(str(raw["metadata"].get("uid")))
        owner = self.cluster.made_groups.take_owner(raw, kind)
        if owner is not None:
            self._changed(lambda: owners.gone(owner.uid) if before is None else owners.seen(before))

    def apply_policy(self, raw: Raw) -> ApplyResult:
        """Applies a SchedulerPolicy in place of one of the same name, even of the same generation. The result says what
        is wrong with it.
        """
        known, policies = self.cluster.policy_objects, self.cluster.policies
        name, _, _ = identity_of(raw)
        before = known.get(name)
        if before is not None:
            policies.remove(name)
        result = policies.apply(raw)
        self.cluster.policies_changed()
        known[name] = raw
        self._changed(lambda: self._put_policy_back(name, before))
        return result

    def remove_policy(self, name: str) -> bool:
        """Removes a SchedulerPolicy. Returns whether there was one."""
        known, policies = self.cluster.policy_objects, self.cluster.policies
        before = known.pop(name, None)
        if before is None:
            return False
        policies.remove(name)
        self.cluster.policies_changed()
        self._changed(lambda: self._put_policy_back(name, before))
        return True

    def _put_policy_back(self, name: str, before: Raw | None) -> None:
        self.cluster.policies.remove(name)
        _put_back(self.cluster.policy_objects, name, before)
        if before is not None:
            self.cluster.policies.apply(before)
        self.cluster.policies_changed()

    def set_queue(self, raw: Raw) -> None:
        """Adds or replaces a queue of any API. Raises InvalidObjectError, also for what other queues make invalid."""
        queues, names, kind = self.cluster.queues, self.cluster.queue_names, queue_kind_of(raw) or SCHEDULING_QUEUES
        known, rules = self.cluster.queue_objects[kind], kind.parse(raw)
        name = rules.name
        restore, raw_before, known_problem = queues.restorer(), known.get(name), queues.problem(name)
        before = names.claimed(kind, name)
        names.claim(kind, name, rules)
        known[name] = raw

        def undo() -> None:
            if isinstance(before, QueueRules):
                names.claim(kind, name, before)
            else:
                names.release(kind, name)
                if before is not None:
                    names.refuse(kind, name, before)
            restore()
            _put_back(known, name, raw_before)

        self._changed(undo)
        problem = queues.problem(name)
        if problem is None or not kind.refuses(problem):
            return
        if name in queues.structure.invalid or str(problem) != str(known_problem):
            raise problem

    # Pods

    def with_claims(self, pod: PodInfo) -> PodInfo:
        """The pod with claims of its own for its templates, and in its group, as it is to wait."""
        return with_claims(self.cluster, self, pod)

    def add_pending(self, pod: PodInfo) -> None:
        """A pod waits from now on. It counts as a member of its group."""
        pending, groups, nominator = self.cluster.pending, self._cache.groups, self._cache.nominator
        pending[pod.uid] = pod
        groups.add_waiting(pod)

        def undo() -> None:
            pending.pop(pod.uid, None)
            groups.remove_waiting(pod.uid)
            nominator.remove(pod.uid)

        self._changed(undo)

    def drop_pending(self, pods: Sequence[PodInfo]) -> None:
        """Takes these pods out of the waiting ones. Raises KeyError if one did not wait. The cost grows with all that
        wait, so drop many at once.
        """
        pending, groups, nominator = self.cluster.pending, self._cache.groups, self._cache.nominator
        order, before = dict(pending), nominator.copy()
        for pod in pods:
            del pending[pod.uid]
            groups.remove_waiting(pod.uid)
            nominator.remove(pod.uid)

        def undo() -> None:
            pending.clear()
            pending.update(order)
            for pod in reversed(pods):
                groups.add_waiting(pod)
            nominator.restore(before)

        self._changed(undo)
        free_claims(self.cluster, self, pods)

    def place(self, framework: Framework, placement: Placement) -> Status | None:
        """Assumes the pod on its node and reserves. Returns why a plugin refused it. Raises PluginError."""
        transaction = self._open()
        pod, start = placement.pod, transaction.checkpoint()
        refused = reserve(transaction, framework, placement.state, pod, placement.node_name)
        if refused is not None:
            return refused
        try:
            refused = permitted(framework, placement)
        except PluginError:
            transaction.rollback(start)
            raise
        if refused is not None:
            transaction.rollback(start)
            return refused
        transaction.clear_nomination(pod.uid)
        write_reserved(self.cluster, self, framework, placement)
        return None

    def put(self, pod: PodInfo, node_name: str) -> None:
        """Puts the pod on the node without a decision."""
        self._open().assume(pod, node_name)

    def evict(self, pods: Sequence[PodInfo]) -> Sequence[Change]:
        """Removes pods from their nodes, and frees their claims. Returns the changes of these claims."""
        self._open().remove(pods)
        return free_claims(self.cluster, self, pods)

    def follow_up(self, follow_ups: Sequence[FollowUp]) -> Sequence[Change]:
        """Applies the plugins' changes of claims after a rejection. Returns the changes."""
        return take_back(self.cluster, self, follow_ups)

    def nominate(self, pod: PodInfo, node_name: str) -> None:
        """Nominates the pod to the node. An empty name withdraws the nomination."""
        nominator = self._cache.nominator
        transaction = self._open()
        if not node_name:
            transaction.clear_nomination(pod.uid)
            return
        before = nominator.copy()
        nominator.add(pod, node_name)
        transaction.on_rollback(lambda: nominator.restore(before))

    def hold(self, reservation: Reservation) -> None:
        """Adds a reservation, of a name that no other one has."""
        self._cache.reservations.set(reservation)
        self._changed(lambda: self._cache.reservations.remove(reservation.name))

    # Internals

    def _open(self) -> CacheTransaction:
        if self._transaction is None:
            self._transaction = self._undo.enter_context(CacheTransaction(self._cache))
        return self._transaction

    def _changed(self, undo: Callable[[], object]) -> None:
        self._transaction = None
        self._undo.callback(undo)

    def _set_clock(self, now: float) -> None:
        self.cluster.clock.now = now


def _put_back(known: dict[K, Raw], key: K, before: Raw | None) -> None:
    """Restores the entry of this key; None: removes it."""
    if before is None:
        known.pop(key, None)
    else:
        known[key] = before


def pods_on(cluster: LoadedCluster, node_name: str) -> Sequence[PodInfo]:
    """The pods on a node that exists, those that were only assumed, too."""
    info = cluster.cache.present(node_name)
    return [] if info is None else [*info.pods.values()]


def created_anew(cluster: LoadedCluster, pod: PodInfo, name: str, uid: str = "") -> PodInfo:
    """The pod that a controller creates in place of this one. It has no claims of its templates yet. `uid`: empty for
    one made of the pod's.
    """
    raw = pod.raw or cluster.assigned.get(pod.uid)
    uid = uid or f"{pod.uid}/{name}/again"
    return replace(
        pod,
        name=name,
        uid=uid,
        key=f"{pod.namespace}/{name}",
        node_name="",
        nominated_node_name="",
        phase="Pending",
        start_time=None,
        preempted=False,
        terminating=False,
        generated_claims={},
        raw=None if raw is None else _raw_anew(raw, name, uid),
    )


def _raw_anew(raw: Raw, name: str, uid: str) -> Raw:
    spec = raw.get("spec")
    spec = {key: value for key, value in spec.items() if key != "nodeName"} if isinstance(spec, Mapping) else spec
    return {**raw, "metadata": {**raw["metadata"], "name": name, "uid": uid}, "spec": spec, "status": {}}
