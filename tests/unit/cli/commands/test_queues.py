"""`podwright queues` as a user runs it."""

import json
import re

import pytest
from click.testing import CliRunner

from podwright.cli.main import main
from podwright.cli.reports.queues import branches, queue_resources
from podwright.kube.kinds import KAI_QUEUE, VOLCANO_QUEUE
from podwright.simulator.queue_rows import QueueAmounts, QueueRow, rows_from, rows_of, rows_of_views
from support.objects.queues import other_queue, queue
from support.simulator.kit import loaded, node, pod

GPU = "nvidia.com/gpu"
OK = [{"type": "Accepted", "status": "True"}]


def shown(name, status=None, **spec):
    return {**queue(name, **spec), "status": {"conditions": OK, **(status or {})}}


QUEUES = [
    shown("web", {"allocated": {"cpu": "10500m"}, "share": {"cpu": "64"}}, resources={"cpu": {"limit": "64"}}),
    shown(
        "b",
        {"allocated": {GPU: "2", "memory": "12Gi"}, "share": {GPU: "8"}, "pending": {GPU: "4"}, "pendingPods": 4,
         "firstWaiting": {"pod": "x/train-0", "message": "ml holds 20 of 24 nvidia.com/gpu"}},
        parent="ml", resources={GPU: {"guarantee": 8}},
    ),
    shown("ml", {"allocated": {GPU: "20"}, "share": {GPU: "22"}}, resources={GPU: {"guarantee": 16, "limit": 24}}),
    shown("a", {"allocated": {GPU: "18"}, "share": {GPU: "14"}}, parent="ml", resources={GPU: {"guarantee": 8}}),
    shown("night", parent="b", state="Hold"),
    {**queue("lost", parent="gone"), "status": {"conditions": [{"type": "Accepted", "status": "False", "message": "spec.parent: queue 'gone' does not exist"}]}},
]  # fmt: skip


@pytest.fixture
def run(tmp_path):
    def invoke(*args, objects=QUEUES, code=0, env=None):
        path = tmp_path / "cluster.json"
        path.write_text(json.dumps({"kind": "List", "items": objects}))
        result = CliRunner().invoke(main, ["queues", str(path), *args], env=env)
        assert result.exit_code == code, result.output
        invoke.result = result
        return result.stdout

    return invoke


def test_the_tree_has_what_each_queue_has_and_may_have(run):
    lines = run().splitlines()
    cells = [re.split(r"\s{2,}", line) for line in lines]
    assert cells[:7] == [
        ["QUEUE", "STATE", "GUARANTEE", "LIMIT", "SHARE", "ALLOCATED", "BORROWED", "PENDING", "PODS"],
        ["lost", "Invalid", "-", "-", "-", "-", "-", "-", "-"],
        ["ml", "Open", "16", "24", "22", "20", "4", "-", "-"],
        ["├ a", "Open", "8", "-", "14", "18", "10", "-", "-"],
        ["└ b", "Open", "8", "-", "8", "2", "-", "4", "4"],
        ["", "└ night", "Hold", "-", "-", "-", "-", "-", "-", "-"],
        ["web", "Open", "-", "-", "-", "-", "-", "-", "-"],
    ]
    assert lines[7:] == [
        "Amounts are of nvidia.com/gpu. PODS wait.",
        "",
        "lost: spec.parent: queue 'gone' does not exist",
        "",
        "b: lends 6 nvidia.com/gpu to a",
        "",
        "b: x/train-0 waits: ml holds 20 of 24 nvidia.com/gpu",
    ]


