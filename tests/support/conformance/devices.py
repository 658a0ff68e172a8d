"""Random clusters with devices and a pod that asks for some, as cases for `podwright evaluate` and for kube-scheduler's
own code.

Everything that kube-scheduler's allocator looks at occurs, and often the cluster is too small or something is wrong
with it. Expressions are such that the API server accepts them. Objects are small, so that searches end.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any, Final

Raw = dict[str, Any]

GPU: Final = "gpu.example.com"
NIC: Final = "nic.example.com"
ROOT: Final = "shared.example.com/root"
ATTACHED: Final = "gpu.example.com/attached"
BROKEN: Final = "gpu.example.com/broken"

CLASSES: Final[Mapping[str, tuple[str, ...]]] = {
    "gpu": (f'device.driver == "{GPU}"',),
    "nic": (f'device.driver == "{NIC}"',),
    "any": (),
    "a100": (f'device.driver == "{GPU}"', f'device.attributes["{GPU}"].model == "a100"'),
    "part": (f'device.driver == "{GPU}" && device.attributes["{GPU}"].?profile.orValue("") != ""',),
}
SELECTORS: Final = (
    f'device.attributes["{GPU}"].model == "a100"',
    f'device.attributes["{GPU}"].?model.orValue("") in ["h100", "l4"]',
    f'device.capacity["{GPU}"].memory.compareTo(quantity("40Gi")) >= 0',
    f'device.attributes["{GPU}"].index < 2',
    f'has(device.attributes["{GPU}"].nvlink)',
    f'device.driver == "{GPU}" || device.attributes["{NIC}"].speed >= 200',
    f'device.attributes["{GPU}"].version.isGreaterThan(semver("1.1.0"))',
    "device.allowMultipleAllocations",
    "true",
    "false",
)
SAFE: Final = (
    f'device.attributes["{GPU}"].?model.orValue("a100") in ["a100", "h100"]',
    f'!has(device.attributes["{GPU}"].nvlink)',
    f'device.attributes["{GPU}"].?index.orValue(0) < 3',
    f'"{GPU}" in device.attributes',
    "!device.allowMultipleAllocations || true",
)
AMOUNTS: Final = ("0", "1", "2", "500m", "3", "10", "1k", "16Gi", "40Gi", "80Gi", "-1", "10E")


def device_cases(seed: int, count: int) -> Iterator[Raw]:
    """`count` cases; the same ones for the same seed."""
    for number in range(count):
        yield _Cluster(random.Random(f"{seed}/{number}")).case(f"devices/{seed}-{number}")


class _Cluster:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.tame = rng.random() < 0.6
        """True if most claims can be allocated."""
        self.nodes = [f"n{i}" for i in range(rng.randint(1, 5))]
        self.slices: list[Raw] = []
        self.claims: list[Raw] = []
        self.pods: list[Raw] = []

    def maybe(self, chance: float) -> bool:
        return self.rng.random() < chance

    def case(self, name: str) -> Raw:
        for node in self.nodes:
            if self.maybe(0.85):
                self.pool(GPU, node, self.rng.randint(1, 5), {"nodeName": node})
            if self.maybe(0.4):
                self.pool(NIC, node, self.rng.randint(1, 3), {"nodeName": node})
        if self.maybe(0.3):
            self.pool(NIC, "fabric", self.rng.randint(1, 3), self.reach())
        if self.maybe(0.25):
            self.pool(GPU, "chassis", self.rng.randint(1, 4), {"perDeviceNodeSelection": True})
        self.rng.shuffle(self.slices)
        for number in range(self.rng.randint(0, 6)):
            self.used(number)
        pod = self.pending()
        case = {
            "id": name,
            "group": "dra",
            "nodes": [self.node(node) for node in self.nodes],
            "pods": self.pods,
            "deviceClasses": [self.device_class(*item) for item in CLASSES.items()],
            "resourceSlices": self.slices,
            "deviceTaintRules": [self.taint_rule(f"rule{i}") for i in range(self.rng.choice((0, 0, 0, 1, 2)))],
            "resourceClaims": self.claims,
            "pod": pod,
        }
        if self.maybe(0.3):
            self.rng.shuffle(case["deviceClasses"])
        return case

    # Nodes, classes, slices

    def node(self, name: str) -> Raw:
        labels = {"kubernetes.io/hostname": name, "zone": self.rng.choice("ab")}
        allocatable = {"cpu": "8", "memory": "16Gi", "pods": "110"}
        if self.maybe(0.1):
            allocatable["example.com/gpu"] = str(self.rng.randint(0, 2))
        node: Raw = {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": allocatable}}
        if self.maybe(0.05):
            node["spec"] = {"unschedulable": True}
        return node

    def device_class(self, name: str, expressions: tuple[str, ...]) -> Raw:
        spec: Raw = {}
        if expressions:
            spec["selectors"] = [{"cel": {"expression": text}} for text in expressions]
        if name == "gpu":
            spec["extendedResourceName"] = "example.com/gpu"
        if self.maybe(0.1):
            spec["config"] = [{"opaque": {"driver": GPU, "parameters": {"of": name}}}]
        return {"metadata": {"name": name}, "spec": spec}

    def reach(self) -> Raw:
        if self.maybe(0.4):
            return {"allNodes": True}
        expression = {"key": "zone", "operator": "In", "values": [self.rng.choice("ab")]}
        return {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}

    def pool(self, driver: str, name: str, count: int, reach: Raw) -> None:
        counters = driver == GPU and self.maybe(0.35)
        shared = self.maybe(0.3)
        devices = [self.device(driver, i, counters=counters, shared=shared) for i in range(count)]
        if "perDeviceNodeSelection" in reach:
            for device in devices:
                device.update({"nodeName": self.rng.choice(self.nodes)} if self.maybe(0.6) else self.reach())
        if len(devices) > 1 and self.maybe(0.04):
            devices[-1]["name"] = devices[0]["name"]
        cut = self.rng.randint(0, count) if self.maybe(0.3) else count
        parts: list[Raw] = [{"devices": part} for part in (devices[:cut], devices[cut:]) if part]
        if counters:
            value = {"memory": {"value": self.rng.choice(("40Gi", "80Gi"))}, "slots": {"value": "4"}}
            parts.append({"sharedCounters": [{"name": "board", "counters": value}]})
            if self.maybe(0.1):
                spare = {"name": "board" if self.maybe(0.3) else "spare", "counters": {"x": {"value": "1"}}}
                parts.append({"sharedCounters": [spare]})
        generation = self.rng.choice((1, 1, 1, 7))
        expected = len(parts) + (self.rng.choice((-1, 1)) if self.maybe(0.06) else 0)
        for number, part in enumerate(parts):
            own = {"nodeName": self.rng.choice(self.nodes)} if "nodeName" in reach and self.maybe(0.03) else reach
            if "sharedCounters" in part and "perDeviceNodeSelection" in reach:
                own = {"allNodes": True}
            self.slice(f"{name}-{driver}-{number}", driver, name, generation, expected, {**own, **part})
        if self.maybe(0.08):
            old = {**reach, "devices": [self.device(driver, 0, counters=False, shared=False)]}
            if "perDeviceNodeSelection" in reach:
                old["devices"][0]["allNodes"] = True
            changed = generation + self.rng.choice((-1, 1))
            self.slice(f"{name}-{driver}-old", driver, name, changed, self.rng.choice((1, 1, 2)), old)

    def slice(self, name: str, driver: str, pool: str, generation: int, count: int, spec: Raw) -> None:
        pools = {"name": pool, "generation": generation, "resourceSliceCount": max(count, 1)}
        self.slices.append({"metadata": {"name": name}, "spec": {"driver": driver, "pool": pools, **spec}})

    def device(self, driver: str, index: int, *, counters: bool, shared: bool) -> Raw:
        attributes: Raw = {"index": {"int": index}}
        capacity: Raw = {}
        if driver == GPU:
            attributes["model"] = {"string": self.rng.choice(("a100", "h100", "l4"))}
            attributes["version"] = {"version": self.rng.choice(("1.0.0", "1.2.3", "2.0.0-rc.1"))}
            if self.maybe(0.3):
                attributes["nvlink"] = {"bool": self.maybe(0.5)}
            capacity["memory"] = {"value": self.rng.choice(("24Gi", "40Gi", "80Gi"))}
        else:
            attributes["speed"] = {"int": self.rng.choice((100, 200, 400))}
            capacity["bandwidth"] = {"value": "10"}
        if self.maybe(0.7):
            attributes[ROOT] = {"string": self.rng.choice("xy")} if self.maybe(0.9) else {"int": 1}
        if self.maybe(0.1):
            attributes[f"{driver}/index"] = attributes.pop("index")
        device: Raw = {"name": f"d{index}", "attributes": attributes, "capacity": capacity}
        if shared and self.maybe(0.8):
            device["allowMultipleAllocations"] = True
            for item in capacity.values():
                if self.maybe(0.7):
                    item["requestPolicy"] = self.policy(item["value"])
        if counters and self.maybe(0.8):
            attributes["profile"] = {"string": self.rng.choice(("half", "small"))}
            memory = self.rng.choice(("10Gi", "20Gi", "40Gi"))
            names = ("memory", "ghost") if self.maybe(0.02) else ("memory", "slots")
            amounts = {names[0]: {"value": memory}, names[1]: {"value": self.rng.choice(("1", "2"))}}
            board = "ghost" if self.maybe(0.02) else "board"
            device["consumesCounters"] = [{"counterSet": board, "counters": amounts}]
        if self.maybe(0.15):
            device["taints"] = [self.taint()]
        if self.maybe(0.1):
            device["bindsToNode"] = True
        if self.maybe(0.08):
            device["bindingConditions"] = [ATTACHED]
            device["bindingFailureConditions"] = [BROKEN]
        return device

    def policy(self, value: str) -> Raw:
        step, unit = ("2", "1") if value == "10" else ("4Gi", "8Gi")
        if self.maybe(0.4):
            values = ("1", "4", "10") if value == "10" else ("4Gi", "16Gi", "24Gi")
            return {"default": self.rng.choice(values), "validValues": list(values)}
        limits: Raw = {"min": unit}
        if self.maybe(0.6):
            limits["max"] = value
        if self.maybe(0.6):
            limits["step"] = self.rng.choice((step, "100m"))
        return {"default": unit, "validRange": limits}

    def taint(self) -> Raw:
        effect = self.rng.choice(("NoSchedule", "NoExecute", "None"))
        return {"key": self.rng.choice(("k", "l")), "value": self.rng.choice(("", "v")), "effect": effect}

    # Claims

    def taint_rule(self, name: str) -> Raw:
        """A rule for some devices, for all, or without a selector."""
        spec: Raw = {"taint": self.taint()}
        if self.maybe(0.8):
            choices = {"driver": (GPU, NIC), "pool": (*self.nodes, "fabric"), "device": ("d0", "d1")}
            spec["deviceSelector"] = {
                key: self.rng.choice(values) for key, values in choices.items() if self.maybe(0.4)
            }
        return {"metadata": {"name": name}, "spec": spec}

    def ask(self, *, alternative: bool = False) -> Raw:
        ask: Raw = {"deviceClassName": self.rng.choice(("gpu", "any") if self.tame else tuple(CLASSES))}
        if not self.tame and self.maybe(0.02):
            ask["deviceClassName"] = "ghost"
        if self.maybe(0.05 if self.tame else 0.15):
            ask["allocationMode"] = "All"
        else:
            ask["allocationMode"] = "ExactCount"
            ask["count"] = self.rng.choice((1, 1, 1, 1, 1, 2) if self.tame else (1, 1, 1, 2, 2, 3, 5, 20, 33, 2**62))
        if self.maybe(0.3):
            texts = self.rng.sample(SAFE if self.tame else SELECTORS, self.rng.choice((1, 1, 2)))
            ask["selectors"] = [{"cel": {"expression": text}} for text in texts]
        if self.maybe(0.2):
            ask["tolerations"] = [self.toleration()]
        if self.maybe(0.2):
            name = self.rng.choice(("memory", "bandwidth", f"{GPU}/memory"))
            ask["capacity"] = {"requests": {name: self.rng.choice(AMOUNTS[: 6 if self.tame else None])}}
        if not alternative and self.maybe(0.07):
            ask["adminAccess"] = True
        return ask

    def toleration(self) -> Raw:
        if self.maybe(0.3):
            return {"operator": "Exists"}
        toleration = {"key": self.rng.choice(("k", "l")), "operator": self.rng.choice(("Exists", "Equal"))}
        if toleration["operator"] == "Equal" and self.maybe(0.5):
            toleration["value"] = "v"
        if self.maybe(0.4):
            toleration["effect"] = self.rng.choice(("NoSchedule", "NoExecute"))
        return toleration

    def request(self, number: int) -> Raw:
        if self.maybe(0.7):
            return {"name": f"r{number}", "exactly": self.ask()}
        asks = [{"name": f"o{i}", **self.ask(alternative=True)} for i in range(self.rng.randint(1, 3))]
        return {"name": f"r{number}", "firstAvailable": asks}

    def claim(self, name: str) -> Raw:
        requests = [self.request(i) for i in range(self.rng.choice((1, 1, 1, 2, 2, 3)))]
        devices: Raw = {"requests": requests}
        if self.maybe(0.3):
            devices["constraints"] = [self.constraint(requests) for _ in range(self.rng.choice((1, 1, 2)))]
        if self.maybe(0.1):
            named = [request["name"] for request in self.rng.sample(requests, self.rng.randint(0, len(requests)))]
            own: Raw = {"requests": named} if named else {}
            devices["config"] = [{**own, "opaque": {"driver": GPU, "parameters": {"of": "claim"}}}]
        claim = {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"}, "spec": {"devices": devices}}
        self.claims.append(claim)
        return claim

    def constraint(self, requests: list[Raw]) -> Raw:
        kind = self.rng.choice(("matchAttribute", "matchAttribute", "distinctAttribute"))
        constraint: Raw = {kind: self.rng.choice((ROOT, f"{GPU}/model", f"{GPU}/index"))}
        if self.maybe(0.5):
            names = []
            for request in self.rng.sample(requests, self.rng.randint(1, len(requests))):
                sub = f"/{request['firstAvailable'][0]['name']}" if "firstAvailable" in request else ""
                names.append(request["name"] + (sub if self.maybe(0.4) else ""))
            constraint["requests"] = names
        return constraint

    def used(self, number: int) -> None:
        """A claim of a running pod that has a device of some pool."""
        offering = [s for s in self.slices if s["spec"].get("devices")]
        if not offering:
            return
        source = self.rng.choice(offering)["spec"]
        device = self.rng.choice(source["devices"])
        node = source.get("nodeName") or device.get("nodeName") or self.rng.choice(self.nodes)
        result: Raw = {
            "request": "r",
            "driver": source["driver"],
            "pool": source["pool"]["name"],
            "device": device["name"],
        }
        if device.get("allowMultipleAllocations") and self.maybe(0.85):
            result["shareID"] = f"00000000-0000-4000-8000-0000000000{number:02}"
            if self.maybe(0.9):
                amount = (
                    {"memory": self.rng.choice(("4Gi", "16Gi"))}
                    if "memory" in device["capacity"]
                    else {"bandwidth": "4"}
                )
                result["consumedCapacity"] = amount
        if self.maybe(0.08):
            result["adminAccess"] = True
        self.allocate(f"used-{number}", result, node, [f"user-{number}"])

    def allocate(self, name: str, result: Raw, node: str, consumers: list[str]) -> Raw:
        allocation: Raw = {"devices": {"results": [result]}}
        if self.maybe(0.8):
            field = {"key": "metadata.name", "operator": "In", "values": [node]}
            allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        references = [{"resource": "pods", "name": uid, "uid": uid} for uid in consumers]
        request = {"name": "r", "exactly": {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1}}
        status: Raw = {"allocation": allocation}
        if references:
            status["reservedFor"] = references
        if self.maybe(0.15):
            self.conditions(status, result)
        claim = {
            "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
            "spec": {"devices": {"requests": [request]}},
            "status": status,
        }
        self.claims.append(claim)
        return claim

    def conditions(self, status: Raw, result: Raw) -> None:
        result["bindingConditions"] = [ATTACHED]
        result["bindingFailureConditions"] = [BROKEN]
        if self.maybe(0.7):
            status["allocation"]["allocationTimestamp"] = self.rng.choice(
                ("2026-01-01T00:00:00Z", "2999-01-01T00:00:00Z")
            )
        if self.maybe(0.7):
            kinds = [(ATTACHED, self.rng.choice(("True", "False")))]
            if self.maybe(0.3):
                kinds.append((BROKEN, self.rng.choice(("True", "False"))))
            conditions = [
                {
                    "type": kind,
                    "status": value,
                    "reason": "R",
                    "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
                for kind, value in kinds
            ]
            device = {key: result[key] for key in ("driver", "pool", "device")}
            status["devices"] = [{**device, "conditions": conditions}]

    # The pod

    def pending(self) -> Raw:
        entries: list[Raw] = []
        statuses: list[Raw] = []
        for number in range(self.rng.choice((1, 1, 1, 2, 2, 3))):
            name = f"mine-{number}"
            entry = {"name": f"c{number}", "resourceClaimName": name}
            if self.maybe(0.12):
                node = self.rng.choice(self.nodes)
                result = {"request": "r", "driver": GPU, "pool": node, "device": "d0"}
                self.allocate(name, result, node, self.rng.choice(([], ["pending"], ["other"], ["pending", "other"])))
            elif not self.maybe(0.02):
                claim = self.claim(name)
                if self.maybe(0.25):
                    entry = {"name": f"c{number}", "resourceClaimTemplateName": "template"}
                    statuses.append({"name": f"c{number}", "resourceClaimName": name})
                    owner = "someone" if self.maybe(0.05) else "pending"
                    reference = {"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": owner, "controller": True}
                    claim["metadata"]["ownerReferences"] = [reference]
                if self.maybe(0.01):
                    claim["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            entries.append(entry)
        extended = self.maybe(0.12)
        if extended and self.maybe(0.7):
            entries, statuses = [], []
            self.claims = [claim for claim in self.claims if not claim["metadata"]["name"].startswith("mine")]
        containers = [
            {"name": f"c{i}", "resources": {"requests": {"cpu": "100m"}}} for i in range(self.rng.choice((1, 1, 2)))
        ]
        inits: list[Raw] = []
        if extended:
            resource = self.rng.choice(("example.com/gpu", "deviceclass.resource.kubernetes.io/nic"))
            for container in containers[: self.rng.randint(1, 2)]:
                container["resources"]["requests"][resource] = str(self.rng.randint(1, 2))
            for number in range(self.rng.choice((0, 0, 1, 2))):
                init: Raw = {"name": f"i{number}", "resources": {"requests": {resource: str(self.rng.randint(1, 3))}}}
                if self.maybe(0.3):
                    init["restartPolicy"] = "Always"
                inits.append(init)
        spec: Raw = {"containers": containers, "priority": 0}
        if inits:
            spec["initContainers"] = inits
        if entries:
            spec["resourceClaims"] = entries
        pod: Raw = {"metadata": {"name": "pending", "namespace": "default", "uid": "pending"}, "spec": spec}
        if statuses:
            pod["status"] = {"resourceClaimStatuses": statuses}
        return pod
