"""A stand-in for a DRA driver on the real control plane, and the objects of resource.k8s.io that tests create there.

`Driver` publishes one ResourceSlice for each node and follows the claims, as kubelet plugins do: it records each claim whose devices it would
prepare, and sets the binding conditions of devices that have them. `held` counts from the API server which claim has which device.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Self

from podwright.testing import ApiError, ControlPlane
from support.objects.devices import exactly, make_class, make_device, make_slice

Raw = dict[str, Any]

VERSION = "resource.k8s.io/v1"
GROUP = f"/apis/{VERSION}"
CLASS = "gpu"
RESOURCE = "example.com/gpu"
READY = "example.com/ready"
POLL_SECONDS = 0.1


class Driver:
    """Publishes slices while it is entered, in a thread of its own if it republishes them or sets conditions."""

    def __init__(
        self,
        cluster: ControlPlane,
        devices: Mapping[str, Sequence[str]],
        *,
        name: str = CLASS,
        resource: str = "",
        **device: Any,
    ) -> None:
        """`devices`: the names of the devices of each node. `device`: further fields of all of them.

        `name` is that of the class of these devices, which stands for the extended resource `resource`, too.
        """
        self._cluster = cluster
        self._driver = f"{name}.example.com"
        stands_for = {"extendedResourceName": resource} if resource else {}
        body = make_class(name, f"device.driver == '{self._driver}'", **stands_for)
        self._class = {"apiVersion": VERSION, "kind": "DeviceClass", **body}
        self._device = device
        self.devices = devices
        self.generation = 1
        self.sets_conditions = True
        self._stop = threading.Event()
        self._republish = False
        self._thread = threading.Thread(target=self._run, name="driver", daemon=True)

    def __enter__(self) -> Self:
        self._cluster.client.create(self._class)
        for name in self.devices:
            self._cluster.client.create(self._slice(name))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)
        for name in self.devices:
            self._cluster.client.delete(self._slice(name))
        self._cluster.client.delete(self._class)

    @contextmanager
    def republishing(self) -> Iterator[None]:
        """Publishes all slices again and again, each time with a new generation."""
        self._republish = True
        try:
            yield
        finally:
            self._republish = False

    def _slice(self, node: str) -> Raw:
        devices = [make_device(name, **self._device) for name in self.devices[node]]
        body = make_slice(f"{node}-gpus", devices, node=node, generation=self.generation, driver=self._driver)
        return {"apiVersion": VERSION, "kind": "ResourceSlice", **body}

    def _run(self) -> None:
        while not self._stop.wait(POLL_SECONDS):
            with suppress(OSError, ApiError):  # the API server may be gone for a while
                if self._republish:
                    self.generation += 1
                    for name in self.devices:
                        self._cluster.client.patch(self._slice(name), {"spec": self._slice(name)["spec"]})
                if self._device.get("bindingConditions") and self.sets_conditions:
                    for claim in claims(self._cluster):
                        self._make_ready(claim)
        self._cluster.client.close()

    def _make_ready(self, claim: Raw) -> None:
        results = results_of(claim)
        if not results or claim["status"].get("devices"):
            return
        condition = {"type": READY, "status": "True", "reason": "Attached", "message": ""}
        condition["lastTransitionTime"] = claim["metadata"]["creationTimestamp"]
        entries = [{k: r[k] for k in ("driver", "pool", "device")} | {"conditions": [condition]} for r in results]
        self._cluster.client.patch(claim, {"status": {"devices": entries}}, "status")


def claim(name: str, namespace: str, *, device_class: str = CLASS) -> Raw:
    """A claim for one device."""
    return {
        "apiVersion": VERSION,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"devices": {"requests": [exactly(device_class=device_class)]}},
    }


def template(name: str, namespace: str) -> Raw:
    """A template of such claims."""
    spec = claim(name, namespace)["spec"]
    body = {"apiVersion": VERSION, "kind": "ResourceClaimTemplate", "spec": {"spec": spec}}
    return {**body, "metadata": {"name": name, "namespace": namespace}}


def from_template(name: str) -> Raw:
    """The part of a pod's spec that gets it a claim of this template."""
    return {"resourceClaims": [{"name": "mine", "resourceClaimTemplateName": name}]}


# Reading the cluster


def claims(cluster: ControlPlane, namespace: str = "") -> list[Raw]:
    where = f"namespaces/{namespace}/" if namespace else ""
    found = cluster.client.items(f"{GROUP}/{where}resourceclaims")
    return [{"apiVersion": VERSION, "kind": "ResourceClaim", **raw} for raw in found]


def results_of(claim: Raw) -> list[Raw]:
    """The devices that are allocated to the claim."""
    allocation = claim.get("status", {}).get("allocation") or {}
    found: list[Raw] = allocation.get("devices", {}).get("results", [])
    return found


def held(cluster: ControlPlane) -> Mapping[tuple[str, str], list[str]]:
    """The claims that have each device, by its pool and name."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for raw in claims(cluster):
        for result in results_of(raw):
            found[result["pool"], result["device"]].append(raw["metadata"]["name"])
    return found


def consumers(claim: Raw) -> list[str]:
    """The uids of the pods that the claim is reserved for."""
    return [entry["uid"] for entry in claim.get("status", {}).get("reservedFor") or ()]


def faults(cluster: ControlPlane) -> list[str]:
    """Devices of two claims, and claims reserved for pods that are gone."""
    found = [f"{device} is held by {names}" for device, names in held(cluster).items() if len(names) > 1]
    there = {raw["metadata"]["uid"] for raw in cluster.client.items("/api/v1/pods")}
    for raw in claims(cluster):
        gone = set(consumers(raw)) - there
        if gone:
            found.append(f"{raw['metadata']['name']} is reserved for {gone}, which are gone")
    return found


def delete_claims(cluster: ControlPlane, namespace: str) -> None:
    """Deletes the claims and templates of a namespace, whatever finalizers they have."""
    for raw in claims(cluster, namespace):
        with suppress(ApiError):
            cluster.client.patch(raw, {"metadata": {"finalizers": None}})
        cluster.client.delete(raw)
    cluster.client.request("DELETE", f"{GROUP}/namespaces/{namespace}/resourceclaimtemplates")
