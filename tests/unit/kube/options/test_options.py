"""Options: the flags of `podwright run`, the environment variables and the documentation, which come from one
definition.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from podwright import __version__
from podwright.api.configuration.load import load_configuration
from podwright.cli.commands.kube_scheduler import kube_scheduler
from podwright.cli.commands.run import run
from podwright.cli.docs import options_page
from podwright.cli.main import main
from podwright.core.queue import Waits
from podwright.kube.client.errors import ConfigError
from podwright.kube.options.options import IN_CONFIGURATION, OPTIONS, Options
from podwright.kube.options.values import CertificateForNames, OptionsError
from podwright.kube.runtime import Runtime

FOLDERS = (str(Path(__file__).parent), str(Path(__file__).parents[1] / "watch"))

WRITTEN = {
    "kubeconfig": "k",
    "master": "https://192.0.2.1:6443/",
    "emulated_version": "kube=1.36",
    "page": "false",
    "shadow_only": "true",
    "permit_port_sharing": "t",
    "disable_http2_serving": "true",
    "http2_max_streams_per_connection": "9",
    "permit_address_sharing": "true",
    "profiling": "false",
    "contention_profiling": "0",
    "kube_api_qps": "7.5",
    "kube_api_burst": "20",
    "kube_api_content_type": "application/json",
    "min_compatibility_version": "1.35",
    "allow_metric_labels": "metric1,label1='v1,v2'",
    "allow_metric_labels_manifest": "labels.yaml",
    "disabled_metrics": "one, two",
    "show_hidden_metrics_for_version": "1.36",
    "log_flush_frequency": "5s",
    "log_json_info_buffer_size": "4Ki",
    "log_json_split_stream": "false",
    "log_text_info_buffer_size": "0",
    "log_text_split_stream": "true",
    "context": "c",
    "pod_intake": "watch",
    "scheduler_name": "mine",
    "allowed_scheduler_names": "ml-*, default-scheduler",
    "allow_unsafe_policies": "True",
    "when_policy_is_bad": "default",
    "feature_gates": "OpportunisticBatching=false",
    "health_address": ":10251",
    "pod_uid": "8f14e45f-ceea-467f-a9c3-0242ac120002",
    "bind_address": "127.0.0.1",
    "secure_port": "10259",
    "cert_dir": "certs",
    "tls_cert_file": "tls.crt",
    "tls_private_key_file": "tls.key",
    "tls_min_version": "VersionTLS13",
    "tls_cipher_suites": "TLS_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "client_ca_file": "ca.crt",
    "tls_curve_preferences": "23, 29",
    "tls_sni_cert_key": "a.crt,a.key;b.crt,b.key:*.Example.com,192.0.2.1",
    "requestheader_client_ca_file": "proxies.crt",
    "requestheader_allowed_names": "front-proxy-client, other",
    "requestheader_username_headers": "X-Remote-User,X-User",
    "requestheader_uid_headers": "X-Remote-Uid",
    "requestheader_group_headers": "X-Group",
    "requestheader_extra_headers_prefix": "X-Extra-",
    "authentication_kubeconfig": "a.conf",
    "authentication_skip_lookup": "true",
    "authentication_tolerate_lookup_failure": "false",
    "authentication_token_webhook_cache_ttl": "1m",
    "authorization_kubeconfig": "b.conf",
    "authorization_always_allow_paths": "/livez, metrics*",
    "authorization_webhook_cache_authorized_ttl": "5m",
    "authorization_webhook_cache_unauthorized_ttl": "30s",
    "grace": "7.5",
    "extender_attempts": "3",
    "scheduled_events_per_second": "50",
    "plugin_dirs": ":".join(FOLDERS),
    "gather_after": "5m",
    "plugin_budget": "100ms",
    "plugin_state_dir": FOLDERS[0],
    "queue_sort": "Smallest",
    "pod_initial_backoff_seconds": "2",
    "pod_max_backoff_seconds": "30",
    "pod_max_in_unschedulable_pods_duration": "1m30s",
    "log_level": "Debug",
    "logging_format": "text",
    "verbosity": "4",
    "vmodule": "failures=5,podwright.kube.*=2",
    "leader_elect": "true",
    "leader_elect_lease_duration": "30s",
    "leader_elect_renew_deadline": "20s",
    "leader_elect_retry_period": "1s500ms",
    "leader_elect_resource_lock": "leases",
    "leader_elect_resource_name": "mine",
    "leader_elect_resource_namespace": "theirs",
}
"""A value for each option, as a user writes it."""
MEANT = Options(
    kubeconfig="k",
    master="https://192.0.2.1:6443",
    emulated_version=36,
    page=False,
    shadow_only=True,
    permit_port_sharing=True,
    disable_http2_serving=True,
    http2_max_streams_per_connection=9,
    permit_address_sharing=True,
    profiling=False,
    contention_profiling=False,
    kube_api_qps=7.5,
    kube_api_burst=20,
    kube_api_content_type="application/json",
    min_compatibility_version=35,
    allow_metric_labels="metric1,label1='v1,v2'",
    allow_metric_labels_manifest="labels.yaml",
    disabled_metrics=("one", "two"),
    show_hidden_metrics_for_version="1.36",
    log_flush_frequency=5.0,
    log_json_info_buffer_size=4096,
    log_json_split_stream=False,
    log_text_info_buffer_size=0,
    log_text_split_stream=True,
    context="c",
    pod_intake="watch",
    scheduler_name="mine",
    allowed_scheduler_names=("ml-*", "default-scheduler"),
    allow_unsafe_policies=True,
    when_policy_is_bad="default",
    feature_gates={"OpportunisticBatching": False},
    health_address=("", 10251),
    pod_uid="8f14e45f-ceea-467f-a9c3-0242ac120002",
    bind_address="127.0.0.1",
    secure_port=10259,
    cert_dir="certs",
    tls_cert_file="tls.crt",
    tls_private_key_file="tls.key",
    tls_min_version="VersionTLS13",
    tls_cipher_suites=("TLS_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
    client_ca_file="ca.crt",
    tls_curve_preferences=(23, 29),
    tls_sni_cert_key=(
        CertificateForNames("a.crt", "a.key"),
        CertificateForNames("b.crt", "b.key", ("*.example.com", "192.0.2.1")),
    ),
    requestheader_client_ca_file="proxies.crt",
    requestheader_allowed_names=("front-proxy-client", "other"),
    requestheader_username_headers=("X-Remote-User", "X-User"),
    requestheader_uid_headers=("X-Remote-Uid",),
    requestheader_group_headers=("X-Group",),
    requestheader_extra_headers_prefix=("X-Extra-",),
    authentication_kubeconfig="a.conf",
    authentication_skip_lookup=True,
    authentication_tolerate_lookup_failure=False,
    authentication_token_webhook_cache_ttl=60.0,
    authorization_kubeconfig="b.conf",
    authorization_always_allow_paths=("/livez", "/metrics*"),
    authorization_webhook_cache_authorized_ttl=300.0,
    authorization_webhook_cache_unauthorized_ttl=30.0,
    grace=7.5,
    extender_attempts=3,
    scheduled_events_per_second=50,
    plugin_dirs=FOLDERS,
    gather_after=300.0,
    plugin_budget=0.1,
    plugin_state_dir=FOLDERS[0],
    queue_sort="Smallest",
    pod_initial_backoff_seconds=2,
    pod_max_backoff_seconds=30,
    pod_max_in_unschedulable_pods_duration=90.0,
    leader_elect=True,
    leader_elect_lease_duration=30.0,
    leader_elect_renew_deadline=20.0,
    leader_elect_retry_period=1.5,
    leader_elect_resource_lock="leases",
    leader_elect_resource_name="mine",
    leader_elect_resource_namespace="theirs",
)

LOGGING = {
    "log_level": "debug",
    "logging_format": "text",
    "verbosity": 4,
    "vmodule": (("failures", 5), ("podwright.kube.*", 2)),
}
"""The options that `kopf run` replaces by its own, as meant in WRITTEN."""

NOT_SAMPLED = ("config", "extenders", "signals", "write_config_to")
"""--extenders and --signals need a file, --config contradicts other options, and --write-config-to starts nothing."""
SAMPLED = [option for option in OPTIONS if option.name not in NOT_SAMPLED]
CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
podInitialBackoffSeconds: 3
podMaxBackoffSeconds: 7
clientConnection: {kubeconfig: from-the-file}
profiles: [{schedulerName: first}, {schedulerName: second}]
"""


