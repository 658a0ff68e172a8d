"""The rules for pods: defaults, what an update may change, Binding and Eviction.

Sources: the Pod API reference, "Scheduling, Preemption and Eviction" in the Kubernetes documentation, and the
answers of a real API server as `tests/contract` records them.
"""

from typing import TYPE_CHECKING

from podwright.sandbox.errors import ApiError, bad_request, conflict, invalid, not_found
from podwright.sandbox.kinds import Kind, Obj

if TYPE_CHECKING:
    from podwright.sandbox.cluster import Cluster

SPEC_DEFAULTS: Obj = {"restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst"}
SPEC_DEFAULTS |= {"schedulerName": "default-scheduler", "securityContext": {}, "enableServiceLinks": True}
CONTAINER_DEFAULTS: Obj = {"imagePullPolicy": "IfNotPresent", "resources": {}, "terminationMessagePolicy": "File"}
CONTAINER_DEFAULTS |= {"terminationMessagePath": "/dev/termination-log"}
MUTABLE = ("activeDeadlineSeconds", "tolerations", "schedulingGates", "terminationGracePeriodSeconds")
WHILE_GATED = ("nodeSelector", "affinity")


def admit(cluster: "Cluster", kind: Kind, pod: Obj) -> Obj:
    """A new pod with its defaults; 422 without containers, 403 for an unknown PriorityClass."""
    spec = SPEC_DEFAULTS | (pod.get("spec") or {})
    if not spec.get("containers"):
        raise invalid(kind, pod["metadata"]["name"], ("spec.containers", "Required value"))
    for field in ("containers", "initContainers"):
        if spec.get(field):
            spec[field] = [_container(item) for item in spec[field]]
    spec |= _priority(cluster, kind, pod["metadata"]["name"], spec)
    status: Obj = {"phase": "Pending", "qosClass": _qos(spec["containers"] + (spec.get("initContainers") or []))}
    if spec.get("schedulingGates"):
        gated = {"reason": "SchedulingGated", "message": "Scheduling is blocked due to non-empty scheduling gates"}
        status["conditions"] = [{"type": "PodScheduled", "status": "False", **gated}]
    return pod | {"spec": spec, "status": status}


def _container(container: Obj) -> Obj:
    container = CONTAINER_DEFAULTS | container
    if limits := (container["resources"] or {}).get("limits"):
        requests = {**limits, **(container["resources"].get("requests") or {})}
        container["resources"] = container["resources"] | {"requests": requests}
    if ports := container.get("ports"):
        container["ports"] = [{"protocol": "TCP"} | port for port in ports]
    return container


def _priority(cluster: "Cluster", kind: Kind, name: str, spec: Obj) -> Obj:
    classes = cluster.store["priorityclasses.scheduling.k8s.io"].entries
    chosen = spec.get("priorityClassName")
    if chosen and ("", chosen) not in classes:
        why = f"no PriorityClass with name {chosen} was found"
        raise ApiError(403, "Forbidden", f'{kind.resource} "{name}" is forbidden: {why}', **kind.details(name))
    if not chosen:
        chosen = next((entry.key[1] for entry in classes.values() if entry.obj.get("globalDefault")), None)
    found = classes["", chosen].obj if chosen else {}
    policy = spec.get("preemptionPolicy") or found.get("preemptionPolicy", "PreemptLowerPriority")
    named = {"priorityClassName": chosen} if chosen else {}
    return named | {"priority": found.get("value", 0), "preemptionPolicy": policy}


def _qos(containers: list[Obj]) -> str:
    resources = [container["resources"] or {} for container in containers]
    if not any(part.get("requests") or part.get("limits") for part in resources):
        return "BestEffort"
    for part in resources:
        limits, requests = part.get("limits") or {}, part.get("requests") or {}
        if any(name not in limits or requests.get(name) != limits[name] for name in ("cpu", "memory")):
            return "Burstable"
    return "Guaranteed"


