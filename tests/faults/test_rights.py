"""Rights: the operator uses each one that manifests/base grants, and each one that is withdrawn is named in /readyz.

The API server's audit log says which rights were used. So a rule that nothing needs fails `test_every_right_is_used`,
and one that nobody would miss fails the other tests. Without a right to nodes or pods, the operator ends with an error.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from podwright.core.objects.devices.claims import FOR_EXTENDED_RESOURCES
from podwright.kube.kinds import HYPER_NODE, KAI_QUEUE, KAI_TOPOLOGY, KUEUE_TOPOLOGY, VOLCANO_QUEUE
from podwright.testing import ControlPlane, Versions, node, pod, wait_until, workload_api
from podwright.testing.processes import free_port
from support.control_plane import operator_process as kit
from support.faults.proxy import RESPONSE_LOST, FaultProxy, Faults
from support.gangs import grove, kai, volcano
from support.objects.builders import make_policy
from support.objects.devices import allocated, claiming, exactly, make_claim, make_class, make_device, make_slice
from support.queues.other_crds import install

OURS = "podwright"
MERGE_PATCH = "application/merge-patch+json"
EXAMPLES = kit.CHECKOUT / "manifests" / "examples" / "gangs"
RBAC = "rbac.authorization.k8s.io"
AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],  # a watch responds long before it is complete
    "rules": [{"level": "Metadata", "users": ["system:serviceaccount:podwright-system:podwright"]}],
}

Right = tuple[str, str, str, str, str]
"""Namespace, group, resource, name, verb."""


def _roles() -> list[dict[str, Any]]:
    files = ("cluster-role.yaml", "lease-role.yaml", "params-role.yaml")
    raws = [raw for file in files for raw in yaml.safe_load_all((kit.BASE / file).read_text())]
    return [raw for raw in raws if raw["kind"] in ("ClusterRole", "Role")]


def _rights(role: dict[str, Any]) -> Iterator[Right]:
    where = [role["metadata"].get("namespace", "")]
    for rule in role["rules"]:
        yield from product(where, rule["apiGroups"], rule["resources"], rule.get("resourceNames", [""]), rule["verbs"])


RIGHTS = [right for role in _roles() for right in _rights(role)]
DELEGATED = {
    ("", "authentication.k8s.io", "tokenreviews", "", "create"),
    ("", "authorization.k8s.io", "subjectaccessreviews", "", "create"),
    ("kube-system", "", "configmaps", "extension-apiserver-authentication", "get"),
}
"""The rights in Kubernetes' own roles that manifests/base/authentication.yaml binds, as far as we use them."""
CHECKED_INSIDE = {
    *(("", "resource.k8s.io", "resourceclaims/binding", "", verb) for verb in ("update", "patch")),
    ("", "podwright.dev", "reservations", "", "create"),  # server-side apply
}
"""Rights that the API server asks for within other requests, so that the audit log does not have them."""
TO_TAKE_BACK = {("", "", "pods/eviction", "", "create")}
"""Rights to take back what pods hold above the share of their queue, and to move pods: none are evicted here."""
IDLE = CHECKED_INSIDE | TO_TAKE_BACK
VITAL = {("", "", plural, "", verb) for plural in ("nodes", "pods") for verb in ("list", "watch")}
"""Rights without which the operator ends."""


def words(right: Right) -> str:
    """The right as /readyz names it."""
    namespace, group, resource, name, verb = right
    plural, _, subresource = resource.partition("/")
    kind = f"{plural}.{group}" if group else plural
    return f"{verb} {kind}{f'/{subresource}' if subresource else ''} {namespace}/{name}".rstrip(" /")


@pytest.fixture(scope="module")
def cluster(binaries, tmp_path_factory) -> Iterator[ControlPlane]:
    """A control plane that serves all APIs of pod groups and queues, and writes an audit log."""
    folder = tmp_path_factory.mktemp("audit")
    (folder / "policy.yaml").write_text(yaml.safe_dump(AUDIT))
    flags = (
        f"--audit-policy-file={folder / 'policy.yaml'}",
        f"--audit-log-path={folder / 'audit.log'}",
        "--audit-log-mode=blocking",
    )
    api = workload_api(Versions.from_environ().kubernetes_minor)
    assert api is not None
    with ControlPlane(binaries=binaries, api_server_flags=flags, **api.composite_options) as control_plane:
        kit.install(control_plane)
        control_plane.apply(kit.CHECKOUT / "crds" / "gangs", volcano.CRD, kai.CRD, grove.CRD)
        for resource in (KAI_QUEUE, VOLCANO_QUEUE, KAI_TOPOLOGY[0], KUEUE_TOPOLOGY[0], HYPER_NODE):
            install(control_plane, resource)
        yield control_plane


