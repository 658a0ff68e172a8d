"""Writes the allocations and reservations of a pod's claims to the API server, and undoes them.

A claim that is allocated gets the finalizer, then the allocation and the reservation in one update of its status. The
claim for extended resources is created first, with the finalizer. After a conflict the claim is read again: somebody
else may have allocated or deleted it. Source: `bindClaim` in kube-scheduler's plugin DynamicResources.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from contextlib import suppress
from dataclasses import field
from typing import Any, Final

from podwright.core.framework.interface import ClusterError, ClusterTimeoutError, Handle
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.devices.claims import FINALIZER, Allocation, ResourceClaim, parse_resource_claim
from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.times import rfc3339
from podwright.core.plugins.devices.binding_conditions import BindingFailedError, ready, timed_out, waits
from podwright.core.plugins.devices.cycle_claims import CycleClaims
from podwright.core.plugins.devices.node_requests import NodeClaim
from podwright.core.plugins.devices.pod_claims import Consumer, consumer_of, names
from podwright.core.state.devices.claims import CLAIM_KIND

Raw = dict[str, Any]
_CONFLICT: Final = 409
_ATTEMPTS: Final = 5
"""The attempts at one update, after conflicts. Source: `retry.DefaultRetry` in k8s.io/client-go."""
SHOWN_SECONDS: Final = 30.0
"""How long the watch may take to show what was written."""
RECHECK_SECONDS: Final = 5.0
"""How often the time-out of binding conditions is checked."""


class ClaimWriteError(Exception):
    """A claim could not be written. The pod must be scheduled again. `status`: how a wait for binding conditions ended,
    as metrics say it.
    """

    def __init__(self, text: str, status: str = "error") -> None:
        super().__init__(text)
        self.status = status


class ClaimWrites:
    """The writes for one pod on the node that was chosen."""

    def __init__(self, handle: Handle, found: CycleClaims, pod: PodInfo, writing: set[str]) -> None:
        """`writing`: the uids of claims of groups that a member writes just now."""
        self._handle = handle
        self._found = found
        self._pod = pod
        self._writing = writing
        self.created: ResourceClaim | None = None
        """The claim for extended resources, once it is created."""
        self.reserved: dict[str, ResourceClaim] = {}
        """The claims that are reserved for the pod, or for its group, by uid."""
        self._consumers: dict[str, Consumer] = {}
        """For whom each of these is reserved."""
        self._lost: set[str] = set()
        """The uids of claims with a device that another claim got earlier."""

    @property
    def any(self) -> bool:
        """True if something was written that `undo` takes back."""
        return self.created is not None or any(map(self._taken_back, self.reserved))

    async def write(self, node: Node) -> None:
        """Writes everything. Raises ClaimWriteError; what was written until then is in `created` and `reserved`."""
        found, pod = self._found, self._pod
        assert found.reservation is not None, "the pod was not reserved"
        allocations = found.reservation.allocations
        try:
            for position, seen in enumerate(found.claims):
                consumer = consumer_of(seen, pod, self._handle.cache.groups)
                if not consumer.group:
                    await self._enter(seen, allocations.get(position), consumer)
                    continue
                await self._enter_group(seen, allocations.get(position), consumer)
            special = found.special(node)
            if special is not None:
                await self._create(special, allocations[len(found.claims)])
        except ClusterError as error:
            raise ClaimWriteError(str(error)) from error

    async def confirm(self) -> None:
        """Waits until the watch shows what was written, so that of two claims with one device the later one is known.
        Raises ClaimWriteError if ours is the later one: another scheduler has allocated the device at the same time.
        """
        known, cluster = self._handle.cache.devices.claims, self._handle.cluster
        for claim in self.reserved.values():

            def shown(_raw: Mapping[str, Any] | None, claim: ResourceClaim = claim) -> bool:
                return known.is_shown(claim)

            try:
                await cluster.wait_for(CLAIM_KIND, claim.name, claim.namespace, shown, SHOWN_SECONDS)
            except ClusterTimeoutError as error:
                raise ClaimWriteError(f"the watch does not show what was written to claim {claim.key}") from error
        for claim in self.reserved.values():
            newest = self._newest(claim)
            if newest.allocation is None:
                raise ClaimWriteError(f"claim {claim.key} got deallocated elsewhere in the meantime")
            rival = known.holders.rival(claim.uid)
            if rival is not None:
                self._lost.add(claim.uid)
                raise ClaimWriteError(f"claim {claim.key}: {rival}, by another scheduler at the same time")

    async def undo(self, pod: PodInfo) -> None:
        """Takes back what was written for the pod, as far as the API server allows it. Allocations stay, as in
        kube-scheduler, unless another claim got a device of them earlier, or `pod`, the pod as it is now, names other
        claims. So does the reservation for its group, whose other members may need it.

        A pod that has got a node keeps everything: another process has bound it, or a Binding that failed has gone
        through after all, and it runs with these claims.
        """
        if await self._may_be_bound(pod):
            return
        if self.created is not None:
            self.reserved.pop(self.created.uid, None)
            await Deletion(self._handle, self.created)()
        useless = self._lost | {claim.uid for claim in self.reserved.values() if not names(pod, claim)}
        for claim in filter(lambda each: self._taken_back(each.uid), self.reserved.values()):
            consumer = self._consumers[claim.uid]
            if claim.uid in useless and set(claim.reserved_for) <= {consumer.uid}:
                await Deallocation(self._handle, claim)()
            elif not consumer.group:
                await Release(self._handle, claim, consumer.uid)()
        self.reserved.clear()

    async def wait(self, timeout: float) -> None:
        """Waits until the devices of all claims are ready. `timeout` in seconds. Raises ClaimWriteError."""
        names = [(claim.namespace, claim.name) for claim in self._found.claims]
        if self.created is not None:
            names.append((self.created.namespace, self.created.name))
        known = self._handle.cache.devices.claims
        claims = [claim for name in names if (claim := known.get(*name)) is not None]
        if not any(map(waits, claims)):
            return
        assert self._found.reservation is not None, "the pod was not reserved"
        note = f"waiting for binding conditions for device on node {self._found.reservation.node_name}"
        self._handle.record(self._pod, "Normal", "BindingConditionsPending", note)
        observer, status = self._handle.observer, "error"
        started = observer.start()
        try:
            for namespace, name in names:
                await self._until_ready(namespace, name, timeout)
            status = "success"
        except ClaimWriteError as error:
            status = error.status
            raise
        finally:
            devices = [each for claim in claims if claim.allocation is not None for each in claim.allocation.devices]
            waited_for = [each.device_id[0] for each in devices if each.binding_conditions]
            profile, drivers = self._pod.scheduler_name, [each.device_id[0] for each in devices]
            observer.binding_conditions_ended(started, profile, status, drivers, waited_for)

    # Internals

    async def _may_be_bound(self, pod: PodInfo) -> bool:
        """True if the pod has a node, or if that is not known."""
        try:
            raw = await self._handle.cluster.get("Pod", pod.name, pod.namespace)
        except ClusterError:
            return True
        return raw is not None and raw["metadata"].get("uid") == pod.uid and bool(raw["spec"].get("nodeName"))

    def _taken_back(self, uid: str) -> bool:
        """True if the reservation of this claim is for this pod alone, or must not stay: another claim got its device
        earlier, and no member of the group is bound.
        """
        consumer = self._consumers[uid]
        if not consumer.group:
            return True
        members = self._handle.cache.groups.members(consumer.group)
        return uid in self._lost and len(members.placed) <= members.assumed

    async def _enter_group(self, seen: ResourceClaim, allocation: Allocation | None, consumer: Consumer) -> None:
        """As `_enter`, but the first member writes for all."""

        def done(_raw: Mapping[str, Any] | None) -> bool:
            return seen.uid not in self._writing or consumer.uid in self._newest(seen).reserved_for

        with suppress(ClusterTimeoutError):
            await self._handle.cluster.wait_for(CLAIM_KIND, seen.name, seen.namespace, done, RECHECK_SECONDS)
        self._writing.add(seen.uid)
        try:
            await self._enter(seen, allocation, consumer)
        finally:
            self._writing.discard(seen.uid)

    async def _enter(self, seen: ResourceClaim, allocation: Allocation | None, consumer: Consumer) -> None:
        """Enters the consumer in the claim, unless it is there with this allocation. Raises as `_reserve`."""
        known = self._handle.cache.devices.claims
        claim = self._newest(seen)
        self._consumers[claim.uid] = consumer
        if claim.uid in known.doubted:
            claim = self._written(await self._read(claim))
            known.doubted.discard(claim.uid)
        if consumer.uid in claim.reserved_for and (allocation is None or _has(claim.raw, allocation)):
            self.reserved[claim.uid] = claim
        else:
            await self._reserve(claim, allocation, consumer)

    def _newest(self, seen: ResourceClaim) -> ResourceClaim:
        """The current version of the claim. Since the decision, the writes of an earlier attempt may have been
        undone.
        """
        newest = self._handle.cache.devices.claims.get(seen.namespace, seen.name)
        return seen if newest is None or newest.uid != seen.uid else newest

    async def _reserve(self, claim: ResourceClaim, allocation: Allocation | None, consumer: Consumer) -> ResourceClaim:
        """Enters the consumer in the claim, and the allocation if there is one. Raises ClusterError or
        ClaimWriteError.
        """
        cluster = self._handle.cluster
        raw: Mapping[str, Any] = claim.raw
        for attempt in range(_ATTEMPTS):
            try:
                if allocation is not None and FINALIZER not in (raw["metadata"].get("finalizers") or ()):
                    raw = await cluster.update(CLAIM_KIND, _with_finalizer(raw))
                changed = self._changed_status(claim, raw, allocation, consumer)
                stored = self._written(await cluster.update(CLAIM_KIND, changed, "status"))
            except ClusterError as error:
                if error.status != _CONFLICT or attempt == _ATTEMPTS - 1:
                    raise
                raw = await self._read(claim)
            else:
                self.reserved[stored.uid] = stored
                return stored
        raise AssertionError("the last attempt raises")

    async def _read(self, claim: ResourceClaim) -> Mapping[str, Any]:
        """The claim as the API server has it. Raises ClusterError, and ClaimWriteError if it is gone."""
        latest = await self._handle.cluster.get(CLAIM_KIND, claim.name, claim.namespace)
        if latest is None or latest["metadata"].get("uid", claim.uid) != claim.uid:
            raise ClaimWriteError(f"claim {claim.key} got deleted in the meantime")
        return latest

    def _changed_status(
        self, claim: ResourceClaim, raw: Mapping[str, Any], allocation: Allocation | None, consumer: Consumer
    ) -> Raw:
        if raw["metadata"].get("deletionTimestamp"):
            raise ClaimWriteError(f"claim {claim.key} got deleted in the meantime")
        status: Raw = {**(raw.get("status") or {})}
        if allocation is not None and status.get("allocation"):
            # Another pod of the group may have written the same.
            if not _has(raw, allocation):
                raise ClaimWriteError(f"claim {claim.key} got allocated elsewhere in the meantime")
        elif allocation is not None:
            status["allocation"] = {**allocation.raw, "allocationTimestamp": rfc3339(self._handle.now())}
        elif not status.get("allocation"):
            raise ClaimWriteError(f"claim {claim.key} got deallocated elsewhere in the meantime")
        references = [entry for entry in status.get("reservedFor") or () if entry.get("uid") != consumer.uid]
        status["reservedFor"] = [*references, consumer.reference]
        return {**raw, "status": status}

    async def _create(self, special: NodeClaim, allocation: Allocation) -> None:
        cluster, pod = self._handle.cluster, self._pod
        wanted = {k: v for k, v in special.claim.raw["metadata"].items() if k not in ("name", "uid")}
        wanted["finalizers"] = [FINALIZER]  # saves the update that adds it
        try:
            raw = await cluster.create(CLAIM_KIND, {"metadata": wanted, "spec": special.claim.raw["spec"]})
        except ClusterError:
            self._handle.observer.claim_created(created=False)
            raise
        self._handle.observer.claim_created(created=True)
        self.created = self._written(raw, created=True)
        await self._enter(self.created, allocation, Consumer(pod.name, pod.uid))
        status = {"resourceClaimName": self.created.name, "requestMappings": special.mapped.mappings}
        change = {"metadata": {"uid": pod.uid}, "status": {"extendedResourceClaimStatus": status}}
        await cluster.patch("Pod", pod.name, pod.namespace, change, "status")

    def _written(self, raw: Mapping[str, Any], *, created: bool = False) -> ResourceClaim:
        self._handle.cache.devices.claims.written(raw, created=created)
        return parse_resource_claim(raw)

    async def _until_ready(self, namespace: str, name: str, timeout: float) -> None:
        left = timeout
        while not self._is_ready(namespace, name, timeout):
            if left <= 0:
                raise ClaimWriteError(f"device binding timeout: claim={name}", "timeout")
            step = min(left, RECHECK_SECONDS)  # counts the time waited instead of reading the clock, which may step
            await self._changed(namespace, name, step, timeout)
            left -= step

    def _is_ready(self, namespace: str, name: str, timeout: float) -> bool:
        claim = self._handle.cache.devices.claims.get(namespace, name)
        if claim is None:
            raise ClaimWriteError(f'could not find ResourceClaim "{namespace}/{name}"')
        try:
            if ready(claim):
                return True
        except BindingFailedError as error:
            raise ClaimWriteError(str(error), "failure") from error
        if timed_out(claim, timeout, self._handle.now()):
            raise ClaimWriteError(f"device binding timeout: claim={name}", "timeout")
        return False

    async def _changed(self, namespace: str, name: str, step: float, timeout: float) -> None:
        def done(_raw: Mapping[str, Any] | None) -> bool:
            return self._is_ready(namespace, name, timeout)

        try:
            await self._handle.cluster.wait_for(CLAIM_KIND, name, namespace, done, step)
        except ClusterTimeoutError:
            return


async def tell(handle: Handle, pod: PodInfo, unreadable: str) -> None:
    """Records an event that tells the pod's user which devices are left out because they cannot be understood."""
    handle.record(pod, "Warning", "UnreadableDevices", unreadable)


