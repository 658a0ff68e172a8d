"""Settings of operators for other schedulers: each setting is a `Make` that adds to what a controller makes.

Sources: LeaderWorkerSet v0.10.0-11-g060ab4d (`pkg/schedulerprovider/volcano_provider.go`), Trainer
v1.5.0-rc.0-1092-g8c0f5059b (`pkg/runtime/framework/plugins/coscheduling`, `volcano`), KubeRay v1.7.0-rc.0-5-gfeeaf72fa
(`ray-operator/controllers/ray/batchscheduler`), Grove fcc3b3bb (`operator/internal/scheduler`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from podwright.core.objects.pod_group import GROUP_LABEL, KAI_API, PLUGINS_API, VOLCANO_API, WORKLOAD_API
from support.gangs.pod_groups import WORKLOAD
from support.groupings.controllers import Make, Object, name_of

GROUP_VERSIONS: Final = {
    WORKLOAD_API: WORKLOAD,
    PLUGINS_API: f"{PLUGINS_API}/v1alpha1",
    VOLCANO_API: f"{VOLCANO_API}/v1beta1",
    KAI_API: f"{KAI_API}/v2alpha2",
}
_VOLCANO_GROUP: Final = "scheduling.k8s.io/group-name"
SCHEDULERS: Final = (
    "volcano",
    "yunikorn",
    "scheduler-plugins-scheduler",
    "kai-scheduler",
    "default-scheduler",
    "lpx-scheduler",
)
"""The names that pods of all settings ask for, beside that of Podwright."""


class Setting:
    """Passes everything on. `scheduler`: what the pods ask for."""

    scheduler: str = "podwright"

    def __init__(self, make: Make) -> None:
        self.make = make

    def __call__(self, kind: str, name: str, controller: Object | None = None, **parts: Any) -> Object:
        parts = {**parts, **{field: dict(parts.get(field) or {}) for field in ("labels", "annotations", "spec")}}
        if kind == "Pod":
            parts["spec"]["schedulerName"] = self.scheduler
        self.prepare(kind, name, controller, parts)
        made = self.make(kind, name, controller, **parts)
        self.submitted(kind, made)
        return made

    def prepare(self, kind: str, name: str, controller: Object | None, parts: Object) -> None:
        """Changes the parts of an object before it is made."""

    def submitted(self, kind: str, made: Object) -> None:
        """Follows an object with others."""

    def group(self, api: str, name: str, owner: Object, **spec: Any) -> None:
        """Makes a PodGroup."""
        self.make("PodGroup", name, owner, version=GROUP_VERSIONS[api], spec=spec)

    def change(self, made: Object, spec: Mapping[str, Any]) -> None:
        self.make.change(made, spec)

    def delete(self, made: Object) -> None:
        self.make.delete(made)

    def domain(self, pod: Object, label: str) -> str:
        return self.make.domain(pod, label)


class OnVolcano(Setting):
    scheduler = "volcano"


class LeaderWorkerSetVolcano(OnVolcano):
    """`gangSchedulingManagement.schedulerProvider: volcano`: a group for each leader, made after it."""

    def prepare(self, kind: str, name: str, controller: Object | None, parts: Object) -> None:
        if kind == "Pod":
            parts["annotations"][_VOLCANO_GROUP] = self._group(parts["labels"])

    def submitted(self, kind: str, made: Object) -> None:
        if kind == "LeaderWorkerSet":
            self._spec = made["spec"]
        elif kind == "Pod" and made["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/worker-index"] == "0":
            size = self._spec["leaderWorkerTemplate"]["size"]
            least = 1 if self._spec["startupPolicy"] == "LeaderReady" else size
            group = self._group(made["metadata"]["labels"])
            self.group(VOLCANO_API, group, made, minMember=least, minResources={"cpu": str(size)})

    @staticmethod
    def _group(labels: Mapping[str, str]) -> str:
        prefix = "leaderworkerset.sigs.k8s.io"
        return f"llm-{labels[f'{prefix}/group-index']}-{labels[f'{prefix}/template-revision-hash']}"


# Trainer


class TrainerCoscheduling(Setting):
    """`podGroupPolicy.coscheduling`: a group of all pods of the TrainJob's JobSet."""

    scheduler = "scheduler-plugins-scheduler"
    api = PLUGINS_API

    def prepare(self, kind: str, name: str, controller: Object | None, parts: Object) -> None:
        if kind == "JobSet":
            assert controller is not None
            jobs = parts["spec"]["replicatedJobs"]
            least = sum(job["replicas"] * job["template"]["spec"]["parallelism"] for job in jobs)
            self.group(self.api, name_of(controller), controller, minMember=least, minResources={"cpu": str(least)})
        elif kind == "Pod":
            self.mark(parts, parts["labels"]["jobset.sigs.k8s.io/jobset-name"])

    def mark(self, parts: Object, job: str) -> None:
        parts["labels"][GROUP_LABEL] = job


