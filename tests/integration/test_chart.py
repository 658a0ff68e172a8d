"""The Helm chart gives the same objects as kustomize, and its values change what they say."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import yaml

from podwright.api.configuration.load import load_configuration
from podwright.api.configuration.signals import load_signals
from support.control_plane import operator_process as kit

CHART = kit.CHECKOUT / "charts" / "podwright"
OVERLAYS = kit.BASE.parent / "overlays"
MONITORING = ("serviceMonitor.enabled=true", "prometheusRule.enabled=true", "dashboard.enabled=true")
KEEP = "helm.sh/resource-policy"


@pytest.fixture(scope="module")
def helm(binaries):
    """Runs Helm, and returns what it prints."""
    program = binaries.path("helm")

    def run(*arguments, **options):
        done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False, **options)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="module")
def template(helm):
    """The objects of the chart with these values."""

    def render(*values, namespace="podwright-system"):
        settings = [word for value in values for word in ("--set-json" if "=[" in value else "--set", value)]
        version = ("--kube-version", "1.37.2")
        return objects(helm("template", "release", str(CHART), "--namespace", namespace, *version, *settings))

    return render


@pytest.fixture(scope="module")
def kustomize(binaries):
    def build(folder):
        command = [binaries.path("kubectl"), "kustomize", str(folder)]
        return objects(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    return build


def objects(text):
    """By kind, namespace and name. The namespace is Helm's own affair, and so is that it keeps the CRD."""
    found = {}
    for raw in yaml.safe_load_all(text):
        if raw is None or raw["kind"] == "Namespace":
            continue
        metadata = raw["metadata"]
        if raw["kind"] == "CustomResourceDefinition":
            metadata["annotations"] = {k: v for k, v in metadata.get("annotations", {}).items() if k != KEEP}
        key = raw["kind"], metadata.get("namespace", ""), metadata["name"]
        assert key not in found
        found[key] = raw
    return found


def deployment(found):
    (raw,) = (raw for (kind, _, _), raw in found.items() if kind == "Deployment")
    return raw["spec"]


@pytest.mark.parametrize(
    ("values", "folder"),
    [
        pytest.param((), kit.BASE, id="as it is"),
        pytest.param(MONITORING, OVERLAYS / "monitoring", id="with monitoring"),
        pytest.param(("openshift=true",), OVERLAYS / "openshift", id="on OpenShift"),
    ],
)
def test_the_chart_gives_the_objects_of_kustomize(template, kustomize, values, folder):
    assert template(*values) == kustomize(folder)


def test_the_overlay_for_another_namespace_moves_everything_that_is_ours(binaries):
    """The RoleBinding of kube-system stays there, with the service account of the new namespace."""
    own, base = (
        subprocess.run(
            [binaries.path("kubectl"), "kustomize", str(folder)], capture_output=True, text=True, check=True
        ).stdout
        for folder in (OVERLAYS / "own-namespace", kit.BASE)
    )
    assert objects(own) == objects(base.replace("podwright-system", "scheduling"))
    assert ("RoleBinding", "kube-system", "podwright-authentication-reader") in objects(own)


def test_the_chart_is_generated_from_the_manifests():
    command = [sys.executable, str(kit.CHECKOUT / "charts" / "generate.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_helm_finds_no_fault_in_the_chart(helm):
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART))


def test_the_definitions_of_policies_outlive_the_chart(helm):
    raws = yaml.safe_load_all(helm("template", "release", str(CHART), "--kube-version", "1.37.2"))
    crds = [raw for raw in raws if raw and raw["kind"] == "CustomResourceDefinition"]
    assert {crd["spec"]["names"]["kind"] for crd in crds} == {
        "SchedulerPolicy",
        "LocalSchedulerPolicy",
        "SchedulingQueue",
        "Reservation",
        "RebalancePolicy",
        "QueueView",
        "WorkloadGrouping",
        "Topology",
    }
    assert {crd["metadata"]["annotations"][KEEP] for crd in crds} == {"keep"}


def test_groupings_come_with_their_value_as_kustomize_has_them(template, kustomize):
    plain, found = template(), template("groupings.enabled=true")
    added = {key: raw for key, raw in found.items() if key not in plain}
    assert not any(kind == "WorkloadGrouping" for kind, _, _ in plain)
    assert sum(kind == "WorkloadGrouping" for kind, _, _ in added) == 19
    assert added == kustomize(kit.BASE.parent / "groupings")


def test_the_admission_check_comes_with_its_value_as_kustomize_has_it(template, kustomize):
    plain, found = template(), template("admissionCheck.enabled=true", "nodeSelector.pool=system", "image.tag=v9")
    wanted = kustomize(kit.BASE.parent / "kueue")
    assert found.keys() - plain.keys() == wanted.keys()
    key = ("Deployment", "podwright-system", "podwright-admission-check")
    pod = found[key]["spec"]["template"]["spec"]
    assert (pod.pop("nodeSelector"), pod["containers"][0].pop("image")) == ({"pool": "system"}, "podwright:v9")
    assert wanted[key]["spec"]["template"]["spec"]["containers"][0].pop("image") == "podwright:latest"
    assert {each: found[each] for each in wanted} == wanted


