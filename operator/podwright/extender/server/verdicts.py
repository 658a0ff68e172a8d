"""Answers about nodes: which pass a policy's filters, how it scores them, and which victims it accepts.

The core decides, on the cache that the watches keep. Everything here runs in the cache's thread, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.cycle import find_feasible
from podwright.core.framework.diagnosis import NodeDiagnosis
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import CycleState, Feasible, Int64s, WholeNumbers
from podwright.core.framework.status import Code, Status
from podwright.core.objects.compaction import RecentCache, compact_regularly
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.preemption.budgets import StoredBudgets
from podwright.core.preemption.evaluator import Candidate, select_victims
from podwright.core.preemption.units import priority_of
from podwright.core.state.cache import Cache
from podwright.engine.policies.active_policies import ActivePolicies
from podwright.engine.policies.active_policy import ActivePolicy
from podwright.engine.process.steps import Steps
from podwright.engine.records.local_budgets import LocalBudgets
from podwright.extender.wire import MAX_EXTENDER_PRIORITY, MetaVictims

UNKNOWN_NODE: Final = "node(s) not known to the extender"
"""Why a node is rejected that the cache lacks: the watch may be late."""

_MOST: Final = 2**63 - 1


class UnusablePolicyError(Exception):
    """No policy has the name in the URL, or the policy was refused. The message is for the pod's event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterVerdict:
    """The nodes that pass, as positions in the names that were asked about, and the messages about the others by
    name.
    """

    kept: NDArray[np.intp]
    failed: Mapping[str, str]
    unresolvable: Mapping[str, str]
    """The failed nodes on which preemption would not help either, with reasons."""


class ExtenderVerdicts:
    """See the module. Each method raises UnusablePolicyError, and PluginError if a plugin fails.

    `policy_name`: the policy of the URL; empty for the one that matches the pod.
    """

    def __init__(self, cache: Cache, policies: ActivePolicies, local_budgets: LocalBudgets) -> None:
        self._cache = cache
        self._policies = policies
        self._local_budgets = local_budgets
        self._budgets = StoredBudgets(cache.store)
        self._slots: RecentCache[int, tuple[Sequence[str], int, NDArray[np.intp]]] = RecentCache(4)
        self._filtered: tuple[PodInfo, Framework, tuple[int, ...], CycleState] | None = None
        """The last `filter`: its pod, the framework, the version of the cache, and the state after PreFilter."""
        self._decided: PodInfo | None = None
        """The pod that was filtered last. What is asked about it next belongs to the same decision."""
        compact_regularly(self)

    def compact(self) -> None:
        """Forgets the pod that was filtered last."""
        self._filtered = self._decided = None

    def policy_for(self, pod: PodInfo, policy_name: str) -> ActivePolicy:
        """The policy that decides. Pods whose scheduler name no policy serves get the built-in default."""
        if policy_name:
            policy = self._policies.named_for(policy_name, pod)
            if policy is None:
                raise UnusablePolicyError(
                    f'there is no SchedulerPolicy "{policy_name}", which the URL of the extender names'
                )
            if policy.compiled.shadow:
                raise UnusablePolicyError(f'policy "{policy_name}" has mode Shadow, in which it decides about no pods')
        else:
            policy = self._policies.of(pod) or self._policies.default
        if policy.refusal:
            raise UnusablePolicyError(policy.why_waits(pod))
        return policy

    def _deciding(self, pod: PodInfo, policy_name: str) -> Framework:
        """The framework of the policy that decides. The time of a local policy counts from now on.

        Its pods can wait in no lane here, because kube-scheduler decides when it asks.
        """
        policy = self.policy_for(pod, policy_name)
        if policy.account is not None:
            self._local_budgets.begin(policy.account, in_lane=True, pods=int(pod is not self._decided))
        return policy.framework

    def filter(self, pod: PodInfo, policy_name: str, names: Sequence[str]) -> FilterVerdict:
        """The nodes among these that pass the policy's filters."""
        self._decided = None
        framework, table = self._deciding(pod, policy_name), self._cache.table
        self._decided = pod
        slots = self._slots_of(names)
        within = np.zeros(table.size + 1, np.bool_)  # the last row stands for unknown nodes
        within[slots] = True
        # The caller tries the nominated node by itself.
        state, version = CycleState(), self._cache.version
        search = find_feasible(framework, self._cache, pod, state, take_nominated=False, within=within[: table.size])
        possible = table.count > 0 and search.diagnosis.pre_filter is None
        self._filtered = (pod, framework, version, state) if possible else None
        passes = np.zeros(table.size + 1, np.bool_)
        passes[search.feasible.slots] = True
        kept = passes[slots]
        if kept.all():
            return FilterVerdict(kept=np.arange(len(names)), failed={}, unresolvable={})
        others = np.flatnonzero(~kept).tolist()
        failed, unresolvable = _messages(search.diagnosis, names, slots, others)
        return FilterVerdict(kept=np.flatnonzero(kept), failed=failed, unresolvable=unresolvable)

    def prioritize(self, pod: PodInfo, policy_name: str, names: Sequence[str]) -> Int64s:
        """int64[names]: 0 to 10. The nodes that the policy scores highest, and only these, get 10; see `scaled`.

        Nodes that the cache lacks get 0. All get 0 if PreFilter rejects the pod.
        """
        framework, table = self._deciding(pod, policy_name), self._cache.table
        asked = self._slots_of(names)
        rows = np.zeros(table.size + 1, np.bool_)  # the last row stands for unknown nodes
        rows[asked] = True
        slots = np.flatnonzero(rows[: table.size])
        scores = np.zeros(table.size + 1, np.int64)
        state = self._pre_filtered(framework, pod) if len(slots) else None
        if state is not None:
            scores[slots] = scaled(framework.score(state, pod, Feasible(table, slots)))
        return scores[asked]

    def _slots_of(self, names: Sequence[str]) -> NDArray[np.intp]:
        """intp[names]: the rows of the nodes, -1 without a node."""
        table = self._cache.table
        known = self._slots.get(id(names))  # which is that of no other list, because the known ones are kept
        if known is None or known[1] != table.membership:
            known = names, table.membership, table.slots_of(names)
            self._slots.put(id(names), known)
        return known[2]

    def _pre_filtered(self, framework: Framework, pod: PodInfo) -> CycleState | None:
        """The state after PreFilter; None if PreFilter rejects the pod. The state of the last `filter` is used again if
        nothing has changed since.
        """
        known, self._filtered = self._filtered, None
        if known is not None and known[:3] == (pod, framework, self._cache.version):
            return known[3]
        state = CycleState()
        return state if framework.pre_filter(state, pod).status is None else None

    def preempt(
        self, pod: PodInfo, policy_name: str, victims: Mapping[str, MetaVictims], now: float
    ) -> Steps[Mapping[str, MetaVictims]]:
        """The nodes where the policy, too, would preempt, each with all its victims. `now`: seconds since the epoch. A
        step for each node.

        The given victims stay victims. Pods of lower priority join them if the policy's filters need more room. Changes
        of the cache between two steps count for the following nodes.
        """
        framework = self._deciding(pod, policy_name)
        if not any(plugin.preempts for plugin in framework.post_filter_plugins):
            return {}
        found: dict[str, MetaVictims] = {}
        version = None
        for node_name, given in victims.items():
            if version != self._cache.version:
                state, version = CycleState(), self._cache.version
                outcome = framework.pre_filter(state, pod)
            if outcome.status is not None:
                return {}
            if outcome.node_names is None or node_name in outcome.node_names:
                corrected = self._victims_on(framework, state, pod, node_name, given, now)
                if corrected is not None:
                    found[node_name] = corrected
            yield
        return found

    def _victims_on(
        self, framework: Framework, state: CycleState, pod: PodInfo, node_name: str, given: MetaVictims, now: float
    ) -> MetaVictims | None:
        node = self._cache.present(node_name)
        if node is None:
            return None
        chosen = frozenset(given.uids)
        known = [node.pods[uid] for uid in given.uids if uid in node.pods]
        if any(priority_of(victim, self._cache.groups) >= pod.priority for victim in known):
            return None
        candidate = select_victims(framework, state, pod, node, self._cache, self._budgets.rules(), now, chosen)
        if not isinstance(candidate, Candidate):
            return None
        # Victims on other nodes, of a group that is evicted as a whole, are not for this node's list: the caller knows
        # only pods on it.
        uids = [victim.uid for victim in candidate.victims if victim.uid in node.pods]
        late = [uid for uid in given.uids if uid not in node.pods]
        return MetaVictims((*uids, *late), candidate.violations) if uids or late else None


