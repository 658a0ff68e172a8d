"""Prepares a cluster once per workload, so that each run starts from a copy of etcd's data.

Pods that are there before the clock runs are placed by kube-scheduler, for all series alike.
"""

from dataclasses import dataclass
from pathlib import Path

from benchmarks.schedulers import Installed, install
from benchmarks.workloads import SCHEDULER_NAME, CreatePods, Workload
from podwright.testing import Binaries, ControlPlane, wait_until


@dataclass(frozen=True, slots=True)
class Prepared:
    """A workload's data, and how Podwright is installed in it."""

    workload: Workload
    data: Path
    installed: Installed


def prepare(workload: Workload, folder: Path, binaries: Binaries, *, backlog: bool) -> Prepared:
    """Fill a cluster as the workload says and save it below `folder`; with `backlog` the measured pods are there, too."""
    data = folder / f"{workload.name}-{workload.size}-{'backlog' if backlog else 'live'}"
    with ControlPlane(binaries=binaries) as cluster:
        installed = install(cluster)
        waiting = [op for op in workload.preparation if isinstance(op, CreatePods) and op.wait and op.count]
        scheduler = cluster.start_scheduler({"profiles": [{"schedulerName": SCHEDULER_NAME}]}) if waiting else None
        for operation in workload.preparation:
            cluster.bulk.create(operation.objects())
            if operation in waiting:
                wait_until(lambda: _unbound(cluster, operation) == 0, 600, f"{operation.count} pods bound")  # noqa: B023
        if scheduler is not None:
            scheduler.stop()
        if backlog:
            cluster.bulk.create(workload.measured.objects())
        cluster.save_data(data)
    return Prepared(workload, data, installed)


def _unbound(cluster: ControlPlane, operation: CreatePods) -> int:
    pending = cluster.client.items(f"/api/v1/namespaces/{operation.namespace}/pods", fieldSelector="spec.nodeName=")
    return sum(item["metadata"]["name"].startswith(operation.prefix) for item in pending)
