"""The status of pending pods: the condition PodScheduled=False and `nominatedNodeName`, by strategic merge patch.

WorkQueue are kept by pod, the newest counts, and a few workers carry them out behind the bindings. What a pod says already, as the
watch showed it or as we wrote it, is not written again. Source of the texts and rules: kube-scheduler's failure handler.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from podwright.core.framework.interface import ClusterError
from podwright.core.objects.pod import PodInfo
from podwright.engine.ports import Verdict
from podwright.kube.client.errors import is_not_found, is_retryable_write, uid_mismatch
from podwright.kube.client.http import Http
from podwright.kube.client.media_types import STRATEGIC_PATCH
from podwright.kube.client.objects import resource_version
from podwright.kube.client.times import rfc3339
from podwright.kube.kinds import POD
from podwright.kube.write.work_queue import PATIENCE, Work, WorkQueue

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Said:
    """What a pending pod's status says. `status`: of the condition PodScheduled, empty without one."""

    version: int
    generation: int
    status: str
    verdict: Verdict
    nominated_node: str

    def take(self, wish: _WorkItem) -> None:
        """That is what it says now."""
        if wish.verdict is not None:
            self.status, self.verdict = "False", wish.verdict
        if wish.nominated_node is not None:
            self.nominated_node = wish.nominated_node


@dataclass(slots=True)
class _WorkItem:
    pod: PodInfo
    verdict: Verdict | None
    nominated_node: str | None
    tries: int = 0

    def absorb(self, older: _WorkItem) -> None:
        self.verdict = self.verdict or older.verdict
        self.nominated_node = older.nominated_node if self.nominated_node is None else self.nominated_node


_NOTHING: Final = Verdict("", "")


class PodStatusWriter:
    """Implements `StatusWriter`. `run` is the work; `clock` gives seconds since the epoch."""

    def __init__(self, http: Http, clock: Callable[[], float]) -> None:
        self._http = http
        self._clock = clock
        self._said: dict[str, _Said] = {}
        self._work_queue = WorkQueue(Work[_WorkItem]("the status of pods", self._carry_out, self._failed))

    def seen(self, uid: str, raw: Mapping[str, Any]) -> None:
        status = raw.get("status")
        status = status if isinstance(status, Mapping) else {}
        generation = raw["metadata"].get("generation")
        said = _Said(
            resource_version(raw),
            generation if isinstance(generation, int) else 0,
            "",
            _NOTHING,
            str(status.get("nominatedNodeName") or ""),
        )
        for condition in status.get("conditions") or ():
            if isinstance(condition, Mapping) and condition.get("type") == "PodScheduled":
                said.status = str(condition.get("status") or "")
                said.verdict = Verdict(str(condition.get("reason") or ""), str(condition.get("message") or ""))
        self._said[uid] = said

    def forget(self, uid: str) -> None:
        self._said.pop(uid, None)
        if not self._said:
            self._said.clear()  # an empty dict keeps the room that a burst took
        self._work_queue.drop(uid)

    def write(self, pod: PodInfo, verdict: Verdict | None, nominated_node: str | None) -> None:
        wish = self._work_queue.get(pod.uid)
        if wish is None:
            # What is being written just now may have to be taken back.
            if not self._work_queue.open(pod.uid) and self._patch(_WorkItem(pod, verdict, nominated_node)) is None:
                return
            self._work_queue.add(pod.uid, _WorkItem(pod, verdict, nominated_node))
            return
        wish.pod = pod
        wish.verdict = verdict or wish.verdict
        wish.nominated_node = wish.nominated_node if nominated_node is None else nominated_node

    async def run(self) -> None:
        """Writes what is wished for, until it is cancelled."""
        await self._work_queue.run()

    async def flush(self, grace: float) -> None:
        """Waits until nothing waits to be written, at most `grace` seconds."""
        await self._work_queue.flush(grace)

    def _failed(self, uid: str, wish: _WorkItem, error: ClusterError) -> None:
        if is_not_found(error) or uid_mismatch(error):
            self._said.pop(uid, None)
            return
        wish.tries += 1
        passing = is_retryable_write(error)
        if not passing or wish.tries == PATIENCE:
            log.warning("cannot write the status of pod %s: %s", wish.pod.key, error)
        if passing and uid in self._said:
            self._work_queue.again(uid, wish, error)

    async def _carry_out(self, _uid: str, wish: _WorkItem) -> None:
        patch = self._patch(wish)
        if patch is None:
            return
        pod, said = wish.pod, self._said[wish.pod.uid]
        before = replace(said)
        said.take(wish)
        try:
            answer = await self._http.call("PATCH", POD.path(pod.name, pod.namespace, "status"), patch, STRATEGIC_PATCH)
        except BaseException:
            if self._said.get(pod.uid) is said:
                self._said[pod.uid] = before
            raise
        now = self._said.get(pod.uid)
        if now is not None and (version := resource_version(answer)) >= now.version:
            # The watch may have shown it meanwhile as it was before.
            now.take(wish)
            now.version = version

    def _patch(self, wish: _WorkItem) -> dict[str, Any] | None:
        """What has to be written so that the status is as wished; None if it is so already, or the pod is not pending."""
        said = self._said.get(wish.pod.uid)
        if said is None:
            return None
        status: dict[str, Any] = {}
        if wish.verdict is not None and (said.status != "False" or said.verdict != wish.verdict):
            condition: dict[str, Any] = {
                "type": "PodScheduled",
                "status": "False",
                "reason": wish.verdict.reason,
                "message": wish.verdict.message,
                "observedGeneration": said.generation,
            }
            if said.status != "False":
                condition["lastTransitionTime"] = rfc3339(self._clock())
            status["conditions"] = [condition]
        if wish.nominated_node is not None and said.nominated_node != wish.nominated_node:
            status["nominatedNodeName"] = wish.nominated_node or None
        if not status:
            return None
        metadata = {"uid": wish.pod.uid}
        if said.version:
            # So that a pod that was bound meanwhile is not called unschedulable after all.
            metadata["resourceVersion"] = str(said.version)
        return {"metadata": metadata, "status": status}
