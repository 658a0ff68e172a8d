"""Workloads by name, as their operators make them."""

from __future__ import annotations

from functools import partial
from typing import Final

from support.groupings import controllers as of
from support.groupings.controllers import Controller, ReplicatedJob, worker_group

ROAD: Final[dict[str, Controller]] = {
    "LeaderWorkerSet: two replicas": partial(of.leader_worker_set),
    "LeaderWorkerSet: workers after the leader is ready": partial(of.leader_worker_set, leader_ready=True),
    "LeaderWorkerSet: a rolling update": partial(of.leader_worker_set, replicas=1, revisions=("1", "2")),
    "LeaderWorkerSet: subgroups": partial(of.leader_worker_set, replicas=1, size=4, sub_group_size=2),
    "JobSet: two jobs": lambda make: of.job_set(make, ReplicatedJob("workers", replicas=2, pods=2)),
    "JobSet: a driver and workers": lambda make: of.job_set(
        make, ReplicatedJob("driver"), ReplicatedJob("workers", pods=3)
    ),
    "JobSet: in order": lambda make: of.job_set(
        make, ReplicatedJob("driver"), ReplicatedJob("workers", replicas=2, pods=2), in_order=True
    ),
    "JobSet: a restart": lambda make: of.job_set(make, ReplicatedJob("workers", pods=3), restarts=1),
    "TrainJob: torch": lambda make: of.train_job(make, ReplicatedJob("node", pods=3)),
    "TrainJob: MPI, the launcher after the nodes": lambda make: of.train_job(
        make, ReplicatedJob("node", pods=3), ReplicatedJob("launcher", after="node")
    ),
    "TrainJob: initializers first": lambda make: of.train_job(
        make,
        ReplicatedJob("dataset-initializer"),
        ReplicatedJob("node", pods=2, after="dataset-initializer"),
    ),
    "TrainJob: a restart": lambda make: of.train_job(make, ReplicatedJob("node", pods=2), restarts=1),
    "RayCluster: two worker groups": lambda make: of.ray_cluster(
        make,
        worker_group("small", replicas=2),
        worker_group("tpu", replicas=1, numOfHosts=2),
        worker_group("off", suspend=True),
    ),
    "RayCluster: autoscaling": lambda make: of.ray_cluster(
        make, worker_group("gpu", replicas=3, minReplicas=2), autoscaling=True
    ),
    "RayJob: a submitter": lambda make: of.ray_job(make, worker_group("gpu", replicas=2)),
    "RayService: an upgrade": lambda make: of.ray_service(make, worker_group("gpu", replicas=2)),
}
"""Four of each operator for which the whole road is tried."""

OTHERS: Final[dict[str, Controller]] = {
    "Job: as many as completions": partial(of.job),
    "Job: fewer than completions": partial(of.job, completions=9),
    "Job: a work queue": partial(of.job, indexed=False),
    "CronJob": of.cron_job,
    "JobSet: many jobs": lambda make: of.job_set(make, *(ReplicatedJob(f"part-{index}") for index in range(100))),
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
