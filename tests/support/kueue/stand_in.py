"""A stand-in for Kueue's controller: it writes Workloads and reads the states of checks, as Kueue v0.19.2 does
(pkg/controller/core/workload_controller.go, pkg/workload/evict, pkg/controller/jobframework).
"""

from __future__ import annotations

import datetime
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from podwright.testing import ControlPlane, pod, wait_until
from podwright.testing.processes import free_port
from support.control_plane import operator_process as kit
from support.kueue.crds import CRDS, GROUP

API = f"/apis/{GROUP}/v1beta2"
MANIFESTS = Path(__file__).parents[3] / "manifests" / "kueue"
ACCOUNT = ("podwright-system", "podwright-admission-check")
CHECK = "podwright-fits-now"
RESERVATIONS = "/apis/podwright.dev/v1alpha1/reservations"
Raw = dict[str, Any]


def template(cpu: str = "1", scheduler: str = "podwright", **spec: Any) -> Raw:
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
    return {"spec": {"schedulerName": scheduler, "containers": [container], **spec}}


def pod_set(name: str = "main", count: int = 1, *, request: Raw | None = None, **options: Any) -> Raw:
    made = {"name": name, "count": count, "template": template(**options)}
    return made if request is None else {**made, "topologyRequest": request}


def condition(kind: str, status: bool, reason: str = "Test") -> Raw:
    return {"type": kind, "status": str(status), "reason": reason, "message": "", "lastTransitionTime": _now()}


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Kueue:
    """Kueue in one namespace."""

    def __init__(self, cluster: ControlPlane, namespace: str, checks: tuple[str, ...] = (CHECK,)) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self.namespace = namespace
        self.checks = checks

    def _path(self, name: str, subresource: str = "") -> str:
        own = f"{API}/namespaces/{self.namespace}/workloads/{name}"
        return f"{own}/{subresource}" if subresource else own

    def create(self, name: str, *pod_sets: Raw, annotations: Mapping[str, str] | None = None) -> None:
        """A Workload that waits for quota."""
        body = {
            "apiVersion": f"{GROUP}/v1beta2",
            "kind": "Workload",
            "metadata": {"name": name, "namespace": self.namespace, "annotations": dict(annotations or {})},
            "spec": {"queueName": "team", "podSets": [*pod_sets]},
        }
        self.client.request("POST", f"{API}/namespaces/{self.namespace}/workloads", body)

    def get(self, name: str) -> Raw:
        return self.client.get(self._path(name))

    def write(self, name: str, change: Any) -> None:
        """Changes the status by `change`, which gets it."""
        while True:
            raw = self.get(name)
            change(raw.setdefault("status", {}))
            status, _ = self.client.raw("PUT", self._path(name, "status"), raw)
            if status == 200:
                return
            assert status == 409

    def reserve_quota(self, name: str, flavors: Mapping[str, str] | None = None, **assignment: Any) -> None:
        """Writes quota and all checks of the ClusterQueue, as Kueue's scheduler does; those of an eviction as they
        were.
        """

        def change(status: Raw) -> None:
            sets = self.get(name)["spec"]["podSets"]
            given = [
                {"name": each["name"], "count": each["count"], "flavors": dict(flavors or {}), **assignment}
                for each in sets
            ]
            status["admission"] = {"clusterQueue": "queue", "podSetAssignments": given}
            status["conditions"] = [condition("QuotaReserved", True), condition("Evicted", False)]
            known = {each["name"]: each for each in status.get("admissionChecks", ())}
            fresh = {"state": "Pending", "message": "", "lastTransitionTime": _now()}
            status["admissionChecks"] = [known.get(check, {"name": check, **fresh}) for check in self.checks]

        self.write(name, change)

    def check(self, name: str, check: str = CHECK) -> Raw:
        states = self.get(name).get("status", {}).get("admissionChecks", ())
        return next((each for each in states if each["name"] == check), {})

    def wait_answered(self, name: str, state: str, check: str = CHECK) -> Raw:
        """Waits until our check has this state."""
        wait_until(lambda: self.check(name, check).get("state") == state, 40, f"the check of {name} says {state}")
        return self.check(name, check)

    def evict(self, name: str, reason: str = "AdmissionCheck") -> None:
        """Quota goes, and the checks are reset."""

        def change(status: Raw) -> None:
            status["conditions"] = [condition("QuotaReserved", False), condition("Evicted", True, reason)]
            status.pop("admission")
            for place, each in enumerate(status["admissionChecks"]):
                if each["state"] == "Pending":
                    continue
                again = each["state"] == "Retry"
                kept = {key: each[key] for key in ("name", "requeueAfterSeconds") if key in each}
                status["admissionChecks"][place] = {
                    **kept,
                    "state": "Pending",
                    "message": f"Reset to Pending after eviction. Previously: {each['state']}",
                    "lastTransitionTime": _now(),
                    **({"retryCount": each.get("retryCount", 0) + 1} if again else {}),
                }

        self.write(name, change)

    def retry(self, name: str, flavors: Mapping[str, str] | None = None) -> None:
        """Does what follows a Retry, without the pause."""
        self.evict(name)
        self.reserve_quota(name, flavors)

    def admit(self, name: str, condition_only: bool = False) -> list[str]:
        """All checks are Ready: Kueue admits the Workload, and starts its job with what the checks ask for. Returns the
        names of the pods.
        """
        raw = self.get(name)
        assert {each["state"] for each in raw["status"]["admissionChecks"]} == {"Ready"}
        self.write(name, lambda status: status["conditions"].append(condition("Admitted", True)))
        created = []
        for each in () if condition_only else raw["spec"]["podSets"]:
            labels = {"kueue.x-k8s.io/podset": each["name"]}
            for update in (u for c in raw["status"]["admissionChecks"] for u in c.get("podSetUpdates", ())):
                labels |= update.get("labels", {}) if update["name"] == each["name"] else {}
            for index in range(each["count"]):
                made = pod(f"{name}-{each['name']}-{index}", self.namespace)
                made["metadata"]["labels"] = labels
                made["metadata"]["annotations"] = {"kueue.x-k8s.io/workload": name}
                made["spec"] = each["template"]["spec"]
                created.append(made["metadata"]["name"])
                self.client.create(made)
        return created

    def delete(self, name: str) -> None:
        self.client.request("DELETE", self._path(name))

    def nodes_of(self, prefix: str) -> dict[str, str]:
        """The nodes of the pods whose names begin like this, by name, of those that have one."""
        found = kit.pods(self.cluster, self.namespace)
        return {
            each["metadata"]["name"]: each["spec"]["nodeName"]
            for each in found
            if each["metadata"]["name"].startswith(prefix) and each["spec"].get("nodeName")
        }


