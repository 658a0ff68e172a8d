"""`podwright explain` as people run it, on snapshots in files."""

from __future__ import annotations

import json

import pytest
import yaml
from click.testing import CliRunner

from podwright.cli.main import main
from podwright.simulator.explain import from_operator
from podwright.simulator.live import NOT_ALLOWED, LiveConnection
from podwright.simulator.operator_client import OperatorError
from podwright.simulator.snapshot import NOT_SERVED, Snapshot
from support.explain.objects import cluster, full, gang, member, node, waiting
from support.explain.situations import SITUATIONS
from support.objects.builders import make_taint
from support.simulator.kit import item


@pytest.fixture
def run(tmp_path):
    def explain(given, *args, pods=()):
        path = tmp_path / "cluster.json"
        path.write_text(json.dumps({"kind": "List", "items": given.items(*pods)}))
        return CliRunner().invoke(main, ["explain", *args, str(path)])

    return explain


def situation(text):
    return next(each for each in SITUATIONS if text in each.id)


def test_the_table_has_the_cause_the_rejections_and_what_would_help(run):
    found = situation("higher priority")
    result = run(found.cluster, "pod/waiting", pods=[found.pod])
    assert result.exit_code == 0, result.output
    for text in (
        "pod default/waiting  Pending",
        "why ",
        "too little CPU",
        "NodeResourcesFit",
        "one more node like one",
    ):
        assert text in result.output
    assert "PriorityClass of at least 1001" in result.output
    assert not [line for line in result.output.splitlines() if line.endswith(" ")]
    assert "\x1b" not in result.output


def test_wide_also_has_the_nearest_nodes_and_the_message(run):
    found = situation("taint that")
    plain, wide = (run(found.cluster, "pod/waiting", *args, pods=[found.pod]).output for args in ((), ("-o", "wide")))
    for text in ("NEAREST NODE", "0/1 nodes are available"):
        assert text in wide
        assert text not in plain


