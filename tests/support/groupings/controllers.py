"""Stand-in controllers: each writes the objects that an operator writes for one workload, in its order.

A controller is a generator. It makes objects with `Make`, yields the names of the pods that are to start together, and
goes on when they run. What they write for other schedulers is in `settings`. It follows the operators' sources:
LeaderWorkerSet v0.10.0-11-g060ab4d (`pkg/controllers/leaderworkerset_controller.go`, `pod_controller.go`,
`pkg/webhooks/pod_webhook.go`), JobSet v0.13.0-devel-43-g08dfbdfd (`pkg/controllers/jobset_controller.go`,
`labelAndAnnotateObject`), Trainer v1.5.0-rc.0-1092-g8c0f5059b (`pkg/runtime/framework/plugins/jobset`,
`manifests/base/runtimes`), KubeRay v1.7.0-rc.0-5-gfeeaf72fa (`ray-operator/controllers/ray`), training operator v1.9.0
(`pkg/controller.v1`), MPI operator v0.4.0-160-gcaa3c47 (`pkg/controller/mpi_job_controller.go`), Spark operator
chart-1.4.6-393-g38082f33 (`internal/controller/sparkapplication/submission.go`), Argo v4.1.0-rc2-80-gf016ad89eb
(`workflow/controller/workflowpod.go`), Grove fcc3b3bb (`operator/internal/controller/podcliqueset/components/podgang`,
`operator/internal/controller/podclique/components/pod`), and Kubernetes' Job controller. Webhooks count as part of an
operator: those of JobSet and LeaderWorkerSet (`pkg/webhooks/pod_webhook.go`) place exclusive workloads. Those of the
examples follow Tekton v1.15.0-49-g3ee1745ae (`pkg/pod/pod.go`), Knative v1.23.0-5-g98e5ef90aa
(`pkg/reconciler/revision/resources`), Seldon Core 7c3973a6f (`operator/controllers/seldondeployment_controller.go`) and
KServe v0.20.0-rc0-104-gaaac4e294 (`pkg/controller/v1beta1/inferenceservice`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from support.gangs import grove

Object = dict[str, Any]
Gangs = Sequence[Sequence[str]]
"""The names of the pods that are made by now and have no node, by what starts together. A list of one pod: it starts
alone.
"""

_LWS: Final = "leaderworkerset.sigs.k8s.io"
_JOBSET: Final = "jobset.sigs.k8s.io"
_TRAINING: Final = "training.kubeflow.org"
_INDEX: Final = "batch.kubernetes.io/job-completion-index"


class Make(Protocol):
    """An API server."""

    def __call__(
        self,
        kind: str,
        name: str,
        controller: Object | None = None,
        *,
        version: str = "",
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        spec: Mapping[str, Any] | None = None,
    ) -> Object:
        """Creates an object, and returns it with its uid. `version`: if it is not that of VERSIONS."""

    def change(self, made: Object, spec: Mapping[str, Any]) -> None:
        """Replaces these fields of its spec."""

    def delete(self, made: Object) -> None: ...

    def domain(self, pod: Object, label: str) -> str:
        """The value of the label of the node on which the pod is."""


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
    "PipelineRun": "tekton.dev/v1",
    "TaskRun": "tekton.dev/v1",
    "Notebook": "kubeflow.org/v1",
    "Revision": "serving.knative.dev/v1",
    "SeldonDeployment": "machinelearning.seldon.io/v1",
    "InferenceService": "serving.kserve.io/v1beta1",
    "VirtualMachineInstance": "kubevirt.io/v1",
    "PodCliqueSet": "grove.io/v1alpha1",
    "PodCliqueScalingGroup": "grove.io/v1alpha1",
    "PodClique": "grove.io/v1alpha1",
    "PodGang": "scheduler.grove.io/v1alpha1",
}
RACK: Final = "example.com/rack"
"""The label of nodes in which exclusive workloads are to be alone."""


def pods_of(make: Make, controller: Object, names: Sequence[str], **options: Any) -> list[str]:
    for name in names:
        make("Pod", name, controller, **options)
    return [*names]


def name_of(raw: Object) -> str:
    return str(raw["metadata"]["name"])


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
    alone: bool = False,
    sub_group_size: int = 0,
    exclusive: bool = False,
) -> Iterator[Gangs]:
    """`alone`: the workers are no gang. `exclusive`: each replica in a rack of its own."""
    spec: Object = {"replicas": replicas, "leaderWorkerTemplate": {"size": size}}
    spec["startupPolicy"] = "LeaderReady" if leader_ready else "LeaderCreated"
    asked = {f"{_LWS}/exclusive-topology": RACK} if exclusive else {}
    top = make("LeaderWorkerSet", "llm", spec=spec, annotations=asked)
    leaders = make("StatefulSet", "llm", top, spec={"replicas": replicas})
    for revision in revisions:
        shared = {f"{_LWS}/name": "llm", f"{_LWS}/template-revision-hash": revision}
        annotations = {f"{_LWS}/size": str(size), **asked}
        if sub_group_size:
            annotations[f"{_LWS}/subgroup-size"] = str(sub_group_size)
        gangs: list[list[str]] = []
        made: list[Object] = []
        for group in range(replicas):
            name = f"llm-{group}" if revision == "1" else f"llm-{group}-r{revision}"
            labels = {**shared, f"{_LWS}/group-index": str(group), f"{_LWS}/group-key": f"key-{group}"}
            labels[f"{_LWS}/worker-index"] = "0"
            alike = exclusive_affinity(f"{_LWS}/group-key", labels) if exclusive else {}
            made.append(make("Pod", name, leaders, labels=labels, annotations=annotations, spec=alike))
            gangs.append([name])
        if leader_ready or exclusive:
            yield gangs
            gangs = [[] for _ in gangs]
        for group, leader in enumerate(made):
            name = leader["metadata"]["name"]
            workers = make("StatefulSet", name, leader, spec={"replicas": size - 1})
            labels = {**leader["metadata"]["labels"]}
            theirs = {**annotations, f"{_LWS}/leader-name": name}
            for worker in range(1, size):
                own = {**labels, f"{_LWS}/worker-index": str(worker)}
                chosen = {"nodeSelector": {RACK: make.domain(leader, RACK)}} if exclusive else {}
                gangs[group] += pods_of(
                    make, workers, [f"{name}-{worker}"], labels=own, annotations=theirs, spec=chosen
                )
        yield gangs if not alone else [[worker] for gang in gangs for worker in gang]


def exclusive_affinity(label: str, labels: Mapping[str, str]) -> Object:
    """The affinity of the first pod of an exclusive workload: beside those with the same label, and no others."""
    alike = {"key": label, "operator": "In", "values": [labels[label]]}
    others = [{"key": label, "operator": "Exists"}, {**alike, "operator": "NotIn"}]
    terms = [
        {"labelSelector": {"matchExpressions": expressions}, "topologyKey": RACK} for expressions in ([alike], others)
    ]
    field = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"affinity": {"podAffinity": {field: terms[:1]}, "podAntiAffinity": {field: terms[1:]}}}


# JobSet and Trainer


@dataclass(frozen=True)
class ReplicatedJob:
    name: str
    replicas: int = 1
    pods: int = 1
    after: str = ""
    """The replicated job that it depends on."""
    exclusive: bool = False
    """Each of its jobs in a rack of its own."""
    node_selector: bool = False
    """With `exclusive`: nodes were labelled for it before."""

    @property
    def waits_for_leader(self) -> bool:
        """The webhook refuses its other pods until the first one of each job has a node."""
        return self.exclusive and not self.node_selector

    @property
    def annotations(self) -> Mapping[str, str]:
        prefix = f"alpha.{_JOBSET}"
        selects = {f"{prefix}/node-selector": "true"} if self.node_selector else {}
        return {f"{prefix}/exclusive-topology": RACK, **selects} if self.exclusive else {}

    @property
    def spec(self) -> Object:
        template: Object = {"spec": {"parallelism": self.pods, "completions": self.pods, "completionMode": "Indexed"}}
        if self.exclusive:
            template["metadata"] = {"annotations": self.annotations}
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
        pods: list[Object] = []
        leaders: list[tuple[Object, Object, ReplicatedJob]] = []
        for each in jobs:
            if (in_order or each.after) and together:
                yield [together]
                together = []
            labels = {
                f"{_JOBSET}/jobset-name": name,
                f"{_JOBSET}/replicatedjob-name": each.name,
                f"{_JOBSET}/restart-attempt": str(attempt),
            }
            for index in range(each.replicas):
                child = f"{name}-{each.name}-{index}" + (f"-a{attempt}" if attempt else "")
                options = {"labels": {**labels, f"{_JOBSET}/job-key": child}, "annotations": each.annotations}
                made = make("Job", child, top, spec=each.spec["template"]["spec"], **options)
                if each.waits_for_leader:
                    alike = exclusive_affinity(f"{_JOBSET}/job-key", options["labels"])
                    pods += _pods_of_job(make, made, range(1), options, alike)
                    leaders.append((made, pods[-1], each))
                else:
                    pods += _pods_of_job(make, made, range(each.pods), options, {})
                together += [name_of(raw) for raw in pods if raw["metadata"]["ownerReferences"][0]["name"] == child]
        yield [together]
        together = []
        followers: list[list[Object]] = []
        for made, leader, each in leaders:
            chosen = {"nodeSelector": {RACK: make.domain(leader, RACK)}}
            options = {"labels": leader["metadata"]["labels"], "annotations": each.annotations}
            followers.append(_pods_of_job(make, made, range(1, each.pods), options, chosen))
        if followers:
            yield [[name_of(raw) for raw in each] for each in followers]
        for pod in (*pods, *(raw for each in followers for raw in each)):
            make.delete(pod)


def _pods_of_job(make: Make, job: Object, numbers: range, options: Object, spec: Object) -> list[Object]:
    return [
        make(
            "Pod",
            f"{name_of(job)}-{number}",
            job,
            labels=options["labels"],
            annotations={**options["annotations"], _INDEX: str(number)},
            spec=spec,
        )
        for number in numbers
    ]


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
    whole: bool = False,
    controller: Object | None = None,
    name: str = "llm",
) -> Iterator[Gangs]:
    """`whole`: also those that its autoscaler may take away start with the others."""
    spec = {"headGroupSpec": {}, "workerGroupSpecs": [*groups], "enableInTreeAutoscaling": autoscaling}
    origin = (
        {}
        if controller is None
        else {
            "ray.io/originated-from-crd": controller["kind"],
            "ray.io/originated-from-cr-name": controller["metadata"]["name"],
        }
    )
    made = make("RayCluster", name, controller, labels=origin, spec=spec)

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
            within = whole or not autoscaling or index < least
            (first if within else later).extend(pod("worker", group["groupName"], each) for each in names)
    yield [first, *([each] for each in later)]


def ray_job(make: Make, *groups: Object, mode: str = "K8sJobMode") -> Iterator[Gangs]:
    top = make("RayJob", "tune", spec={"rayClusterSpec": {"workerGroupSpecs": [*groups]}, "submissionMode": mode})
    yield from ray_cluster(make, *groups, controller=top, name="tune-x")
    if mode != "K8sJobMode":
        return
    submitter = make("Job", "tune", top, spec={"backoffLimit": 2})
    yield [pods_of(make, submitter, ["tune-submitter"], labels={"job-name": "tune"})]


def ray_service(make: Make, *groups: Object) -> Iterator[Gangs]:
    top = make("RayService", "chat", spec={"rayClusterConfig": {"workerGroupSpecs": [*groups]}})
    for name in ("chat-a", "chat-b"):
        yield from ray_cluster(make, *groups, controller=top, name=name)


# Grove


@dataclass(frozen=True)
class Clique:
    name: str
    replicas: int
    least: int = 0
    """`minAvailable`, if it is less."""
    scaled: int = 0
    """How many replicas of its own scaling group there are, of which one is needed. 0: it is in none."""


def pod_clique_set(make: Make, *cliques: Clique, replicas: int = 1) -> Iterator[Gangs]:
    top = make("PodCliqueSet", "llm", spec={"replicas": replicas})
    for replica in range(replicas):
        base = f"llm-{replica}"
        scaled: list[tuple[str, Sequence[tuple[str, Clique]]]] = []
        parts: list[tuple[str, Clique]] = []
        for clique in cliques:
            if not clique.scaled:
                parts.append((f"{base}-{clique.name}", clique))
                continue
            group = f"{base}-{clique.name}s"
            parts.append((f"{group}-0-{clique.name}", clique))
            scaled += [
                (f"{group}-{index - 1}", [(f"{group}-{index}-{clique.name}", clique)])
                for index in range(1, clique.scaled)
            ]
        for name, members in ((base, parts), *scaled):
            yield from _pod_gang(make, top, name, members)


def _pod_gang(make: Make, top: Object, name: str, cliques: Sequence[tuple[str, Clique]]) -> Iterator[Gangs]:
    """A PodGang: first without its pods, which are gated until it names them."""
    groups: list[Object] = [
        {"name": full, "podReferences": [], "minReplicas": clique.least or clique.replicas} for full, clique in cliques
    ]
    gang = make("PodGang", name, top, spec={"podgroups": groups})
    made: list[Object] = []
    together, further = [], []
    for (full, clique), group in zip(cliques, groups, strict=True):
        owner = make("PodClique", full, top, spec={"replicas": clique.replicas, "minAvailable": group["minReplicas"]})
        labels = {"grove.io/podgang": name, "grove.io/podclique": full}
        names = [f"{full}-{index}" for index in range(clique.replicas)]
        made += [make("Pod", pod, owner, labels=labels, spec={"schedulingGates": [grove.GATE]}) for pod in names]
        group["podReferences"] = [{"namespace": gang["metadata"]["namespace"], "name": pod} for pod in names]
        together += names[: group["minReplicas"]]
        further += names[group["minReplicas"] :]
    make.change(gang, {"podgroups": groups})
    for pod in made:
        make.change(pod, {"schedulingGates": None})
    yield [together, *([pod] for pod in further)]


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


# The examples


def tekton(make: Make) -> Iterator[Gangs]:
    tasks = [{"name": "fit", "matrix": {"params": [{"name": "fold", "value": ["1", "2", "3"]}]}}, {"name": "report"}]
    top = make("PipelineRun", "ci", spec={"pipelineSpec": {"tasks": tasks}})
    asked = {"podwright.dev/min-tasks": "3"}
    for task, names in (("fit", ["ci-fit-0", "ci-fit-1", "ci-fit-2"]), ("report", ["ci-report"])):
        labels = {"tekton.dev/pipelineRun": "ci", "tekton.dev/pipelineTask": task}
        for name in names:
            run = make("TaskRun", name, top, labels=labels, annotations=asked, spec={})
            pods_of(make, run, [f"{name}-pod"], labels=labels, annotations=asked)
        yield [[f"{name}-pod" for name in names]]


def notebook(make: Make) -> Iterator[Gangs]:
    top = make("Notebook", "lab", spec={})
    yield [pods_of(make, make("StatefulSet", "lab", top, spec={"replicas": 1}), ["lab-0"])]


def _deployed(make: Make, name: str, top: Object, count: int, **options: Any) -> list[str]:
    """The pods of a Deployment."""
    spec = {"replicas": count, **options.pop("spec", {})}
    deployment = make("Deployment", name, top, spec=spec)
    replicas = make("ReplicaSet", f"{name}-1", deployment, spec=spec)
    return pods_of(make, replicas, [f"{name}-1-{index}" for index in range(count)], **options)


def knative(make: Make) -> Iterator[Gangs]:
    top = make("Revision", "chat-1", annotations={"autoscaling.knative.dev/min-scale": "2"}, spec={})
    pods = _deployed(make, "chat-1-deployment", top, 3, labels={"serving.knative.dev/revision": "chat-1"})
    yield [pods[:2], pods[2:]]
    pods = _deployed(make, "other-1-deployment", make("Revision", "other-1", spec={}), 2)
    yield [[pod] for pod in pods]


def seldon(make: Make) -> Iterator[Gangs]:
    parts = [{"replicas": 2}, {"hpaSpec": {"minReplicas": 1, "maxReplicas": 4}}]
    canary = {"name": "canary", "componentSpecs": [{}]}
    spec = {"predictors": [{"name": "main", "replicas": 3, "componentSpecs": [*parts, {}]}, canary]}
    top = make("SeldonDeployment", "rank", spec=spec)
    labels = {"seldon-deployment-id": "rank"}
    pods = [
        name
        for index, count in enumerate((2, 1, 3))
        for name in _deployed(make, f"rank-main-{index}-part", top, count, labels=labels)
    ]
    yield [pods, _deployed(make, "rank-canary-0-part", top, 1, labels=labels)]
    yield [_deployed(make, "rank-0123456789abcdef", top, 1, labels=labels)]


def kserve(make: Make) -> Iterator[Gangs]:
    top = make("InferenceService", "llm", spec={"predictor": {"workerSpec": {"pipelineParallelSize": 3}}})
    container = {"name": "kserve-container", "env": [{"name": "RAY_NODE_COUNT", "value": "3"}]}
    spec = {"template": {"spec": {"containers": [{"name": "agent"}, container]}}}
    for generation in ("1", "2"):
        options = {"labels": {"isvc.generation": generation, "component": "predictor"}, "spec": spec}
        head = _deployed(make, f"llm-predictor-{generation}", top, 1, **options)
        yield [head + _deployed(make, f"llm-predictor-worker-{generation}", top, 2, **options)]
    spec = {"template": {"spec": {"containers": [{"name": "kserve-container"}]}}}
    yield [[pod] for pod in _deployed(make, "iris-predictor", make("InferenceService", "iris"), 2, spec=spec)]


def virtual_machine(make: Make) -> Iterator[Gangs]:
    top = make("VirtualMachineInstance", "vm", spec={})
    yield [[pod] for pod in pods_of(make, top, ["virt-launcher-vm-a", "virt-launcher-vm-b"])]
