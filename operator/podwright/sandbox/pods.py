"""The rules for pods: defaults, what an update may change, Binding and Eviction.

Sources: the Pod API reference, "Scheduling, Preemption and Eviction" in the Kubernetes documentation, and the
answers of a real API server as `tests/contract` records them.
"""

from typing import TYPE_CHECKING, Any

from podwright.sandbox.errors import ApiError, conflict, forbidden, invalid, not_found
from podwright.sandbox.kinds import Kind, Obj

if TYPE_CHECKING:
    from podwright.sandbox.cluster import Cluster

SPEC_DEFAULTS: Obj = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "securityContext": {},
    "enableServiceLinks": True,
    "serviceAccountName": "default",
}
CONTAINER_DEFAULTS: Obj = {
    "imagePullPolicy": "IfNotPresent",
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
MUTABLE = ("activeDeadlineSeconds", "tolerations", "schedulingGates", "terminationGracePeriodSeconds")
WHILE_GATED = ("nodeSelector", "affinity")


def admit(cluster: "Cluster", kind: Kind, pod: Obj) -> Obj:
    """A new pod with its defaults; 422 without containers, 403 for an unknown PriorityClass."""
    spec = SPEC_DEFAULTS | (pod.get("spec") or {})
    name = pod["metadata"]["name"]
    if not spec.get("containers"):
        raise invalid(kind, name, ("spec.containers", "Required value"))
    for field in ("containers", "initContainers"):
        if spec.get(field):
            spec[field] = [_container(item) for item in spec[field]]
    spec |= _priority(cluster, kind, name, spec)
    status: Obj = {"phase": "Pending", "qosClass": _qos(spec["containers"] + (spec.get("initContainers") or []))}
    if spec.get("schedulingGates"):
        message = "Scheduling is blocked due to non-empty scheduling gates"
        status["conditions"] = [
            {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": message}
        ]
    return pod | {"spec": spec, "status": status}


def _container(container: Obj) -> Obj:
    container = CONTAINER_DEFAULTS | container
    resources = container["resources"] or {}
    if limits := resources.get("limits"):
        container["resources"] = resources | {"requests": {**limits, **(resources.get("requests") or {})}}
    if ports := container.get("ports"):
        container["ports"] = [{"protocol": "TCP"} | port for port in ports]
    return container


def _priority(cluster: "Cluster", kind: Kind, name: str, spec: Obj) -> Obj:
    classes = cluster.store["priorityclasses.scheduling.k8s.io"].entries
    wanted = spec.get("priorityClassName")
    if wanted:
        if ("", wanted) not in classes:
            raise forbidden(kind, name, f"no PriorityClass with name {wanted} was found")
        found = classes["", wanted].obj
    else:
        found = next((entry.obj for entry in classes.values() if entry.obj.get("globalDefault")), {"metadata": {}})
    policy = found.get("preemptionPolicy", "PreemptLowerPriority")
    chosen = {"priorityClassName": found["metadata"]["name"]} if found["metadata"] else {}
    return chosen | {"priority": found.get("value", 0), "preemptionPolicy": spec.get("preemptionPolicy", policy)}


def _qos(containers: list[Obj]) -> str:
    resources = [container["resources"] or {} for container in containers]
    if not any(part.get("requests") or part.get("limits") for part in resources):
        return "BestEffort"
    for part in resources:
        limits, requests = part.get("limits") or {}, part.get("requests") or {}
        if any(name not in limits or requests.get(name, limits[name]) != limits[name] for name in ("cpu", "memory")):
            return "Burstable"
    return "Guaranteed"


def check_update(kind: Kind, old: Obj, new: Obj) -> None:
    """422 if the update changes what is fixed in a pod's spec."""
    free = MUTABLE + (WHILE_GATED if old["spec"].get("schedulingGates") else ())
    if _fixed(old["spec"], free) != _fixed(new.get("spec") or {}, free):
        message = (
            "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
            f"`spec.initContainers[*].image`,{','.join(f'`spec.{name}`' for name in free)}"
        )
        raise invalid(kind, old["metadata"]["name"], ("spec", message))
    gates = [gate["name"] for gate in old["spec"].get("schedulingGates") or ()]
    if any(gate["name"] not in gates for gate in new["spec"].get("schedulingGates") or ()):
        message = "Forbidden: only deletion is allowed, but found new scheduling gate"
        raise invalid(kind, old["metadata"]["name"], ("spec.schedulingGates", message))


def _fixed(spec: Obj, free: tuple[str, ...]) -> Obj:
    kept = {key: value for key, value in spec.items() if key not in free and value is not None}
    for field in ("containers", "initContainers"):
        if field in kept:
            kept[field] = [{**item, "image": ""} for item in kept[field]]
    return kept


def bind(cluster: "Cluster", namespace: str, name: str, binding: Obj) -> None:
    """Set `spec.nodeName`, as `pods/binding` does; the node need not exist."""
    kind = cluster.kinds.named("pods")
    target, metadata = binding.get("target") or {}, binding.get("metadata") or {}
    if not target.get("name"):
        raise invalid(cluster.kinds.named("bindings"), name, ("target.name", "Required value"))
    if target.get("kind") not in (None, "", "Node"):
        problem = f'Unsupported value: "{target["kind"]}": supported values: "Node", "<empty>"'
        raise invalid(cluster.kinds.named("bindings"), name, ("target.kind", problem))
    entry = cluster.store["pods"].entries.get((namespace, name))
    if entry is None:
        raise not_found(kind, name)
    pod = entry.copy()
    uid = metadata.get("uid")
    why = ""
    if uid and uid != pod["metadata"]["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {pod['metadata']['uid']}"
    elif "deletionTimestamp" in pod["metadata"]:
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif pod["spec"].get("nodeName"):
        why = f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
    elif pod["spec"].get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    if why:
        raise conflict(kind, name, why, "binding")
    pod["spec"]["nodeName"] = target["name"]
    if annotations := metadata.get("annotations"):
        pod["metadata"]["annotations"] = {**(pod["metadata"].get("annotations") or {}), **annotations}
    set_condition(pod, {"type": "PodScheduled", "status": "True", "lastTransitionTime": cluster.now()})
    cluster.replace(kind, entry, pod)


def set_condition(obj: Obj, condition: Obj) -> None:
    conditions: list[Any] = obj["status"].setdefault("conditions", [])
    conditions[:] = [item for item in conditions if item["type"] != condition["type"]]
    conditions.append({"lastProbeTime": None, **condition} if obj.get("spec", {}).get("containers") else condition)


def evict(cluster: "Cluster", namespace: str, name: str, eviction: Obj) -> None:
    """Delete the pod unless a PodDisruptionBudget's status forbids it (429)."""
    kind = cluster.kinds.named("pods")
    pod = cluster.get(kind, namespace, name).obj
    if pod["status"].get("phase") not in ("Pending", "Succeeded", "Failed"):
        _spend_budget(cluster, namespace, pod)
    cluster.delete(kind, namespace, name, eviction.get("deleteOptions") or {})


def _spend_budget(cluster: "Cluster", namespace: str, pod: Obj) -> None:
    budgets = cluster.store["poddisruptionbudgets.policy"]
    for (where, _), entry in list(budgets.entries.items()):
        selector = (entry.obj.get("spec") or {}).get("selector")
        if where != namespace or selector is None or not selects(selector, pod["metadata"].get("labels") or {}):
            continue
        budget = entry.copy()
        name, status = budget["metadata"]["name"], budget.setdefault("status", {})
        if status.get("disruptionsAllowed", 0) <= 0:
            message = "Cannot evict pod as it would violate the pod's disruption budget."
            cause = {"reason": "DisruptionBudget", "message": f"The disruption budget {name} needs more healthy pods"}
            raise ApiError(429, "TooManyRequests", message, causes=[cause])
        status["disruptionsAllowed"] -= 1
        status.setdefault("disruptedPods", {})[pod["metadata"]["name"]] = cluster.now()
        cluster.replace(cluster.kinds.named("poddisruptionbudgets.policy"), entry, budget)


def selects(selector: Obj, labels: Obj) -> bool:
    """A LabelSelector object; the empty one selects everything."""
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    for term in selector.get("matchExpressions") or ():
        present, values = term["key"] in labels, term.get("values") or ()
        holds = {
            "In": present and labels.get(term["key"]) in values,
            "NotIn": not present or labels[term["key"]] not in values,
            "Exists": present,
            "DoesNotExist": not present,
        }
        if not holds[term["operator"]]:
            return False
    return True