def test_queues_of_other_apis_are_in_the_tree(run):
    gpus = {"gpu": {"quota": 4, "limit": -1}, "cpu": {"quota": -1, "limit": -1}}
    kai = {"allocated": {GPU: "6"}, "requested": {GPU: "8"}, "conditions": [{"type": "OverQuota", "status": "True"}]}
    refused = {"conditions": [{"type": "Accepted", "status": "False", "message": "SchedulingQueue ml counts"}]}
    objects = [
        other_queue(KAI_QUEUE, "team", kai, parentQueue="ml", resources=gpus),
        other_queue(KAI_QUEUE, "ml", refused),
        other_queue(KAI_QUEUE, "second", refused, resources=gpus),
        other_queue(KAI_QUEUE, "wrong", resources={"gpu": {"quota": "many"}}),
        other_queue(VOLCANO_QUEUE, "batch", {"state": "Closing", "allocated": {GPU: "1"}}, capability={GPU: 2}),
        *QUEUES[2:3],
    ]
    lines = run("--resource", GPU, objects=objects).splitlines()
    assert [re.split(r"\s{2,}", line) for line in lines[1:6]] == [
        ["batch", "Hold", "-", "2", "-", "1", "1", "-", "-"],
        ["ml", "Open", "16", "24", "22", "20", "4", "-", "-"],
        ["└ team", "Open", "4", "-", "-", "6", "2", "2", "-"],
        ["second", "Invalid", "4", "-", "-", "-", "-", "-", "-"],
        ["wrong", "Invalid", "-", "-", "-", "-", "-", "-", "-"],
    ]
    assert any("second: SchedulingQueue ml counts" in line for line in lines)
    assert any("wrong: spec.resources.gpu" in line for line in lines)
    (team,) = (each for each in json.loads(run("-o", "json", objects=objects))["queues"] if each["name"] == "team")
    assert team["parent"] == "ml"
    assert team["resources"][GPU] == {"guarantee": "4", "allocated": "6", "borrowed": "2", "pending": "2"}


def test_a_resource_that_no_queue_has_is_named(run):
    usage = {"usage": {"observedAt": "2026-01-02T00:00:00Z", "hours": {"memory": "1"}, "average": {}}}
    flavor = {"name": "h100", "resources": {GPU: {"limit": 4}}}
    objects = [shown("ml", usage, flavors=[flavor]), *QUEUES[:2]]
    asked = ("nvidia.com/gpus", "nope", GPU, f"{GPU}@h100", "cpu", "memory")
    run(*(text for each in asked for text in ("--resource", each)), objects=objects)
    assert run.result.stderr.splitlines() == [
        "No queue names or has nvidia.com/gpus; did you mean 'nvidia.com/gpu'?",
        "No queue names or has nope",
    ]


def test_several_resources_have_a_line_each_where_a_queue_has_any(run):
    text = run("--resource", "cpu", "--resource", GPU, "--resource", "memory")
    assert re.findall(r"(?m)^(\W*\w*) +(?:Open|Hold|Invalid)? +(cpu|nvidia.com/gpu|memory) ", text) == [
        ("lost", "cpu"),
        ("ml", GPU),
        ("├ a", GPU),
        ("└ b", GPU),
        ("                  ", "memory"),
        ("  └ night", "cpu"),
        ("web", "cpu"),
    ]
    assert "10500m" in text


def test_programs_get_quantities(run):
    found = {each["name"]: each for each in json.loads(run("-o", "json"))["queues"]}
    assert [*found] == ["lost", "ml", "a", "b", "night", "web"]
    assert found["b"] == {
        "name": "b",
        "parent": "ml",
        "state": "Open",
        "firstWaiting": {"pod": "x/train-0", "message": "ml holds 20 of 24 nvidia.com/gpu"},
        "pendingPods": 4,
        "resources": {
            "memory": {"guarantee": "0", "share": "0", "allocated": "12Gi", "borrowed": "12Gi", "pending": "0"},
            GPU: {"guarantee": "8", "share": "8", "allocated": "2", "borrowed": "0", "pending": "4", "lentTo": {"a": "6"}},
        },
    }  # fmt: skip
    assert found["a"]["resources"][GPU]["borrowedFrom"] == {"b": "6"}
    assert found["lost"]["problem"] == "spec.parent: queue 'gone' does not exist"