@pytest.fixture
def audit_log(cluster) -> Path:
    (path,) = [Path(f.split("=")[1]) for f in cluster.options.api_server_flags if f.startswith("--audit-log-path=")]
    return path


def used(audit_log: Path, known: set[Right]) -> set[Right]:
    """The rights that requests have used. A right that `known` bounds by namespace or name is written so."""
    found = set()
    for line in audit_log.read_text().splitlines():
        event = json.loads(line)
        about = event.get("objectRef")
        if about is None or about["resource"] == "selfsubjectaccessreviews" or event["responseStatus"]["code"] == 403:
            continue
        resource = "/".join(filter(None, (about["resource"], about.get("subresource"))))
        group, verb = about.get("apiGroup", ""), event["verb"]
        namespace, name = about.get("namespace", ""), about.get("name", "")
        forms = [(space, group, resource, of, verb) for space in (namespace, "") for of in (name, "")]
        found.add(next((form for form in forms if form in known), (namespace, group, resource, name, verb)))
    return found


def start_deployed(cluster: ControlPlane, name: str, kubeconfig: Path) -> kit.Operator:
    port = free_port()
    environ = {"KUBECONFIG": str(kubeconfig), **kit.POD_ENVIRON}
    return kit.Operator(cluster.start_process(name, kit.deployed_command(port), environ), port, scheme="https")


