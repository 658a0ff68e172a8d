"""The commands of docs/queues.md print what the page shows, and its tables have every field."""

import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from podwright.api.queue_status import QueueReport, QueueStatus, status_of
from podwright.api.scheduling_queue import QueueFlavor, QueueResource, SchedulingQueueSpec, parse_queue
from podwright.cli.main import main
from podwright.core.framework.args import key_of
from podwright.core.queues.queues import QUEUE_LABEL
from podwright.simulator.loaded import load
from podwright.simulator.snapshot import read_snapshot

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "queues.md").read_text()
SHOWN = re.findall(r"^ {4}podwright ([^\n]*)\n\n```\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)
CLUSTER = ROOT / "examples" / "queues" / "cluster.yaml"


@pytest.mark.parametrize(("command", "shown"), SHOWN, ids=[command for command, _ in SHOWN])
def test_the_output_is_the_one_on_the_page(monkeypatch, command, shown):
    monkeypatch.chdir(ROOT)
    result = CliRunner().invoke(main, shlex.split(command))
    assert (result.exit_code, result.stdout) == (0, shown)


def test_the_namespace_may_use_the_queue_that_the_first_commands_give_it():
    (given,) = re.findall(r"kubectl label namespace research (.*)", PAGE)
    labels = dict(label.split("=") for label in given.split())
    raws = yaml.safe_load_all((ROOT / "manifests" / "examples" / "queues" / "teams.yaml").read_text())
    queues = {each.name: each for each in map(parse_queue, raws)}
    assert queues[labels[QUEUE_LABEL]].namespaces.matches(labels)


def test_three_commands_are_shown():
    assert len(SHOWN) == 3


def test_the_statuses_of_the_example_are_those_that_the_operator_would_write():
    cluster = load(read_snapshot([str(CLUSTER)]))
    cluster.queues.shared_out()
    queues = [raw for raw in yaml.safe_load_all(CLUSTER.read_text()) if raw["kind"] == "SchedulingQueue"]
    assert len(queues) == 3
    for raw in queues:
        since = raw["status"]["conditions"][0]["lastTransitionTime"]
        report = QueueReport(
            queues=cluster.queues,
            name=raw["metadata"]["name"],
            generation=1,
            spec=raw["spec"],
            previous={"usage": raw["status"]["usage"]},
            now=since,
        )
        assert raw["status"] == {key: each for key, each in status_of(report).items() if key != "lastAccepted"}


def test_the_tables_have_every_field():
    listed = re.sub(r"resources\.NAME\.", "", " ".join(re.findall(r"^\| (`[^|]*) \|", PAGE, re.MULTILINE)))
    named = set(re.findall(r"`(\w+)`", listed))
    own = {key_of(each) for kind in (SchedulingQueueSpec, QueueResource, QueueFlavor) for each in fields(kind)}
    assert own - {"resources"} <= named
    assert {key_of(each) for each in fields(QueueStatus)} - {"observedGeneration", "summary"} <= named
