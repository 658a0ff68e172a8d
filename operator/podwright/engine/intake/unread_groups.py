"""Pods that carry the metadata of a pod group which nothing here reads: they start one by one, and one event of the
first pod of each owner says so. Not if a WorkloadGrouping says how many pods start together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from podwright.core.objects.pod import PodInfo
from podwright.core.objects.raw import Raw
from podwright.core.state.pod_groups import PodGroups
from podwright.engine.ports import Recorder

UNREAD: Final = "PodGroupNotRead"
"""The reason of the event."""
MAX_OWNERS: Final = 1_024
"""How many owners are remembered. When there are more, all are forgotten, and may get a second event."""
_OTHERS: Final[Mapping[str, str]] = {
    "yunikorn.apache.org/task-group-name": "YuniKorn's task groups",
    "yunikorn.apache.org/task-groups": "YuniKorn's task groups",
    "alpha.jobset.sigs.k8s.io/exclusive-topology": "JobSet's exclusive topology, which only JobSet's webhooks put into pods",
}
"""Annotations of others, and what they ask for. Sources: YuniKorn's k8shim `pkg/common/constants/constants.go`,
JobSet's `api/jobset/v1alpha2/jobset_types.go`.
"""


class UnreadGroups:
    """See the module. `has_minimum`: whether a grouping says how many pods start together with a pod."""

    def __init__(self, groups: PodGroups, recorder: Recorder, *, has_minimum: Callable[[PodInfo], bool]) -> None:
        self._groups = groups
        self._has_minimum = has_minimum
        self._recorder = recorder
        self._reported: set[str] = set()

    def check(self, pod: PodInfo, raw: Raw) -> None:
        """Records the event for a new pod, unless its owner has one."""
        text = self._problem(pod, raw)
        owner = pod.uid if pod.owner is None else pod.owner.uid
        if not text or owner in self._reported or self._has_minimum(pod):
            return
        if len(self._reported) >= MAX_OWNERS:
            self._reported.clear()
        self._reported.add(owner)
        self._recorder.record(pod, "Warning", UNREAD, "Scheduling", f"{text}: the pod is scheduled without it")

    def _problem(self, pod: PodInfo, raw: Raw) -> str:
        if pod.group and not self._groups.is_member(pod):
            api, _, name = pod.group.partition(":")
            group = name.rpartition("/")[2]
            why = "which the API server does not serve, or which we may not read"
            return f"the pod names pod group {group} of {api}, {why}"
        annotations = raw["metadata"].get("annotations")
        if pod.group or not isinstance(annotations, Mapping):
            return ""
        found = next((what for key, what in _OTHERS.items() if key in annotations), "")
        return f"the pod asks for {found}, and no pod group says which pods belong together" if found else ""