def test_nothing_names_another_namespace_than_that_of_the_release(template):
    found = template(*MONITORING, namespace="elsewhere")
    assert "podwright-system" not in str(found)
    assert {namespace for _, namespace, _ in found} == {"", "elsewhere", "kube-system"}


def test_a_single_replica_needs_no_leader_and_no_lease(template):
    found = template("leaderElection.enabled=false", "replicas=3")
    spec = deployment(found)
    assert spec["replicas"] == 1
    assert spec["strategy"] == {"type": "Recreate"}
    assert "--leader-elect=false" in spec["template"]["spec"]["containers"][0]["args"]
    assert not [name for _, _, name in found if name == "podwright-lease"]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("networkPolicy.enabled=false", "NetworkPolicy"),
        ("podDisruptionBudget.enabled=false", "PodDisruptionBudget"),
        ("crds.enabled=false", "CustomResourceDefinition"),
    ],
)
def test_a_part_that_is_not_wanted_is_left_out(template, value, kind):
    everything = template()
    assert template(value) == {key: raw for key, raw in everything.items() if key[0] != kind}
    assert [key for key in everything if key[0] == kind]


def test_names_image_resources_and_flags_reach_the_container(template):
    spec = deployment(
        template(
            "schedulerName=mine",
            'allowedSchedulerNames=["mine","team-*"]',
            "image.repository=registry.example.com/podwright",
            "image.tag=1.2.3",
            "resources.limits.memory=4Gi",
            'extraArgs=["--when-policy-is-bad=default"]',
            "replicas=3",
        )
    )
    (container,) = spec["template"]["spec"]["containers"]
    assert spec["replicas"] == 3
    assert container["image"] == "registry.example.com/podwright:1.2.3"
    assert container["resources"]["limits"] == {"memory": "4Gi"}
    expected = ["--scheduler-name=mine", "--allowed-scheduler-names=mine,team-*", "--when-policy-is-bad=default"]
    assert container["args"][-3:] == expected


DIGEST = f"sha256:{'a' * 64}"


def test_where_the_pods_run_and_what_they_mount_reach_the_deployment(helm, tmp_path):
    values = {
        "image": {"digest": DIGEST},
        "imagePullSecrets": [{"name": "registry"}],
        "nodeSelector": {"pool": "system", "ready": "true"},
        "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}},
        "annotations": {"team": "platform"},
        "podAnnotations": {"sidecar.istio.io/inject": "false"},
        "extraVolumes": [{"name": "plugins", "configMap": {"name": "podwright-plugins"}}],
        "extraVolumeMounts": [{"name": "plugins", "mountPath": "/plugins"}],
        "signals": [{"name": "load"}],
        "priorityClassName": "",
    }
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    flags = ("--kube-version", "1.37.2", "--values", str(tmp_path / "values.yaml"))
    found = objects(helm("template", "release", str(CHART), "--namespace", "podwright-system", *flags))
    (raw,) = (raw for (kind, _, _), raw in found.items() if kind == "Deployment")
    pod, (container,) = raw["spec"]["template"], raw["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"podwright@{DIGEST}"
    for name in ("imagePullSecrets", "nodeSelector", "tolerations", "affinity", "priorityClassName"):
        assert pod["spec"][name] == values[name]
    assert raw["metadata"]["annotations"] == values["annotations"]
    assert pod["metadata"]["annotations"]["sidecar.istio.io/inject"] == "false"
    assert pod["metadata"]["annotations"]["prometheus.io/scrape"] == "true"
    assert pod["spec"]["volumes"] == [
        {"name": "configuration", "configMap": {"name": "podwright"}},
        *values["extraVolumes"],
    ]
    assert [each["mountPath"] for each in container["volumeMounts"]] == ["/etc/podwright", "/plugins"]


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("bogus=1", "bogus"),
        ("image.digest=sha256:1", "/image/digest"),
        ("nodeSelector=x", "/nodeSelector"),
        ("tolerations=x", "/tolerations"),
        ("podAnnotations.prometheus\\.io/scrape=x", "prometheus.io/scrape"),
        ('extraVolumes=[{"emptyDir":{}}]', "/extraVolumes/0"),
        ("image.registry=example.com", "registry"),
        ("image.tag=", "/image/tag"),
        ("image.tag=1: 2", "/image/tag"),
        ("image.tag=null", "tag"),
        ("image.repository=", "/image/repository"),
        ("image.pullPolicy=Sometimes", "/image/pullPolicy"),
        ("replicas=x", "/replicas"),
        ("replicas=0", "/replicas"),
        ("replicas=null", "replicas"),
        ("leaderElection.enabled=maybe", "/leaderElection/enabled"),
        ("schedulerName.name=mine", "/schedulerName"),
        ("allowedSchedulerNames=mine", "/allowedSchedulerNames"),
        ("configuration=profiles", "/configuration"),
        ("signals=load", "/signals"),
        ("extraArgs=--grace=1", "/extraArgs"),
        ('extraArgs=["grace=1"]', "/extraArgs/0"),
        ("resources.limit.memory=1Gi", "limit"),
        ("resources.limits=1Gi", "/resources/limits"),
        ("serviceMonitor.prometheus.namespace=", "/serviceMonitor/prometheus/namespace"),
        ("crds=false", "/crds"),
    ],
)
def test_a_value_that_the_chart_does_not_know_is_refused_and_named(binaries, setting, problem):
    flag = "--set-json" if "=[" in setting else "--set"
    command = [binaries.path("helm"), "template", "release", str(CHART), "--kube-version", "1.37.2", flag, setting]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "values don't meet the specifications of the schema" in done.stderr
    assert problem in done.stderr