@pytest.mark.parametrize(("output", "load"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_programs_get_all_fields(run, output, load):
    found = situation("taint that")
    result = load(run(found.cluster, "pod/waiting", "-o", output, pods=[found.pod]).stdout)
    assert (result["kind"], result["name"], result["state"]) == ("Pod", "default/waiting", "Pending")
    assert result["causes"][0]["reason"] == "UntoleratedTaint"
    edit = result["changes"][0]["edits"][0]
    assert (edit["verb"], edit["kind"]) == ("patch", "Pod")
    assert edit["object"] == {
        "spec": {"tolerations": [{"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}]}
    }


@pytest.mark.parametrize("output", ["table", "wide"])
def test_escape_sequences_in_names_do_not_reach_the_terminal(run, output):
    taints = [make_taint("own", "\x1b]0;x\x07")]
    given = cluster([node("one\x1b[2J", taints=taints)], [full("db", "one\x1b[2J")])
    shown = run(given, "pod/waiting", "-o", output, pods=[waiting(requests={"cpu": "2"})]).output
    assert "one\\x1b[2J" in shown
    assert "own=\\x1b]0;x\\x07" in shown
    assert not {"\x1b", "\x07"} & {*shown}


def test_errors_have_no_escape_sequences(tmp_path):
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"kind": "List", "items": cluster([node("one")]).items()}))
    result = CliRunner().invoke(main, ["explain", "pod/x\x1b[2J", str(path)])
    assert result.exit_code == 1
    assert "Pod default/x\\x1b[2J is not in the cluster" in result.output
    assert "\x1b" not in result.output


def test_a_pod_on_a_node_shows_its_scores(run):
    pod = waiting(node="one", requests={"cpu": "2"})
    image = [{"names": ["app:latest"], "sizeBytes": 900 << 20}]
    output = run(cluster([node("one", images=image), node("two")], [pod]), "pod/waiting").output
    for text in ("pod default/waiting  Placed", "one is ahead of two", "SCORE OF", "ImageLocality", "DIFFERENCE"):
        assert text in output


def test_a_job_is_explained_with_all_its_pods(run):
    mine = {
        "ownerReferences": [{"kind": "Job", "name": "train", "controller": True, "apiVersion": "batch/v1", "uid": "1"}]
    }
    pods = [full("a", "one", metadata=mine), waiting("b", requests={"cpu": "4"}, metadata=mine)]
    output = run(cluster([node("one")], pods), "job/train").output
    for text in (
        "job default/train",
        "2: 1 placed, 1 waiting",
        "1 on one",
        "1 pod (b): on one, too little CPU",
        "pod default/b",
    ):
        assert text in output


def test_kind_and_name_may_be_two_words_and_pods_may_be_selected(run):
    given = cluster([node("one")], [waiting("b", labels={"app": "web"}), waiting("c", namespace="shop")])
    assert "pod default/b" in run(given, "pod", "b").output
    assert "pod shop/c" in run(given, "-n", "shop", "pod", "c").output
    assert "pods all namespaces\n  pods  2: 0 placed, 2 waiting" in run(given, "pods", "-A").stdout
    assert "pods default with app=web\n  pods  1: " in run(given, "po", "-l", "app=web").stdout
    assert "expected `pods`" in run(given, "deploy/x", "-A").output


def test_a_pod_group_counts_if_the_snapshot_has_one(run):
    given = cluster(
        [node("one")], [member("a", requests={"cpu": "6"}), member("b", requests={"cpu": "6"})], groups=[gang(2)]
    )
    output = run(given, "podgroup/gang").output
    assert "needs room for 2 members at once, and only 1 fit" in output
    assert "request 2 CPU less" in output


def test_a_dump_without_pod_groups_promises_no_node_to_a_member(run):
    result = run(cluster([node("one")], [member("a", requests={"cpu": "6"})]), "pod/a")
    assert "if its PodGroup default/gang, which could not be read, lets it" in result.output
    assert "the next attempt" not in result.output
    (note,) = [line for line in result.stderr.splitlines() if line.startswith("Without ")]
    assert "PodGroup.scheduling.k8s.io" in note
    assert note.endswith(": the dump has none")
    assert " Node," not in note


def test_a_dump_without_templates_of_claims_says_so_and_of_none_that_it_does_not_exist(run):
    pod = waiting(spec={"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "tpl"}]})
    dumped = run(cluster([node("one")], [pod]), "pod/waiting")
    assert "does not exist" not in dumped.output
    assert "ResourceClaimTemplate" in dumped.stderr
    other = item("ResourceClaimTemplate", {"metadata": {"name": "other"}, "spec": {"spec": {}}}, "resource.k8s.io/v1")
    complete = run(cluster([node("one")], [pod], groups=[other]), "pod/waiting")
    assert "its ResourceClaimTemplate default/tpl does not exist" in complete.output
    assert "ResourceClaimTemplate" not in complete.stderr


@pytest.mark.parametrize(
    ("target", "says"),
    [("pod/nobody", "Pod default/nobody is not in the cluster"), ("service/x", "cannot be explained")],
)
def test_errors_are_one_line_and_the_status_is_1(run, target, says):
    result = run(cluster([node("one")]), target)
    assert result.exit_code == 1
    assert result.output.startswith("Error: ")
    assert says in result.output


# Beside an operator


def test_a_pod_that_fits_says_from_the_operator_how_long_its_backoff_is(run, monkeypatch):
    answer = {"queue": {"place": "backoff", "attempts": 4, "waited": 30.0, "triedIn": 6.0}}
    monkeypatch.setattr("podwright.cli.commands.explain.ask_about", lambda *_args, **_options: answer)
    given = cluster([node("one")], [waiting()])
    result = json.loads(run(given, "pod/waiting", "-o", "json", "--operator", "https://operator").stdout)
    assert result["causes"][0]["reason"] == "Backoff"
    assert "tried again in 6 s" in result["causes"][0]["text"]
    table = run(given, "pod/waiting", "--operator", "https://operator").output
    assert "backoff, 4 attempts, waiting for 30 s, tried again within 6 s" in table


def test_without_the_cluster_the_operator_answers_alone(monkeypatch):
    decision = {
        "outcome": "Rejected",
        "at": 0,
        "policy": {"name": "batch", "generation": 2},
        "evaluated": 3,
        "message": "0/3 nodes are available: 3 Insufficient cpu.",
        "reasons": {"NodeResourcesFit": {"Insufficient cpu": 3}},
    }
    queue = {"place": "unschedulable", "attempts": 1, "waited": 2.0, "rejectedBy": ["NodeResourcesFit"]}
    answer = {"queue": queue, "decisions": [decision]}
    monkeypatch.setattr("podwright.cli.commands.explain.ask_about", lambda *_args, **_options: answer)
    result = CliRunner().invoke(
        main, ["explain", "pod/web", "--operator", "https://x", "--kubeconfig", "/nowhere/config"]
    )
    assert result.exit_code == 0, result.output
    for text in (
        "Without the cluster:",
        "0/3 nodes are available",
        "NodeResourcesFit  Insufficient cpu",
        "batch, generation 2",
    ):
        assert text in result.output


@pytest.mark.parametrize("url", ["http://operator.example:8080", "ftp://x", "operator:10259"])
def test_credentials_are_not_sent_in_the_clear(url):
    with pytest.raises(OperatorError, match="expected https"):
        from_operator.ask_about(url, "default", "web", LiveConnection())


CONFIG = {
    "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
    "contexts": [
        {"name": "c", "context": {"cluster": "c", "namespace": "shop"}},
        {"name": "bare", "context": {"cluster": "c"}},
    ],
    "current-context": "c",
}


@pytest.mark.parametrize(
    ("args", "namespace"),
    [
        pytest.param((), "shop", id="of the current context"),
        pytest.param(("--context", "bare"), "default", id="of a context without one"),
        pytest.param(("-n", "other"), "other", id="given"),
    ],
)
def test_the_namespace_is_that_of_the_context_as_for_kubectl(tmp_path, monkeypatch, args, namespace):
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(json.dumps(CONFIG))
    found = situation("taint that")
    items = [
        raw if raw["kind"] == "Node" else {**raw, "metadata": {**raw["metadata"], "namespace": namespace}}
        for raw in found.cluster.items(found.pod)
    ]
    monkeypatch.setattr("podwright.cli.commands.explain.snapshot_of", lambda _connection: Snapshot(objects=items))
    result = CliRunner().invoke(main, ["explain", "pod/waiting", "--kubeconfig", str(kubeconfig), *args])
    assert result.exit_code == 0, result.output
    assert f"pod {namespace}/waiting  Pending" in result.output


def test_kinds_that_may_not_be_listed_are_named_in_one_line_and_those_that_do_not_exist_not_at_all(monkeypatch):
    found = situation("taint that")
    missing = {"Service": NOT_ALLOWED, "PodGroup.scheduling.k8s.io": NOT_SERVED, "SchedulerPolicy": NOT_ALLOWED}
    snapshot = Snapshot(objects=found.cluster.items(found.pod), missing=missing)
    monkeypatch.setattr("podwright.cli.commands.explain.snapshot_of", lambda _connection: snapshot)
    result = CliRunner().invoke(main, ["explain", "pod/waiting", "-n", "default"])
    assert result.stderr.splitlines() == ["Without Service, SchedulerPolicy: RBAC does not let you list them"]