class TrainerVolcano(TrainerCoscheduling):
    """`podGroupPolicy.volcano`."""

    scheduler = "volcano"
    api = VOLCANO_API

    def mark(self, parts: Object, job: str) -> None:
        parts["annotations"][_VOLCANO_GROUP] = job


# KubeRay


def members(spec: Mapping[str, Any], *, desired: bool) -> int:
    """How many pods a RayCluster has: those that it wants, or at least."""
    groups = [group for group in spec["workerGroupSpecs"] if not group.get("suspend")]
    counts = [max(group["replicas"], group["minReplicas"]) if desired else group["minReplicas"] for group in groups]
    return 1 + sum(count * group["numOfHosts"] for count, group in zip(counts, groups, strict=True))


class KubeRayVolcano(OnVolcano):
    """`--batch-scheduler=volcano`."""

    def prepare(self, kind: str, name: str, controller: Object | None, parts: Object) -> None:
        if kind == "Pod":
            assert controller is not None
            parts["annotations"][_VOLCANO_GROUP] = self._group(controller)
            parts["annotations"]["volcano.sh/task-spec"] = parts["labels"].get("ray.io/group", "submittergroup")

    def submitted(self, kind: str, made: Object) -> None:
        of_job = made["metadata"].get("labels", {}).get("ray.io/originated-from-crd") == "RayJob"
        if kind == "RayJob" or (kind == "RayCluster" and not of_job):
            spec = made["spec"].get("rayClusterSpec", made["spec"])
            least = members(spec, desired=not spec.get("enableInTreeAutoscaling"))
            self.group(VOLCANO_API, self._group(made), made, minMember=least, minResources={"cpu": str(least)})

    @staticmethod
    def _group(owner: Object) -> str:
        """That of a RayJob also for its RayCluster, and for its Job, which has its name."""
        labels = owner["metadata"].get("labels", {})
        of_job = labels.get("ray.io/originated-from-crd") == "RayJob"
        return f"ray-{labels['ray.io/originated-from-cr-name'] if of_job else name_of(owner)}-pg"


class KubeRayPlugins(Setting):
    """`--batch-scheduler=scheduler-plugins`, and the label ray.io/gang-scheduling-enabled."""

    scheduler = "scheduler-plugins-scheduler"

    def prepare(self, kind: str, name: str, controller: Object | None, parts: Object) -> None:
        if kind == "Pod":
            assert controller is not None
            parts["labels"][GROUP_LABEL] = name_of(controller)

    def submitted(self, kind: str, made: Object) -> None:
        if kind == "RayCluster":
            least = members(made["spec"], desired=True)
            self.group(PLUGINS_API, name_of(made), made, minMember=least, minResources={"cpu": str(least)})


class KubeRayYuniKorn(Setting):
    """`--batch-scheduler=yunikorn`, and the label ray.io/gang-scheduling-enabled."""

    scheduler = "yunikorn"

    def prepare(self, kind: str, name: str, controller: Object | None, parts: Object) -> None:
        if kind == "RayCluster":
            groups = parts["spec"]["workerGroupSpecs"]
            counts = {"headgroup": 1} | {each["groupName"]: each["minReplicas"] * each["numOfHosts"] for each in groups}
            listed = [{"name": each, "minMember": count, "minResource": {}} for each, count in counts.items()]
            self._groups = json.dumps(listed)
        elif kind == "Pod":
            parts["labels"] |= {"applicationId": "ray", "queue": "root.ray"}
            parts["annotations"]["yunikorn.apache.org/task-groups"] = self._groups
            task = parts["labels"].get("ray.io/group", "submittergroup")
            parts["annotations"]["yunikorn.apache.org/task-group-name"] = task