@dataclass(frozen=True, slots=True)
class Deallocation:
    """A follow-up that deallocates a claim, so that it can get other devices. If that fails, the next attempt does it
    again. Equal for one version of a claim, which several pods may share.
    """

    handle: Handle = field(compare=False)
    claim: ResourceClaim

    async def __call__(self) -> None:
        claim, status = self.claim, self.claim.raw.get("status") or {}
        left = {k: v for k, v in status.items() if k not in ("allocation", "devices", "reservedFor")}
        update = self.handle.cluster.update(CLAIM_KIND, {**claim.raw, "status": left}, "status")
        await _write_status(self.handle, claim, update)


@dataclass(frozen=True, slots=True)
class Deletion:
    """A follow-up that deletes a claim that was created for extended resources. If that fails, the next attempt handles
    the claim.
    """

    handle: Handle = field(compare=False)
    claim: ResourceClaim

    async def __call__(self) -> None:
        cluster, claim = self.handle.cluster, self.claim
        try:
            raw = await cluster.get(CLAIM_KIND, claim.name, claim.namespace)
            if raw is not None and FINALIZER in (raw["metadata"].get("finalizers") or ()):
                await cluster.update(CLAIM_KIND, _without_finalizer(raw))
            await cluster.delete(CLAIM_KIND, claim.name, claim.namespace, claim.uid)
        except ClusterError:
            return
        self.handle.cache.devices.claims.forget(claim.namespace, claim.name)


