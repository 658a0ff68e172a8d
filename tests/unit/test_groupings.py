"""The groupings of manifests/groupings: pods as operators make them start together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from podwright.api import crd
from podwright.api.permissions import PolicySettings
from podwright.api.workload_grouping import GROUPING_KIND
from podwright.core.groupings import POD
from podwright.core.objects.pod_group import APIS, GROVE_KIND
from podwright.sandbox.schemas import Schema
from support.control_plane.operator_process import CHECKOUT
from support.engine.kit import ours
from support.groupings.cases import EXAMPLES, MPI_V2, OTHERS, ROAD
from support.groupings.controllers import VERSIONS, Object
from support.groupings.settings import SCHEDULERS
from support.groupings.workloads import GroupedRig, grouping, reference

FOLDER = CHECKOUT / "manifests" / "groupings"
EXAMPLE_FOLDER = CHECKOUT / "manifests" / "examples" / "groupings"
SCHEMA = Schema(crd.crd(GROUPING_KIND)["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


def shipped() -> dict[str, list[Object]]:
    """The documents of each file."""
    names = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["resources"]
    return {name.removesuffix(".yaml"): [*yaml.safe_load_all((FOLDER / name).read_text())] for name in names}


def examples() -> dict[str, list[Object]]:
    return {path.stem: [*yaml.safe_load_all(path.read_text())] for path in EXAMPLE_FOLDER.glob("*.yaml")}


class Made:
    """Objects that are known to the engine at once, as they are made."""

    def __init__(self, versions: Mapping[str, str], *further: Object) -> None:
        self.rig = GroupedRig(policies=PolicySettings(allowed_scheduler_names=("*", "default-scheduler")))
        for api in APIS.values():
            self.rig.engine.cache.groups.serve(api)
        for index, name in enumerate(SCHEDULERS):
            policy = {"metadata": {"name": f"p{index}", "uid": name, "generation": 1}, "spec": {"schedulerName": name}}
            assert self.rig.engine.policies.apply(policy).accepted
        self._versions = {**VERSIONS, **versions}
        files = shipped()
        self.rig.group(*(documents[0] for name, documents in files.items()), *further)
        self.pods: dict[str, Object] = {}

    def __call__(self, kind: str, name: str, controller: Object | None = None, **parts: Any) -> Object:
        metadata: Object = {"name": name, "namespace": "default", "uid": f"{kind}/{name}"}
        for field in ("labels", "annotations"):
            metadata[field] = dict(parts.get(field) or {})
        if controller is not None:
            metadata["ownerReferences"] = [reference(controller)]
        version = parts.get("version") or self._versions[kind]
        raw = {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": dict(parts.get("spec") or {})}
        self._put(raw)
        return raw

    def _put(self, raw: Object) -> None:
        kind, name, group = raw["kind"], raw["metadata"]["name"], raw["apiVersion"].rpartition("/")[0]
        if kind == "Pod":
            pod = self.pods[name] = ours(name, uid=raw["metadata"]["uid"], metadata=raw["metadata"], spec=raw["spec"])
            self.rig.engine.pending.put(pod)
        elif kind in ("PodGroup", GROVE_KIND):
            (stored,) = (each for each, api in APIS.items() if api == group)
            self.rig.engine.objects(stored).put(raw)
        elif (group, kind) in self.rig.engine.workloads.read:
            self.rig.own(raw)

    def change(self, made: Object, spec: Mapping[str, Any]) -> None:
        made["spec"] |= spec
        self._put(made)

    def delete(self, made: Object) -> None:
        self.rig.engine.pending.drop(made["metadata"]["uid"], made)

    def domain(self, pod: Object, label: str) -> str:
        return "r0"

    def group(self, pod: str) -> tuple[str, int]:
        """The key and the minimum of a pod's group; "" and 1 if it has none."""
        queued = self.rig.engine.queue.get(self.pods[pod]["metadata"]["uid"])
        assert queued is not None
        group = self.rig.engine.cache.groups.of(queued.pod)
        if group is None:
            assert not queued.pod.group, f"{pod} waits: {self.rig.engine.cache.groups.awaited}"
            return "", 1
        return group.key, group.min_count


def check(controller, versions: Mapping[str, str], *further: Object) -> None:
    made = Made(versions, *further)
    for gangs in controller(made):
        groups = [{made.group(pod) for pod in gang} for gang in gangs]
        for gang, found in zip(gangs, groups, strict=True):
            ((key, least),) = found
            assert least == len(gang) or (len(gang) == 1 and any(key == next(iter(each))[0] for each in groups)), gang


@pytest.mark.parametrize("name", [*ROAD, *OTHERS])
def test_pods_of_an_operator_are_in_the_group_that_is_to_start_together(name):
    check({**ROAD, **OTHERS}[name], {})


@pytest.mark.parametrize("name", [*MPI_V2])
def test_pods_of_the_mpi_operator_are_too_where_its_version_is_served(name):
    check(MPI_V2[name], {"MPIJob": "kubeflow.org/v2beta1"})


@pytest.mark.parametrize("name", sorted(examples()))
def test_pods_of_an_example_are_in_the_group_that_its_comment_says(name):
    check(EXAMPLES[name], {}, examples()[name][0])


@pytest.mark.parametrize("name", ["notebook", "virtualmachineinstance"])
def test_an_example_that_makes_no_gang_keeps_its_pods_out_of_groups_of_what_is_below(name):
    below = {
        "notebook": grouping("sets", api_version="apps/v1", kind="StatefulSet", minCount="2", precedence=1),
        "virtualmachineinstance": grouping("pods", api_version="v1", kind="Pod", minCount="2"),
    }[name]
    check(EXAMPLES[name], {}, examples()[name][0], below)


@pytest.mark.parametrize("name", [*shipped(), *sorted(examples())])
def test_a_shipped_grouping_is_valid_and_has_the_rights_that_it_needs_and_no_others(name):
    made, *roles = {**shipped(), **examples()}[name]
    assert SCHEMA.problems(made) == []
    rig = GroupedRig()
    rig.group(made)
    read = {kind for kind in rig.engine.workloads.read if kind != POD}
    assert len(roles) == (2 if read else 0)
    rules = roles[0]["rules"] if roles else []
    assert all(rule["verbs"] == ["list", "watch"] for rule in rules)
    granted = {(group, plural) for rule in rules for group in rule["apiGroups"] for plural in rule["resources"]}
    assert granted == {(group, f"{kind.lower()}s") for group, kind in read}
