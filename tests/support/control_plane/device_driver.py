"""A stand-in for a DRA driver on the real control plane, and the objects of resource.k8s.io that tests create there.

`Driver` publishes ResourceSlices for each node and follows the claims, as kubelet plugins do: `prepared` are the claims
whose devices it has prepared for a pod on their node, and it sets the binding conditions of devices that have them.
`excesses` counts what claims have together that is more than there is.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Self

from podwright.testing import AnswerError, ControlPlane
from support.objects.devices import exactly, make_class, make_device, make_slice

Raw = dict[str, Any]

VERSION = "resource.k8s.io/v1"
GROUP = f"/apis/{VERSION}"
Excess = tuple[str, str, str, str]
"""(device, pool, device, ""), (capacity, pool, device, its name) or (counter, pool, counter set, its name)."""
CLASS = "gpu"
RESOURCE = "example.com/gpu"
READY = "example.com/ready"
POLL_SECONDS = 0.1
TAINT: Raw = {"key": "example.com/failing", "value": "", "effect": "NoSchedule"}


class Driver:
    """Publishes slices while it is entered, in a thread of its own if it republishes them or sets conditions."""

    def __init__(
        self,
        cluster: ControlPlane,
        devices: Mapping[str, Sequence[str]],
        *,
        name: str = CLASS,
        resource: str = "",
        counters: Mapping[str, str] | None = None,
        define: Callable[[str], Raw] = lambda _name: {},
        **device: Any,
    ) -> None:
        """`devices`: the names of the devices of each node. `define` gives further fields of a device, `device` those
        of all. `counters`: those of the counter set `board` of each node.

        `name` is that of the class of these devices, which stands for the extended resource `resource`, too.
        """
        self._cluster = cluster
        self._driver = f"{name}.example.com"
        stands_for = {"extendedResourceName": resource} if resource else {}
        body = make_class(name, f"device.driver == '{self._driver}'", **stands_for)
        self._class = {"apiVersion": VERSION, "kind": "DeviceClass", **body}
        self._device = device
        self._define = define
        self._counters = counters
        self.devices = devices
        self.tainted: set[str] = set()
        """The devices of these names are published with the taint TAINT, from the next time on."""
        self.generation = 1
        self.follows = False
        """True if it prepares the devices of claims."""
        self.prepared: dict[str, set[str]] = {}
        """By uid of the claim: its devices, as driver/pool/device. A pod that uses the claim is on their node."""
        self.sets_conditions = True
        self._stop = threading.Event()
        self._republish = False
        self._thread = threading.Thread(target=self._run, name="driver", daemon=True)

    def __enter__(self) -> Self:
        self._cluster.client.create(self._class)
        for name in self.devices:
            for body in self.slices(name):
                self._cluster.client.create(body)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)
        for name in self.devices:
            for body in self.slices(name):
                self._cluster.client.delete(body)
        self._cluster.client.delete(self._class)

    @contextmanager
    def republishing(self) -> Iterator[None]:
        """Publishes all slices again and again, each time with a new generation."""
        self._republish = True
        try:
            yield
        finally:
            self._republish = False

    def slices(self, node: str) -> list[Raw]:
        """The slices of a node: with its devices, and with its counters if there are any."""
        devices = [make_device(name, **self._fields(name)) for name in self.devices[node]]
        common: Raw = {"node": node, "generation": self.generation, "driver": self._driver}
        bodies = [make_slice(f"{node}-gpus", devices, **common)]
        if self._counters:
            values = {name: {"value": value} for name, value in self._counters.items()}
            counter_sets = [{"name": "board", "counters": values}]
            common["count"] = 2
            board = make_slice(f"{node}-board", **common, sharedCounters=counter_sets)
            del board["spec"]["devices"]
            bodies = [make_slice(f"{node}-gpus", devices, **common), board]
        return [{"apiVersion": VERSION, "kind": "ResourceSlice", **body} for body in bodies]

    def _fields(self, name: str) -> Raw:
        taints = {"taints": [TAINT]} if name in self.tainted else {}
        return {**self._device, **self._define(name), **taints}

    def publish(self) -> None:
        """Publishes all slices with a new generation."""
        self.generation += 1
        for name in self.devices:
            for body in self.slices(name):
                self._cluster.client.patch(body, {"spec": body["spec"]})

    def _run(self) -> None:
        while not self._stop.wait(POLL_SECONDS):
            with suppress(OSError, AnswerError):  # the API server may be gone for a while
                if self._republish:
                    self.publish()
                if self.follows:
                    self._prepare()
                if self._device.get("bindingConditions") and self.sets_conditions:
                    for claim in claims(self._cluster):
                        self._make_ready(claim)
        self._cluster.client.close()

    def _prepare(self) -> None:
        pods = {raw["metadata"]["uid"]: raw for raw in self._cluster.client.items("/api/v1/pods")}
        found: dict[str, set[str]] = {}
        for claim in claims(self._cluster):
            users = [pods[uid] for uid in consumers(claim) if uid in pods]
            nodes = {raw["spec"]["nodeName"] for raw in users if raw["spec"].get("nodeName")}
            results = [each for each in results_of(claim) if each["driver"] == self._driver and each["pool"] in nodes]
            if results:
                named = {f"{each['driver']}/{each['pool']}/{each['device']}" for each in results}
                found[claim["metadata"]["uid"]] = named
        self.prepared = found

    def _make_ready(self, claim: Raw) -> None:
        results = results_of(claim)
        if not results or claim["status"].get("devices"):
            return
        condition = {"type": READY, "status": "True", "reason": "Attached", "message": ""}
        condition["lastTransitionTime"] = claim["metadata"]["creationTimestamp"]
        entries = [{k: r[k] for k in ("driver", "pool", "device")} | {"conditions": [condition]} for r in results]
        self._cluster.client.patch(claim, {"status": {"devices": entries}}, "status")


def claim(name: str, namespace: str, *, device_class: str = CLASS, **request: Any) -> Raw:
    """A claim for one device. `request`: further fields of the request."""
    return {
        "apiVersion": VERSION,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"devices": {"requests": [exactly(device_class=device_class, **request)]}},
    }


def template(name: str, namespace: str, **request: Any) -> Raw:
    """A template of such claims."""
    spec = claim(name, namespace, **request)["spec"]
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


def excesses(claims: Iterable[Raw], slices: Iterable[Raw]) -> Mapping[Excess, list[str]]:
    """The uids of the claims that together have more of something than there is, by what it is.

    A device that is held as a whole by one claim and also by others, a capacity of a device, or a counter of a pool.
    """
    published = [raw["spec"] for raw in slices]
    devices = {(spec["pool"]["name"], one["name"]): one for spec in published for one in spec.get("devices") or ()}
    whole, users = defaultdict[Excess, int](int), defaultdict[Excess, list[str]](list)
    used, counted = defaultdict[Excess, int](int), set[tuple[str, str]]()
    for raw in claims:
        for result in results_of(raw):
            where = result["pool"], result["device"]
            uid, device = raw["metadata"]["uid"], devices.get(where, {})
            users["device", *where, ""].append(uid)
            whole["device", *where, ""] += "shareID" not in result
            for name, amount in (result.get("consumedCapacity") or {}).items():
                users["capacity", *where, name].append(uid)
                used["capacity", *where, name] += int(amount)
            for consumed in device.get("consumesCounters") or ():
                for name, amount in consumed["counters"].items():
                    key = "counter", result["pool"], consumed["counterSet"], name
                    users[key].append(uid)
                    used[key] += int(amount["value"]) * (where not in counted)
            counted.add(where)
    limits: dict[Excess, int] = {
        ("counter", spec["pool"]["name"], one["name"], name): int(value["value"])
        for spec in published
        for one in spec.get("sharedCounters") or ()
        for name, value in one["counters"].items()
    }
    limits |= {
        ("capacity", *where, name): int(value["value"])
        for where, one in devices.items()
        for name, value in (one.get("capacity") or {}).items()
    }
    found = {key: users[key] for key, times in whole.items() if times and len(users[key]) > 1}
    return found | {key: users[key] for key, amount in used.items() if amount > limits[key] and len(users[key]) > 1}


def consumers(claim: Raw) -> list[str]:
    """The uids of the pods that the claim is reserved for."""
    return [entry["uid"] for entry in claim.get("status", {}).get("reservedFor") or ()]


def faults(cluster: ControlPlane) -> list[str]:
    """Returns devices that claims hold beyond the existing ones, and claims reserved for pods that are gone."""
    slices = cluster.client.items(f"{GROUP}/resourceslices")
    found = [f"{what} is held by {uids}" for what, uids in excesses(claims(cluster), slices).items()]
    there = {raw["metadata"]["uid"] for raw in cluster.client.items("/api/v1/pods")}
    for raw in claims(cluster):
        gone = set(consumers(raw)) - there
        if gone:
            found.append(f"{raw['metadata']['name']} is reserved for {gone}, which are gone")
    return found


def delete_claims(cluster: ControlPlane, namespace: str) -> None:
    """Deletes the claims and templates of a namespace, whatever finalizers they have."""
    for raw in claims(cluster, namespace):
        with suppress(AnswerError):
            cluster.client.patch(raw, {"metadata": {"finalizers": None}})
        cluster.client.delete(raw)
    cluster.client.request("DELETE", f"{GROUP}/namespaces/{namespace}/resourceclaimtemplates")