def test_a_queue_lends_to_others_of_its_parent_what_it_is_guaranteed_and_does_not_use(run):
    borrowers = [shown(f"b{number}", {"allocated": {GPU: str(number)}}) for number in range(6)]
    refused = [{"type": "Accepted", "status": "False", "message": "wrong"}]
    unused = {"resources": {GPU: {"guarantee": 20}}}
    wants_all = other_queue(KAI_QUEUE, "kai", {"allocated": {GPU: "6"}}, resources={"gpu": {"quota": -1, "limit": -1}})
    objects = [*borrowers, wants_all, shown("lender", **unused), shown("invalid", {"conditions": refused}, **unused)]
    text = run(objects=[*objects, shown("below", parent="lender", **unused)])
    lines = [line for line in text.splitlines() if "lends" in line]
    assert lines == ["lender: lends 5 nvidia.com/gpu to b5, 4 to b4, 3 to b3, and some to 2 more queues"]


def test_a_flavor_has_its_own_quotas_and_units(run):
    h100 = {"name": "h100", "resources": {GPU: {"guarantee": 16, "limit": 20}, "cpu": {"guarantee": "8"}}}
    hours = {"observedAt": "2026-01-02T12:00:00Z", "hours": {"cpu@h100": "10"}}
    status = {"allocated": {GPU: "12", f"{GPU}@h100": "12", "cpu@h100": "4"}, "usage": hours}
    objects = [shown("ml", status, flavors=[h100, 7], resources={GPU: {"limit": 40}}), shown("b", flavors=[h100])]
    (_, found) = json.loads(run("-o", "json", objects=objects))["queues"]
    bounds = {"guarantee": "16", "limit": "20", "share": "0", "allocated": "12", "borrowed": "0", "pending": "0"}
    assert found["resources"][f"{GPU}@h100"] == bounds
    assert found["resources"]["cpu@h100"]["allocated"] == "4"
    assert found["usage"]["hours"] == {"cpu@h100": 10.0}
    text = run("--resource", "cpu@h100", objects=objects)
    assert re.search(r"(?m)^ml +Open +8 +- +- +4 +- +- +-$", text)
    assert re.search(r"(?m)^ml +10\.0 +100 % +- +4 ", run("--usage", "--resource", "cpu@h100", objects=objects))
    assert "Amounts are of nvidia.com/gpu." in run(objects=objects)
    view = {"guarantee": {"cpu@h100": "8"}, "allocated": {"cpu@h100": "4"}}
    (row,) = rows_of_views([{"metadata": {"name": "ml", "namespace": "x"}, "status": view}])
    assert row.of("cpu@h100") == QueueAmounts(resource="cpu@h100", guarantee=8000, allocated=4000)


def test_an_escape_sequence_in_a_status_is_not_printed(run):
    hostile = shown("a", {"firstWaiting": {"pod": "\x1b[2Jx", "message": "[red]m"}})
    text = run(objects=[hostile])
    assert "\x1b" not in text
    assert "[red]m" in text


@pytest.mark.parametrize(
    "status",
    [{}, {"allocated": 3, "share": {"cpu": []}, "pendingPods": "x", "conditions": {}, "firstWaiting": 7}, None],
)
def test_a_status_that_cannot_be_read_counts_as_empty(run, status):
    text = run(objects=[{**queue("a", resources={"cpu": {"limit": {}}, "memory": 5}), "status": status}])
    assert "a: the operator has not checked it yet" in text
    assert re.search(r"(?m)^a +Unchecked ", text)


def test_without_queues_it_says_so(run):
    assert run(objects=[node("a")]) == "There are no queues.\n"


def test_a_cycle_of_parents_is_shown():
    rows = rows_from([queue("a", parent="b"), queue("b", parent="a"), queue("c")])
    assert [(row.name, row.depth) for row in rows] == [("c", 0), ("a", 0), ("b", 0)]


def test_rows_of_a_deep_tree_are_made_in_a_bounded_depth():
    rows = rows_from([queue(f"q{i:04}", parent=f"q{i - 1:04}" if i else "") for i in range(1500)])
    assert len(rows) == 1500
    assert max(row.depth for row in rows) == 100


def test_the_lines_of_the_tree():
    rows = [QueueRow(name=name, depth=depth) for name, depth in [("a", 0), ("b", 1), ("c", 2), ("d", 2), ("e", 1), ("f", 2), ("g", 0)]]  # fmt: skip
    assert branches(rows) == ["", "├ ", "│ ├ ", "│ └ ", "└ ", "  └ ", ""]