def test_the_schema_knows_every_value_and_no_other():
    def paths(schema, path=()):
        inner = schema.get("properties", {}) if schema.get("required") else {}
        assert not inner or schema["additionalProperties"] is False
        for key, each in inner.items():
            yield from paths(each, (*path, key))
        if not inner:
            yield path

    def leaves(value, path=()):
        if not isinstance(value, dict) or not value or path == ("resources",):
            yield path
            return
        for key, each in value.items():
            yield from leaves(each, (*path, key))

    schema = json.loads((CHART / "values.schema.json").read_text())
    assert {*paths(schema)} - {("global",)} == {*leaves(yaml.safe_load((CHART / "values.yaml").read_text()))}


def test_texts_of_values_stay_texts(template):
    """Words that YAML reads as something else."""
    pod = deployment(template("image.repository=localhost:5000/podwright", "priorityClassName=on"))["template"]["spec"]
    assert pod["priorityClassName"] == "on"
    assert pod["containers"][0]["image"] == "localhost:5000/podwright:latest"


def test_a_configuration_becomes_a_file_that_the_operator_accepts(helm, tmp_path):
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "packs"}],
    }
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump({"configuration": configuration}))
    version = ("--kube-version", "1.37.2")
    found = objects(helm("template", "release", str(CHART), "-n", "elsewhere", *version, "-f", str(values)))
    (text,) = found["ConfigMap", "elsewhere", "podwright"]["data"].values()
    assert load_configuration(text.encode()).scheduler_names == ["packs"]
    pod_template = deployment(found)["template"]
    pod = pod_template["spec"]
    (container,) = pod["containers"]
    (mount,) = container["volumeMounts"]
    assert f"--config={mount['mountPath']}/configuration.yaml" in container["args"]
    assert pod["volumes"] == [{"name": mount["name"], "configMap": {"name": "podwright"}}]
    before = pod_template["metadata"]["annotations"]["podwright.dev/configuration"]
    configuration["profiles"][0]["schedulerName"] = "spreads"
    values.write_text(yaml.safe_dump({"configuration": configuration}))
    changed = objects(helm("template", "release", str(CHART), "-n", "elsewhere", *version, "-f", str(values)))
    assert deployment(changed)["template"]["metadata"]["annotations"]["podwright.dev/configuration"] != before


def test_signals_become_a_file_that_the_operator_accepts_with_the_right_to_read_them(helm, tmp_path):
    signals = [{"name": "load", "resource": "cpu", "metricsAPI": {}}]
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump({"signals": signals}))
    version = ("--kube-version", "1.37.2")
    found = objects(helm("template", "release", str(CHART), "-n", "elsewhere", *version, "-f", str(values)))
    (text,) = found["ConfigMap", "elsewhere", "podwright"]["data"].values()
    assert load_signals(text.encode())["load"].definition.resource == "cpu"
    (container,) = deployment(found)["template"]["spec"]["containers"]
    (mount,) = container["volumeMounts"]
    assert f"--signals={mount['mountPath']}/signals.yaml" in container["args"]
    (role, binding) = (found[kind, "", "podwright-signals"] for kind in ("ClusterRole", "ClusterRoleBinding"))
    manifests = [*yaml.safe_load_all((OVERLAYS / "signals" / "role.yaml").read_text())]
    assert role["rules"] == manifests[0]["rules"]
    assert binding["subjects"] == [{**manifests[1]["subjects"][0], "namespace": "elsewhere"}]
    plain = objects(helm("template", "release", str(CHART), "-n", "elsewhere", *version))
    assert ("ClusterRole", "", "podwright-signals") not in plain
    values.write_text(yaml.safe_dump({"signals": [{**signals[0], "default": 50}]}))
    changed = objects(helm("template", "release", str(CHART), "-n", "elsewhere", *version, "-f", str(values)))
    assert {key for key in found if found[key] != changed[key]} == {("ConfigMap", "elsewhere", "podwright")}


def test_changed_signals_reach_the_operator_of_the_overlay_without_a_restart(kustomize):
    """The ConfigMap that the Deployment mounts keeps its name, and no hash of it is in the Deployment."""
    found = kustomize(OVERLAYS / "signals")
    config = found["ConfigMap", "podwright-system", "podwright-signals"]
    assert load_signals(config["data"]["signals.yaml"].encode())
    template = deployment(found)["template"]
    assert [each["configMap"] for each in template["spec"]["volumes"]] == [{"name": config["metadata"]["name"]}]
    assert not [key for key in template["metadata"]["annotations"] if "signals" in key]
