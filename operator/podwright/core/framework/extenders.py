"""The answers of extenders about one pod, as the scheduling cycle uses them.

The core calls no extenders. `core/extended_cycle.py` says which nodes to ask about, the engine asks, and the cycle is
finished with the answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from podwright.core.framework.status import Code, Status
from podwright.core.objects.dataclass import dataclass

EXTENDER: Final = "Extender"
"""The name that stands for the rejecting plugin if extenders rejected a pod. Any event may help the pod. Source:
`ExtenderName` in kube-scheduler.
"""
_UNMENTIONED: Final = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (), EXTENDER)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderAnswers:
    """`asked`: the nodes that the extenders were asked about; `kept`: those that none of them rejected.

    `failed`: why nodes were rejected, by name, in words for the user. It may name any node, also unknown ones.
    `scores`: what to add to the scores of nodes.
    """

    asked: frozenset[str]
    kept: frozenset[str]
    failed: Mapping[str, Status]
    scores: Mapping[str, int]

    def status_of(self, name: str) -> Status:
        """The status of a node that was asked about and not kept. Without a reason, preemption is no help: as in
        kube-scheduler.
        """
        return self.failed.get(name, _UNMENTIONED)
