"""Errors in files and flags end the start with a message that names the file or flag, and with exit status 1. No API
server is asked.
"""

from __future__ import annotations

import re

import pytest
import yaml
from click.testing import CliRunner

from podwright.cli.main import main
from podwright.testing.processes import free_port
from support.serve.certificates import Authority

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
CA = Authority()
NOWHERE = "https://127.0.0.1:1"
"""No API server."""


@pytest.fixture
def kubeconfig(tmp_path):
    """A kubeconfig with one context, for a server that does not answer."""
    file = tmp_path / "scheduler.conf"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": NOWHERE}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "known", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "known",
    }
    file.write_text(yaml.safe_dump(content))
    return file


@pytest.fixture
def start(kubeconfig):
    """Starts a scheduler with these flags, and returns its error in one line."""

    def started(*flags, command="kube-scheduler"):
        given = [f"--kubeconfig={kubeconfig}", "--bind-address=127.0.0.1", f"--secure-port={free_port()}"]
        done = CliRunner().invoke(main, [command, *given, *flags])
        assert done.exit_code == 1, done.output
        assert "Traceback" not in done.output
        assert done.exception is None or isinstance(done.exception, SystemExit)
        return re.sub(r"\s+", " ", done.output.rpartition("Error: ")[2])

    return started


def profiles(*entries):
    return HEADER + yaml.safe_dump({"clientConnection": {"kubeconfig": NOWHERE}, "profiles": list(entries)})


def sorts(*names):
    return {"queueSort": {"disabled": [{"name": "*"}], "enabled": [{"name": name} for name in names]}}


FILES = [
    pytest.param(HEADER + f"#{' ' * (1 << 20)}", "the file is larger than 1048576 bytes", id="more than 1 MiB"),
    pytest.param(
        HEADER + f"unknown: {'x' * ((1 << 20) - len(HEADER) - 9)}", "unknown: unknown field", id="1 MiB in one value"
    ),
    pytest.param(
        HEADER + "profiles:\n" + "- {schedulerName: s}\n" * 49_900,
        "profiles[1].schedulerName: Duplicate value",
        id="1 MiB of profiles",
    ),
    pytest.param("[" * (1 << 20), "line 1: the file is nested more than 50 levels deep", id="1 MiB of brackets"),
    pytest.param(
        HEADER + "parallelism: 1\nparallelism: 2\n", "line 4: key 'parallelism' is given twice", id="keys given twice"
    ),
    pytest.param(
        HEADER + "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 9)),
        "the file has more than 100000 values",
        id="values that refer to others",
    ),
    pytest.param(
        "apiVersion: v1\nkind: ConfigMap\ndata: {}\n",
        "kind: 'ConfigMap' should be 'KubeSchedulerConfiguration'",
        id="another kind",
    ),
    pytest.param(
        HEADER.replace("/v1", "/v2"), "apiVersion: 'kubescheduler.config.k8s.io/v2' is not one of", id="another version"
    ),
    pytest.param("", "expected an object with apiVersion and kind", id="an empty file"),
    pytest.param(
        profiles({"schedulerName": "a"}, {"schedulerName": "b"}, {"schedulerName": "a"}),
        'profiles[2].schedulerName: Duplicate value: "profiles[0].schedulerName"',
        id="duplicate profiles",
    ),
    pytest.param(
        profiles({"plugins": sorts("PrioritySort", "DefaultBinder")}),
        "profiles[0].plugins.queueSort.Enabled: Invalid value: 2: only one queue sort plugin can be enabled",
        id="two queue sorts",
    ),
    pytest.param(
        profiles({"schedulerName": "a", "plugins": sorts("PrioritySort")}, {"schedulerName": "b"}),
        'profiles[1].plugins.queueSort: Invalid value: "": must be the same for all profiles',
        id="two profiles with different queue sorts",
    ),
    pytest.param(
        profiles({"plugins": {"score": {"enabled": [{"name": "NodeResourceFit"}]}}}),
        "profiles[0].plugins.score.enabled: plugin 'NodeResourceFit' does not exist",
        id="an unknown plugin",
    ),
    pytest.param(
        profiles({"pluginConfig": [{"name": "NodeAffinity", "args": {"unknown": 1}}]}),
        "profiles[0].pluginConfig[0].args.unknown: unknown field",
        id="an unknown argument",
    ),
]


@pytest.mark.parametrize("command", ["kube-scheduler", "run"])
@pytest.mark.parametrize(("text", "problem"), FILES)
def test_a_bad_configuration_is_named(start, kubeconfig, tmp_path, text, problem, command):
    file = tmp_path / "scheduler.yaml"
    file.write_text(text.replace(NOWHERE, str(kubeconfig)))
    found = start(f"--config={file}", command=command)
    assert problem in found
    assert len(found) < 2_000


def test_a_kubeconfig_that_is_no_file_is_named(start, tmp_path):
    assert start(f"--kubeconfig={tmp_path}") == f"the kubeconfig {tmp_path} is not a file "
    assert start(f"--kubeconfig={tmp_path}/no") == f"the kubeconfig {tmp_path}/no does not exist "


