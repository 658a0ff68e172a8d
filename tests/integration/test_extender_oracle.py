"""The same extenders behind kube-scheduler and behind Podwright, on one API server: what becomes of each pod, and in
which words.

`PODWRIGHT_EXTENDER_CASES`: how many answers are generated; 300 take some two minutes.
"""

from collections import Counter

import pytest
import yaml

from podwright.testing import Versions, node, pod, wait_until
from support.control_plane import operator_process as kit
from support.extender.cases import BIND, HIGH, NODES, cases, resource_of, settings
from support.extender.server import bind, serving
from support.properties import case_count

CASES = case_count("PODWRIGHT_EXTENDER_CASES", 40)
OURS, THEIRS = "ours", "theirs"
MINOR = Versions.from_environ().kubernetes_minor
FORMER_WORDS = "no new claims to deallocate, "
"""kube-scheduler said this before 1.37 of pods that have no claims."""


@pytest.fixture
def cluster(empty_cluster):
    kit.stay_installed(empty_cluster)
    empty_cluster.bulk.create([node(name, cpu="4", memory="32Gi", pods="1000") for name in NODES])
    empty_cluster.client.add_priority_class(HIGH, 1000)
    yield empty_cluster
    empty_cluster.client.request("DELETE", f"/apis/scheduling.k8s.io/v1/priorityclasses/{HIGH}")


def made(case, namespace, scheduler):
    """The pod of a case."""
    spec = dict(case.spec)
    raw = pod(
        f"{case.name}-{scheduler}", namespace, scheduler=scheduler, cpu=spec.pop("cpu", "1m"), memory="1Mi", **spec
    )
    amounts = raw["spec"]["containers"][0]["resources"]
    amounts["requests"][resource_of(case.extender)] = "1"
    amounts["limits"] = {resource_of(case.extender): "1"}
    return raw


def answering(cluster, by_name):
    """The extenders' answers, whichever scheduler asks."""

    def answer(path, args):
        _, verb = path.split("/")
        name = args["PodName"] if verb == "bind" else args["Pod"]["metadata"]["name"]
        reply = by_name[name.rpartition("-")[0]].answers[verb](args)
        if reply is BIND:
            bind(cluster.client, args)
        return reply

    return answer


def fate(raw):
    """The pod's node, or reason and message of its condition; None if it has neither."""
    if raw["spec"].get("nodeName"):
        return raw["spec"]["nodeName"]
    conditions = raw.get("status", {}).get("conditions", ())
    condition = next((each for each in conditions if each["type"] == "PodScheduled"), None)
    return None if condition is None else f"{condition['reason']}: {condition['message']}"


def fates(cluster, namespace):
    return {raw["metadata"]["name"]: fate(raw) for raw in kit.pods(cluster, namespace)}


def test_pods_have_the_same_fate_as_with_kube_scheduler(cluster, namespace, tmp_path):
    """kube-scheduler's words, with the URL of the extender as the only difference."""
    generated = cases(CASES)
    low = [pod(f"low-{name}", namespace, cpu="3", memory="1Mi", nodeName=name) for name in NODES]
    for raw in low:
        cluster.client.create(raw)
    by_name = {case.name: case for case in generated}
    answer = answering(cluster, by_name)
    with serving(answer) as for_ours, serving(answer) as for_theirs:
        file = tmp_path / "scheduler.yaml"
        configuration = {"profiles": [{"schedulerName": OURS}], "extenders": settings(for_ours.url)}
        header = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        file.write_text(yaml.safe_dump({**header, "leaderElection": {"leaderElect": False}, **configuration}))
        theirs = {"profiles": [{"schedulerName": THEIRS}], "extenders": settings(for_theirs.url)}
        scheduler = cluster.start_scheduler(theirs, name="oracle")
        try:
            with kit.running(cluster, f"--config={file}", "--pod-intake=watch"):
                made_pods = [made(case, namespace, name) for case in generated for name in (OURS, THEIRS)]
                cluster.bulk.create(made_pods)
                names = {raw["metadata"]["name"] for raw in made_pods}

                def decided():
                    found = fates(cluster, namespace)
                    return all(found[name] is not None for name in names)

                wait_until(decided, 60 + CASES, "every pod has a node or a condition")
                found = fates(cluster, namespace)
        finally:
            scheduler.stop()
    different = []
    for case in generated:
        mine, other = (found[f"{case.name}-{name}"] for name in (OURS, THEIRS))
        mine, other = mine.replace(for_ours.url, "URL"), other.replace(for_theirs.url, "URL")
        if MINOR < 37:
            other = other.replace(FORMER_WORDS, "")
        if not case.exact:
            mine, other = ("a node" if each in NODES else each for each in (mine, other))
        if mine != other:
            different.append(
                f"{case.name} ({case.extender}, {case.kind}):\n  kube-scheduler: {other}\n  Podwright:      {mine}"
            )
    kinds = Counter("node" if found[f"{case.name}-{THEIRS}"] in NODES else "condition" for case in generated)
    print(f"{len(generated)} cases: {dict(kinds)}, {len(different)} differ")
    assert not different, "\n" + "\n".join(different)