class KubeRayKai(Setting):
    """`--batch-scheduler=kai-scheduler`."""

    scheduler = "kai-scheduler"

    def prepare(self, kind: str, name: str, controller: Object | None, parts: Object) -> None:
        if kind == "Pod":
            parts["labels"]["kai.scheduler/queue"] = "team"


class KubeRayKubernetes(Setting):
    """The feature gate `KubernetesWAS`, and the label ray.io/gang-scheduling-enabled. Its groups are of v1alpha2, which
    only Kubernetes 1.36 has; here, of the version that is served. With an autoscaler, it makes none.
    """

    scheduler = "default-scheduler"

    def prepare(self, kind: str, name: str, controller: Object | None, parts: Object) -> None:
        if kind == "Pod" and controller is not None and self._grouped(controller):
            parts["spec"]["schedulingGroup"] = {"podGroupName": self._group(controller)}

    def submitted(self, kind: str, made: Object) -> None:
        if self._grouped(made):
            policy = {"gang": {"minCount": members(made["spec"], desired=True)}}
            self.group(WORKLOAD_API, self._group(made), made, schedulingPolicy=policy)

    @staticmethod
    def _grouped(made: Object) -> bool:
        return made["kind"] == "RayCluster" and not made["spec"]["enableInTreeAutoscaling"]

    @staticmethod
    def _group(cluster: Object) -> str:
        return f"{name_of(cluster)}-cluster"


# Grove


class GroveDefault(Setting):
    """The scheduler `default-scheduler`."""

    scheduler = "default-scheduler"


class GroveLpx(Setting):
    """The scheduler `lpx-scheduler`."""

    scheduler = "lpx-scheduler"


class GroveKai(Setting):
    """The scheduler `kai-scheduler`: a PodGroup of KAI beside each PodGang."""

    scheduler = "kai-scheduler"

    def prepare(self, kind: str, name: str, controller: Object | None, parts: Object) -> None:
        if kind == "Pod":
            labels = parts["labels"]
            labels["kai.scheduler/subgroup-name"] = labels["grove.io/podclique"]
            parts["annotations"] |= {
                "kai.scheduler/skip-podgrouper": "true",
                "pod-group-name": labels["grove.io/podgang"],
            }

    def submitted(self, kind: str, made: Object) -> None:
        if kind == "PodGang":
            parts = [{"name": each["name"], "minMember": each["minReplicas"]} for each in made["spec"]["podgroups"]]
            least = sum(part["minMember"] for part in parts)
            self.group(KAI_API, name_of(made), made, queue="team", minMember=least, subGroups=parts)


class GroveVolcano(OnVolcano):
    """The scheduler `volcano`: a PodGroup of Volcano beside each PodGang."""

    def prepare(self, kind: str, name: str, controller: Object | None, parts: Object) -> None:
        if kind == "Pod":
            gang = parts["labels"]["grove.io/podgang"]
            parts["annotations"] |= {_VOLCANO_GROUP: gang, "scheduling.volcano.sh/group-name": gang}

    def submitted(self, kind: str, made: Object) -> None:
        if kind == "PodGang":
            groups = made["spec"]["podgroups"]
            label = "grove.io/podclique"
            policies = [
                {
                    "name": group["name"],
                    "labelSelector": {"matchLabels": {label: group["name"]}},
                    "matchLabelKeys": [label],
                    "subGroupSize": group["minReplicas"],
                    "minSubGroups": 1,
                }
                for group in groups
            ]
            least = sum(group["minReplicas"] for group in groups)
            self.group(VOLCANO_API, name_of(made), made, minMember=least, subGroupPolicy=policies)
