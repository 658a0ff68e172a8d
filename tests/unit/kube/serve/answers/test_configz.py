"""/configz shows what is in use, and no credentials."""

from __future__ import annotations

import base64
import json

import orjson

from podwright.api.compile import built_in_policy, compile_policy
from podwright.api.configuration.load import load_configuration
from podwright.api.scheduler_policy import parse_policy
from podwright.core.framework.features import Features
from podwright.core.plugins import PLUGINS
from podwright.kube.options.options import Options
from podwright.kube.serve.answers.configz import configuration

FEATURES = Features({}, None)
DEFAULT = built_in_policy(PLUGINS, FEATURES)


def _pem(kind):
    return base64.b64encode(f"-----BEGIN {kind}-----\nc2VjcmV0\n-----END {kind}-----\n".encode()).decode()


def shown(options, active=()):
    return orjson.loads(orjson.dumps(configuration(options, [DEFAULT], active)))


def test_the_built_in_profile_is_shown_with_weights_and_args():
    found = shown(Options(pod_max_backoff_seconds=30))["componentconfig"]
    assert (found["apiVersion"], found["kind"]) == ("kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration")
    assert (found["podInitialBackoffSeconds"], found["podMaxBackoffSeconds"]) == (1, 30)
    assert found["leaderElection"]["leaderElect"] is False
    (profile,) = found["profiles"]
    assert profile["schedulerName"] == "podwright"
    enabled = profile["plugins"]["multiPoint"]["enabled"]
    assert {"name": "TaintToleration", "weight": 3} in enabled


def test_options_and_policies_are_shown():
    raw = {
        "metadata": {"name": "packed", "uid": "u", "generation": 4},
        "spec": {"strategy": {"type": "MostAllocated"}, "precedence": 7},
    }
    policy = compile_policy(parse_policy(raw), PLUGINS, FEATURES)
    found = shown(Options(health_address=("", 10251), feature_gates={"A": True}), [policy])["podwright"]
    assert found["options"]["health_address"] == ["", 10251]
    assert found["options"]["feature_gates"] == {"A": True}
    (shown_policy,) = found["policies"]
    assert (shown_policy["name"], shown_policy["generation"], shown_policy["precedence"]) == ("packed", 4, 7)
    args = {entry["name"]: entry["args"] for entry in shown_policy["profile"]["pluginConfig"]}
    assert args["NodeResourcesFit"]["scoringStrategy"]["type"] == "MostAllocated"


def test_the_rules_of_policies_are_shown_as_they_were_written():
    rules = {
        "filters": [{"name": "not-a", "expression": 'node.name != "a"', "message": "node(s) are reserved"}],
        "scores": [{"name": "free", "expression": "node.free.cpu", "weight": 2, "normalize": "Max"}],
    }
    raw = {"metadata": {"name": "ruled", "uid": "u", "generation": 1}, "spec": {"rules": rules}}
    policy = compile_policy(parse_policy(raw), PLUGINS, FEATURES)
    (shown_policy,) = shown(Options(), [policy])["podwright"]["policies"]
    args = {entry["name"]: entry["args"] for entry in shown_policy["profile"]["pluginConfig"]}
    assert args["PolicyRules"] == rules


def test_a_configuration_file_is_shown_without_the_keys_of_extenders():
    config = load_configuration(
        json.dumps(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "podMaxBackoffSeconds": 20,
                "clientConnection": {"kubeconfig": "/etc/scheduler.conf"},
                "extenders": [
                    {
                        "urlPrefix": "https://host",
                        "filterVerb": "filter",
                        "tlsConfig": {
                            "certData": _pem("CERTIFICATE"),
                            "keyData": _pem("PRIVATE KEY"),
                            "caFile": "/ca.crt",
                        },
                    }
                ],
            }
        ).encode()
    )
    found = shown(Options(config=config))
    assert found["componentconfig"]["podMaxBackoffSeconds"] == 20
    (extender,) = found["componentconfig"]["extenders"]
    assert extender["tlsConfig"]["caFile"] == "/ca.crt"
    assert not {"certData", "keyData"} & set(extender["tlsConfig"])
    assert found["componentconfig"]["clientConnection"]["kubeconfig"] == "/etc/scheduler.conf"
    assert "config" not in found["podwright"]["options"]


def test_the_passwords_in_urls_of_extenders_are_not_shown():
    extenders = [{"urlPrefix": "http://user:secret@host", "filterVerb": "filter"}]
    config = load_configuration(
        json.dumps(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "extenders": extenders,
            }
        ).encode()
    )
    for options in (Options(config=config), Options(extenders=config.extenders)):
        found = json.dumps(shown(options))
        assert "http://user:***@host" in found
        assert "secret" not in found


def test_flags_are_shown_in_place_of_what_the_file_says():
    config = load_configuration(
        json.dumps(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "leaderElection": {"leaderElect": True, "leaseDuration": "40s", "resourceName": "file"},
                "clientConnection": {"kubeconfig": "/etc/scheduler.conf", "qps": 7},
            }
        ).encode()
    )
    found = shown(Options(config=config))["componentconfig"]
    elected = found["leaderElection"]
    assert (elected["leaderElect"], elected["leaseDuration"], elected["resourceName"]) == (True, "40s", "file")
    given = Options(config=config, leader_elect_lease_duration=30.0, leader_elect_resource_name="x", secure_port=1)
    found = shown(given)["componentconfig"]
    assert found["leaderElection"] == elected | {"leaseDuration": "30s", "resourceName": "x"}
    assert (found["clientConnection"]["kubeconfig"], found["clientConnection"]["qps"]) == ("/etc/scheduler.conf", 7)
    assert shown(Options(kubeconfig="/k"))["componentconfig"]["clientConnection"]["kubeconfig"] == "/k"
    elected = shown(Options(leader_elect=True))["componentconfig"]["leaderElection"]
    assert (elected["leaderElect"], elected["resourceName"], elected["resourceNamespace"]) == (
        True,
        "podwright",
        "kube-system",
    )