class FirstOfEach:
    """The first request of each path that binds a pod or updates a volume, a volume's claim or the claim `mine`."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def __call__(self, method: str, path: str) -> bool:
        updates = method == "PUT" and ("/persistentvolume" in path or path.endswith("/resourceclaims/mine"))
        if path in self.seen or not (updates or path.endswith("/binding")):
            return False
        self.seen.add(path)
        return True


def test_every_right_is_used(cluster, audit_log):
    """One of everything: a Binding whose answer is lost, a pod that waits, a preemption, volumes, all kinds of gangs
    and queues, a reservation, a gang that gathers room, policies, also of rebalancing, an election with a standby, and
    somebody who reads metrics.
    """
    client = cluster.client
    direct = cluster.service_account_kubeconfig(*kit.ACCOUNT)
    token = yaml.safe_load(cluster.service_account_kubeconfig("monitoring", "reader").read_text())
    with FaultProxy(cluster) as proxy:
        proxy.faults = [Faults(only=FirstOfEach(), rates={RESPONSE_LOST: 1.0})]
        leader = start_deployed(cluster, "leader", proxy.kubeconfig(direct))
        kit.wait_ready(leader)
        client.create(policy(precedence=1))
        client.create({**policy(precedence=1), "kind": "LocalSchedulerPolicy", "spec": {}})
        for body in (node("n1"), node("n2", cpu="16"), storage_class("local", "kubernetes.io/no-provisioner")):
            client.create(body)
        client.create(storage_class("made", "csi.example.com"))
        client.create(local_volume("v1", "n1"))
        # There is no volume controller to say so.
        available = {"status": {"phase": "Available"}}
        client.request("PATCH", "/api/v1/persistentvolumes/v1/status", available, content_type=MERGE_PATCH)
        for name in ("local", "made"):
            client.create(claim(name))
        client.create(pod("victim", scheduler=OURS, cpu="15", nodeSelector=on("n2")))
        kit.wait_bound(cluster, "default", 1)
        client.add_priority_class("high", 1000)
        client.create(pod("preemptor", scheduler=OURS, cpu="15", nodeSelector=on("n2"), priorityClassName="high"))
        client.create(pod("large", scheduler=OURS, cpu="64"))
        for name in ("local", "made"):
            client.create(pod(f"with-{name}", scheduler=OURS, volumes=[mount(name)]))
        for name in ("training-gang", "workload-gang"):
            cluster.apply(EXAMPLES / f"{name}.yaml")
        create_pods_with_devices(cluster)
        create_queues(cluster)
        create_other_gangs(cluster)
        client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gathering"}})
        gather_room(cluster)
        leader.get("/metrics", token["users"][0]["user"]["token"])
        wait_until(lambda: len(kit.events(cluster, "default", "FailedScheduling")) >= 1, 30, "a pod waits")
        standby = start_deployed(cluster, "standby", direct)
        kit.wait_ready(standby)
        # By now the old claim is known, which must be deleted first.
        client.patch(pod("extended"), {"spec": {"schedulingGates": None}})
        known = {*RIGHTS, *DELEGATED}
        precedence = 1

        def complete() -> bool:
            # Each change of the policy has the pods that wait tried again: their events become series.
            nonlocal precedence
            precedence += 1
            cluster.apply(policy(precedence))
            return used(audit_log, known) == known - IDLE

        with suppress(TimeoutError):
            wait_until(complete, 60, "every right is used")
        for operator in (standby, leader):
            operator.process.stop(30)
    found = used(audit_log, known)
    assert (known - found, found - known) == (IDLE, set()), "idle rights, unknown rights"


def create_queues(cluster):
    """A reservation, a grouping, a topology, a queue of each API, and a namespace that uses one and has a view of
    another, with the policies that serve Volcano and KAI.
    """
    for name in ("volcano", "kai-scheduler"):
        cluster.apply(make_policy(name, schedulerName=name))
    examples = kit.CHECKOUT / "manifests" / "examples"
    names = ("queues/teams", "queues/reservation", "rebalance/tidy", "topology/default")
    cluster.apply(*(examples / f"{name}.yaml" for name in names))
    cluster.apply(examples.parent / "groupings" / "deployment.yaml")
    for resource in (KAI_QUEUE, VOLCANO_QUEUE):
        version = f"{resource.group}/{resource.version}"
        cluster.apply({"apiVersion": version, "kind": resource.kind, "metadata": {"name": "team"}, "spec": {}})
    view = {"metadata": {"name": "gone", "namespace": "kube-public"}, "spec": {"queue": "gone"}}
    cluster.client.create({"apiVersion": "podwright.dev/v1alpha1", "kind": "QueueView", **view})
    cluster.kubectl("label", "namespace", "kube-public", "podwright.dev/queue=team", "--overwrite")


def create_other_gangs(cluster):
    """A pod group of Volcano and one of KAI, and a PodGang of Grove, each with a pod."""
    of_volcano = pod("of-volcano", scheduler="volcano")
    of_volcano["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "job"}
    of_grove = grove.member("llm", "llm-decode", 0, "default")
    del of_grove["spec"]["schedulingGates"]
    gang = grove.gang("llm", "default", {"llm-decode": 1})
    gang["spec"]["podgroups"][0]["podReferences"] = [{"namespace": "default", "name": "llm-decode-0"}]
    groups = (volcano.group("job", "default", minMember=2), kai.group("train", "default", minMember=1), gang)
    for body in (*groups, of_volcano, kai.member("train", "of-kai", "default"), of_grove):
        cluster.client.create(body)


def gather_room(cluster):
    """A gang for which room is held, and the Reservation of one that is gone."""
    version, label = "scheduling.x-k8s.io/v1alpha1", "scheduling.x-k8s.io/pod-group"
    queue = {"metadata": {"name": "gathers"}, "spec": {"gatherAfter": "1s"}}
    cluster.apply({"apiVersion": "podwright.dev/v1alpha1", "kind": "SchedulingQueue", **queue})
    cluster.client.create(node("n3", cpu="2"))
    labels = {"podwright.dev/queue": "gathers"}
    cluster.client.create(pod("ends", "gathering", scheduler=OURS, cpu="2", nodeSelector=on("n3"), labels=labels))
    kit.wait_bound(cluster, "gathering", 1)
    group = {"metadata": {"name": "gang", "namespace": "gathering"}, "spec": {"minMember": 1}}
    cluster.client.create({"apiVersion": version, "kind": "PodGroup", **group})
    member = pod(
        "member", "gathering", scheduler=OURS, cpu="2", nodeSelector=on("n3"), labels={**labels, label: "gang"}
    )
    cluster.client.create(member)
    gone = {"apiGroup": "scheduling.x-k8s.io", "name": "gone", "uid": "gone"}
    slots = [{"node": "n3", "requests": {"cpu": "1"}}]
    spec = {"namespace": "gathering", "podGroup": gone, "slots": slots}
    reservation = {"metadata": {"name": "gang-gone"}, "spec": spec}
    cluster.apply({"apiVersion": "podwright.dev/v1alpha1", "kind": "Reservation", **reservation})


def create_pods_with_devices(cluster):
    """Pods with a claim, with a claim beside one that nobody else may use, and with an extended resource and an old
    claim for it.
    """
    client, gate = cluster.client, {"schedulingGates": [{"name": "wait"}]}
    for body in (make_class("gpu", extendedResourceName="example.com/gpu"), make_slice("n1", DEVICES, node="n1")):
        kind = "ResourceSlice" if "pool" in body["spec"] else "DeviceClass"
        client.create({"apiVersion": "resource.k8s.io/v1", "kind": kind, **body})
    for name in ("mine", "one", "full"):
        client.create(device_claim(make_claim(name, exactly())))
    full = client.read(device_claim(make_claim("full", exactly())))
    full["status"] = allocated("d7", node="n1", reserved_for=[f"someone-{i}" for i in range(256)])
    client.request("PUT", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/full/status", full)
    client.create(pod("with-mine", scheduler=OURS, **claiming("mine")))
    client.create(pod("with-full", scheduler=OURS, **claiming("one", "full")))
    extended = pod("extended", scheduler=OURS, **gate)
    extended["spec"]["containers"][0]["resources"] = {
        field: {"example.com/gpu": "1"} for field in ("requests", "limits")
    }
    uid = client.create(extended)["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "extended", "uid": uid, "controller": True}
    old = make_claim("old", exactly(), ownerReferences=[owner], annotations={FOR_EXTENDED_RESOURCES: "true"})
    client.create(device_claim(old))


DEVICES = [make_device(f"d{i}") for i in range(8)]


def device_claim(raw):
    raw["metadata"].pop("uid")
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", **raw}


def on(name: str) -> dict[str, str]:
    return {"kubernetes.io/hostname": name}


def policy(precedence: int) -> dict[str, Any]:
    return make_policy("all", precedence=precedence)


def storage_class(name: str, provisioner: str) -> dict[str, Any]:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def local_volume(name: str, node_name: str) -> dict[str, Any]:
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node_name]}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "local": {"path": "/mnt"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def claim(name: str) -> dict[str, Any]:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": name,
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def mount(name: str) -> dict[str, Any]:
    return {"name": "data", "persistentVolumeClaim": {"claimName": name}}


@pytest.fixture
def start_without(cluster):
    """Starts an operator as an account that has all rights but some. Its Lease is in the namespace of the account."""
    started, made = [], []

    def start(without: set[Right]) -> kit.Operator:
        account = f"without-{uuid.uuid4().hex[:8]}"
        kubeconfig = cluster.service_account_kubeconfig(account, "operator")
        rules: dict[str, list[dict[str, Any]]] = {"": [], "podwright-system": [], "kube-system": []}
        for right in {*RIGHTS, *DELEGATED} - without:
            namespace, group, resource, name, verb = right
            rule = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
            rules[namespace].append({**rule, "resourceNames": [name]} if name else rule)
        for namespace, granted in rules.items():
            kind = "Role" if namespace else "ClusterRole"
            metadata = {"name": account}
            if namespace:
                metadata["namespace"] = namespace.replace("podwright-system", account)
            head = {"apiVersion": f"{RBAC}/v1", "metadata": metadata}
            subject = {"kind": "ServiceAccount", "name": "operator", "namespace": account}
            made.append({**head, "kind": kind, "rules": granted})
            reference = {"apiGroup": RBAC, "kind": kind, "name": account}
            made.append({**head, "kind": f"{kind}Binding", "roleRef": reference, "subjects": [subject]})
        cluster.apply(*made[-6:])
        if ("", "", "services", "", "list") not in without:
            may = lambda: kit.may(cluster, kubeconfig, "list", "services", "-A")
            wait_until(may, 60, "the roles take effect")
        port = free_port()
        environ = {
            "KUBECONFIG": str(kubeconfig),
            "PODWRIGHT_LEADER_ELECT_RESOURCE_NAMESPACE": account,
            "POD_NAMESPACE": account,
        }
        process = cluster.start_process(account, kit.deployed_command(port), environ)
        started.append(process)
        return kit.Operator(process, port, scheme="https")

    yield start
    for process in started:
        process.stop(30)
    for body in made:
        cluster.client.delete(body)


def named(operator: kit.Operator) -> set[str]:
    """The missing rights that /readyz names."""
    lines = [line for line in operator.get("/readyz?verbose")[1].splitlines() if "]permissions " in line]
    return set(re.findall(r"RBAC does not let us ([^:]+):", " ".join(lines)))


def expected(operator: kit.Operator, without: set[Right]) -> set[str]:
    account = operator.process.log.stem
    return {words(right).replace("podwright-system", account) for right in without}


def test_every_right_that_is_withdrawn_is_named(cluster, start_without):
    without = {*RIGHTS, *DELEGATED} - VITAL
    operator = start_without(without)
    wait_until(lambda: named(operator) == expected(operator, without), 60, "every right is named")
    assert operator.process.alive


@pytest.mark.slow
@pytest.mark.parametrize("right", [*RIGHTS, *sorted(DELEGATED)], ids=words)
def test_a_right_that_is_withdrawn_alone_is_named_alone(cluster, start_without, right):
    operator = start_without({right})
    if right in VITAL:
        assert operator.process.wait(60) == 1
        assert f"/api/v1/{right[2]}: RBAC does not let us {right[4]} it" in operator.log()
        return
    wait_until(lambda: named(operator) == expected(operator, {right}), 60, "the right is named")
    assert words(right).split(" ")[0] in operator.log()
