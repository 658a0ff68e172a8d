"""`podwright kube-scheduler`: kube-scheduler's defaults, its flags, and those that it once had."""

from __future__ import annotations

import subprocess
import sys

import pytest
import yaml
from click.testing import CliRunner

from podwright import __version__
from podwright.cli.main import main
from podwright.core.framework.registry import RegistryError
from podwright.core.plugins import PLUGINS
from podwright.kube.options.former_flags import ACCEPTED, REFUSED
from podwright.kube.options.options import Options
from podwright.kube.options.values import CONFIGURATION as CONFIGURATION_FILE
from podwright.kube.parts import check_profiles

CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {renewDeadline: 12s}
profiles:
- schedulerName: first
  plugins: {multiPoint: {disabled: [{name: NodePorts}]}, score: {enabled: [{name: ImageLocality, weight: 9}]}}
- schedulerName: second
"""


@pytest.fixture
def started(monkeypatch):
    """The options with which a scheduler has been started."""
    options = []

    async def start(given):
        options.append(given)

    monkeypatch.setattr("podwright.cli.processes.scheduler.run", start)
    return options


def invoke(*arguments, **options):
    return CliRunner().invoke(main, [*arguments], **options)


def said(done):
    """The output with single spaces."""
    return " ".join(done.output.split())


def test_it_takes_the_place_of_kube_scheduler(started):
    done = invoke("kube-scheduler")
    assert done.exit_code == 0, done.output
    (options,) = started
    election = options.leader_election
    assert options.policies.scheduler_names == ("default-scheduler",)
    assert (election.leader_elect, election.resource_namespace, election.resource_name) == (
        True,
        "kube-system",
        "kube-scheduler",
    )
    assert (election.lease_duration, election.renew_deadline, election.retry_period) == ("15s", "10s", "2s")
    assert (options.secure_port, options.bind_address, options.health_address) == (10259, "0.0.0.0", None)
    assert [*options.warnings] == []


def test_podwright_run_keeps_its_own_name_and_lease(started, monkeypatch):
    monkeypatch.setenv("POD_NAMESPACE", "here")
    invoke("run", "--leader-elect")
    (options,) = started
    election = options.leader_election
    assert options.policies.scheduler_names == ("podwright",)
    assert (election.resource_namespace, election.resource_name) == ("here", "podwright")
    assert options.secure_port == 0


def test_the_lease_of_a_file_without_a_name_is_kube_schedulers(tmp_path, started):
    file = tmp_path / "scheduler.yaml"
    file.write_text(CONFIGURATION)
    invoke("kube-scheduler", f"--config={file}", "--leader-elect-retry-period=3s")
    election = started[0].leader_election
    assert (election.resource_namespace, election.resource_name) == ("kube-system", "kube-scheduler")
    assert (election.renew_deadline, election.retry_period) == ("12s", "3s")
    assert started[0].policies.scheduler_names == ["first", "second"]


@pytest.mark.parametrize("command", ["run", "kube-scheduler"])
def test_a_flag_without_effect_is_warned_about_unless_it_says_what_is_so_anyway(started, command):
    done = invoke(
        command, "--profiling=false", "--contention-profiling", "--kube-api-qps=7", "--log-flush-frequency=1s"
    )
    assert done.exit_code == 0, done.output
    assert [*started[0].warnings] == [
        "--contention-profiling has no effect: there are no profiling endpoints",
        "--kube-api-qps has no effect: the API server's answers set the pace of requests",
        "--log-flush-frequency has no effect: all log lines go to stderr, and each is written at once",
    ]


def test_underscores_lists_in_parts_and_go_switches_are_taken(started):
    done = invoke(
        "kube-scheduler",
        "--authorization_always_allow_paths=/a,/b",
        "--authorization-always-allow-paths=/c",
        "--leader-elect=F",
        "--tls-cipher-suites=TLS_AES_128_GCM_SHA256",
        "--tls-cipher-suites=TLS_AES_256_GCM_SHA384",
    )
    assert done.exit_code == 0, done.output
    (options,) = started
    assert options.authorization_always_allow_paths == ("/a", "/b", "/c")
    assert options.tls_cipher_suites == ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384")
    assert options.leader_election.leader_elect is False


def test_flags_without_a_value_count_as_not_given(started):
    """As kube-scheduler takes them, for example from templates."""
    names = ("kubeconfig", "config", "master", "bind-address", "cert-dir", "tls-cert-file", "tls-private-key-file")
    names += ("client-ca-file", "requestheader-client-ca-file", "authentication-kubeconfig", "tls-min-version")
    names += ("authorization-kubeconfig", "emulated-version", "min-compatibility-version", "write-config-to")
    names += ("tls-cipher-suites", "tls-curve-preferences", "feature-gates", "requestheader-allowed-names")
    done = invoke("kube-scheduler", *(f"--{name}=" for name in names))
    assert done.exit_code == 0, done.output
    invoke("kube-scheduler")
    assert started[0] == started[1]


@pytest.mark.parametrize("flag", REFUSED)
@pytest.mark.parametrize("command", ["run", "kube-scheduler"])
def test_a_former_flag_is_refused_with_what_to_write_instead(started, flag, command):
    done = invoke(command, f"{flag}=/some/value")
    assert done.exit_code == 1
    assert f"Error: {flag} is not a flag any more: {REFUSED[flag]}" in said(done)
    assert started == []


def test_a_former_flag_that_says_what_is_so_anyway_is_taken(started):
    done = invoke("kube-scheduler", *(f"{flag}={value}" for flag, values in ACCEPTED.items() for value in values))
    assert done.exit_code == 0, done.output
    assert len(started) == 1


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        pytest.param(["--no-such"], "No such option '--no-such'.", id="an unknown flag"),
        pytest.param(["more"], "Got unexpected extra argument", id="an argument"),
        pytest.param(["--version=9"], "'9' is neither true, raw nor a version", id="no version"),
        pytest.param(["--emulated-version=1.33"], "'1.33' is not a version from 1.34 to 1.37", id="an old version"),
        pytest.param(["--emulated-version=wardle=1.36"], "component not registered: wardle", id="another component"),
        pytest.param(
            ["--emulated-version=1.35", "--min-compatibility-version=1.36"],
            "--min-compatibility-version must not be greater than --emulated-version",
            id="versions that contradict each other",
        ),
        pytest.param(
            ["--show-hidden-metrics-for-version=1.30"],
            "must be omitted or have the value '1.36'; only the previous minor version is allowed",
            id="metrics of an old version",
        ),
        pytest.param(["--master=ftp://x"], "'ftp://x' is not the URL of a server", id="no server"),
        pytest.param(["--kube-api-qps=fast"], "'fast' is not a number", id="no number"),
        pytest.param(["--kube-api-burst=1.5"], "'1.5' is not a whole number", id="no whole number"),
        pytest.param(["--log-json-info-buffer-size=4X"], "'4X' is not a quantity", id="no quantity"),
        pytest.param(["--leader-elect-resource-lock=endpoints"], "'endpoints' is not one of leases", id="a lock"),
        pytest.param(
            ["--tls-cert-file=c.crt"], "--tls-cert-file and --tls-private-key-file must be given together", id="no key"
        ),
        pytest.param(
            ["--leader-elect-lease-duration=5s"],
            "--leader-elect-lease-duration (5s) must be greater than --leader-elect-renew-deadline (10s)",
            id="durations that contradict each other",
        ),
    ],
)
@pytest.mark.parametrize("command", ["run", "kube-scheduler"])
def test_wrong_and_contradicting_flags_end_with_status_1(started, command, flags, problem):
    done = invoke(command, "--leader-elect=true", *flags)
    assert (done.exit_code, started) == (1, [])
    assert problem in said(done)


@pytest.mark.parametrize("text", ["--version", "--version=raw", "--version=true"])
def test_the_version(started, text):
    done = invoke("kube-scheduler", text)
    assert (done.exit_code, done.output, started) == (0, f"Podwright {__version__}\n", [])


def test_a_reported_version_is_taken(started):
    assert invoke("kube-scheduler", "--version=v1.36.2").exit_code == 0
    assert len(started) == 1


@pytest.mark.parametrize("given", [CONFIGURATION, ""], ids=["a file", "no file"])
def test_the_configuration_that_is_written_is_the_one_in_use(tmp_path, started, given):
    file, written, again = (tmp_path / name for name in ("scheduler.yaml", "written.yaml", "again.yaml"))
    file.write_text(given)
    flags = [f"--config={file}"] if given else []
    done = invoke("kube-scheduler", *flags, f"--write-config-to={written}")
    assert done.exit_code == 0, done.output
    assert invoke("kube-scheduler", f"--config={written}", f"--write-config-to={again}").exit_code == 0
    assert started == []
    found = yaml.safe_load(written.read_text())
    assert found == yaml.safe_load(again.read_text())
    assert [profile["schedulerName"] for profile in found["profiles"]] == (
        ["first", "second"] if given else ["default-scheduler"]
    )
    assert found["leaderElection"]["resourceName"] == "kube-scheduler"
    assert found["leaderElection"]["renewDeadline"] == ("12s" if given else "10s")


def test_writing_the_configuration_says_what_has_no_effect(tmp_path):
    file = tmp_path / "scheduler.yaml"
    file.write_text(f"{CONFIGURATION}  pluginConfig: [{{name: NoddeAffinity}}]\nparallelism: 3\n")
    flags = [f"--config={file}", f"--write-config-to={tmp_path}/written.yaml", "--kubeconfig=/else"]
    command = [sys.executable, "-m", "podwright", "kube-scheduler", *flags]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    assert "--config: parallelism: has no effect" in done.stderr
    assert "plugin 'NoddeAffinity' does not exist (did you mean 'NodeAffinity'?)" in done.stderr
    assert "--kubeconfig has no effect" in done.stderr


def test_the_plugin_that_kube_scheduler_has_only_with_a_gate_is_written_only_with_it(tmp_path):
    for gate, expected in (("false", False), ("true", True)):
        written = tmp_path / gate
        assert (
            invoke(
                "kube-scheduler", f"--feature-gates=GenericWorkload={gate}", f"--write-config-to={written}"
            ).exit_code
            == 0
        )
        assert ("GangScheduling" in written.read_text()) is expected


def test_a_configuration_whose_extender_lacks_its_certificate_is_not_written(tmp_path):
    file, written = tmp_path / "scheduler.yaml", tmp_path / "written.yaml"
    file.write_text(f"{CONFIGURATION}extenders: [{{urlPrefix: 'https://x/', tlsConfig: {{keyFile: /no/key}}}}]\n")
    done = invoke("kube-scheduler", f"--config={file}", f"--write-config-to={written}")
    assert (done.exit_code, written.exists()) == (1, False)
    assert "extender https://x/: tlsConfig.keyFile: /no/key: No such file or directory" in said(done)


def test_a_profile_that_cannot_be_used_has_the_same_text_with_and_without_the_flag(tmp_path):
    file = tmp_path / "scheduler.yaml"
    start, profile = CONFIGURATION.split("profiles:", maxsplit=1)[0], "[{plugins: {score: {enabled: [{name: Nope}]}}}]"
    file.write_text(f"{start}profiles: {profile}\n")
    done = invoke("kube-scheduler", f"--config={file}", f"--write-config-to={tmp_path}/written.yaml")
    problem = f"--config: {file}: profiles[0].plugins.score.enabled: plugin 'Nope' does not exist"
    assert (done.exit_code, done.output) == (1, f"Error: {problem}\n")
    with pytest.raises(RegistryError) as caught:
        check_profiles(Options(config=CONFIGURATION_FILE.parse(str(file)), leader_elect=False), PLUGINS)
    assert str(caught.value) == problem


def test_a_configuration_that_cannot_be_written_is_an_error(started, tmp_path):
    done = invoke("kube-scheduler", f"--write-config-to={tmp_path}/no/such/folder")
    assert done.exit_code == 1
    assert "No such file or directory" in said(done)
