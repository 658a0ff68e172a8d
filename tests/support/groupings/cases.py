"""Workloads by name, as their operators make them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from support.gangs.pod_groups import WORKLOAD
from support.groupings import controllers as of
from support.groupings.controllers import Clique, Controller, ReplicatedJob, worker_group
from support.groupings.settings import (
    GroveDefault,
    GroveKai,
    GroveLpx,
    GroveVolcano,
    KubeRayKai,
    KubeRayKubernetes,
    KubeRayPlugins,
    KubeRayVolcano,
    KubeRayYuniKorn,
    LeaderWorkerSetVolcano,
    Setting,
    TrainerCoscheduling,
    TrainerVolcano,
)

_LEADER_WORKER_SETS: Final[Mapping[str, Controller]] = {
    "two replicas": of.leader_worker_set,
    "workers after the leader is ready": partial(of.leader_worker_set, leader_ready=True),
    "a rolling update": partial(of.leader_worker_set, replicas=1, revisions=("1", "2")),
    "subgroups": partial(of.leader_worker_set, replicas=1, size=4, sub_group_size=2),
}
_TRAIN_JOBS: Final[Mapping[str, Controller]] = {
    "torch": lambda make: of.train_job(make, ReplicatedJob("node", pods=3)),
    "MPI, the launcher with the nodes": lambda make: of.train_job(
        make, ReplicatedJob("node", pods=3), ReplicatedJob("launcher")
    ),
    "two jobs": lambda make: of.train_job(make, ReplicatedJob("node", pods=2), ReplicatedJob("evaluator", replicas=2)),
    "a restart": lambda make: of.train_job(make, ReplicatedJob("node", pods=2), restarts=1),
}
_TWO_GROUPS: Final[Controller] = lambda make: of.ray_cluster(
    make,
    worker_group("small", replicas=2),
    worker_group("tpu", replicas=1, numOfHosts=2),
    worker_group("off", suspend=True),
)
_SCALED_GROUP: Final = worker_group("gpu", replicas=3, minReplicas=2)
_GPUS: Final = worker_group("gpu", replicas=2)
_RAY: Final[Mapping[str, Controller]] = {
    "RayCluster, two worker groups": _TWO_GROUPS,
    "RayCluster, autoscaling": lambda make: of.ray_cluster(make, _SCALED_GROUP, autoscaling=True),
    "RayJob, a submitter": lambda make: of.ray_job(make, _GPUS),
    "RayService, an upgrade": lambda make: of.ray_service(make, _GPUS),
}
_CLIQUES: Final[Mapping[str, Controller]] = {
    "one clique, two replicas": lambda make: of.pod_clique_set(make, Clique("worker", 3), replicas=2),
    "prefill and decode": lambda make: of.pod_clique_set(make, Clique("prefill", 2), Clique("decode", 3)),
    "a scaling group": lambda make: of.pod_clique_set(make, Clique("router", 1), Clique("decode", 2, scaled=3)),
    "more than the minimum": lambda make: of.pod_clique_set(make, Clique("leader", 1), Clique("worker", 4, least=2)),
}
_SETTINGS: Final[Mapping[str, tuple[type[Setting], Mapping[str, Controller]]]] = {
    "LeaderWorkerSet": (Setting, _LEADER_WORKER_SETS),
    "LeaderWorkerSet, exclusive": (
        Setting,
        {
            "in a rack": partial(of.leader_worker_set, replicas=1, exclusive=True),
            "after the leader is ready": partial(of.leader_worker_set, replicas=1, exclusive=True, leader_ready=True),
            "a rolling update": partial(of.leader_worker_set, replicas=1, exclusive=True, revisions=("1", "2")),
            "subgroups": partial(of.leader_worker_set, replicas=1, exclusive=True, size=4, sub_group_size=2),
        },
    ),
    "LeaderWorkerSet, volcano": (
        LeaderWorkerSetVolcano,
        # Its group has a minimum of one pod if workers come after the leader.
        _LEADER_WORKER_SETS
        | {"workers after the leader is ready": partial(of.leader_worker_set, leader_ready=True, alone=True)},
    ),
    "JobSet": (
        Setting,
        {
            "two jobs": lambda make: of.job_set(make, ReplicatedJob("workers", replicas=2, pods=2)),
            "a driver and workers": lambda make: of.job_set(
                make, ReplicatedJob("driver"), ReplicatedJob("workers", pods=3)
            ),
            "in order": lambda make: of.job_set(
                make, ReplicatedJob("driver"), ReplicatedJob("workers", replicas=2, pods=2), in_order=True
            ),
            "a restart": lambda make: of.job_set(make, ReplicatedJob("workers", pods=3), restarts=1),
        },
    ),
    "JobSet, exclusive": (
        Setting,
        {
            "in a rack": lambda make: of.job_set(make, ReplicatedJob("workers", pods=4, exclusive=True)),
            "in order": lambda make: of.job_set(make, ReplicatedJob("workers", pods=3, exclusive=True), in_order=True),
            "two restarts": lambda make: of.job_set(make, ReplicatedJob("workers", pods=2, exclusive=True), restarts=2),
            "a restart in racks that were labelled before": lambda make: of.job_set(
                make, ReplicatedJob("workers", pods=3, exclusive=True, node_selector=True), restarts=1
            ),
            "beside a driver, in racks that were labelled before": lambda make: of.job_set(
                make, ReplicatedJob("driver"), ReplicatedJob("workers", pods=3, exclusive=True, node_selector=True)
            ),
            "in racks that were labelled before": lambda make: of.job_set(
                make, ReplicatedJob("workers", replicas=2, pods=2, exclusive=True, node_selector=True)
            ),
            "in order, in racks that were labelled before": lambda make: of.job_set(
                make,
                *(ReplicatedJob(name, pods=2, exclusive=True, node_selector=True) for name in ("data", "workers")),
                in_order=True,
            ),
            "a restart": lambda make: of.job_set(make, ReplicatedJob("workers", pods=3, exclusive=True), restarts=1),
        },
    ),
    "Trainer": (
        Setting,
        _TRAIN_JOBS
        | {
            "MPI, the launcher after the nodes": lambda make: of.train_job(
                make, ReplicatedJob("node", pods=3), ReplicatedJob("launcher", after="node")
            ),
            "initializers first": lambda make: of.train_job(
                make, ReplicatedJob("dataset-initializer"), ReplicatedJob("node", pods=2, after="dataset-initializer")
            ),
        },
    ),
    "Trainer, coscheduling": (TrainerCoscheduling, _TRAIN_JOBS),
    "Trainer, volcano": (TrainerVolcano, _TRAIN_JOBS),
    "KubeRay": (Setting, _RAY),
    "KubeRay, volcano": (KubeRayVolcano, _RAY),
    "KubeRay, yunikorn": (KubeRayYuniKorn, _RAY),
    "KubeRay, kai-scheduler": (
        KubeRayKai,  # refuses a RayJob whose submitter is a Job
        {name: each for name, each in _RAY.items() if not name.startswith("RayJob")}
        | {"RayJob, submitted from outside": lambda make: of.ray_job(make, _GPUS, mode="HTTPMode")},
    ),
    "KubeRay, scheduler-plugins": (
        KubeRayPlugins,  # refuses each RayJob, and its groups know no autoscaler
        {name: each for name, each in _RAY.items() if not name.startswith("RayJob")}
        | {
            "RayCluster, autoscaling": lambda make: of.ray_cluster(make, _SCALED_GROUP, autoscaling=True, whole=True),
            "RayCluster, hosts": lambda make: of.ray_cluster(make, worker_group("tpu", replicas=2, numOfHosts=2)),
        },
    ),
    "KubeRay, KubernetesWAS": (KubeRayKubernetes, _RAY if WORKLOAD else {}),
    "Grove, kai-scheduler": (GroveKai, _CLIQUES),
    "Grove, volcano": (GroveVolcano, _CLIQUES),
    "Grove, default-scheduler": (GroveDefault, _CLIQUES),
    "Grove, lpx-scheduler": (GroveLpx, _CLIQUES),
}


def _on(setting: type[Setting], controller: Controller) -> Controller:
    return lambda make: controller(setting(make))


ROAD: Final[Mapping[str, Controller]] = {
    f"{name}: {workload}": _on(setting, controller)
    for name, (setting, workloads) in _SETTINGS.items()
    for workload, controller in workloads.items()
}
"""Four or more workloads of each operator in each of its settings, for which the whole road is tried."""

OTHERS: Final[dict[str, Controller]] = {
    "Job: as many as completions": partial(of.job),
    "Job: fewer than completions": partial(of.job, completions=9),
    "Job: a work queue": partial(of.job, indexed=False),
    "CronJob": of.cron_job,
    "JobSet: many jobs": lambda make: of.job_set(make, *(ReplicatedJob(f"part-{index}") for index in range(100))),
    "JobSet: a driver, and jobs in racks of their own": lambda make: of.job_set(
        make, ReplicatedJob("driver"), ReplicatedJob("workers", replicas=3, pods=4, exclusive=True)
    ),
    "JobSet: many jobs in racks of their own": lambda make: of.job_set(
        make, *(ReplicatedJob(f"part-{index}", pods=2, exclusive=True) for index in range(100))
    ),
    "TrainJob: in racks of their own": lambda make: of.train_job(
        make, ReplicatedJob("node", replicas=2, pods=3, exclusive=True)
    ),
    "LeaderWorkerSet: replicas in racks of their own": partial(of.leader_worker_set, exclusive=True),
    "TrainJob: many jobs": lambda make: of.train_job(
        make, ReplicatedJob("node"), *(ReplicatedJob(f"part-{index}") for index in range(100))
    ),
    "StatefulSet": of.stateful_set,
    "Deployment": of.deployment,
    "PyTorchJob": partial(of.kubeflow_job, kind="PyTorchJob", field="pytorchReplicaSpecs", Master=1, Worker=2),
    "PyTorchJob: with a minimum": partial(
        of.kubeflow_job, kind="PyTorchJob", field="pytorchReplicaSpecs", minimum=2, Worker=4
    ),
    "TFJob": partial(of.kubeflow_job, kind="TFJob", field="tfReplicaSpecs", Chief=1, PS=1, Worker=2),
    "XGBoostJob": partial(of.kubeflow_job, kind="XGBoostJob", field="xgbReplicaSpecs", Master=1, Worker=2),
    "JAXJob": partial(of.kubeflow_job, kind="JAXJob", field="jaxReplicaSpecs", Worker=3),
    "MPIJob v1": partial(of.kubeflow_job, kind="MPIJob", field="mpiReplicaSpecs", Launcher=1, Worker=2),
    "SparkApplication": of.spark_application,
    "SparkApplication: more executors than the driver makes at once": partial(of.spark_application, at_once=2),
    "Spark without an operator": of.plain_spark,
    "Workflow": of.workflow,
}
MPI_V2: Final[dict[str, Controller]] = {
    "MPIJob v2beta1": of.mpi_job_v2,
    "MPIJob v2beta1: the launcher waits": partial(of.mpi_job_v2, launcher_waits=True),
}
EXAMPLES: Final[Mapping[str, Controller]] = {
    "tekton": of.tekton,
    "notebook": of.notebook,
    "knative": of.knative,
    "seldon": of.seldon,
    "kserve": of.kserve,
    "virtualmachineinstance": of.virtual_machine,
}
"""Those of manifests/examples/groupings."""