@pytest.mark.parametrize(
    ("quotas", "resource"),
    [
        pytest.param([["cpu", "x/a"], ["cpu", "x/b"], ["x/b"]], "x/b", id="the extended one that most name"),
        pytest.param([["cpu", "memory"], ["memory"], ["memory"]], "cpu", id="CPU, if none is extended"),
        pytest.param([["memory"]], "memory", id="another one, if that is all"),
        pytest.param([[]], "cpu", id="CPU without any quota"),
    ],
)
def test_which_resource_is_shown(quotas, resource):
    rows = [QueueRow(name="q", resources=tuple(QueueAmounts(resource=r, limit=1) for r in each)) for each in quotas]
    assert queue_resources(rows) == [resource]


def test_a_loaded_cluster_gives_the_rows_that_its_status_would_have():
    label = {"podwright.dev/queue": "a"}
    limited = queue("a", resources={"cpu": {"guarantee": "1", "limit": "2"}}, parent="top")
    cluster = loaded(
        node("n"),
        queue("top"),
        limited,
        *(pod(f"p{i}", on="n", labels=label) for i in range(2)),
        pod("w", labels=label),
    )
    _, row = rows_of(cluster.queues)
    assert row.of("cpu") == QueueAmounts(resource="cpu", guarantee=1000, limit=2000, share=2000, allocated=2000, pending=1000)  # fmt: skip
    assert (row.waiting, row.bound, row.pending_pods) == ("default/w", "a holds 2 of 2 cpu", 1)


def test_the_view_of_a_namespace_is_a_row_with_what_its_status_says():
    status = {
        "state": "Hold", "guarantee": {GPU: "2"}, "limit": {GPU: "4"}, "share": {GPU: "3"}, "allocated": {GPU: "1"},
        "conditions": [{"type": "Active", "status": "False", "reason": "NotOpen", "message": "Pods wait: it is on hold."}],
    }  # fmt: skip
    (row,) = rows_of_views([{"metadata": {"name": "ml", "namespace": "x"}, "status": status}])
    assert (row.name, row.state, row.problem) == ("ml", "Hold", "Pods wait: it is on hold.")
    assert row.of(GPU) == QueueAmounts(resource=GPU, guarantee=2, limit=4, share=3, allocated=1)
    (new,) = rows_of_views([{"metadata": {"name": "ml", "namespace": "x"}}])
    assert new.problem == "the operator has not checked it yet"


def test_files_have_no_views(run):
    assert run("-n", "x", code=1) == ""


def test_usage_shows_the_hours_of_queues_and_users(run):
    usage = {
        "observedAt": "2026-01-02T12:00:00Z", "since": "2026-01-01T12:00:00Z", "average": {GPU: "7.5"},
        "hours": {GPU: "1200", "cpu": "40.5"}, "users": [{"user": "ann", "hours": {GPU: "900"}}],
    }  # fmt: skip
    objects = [
        shown("ml", {"usage": {**usage, "hours": {GPU: "1600"}, "users": []}}, resources={GPU: {"limit": 24}}),
        shown("b", {"usage": usage, "allocated": {GPU: "2"}}, parent="ml"),
        shown("c", parent="ml"),
    ]
    cells = [re.split(r"\s{2,}", line.strip()) for line in run("--usage", objects=objects).splitlines()]
    assert cells[:6] == [
        ["QUEUE", "USER", "HOURS", "PART", "AVERAGE", "NOW", "SINCE"],
        ["ml", "1,600.0", "100 %", "7.5", "-", "2026-01-01"],
        ["├ b", "1,200.0", "75 %", "7.5", "2", "2026-01-01"],
        ["│", "ann", "900.0", "75 %"],
        ["│", "others", "300.0", "25 %"],
        ["└ c", "-", "-", "-", "-"],
    ]
    assert "HOURS are nvidia.com/gpu-hours" in cells[6][0]
    assert "40.5" in run("--usage", "--resource", "cpu", objects=objects)
    (_, row, _) = json.loads(run("-o", "json", objects=objects))["queues"]
    assert row["usage"]["users"][0] == {"user": "ann", "hours": {GPU: 900.0}}
