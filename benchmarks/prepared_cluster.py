"""Prepares a cluster once per workload, so that each run starts from a copy of etcd's data.

kube-scheduler places the pods that exist before the measurement, for all series, unless the workload names their nodes.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.schedulers import BASE, Installed, install
from benchmarks.workloads import SCHEDULER_NAME, CreateAny, CreatePods, Preparation, Workload
from podwright.testing import Binaries, ControlPlane, Process, wait_until
from podwright.testing.objects import collection_path

_PLACEMENT_TIMEOUT_S = 900


@dataclass(frozen=True, slots=True)
class Prepared:
    """A copy of etcd's data with the workload's objects, and how Podwright is installed in it."""

    workload: Workload
    data: Path
    installed: Installed


def prepare(workload: Workload, folder: Path, binaries: Binaries, *, backlog: bool) -> Prepared:
    """Create the workload's cluster and save its data below `folder`; with `backlog`, including the measured pods.

    Reuses data in `folder` that was made from the same workload, manifests and versions.
    """
    data = folder / _name(workload, binaries, backlog=backlog)
    metadata = data.with_suffix(".json")
    if metadata.exists():
        saved = json.loads(metadata.read_text())
        return Prepared(workload, data, Installed(tuple(saved["account"]), tuple(saved["arguments"]), saved["environ"]))
    shutil.rmtree(data, ignore_errors=True)  # an interrupted command may have left incomplete data
    with _filled(workload, binaries, backlog=backlog) as (cluster, installed):
        cluster.save_data(data)
    metadata.write_text(json.dumps(asdict(installed)))
    return Prepared(workload, data, installed)


@contextmanager
def _filled(workload: Workload, binaries: Binaries, *, backlog: bool) -> Iterator[tuple[ControlPlane, Installed]]:
    with ControlPlane(binaries=binaries, **workload.control_plane) as cluster:
        installed = install(cluster)
        waiting = [op for op in workload.preparation if isinstance(op, CreatePods) and _needs_scheduler(op)]
        scheduler = cluster.start_scheduler({"profiles": [{"schedulerName": SCHEDULER_NAME}]}) if waiting else None
        for operation in workload.preparation:
            _create(cluster, operation)
            if operation in waiting:
                wait_until(
                    lambda: _unbound(cluster, operation) == 0,  # noqa: B023 -- called before the loop goes on
                    _PLACEMENT_TIMEOUT_S,
                    f"{operation.count} pods bound",
                )
        if scheduler is not None:
            scheduler.stop()
        if backlog:
            _create_backlog(cluster, workload.measured)
        yield cluster, installed


def start_claim_controller(cluster: ControlPlane) -> Process:
    """Starts the controller that makes the claims of pods from templates."""
    return cluster.start_controller_manager(["resourceclaim-controller"])


def _create(cluster: ControlPlane, operation: Preparation) -> None:
    """Creates the objects. Claims of a template also get its status: the devices that they have."""
    if isinstance(operation, CreateAny):
        path = collection_path(operation.templates[0])  # a CRD may have been created just before
        wait_until(lambda: cluster.client.raw("GET", path)[0] == 200, 30, f"the API server serves {path}")
    cluster.bulk.create(operation.objects())
    if isinstance(operation, CreateAny):
        cluster.bulk.update_status(body for body in operation.objects() if body["kind"] == "ResourceClaim")


def _create_backlog(cluster: ControlPlane, measured: CreatePods) -> None:
    """Creates the measured pods, with their claims."""
    controller = start_claim_controller(cluster) if measured.needs_claims else None
    cluster.bulk.create(measured.objects())
    if controller is not None:
        wait_until(
            lambda: _without_claims(cluster, measured) == 0, _PLACEMENT_TIMEOUT_S, f"{measured.count} pods have claims"
        )
        controller.stop()


def _needs_scheduler(operation: CreatePods) -> bool:
    return operation.wait and operation.count > 0 and not operation.bound_to


def _name(workload: Workload, binaries: Binaries, *, backlog: bool) -> str:
    """A name with a digest of everything that the data depends on."""
    base = [file.read_text() for file in sorted(BASE.rglob("*.yaml"))]
    crds = [file.read_text() for file in sorted(BASE.parents[1].glob("crds/*.yaml"))]
    parts = (workload.preparation, workload.measured, base, crds, binaries.versions)
    digest = hashlib.sha256(repr(parts).encode()).hexdigest()[:12]
    return f"{workload.name}-{workload.size}-{'backlog' if backlog else 'live'}-{digest}"


def _without_claims(cluster: ControlPlane, operation: CreatePods) -> int:
    pods = cluster.client.items(f"/api/v1/namespaces/{operation.namespace}/pods")
    return operation.count - sum("resourceClaimStatuses" in item["status"] for item in pods)


def _unbound(cluster: ControlPlane, operation: CreatePods) -> int:
    pending = cluster.client.items(f"/api/v1/namespaces/{operation.namespace}/pods", fieldSelector="spec.nodeName=")
    return sum(item["metadata"]["name"].startswith(operation.prefix) for item in pending)
