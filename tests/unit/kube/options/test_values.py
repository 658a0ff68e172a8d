"""How the values of options are written: by flag and by variable, with the same errors."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from podwright.cli.main import main
from podwright.kube.options.options import OPTIONS, Options
from podwright.kube.options.values import OptionsError, parse_feature_gates

INVALID = [
    ("bind_address", "here", "'here' is not an IP address"),
    ("secure_port", "65536", "'65536' is not a port from 0 to 65535"),
    ("secure_port", "-1", "'-1' is not a port from 0 to 65535"),
    ("tls_min_version", "VersionTLS9", "'VersionTLS9' is not one of"),
    ("tls_cipher_suites", "TLS_AES_128_GCM_SHA256,NULL", "unknown cipher suite 'NULL'"),
    ("authorization_always_allow_paths", "/me*s", "'/me"),
    ("authentication_token_webhook_cache_ttl", "10", "'10' is not a duration such as 5m or 1m30s"),
    ("logging_format", "xml", "'xml' is not one of text, json"),
    ("verbosity", "-1", "'-1' is not a whole number from 0 up, such as 2"),
    ("verbosity", "high", "'high' is not a whole number from 0 up, such as 2"),
    ("vmodule", "failures", "'failures' does not have the form pattern=N"),
    ("vmodule", "failures=1,=2", "'=2' does not have the form pattern=N"),
    ("tls_sni_cert_key", "a.crt", "'a.crt' does not have the form CERTIFICATE,KEY or CERTIFICATE,KEY:NAME"),
    ("tls_sni_cert_key", "a.crt,a.key:", "'a.crt,a.key:' does not have the form"),
    ("tls_curve_preferences", "P-256", "'P-256' is not a whole number"),
    ("requestheader_group_headers", "a,,b", "'a,,b' has an empty name"),
    ("pod_intake", "poll", "'poll' is not one of kopf, watch"),
    ("health_address", "80", "'80' is not host:port"),
    ("health_address", ":65536", "':65536' is not host:port"),
    ("feature_gates", "NoSuchGate=true", "unknown feature gate 'NoSuchGate'"),
    ("scheduler_name", " ", "the scheduler name must not be empty"),
    ("scheduler_name", "a,b", "'a,b' does not have the form of a DNS subdomain"),
    ("allowed_scheduler_names", "ml,a b", "'a b' is not a scheduler name"),
    ("allow_unsafe_policies", "maybe", "'maybe' is neither true nor false"),
    ("grace", "soon", "'soon' is not a number of seconds"),
    ("grace", "-1", "'-1' is not a number of seconds"),
    ("grace", "nan", "'nan' is not a number of seconds"),
    ("grace", "inf", "'inf' is not a number of seconds"),
    ("plugin_dirs", "/no/such/folder", "'/no/such/folder' is not a directory"),
    ("plugin_dirs", __file__, f"'{__file__}' is not a directory"),
    ("pod_initial_backoff_seconds", "0", "'0' is not a whole number greater than 0"),
    ("pod_initial_backoff_seconds", "1.5", "'1.5' is not a whole number greater than 0"),
    ("pod_max_backoff_seconds", "soon", "'soon' is not a whole number greater than 0"),
    ("pod_max_in_unschedulable_pods_duration", "300", "'300' is not a duration such as 5m or 1m30s"),
    ("pod_max_in_unschedulable_pods_duration", "-5m", "'-5m' is not a duration such as 5m or 1m30s"),
]


@pytest.mark.parametrize("name, text, problem", INVALID)
def test_invalid_values_are_rejected_by_flag_and_by_variable(name, text, problem):
    (option,) = [option for option in OPTIONS if option.name == name]
    with pytest.raises(OptionsError, match=f"{option.variable}: {problem}"):
        Options.from_environment({option.variable: text}) if option.under_kopf else option.parse(text)
    done = CliRunner().invoke(main, ["run", f"{option.flag}={text}"])
    assert done.exit_code == 1
    flags = " / ".join(f"'{flag}'" for flag in (option.flag, option.short) if flag)
    assert f"Invalid value for {flags}: {problem}" in done.output


@pytest.mark.parametrize(
    "text, expected",
    [
        pytest.param("", {}, id="nothing"),
        pytest.param("GenericWorkload=true", {"GenericWorkload": True}, id="one gate"),
        pytest.param(
            "GenericWorkload=True, ImageVolume=FALSE,",
            {"GenericWorkload": True, "ImageVolume": False},
            id="spaces, upper case and a comma at the end",
        ),
        pytest.param(
            "kube:GenericWorkload=t,kube:WatchList=0", {"GenericWorkload": True, "WatchList": False}, id="Go's words"
        ),
    ],
)
def test_feature_gates(text, expected):
    assert parse_feature_gates(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "NoSuchGate=true",
        "GenericWorkload",
        "GenericWorkload=yes",
        "wardle:GenericWorkload=true",
        "JobManagedBy=false",
        "kube:GenericWorkload=true,WatchList=true",
    ],
)
def test_invalid_feature_gates_are_rejected(text):
    with pytest.raises(OptionsError, match=re.split("[:=]", text)[0]):
        parse_feature_gates(text)


@pytest.mark.parametrize(
    "text, expected", [("127.0.0.1:80", ("127.0.0.1", 80)), (":10251", ("", 10251)), ("[::1]:80", ("::1", 80))]
)
def test_addresses(text, expected):
    assert Options.from_environment({"PODWRIGHT_HEALTH_ADDRESS": text}).health_address == expected
