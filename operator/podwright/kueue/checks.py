"""Answers the checks of ours that Workloads with quota name. Start here.

Kopf's handlers (`handlers.py`) say what has changed. Workers take the changed Workloads one by one, and no two workers
take the same Workload. Workloads whose decision takes longer than a slice have a worker of their own, so no other waits
for them:

    no quota any more, evicted, finished, deleted ─► its place is given back
    our check is Pending ─► decide ─┬─► fits: hold the place, wait a moment, decide again ─► same place: Ready
                                    │                                     └─► another place: hold that, and again
                                    └─► does not fit: give the place back, Retry

The scheduler learns of the place a moment later, and may have placed other pods there meanwhile. Hence the second
decision. Only the state, the message, the pause before the retry and the label of the place are written, and only onto
the very version of the Workload that was decided about.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import repeat
from typing import Any, Final, Literal

from podwright.core.framework.interface import ClusterError
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.raw import Raw
from podwright.core.objects.times import rfc3339
from podwright.core.state.deadline import TookLongError
from podwright.engine.engine import Engine
from podwright.engine.planning.elsewhere import NoChildAnswerError
from podwright.engine.ports import Recorder, Regarding
from podwright.engine.records.admission_check_metrics import CHECK_ANSWERS, CHECK_PLACES, CHECK_SECONDS, CHECK_WAITING
from podwright.engine.records.metrics import Metrics
from podwright.kube.client.errors import if_there, is_conflict, is_not_found
from podwright.kube.client.http import Http
from podwright.kube.client.media_types import APPLY_PATCH, MERGE_PATCH
from podwright.kube.client.retry import retry_until_answered
from podwright.kueue.decision import Fits, Lacks, decide
from podwright.kueue.options import CheckOptions
from podwright.kueue.places import APPLY, UID_LABEL, WORKLOAD_OF, HeldPlaces
from podwright.kueue.pod_sets import PLACE_LABEL, flavors_of
from podwright.kueue.workload import (
    ADMISSION_CHECK,
    CONTROLLER,
    FITS,
    FLAVOR,
    GROUP,
    LACKS,
    PENDING,
    READY,
    REJECTED,
    RETRY,
    VERSION,
    WORKLOAD,
    Workload,
    gone,
)

log = logging.getLogger(__name__)

WORKERS: Final = 64
"""How many Workloads are in hand at once. Most of the time they wait for SETTLE_SECONDS."""
SETTLE_SECONDS: Final = 1.0
"""The pause between the two decisions. The scheduler and its Bindings reach our cache in a part of it."""
ROUNDS: Final = 4
"""How many places are tried, if other pods take them first."""
AGAIN_SECONDS: Final = 5.0
"""The pause after a request that failed."""
AUDIT_SECONDS: Final = 0.5
"""How often one Workload is read again, in turn: a watch may miss a deletion, and a place ends without an event."""
MESSAGE: Final = 4000
"""The longest message, in characters. The API server takes 32,768."""


_EVENTS: Final[Mapping[str, tuple[Literal["Normal", "Warning"], str]]] = {
    READY: ("Normal", FITS),
    RETRY: ("Warning", LACKS),
    REJECTED: ("Warning", "NeverFits"),
}


class Checks:
    """See the module. `now`: seconds since the epoch."""

    def __init__(
        self,
        http: Http,
        engine: Engine,
        places: HeldPlaces,
        *,
        recorder: Recorder,
        metrics: Metrics,
        options: CheckOptions,
        now: Callable[[], float],
    ) -> None:
        self._http = http
        self._engine = engine
        self._places = places
        self._recorder = recorder
        self._metrics = metrics
        self._options = options
        self._now = now
        self._ours: dict[str, Raw] = {}
        """The AdmissionChecks with our controller name, by name."""
        self._known: dict[str, Raw] = {}
        """The Workloads that have quota, or have just lost it, by uid."""
        self._noes: list[float] = []
        """A heap: when the Workloads that do not fit come back, in seconds since the epoch."""
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        """Uids of Workloads; names of AdmissionChecks with a slash before them."""
        self._slow: set[str] = set()
        """The uids of known Workloads whose decision takes longer than a slice."""
        self._slow_queue: asyncio.Queue[str] = asyncio.Queue()
        self._queued: set[str] = set()
        self._in_hand: set[str] = set()
        self._changed_in_hand: set[str] = set()
        metrics.compute(CHECK_WAITING, lambda: {(): sum(map(self._waits, self._known.values()))})
        metrics.compute(CHECK_PLACES, lambda: {(): len(places)})

    # What Kopf reports

    def take_check(self, event: Mapping[str, Any]) -> None:
        """A raw event of an AdmissionCheck; its type is None for an object from a list."""
        raw = event["object"]
        name = str(raw["metadata"]["name"])
        controller = (raw.get("spec") or {}).get("controllerName")  # the API server does not ask for a spec
        if event["type"] == "DELETED" or controller != CONTROLLER:
            changed = self._ours.pop(name, None) is not None
        else:
            changed = name not in self._ours
            self._ours[name] = raw
            self._add(f"/{name}")
        for uid in self._known if changed else ():
            self._add(uid)

    def take_workload(self, event: Mapping[str, Any]) -> None:
        """A raw event of a Workload, likewise."""
        deleted = event["type"] == "DELETED"
        workload = Workload(gone(event["object"]) if deleted else event["object"])
        uid, before = workload.uid, self._known.get(workload.uid)
        if before is None and not workload.has_quota and not self._places.holds(uid):
            return
        if before is None or deleted or Workload(before).version != workload.version:
            self._known[uid] = workload.raw  # a decision about the same version goes on
        self._add(uid)

    def _add(self, key: str) -> None:
        if key in self._in_hand:
            self._changed_in_hand.add(key)
        elif key not in self._queued:
            self._queued.add(key)
            (self._slow_queue if key in self._slow else self._queue).put_nowait(key)

    # The work

    async def run(self) -> None:
        """Works until it is cancelled. The caches must be complete."""
        await retry_until_answered("admission checks", self._list_checks)
        for metadata in await self._places.adopt():
            key, uid = str(metadata["annotations"][WORKLOAD_OF]), str(metadata["labels"][UID_LABEL])
            await retry_until_answered("Workloads with a place", partial(self._read, key, uid))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._audit(), name="podwright audit of Workloads")
            for queue in (self._slow_queue, *repeat(self._queue, WORKERS)):
                tasks.create_task(self._work(queue), name="podwright admission check")

    async def _list_checks(self) -> None:
        """No place may be given back because its check is not known yet. Raises ClusterError."""
        listed = await if_there(self._http.call("GET", ADMISSION_CHECK.collection)) or {"items": ()}
        for raw in listed["items"]:
            self.take_check({"type": None, "object": raw})

    async def _work(self, queue: asyncio.Queue[str]) -> None:
        while True:
            key = await queue.get()
            self._queued.discard(key)
            self._in_hand.add(key)
            try:
                await (self._activate(key[1:]) if key.startswith("/") else self._handle(key))
            except TookLongError:
                self._slow.add(key)
                self._changed_in_hand.add(key)
            except ClusterError as error:
                log.log(logging.DEBUG if is_conflict(error) else logging.WARNING, "admission check: %s", error)
                asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._add, key)
            except Exception:
                log.exception("admission check failed")
            finally:
                self._in_hand.discard(key)
                if key in self._changed_in_hand:
                    self._changed_in_hand.discard(key)
                    self._add(key)

    async def _audit(self) -> None:
        while True:
            for uid, raw in [*self._known.items()]:
                await asyncio.sleep(AUDIT_SECONDS)
                with contextlib.suppress(ClusterError):
                    await self._read(Workload(raw).key, uid)
            await asyncio.sleep(AUDIT_SECONDS)

    async def _read(self, key: str, uid: str) -> None:
        """Reads a Workload again, as if an event had come. Raises ClusterError."""
        namespace, _, name = key.partition("/")
        raw = await if_there(self._http.call("GET", WORKLOAD.path(name, namespace)))
        if raw is not None and Workload(raw).uid == uid:
            self.take_workload({"type": None, "object": raw})
        else:
            metadata = {"namespace": namespace, "name": name, "uid": uid, "resourceVersion": ""}
            self.take_workload({"type": "DELETED", "object": {"metadata": metadata}})

    async def _activate(self, name: str) -> None:
        """Tells Kueue that somebody answers for this AdmissionCheck. Raises ClusterError."""
        raw = self._ours.get(name)
        if raw is None:
            return
        known = (raw.get("status") or {}).get("conditions") or ()
        if any(each["type"] == "Active" and each["status"] == "True" for each in known):
            return
        condition = {
            "type": "Active",
            "status": "True",
            "reason": "Active",
            "message": "Podwright answers whether the pods of a Workload fit now",
            "lastTransitionTime": rfc3339(self._now()),
            "observedGeneration": raw["metadata"]["generation"],
        }
        body = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": ADMISSION_CHECK.kind,
            "metadata": {"name": name},
            "status": {"conditions": [condition]},
        }
        await self._http.call("PATCH", ADMISSION_CHECK.path(name, subresource="status"), body, APPLY_PATCH, APPLY)

    # One Workload

    def _waits(self, raw: Raw) -> bool:
        """True if it has quota, and no answer yet."""
        workload = Workload(raw)
        return workload.has_quota and any(
            workload.checks[each]["state"] == PENDING for each in workload.named(self._ours)
        )

    async def _handle(self, uid: str) -> None:
        """Raises ClusterError and TookLongError."""
        if (raw := self._known.get(uid)) is None:
            return
        workload = Workload(raw)
        ours = workload.named(self._ours)
        states = {str(workload.checks[place]["state"]) for place in ours}
        if not workload.has_quota or not ours or states & {RETRY, REJECTED}:
            await self._places.release(uid)
            if self._known.get(uid) is raw and not workload.has_quota:
                del self._known[uid]
                self._slow.discard(uid)
                if not workload.status:  # it was deleted
                    self._recorder.forget(uid)
            return
        over = self._places.expired(uid)
        if over:
            await self._places.release(uid)
        if not workload.is_true("Admitted") and (over or PENDING in states):
            started = asyncio.get_running_loop().time()
            outcome = await self._outcome(workload)
            if isinstance(outcome, Lacks):
                await self._places.release(uid)
            if self._known.get(uid) is raw:
                verdict = await self._write(workload, ours, outcome)
                if verdict:
                    self._metrics.count(CHECK_ANSWERS, verdict)
                    self._metrics.observe(CHECK_SECONDS, asyncio.get_running_loop().time() - started, verdict)

    async def _outcome(self, workload: Workload) -> Fits | Lacks:
        """Raises ClusterError and TookLongError."""
        found = {name: await if_there(self._http.call("GET", FLAVOR.path(name))) for name in flavors_of(workload)}
        return await self._settled(workload, {name: raw for name, raw in found.items() if raw is not None})

    async def _settled(self, workload: Workload, flavors: Mapping[str, Raw]) -> Fits | Lacks:
        """Decides until the held place stays the same. Raises ClusterError and TookLongError."""
        engine, places, uid = self._engine, self._places, workload.uid
        work = partial(decide, engine.cache, engine.policies, workload, flavors, random.randrange)
        for _ in range(ROUNDS):
            try:
                found = await engine.elsewhere.compute(work) if uid in self._slow else engine.elsewhere.here(work)
            except NoChildAnswerError as error:
                return Lacks(str(error))
            if isinstance(found, Lacks):
                return found
            raws = places.reservations(workload, found.placed)
            if places.is_at(uid, raws):
                return found
            try:
                places.reserve(uid, raws)
            except InvalidObjectError as error:  # more resources than a Reservation may have
                return Lacks(str(error), never=True)
            await places.write(raws)
            await asyncio.sleep(SETTLE_SECONDS)
            if self._known.get(uid) is not workload.raw:
                return found  # which nobody writes: the new version is next
        return Lacks(f"other pods took its place {ROUNDS} times")

    def _pause(self, retries: int) -> int:
        """Seconds until the next attempt."""
        while self._noes and self._noes[0] <= self._now():
            heapq.heappop(self._noes)
        return self._options.pause(retries, len(self._noes))

    async def _write(self, workload: Workload, ours: Sequence[int], outcome: Fits | Lacks) -> str:
        """Writes the states of our checks, and returns the new one; "" if the Workload has changed, and comes again.
        Raises ClusterError.
        """
        change: dict[str, Any] = {}
        if isinstance(outcome, Fits):
            change |= {"state": READY, "message": outcome.message(held=True)}
        elif outcome.never and self._options.reject_what_never_fits:
            change |= {"state": REJECTED, "message": f"can never fit: {outcome.message}"[:MESSAGE]}
        else:
            seconds = self._pause(workload.retries(ours))
            message = f"does not fit now: {outcome.message}"[:MESSAGE]
            change |= {"state": RETRY, "message": message, "requeueAfterSeconds": seconds}
        checks = [dict(each) for each in workload.checks]
        for place in ours:
            before = checks[place]
            moved = {} if before["state"] == change["state"] else {"lastTransitionTime": rfc3339(self._now())}
            checks[place] = {**before, **change, **moved}
        if isinstance(outcome, Fits) and outcome.placed:  # one check only may give a pod set this label
            labelled = [{"name": each.name, "labels": {PLACE_LABEL: each.label}} for each in outcome.placed]
            checks[ours[0]]["podSetUpdates"] = labelled
        body = {"metadata": {"resourceVersion": workload.version}, "status": {"admissionChecks": checks}}
        path = WORKLOAD.path(workload.name, workload.namespace, subresource="status")
        try:
            await self._http.call("PATCH", path, body, MERGE_PATCH)
        except ClusterError as error:
            if not is_conflict(error) and not is_not_found(error):
                raise
            return ""
        if change["state"] == RETRY:
            heapq.heappush(self._noes, self._now() + change["requeueAfterSeconds"])
        kind, reason = _EVENTS[change["state"]]
        regarding = Regarding(
            workload.namespace, workload.name, workload.uid, "", CONTROLLER, WORKLOAD.kind, f"{GROUP}/{VERSION}"
        )
        self._recorder.record(regarding, kind, reason, "AdmissionCheck", change["message"])
        return str(change["state"])
