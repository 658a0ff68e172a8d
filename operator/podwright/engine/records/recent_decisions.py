"""The last decisions about each pod, in short, for those who ask why a pod waits. The annotation of a placed pod keeps
its decision permanently.

Bounded: MOST_PODS pods, OF_A_POD decisions about each, and LONGEST characters in each text. The pods whose last
decision is the oldest are dropped first. The LATEST decisions about all pods are also kept in their order. Nothing here
refers to a pod, a node or a column, so that their memory is free when they are gone.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Final

from podwright.core.cycle import Decision, Fault, Placement, Rejection
from podwright.core.gangs.decisions import GangDecision, GangFault, GangPlacement, GangRejection
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo

MOST_PODS: Final = 1000
OF_A_POD: Final = 3
LATEST: Final = 200
LONGEST: Final = 1024
"""Characters of a message, as in an event."""
MOST_REASONS: Final = 20
MOST_VICTIMS: Final = 10


@dataclass(slots=True)
class RecentDecision:
    """One decision. Treat it as immutable; creating a frozen instance would take three times as long. `outcome`:
    Placed, Rejected or Failed. `at`: seconds since the epoch. `policy`: name and generation.

    `reasons`: how many nodes each plugin rejected for each reason. `victims`: namespace/name of pods that it evicts.
    """

    outcome: str
    at: float
    policy: str
    node: str = ""
    score: int | None = None
    runner_up: tuple[str, int] | None = None
    evaluated: int = 0
    feasible: int = 0
    rejected: Mapping[str, int] | None = None
    message: str = ""
    reasons: Mapping[str, Mapping[str, int]] | None = None
    nominated: str = ""
    victims: tuple[str, ...] = ()
    victim_count: int = 0


class RecentDecisions:
    """See the module. `wall` gives seconds since the epoch."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._by_pod: OrderedDict[str, list[RecentDecision]] = OrderedDict()
        """By namespace/name."""
        self._latest: deque[tuple[str, RecentDecision]] = deque(maxlen=LATEST)
        self._count = 0

    @property
    def count(self) -> int:
        """The number of decisions so far."""
        return self._count

    def since(self, count: int) -> Sequence[tuple[str, RecentDecision]]:
        """The decisions after the first `count`, or the LATEST of them: each with its pod's namespace/name, the oldest
        first.
        """
        new = min(max(0, self._count - count), len(self._latest))
        return [*islice(self._latest, len(self._latest) - new, None)]

    def of(self, key: str) -> Sequence[RecentDecision]:
        """The last decisions about the pod with this namespace/name, the newest first."""
        return [*reversed(self._by_pod.get(key, ()))]

    def __len__(self) -> int:
        return len(self._by_pod)

    def forget(self, key: str) -> None:
        """Forgets the pod with this namespace/name."""
        self._by_pod.pop(key, None)

    def add(self, decision: Decision, policy: str) -> None:
        """A decision about one pod. `policy`: its name and generation."""
        if isinstance(decision, Placement):
            self._placed(decision, policy)
        elif isinstance(decision, Rejection):
            self._rejected(decision, policy, decision.message)
        elif isinstance(decision, Fault):
            self._failed((decision.pod,), decision.message, policy)

    def add_group(self, decision: GangDecision, pods: Sequence[PodInfo], policy: str) -> None:
        """A decision about the members of a group."""
        if isinstance(decision, GangPlacement):
            for placement in decision.placements:
                self._placed(placement, policy)
            for rejection in decision.rejections:
                self._rejected(rejection, policy, rejection.message)
        elif isinstance(decision, GangRejection):
            for pod in islice(pods, MOST_PODS):
                own = decision.attempts.get(pod.uid)
                if isinstance(own, Rejection):
                    self._rejected(own, policy, decision.message)
                else:
                    self._put(
                        pod,
                        RecentDecision(
                            outcome="Rejected", at=self._wall(), policy=policy, message=decision.message[:LONGEST]
                        ),
                    )
        elif isinstance(decision, GangFault):
            self._failed([*islice(pods, MOST_PODS)], decision.message, policy)

    def _placed(self, placement: Placement, policy: str) -> None:
        made = RecentDecision(
            outcome="Placed",
            at=self._wall(),
            policy=policy,
            node=placement.node_name,
            score=placement.score,
            runner_up=placement.runner_up,
            evaluated=placement.evaluated,
            feasible=placement.feasible,
            rejected=placement.rejected,
        )
        self._put(placement.pod, made)

    def _rejected(self, rejection: Rejection, policy: str, message: str) -> None:
        reasons = {
            plugin: {reason[:LONGEST]: count for reason, count in counts.most_common(MOST_REASONS)}
            for plugin, counts in islice(rejection.diagnosis.reasons_by_plugin().items(), MOST_REASONS)
        }
        self._put(
            rejection.pod,
            RecentDecision(
                outcome="Rejected",
                at=self._wall(),
                policy=policy,
                evaluated=rejection.diagnosis.total,
                message=message[:LONGEST],
                reasons=reasons,
                nominated=rejection.nominated_node or "",
                victims=tuple(victim.key for victim in rejection.victims[:MOST_VICTIMS]),
                victim_count=len(rejection.victims),
            ),
        )

    def _failed(self, pods: Sequence[PodInfo], message: str, policy: str) -> None:
        made = RecentDecision(outcome="Failed", at=self._wall(), policy=policy, message=message[:LONGEST])
        for pod in pods:
            self._put(pod, made)

    def _put(self, pod: PodInfo, decision: RecentDecision) -> None:
        known = self._by_pod.get(pod.key)
        if known is None:
            known = self._by_pod[pod.key] = []
            if len(self._by_pod) > MOST_PODS:
                self._by_pod.popitem(last=False)
        else:
            self._by_pod.move_to_end(pod.key)
        known.append(decision)
        del known[:-OF_A_POD]
        self._latest.append((pod.key, decision))
        self._count += 1