@dataclass(frozen=True, slots=True)
class Release:
    """A follow-up that removes a consumer, by uid, from those for which a claim is reserved. If that fails, the next
    attempt looks whether it is entered. Equal for one version of a claim.
    """

    handle: Handle = field(compare=False)
    claim: ResourceClaim
    consumer: str

    async def __call__(self) -> None:
        claim = self.claim
        without = [{"$patch": "delete", "uid": self.consumer}]
        change = {"metadata": {"uid": claim.uid}, "status": {"reservedFor": without}}
        patch = self.handle.cluster.patch(CLAIM_KIND, claim.name, claim.namespace, change, "status")
        await _write_status(self.handle, claim, patch)


async def _write_status(handle: Handle, claim: ResourceClaim, write: Awaitable[Mapping[str, Any]]) -> None:
    try:
        raw = await write
    except ClusterError:
        handle.cache.devices.claims.doubt(claim)
        return
    handle.cache.devices.claims.written(raw)


def _has(raw: Mapping[str, Any], allocation: Allocation) -> bool:
    """True if the claim has the devices of this allocation."""
    known: Mapping[str, Any] = (raw.get("status") or {}).get("allocation") or {}
    return known.get("devices") == allocation.raw.get("devices")


def _with_finalizer(raw: Mapping[str, Any]) -> Raw:
    metadata = {**raw["metadata"], "finalizers": [*(raw["metadata"].get("finalizers") or ()), FINALIZER]}
    return {**raw, "metadata": metadata}


def _without_finalizer(raw: Mapping[str, Any]) -> Raw:
    left = [name for name in raw["metadata"].get("finalizers") or () if name != FINALIZER]
    return {**raw, "metadata": {**raw["metadata"], "finalizers": left}}
