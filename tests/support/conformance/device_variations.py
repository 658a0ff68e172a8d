"""Cases with devices that are varied at random: each takes a case, and changes some parts of it or gives it parts of
others.

So new cases look like the given ones, and combine what these have apart. What the API server would refuse may occur
where kube-scheduler has an answer to it.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

Raw = dict[str, Any]
CHANGES: Final[list[Callable[[_Variation], None]]] = []
"""Each does nothing to a case without what it changes."""


def _change(method: Callable[[_Variation], None]) -> Callable[[_Variation], None]:
    CHANGES.append(method)
    return method


def varied(cases: Sequence[Mapping[str, Any]], seed: int, count: int) -> Iterator[Raw]:
    """`count` variations of the cases, without `expect`; the same ones for the same seed."""
    for number in range(count):
        yield _Variation(random.Random(f"{seed}/{number}"), cases).made(f"varied/{seed}-{number}")


class _Variation:
    """One case that changes."""

    def __init__(self, rng: random.Random, cases: Sequence[Mapping[str, Any]]) -> None:
        self.rng = rng
        self.case: Raw = copy.deepcopy(dict(rng.choice(cases)))
        self.other: Raw = copy.deepcopy(dict(rng.choice(cases)))
        """Gives parts."""

    def made(self, name: str) -> Raw:
        self.case.pop("expect", None)
        for change in self.rng.choices(CHANGES, k=self.rng.choice((1, 2, 3, 4, 6, 10))):
            change(self)
        return {**self.case, "id": name}

    # What there is

    def maybe(self, chance: float) -> bool:
        return self.rng.random() < chance

    def any(self, items: Sequence[Raw]) -> Raw | None:
        return self.rng.choice(items) if items else None

    def slices(self) -> list[Raw]:
        return [raw["spec"] for raw in self.case.get("resourceSlices", ())]

    def devices(self) -> list[Raw]:
        return [device for spec in self.slices() for device in spec.get("devices", ())]

    def own_claims(self, case: Raw) -> list[Raw]:
        """The claims of the pod."""
        pod = case["pod"]
        names = {entry.get("resourceClaimName") for entry in pod["spec"].get("resourceClaims", ())}
        names |= {e.get("resourceClaimName") for e in pod.get("status", {}).get("resourceClaimStatuses", ())}
        return [raw for raw in case.get("resourceClaims", ()) if raw["metadata"]["name"] in names]

    def open_claims(self, case: Raw) -> list[Raw]:
        """Those that are not allocated."""
        return [raw for raw in self.own_claims(case) if not (raw.get("status") or {}).get("allocation")]

    def used_claims(self) -> list[Raw]:
        return [raw for raw in self.case.get("resourceClaims", ()) if (raw.get("status") or {}).get("allocation")]

    def requests(self, case: Raw) -> list[Raw]:
        return [request for raw in self.open_claims(case) for request in raw["spec"]["devices"]["requests"]]

    def asks(self, case: Raw) -> list[Raw]:
        found = []
        for request in self.requests(case):
            found += [request["exactly"]] if "exactly" in request else request.get("firstAvailable", [])
        return found

    def results(self) -> list[Raw]:
        return [r for raw in self.used_claims() for r in raw["status"]["allocation"]["devices"]["results"]]

    # Devices

    @_change
    def copy_part_of_a_device(self) -> None:
        one, other = self.any(self.devices()), self.any(self.devices())
        part = self.rng.choice(("attributes", "capacity", "taints", "consumesCounters", "binding", "bindsToNode"))
        if one is None or other is None:
            return
        for key in ("bindingConditions", "bindingFailureConditions") if part == "binding" else (part,):
            _copy(other, one, key)
        if part == "capacity":
            _copy(other, one, "allowMultipleAllocations")

    @_change
    def drop_part_of_a_device(self) -> None:
        device = self.any(self.devices())
        if device is None:
            return
        for key in self.rng.choice(
            (
                ("taints",),
                ("consumesCounters",),
                ("bindingConditions", "bindingFailureConditions"),
                ("bindingFailureConditions",),
                ("bindsToNode",),
                ("capacity", "allowMultipleAllocations"),
            )
        ):
            device.pop(key, None)

    @_change
    def change_an_attribute(self) -> None:
        device = self.any(self.devices())
        if device is None or not device.get("attributes"):
            return
        name = self.rng.choice(sorted(device["attributes"]))
        if self.maybe(0.3):
            del device["attributes"][name]
            return
        values = [d["attributes"][name] for d in self.devices() if name in d.get("attributes", {})]
        device["attributes"][name] = copy.deepcopy(self.rng.choice(values))

    @_change
    def share_a_device(self) -> None:
        device = self.any(self.devices())
        if device is None:
            return
        if device.pop("allowMultipleAllocations", None):
            for capacity in device.get("capacity", {}).values():
                capacity.pop("requestPolicy", None)
        else:
            device["allowMultipleAllocations"] = True

    @_change
    def change_a_capacity(self) -> None:
        device = self.any([device for device in self.devices() if device.get("capacity")])
        if device is None:
            return
        name = self.rng.choice(sorted(device["capacity"]))
        if self.maybe(0.3):
            device["capacity"][name].pop("requestPolicy", None)
        elif self.maybe(0.3):
            del device["capacity"][name]
        else:
            known = [d["capacity"][name] for d in self.devices() if name in d.get("capacity", {})]
            device["capacity"][name] = copy.deepcopy(self.rng.choice(known))
            if not device.get("allowMultipleAllocations"):
                device["capacity"][name].pop("requestPolicy", None)

    @_change
    def change_a_counter(self) -> None:
        sets = [item for spec in self.slices() for item in spec.get("sharedCounters", ())]
        consumed = [item for device in self.devices() for item in device.get("consumesCounters", ())]
        found = self.any(sets if self.maybe(0.6) else consumed)
        if found is None or not found["counters"]:
            return
        counter = found["counters"][self.rng.choice(sorted(found["counters"]))]
        counter["value"] = self.rng.choice(("0", "1", "2", "7", "10Gi", "20Gi", "80Gi", counter["value"]))

    @_change
    def add_a_taint(self) -> None:
        device = self.any(self.devices())
        tolerated = [t.get("key") or "k" for ask in self.asks(self.case) for t in ask.get("tolerations", ())]
        if device is not None:
            taint = {"key": self.rng.choice([*tolerated, "k"]), "effect": self.rng.choice(("NoSchedule", "NoExecute"))}
            device["taints"] = [*device.get("taints", ()), {**taint, "timeAdded": "2026-01-01T00:00:00Z"}]

    # Slices and pools

    @_change
    def change_a_pool(self) -> None:
        spec = self.any(self.slices())
        if spec is None:
            return
        # kube-scheduler looks at a random slice of the pool, so those of a generation say the same count.
        others = [other["pool"] for other in self.slices() if other is not spec and _pool(other) == _pool(spec)]
        if self.maybe(0.5):
            spec["pool"]["generation"] += self.rng.choice((-1, 1))
            spec["pool"] = next(
                (o for o in others if o["generation"] == spec["pool"]["generation"]), spec["pool"]
            ).copy()
            return
        more = self.rng.choice((-1, 1))
        for pool in (spec["pool"], *others):
            pool["resourceSliceCount"] = max(1, pool["resourceSliceCount"] + more)

    @_change
    def drop_a_slice(self) -> None:
        found = self.any(self.case.get("resourceSlices", []))
        if found is None:
            return
        self.case["resourceSlices"].remove(found)
        if self.maybe(0.8):
            for spec in self.slices():
                if _pool(spec) == _pool(found["spec"]):
                    spec["pool"]["resourceSliceCount"] = max(1, spec["pool"]["resourceSliceCount"] - 1)

    @_change
    def split_a_slice(self) -> None:
        found = self.any(
            [raw for raw in self.case.get("resourceSlices", ()) if len(raw["spec"].get("devices", ())) > 1]
        )
        if found is None:
            return
        cut = self.rng.randrange(1, len(found["spec"]["devices"]))
        rest = copy.deepcopy(found)
        rest["metadata"]["name"] = self.rng.choice(("a-", "z-")) + found["metadata"]["name"]
        rest["spec"]["devices"] = rest["spec"]["devices"][cut:]
        found["spec"]["devices"] = found["spec"]["devices"][:cut]
        self.case["resourceSlices"].append(rest)
        for spec in self.slices():
            if _pool(spec) == _pool(found["spec"]):
                spec["pool"]["resourceSliceCount"] += 1

    @_change
    def move_a_slice(self) -> None:
        spec = self.any([spec for spec in self.slices() if not spec.get("perDeviceNodeSelection")])
        if spec is None:
            return
        for key in ("nodeName", "nodeSelector", "allNodes"):
            spec.pop(key, None)
        spec.update(self.reach())

    @_change
    def select_nodes_by_device(self) -> None:
        spec = self.any([spec for spec in self.slices() if spec.get("devices")])
        if spec is None:
            return
        for key in ("nodeName", "nodeSelector", "allNodes"):
            spec.pop(key, None)
        spec["perDeviceNodeSelection"] = True
        for device in spec["devices"]:
            if not {"nodeName", "nodeSelector", "allNodes"} & device.keys():
                device.update(self.reach())

    def reach(self) -> Raw:
        names = [node["metadata"]["name"] for node in self.case["nodes"]]
        if self.maybe(0.4):
            return {"nodeName": self.rng.choice(names)}
        if self.maybe(0.3):
            return {"allNodes": True}
        labels = [item for node in self.case["nodes"] for item in sorted(node["metadata"].get("labels", {}).items())]
        key, value = self.rng.choice(labels)
        requirement = {"key": key, "operator": self.rng.choice(("In", "NotIn")), "values": [value]}
        return {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}}

    @_change
    def shuffle(self) -> None:
        for spec in self.slices():
            self.rng.shuffle(spec.get("devices", []))
        self.rng.shuffle(self.case.get("resourceSlices", []))

    # Claims of running pods

    @_change
    def give_another_device(self) -> None:
        result, spec = self.any(self.results()), self.any([spec for spec in self.slices() if spec.get("devices")])
        if result is None or spec is None:
            return
        device = self.rng.choice(spec["devices"])
        result.update(driver=spec["driver"], pool=spec["pool"]["name"], device=device["name"])
        if not device.get("allowMultipleAllocations") and self.maybe(0.9):
            result.pop("shareID", None)
            result.pop("consumedCapacity", None)

    @_change
    def join_results(self) -> None:
        one, other = self.any(self.used_claims()), self.any(self.results())
        if one is not None and other is not None:
            one["status"]["allocation"]["devices"]["results"].append(copy.deepcopy(other))

    @_change
    def change_a_result(self) -> None:
        result, known = self.any(self.results()), self.any(self.results())
        if result is None or known is None:
            return
        key = self.rng.choice(("adminAccess", "shareID", "consumedCapacity", "bindingConditions"))
        if key in result:
            del result[key]
        elif key == "adminAccess":
            result[key] = True
        elif key in known:
            result[key] = copy.deepcopy(known[key])

    @_change
    def release_a_claim(self) -> None:
        claim = self.any(self.used_claims())
        if claim is None:
            return
        if self.maybe(0.5):
            del claim["status"]
        else:
            claim["status"].pop("reservedFor", None)

    @_change
    def have_the_pod_share_a_claim(self) -> None:
        open_names = {raw["metadata"]["name"] for raw in self.open_claims(self.case)}
        entries = self.case["pod"]["spec"].get("resourceClaims", [])
        entry = self.any([entry for entry in entries if entry.get("resourceClaimName") in open_names])
        if (claim := self.any(self.used_claims())) is not None and entry is not None:
            entry["resourceClaimName"] = claim["metadata"]["name"]

    # What the pod asks for

    @_change
    def ask_for_more(self) -> None:
        ask = self.any(self.asks(self.case))
        if ask is None:
            return
        if self.maybe(0.2):
            ask["allocationMode"] = "ExactCount" if ask.get("allocationMode") == "All" else "All"
        if ask.get("allocationMode") == "All":
            ask.pop("count", None)
        else:
            ask["count"] = max(1, ask.get("count", 1) + self.rng.choice((-1, 1, 2)))

    @_change
    def copy_part_of_an_ask(self) -> None:
        ask, known = self.any(self.asks(self.case)), self.any(self.asks(self.other if self.maybe(0.5) else self.case))
        if ask is not None and known is not None:
            part = self.rng.choice(("selectors", "tolerations", "capacity", "deviceClassName"))
            if part in known or part != "deviceClassName":
                _copy(known, ask, part)

    @_change
    def ask_for_admin_access(self) -> None:
        request = self.any([request for request in self.requests(self.case) if "exactly" in request])
        if request is None:
            return
        if not request["exactly"].pop("adminAccess", None):
            request["exactly"]["adminAccess"] = True

    @_change
    def add_an_alternative(self) -> None:
        request, ask = self.any(self.requests(self.case)), self.any(self.asks(self.case))
        if request is None or ask is None:
            return
        if "exactly" in request:
            request["firstAvailable"] = [{**request.pop("exactly"), "name": "first"}]
            request["firstAvailable"][0].pop("adminAccess", None)
        added = {**copy.deepcopy(ask), "name": f"added-{len(request['firstAvailable'])}"}
        added.pop("adminAccess", None)
        request["firstAvailable"].insert(self.rng.randint(0, len(request["firstAvailable"])), added)
        del request["firstAvailable"][8:]

    @_change
    def drop_an_alternative(self) -> None:
        request = self.any([r for r in self.requests(self.case) if len(r.get("firstAvailable", ())) > 1])
        if request is not None:
            request["firstAvailable"].pop(self.rng.randrange(len(request["firstAvailable"])))

    @_change
    def add_a_request(self) -> None:
        claim, request = self.any(self.open_claims(self.case)), self.any(self.requests(self.case))
        if claim is None or request is None:
            return
        requests = claim["spec"]["devices"]["requests"]
        name = f"added-{len(requests)}"
        if all(known["name"] != name for known in requests):
            requests.insert(self.rng.randint(0, len(requests)), {**copy.deepcopy(request), "name": name})

    @_change
    def add_a_constraint(self) -> None:
        claim, device = self.any(self.open_claims(self.case)), self.any(self.devices())
        if claim is None or device is None or not device.get("attributes"):
            return
        name = self.rng.choice(sorted(device["attributes"]))
        driver = next(spec["driver"] for spec in self.slices() if device in spec.get("devices", ()))
        kind = self.rng.choice(("matchAttribute", "matchAttribute", "distinctAttribute"))
        constraint: Raw = {kind: name if "/" in name else f"{driver}/{name}"}
        requests = claim["spec"]["devices"]["requests"]
        if self.maybe(0.4):
            constraint["requests"] = [r["name"] for r in self.rng.sample(requests, self.rng.randint(1, len(requests)))]
        claim["spec"]["devices"].setdefault("constraints", []).append(constraint)

    @_change
    def drop_constraints(self) -> None:
        claim = self.any(self.open_claims(self.case))
        if claim is not None:
            claim["spec"]["devices"].pop("constraints", None)

    @_change
    def take_the_spec_of_another_case(self) -> None:
        claim, known = self.any(self.open_claims(self.case)), self.any(self.open_claims(self.other))
        if claim is None or known is None:
            return
        claim["spec"] = copy.deepcopy(known["spec"])
        names = {raw["metadata"]["name"] for raw in self.case["deviceClasses"]}
        self.case["deviceClasses"] += [
            raw for raw in copy.deepcopy(self.other["deviceClasses"]) if raw["metadata"]["name"] not in names
        ]

    @_change
    def ask_for_an_extended_resource(self) -> None:
        found = self.any(self.case.get("deviceClasses", []))
        if found is None:
            return
        resource = found["spec"].get("extendedResourceName")
        if not resource:
            resource = f"deviceclass.resource.kubernetes.io/{found['metadata']['name']}"
        spec = self.case["pod"]["spec"]
        if self.maybe(0.5):
            own = self.own_claims(self.case)
            self.case["resourceClaims"] = [raw for raw in self.case.get("resourceClaims", ()) if raw not in own]
            spec.pop("resourceClaims", None)
            self.case["pod"].pop("status", None)
        if self.maybe(0.3):
            container = {"name": f"added-{len(spec.get('initContainers', ()))}"}
            if self.maybe(0.3):
                container["restartPolicy"] = "Always"
            spec.setdefault("initContainers", []).append(container)
        else:
            container = self.rng.choice(spec["containers"])
        resources = container.setdefault("resources", {})
        amount = str(self.rng.randint(1, 2))
        for kind in ("requests", "limits"):
            resources.setdefault(kind, {})[resource] = amount
        if self.maybe(0.15):
            self.rng.choice(self.case["nodes"])["status"]["allocatable"][resource] = str(self.rng.randint(0, 3))

    @_change
    def name_an_extended_resource(self) -> None:
        """Not of a class whose implicit resource the pod asks for: kube-scheduler forgets that if another class has the
        same name and is newer.
        """
        asked = str(self.case["pod"])
        classes = [raw for raw in self.case.get("deviceClasses", ()) if f"/{raw['metadata']['name']}'" not in asked]
        if (found := self.any(classes)) is not None:
            found["spec"]["extendedResourceName"] = self.rng.choice(("example.com/gpu", "example.com/nic"))
            found["metadata"]["creationTimestamp"] = f"2026-01-0{self.rng.randint(1, 3)}T00:00:00Z"


def _pool(spec: Raw) -> tuple[str, str]:
    return spec["driver"], spec["pool"]["name"]


def _copy(source: Raw, target: Raw, key: str) -> None:
    if key in source:
        target[key] = copy.deepcopy(source[key])
    else:
        target.pop(key, None)
