"""The shipped alerts: promtool accepts the rules, each alert fires when it should and only then, and has a section in
the runbook.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from podwright.engine.records.metrics import CATALOGUE, Counter, Histogram
from support.monitoring.alert_cases import CASES
from support.monitoring.prometheus import alerts, groups, panels

ROOT = Path(__file__).parents[2]
RUNBOOK = (ROOT / "docs" / "runbook.md").read_text()
NAME = re.compile(r"\b(?:scheduler|podwright|rest_client|leader_election|kubernetes|process)_\w+")


@pytest.fixture
def rules(tmp_path):
    """The rules in a file for promtool."""
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": groups()}))
    return path


def promtool(prometheus, *arguments):
    done = subprocess.run([prometheus / "promtool", *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_promtool_accepts_the_rules(prometheus, rules):
    code, output = promtool(prometheus, "check", "rules", "--lint=all", "--lint-fatal", str(rules))
    assert code == 0, output
    assert f"{len(alerts())} rules found" in output


@pytest.mark.slow
@pytest.mark.parametrize("alert", alerts())
def test_an_alert_fires_when_it_should_and_only_then(prometheus, alert, tmp_path):
    rule, case = alerts()[alert], CASES[alert]
    rules = tmp_path / "rules.yaml"
    rules.write_text(yaml.safe_dump({"groups": [{"name": "one", "rules": [rule]}]}))
    labels = {"alertname": alert, **rule["labels"], **case.labels}
    annotations = {**rule["annotations"], "summary": case.summary}
    firing = {
        "alertname": alert,
        "eval_time": case.at,
        "exp_alerts": [{"exp_labels": labels, "exp_annotations": annotations}],
    }
    quiet = {"alertname": alert, "eval_time": case.at, "exp_alerts": []}
    early = {"alertname": alert, "eval_time": case.not_yet, "exp_alerts": []}
    tests = [
        {"interval": "1m", "input_series": _series(case.fires), "alert_rule_test": [firing, *([early] if case.not_yet else [])]},
        *({"interval": "1m", "input_series": _series(each), "alert_rule_test": [quiet]} for each in case.quiet),
    ]  # fmt: skip
    path = tmp_path / "tests.yaml"
    path.write_text(yaml.safe_dump({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": tests}))
    code, output = promtool(prometheus, "test", "rules", str(path))
    assert code == 0, output


def _series(series):
    return [{"series": name, "values": values} for name, values in series.items()]


def test_every_alert_has_cases_in_which_it_fires_and_does_not():
    assert CASES.keys() == alerts().keys()
    assert [name for name, case in CASES.items() if not case.fires and name != "PodwrightDown"] == []
    assert [name for name, case in CASES.items() if not case.quiet] == []


def test_every_alert_has_a_section_in_the_runbook_and_every_section_an_alert():
    headings = re.findall(r"^## (\w+)$", RUNBOOK, re.MULTILINE)
    assert headings == list(alerts())
    for name, rule in alerts().items():
        assert rule["annotations"]["runbook_url"] == f"docs/runbook.md#{name.lower()}"


@pytest.mark.parametrize("name", alerts())
def test_a_section_of_the_runbook_says_what_an_alert_means_and_what_to_do(name):
    section = RUNBOOK.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    assert "**Means:**" in section
    assert "**Do:**" in section


def test_alerts_and_panels_use_only_metrics_that_exist():
    exist = {"process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds", "process_max_fds"}
    for each in CATALOGUE:
        suffixes = ("_total",) if isinstance(each, Counter) else ("",)
        exist |= {
            each.name + suffix
            for suffix in (("_bucket", "_sum", "_count") if isinstance(each, Histogram) else suffixes)
        }
    queries = [rule["expr"] for rule in alerts().values()] + [query for found in panels().values() for query in found]
    assert {name for query in queries for name in NAME.findall(query)} - exist == set()
