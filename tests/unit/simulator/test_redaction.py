"""A snapshot has no secrets, and everything that scheduling depends on."""

import json

import pytest

from podwright.core.objects.watched_kinds import WATCHED_KINDS
from podwright.simulator.evaluations.cases import run_case
from podwright.simulator.redaction import redacted
from support.conformance.files import FILES, name_of, sample
from support.objects.builders import make_node, make_pod

SECRET = "hunter2"
FIELDS = {watched.plural_field: watched.kind for watched in WATCHED_KINDS}
STEPS = {"schedule": "Pod", "addPod": "Pod", "updatePod": "Pod", "addNode": "Node", "updateNode": "Node", "updateNamespace": "Namespace"}  # fmt: skip
HIDING = {
    "command": [SECRET],
    "args": [SECRET],
    "env": [{"name": "PASSWORD", "value": SECRET}],
    "envFrom": [{"secretRef": {"name": SECRET}}],
    "livenessProbe": {"httpGet": {"httpHeaders": [{"name": "Authorization", "value": SECRET}]}},
    "lifecycle": {"postStart": {"exec": {"command": [SECRET]}}},
}
ANNOTATIONS = {"kubectl.kubernetes.io/last-applied-configuration": SECRET, "example.com/token": SECRET}
TEMPLATE = {"metadata": {"annotations": ANNOTATIONS}, "spec": {"containers": [{"name": "c", **HIDING}]}}


def metadata(**more):
    return {"name": "x", "namespace": "default", "annotations": ANNOTATIONS, "managedFields": [{"manager": SECRET}], **more}  # fmt: skip


@pytest.mark.parametrize(
    "kind, raw",
    [
        pytest.param("Pod", {**make_pod("p", spec={"containers": [{"name": "c", **HIDING}], "initContainers": [{"name": "i", **HIDING}], "serviceAccountName": SECRET, "imagePullSecrets": [{"name": SECRET}], "hostname": SECRET, "volumes": [{"name": "v", "secret": {"secretName": SECRET}}, {"name": "h", "hostPath": {"path": SECRET}}, {"name": "w", "csi": {"driver": "d", "volumeAttributes": {"k": SECRET}, "nodePublishSecretRef": {"name": SECRET}}}]}, status={"message": SECRET, "conditions": [{"type": "PodScheduled", "status": "False", "message": SECRET}]}), "metadata": metadata()}, id="a pod"),
        pytest.param("Node", {"metadata": metadata(), "spec": {"providerID": SECRET, "configSource": SECRET}, "status": {"addresses": [{"address": SECRET}], "nodeInfo": {"machineID": SECRET}, "conditions": [{"type": "Ready", "message": SECRET}]}}, id="a node"),
        *(pytest.param(kind, {"metadata": metadata(), "spec": {"template": TEMPLATE, "jobTemplate": SECRET}, "status": {"x": SECRET}}, id=kind) for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "ReplicationController")),
        pytest.param("PersistentVolume", {"metadata": metadata(), "spec": {"csi": {"driver": "d", "volumeAttributes": {"k": SECRET}, "nodeStageSecretRef": {"name": SECRET}}, "mountOptions": [SECRET], "rbd": {"secretRef": {"name": SECRET}}}}, id="a volume"),
        pytest.param("StorageClass", {"metadata": metadata(), "parameters": {"adminSecretName": SECRET}, "mountOptions": [SECRET]}, id="a storage class"),
        pytest.param("VolumeAttachment", {"metadata": metadata(), "spec": {"attacher": "a"}, "status": {"attachmentMetadata": {"secretKey": SECRET}}}, id="an attachment"),
        pytest.param("Service", {"metadata": metadata(), "spec": {"externalName": SECRET}, "status": {"x": SECRET}}, id="a service"),
        pytest.param("Namespace", {"metadata": metadata(), "spec": {"x": SECRET}}, id="a namespace"),
        pytest.param("ResourceClaimTemplate", {"metadata": metadata(), "spec": {"metadata": {"annotations": ANNOTATIONS}, "spec": {"devices": {"config": [{"opaque": {"driver": "d", "parameters": SECRET}}]}}}}, id="a claim template"),
        pytest.param("Secret", {"metadata": metadata(), "data": {"k": SECRET}, "stringData": {"k": SECRET}}, id="a secret"),
        pytest.param("ConfigMap", {"metadata": metadata(), "data": {"k": SECRET}}, id="a config map"),
    ],
)  # fmt: skip
def test_no_secret_is_kept(kind, raw):
    kept = redacted(kind, raw)
    assert SECRET not in json.dumps(kept)
    assert kept["metadata"]["name"] == raw["metadata"]["name"]


def test_annotations_are_kept_on_request():
    raw = {"metadata": metadata(annotations={"pv.kubernetes.io/bind-completed": "yes", "team": "red", "other": "x"})}
    assert redacted("Pod", raw, ["te*"])["metadata"]["annotations"] == {
        "pv.kubernetes.io/bind-completed": "yes",
        "team": "red",
    }


def test_annotations_that_name_a_group_are_kept():
    named = {"scheduling.k8s.io/group-name": "job", "pod-group-name": "run", "volcano.sh/task-spec": "worker"}
    assert redacted("Pod", {"metadata": metadata(annotations=named)})["metadata"]["annotations"] == named


def test_of_local_volumes_snapshots_keep_the_kind():
    pod = make_pod("p", spec={"volumes": [{"name": "v", "hostPath": {"path": "/data"}}, {"name": "w", "emptyDir": {}}]})
    volumes = [{"name": "v", "hostPath": {}}, {"name": "w", "emptyDir": {}}]
    assert redacted("Pod", pod)["spec"]["volumes"] == volumes


def test_snapshots_keep_which_pods_claims_and_templates_belong_to():
    kept = {"resource.kubernetes.io/extended-resource-claim": "true", "resource.kubernetes.io/pod-claim-name": "x"}
    claim = {"metadata": metadata(annotations=kept), "spec": {"devices": {"requests": [{"name": "r"}]}}}
    assert redacted("ResourceClaim", claim)["metadata"]["annotations"] == kept
    assert redacted("ResourceClaimTemplate", {"metadata": metadata(), "spec": {"spec": claim["spec"]}})["spec"] == {
        "spec": claim["spec"]
    }


def test_what_is_not_of_its_type_stays_as_it_is():
    assert redacted("Pod", {"metadata": 1, "spec": [], "status": "x"}) == {"metadata": 1, "spec": [], "status": "x"}
    raw = {**make_node("n"), "spec": {"taints": 3}}
    assert redacted("Node", raw)["spec"] == {"taints": 3}


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_answers_to_conformance_cases_are_the_same_without_the_rest(path):
    for case in sample(path, 8):
        assert run_case(_redacted_case(case)) == run_case(case), case["id"]


def _redacted_case(case):
    copy = dict(case)
    for field, kind in FIELDS.items():
        if case.get(field):
            copy[field] = [redacted(kind, raw) for raw in case[field]]
    if case.get("pod"):
        copy["pod"] = redacted("Pod", case["pod"])
    if case.get("steps"):
        copy["steps"] = [
            {key: redacted(STEPS[key], value) if key in STEPS else value for key, value in step.items()}
            for step in case["steps"]
        ]
    return copy
