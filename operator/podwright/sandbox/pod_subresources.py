"""The subresources `pods/binding` and `pods/eviction`.

Sources: "Scheduling, Preemption and Eviction" in the Kubernetes documentation, and the responses of a real API server
as recorded by `tests/contract`.
"""

from podwright.core.objects.selectors import parse_label_selector
from podwright.sandbox.cluster import SandboxCluster
from podwright.sandbox.errors import StatusError, bad_request, conflict, not_found
from podwright.sandbox.kinds import Obj
from podwright.sandbox.pods import set_condition


def bind(cluster: SandboxCluster, namespace: str, name: str, binding: Obj) -> None:
    """Sets `spec.nodeName`. As on the real API server, the node need not exist."""
    kind = cluster.kinds.named("pods")
    target, metadata = binding.get("target") or {}, binding.get("metadata") or {}
    if metadata.get("name", name) != name:
        raise bad_request("name in URL does not match name in Binding object")
    if not target.get("name"):
        raise StatusError(500, "", "target.name: Required value")
    if target.get("kind") not in (None, "", "Node"):
        problem = f'Unsupported value: "{target["kind"]}": supported values: "Node", "<empty>"'
        raise StatusError(500, "", f"target.kind: {problem}")
    entry = cluster.store["pods"].entries.get((namespace, name))
    if entry is None:
        raise not_found(kind, name)
    pod = entry.copy()
    found, uid = pod["metadata"]["uid"], metadata.get("uid")
    if uid and uid != found:
        raise conflict(kind, name, f"Precondition failed: UID in precondition: {uid}, UID in object meta: {found}")
    why = ""
    if "deletionTimestamp" in pod["metadata"]:
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif pod["spec"].get("nodeName"):
        why = f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
    elif pod["spec"].get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    if why:
        raise conflict(kind, name, why, "/binding")
    pod["spec"]["nodeName"] = target["name"]
    if annotations := metadata.get("annotations"):
        pod["metadata"]["annotations"] = {**(pod["metadata"].get("annotations") or {}), **annotations}
    set_condition(pod, {"type": "PodScheduled", "status": "True", "lastTransitionTime": cluster.now()})
    cluster.replace(kind, entry, pod)


def evict(cluster: SandboxCluster, namespace: str, name: str, eviction: Obj) -> None:
    """Deletes the pod. Raises ApiError 429 if a PodDisruptionBudget's status forbids it."""
    kind = cluster.kinds.named("pods")
    pod = cluster.get(kind, namespace, name).obj
    if pod["status"].get("phase") not in ("Pending", "Succeeded", "Failed"):
        _spend_budget(cluster, namespace, pod)
    cluster.delete(kind, namespace, name, eviction.get("deleteOptions") or {})


def _spend_budget(cluster: SandboxCluster, namespace: str, pod: Obj) -> None:
    kind = cluster.kinds.named("poddisruptionbudgets.policy")
    ready = {"type": "Ready", "status": "True"}.items()
    healthy = any(ready <= condition.items() for condition in pod["status"].get("conditions") or ())
    for (where, name), entry in list(cluster.store[kind.stored].entries.items()):
        selector = parse_label_selector((entry.obj.get("spec") or {}).get("selector"), "spec.selector")
        if where != namespace or not selector.matches(pod["metadata"].get("labels") or {}):
            continue
        budget = entry.copy()
        status = budget.setdefault("status", {})
        if not healthy and status.get("currentHealthy", 0) >= status.get("desiredHealthy", 0) > 0:
            return
        if status.get("disruptionsAllowed", 0) <= 0:
            cause = {"reason": "DisruptionBudget", "message": f"The disruption budget {name} needs more healthy pods"}
            message = "Cannot evict pod as it would violate the pod's disruption budget."
            raise StatusError(429, "TooManyRequests", message, causes=[cause])
        status["disruptionsAllowed"] -= 1
        cluster.replace(kind, entry, budget)