def test_a_context_that_the_kubeconfig_does_not_have_is_named(start, kubeconfig):
    assert start("--context=missing") == f"kubeconfig {kubeconfig}: contexts: there is no entry 'missing' "
    content = yaml.safe_load(kubeconfig.read_text()) | {"current-context": "gone"}
    kubeconfig.write_text(yaml.safe_dump(content))
    assert start() == f"kubeconfig {kubeconfig}: contexts: there is no entry 'gone' "
    kubeconfig.write_text(yaml.safe_dump({key: value for key, value in content.items() if key != "current-context"}))
    assert start() == f"kubeconfig {kubeconfig}: current-context: is not set "


@pytest.mark.parametrize("flag", ["--authentication-kubeconfig", "--authorization-kubeconfig"])
def test_a_kubeconfig_for_reviews_is_checked_like_the_other(start, kubeconfig, tmp_path, flag):
    assert "/no/such does not exist" in start(f"{flag}=/no/such")
    other = tmp_path / "other.conf"
    other.write_text(kubeconfig.read_text().replace("current-context: known", "current-context: gone"))
    assert start(f"{flag}={other}") == f"kubeconfig {other}: contexts: there is no entry 'gone' "


CERTIFICATES = [
    pytest.param(CA.server().certificate, CA.server().key, "KEY_VALUES_MISMATCH", id="the key of another certificate"),
    pytest.param(CA.server(days=-1).certificate, None, "has expired on ", id="an expired certificate"),
    pytest.param("garbage", CA.server().key, "is not a certificate", id="garbage for a certificate"),
    pytest.param(CA.server().certificate, "garbage", "cannot be used", id="garbage for a key"),
    pytest.param("", "", "is not a certificate", id="empty files"),
]


@pytest.mark.parametrize(("certificate", "key", "problem"), CERTIFICATES)
@pytest.mark.parametrize("named", [False, True], ids=["the default certificate", "a certificate for names"])
def test_a_bad_certificate_is_named(start, tmp_path, certificate, key, problem, named):
    expired = CA.server(days=-1)
    texts = (certificate, key) if key is not None else (expired.certificate, expired.key)
    files = tmp_path / "tls.crt", tmp_path / "tls.key"
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    flags = [f"--tls-cert-file={files[0]}", f"--tls-private-key-file={files[1]}"]
    found = start(*([f"--tls-sni-cert-key={files[0]},{files[1]}"] if named else flags))
    assert f"{files[0]} " in found
    assert problem in found


@pytest.mark.parametrize("flag", ["--client-ca-file", "--requestheader-client-ca-file"])
def test_bad_issuers_of_client_certificates_are_named(start, tmp_path, flag):
    file = tmp_path / "ca.crt"
    assert start(f"{flag}={file}") == f"cannot read {file}: No such file or directory "
    for text, problem in (("garbage", "cannot be used"), ("\u00e9", "is not PEM"), ("x" * (1 << 21), "is larger than")):
        file.write_text(text)
        found = start(f"{flag}={file}")
        assert str(file) in found
        assert problem in found


CONTRADICTIONS = [
    pytest.param(["--tls-cert-file=a"], ("tls-cert-file", "tls-private-key-file"), id="a certificate without its key"),
    pytest.param(
        ["--leader-elect-lease-duration=5s"],
        ("--leader-elect-lease-duration", "--leader-elect-renew-deadline"),
        id="a Lease that is shorter than the deadline",
    ),
    pytest.param(
        ["--leader-elect-retry-period=9s"],
        ("--leader-elect-renew-deadline", "--leader-elect-retry-period"),
        id="a pause that is longer than the deadline",
    ),
    pytest.param(
        ["--pod-initial-backoff-seconds=9", "--pod-max-backoff-seconds=3"],
        ("pod-max-backoff-seconds", "pod-initial-backoff-seconds"),
        id="backoffs",
    ),
    pytest.param(
        ["--emulated-version=1.34", "--min-compatibility-version=1.35"],
        ("--emulated-version", "--min-compatibility-version"),
        id="versions",
    ),
    pytest.param(["--v=3", "--log-level=error"], ("--v=3", "--log-level=error"), id="verbosity and level"),
    pytest.param(["--vmodule=a=3", "--logging-format=json"], ("--vmodule", "text log format"), id="format of the log"),
    pytest.param(
        ["--requestheader-uid-headers=X-Uid"], ("--requestheader-uid-headers", "X-Remote-Uid"), id="headers of proxies"
    ),
]


@pytest.mark.parametrize(("flags", "named"), CONTRADICTIONS)
def test_flags_that_contradict_each_other_are_named(start, flags, named):
    found = start(*flags)
    assert all(name in found for name in named), found


@pytest.mark.parametrize(
    "flag",
    ["--scheduler-name=x", "--queue-sort=x", "--pod-initial-backoff-seconds=3", "--pod-max-backoff-seconds=30"],
)
@pytest.mark.parametrize("command", ["kube-scheduler", "run"])
def test_flags_that_contradict_the_file_are_named(start, tmp_path, flag, command):
    file = tmp_path / "scheduler.yaml"
    file.write_text(HEADER)
    found = start(f"--config={file}", flag, command=command)
    assert f"{flag.partition('=')[0]} and --config contradict each other" in found
