"""The objects that the demo creates: two policies, and pods sized to the cluster."""

from __future__ import annotations

from typing import Any, Final

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.resources import CPU, MEMORY

Json = dict[str, Any]

MANAGED_BY: Final = {"app.kubernetes.io/managed-by": "podwright-demo"}
WEB: Final = "web"
BATCH: Final = "batch"
NEXT: Final = "next"
PINNED: Final = "pinned"
GPU: Final = "gpu"
TOO_BIG: Final = "too-big"
COUNTS: Final = {WEB: 12, BATCH: 10, PINNED: 2, GPU: 1, TOO_BIG: 1, NEXT: 6}
UNITS: Final = {WEB: 1, BATCH: 3, PINNED: 1, GPU: 1, NEXT: 3}
"""How many units a pod of each group requests; see Size."""
DRIVER: Final = "gpu.example.com"
TOO_BIG_CPU: Final = "1000"
_MI: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Size:
    """The unit of the pods' requests, in milli-CPU and bytes."""

    cpu: int
    memory: int

    def times(self, units: int) -> dict[str, int]:
        """Resource to amount, in milli-CPU and bytes."""
        return {CPU: self.cpu * units, MEMORY: self.memory // _MI * _MI * units}


@dataclass(frozen=True, slots=True)
class Names:
    """The names that one run uses; on a cluster they are unique, so that concurrent runs do not collide."""

    namespace: str
    scheduler: str
    web_policy: str
    batch_policy: str


def policy(names: Names, name: str, group: str, strategy: str) -> Json:
    """A SchedulerPolicy for the pods of one group in the demo's namespace."""
    return {
        "apiVersion": "podwright.dev/v1alpha1",
        "kind": "SchedulerPolicy",
        "metadata": {"name": name, "labels": MANAGED_BY},
        "spec": {
            "schedulerName": names.scheduler,
            "match": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": names.namespace}},
                "podSelector": {"matchLabels": {"app": group}},
            },
            "strategy": {"type": strategy},
        },
    }


def pod(names: Names, name: str, group: str, size: Size, selector: dict[str, str] | None = None) -> Json:
    """A pod that passes the strictest Pod Security Standard: it runs `pause` unprivileged."""
    requests = {"cpu": TOO_BIG_CPU}
    if group in UNITS:
        amounts = size.times(UNITS[group])
        requests = {"cpu": f"{amounts[CPU]}m", "memory": f"{amounts[MEMORY] // _MI}Mi"}
    # Pods of group `next` have the labels of batch pods, so that only the edited policy places them differently.
    labels = MANAGED_BY | {"app": BATCH if group == NEXT else group}
    container: Json = {
        "name": "pause",
        "image": "registry.k8s.io/pause:3.10",
        "resources": {"requests": requests},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    spec: Json = {
        "schedulerName": names.scheduler,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 0,
        "tolerations": [{"operator": "Exists", "effect": "PreferNoSchedule"}],
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65535, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
    }
    if group == GPU:
        spec["resourceClaims"] = [{"name": GPU, "resourceClaimName": name}]
        container["resources"]["claims"] = [{"name": GPU}]
    if selector:
        spec["nodeSelector"] = selector
    metadata = {"name": name, "namespace": names.namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def gpus(names: Names, node: str, claim: str) -> list[Json]:
    """A node's only GPU, as its driver publishes it, the class of such devices, and a claim for one of them."""
    kinds = "DeviceClass", "ResourceSlice", "ResourceClaim"
    metadata: list[Json] = [{"name": GPU}, {"name": f"{node}-{GPU}"}, {"name": claim, "namespace": names.namespace}]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    specs: list[Json] = [
        {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]},
        {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": [{"name": "gpu-0"}]},
        {
            "devices": {
                "requests": [
                    {"name": GPU, "exactly": {"deviceClassName": GPU, "allocationMode": "ExactCount", "count": 1}}
                ]
            }
        },
    ]
    return [
        {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {**own, "labels": MANAGED_BY}, "spec": spec}
        for kind, own, spec in zip(kinds, metadata, specs, strict=True)
    ]
