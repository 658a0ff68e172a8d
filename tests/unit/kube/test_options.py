"""Options, from the command line and from the environment."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from podwright import __version__
from podwright.cli.main import main
from podwright.core.queue import Waits
from podwright.kube.options import Options, OptionsError, parse_address, parse_feature_gates


def test_the_environment_says_what_the_command_line_would():
    environ = {
        "PODWRIGHT_KUBECONFIG": "k",
        "PODWRIGHT_CONTEXT": "c",
        "PODWRIGHT_POD_INTAKE": "watch",
        "PODWRIGHT_SCHEDULER_NAME": "mine",
        "PODWRIGHT_FEATURE_GATES": "OpportunisticBatching=false",
        "PODWRIGHT_HEALTH_ADDRESS": ":10251",
        "PODWRIGHT_GRACE": "7.5",
        "PODWRIGHT_PLUGIN_DIRS": "a:b",
        "PODWRIGHT_QUEUE_SORT": "Smallest",
        "PODWRIGHT_POD_INITIAL_BACKOFF_SECONDS": "2",
        "PODWRIGHT_POD_MAX_BACKOFF_SECONDS": "30",
        "PODWRIGHT_POD_MAX_IN_UNSCHEDULABLE_PODS_DURATION": "1m30s",
    }
    assert Options.from_environment(environ) == Options(
        kubeconfig="k",
        context="c",
        pod_intake="watch",
        scheduler_name="mine",
        feature_gates={"OpportunisticBatching": False},
        health_address=":10251",
        grace=7.5,
        plugin_dirs=("a", "b"),
        queue_sort="Smallest",
        pod_initial_backoff_seconds=2,
        pod_max_backoff_seconds=30,
        pod_max_in_unschedulable_pods_duration=90.0,
    )
    assert Options.from_environment({}) == Options()


def test_an_intake_that_does_not_exist_is_refused():
    with pytest.raises(OptionsError, match="neither kopf nor watch"):
        Options.from_environment({"PODWRIGHT_POD_INTAKE": "poll"})


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf"])
def test_a_grace_that_is_no_number_of_seconds_is_refused(text):
    with pytest.raises(OptionsError, match=f"PODWRIGHT_GRACE: '{text}' is no number of seconds"):
        Options.from_environment({"PODWRIGHT_GRACE": text})


@pytest.mark.parametrize(
    ("environ", "problem"),
    [
        ({"POD_INITIAL_BACKOFF_SECONDS": "1.5"}, "PODWRIGHT_POD_INITIAL_BACKOFF_SECONDS: '1.5' is no whole number"),
        ({"POD_INITIAL_BACKOFF_SECONDS": "0"}, "pod-initial-backoff-seconds must be greater than 0"),
        ({"POD_MAX_BACKOFF_SECONDS": "soon"}, "PODWRIGHT_POD_MAX_BACKOFF_SECONDS: 'soon' is no whole number"),
        (
            {"POD_INITIAL_BACKOFF_SECONDS": "11"},
            "pod-max-backoff-seconds must not be less than pod-initial-backoff-seconds",
        ),
        ({"POD_MAX_IN_UNSCHEDULABLE_PODS_DURATION": "300"}, "'300' is no duration"),
        ({"POD_MAX_IN_UNSCHEDULABLE_PODS_DURATION": "-5m"}, "'-5m' is no duration"),
    ],
)
def test_waits_that_make_no_sense_are_refused(environ, problem):
    with pytest.raises(OptionsError, match=problem):
        Options.from_environment({f"PODWRIGHT_{name}": value for name, value in environ.items()})


@pytest.mark.parametrize("name", ["", " "])
def test_the_scheduler_name_cannot_be_empty(name):
    with pytest.raises(OptionsError, match="the scheduler name must not be empty"):
        Options(scheduler_name=name)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", {}, id="nothing"),
        pytest.param("GenericWorkload=true", {"GenericWorkload": True}, id="one"),
        pytest.param(
            "GenericWorkload=True, ImageVolume=FALSE,",
            {"GenericWorkload": True, "ImageVolume": False},
            id="two, untidy",
        ),
    ],
)
def test_feature_gates(text, expected):
    assert parse_feature_gates(text) == expected


@pytest.mark.parametrize("text", ["NoSuchGate=true", "GenericWorkload", "GenericWorkload=yes"])
def test_feature_gates_that_make_no_sense(text):
    with pytest.raises(OptionsError, match=text.split("=")[0]):
        parse_feature_gates(text)


@pytest.mark.parametrize(
    ("text", "expected"), [("127.0.0.1:80", ("127.0.0.1", 80)), (":10251", ("", 10251)), ("[::1]:80", ("::1", 80))]
)
def test_addresses(text, expected):
    assert parse_address(text) == expected


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--health-address", "80"], "'80' is not host:port"),
        (["--feature-gates", "NoSuchGate=true"], "unknown feature gate 'NoSuchGate'"),
        (["--scheduler-name", ""], "'--scheduler-name': the scheduler name must not be empty"),
        (["--pod-intake", "poll"], "'poll' is not one of"),
        (["--kubeconfig", "/no/such/file"], "/no/such/file is not there"),
        (["--pod-initial-backoff-seconds", "0"], "0 is not in the range x>=1"),
        (["--pod-initial-backoff-seconds", "1.5"], "'1.5' is not a valid integer"),
        (["--pod-max-in-unschedulable-pods-duration", "5"], "'5' is no duration such as 5m or 1m30s"),
        (
            ["--pod-initial-backoff-seconds", "5", "--pod-max-backoff-seconds", "4"],
            "Error: pod-max-backoff-seconds must not be less than pod-initial-backoff-seconds",
        ),
    ],
)
def test_the_command_line_says_what_is_wrong(arguments, problem):
    done = CliRunner().invoke(main, ["run", *arguments])
    assert done.exit_code != 0
    assert problem in done.output


def test_the_command_line_says_how_long_pods_wait(monkeypatch):
    started = []

    async def start(options):
        started.append(options.waits)

    monkeypatch.setattr("podwright.cli.scheduler.run", start)
    flags = ["--pod-initial-backoff-seconds=2", "--pod-max-backoff-seconds=20"]
    for arguments in ([], [*flags, "--pod-max-in-unschedulable-pods-duration=10m"]):
        assert CliRunner().invoke(main, ["run", *arguments]).exit_code == 0
    assert started == [Waits(1, 10, 300), Waits(2, 20, 600)]


def test_the_version():
    assert CliRunner().invoke(main, ["version"]).output == f"{__version__}\n"
