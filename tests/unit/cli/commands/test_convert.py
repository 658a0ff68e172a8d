"""`podwright convert`: policies on standard output, everything else on standard error."""

from __future__ import annotations

import yaml
from click.testing import CliRunner

from podwright.cli.main import main

FILE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: first}, {schedulerName: second}]
"""


def convert(text, *arguments):
    return CliRunner().invoke(main, ["convert", "-", *arguments], input=text)


def test_policies_go_to_standard_output_and_notes_to_standard_error():
    done = convert(FILE)
    assert done.exit_code == 0
    assert [policy["metadata"]["name"] for policy in yaml.safe_load_all(done.stdout)] == ["first", "second"]
    assert done.stderr.splitlines()[0] == "# leaderElection: give podwright run --leader-elect"


def test_a_file_that_cannot_be_converted_is_an_error_without_output(tmp_path):
    done = convert(FILE.replace("kind: Kube", "kind: "))
    assert (done.exit_code, done.stdout) == (1, "")
    assert "-: kind: 'SchedulerConfiguration' should be 'KubeSchedulerConfiguration'" in done.stderr


def test_wrong_options_are_errors(tmp_path):
    done = convert(FILE, "--feature-gates=Nope=true")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "unknown feature gate 'Nope'" in done.stderr
    (tmp_path / "broken.py").write_text("(")
    done = convert(FILE, f"--plugin-dir={tmp_path}")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "broken.py" in done.stderr
