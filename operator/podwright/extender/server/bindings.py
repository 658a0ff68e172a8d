"""Binds pods where kube-scheduler says so, and counts them on their nodes at once.

The cache counts a pod from the moment that `bind` is asked for it: assumed, until the watch shows it on its node. If
that takes CONFIRM_SECONDS, or if the outcome of the Binding is not known, the pod is read back. What became of a
Binding is never guessed.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final

from podwright.core.framework.errors import PluginError
from podwright.core.framework.interface import Cluster, ClusterError, CycleState
from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.names import is_dns_label, is_dns_subdomain
from podwright.core.objects.pod import PodInfo, parse_pod
from podwright.core.state.cache import Cache
from podwright.engine.intake.assigned_pods import AssignedPods
from podwright.engine.outcomes.binding.read_back import CONFIRM_SECONDS
from podwright.engine.records.log_fields import V2, fields
from podwright.extender.go_json import read_at
from podwright.extender.server.verdicts import ExtenderVerdicts, UnusablePolicyError
from podwright.extender.wire import BindingArgs

log = logging.getLogger(__name__)

REMEMBERED_PODS: Final = 4096
"""How many filtered or scored pods are remembered until they are bound. Other pods are read from the API server."""
REMEMBERED_BYTES: Final = 16 << 20
"""How much memory the texts of these pods take together at most. A parsed pod can take thirty times as much, so it is
parsed again.
"""
CHECK_SECONDS: Final = 1.0
"""How often the pods that the watch has not shown yet are checked."""


class Bindings:
    """See the module. `clock`: seconds that never step back."""

    def __init__(
        self,
        cache: Cache,
        verdicts: ExtenderVerdicts,
        *,
        assigned: AssignedPods,
        cluster: Cluster,
        clock: Callable[[], float],
    ) -> None:
        self._cache = cache
        self._verdicts = verdicts
        self._assigned = assigned
        self._cluster = cluster
        self._clock = clock
        self._seen: OrderedDict[str, str] = OrderedDict()
        """The texts of pods that may be bound soon, by uid, the most recent at the end."""
        self._seen_bytes = 0
        self._in_progress: set[str] = set()
        self._unconfirmed: deque[tuple[float, PodInfo]] = deque()
        """Pods whose Binding was posted, with the time when they are to be read back."""
        compact_regularly(self)

    @property
    def assumed(self) -> int:
        """Pods that count on a node although the watch has not shown them there."""
        return sum(self._cache.is_assumed(uid) for uid in {*self._in_progress, *(p.uid for _, p in self._unconfirmed)})

    @property
    def remembered_bytes(self) -> int:
        """How much memory the texts of the remembered pods take."""
        return self._seen_bytes

    def remember(self, pod: PodInfo, text: str) -> None:
        """The pod was filtered or scored, and may be bound next. `text`: its JSON, from which it was parsed."""
        self._recall(pod.uid)
        self._seen[pod.uid] = text
        self._seen_bytes += sys.getsizeof(text)
        while len(self._seen) > REMEMBERED_PODS or self._seen_bytes > REMEMBERED_BYTES:
            self._recall(next(iter(self._seen)))

    def _recall(self, uid: str) -> str | None:
        """Removes and returns the text of the remembered pod."""
        text = self._seen.pop(uid, None)
        self._seen_bytes -= 0 if text is None else sys.getsizeof(text)
        return text

    async def bind(self, args: BindingArgs, policy_name: str) -> str:
        """Binds the pod. Returns why that failed; empty if it is bound."""
        uid = args.pod_uid
        if not (args.pod_name and args.pod_namespace and uid and args.node):
            return "PodName, PodNamespace, PodUID and Node are required"
        for what, name, has_form in (
            ("PodName", args.pod_name, is_dns_subdomain),
            ("PodNamespace", args.pod_namespace, is_dns_label),
            ("Node", args.node, is_dns_subdomain),
        ):
            if not has_form(name):
                return f"{what} does not have the form of a name"
        if uid in self._in_progress:
            return f"pod {args.pod_namespace}/{args.pod_name} is being bound"
        if (known := self._known(uid, args.node)) is not None:
            return known
        self._in_progress.add(uid)
        try:
            pod = await self._pod(args)
            return pod if isinstance(pod, str) else await self._bind(pod, args.node, policy_name)
        except (UnusablePolicyError, PluginError, ClusterError) as error:
            return str(error)
        finally:
            self._in_progress.discard(uid)

    def _known(self, uid: str, node_name: str) -> str | None:
        """The answer for a pod that the watch has shown on a node; None for any other pod."""
        placement = self._cache.placement(uid)
        if placement is None or self._cache.is_assumed(uid):
            return None
        return (
            "" if placement.name == node_name else f"pod {placement.pods[uid].key} is on node {placement.name} already"
        )

    async def _pod(self, args: BindingArgs) -> PodInfo | str:
        """The pod to bind, or why it cannot be bound. Raises ClusterError."""
        text = self._recall(args.pod_uid)
        known = None if text is None else parse_pod(read_at(text, 0)[0])
        if known is not None and (known.namespace, known.name) == (args.pod_namespace, args.pod_name):
            return known
        where = f"pod {args.pod_namespace}/{args.pod_name}"
        try:
            found = await self._read(args.pod_namespace, args.pod_name)
        except InvalidObjectError as error:
            return str(error)
        if found is None:
            return f"{where} does not exist"
        return found if found.uid == args.pod_uid else f"{where} has the uid {found.uid}, not {args.pod_uid}"

    async def _read(self, namespace: str, name: str) -> PodInfo | None:
        """The pod as the API server has it. Raises ClusterError and InvalidObjectError."""
        raw = await self._cluster.get("Pod", name, namespace)
        return None if raw is None else parse_pod(raw)

    async def _bind(self, pod: PodInfo, node_name: str, policy_name: str) -> str:
        framework = self._verdicts.policy_for(pod, policy_name).framework
        cache, uid = self._cache, pod.uid
        if (known := self._known(uid, node_name)) is not None:
            return known  # since the pod was read
        placement = cache.placement(uid)
        if placement is not None and placement.name != node_name:
            cache.forget(uid)  # an earlier Binding, of which kube-scheduler was told that it failed
        if cache.placement(uid) is None:
            cache.assume(pod, node_name)
        try:
            status = await framework.bind(CycleState(), pod, node_name, {})
        except PluginError as error:
            return await self._failed(pod, node_name, str(error))
        if status is not None:
            return await self._failed(pod, node_name, status.message or status.code.text)
        self._unconfirmed.append((self._clock() + CONFIRM_SECONDS, pod))
        return ""

    async def _failed(self, pod: PodInfo, node_name: str, why: str) -> str:
        """The Binding seems to have failed. Returns the answer, which is a success if an earlier Binding has gone
        through.
        """
        if not await self._settle(pod):
            self._unconfirmed.appendleft((self._clock(), pod))
        placement = self._cache.placement(pod.uid)
        confirmed = placement is not None and not self._cache.is_assumed(pod.uid)
        return "" if confirmed and placement is not None and placement.name == node_name else why

    async def _settle(self, pod: PodInfo) -> bool:
        """Reads an assumed pod back, and counts it where it is. False if the API server does not answer."""
        try:
            found = await self._read(pod.namespace, pod.name)
        except InvalidObjectError as error:
            log.warning("A pod that was read back cannot be understood", extra=fields(pod=pod, err=str(error)))
            return False
        except ClusterError as error:
            log.log(V2, "A pod cannot be read back yet", extra=fields(pod=pod, err=str(error)))
            return False
        if not self._cache.is_assumed(pod.uid):
            return True  # the watch was faster
        if found is not None and found.uid == pod.uid and found.node_name:
            self._assigned.take(found)
        else:
            self._cache.forget(pod.uid)
        return True

    async def run(self) -> None:
        """Reads back overdue pods, until the task is cancelled."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            await self.check()

    async def check(self) -> None:
        """Drops the pods that the watch has shown, and reads back those that are overdue."""
        now = self._clock()
        waiting = [entry for entry in self._unconfirmed if self._cache.is_assumed(entry[1].uid)]
        self._unconfirmed = deque(entry for entry in waiting if entry[0] > now)
        for due, pod in waiting:
            if due <= now and (pod.uid in self._in_progress or not await self._settle(pod)):
                self._unconfirmed.append((now, pod))
