"""Random conformance cases about all of the default plugins but DynamicResources: small clusters, each with a pending
pod or with steps.

A case depends only on its seed and number. Its group is the topic of the case, `mixed` for several topics, or
`sequence`. Objects are such as the API server accepts, and refer to others that may be missing. `devices` and
`pod_resources` have further cases.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

Object = dict[str, Any]

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
_ZONES: Final = ("a", "b", "c")
_APPS: Final = ("web", "db", "cache")
_NAMESPACES: Final = ("default", "team", "other")
_DEVICE: Final = "example.com/foo"
_CPU: Final = ("0", "1m", "100m", "250m", "0.5", "1", "1500m", "2")
_MEMORY: Final = ("0", "1Mi", "128Mi", "200Mi", "512M", "1Gi", "1.5Gi", "1e9")
_TAINTS: Final = ("dedicated", "broken", "spot")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_IMAGES: Final = ("app:v1", "registry.example.com/app:v2", "tool", "big@sha256:" + 64 * "a")
_DRIVER: Final = "csi.example.com"
_FEATURES: Final = (
    "RestartAllContainersOnContainerExits",
    "UserNamespacesHostNetworkSupport",
    "VolumeBindMountOptions",
)


def cluster_cases(seed: int, count: int) -> Iterator[Object]:
    """Yields `count` cases without expectations; each eighth is a sequence."""
    for number in range(count):
        generator = _Generator(random.Random(f"clusters/{seed}/{number}"))
        yield generator.sequence(f"{seed}-{number}") if number % 8 == 7 else generator.case(f"{seed}-{number}")


class _Generator:
    """Makes the objects of one case. The topics are methods that add to the cluster and to the pending pod."""

    def __init__(self, source: random.Random) -> None:
        self._random = source
        self._case: Object = {}
        self._configuration: dict[str, Object] = {}
        self._nodes_left: list[str] = []
        self._pods_left: list[Object] = []
        self._topics: dict[str, Callable[[Object], None]] = {
            "resources": self._resources,
            "taints": self._taints,
            "node-affinity": self._node_affinity,
            "ports": self._ports,
            "images": self._images,
            "spread": self._spread,
            "pod-affinity": self._pod_affinity,
            "volumes": self._volumes,
            "preemption": self._preemption,
            "features": self._features,
        }

    def case(self, name: str) -> Object:
        topics = self._some(tuple(self._topics), self._one_of((1, 1, 1, 2, 3, 4)))
        group = topics[0] if len(topics) == 1 else "mixed"
        pending = self._pod("pending")
        self._cluster(2, 8)
        for topic in topics:
            self._topics[topic](pending)
        if self._happens(0.06):
            self._one_of(self._case["nodes"])["spec"] = {"unschedulable": True}
        if self._happens(0.06):
            nominated = self._one_of(("gone", *self._names()))
            pending.setdefault("status", {})["nominatedNodeName"] = nominated
        return self._finished(f"{group}/{name}", group) | {"pod": pending}

    def sequence(self, name: str) -> Object:
        """Steps about repeated pods of a few templates, and changes of nodes, pods and namespaces between them."""
        self._cluster(4, 12)
        templates = [self._pod("template") for _ in range(3)]
        for template in templates:
            for topic in self._some(("resources", "taints", "node-affinity", "ports", "spread", "pod-affinity"), 2):
                self._topics[topic](template)
        self._nodes_left, self._pods_left = self._names(), list(self._case["pods"])
        steps: list[Object] = [
            {"schedule": self._copy(self._one_of(templates), f"s{number}")}
            if self._happens(0.6)
            else self._change(number)
            for number in range(self._random.randint(8, 20))
        ]
        return self._finished(f"sequence/{name}", "sequence") | {"steps": steps}

    # Helpers

    def _happens(self, probability: float) -> bool:
        return self._random.random() < probability

    def _one_of(self, choices: Sequence[Any]) -> Any:
        return self._random.choice(choices)

    def _some(self, choices: Sequence[Any], count: int) -> list[Any]:
        return self._random.sample(choices, min(count, len(choices)))

    def _names(self) -> list[str]:
        return [node["metadata"]["name"] for node in self._case["nodes"]]

    def _finished(self, name: str, group: str) -> Object:
        arguments = [{"name": plugin, "args": args} for plugin, args in self._configuration.items()]
        return {"id": name, "group": group, **self._case} | ({"pluginConfig": arguments} if arguments else {})

    def _copy(self, pod: Object, name: str) -> Object:
        return {**pod, "metadata": {**pod["metadata"], "name": name, "uid": f"default.{name}"}}

    # The cluster

    def _cluster(self, least: int, most: int) -> None:
        self._case["nodes"] = [self._node(f"n{i:02}") for i in range(self._random.randint(least, most))]
        homes = (*self._names(), "gone")
        count = self._random.randint(0, 2 * len(homes))
        self._case["pods"] = [self._pod(f"p{i}", self._one_of(homes)) for i in range(count)]
        self._case["namespaces"] = [self._namespace(name) for name in _NAMESPACES[: self._one_of((2, 3))]]

    def _node(self, name: str) -> Object:
        labels = {HOSTNAME: name}
        for key, probability, values in (
            (ZONE, 0.85, _ZONES), ("disk", 0.6, ("ssd", "hdd")), ("generation", 0.5, ("1", "2", "10", "x")),
        ):  # fmt: skip
            if self._happens(probability):
                labels[key] = self._one_of(values)
        allocatable = {
            "cpu": self._one_of(("1", "2", "3920m", "8")),
            "memory": self._one_of(("2Gi", "8154M", "16Gi")),
            "pods": self._one_of(("3", "110", "110", "110")),
        }
        if self._happens(0.5):
            allocatable |= {_DEVICE: self._one_of(("0", "1", "4")), "ephemeral-storage": "20Gi"}
        return {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": allocatable}}

    def _namespace(self, name: str) -> Object:
        labels = {"kubernetes.io/metadata.name": name, "level": self._one_of(("high", "low"))}
        return {"metadata": {"name": name, "labels": labels}}

    def _pod(self, name: str, node: str = "") -> Object:
        """A pod that is on `node`, or a pending one in the namespace default."""
        namespace = self._one_of(_NAMESPACES) if node else "default"
        metadata: Object = {"name": name, "namespace": namespace, "uid": f"{namespace}.{name}"}
        metadata["labels"] = {"app": self._one_of(_APPS)} | ({"tier": "front"} if self._happens(0.3) else {})
        requests = {"cpu": self._one_of(_CPU), "memory": self._one_of(_MEMORY)} if self._happens(0.8) else {}
        spec: Object = {"priority": 0, "containers": [{"name": "c", "resources": {"requests": requests}}]}
        pod: Object = {"metadata": metadata, "spec": spec}
        if node:
            spec["nodeName"] = node
            pod["status"] = {"phase": self._one_of(("Running",) * 9 + ("Succeeded",))}
            if self._happens(0.05):
                metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        return pod

    def _change(self, number: int) -> Object:
        """A step other than `schedule`. A deleted pod or node does not come back."""
        kind = self._one_of(("addPod", "addNode", "updateNode", "deleteNode", "deletePod", "updateNamespace"))
        if kind == "deletePod" and self._pods_left:
            gone = self._pods_left.pop()["metadata"]
            return {"deletePod": {"namespace": gone["namespace"], "name": gone["name"]}}
        if kind == "deleteNode" and len(self._nodes_left) > 2:
            return {"deleteNode": self._nodes_left.pop()}
        if kind == "addPod":
            return {"addPod": self._pod(f"added{number}", self._one_of(self._nodes_left))}
        if kind == "addNode":
            self._nodes_left.insert(0, f"added{number}")
            return {"addNode": self._node(f"added{number}")}
        if kind == "updateNamespace":
            return {"updateNamespace": self._namespace(self._one_of(_NAMESPACES))}
        node = self._node(self._one_of(self._nodes_left))
        if self._happens(0.3):
            node["spec"] = {"taints": [self._taint()]}
        return {"updateNode": node}

    # Topics

    def _resources(self, pending: Object) -> None:
        spec = pending["spec"]
        spec["containers"] = [{"name": f"c{i}", "resources": self._requests()} for i in range(self._one_of((1, 1, 2)))]
        if self._happens(0.3):
            spec["initContainers"] = [{"name": "i", "resources": self._requests()}]
            if self._happens(0.5):
                spec["initContainers"][0]["restartPolicy"] = "Always"
        resources = [
            {"name": name, "weight": self._one_of((1, 2, 5))}
            for name in self._some(("cpu", "memory", _DEVICE, "ephemeral-storage"), self._one_of((1, 2, 3)))
        ]
        if self._happens(0.5):
            strategy: Object = {
                "type": self._one_of(("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")),
                "resources": resources,
            }
            if strategy["type"] == "RequestedToCapacityRatio":
                scores = self._one_of(((0, 10), (10, 0), (2, 7)))
                shape = [
                    {"utilization": u, "score": s} for u, s in zip((0, self._one_of((70, 100))), scores, strict=True)
                ]
                strategy["requestedToCapacityRatio"] = {"shape": shape}
            arguments: Object = {"scoringStrategy": strategy}
            if self._happens(0.3):
                arguments |= {"ignoredResources": [_DEVICE], "ignoredResourceGroups": ["example.org"]}
            self._configuration["NodeResourcesFit"] = arguments
        if self._happens(0.3):
            balanced = [{**each, "weight": 1} for each in resources]
            self._configuration["NodeResourcesBalancedAllocation"] = {"resources": balanced}

    def _requests(self) -> Object:
        requests = {"cpu": self._one_of(_CPU), "memory": self._one_of(_MEMORY)}
        if self._happens(0.4):
            requests[_DEVICE] = self._one_of(("1", "2"))
        if self._happens(0.2):
            requests["ephemeral-storage"] = self._one_of(("1Gi", "19G", "30Gi"))
        return {"requests": requests}

    def _taint(self) -> Object:
        return {
            "key": self._one_of(_TAINTS), "value": self._one_of(("", "a", "b")), "effect": self._one_of(_EFFECTS)
        }  # fmt: skip

    def _taints(self, pending: Object) -> None:
        for node in self._case["nodes"]:
            if self._happens(0.4):
                node.setdefault("spec", {})["taints"] = [self._taint() for _ in range(self._one_of((1, 1, 2, 3)))]
        tolerations: list[Object] = []
        for _ in range(self._one_of((0, 1, 2, 3))):
            toleration: Object = {"operator": "Exists"}
            if self._happens(0.9):
                toleration["key"] = self._one_of(_TAINTS)
                if self._happens(0.5):
                    toleration |= {"operator": "Equal", "value": self._one_of(("", "a", "b"))}
            if self._happens(0.6):
                toleration["effect"] = self._one_of(_EFFECTS)
                if toleration["effect"] == "NoExecute" and self._happens(0.5):
                    toleration["tolerationSeconds"] = 30
            tolerations.append(toleration)
        pending["spec"]["tolerations"] = tolerations

    def _node_affinity(self, pending: Object) -> None:
        spec = pending["spec"]
        if self._happens(0.4):
            spec["nodeSelector"] = dict(self._some((("disk", "ssd"), (ZONE, "a"), ("disk", "hdd"), ("ghost", "x")), 1))
        affinity: Object = {}
        if self._happens(0.6):
            terms = [self._node_term() for _ in range(self._one_of((1, 1, 2)))]
            affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
        if self._happens(0.6):
            affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": self._random.randint(1, 100), "preference": self._node_term()}
                for _ in range(self._one_of((1, 2, 3)))
            ]
        if affinity:
            spec.setdefault("affinity", {})["nodeAffinity"] = affinity
        if self._happens(0.2):
            terms = [{"matchExpressions": [self._node_requirement()]}]
            added = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
            self._configuration["NodeAffinity"] = {"addedAffinity": added}

    def _node_term(self) -> Object:
        term: Object = {"matchExpressions": [self._node_requirement() for _ in range(self._one_of((0, 1, 1, 2)))]}
        if self._happens(0.15):
            names = {
                "key": "metadata.name",
                "operator": self._one_of(("In", "NotIn")),
                "values": [self._one_of(self._names())],
            }
            term["matchFields"] = [names]
        return term

    def _node_requirement(self) -> Object:
        operator = self._one_of(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
        if operator in ("Gt", "Lt"):
            return {"key": "generation", "operator": operator, "values": [self._one_of(("0", "1", "5"))]}
        key, values = self._one_of(
            ((ZONE, _ZONES), ("disk", ("ssd", "hdd")), ("generation", ("1", "x")), ("ghost", ("1",)))
        )
        return {"key": key, "operator": operator} | (
            {"values": self._some(values, self._one_of((1, 2)))} if "In" in operator else {}
        )

    def _ports(self, pending: Object) -> None:
        for pod in (pending, *self._case["pods"]):
            if pod is pending or self._happens(0.5):
                pod["spec"]["containers"][0]["ports"] = [self._port() for _ in range(self._one_of((1, 1, 2)))]

    def _port(self) -> Object:
        port: Object = {"containerPort": 80, "protocol": self._one_of(("TCP", "TCP", "UDP"))}
        if self._happens(0.9):
            port["hostPort"] = self._one_of((80, 81, 8080))
        if self._happens(0.5):
            port["hostIP"] = self._one_of(("", "0.0.0.0", "127.0.0.1", "10.0.0.1"))
        return port

    def _images(self, pending: Object) -> None:
        sizes = {name: self._one_of((1, 20, 300, 2000)) * 1024 * 1024 for name in _IMAGES}
        for node in self._case["nodes"]:
            held = self._some(_IMAGES, self._random.randint(0, len(_IMAGES)))
            node["status"]["images"] = [
                {"names": [name if ":" in name else f"{name}:latest"], "sizeBytes": sizes[name]} for name in held
            ]
        wanted = self._some(_IMAGES, self._one_of((1, 2, 3)))
        pending["spec"]["containers"] = [{"name": f"c{i}", "image": image} for i, image in enumerate(wanted)]
        if self._happens(0.3):
            volume = {"name": "v", "image": {"reference": self._one_of(_IMAGES)}}
            pending["spec"].setdefault("volumes", []).append(volume)

    def _selector(self) -> Object:
        if self._happens(0.6):
            return {"matchLabels": {"app": self._one_of(_APPS)}}
        if self._happens(0.3):
            return {}
        operator = self._one_of(("In", "NotIn", "Exists", "DoesNotExist"))
        values = {"values": self._some(_APPS, 2)} if "In" in operator else {}
        return {"matchExpressions": [{"key": self._one_of(("app", "tier")), "operator": operator, **values}]}

    def _constraint(self) -> Object:
        key = self._one_of((ZONE, HOSTNAME, "disk"))
        return {
            "maxSkew": self._one_of((1, 1, 2, 3)),
            "topologyKey": key,
            "whenUnsatisfiable": self._one_of(("DoNotSchedule", "ScheduleAnyway")),
        }

    def _spread(self, pending: Object) -> None:
        if self._happens(0.8):
            constraints: dict[tuple[str, str], Object] = {}
            for _ in range(self._one_of((1, 1, 2, 3))):
                constraint = self._constraint() | {"labelSelector": self._selector()}
                if constraint["whenUnsatisfiable"] == "DoNotSchedule" and self._happens(0.3):
                    constraint["minDomains"] = self._one_of((1, 3, 5))
                for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
                    if self._happens(0.2):
                        constraint[policy] = self._one_of(("Honor", "Ignore"))
                constraints[constraint["topologyKey"], constraint["whenUnsatisfiable"]] = constraint
            pending["spec"]["topologySpreadConstraints"] = list(constraints.values())
            return
        selector = {"app": pending["metadata"]["labels"]["app"]}
        service = {"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": selector}}
        self._case["services"] = [service]
        if self._happens(0.5):
            arguments = {"defaultingType": "List", "defaultConstraints": [self._constraint()]}
            self._configuration["PodTopologySpread"] = arguments

    def _pod_affinity(self, pending: Object) -> None:
        for pod in self._case["pods"]:
            if self._happens(0.3):
                pod["spec"].setdefault("affinity", {}).update(self._affinities())
        pending["spec"].setdefault("affinity", {}).update(self._affinities())
        if self._happens(0.3):
            arguments = {
                "hardPodAffinityWeight": self._one_of((0, 1, 50)),
                "ignorePreferredTermsOfExistingPods": self._happens(0.5),
            }
            self._configuration["InterPodAffinity"] = arguments

    def _affinities(self) -> Object:
        found: Object = {}
        for kind in self._some(("podAffinity", "podAntiAffinity"), self._one_of((1, 1, 2))):
            required = [self._pod_term() for _ in range(self._one_of((0, 1, 1, 2)))]
            weighted = [
                {"weight": self._random.randint(1, 100), "podAffinityTerm": self._pod_term()}
                for _ in range(self._one_of((0, 1, 2)))
            ]
            found[kind] = {
                "requiredDuringSchedulingIgnoredDuringExecution": required,
                "preferredDuringSchedulingIgnoredDuringExecution": weighted,
            }
        return found

    def _pod_term(self) -> Object:
        term: Object = {"topologyKey": self._one_of((ZONE, HOSTNAME, "disk")), "labelSelector": self._selector()}
        if self._happens(0.3):
            term["namespaces"] = self._some(_NAMESPACES, self._one_of((1, 2)))
        if self._happens(0.2):
            term["namespaceSelector"] = self._one_of(({}, {"matchLabels": {"level": "high"}}))
        return term

    def _volumes(self, pending: Object) -> None:
        """Claims of the pending pod: bound, waiting for their first consumer, or unbound; also of others, and
        missing.
        """
        modes = {"slow": "WaitForFirstConsumer", "local": "WaitForFirstConsumer", "now": "Immediate"}
        self._case["storageClasses"] = [
            {
                "metadata": {"name": name},
                "provisioner": "kubernetes.io/no-provisioner" if name == "local" else _DRIVER,
                "volumeBindingMode": mode,
            }
            for name, mode in modes.items()
        ]
        must_be_installed = {"preventPodSchedulingIfMissing": self._happens(0.3)}
        self._case["csiDrivers"] = [{"metadata": {"name": _DRIVER}, "spec": must_be_installed}]
        self._case["csiNodes"] = [
            {
                "metadata": {"name": name},
                "spec": {
                    "drivers": [{"name": _DRIVER, "nodeID": name, "allocatable": {"count": self._one_of((1, 2))}}]
                },
            }
            for name in self._names()
            if self._happens(0.7)
        ]
        self._case["persistentVolumes"], self._case["persistentVolumeClaims"] = volumes, claims = [], []
        names = [f"claim{i}" for i in range(self._one_of((1, 1, 2)))]
        for name in names:
            class_name = self._one_of(tuple(modes))
            mode = self._one_of(("ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"))
            claim: Object = {
                "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
                "spec": {
                    "accessModes": [mode],
                    "volumeMode": "Filesystem",
                    "storageClassName": class_name,
                    "resources": {"requests": {"storage": self._one_of(("1Gi", "5Gi", "500M"))}},
                },
                "status": {"phase": "Pending"},
            }
            if self._happens(0.5):
                volume = self._volume(f"pv-{name}", class_name, mode)
                claimed = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": name, "uid": f"uid-{name}"}
                volume["spec"]["claimRef"], volume["status"] = claimed, {"phase": "Bound"}
                volumes.append(volume)
                claim["spec"]["volumeName"] = f"pv-{name}"
                claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
                claim["status"] = {"phase": "Bound"}
            if self._happens(0.95):
                claims.append(claim)
        free = [self._volume(f"free{i}", "local", "ReadWriteOnce") for i in range(self._random.randint(0, 4))]
        for volume in free:
            if self._happens(0.2):  # reserved for a claim
                volume["spec"]["claimRef"] = {"namespace": "default", "name": self._one_of(names)}
        volumes += free
        if self._happens(0.1):
            names.append(self._one_of(names))
        used = [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": name}} for i, name in enumerate(names)]
        pending["spec"].setdefault("volumes", []).extend(used)
        for pod in self._case["pods"]:
            if pod["metadata"]["namespace"] == "default" and self._happens(0.3):
                pod["spec"]["volumes"] = [self._one_of(used)]

    def _volume(self, name: str, class_name: str, mode: str) -> Object:
        spec: Object = {
            "capacity": {"storage": self._one_of(("2Gi", "5Gi", "10Gi"))},
            "accessModes": [mode],
            "storageClassName": class_name,
            "persistentVolumeReclaimPolicy": "Retain",
            "volumeMode": "Filesystem",
        }
        labels: Object = {}
        if class_name == "local":
            key, value = HOSTNAME, self._one_of(self._names())
            spec["local"] = {"path": "/data"}
        else:
            key, value = ZONE, self._one_of(_ZONES)
            spec["csi"] = {"driver": _DRIVER, "volumeHandle": name}
            if self._happens(0.4):
                labels = {ZONE: self._one_of(_ZONES)}
        if class_name == "local" or self._happens(0.5):
            terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}]
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": {"phase": "Available"}}

    def _preemption(self, pending: Object) -> None:
        """Nodes full of pods of lower and higher priority, some with a disruption budget, and a pending pod with a
        priority.
        """
        pods: list[Object] = []
        for node in self._case["nodes"]:
            name = node["metadata"]["name"]
            node["status"]["allocatable"] |= {"cpu": self._one_of(("2", "3")), "memory": "16Gi"}
            for number in range(self._one_of((1, 2, 3))):
                pod = self._pod(f"{name}-{number}", name)
                requests = {"cpu": self._one_of(("500m", "1", "2")), "memory": "256Mi"}
                pod["spec"] |= {
                    "priority": self._one_of((0, 0, 5, 10, 100)),
                    "containers": [{"name": "c", "resources": {"requests": requests}}],
                }
                pod["status"] = {"phase": "Running", "startTime": f"2026-01-01T0{self._random.randint(0, 9)}:00:00Z"}
                pods.append(pod)
        self._case["pods"] = pods
        self._case["podDisruptionBudgets"] = [
            {
                "metadata": {"name": f"budget-{app}", "namespace": namespace},
                "spec": {"selector": {"matchLabels": {"app": app}}},
                "status": {"disruptionsAllowed": self._one_of((0, 0, 1))},
            }
            for app in _APPS
            for namespace in _NAMESPACES
            if self._happens(0.2)
        ]
        requests = {"cpu": self._one_of(("1", "2", "3")), "memory": "512Mi"}
        pending["spec"] |= {
            "priority": self._one_of((10, 10, 50)),
            "containers": [{"name": "c", "resources": {"requests": requests}}],
        }
        if self._happens(0.1):
            pending["spec"]["preemptionPolicy"] = "Never"

    def _features(self, pending: Object) -> None:
        """Nodes that declare features of their kubelets, and a pending pod that needs some."""
        for node in self._case["nodes"]:
            node["status"]["declaredFeatures"] = sorted(self._some(_FEATURES, self._one_of((0, 1, 2, 3))))
        container, need = pending["spec"]["containers"][0], self._one_of((*_FEATURES, ""))
        if need == "RestartAllContainersOnContainerExits":
            exits = {"operator": "In", "values": [1]}
            rules = [{"action": "RestartAllContainers", "exitCodes": exits}]
            container |= {"restartPolicy": "Never", "restartPolicyRules": rules}
        elif need == "UserNamespacesHostNetworkSupport":
            pending["spec"] |= {"hostNetwork": True, "hostUsers": self._happens(0.2)}
        elif need == "VolumeBindMountOptions":
            container["volumeMounts"] = [{"name": "m", "mountPath": "/m", "bindMountOptions": ["noexec"]}]
            pending["spec"]["volumes"] = [*pending["spec"].get("volumes", ()), {"name": "m", "emptyDir": {}}]