@pytest.fixture
def configuration(tmp_path):
    """The path of a configuration file."""
    path = tmp_path / "scheduler.yaml"
    path.write_text(CONFIGURATION)
    return path


def flags():
    """The command line that says the same as WRITTEN."""
    for option in SAMPLED:
        for text in WRITTEN[option.name].split(option.type.separator) if option.repeatable else [WRITTEN[option.name]]:
            yield f"{option.flag}={text}"


def variables():
    return {option.variable: WRITTEN[option.name] for option in SAMPLED}


def test_every_option_has_a_sample_here():
    assert {option.name for option in OPTIONS} - WRITTEN.keys() == {*NOT_SAMPLED}


def test_flags_and_variables_mean_the_same(started):
    assert Options.from_environment(variables()) == MEANT
    for arguments, environ in (([*flags()], {}), ([], variables())):
        done = CliRunner().invoke(main, ["run", *arguments], env=environ)
        assert done.exit_code == 0, done.output
    expected = {option.name: getattr(MEANT, option.name) for option in SAMPLED} | LOGGING
    assert started == [Options(**expected)] * 2


def test_a_flag_wins_over_its_variable(started):
    CliRunner().invoke(main, ["run", "--grace=1"], env={"PODWRIGHT_GRACE": "2"})
    assert [options.grace for options in started] == [1.0]


