"""The groupings of manifests/groupings: pods as operators make them start together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from podwright.api import crd
from podwright.api.workload_grouping import GROUPING_KIND
from podwright.core.groupings import POD
from podwright.sandbox.schemas import Schema
from support.control_plane.operator_process import CHECKOUT
from support.engine.kit import ours
from support.groupings.cases import MPI_V2, OTHERS, ROAD
from support.groupings.controllers import VERSIONS, Object
from support.groupings.workloads import GroupedRig, reference

FOLDER = CHECKOUT / "manifests" / "groupings"
SCHEMA = Schema(crd.crd(GROUPING_KIND)["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


def shipped() -> dict[str, list[Object]]:
    """The documents of each file."""
    names = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["resources"]
    return {name.removesuffix(".yaml"): [*yaml.safe_load_all((FOLDER / name).read_text())] for name in names}


class Made:
    """Objects that are known to the engine at once, as they are made."""

    def __init__(self, versions: Mapping[str, str]) -> None:
        self.rig = GroupedRig()
        self._versions = {**VERSIONS, **versions}
        files = shipped()
        self.rig.group(*(documents[0] for name, documents in files.items()))
        self.pods: dict[str, Object] = {}

    def __call__(self, kind: str, name: str, controller: Object | None = None, **parts: Any) -> Object:
        metadata: Object = {"name": name, "namespace": "default", "uid": f"{kind}/{name}"}
        for field in ("labels", "annotations"):
            metadata[field] = dict(parts.get(field) or {})
        if controller is not None:
            metadata["ownerReferences"] = [reference(controller)]
        raw = {"apiVersion": self._versions[kind], "kind": kind, "metadata": metadata, "spec": parts.get("spec") or {}}
        if kind == "Pod":
            pod = self.pods[name] = ours(name, uid=metadata["uid"], metadata=metadata)
            self.rig.engine.pending.put(pod)
        elif (raw["apiVersion"].rpartition("/")[0], kind) in self.rig.engine.workloads.read:
            self.rig.own(raw)
        return raw

    def group(self, pod: str) -> tuple[str, int]:
        """The key and the minimum of a pod's group; "" and 1 if it has none."""
        queued = self.rig.engine.queue.get(self.pods[pod]["metadata"]["uid"])
        assert queued is not None
        group = self.rig.engine.cache.groups.of(queued.pod)
        if group is None:
            assert not queued.pod.group, f"{pod} waits: {self.rig.engine.cache.groups.awaited}"
            return "", 1
        return group.key, group.min_count


def check(controller, versions: Mapping[str, str]) -> None:
    made = Made(versions)
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


@pytest.mark.parametrize("name", [*shipped()])
def test_a_shipped_grouping_is_valid_and_has_the_rights_that_it_needs_and_no_others(name):
    grouping, *roles = shipped()[name]
    assert SCHEMA.problems(grouping) == []
    rig = GroupedRig()
    rig.group(grouping)
    read = {kind for kind in rig.engine.workloads.read if kind != POD}
    assert len(roles) == (2 if read else 0)
    rules = roles[0]["rules"] if roles else []
    assert all(rule["verbs"] == ["list", "watch"] for rule in rules)
    granted = {(group, plural) for rule in rules for group in rule["apiGroups"] for plural in rule["resources"]}
    assert granted == {(group, f"{kind.lower()}s") for group, kind in read}
