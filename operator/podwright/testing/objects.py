"""The URL paths of objects, and builders for the objects that most tests need.

Paths are derived from `apiVersion` and `kind` without asking a server; this is correct for the kinds that tests use.
"""

from collections.abc import Mapping
from typing import Any

from podwright.core.objects.pod import KUBERNETES_DEFAULT_SCHEDULER_NAME
from podwright.core.objects.watched_kinds import WATCHED_KINDS

Json = dict[str, Any]

_CLUSTER_SCOPED = frozenset(watched.kind for watched in WATCHED_KINDS if not watched.namespaced) | {
    "APIService", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "IngressClass", "PriorityClass",
    "RebalancePolicy", "ResourceSlice", "RuntimeClass", "SchedulerPolicy", "SchedulingQueue", "Topology",
    "WorkloadGrouping",
}  # fmt: skip


def plural(kind: str) -> str:
    """The name of a kind in URLs."""
    name = kind.lower()
    if name.endswith("y"):
        return name[:-1] + "ies"
    return name + ("es" if name.endswith("s") else "s")


def collection_path(body: Mapping[str, Any]) -> str:
    """The URL path to create an object at. Its namespace defaults to `default`."""
    version, kind = body["apiVersion"], body["kind"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    if kind in _CLUSTER_SCOPED:
        return f"{root}/{plural(kind)}"
    return f"{root}/namespaces/{body['metadata'].get('namespace', 'default')}/{plural(kind)}"


def object_path(body: Mapping[str, Any], subresource: str = "") -> str:
    """The URL path of an object, or of one of its subresources."""
    path = f"{collection_path(body)}/{body['metadata']['name']}"
    return f"{path}/{subresource}" if subresource else path


def node(
    name: str,
    *,
    cpu: str = "4",
    memory: str = "32Gi",
    pods: str = "110",
    labels: Mapping[str, str] | None = None,
    taints: list[Json] | None = None,
) -> Json:
    """A ready Node with its hostname label."""
    capacity = {"cpu": cpu, "memory": memory, "pods": pods}
    body: Json = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": {},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}],
        },
    }
    if taints:
        body["spec"]["taints"] = taints
    return body


def pod(
    name: str,
    namespace: str = "default",
    *,
    scheduler: str = KUBERNETES_DEFAULT_SCHEDULER_NAME,
    cpu: str | None = "100m",
    memory: str | None = "500Mi",
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> Json:
    """A Pod with one container. `spec` holds further fields of the pod's spec."""
    requests = {name: value for name, value in {"cpu": cpu, "memory": memory}.items() if value}
    container: Json = {"name": "pause", "image": "registry.k8s.io/pause:3.10"}
    if requests:
        container["resources"] = {"requests": requests}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels or {})},
        "spec": {"schedulerName": scheduler, "containers": [container], **spec},
    }
