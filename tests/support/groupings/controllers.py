"""Stand-in controllers: each writes the objects that an operator writes for one workload, in its order.

A controller is a generator. It makes objects with `Make`, yields the names of the pods that are to start together, and
goes on when they run. What they write follows the operators' sources: LeaderWorkerSet v0.10.0-11-g060ab4d
(`pkg/controllers/leaderworkerset_controller.go`, `pod_controller.go`, `pkg/webhooks/pod_webhook.go`), JobSet
v0.13.0-devel-43-g08dfbdfd (`pkg/controllers/jobset_controller.go`, `labelAndAnnotateObject`), Trainer
v1.5.0-rc.0-1092-g8c0f5059b (`pkg/runtime/framework/plugins/jobset`, `manifests/base/runtimes`), KubeRay
v1.7.0-rc.0-5-gfeeaf72fa (`ray-operator/controllers/ray`), training operator v1.9.0 (`pkg/controller.v1`), MPI operator
v0.4.0-160-gcaa3c47 (`pkg/controller/mpi_job_controller.go`), Spark operator chart-1.4.6-393-g38082f33
(`internal/controller/sparkapplication/submission.go`), Argo v4.1.0-rc2-80-gf016ad89eb
(`workflow/controller/workflowpod.go`), and Kubernetes' Job controller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

Object = dict[str, Any]
Gangs = Sequence[Sequence[str]]
"""The names of the pods that are made by now and have no node, by what starts together. A list of one pod: it starts alone."""

_LWS: Final = "leaderworkerset.sigs.k8s.io"
_JOBSET: Final = "jobset.sigs.k8s.io"
_TRAINING: Final = "training.kubeflow.org"


class Make(Protocol):
    """Creates an object, and returns it with its uid."""

    def __call__(
        self,
        kind: str,
        name: str,
        controller: Object | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        spec: Mapping[str, Any] | None = None,
    ) -> Object: ...


Controller = Callable[[Make], Iterator[Gangs]]

VERSIONS: Final = {
    "Pod": "v1",
    "StatefulSet": "apps/v1",
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "Job": "batch/v1",
    "CronJob": "batch/v1",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1",
    "JobSet": "jobset.x-k8s.io/v1alpha2",
    "TrainJob": "trainer.kubeflow.org/v1alpha1",
    "RayCluster": "ray.io/v1",
    "RayJob": "ray.io/v1",
    "RayService": "ray.io/v1",
    "PyTorchJob": "kubeflow.org/v1",
    "TFJob": "kubeflow.org/v1",
    "XGBoostJob": "kubeflow.org/v1",
    "JAXJob": "kubeflow.org/v1",
    "MPIJob": "kubeflow.org/v1",
    "SparkApplication": "sparkoperator.k8s.io/v1beta2",
    "Workflow": "argoproj.io/v1alpha1",
}


def pods_of(make: Make, controller: Object, names: Sequence[str], **options: Any) -> list[str]:
    for name in names:
        make("Pod", name, controller, **options)
    return [*names]


# Kubernetes


def job(make: Make, *, indexed: bool = True, count: int = 3, completions: int = 3) -> Iterator[Gangs]:
    mode = "Indexed" if indexed else "NonIndexed"
    made = make("Job", "train", spec={"completionMode": mode, "parallelism": count, "completions": completions})
    names = pods_of(make, made, [f"train-{index}" for index in range(count)])
    yield [names] if indexed and count == completions else [[name] for name in names]


def cron_job(make: Make) -> Iterator[Gangs]:
    template = {"spec": {"completionMode": "Indexed", "parallelism": 2, "completions": 2}}
    top = make("CronJob", "nightly", spec={"schedule": "@daily", "jobTemplate": template})
    for run in ("1", "2"):
        made = make("Job", f"nightly-{run}", top, spec=template["spec"])
        yield [pods_of(make, made, [f"nightly-{run}-{index}" for index in range(2)])]


def stateful_set(make: Make) -> Iterator[Gangs]:
    made = make("StatefulSet", "db", spec={"replicas": 2})
    for index in range(2):
        yield [pods_of(make, made, [f"db-{index}"])]


def deployment(make: Make) -> Iterator[Gangs]:
    top = make("Deployment", "web", spec={"replicas": 2})
    made = make("ReplicaSet", "web-1", top, spec={"replicas": 2})
    yield [[name] for name in pods_of(make, made, ["web-1-a", "web-1-b"])]


# LeaderWorkerSet


def leader_worker_set(
    make: Make,
    *,
    replicas: int = 2,
    size: int = 3,
    revisions: Sequence[str] = ("1",),
    leader_ready: bool = False,
    sub_group_size: int = 0,
) -> Iterator[Gangs]:
    spec: Object = {"replicas": replicas, "leaderWorkerTemplate": {"size": size}}
    spec["startupPolicy"] = "LeaderReady" if leader_ready else "LeaderCreated"
    top = make("LeaderWorkerSet", "llm", spec=spec)
    leaders = make("StatefulSet", "llm", top, spec={"replicas": replicas})
    for revision in revisions:
        shared = {f"{_LWS}/name": "llm", f"{_LWS}/template-revision-hash": revision}
        annotations = {f"{_LWS}/size": str(size)}
        if sub_group_size:
            annotations[f"{_LWS}/subgroup-size"] = str(sub_group_size)
        gangs: list[list[str]] = []
        made: list[Object] = []
        for group in range(replicas):
            name = f"llm-{group}" if revision == "1" else f"llm-{group}-r{revision}"
            labels = {**shared, f"{_LWS}/group-index": str(group), f"{_LWS}/group-key": f"key-{group}"}
            made.append(
                make("Pod", name, leaders, labels={**labels, f"{_LWS}/worker-index": "0"}, annotations=annotations)
            )
            gangs.append([name])
        if leader_ready:
            yield gangs
            gangs = [[] for _ in gangs]
        for group, leader in enumerate(made):
            name = leader["metadata"]["name"]
            workers = make("StatefulSet", name, leader, spec={"replicas": size - 1})
            labels = {**leader["metadata"]["labels"]}
            theirs = {**annotations, f"{_LWS}/leader-name": name}
            for worker in range(1, size):
                own = {**labels, f"{_LWS}/worker-index": str(worker)}
                gangs[group] += pods_of(make, workers, [f"{name}-{worker}"], labels=own, annotations=theirs)
        yield gangs


# JobSet and Trainer


@dataclass(frozen=True)
class ReplicatedJob:
    name: str
    replicas: int = 1
    pods: int = 1
    after: str = ""
    """The replicated job that it depends on."""

    @property
    def spec(self) -> Object:
        template = {"spec": {"parallelism": self.pods, "completions": self.pods, "completionMode": "Indexed"}}
        depends = {"dependsOn": [{"name": self.after, "status": "Ready"}]} if self.after else {}
        return {"name": self.name, "replicas": self.replicas, "template": template, **depends}


def job_set(
    make: Make,
    *jobs: ReplicatedJob,
    in_order: bool = False,
    restarts: int = 0,
    controller: Object | None = None,
    name: str = "train",
) -> Iterator[Gangs]:
    spec: Object = {"replicatedJobs": [each.spec for each in jobs]}
    if in_order:
        spec["startupPolicy"] = {"startupPolicyOrder": "InOrder"}
    top = make("JobSet", name, controller, spec=spec)
    together: list[str] = []
    for attempt in range(restarts + 1):
        for each in jobs:
            if (in_order or each.after) and together:
                yield [together]
                together = []
            suffix = f"-a{attempt}" if attempt else ""
            labels = {
                f"{_JOBSET}/jobset-name": name,
                f"{_JOBSET}/replicatedjob-name": each.name,
                f"{_JOBSET}/restart-attempt": str(attempt),
            }
            for index in range(each.replicas):
                child = f"{name}-{each.name}-{index}{suffix}"
                made = make("Job", child, top, labels=labels, spec=each.spec["template"]["spec"])
                names = [f"{child}-{pod}" for pod in range(each.pods)]
                together += pods_of(make, made, names, labels=labels)
        yield [together]
        together = []


def train_job(make: Make, *jobs: ReplicatedJob, restarts: int = 0) -> Iterator[Gangs]:
    nodes = next(each.pods for each in jobs if each.name == "node")
    top = make("TrainJob", "llama", spec={"runtimeRef": {"name": "torch"}, "trainer": {"numNodes": nodes}})
    yield from job_set(make, *jobs, controller=top, name="llama", restarts=restarts)


# KubeRay


def worker_group(name: str, **spec: Any) -> Object:
    return {"groupName": name, "replicas": 1, "minReplicas": 0, "maxReplicas": 10, "numOfHosts": 1, **spec}


def ray_cluster(
    make: Make,
    *groups: Object,
    autoscaling: bool = False,
    controller: Object | None = None,
    name: str = "llm",
) -> Iterator[Gangs]:
    spec = {"headGroupSpec": {}, "workerGroupSpecs": [*groups], "enableInTreeAutoscaling": autoscaling}
    made = make("RayCluster", name, controller, spec=spec)

    def pod(node_type: str, group: str, pod_name: str) -> str:
        labels = {"ray.io/cluster": name, "ray.io/node-type": node_type, "ray.io/group": group}
        return pods_of(make, made, [pod_name], labels=labels)[0]

    first, later = [pod("head", "headgroup", f"{name}-head")], []
    for group in groups:
        if group.get("suspend"):
            continue
        hosts, least = group["numOfHosts"], group["minReplicas"]
        for index in range(max(group["replicas"], least)):
            names = [f"{name}-{group['groupName']}-{index}-{host}" for host in range(hosts)]
            within = not autoscaling or index < least
            (first if within else later).extend(pod("worker", group["groupName"], each) for each in names)
    yield [first, *([each] for each in later)]


def ray_job(make: Make, *groups: Object) -> Iterator[Gangs]:
    top = make(
        "RayJob", "tune", spec={"rayClusterSpec": {"workerGroupSpecs": [*groups]}, "submissionMode": "K8sJobMode"}
    )
    yield from ray_cluster(make, *groups, controller=top, name="tune-x")
    submitter = make("Job", "tune", top, spec={"backoffLimit": 2})
    yield [pods_of(make, submitter, ["tune-submitter"], labels={"job-name": "tune"})]


def ray_service(make: Make, *groups: Object) -> Iterator[Gangs]:
    top = make("RayService", "chat", spec={"rayClusterConfig": {"workerGroupSpecs": [*groups]}})
    for name in ("chat-a", "chat-b"):
        yield from ray_cluster(make, *groups, controller=top, name=name)


# Training operator, MPI operator


def kubeflow_job(make: Make, kind: str, field: str, *, minimum: int = 0, **replicas: int) -> Iterator[Gangs]:
    policy = {"schedulingPolicy": {"minAvailable": minimum}} if minimum else {}
    specs = {role: {"replicas": count, "template": {}} for role, count in replicas.items()}
    made = make(kind, "fit", spec={field: specs, "runPolicy": policy})
    names: list[str] = []
    for role, count in replicas.items():
        labels = {f"{_TRAINING}/job-name": "fit", f"{_TRAINING}/replica-type": role.lower()}
        names += pods_of(make, made, [f"fit-{role.lower()}-{index}" for index in range(count)], labels=labels)
    yield [names] if not minimum else [names[:minimum], *([name] for name in names[minimum:])]


def mpi_job_v2(make: Make, *, launcher_waits: bool = False) -> Iterator[Gangs]:
    specs = {"Launcher": {"replicas": 1}, "Worker": {"replicas": 2}}
    policy = "WaitForWorkersReady" if launcher_waits else "AtStartup"
    made = make("MPIJob", "pi", spec={"mpiReplicaSpecs": specs, "launcherCreationPolicy": policy})
    labels = {f"{_TRAINING}/job-name": "pi"}
    workers = pods_of(make, made, ["pi-worker-0", "pi-worker-1"], labels={**labels, f"{_TRAINING}/job-role": "worker"})
    if launcher_waits:
        yield [workers]
        workers = []
    launcher = make("Job", "pi-launcher", made, spec={})
    pods = pods_of(make, launcher, ["pi-launcher-x"], labels={**labels, f"{_TRAINING}/job-role": "launcher"})
    yield [[*workers, *pods]]


# Spark, Argo


def spark_application(make: Make, *, executors: int = 3, at_once: int = 5) -> Iterator[Gangs]:
    conf = {"spark.kubernetes.allocation.batch.size": str(at_once)}
    top = make("SparkApplication", "pi", spec={"executor": {"instances": executors}, "sparkConf": conf})
    for gangs in _spark(make, executors, top, {"sparkoperator.k8s.io/submission-id": "s1"}, {}):
        yield [gangs[0][:at_once], *([name] for name in gangs[0][at_once:])]


def plain_spark(make: Make, *, executors: int = 3) -> Iterator[Gangs]:
    yield from _spark(make, executors, None, {}, {"podwright.dev/min-executors": str(executors)})


def _spark(
    make: Make, executors: int, top: Object | None, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> Iterator[Gangs]:
    labels = {**labels, "spark-app-selector": "spark-1"}
    driver = make("Pod", "pi-driver", top, labels={**labels, "spark-role": "driver"})
    yield [["pi-driver"]]
    names = [f"pi-exec-{index}" for index in range(executors)]
    yield [pods_of(make, driver, names, labels={**labels, "spark-role": "executor"}, annotations=annotations)]


def workflow(make: Make) -> Iterator[Gangs]:
    top = make("Workflow", "steps", spec={"entrypoint": "main"})
    for name in ("steps-1", "steps-2"):
        yield [pods_of(make, top, [name], labels={"workflows.argoproj.io/workflow": "steps"})]