def scaled(totals: WholeNumbers) -> NDArray[np.int64]:
    """int64[nodes]: totals of weighted scores as the protocol's 0 to 10.

    The greatest total becomes 10, the least 0, and those between are in proportion, rounded down, so that no other node
    gets the 10 of the best. If all are equal, all become 10.
    """
    totals = totals.astype(np.int64)
    least, greatest = int(totals.min()), int(totals.max())
    if least == greatest:
        return np.full(len(totals), MAX_EXTENDER_PRIORITY, np.int64)
    span = greatest - least
    if span > _MOST // MAX_EXTENDER_PRIORITY:  # weights can be that great
        exact = ((total - least) * MAX_EXTENDER_PRIORITY // span for total in totals.tolist())
        return np.fromiter(exact, np.int64, len(totals))
    return (totals - least) * MAX_EXTENDER_PRIORITY // span


def _messages(
    diagnosis: NodeDiagnosis, names: Sequence[str], slots: NDArray[np.intp], rejected: Sequence[int]
) -> tuple[dict[str, str], dict[str, str]]:
    """The messages about the rejected names: those that preemption may resolve, and the others."""
    statuses = diagnosis.statuses()
    failed: dict[str, str] = {}
    unresolvable: dict[str, str] = {}
    messages: dict[int, str] = {}
    for position in rejected:
        status: Status | None = statuses.get(int(slots[position]))
        if status is None:
            unresolvable[names[position]] = UNKNOWN_NODE
            continue
        message = messages.get(id(status))
        if message is None:
            message = messages[id(status)] = status.message
        final = status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        (unresolvable if final else failed)[names[position]] = message
    return failed, unresolvable
