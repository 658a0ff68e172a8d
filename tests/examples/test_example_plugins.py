"""The example plugins, loaded from files and from an installed package, in complete scheduling cycles."""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from podwright.api.compile import compile_policy
from podwright.api.kube_scheduler_configuration import convert_profile
from podwright.api.scheduler_policy import parse_policy
from podwright.core.cycle import Placement, Rejection, schedule
from podwright.core.framework.features import Features
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import CycleState, Feasible
from podwright.core.framework.status import Code
from podwright.engine.plugins.loading import load_plugins
from support.objects.builders import make_node
from support.plugins.kit import KitHandle, make_cache, pending

EXAMPLES = Path(__file__).parents[2] / "examples"
PACKAGE = EXAMPLES / "src" / "podwright_examples"
NODES = [make_node(name) for name in ("node-b", "node-a", "node-c")]


def policy_named(name):
    return yaml.safe_load((EXAMPLES / "policies" / f"{name}.yaml").read_text())


def profile_of(raw, classes):
    return compile_policy(parse_policy(raw), classes, Features()).profile


def profile_named(name, classes):
    return profile_of(policy_named(name), classes)


@pytest.fixture
def framework():
    def build(profile, classes, nodes=NODES):
        return Framework(profile, classes, KitHandle(make_cache(nodes)))

    return build


def decide(framework, pod):
    return schedule(framework, framework.handle.cache, pod, lambda _count: 0)


def test_sample_plugin_logs_its_args_at_its_extension_points(framework, caplog):
    caplog.set_level(logging.INFO, "podwright.plugins")
    classes = load_plugins([PACKAGE])
    running = framework(profile_named("sample-plugin", classes), classes)
    assert isinstance(decide(running, pending(name="web")), Placement)
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0] == "PreFilter of pod default/web: favorite_color #326CE5, favorite_number 7, thanks_to everybody"
    assert sorted(lines[1:]) == [
        f"Filter of pod default/web on node {name}: favorite_color #326CE5" for name in ("node-a", "node-b", "node-c")
    ]


async def test_sample_plugin_logs_before_binding(framework, caplog):
    caplog.set_level(logging.INFO, "podwright.plugins")
    classes = load_plugins([PACKAGE])
    running = framework(profile_named("sample-plugin", classes), classes)
    status = await running.plugins["sample-plugin"].pre_bind(CycleState(), pending(name="web"), "node-a")
    assert status is None
    assert caplog.messages == ["PreBind of pod default/web on node node-a: thanks_to everybody"]
    gone = await running.plugins["sample-plugin"].pre_bind(CycleState(), pending(name="web"), "node-z")
    assert (gone.code, gone.message) == (Code.ERROR, "node node-z is gone")


@pytest.mark.parametrize(
    "prefer, winner, runner_up",
    [
        pytest.param("first", "node-a", "node-b", id="the first name wins"),
        pytest.param("last", "node-c", "node-b", id="the last name wins if the args prefer it"),
    ],
)
def test_namescore_prefers_the_first_or_last_name(framework, prefer, winner, runner_up):
    classes = load_plugins([PACKAGE])
    raw = policy_named("namescore")
    raw["spec"]["pluginConfig"][0]["args"]["prefer"] = prefer
    decision = decide(framework(profile_of(raw, classes), classes), pending())
    assert isinstance(decision, Placement)
    assert (decision.node_name, decision.score) == (winner, 100)
    assert decision.runner_up[0] == runner_up


def test_namescore_chooses_only_feasible_nodes(framework):
    classes = load_plugins([PACKAGE])
    nodes = [make_node("a", unschedulable=True), *NODES]
    decision = decide(framework(profile_named("namescore", classes), classes, nodes), pending())
    assert decision.node_name == "node-a"


def test_namescore_vectorised_equals_its_per_node_score(framework):
    classes = load_plugins([PACKAGE])
    running = framework(profile_named("namescore", classes), classes)
    plugin, cache = running.plugins["namescore"], running.handle.cache
    for gone in ("node-b", "node-a"):
        slots = np.flatnonzero(cache.table.valid)
        scores = plugin.score_all(CycleState(), pending(), Feasible(cache.table, slots))
        infos = [cache.present(cache.table.names[slot]) for slot in slots]
        assert scores.tolist() == [plugin.score(CycleState(), pending(), info) for info in infos]
        cache.remove_node(gone)


def test_the_first_plugin_of_the_guide_rejects_nodes_of_other_teams(framework):
    classes = load_plugins([EXAMPLES / "first"])
    raw = {"plugins": {"multiPoint": {"enabled": [{"name": "TeamNodes"}]}}}
    nodes = [make_node("ml", labels={"team": "ml"}), make_node("open")]
    running = framework(convert_profile(raw, "", classes, Features()), classes, nodes)
    assert decide(running, pending(labels={"team": "web"})).node_name == "open"
    running.handle.cache.remove_node("open")
    decision = decide(running, pending(labels={"team": "web"}))
    assert isinstance(decision, Rejection)
    assert decision.message.startswith("0/1 nodes are available: 1 node(s) belonged to another team.")


def test_the_complete_plugin_of_the_guide_works_with_its_policy(framework):
    classes = load_plugins([EXAMPLES / "complete"])
    policy = parse_policy(policy_named("team-nodes"))
    label = "example.com/team"
    nodes = [make_node("open"), make_node("ml", labels={label: "ml"}), make_node("web", labels={label: "web"})]
    running = framework(compile_policy(policy, classes, Features()).profile, classes, nodes)
    assert decide(running, pending(labels={label: "web"})).node_name == "web"
    assert decide(running, pending(labels={label: "db"})).node_name == "open"
    assert decide(running, pending()).node_name == "open"
    assert decide(running, pending(labels={label: "platform"})).feasible == 3


def test_the_tests_of_the_guide_pass():
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".", "tests"],
        cwd=EXAMPLES,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.slow
def test_an_installed_package_is_found_by_its_entry_points(tmp_path):
    target = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--target", str(target), str(EXAMPLES)]
    installed = subprocess.run([*pip, *offline], capture_output=True, text=True, check=False)
    assert installed.returncode == 0, installed.stderr
    script = (
        "import json; from podwright.engine.plugins.loading import load_plugins; found = load_plugins();"
        "print(json.dumps({n: found[n].__module__ for n in ('sample-plugin', 'namescore')}))"
    )
    environment = {**os.environ, "PYTHONPATH": str(target)}
    output = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert json.loads(output.stdout) == {
        "sample-plugin": "podwright_examples.sample_plugin",
        "namescore": "podwright_examples.name_score",
    }


def test_the_error_names_an_entry_point_that_cannot_be_imported(tmp_path, monkeypatch):
    info = tmp_path / "broken_plugins-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-plugins\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[podwright.plugins]\nbroken = no_such_module_here:Broken\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(Exception, match="entry point broken = no_such_module_here:Broken of broken-plugins: cannot"):
        load_plugins()