def reservations(cluster: ControlPlane) -> list[Raw]:
    return cluster.client.items(RESERVATIONS)


def install(cluster: ControlPlane) -> None:
    """Apply Kueue's CRDs and manifests/kueue. Without controllers, its Deployment starts no pods."""
    for crd in CRDS:
        cluster.apply(crd)
    for plural in ("workloads", "admissionchecks", "resourceflavors"):
        path = f"{API}/{plural}"
        wait_until(lambda path=path: cluster.client.raw("GET", path)[0] == 200, 30, f"the API server serves {path}")
    wait_until(lambda: _listed(cluster), 30, "kubectl finds Kueue's kinds")
    cluster.apply(MANIFESTS)


def _listed(cluster: ControlPlane) -> bool:
    return cluster.client.raw("GET", API)[0] == 200 and "admissionchecks" in cluster.client.raw("GET", API)[1].decode()


def start(cluster: ControlPlane, *flags: str, name: str = "admission-check") -> kit.Operator:
    """A running `podwright admission-check`, as the service account of manifests/kueue."""
    port = free_port()
    settings = {
        "PODWRIGHT_KUBECONFIG": str(cluster.service_account_kubeconfig(*ACCOUNT)),
        "PODWRIGHT_HEALTH_ADDRESS": f"127.0.0.1:{port}",
        "PODWRIGHT_SECURE_PORT": "0",
        **kit.POD_ENVIRON,
    }
    process = cluster.start_process(name, [sys.executable, "-m", "podwright", "admission-check", *flags], settings)
    found = kit.Operator(process, port)
    kit.wait_ready(found)
    return found
