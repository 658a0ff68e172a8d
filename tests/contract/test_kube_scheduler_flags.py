"""The flags and feature gates of kube-scheduler itself, all of which both commands take."""

from __future__ import annotations

import re
import subprocess

import pytest
from click.testing import CliRunner

from podwright.cli.commands.kube_scheduler import kube_scheduler
from podwright.cli.commands.run import run
from podwright.cli.main import main
from podwright.core.framework.known_gates import GROUPS, KNOWN_GATES


@pytest.fixture(scope="module")
def help_text(binaries):
    """The output of `kube-scheduler --help`."""
    return subprocess.run(
        [binaries.path("kube-scheduler"), "--help"], capture_output=True, text=True, check=True
    ).stdout


def flags_of(command):
    return {flag for parameter in command.params for flag in parameter.opts} | {"--help", "-h"}


@pytest.mark.parametrize("command", [run, kube_scheduler], ids=lambda command: command.name)
def test_every_flag_of_kube_scheduler_is_taken(help_text, command):
    flags = re.findall(r"^ +(?:(-\w), )?(--[\w-]+)", help_text, re.MULTILINE)
    assert len(flags) > 50
    assert {flag for pair in flags for flag in pair if flag} - flags_of(command) == set()


def test_every_feature_gate_of_kube_scheduler_is_known(binaries, help_text):
    version = subprocess.run([binaries.path("kube-scheduler"), "--version"], capture_output=True, text=True, check=True)
    found = re.findall(r"kube:(\w+)=true\|false \((ALPHA|BETA) - default=(true|false)\)", help_text)
    known = {name: (gate.stage, gate.default) for name, gate in KNOWN_GATES.items()}
    listed = {name: (stage, default == "true") for name, stage, default in found if name not in GROUPS}
    assert len(listed) > 100
    if version.stdout.startswith("Kubernetes v1.37."):
        assert listed == {name: value for name, value in known.items() if value[0] in ("ALPHA", "BETA")}
    else:
        assert set(listed) & known.keys()


@pytest.mark.parametrize(
    ("gates", "accepted"),
    [
        pytest.param(
            "KubeletTracing=true,JobManagedBy=t,AllAlpha=false",
            True,
            id="known gates",
            marks=pytest.mark.kubernetes(37, "the gates of 1.37"),
        ),
        pytest.param(
            "kube:KubeletTracing=true,kube:JobManagedBy=t,kube:AllAlpha=false",
            True,
            id="known gates with their component",
            marks=pytest.mark.kubernetes(37, "the gates of 1.37"),
        ),
        pytest.param("KubeletTracing=true,kube:JobManagedBy=t", False, id="only one of them with its component"),
        pytest.param("NoSuchGate=true", False, id="an unknown gate"),
        pytest.param(
            "JobManagedBy=false",
            False,
            id="a locked gate",
            marks=pytest.mark.kubernetes(35, "this gate locked"),
        ),
        pytest.param("wardle:JobManagedBy=true", False, id="a gate of another component"),
        pytest.param("JobManagedBy=maybe", False, id="no switch"),
    ],
)
def test_both_say_the_same_about_feature_gates(binaries, gates, accepted, monkeypatch):
    async def start(_options):
        return

    monkeypatch.setattr("podwright.cli.processes.scheduler.run", start)
    theirs = subprocess.run(
        [binaries.path("kube-scheduler"), f"--feature-gates={gates}", "--version"], capture_output=True, check=False
    )
    ours = CliRunner().invoke(main, ["kube-scheduler", f"--feature-gates={gates}"])
    assert (theirs.returncode == 0, ours.exit_code == 0) == (accepted, accepted)
