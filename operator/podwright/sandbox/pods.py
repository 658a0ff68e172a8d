"""The rules for pods: defaults on creation, and the fields that an update may change.

Sources: the Pod API reference in the Kubernetes documentation, and the responses of a real API server as recorded by
`tests/contract`. Binding and Eviction are in `pod_subresources`.
"""

from podwright.core.objects.pod import KUBERNETES_DEFAULT_SCHEDULER_NAME
from podwright.sandbox.errors import StatusError, invalid
from podwright.sandbox.kinds import Kind, Obj
from podwright.sandbox.store import Store

SPEC_DEFAULTS: Obj = {"restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst"}
SPEC_DEFAULTS |= {"schedulerName": KUBERNETES_DEFAULT_SCHEDULER_NAME, "securityContext": {}, "enableServiceLinks": True}
CONTAINER_DEFAULTS: Obj = {"imagePullPolicy": "IfNotPresent", "resources": {}, "terminationMessagePolicy": "File"}
CONTAINER_DEFAULTS |= {"terminationMessagePath": "/dev/termination-log"}
MUTABLE = ("activeDeadlineSeconds", "tolerations", "schedulingGates", "terminationGracePeriodSeconds")
WHILE_GATED = ("nodeSelector", "affinity")


def admit(store: Store, kind: Kind, pod: Obj) -> Obj:
    """Returns the new pod with its defaults. Raises ApiError 422 without containers, 403 for an unknown
    PriorityClass.
    """
    spec = SPEC_DEFAULTS | (pod.get("spec") or {})
    if not spec.get("containers"):
        raise invalid(kind, pod["metadata"]["name"], ("spec.containers", "Required value"))
    for field in ("containers", "initContainers"):
        if spec.get(field):
            spec[field] = [_container(item) for item in spec[field]]
    spec |= _priority(store, kind, pod["metadata"]["name"], spec)
    status: Obj = {"phase": "Pending", "qosClass": _qos(spec["containers"] + (spec.get("initContainers") or []))}
    if spec.get("schedulingGates"):
        gated = {"reason": "SchedulingGated", "message": "Scheduling is blocked due to non-empty scheduling gates"}
        status["conditions"] = [{"type": "PodScheduled", "status": "False", **gated}]
    return pod | {"spec": spec, "status": status}


def _container(container: Obj) -> Obj:
    container = requests_from_limits(CONTAINER_DEFAULTS | container)
    if ports := container.get("ports"):
        container["ports"] = [{"protocol": "TCP"} | port for port in ports]
    return container


def requests_from_limits(container: Obj) -> Obj:
    """The container with a request for each limit that has none."""
    resources = container.get("resources")
    if not isinstance(resources, dict) or not isinstance(limits := resources.get("limits"), dict):
        return container
    return container | {"resources": resources | {"requests": limits | (resources.get("requests") or {})}}


def _priority(store: Store, kind: Kind, name: str, spec: Obj) -> Obj:
    classes = store["priorityclasses.scheduling.k8s.io"].entries
    chosen = spec.get("priorityClassName")
    if chosen and ("", chosen) not in classes:
        why = f"no PriorityClass with name {chosen} was found"
        raise StatusError(403, "Forbidden", f'{kind.resource} "{name}" is forbidden: {why}', **kind.details(name))
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
    """Raises ApiError 422 if the update changes an immutable field of the pod's spec."""
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


def set_condition(obj: Obj, condition: Obj) -> None:
    """Sets a condition in the status, replacing the one of the same type."""
    others = [item for item in obj["status"].get("conditions") or () if item["type"] != condition["type"]]
    obj["status"]["conditions"] = [*others, condition]
