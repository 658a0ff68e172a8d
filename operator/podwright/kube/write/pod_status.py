"""The status of pending pods: the condition PodScheduled=False and `nominatedNodeName`, by strategic merge patch.

Invariant: what a pod's status says already, as the watch showed it or as we wrote it, is not written again; the newest
verdict counts. Each patch names the uid and the resourceVersion, so a pod that was bound meanwhile is not called
unschedulable. Texts and rules follow kube-scheduler's failure handler. The queue is in `work_queue`, retries are in
`queued_status`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.times import rfc3339
from podwright.engine.ports import Verdict
from podwright.kube.client.media_types import STRATEGIC_PATCH
from podwright.kube.client.object_metadata import resource_version
from podwright.kube.kinds import POD
from podwright.kube.write.queued_status import QueuedStatusWriter


@dataclass(slots=True)
class _KnownStatus:
    """The known status of a pending pod. `scheduled`: the status of the condition PodScheduled, empty without one."""

    version: int
    generation: int
    scheduled: str
    verdict: Verdict
    nominated_node: str

    def apply(self, change: _Change) -> None:
        """The change was written, or is being written."""
        if change.verdict is not None:
            self.scheduled, self.verdict = "False", change.verdict
        if change.nominated_node is not None:
            self.nominated_node = change.nominated_node


@dataclass(slots=True)
class _Change:
    """A change of the status. A field that is None leaves that part unchanged."""

    pod: PodInfo
    verdict: Verdict | None
    nominated_node: str | None
    failures: int = 0

    @property
    def about(self) -> str:
        return f"pod {self.pod.key}"

    def absorb(self, older: _Change) -> None:
        self.verdict = self.verdict or older.verdict
        self.nominated_node = older.nominated_node if self.nominated_node is None else self.nominated_node


_NO_VERDICT: Final = Verdict("", "")


class PodStatusWriter(QueuedStatusWriter[_KnownStatus, _Change]):
    """Implements `StatusWriter`."""

    written = "the status of pods"

    def seen(self, uid: str, raw: Mapping[str, Any]) -> None:
        status = raw.get("status")
        status = status if isinstance(status, Mapping) else {}
        generation = raw["metadata"].get("generation")
        known = _KnownStatus(
            version=resource_version(raw),
            generation=generation if isinstance(generation, int) else 0,
            scheduled="",
            verdict=_NO_VERDICT,
            nominated_node=str(status.get("nominatedNodeName") or ""),
        )
        for condition in status.get("conditions") or ():
            if isinstance(condition, Mapping) and condition.get("type") == "PodScheduled":
                known.scheduled = str(condition.get("status") or "")
                known.verdict = Verdict(str(condition.get("reason") or ""), str(condition.get("message") or ""))
        self._known[uid] = known

    def write(self, pod: PodInfo, verdict: Verdict | None, nominated_node: str | None) -> None:
        queued = self._queue.get(pod.uid)
        if queued is None:
            change = _Change(pod=pod, verdict=verdict, nominated_node=nominated_node)
            # While another change is being written, this one may have to undo it.
            if pod.uid in self._queue or self._patch(change) is not None:
                self._queue.add(pod.uid, change)
            return
        queued.pod = pod
        queued.verdict = verdict or queued.verdict
        queued.nominated_node = queued.nominated_node if nominated_node is None else nominated_node

    def _on_gone(self, key: str) -> None:
        self._known.pop(key, None)

    async def _write(self, _key: str, change: _Change) -> None:
        patch = self._patch(change)
        if patch is None:
            return
        pod, known = change.pod, self._known[change.pod.uid]
        before = replace(known)
        known.apply(change)
        try:
            answer = await self._http.call("PATCH", POD.path(pod.name, pod.namespace, "status"), patch, STRATEGIC_PATCH)
        except BaseException:
            if self._known.get(pod.uid) is known:
                self._known[pod.uid] = before
            raise
        now = self._known.get(pod.uid)
        if now is not None and (version := resource_version(answer)) >= now.version:
            # While the patch was under way, the watch may have shown the status from before it.
            now.apply(change)
            now.version = version

    def _patch(self, change: _Change) -> dict[str, Any] | None:
        """The patch that makes the change; None if the status says so already, or the pod is not pending."""
        known = self._known.get(change.pod.uid)
        if known is None:
            return None
        status: dict[str, Any] = {}
        if change.verdict is not None and (known.scheduled != "False" or known.verdict != change.verdict):
            condition: dict[str, Any] = {
                "type": "PodScheduled",
                "status": "False",
                "reason": change.verdict.reason,
                "message": change.verdict.message,
                "observedGeneration": known.generation,
            }
            if known.scheduled != "False":
                condition["lastTransitionTime"] = rfc3339(self._clock())
            status["conditions"] = [condition]
        if change.nominated_node is not None and known.nominated_node != change.nominated_node:
            status["nominatedNodeName"] = change.nominated_node or None
        if not status:
            return None
        metadata = {"uid": change.pod.uid}
        if known.version:
            metadata["resourceVersion"] = str(known.version)
        return {"metadata": metadata, "status": status}