def check_update(kind: Kind, old: Obj, new: Obj) -> None:
    """422 if the update changes what is fixed in a pod's spec."""
    name, free = old["metadata"]["name"], MUTABLE + (WHILE_GATED if old["spec"].get("schedulingGates") else ())
    if _fixed(old["spec"], free) != _fixed(new.get("spec") or {}, free):
        fields = ",".join(f"`spec.{name}`" for name in ("containers[*].image", "initContainers[*].image", *free))
        raise invalid(kind, name, ("spec", f"Forbidden: pod updates may not change fields other than {fields}"))
    gates = [gate["name"] for gate in old["spec"].get("schedulingGates") or ()]
    if any(gate["name"] not in gates for gate in new["spec"].get("schedulingGates") or ()):
        raise invalid(kind, name, ("spec.schedulingGates", "Forbidden: only deletion is allowed"))


def _fixed(spec: Obj, free: tuple[str, ...]) -> Obj:
    kept = {key: value for key, value in spec.items() if key not in free and value is not None}
    for field in {"containers", "initContainers"} & kept.keys():
        kept[field] = [item | {"image": ""} for item in kept[field]]
    return kept


def bind(cluster: "Cluster", namespace: str, name: str, binding: Obj) -> None:
    """Set `spec.nodeName`, as `pods/binding` does; the node need not exist."""
    kind = cluster.kinds.named("pods")
    target, metadata = binding.get("target") or {}, binding.get("metadata") or {}
    if metadata.get("name", name) != name:
        raise bad_request("name in URL does not match name in Binding object")
    if not target.get("name"):
        raise ApiError(500, "", "target.name: Required value")
    if target.get("kind") not in (None, "", "Node"):
        said = f'Unsupported value: "{target["kind"]}": supported values: "Node", "<empty>"'
        raise ApiError(500, "", f"target.kind: {said}")
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


def set_condition(obj: Obj, condition: Obj) -> None:
    others = [item for item in obj["status"].get("conditions") or () if item["type"] != condition["type"]]
    obj["status"]["conditions"] = [*others, condition]


def evict(cluster: "Cluster", namespace: str, name: str, eviction: Obj) -> None:
    """Delete the pod unless a PodDisruptionBudget's status forbids it (429)."""
    kind = cluster.kinds.named("pods")
    pod = cluster.get(kind, namespace, name).obj
    if pod["status"].get("phase") not in ("Pending", "Succeeded", "Failed"):
        _spend_budget(cluster, namespace, pod)
    cluster.delete(kind, namespace, name, eviction.get("deleteOptions") or {})


def _spend_budget(cluster: "Cluster", namespace: str, pod: Obj) -> None:
    kind = cluster.kinds.named("poddisruptionbudgets.policy")
    ready = {"type": "Ready", "status": "True"}.items()
    healthy = any(ready <= condition.items() for condition in pod["status"].get("conditions") or ())
    for (where, name), entry in list(cluster.store[kind.stored].entries.items()):
        selector = (entry.obj.get("spec") or {}).get("selector")
        if where != namespace or selector is None or not selects(selector, pod["metadata"].get("labels") or {}):
            continue
        budget = entry.copy()
        status = budget.setdefault("status", {})
        if not healthy and status.get("currentHealthy", 0) >= status.get("desiredHealthy", 0) > 0:
            return
        if status.get("disruptionsAllowed", 0) <= 0:
            cause = {"reason": "DisruptionBudget", "message": f"The disruption budget {name} needs more healthy pods"}
            message = "Cannot evict pod as it would violate the pod's disruption budget."
            raise ApiError(429, "TooManyRequests", message, causes=[cause])
        status["disruptionsAllowed"] -= 1
        cluster.replace(kind, entry, budget)


def selects(selector: Obj, labels: Obj) -> bool:
    """A LabelSelector object; the empty one selects everything."""
    terms = [
        {"key": key, "operator": "In", "values": [value]} for key, value in (selector.get("matchLabels") or {}).items()
    ]
    for term in terms + (selector.get("matchExpressions") or []):
        present, listed = term["key"] in labels, labels.get(term["key"]) in (term.get("values") or ())
        holds = {"In": listed, "NotIn": not listed, "Exists": present, "DoesNotExist": not present}
        if not holds[term["operator"]]:
            return False
    return True