def test_a_switch_needs_no_value(started):
    for arguments in (
        ["--allow-unsafe-policies"],
        ["--allow-unsafe-policies", "--grace=1"],
        ["--allow-unsafe-policies=false"],
    ):
        assert CliRunner().invoke(main, ["run", *arguments]).exit_code == 0
    assert [options.allow_unsafe_policies for options in started] == [True, True, False]


def test_defaults_are_the_same_everywhere(started):
    CliRunner().invoke(main, ["run"])
    assert started == [Options()]
    assert Options.from_environment({}) == Options()
    assert Options.from_environment(dict.fromkeys(variables(), "")) == Options()


def test_flags_are_those_of_the_definitions():
    own = [parameter.opts for parameter in run.params if parameter.expose_value]
    assert own == [[*filter(None, (option.flag, option.short))] for option in OPTIONS]
    assert [parameter.opts for parameter in kube_scheduler.params] == [parameter.opts for parameter in run.params]


@pytest.mark.parametrize("arguments", [[], ["--check"], ["--help"]], ids=" ".join)
def test_the_page_is_written_only_to_a_named_file(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        options_page.main(arguments)
    assert "usage: python -m podwright.cli.docs.options_page [-h] [--check] FILE" in "".join(capsys.readouterr())
    assert list(tmp_path.iterdir()) == []


def test_the_documentation_is_what_the_definitions_say(tmp_path):
    page = Path(__file__).parents[4] / "docs" / "options.md"
    assert options_page.main(["--check", str(page)]) == 0
    assert all(f"{option.flag} " in page.read_text(encoding="utf-8") for option in OPTIONS)
    (tmp_path / "old.md").write_text("another text", encoding="utf-8")
    assert options_page.main(["--check", str(tmp_path / "old.md")]) == 1
    assert options_page.main([str(tmp_path / "new.md")]) == 0
    assert (tmp_path / "new.md").read_text(encoding="utf-8") == page.read_text(encoding="utf-8")


def test_an_empty_scheduler_name_is_rejected():
    done = CliRunner().invoke(main, ["run", "--scheduler-name="])
    assert "'--scheduler-name': the scheduler name must not be empty" in done.output


def test_an_initial_backoff_greater_than_the_maximum_is_rejected():
    problem = "--pod-max-backoff-seconds must not be less than --pod-initial-backoff-seconds"
    with pytest.raises(OptionsError, match=problem):
        Options.from_environment({"PODWRIGHT_POD_INITIAL_BACKOFF_SECONDS": "11"})
    done = CliRunner().invoke(main, ["run", "--pod-initial-backoff-seconds=5", "--pod-max-backoff-seconds=4"])
    assert f"Error: {problem}" in done.output


def test_a_kubeconfig_that_does_not_exist_ends_the_start():
    done = CliRunner().invoke(main, ["run", "--kubeconfig", "/no/such/file"])
    assert done.exit_code == 1
    assert "/no/such/file does not exist" in done.output


def test_a_missing_plugin_directory_is_reported_before_the_kubeconfig_is_read():
    done = CliRunner().invoke(main, ["run", "--kubeconfig=/no/such/file", "--plugin-dir=/no/such/folder"])
    assert done.exit_code == 1
    assert "'/no/such/folder' is not a directory" in done.output
    assert "/no/such/file" not in done.output


def test_the_waits_of_the_queue():
    assert Options().waits == Waits(1, 10, 300)
    assert MEANT.waits == Waits(2, 30, 90)


def test_the_version():
    assert CliRunner().invoke(main, ["version"]).output == f"{__version__}\n"


def test_a_configuration_file_sets_profiles_backoffs_and_the_kubeconfig(configuration, started):
    done = CliRunner().invoke(main, ["run", f"--config={configuration}"])
    assert done.exit_code == 0, done.output
    (options,) = started
    assert options.policies.scheduler_names == ["first", "second"]
    assert options.waits == Waits(3.0, 7.0, 300.0)
    assert options.kubeconfig_file == "from-the-file"


@pytest.mark.parametrize(
    ("command", "beside"), [("run", ""), ("kube-scheduler", " beside --config, as with kube-scheduler")]
)
def test_the_kubeconfig_of_the_file_wins_over_the_flag(configuration, started, command, beside):
    CliRunner().invoke(main, [command, f"--config={configuration}", "--kubeconfig=from-the-flag"])
    assert [options.kubeconfig_file for options in started] == ["from-the-file"]
    assert [*started[0].warnings] == [
        f"--kubeconfig has no effect{beside}: clientConnection.kubeconfig of {configuration} counts"
    ]


@pytest.mark.parametrize(("command", "expected"), [("run", "from-the-flag"), ("kube-scheduler", None)])
def test_a_file_without_a_kubeconfig(tmp_path, started, command, expected):
    """kube-scheduler never uses the flag beside a file."""
    file = tmp_path / "scheduler.yaml"
    file.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    CliRunner().invoke(main, [command, f"--config={file}", "--kubeconfig=from-the-flag"])
    assert [options.kubeconfig_file for options in started] == [expected]


def test_kube_scheduler_says_that_the_file_names_no_kubeconfig(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    file = tmp_path / "scheduler.yaml"
    file.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    config = load_configuration(file.read_bytes(), path=str(file))
    given = {"kubeconfig": "from-the-flag", "config": config}
    options = Options(**given, scheduler_name="default-scheduler", as_kube_scheduler=True)
    field = f"clientConnection.kubeconfig of {file}"
    assert [*options.warnings] == [
        f"--kubeconfig has no effect beside --config, as with kube-scheduler: {field} counts, which is not set"
    ]
    with pytest.raises(ConfigError, match=re.escape(f"no kubeconfig was found ({field}, KUBECONFIG, ~/.kube/config)")):
        Runtime(options)
    assert Options(**given).kubeconfig_named_by == f"--kubeconfig, {field}"


@pytest.mark.parametrize("name", IN_CONFIGURATION)
def test_a_flag_that_the_file_replaces_contradicts_it(configuration, started, name):
    (option,) = (each for each in OPTIONS if each.name == name)
    done = CliRunner().invoke(main, ["run", f"--config={configuration}", f"{option.flag}={WRITTEN[name]}"])
    assert done.exit_code == 1
    problem = f"{option.flag} and --config contradict each other: write it into the file, as {IN_CONFIGURATION[name]}"
    assert problem in " ".join(done.output.split())
    assert started == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(
            "parallelism: 0", "parallelism: Invalid value: 0: should be an integer value greater", id="a value"
        ),
        pytest.param("nope: 0", "nope: unknown field", id="a field"),
        pytest.param(
            "extenders: [{urlPrefix: 'http://127.0.0.1/', prioritizeVerb: prioritize}]",
            "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it",
            id="an extender",
        ),
        pytest.param("profiles: [", "the file is not valid YAML", id="a file that is no YAML"),
    ],
)
def test_an_invalid_configuration_file_ends_the_start_with_its_field(tmp_path, started, text, problem):
    path = tmp_path / "scheduler.yaml"
    path.write_text(f"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n{text}\n")
    done = CliRunner().invoke(main, ["run", f"--config={path}"])
    assert done.exit_code == 1
    assert problem in " ".join(done.output.split())
    assert started == []


def test_a_configuration_file_that_does_not_exist_is_named(started):
    done = CliRunner().invoke(main, ["run", "--config=/not/here.yaml"])
    assert "/not/here.yaml: No such file or directory" in " ".join(done.output.split())
    assert started == []


@pytest.mark.parametrize("arguments", [["-v=3"], ["-v", "3"], ["-v3"], ["--v=3"], ["--v", "3"]], ids=" ".join)
def test_verbosity_is_written_as_for_klog(started, arguments):
    assert CliRunner().invoke(main, ["run", *arguments]).exit_code == 0
    assert [options.verbosity for options in started] == [3]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--vmodule=a=1", "--logging-format=json"], "--vmodule: Forbidden: Only supported for text log format"),
        (["--v=2", "--log-level=warning"], "--v=2 and --log-level=warning contradict each other"),
    ],
)
def test_options_of_logs_that_contradict_each_other_are_an_error(started, arguments, problem):
    done = CliRunner().invoke(main, ["run", *arguments])
    assert done.exit_code == 1
    assert problem in " ".join(done.output.replace("\u2502", " ").split())
    assert started == []
