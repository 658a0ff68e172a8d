"""Extenders that the options define, and policies that name them."""

import base64
import json

import pytest

from podwright.api.configuration.extenders import load_extenders, shown_url, with_extenders
from podwright.api.configuration.load import load_configuration
from podwright.api.configuration.schema import decoded
from podwright.api.permissions import PolicySettings
from podwright.api.policy_set import PolicySet
from podwright.core.framework.args import ArgsError
from podwright.core.framework.features import Features
from podwright.core.plugins import PLUGINS

DEFINED = load_extenders(
    b"""
extenders:
- {name: gpus, urlPrefix: 'http://gpus', filterVerb: filter, managedResources: [{name: example.com/gpu, ignoredByScheduler: true}]}
- {name: spare, urlPrefix: 'http://spare', filterVerb: filter, ignorable: true, attempts: 1}
- {name: binder, urlPrefix: 'http://binder', bindVerb: bind}
- {name: other-binder, urlPrefix: 'http://other', bindVerb: bind}
- {name: more-gpus, urlPrefix: 'http://more', filterVerb: filter, managedResources: [{name: example.com/gpu}]}
"""
)


def applied(*names, settings=None):
    """The policy set with a policy that names these extenders, and what applying it has returned."""
    settings = settings or PolicySettings(extenders=DEFINED)
    policies = PolicySet(PLUGINS, Features(), built_in=settings.built_in(PLUGINS, Features()), settings=settings)
    raw = {"metadata": {"name": "p", "uid": "p", "generation": 1}, "spec": {"extenders": list(names)}}
    return policies, policies.apply(raw)


def test_a_policy_gets_the_extenders_that_it_names_those_that_may_be_ignored_last():
    policies, result = applied("spare", "gpus")
    assert result.accepted
    profile = policies.active_generation_of("p").profile
    assert profile.extenders == ("gpus", "spare")
    assert profile.args["NodeResourcesFit"].ignored_resources == ("example.com/gpu",)


def test_other_policies_get_none():
    policies, _ = applied()
    assert policies.active_generation_of("p").profile.extenders == ()
    assert policies.default.profile.extenders == ()


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        pytest.param(
            ("gpus", "nope"),
            "spec.extenders[1]: extender 'nope' is not defined; only the operator's options --extenders and --config define extenders",
            id="an unknown name",
        ),
        pytest.param(
            ("binder", "other-binder"),
            'spec.extenders: Invalid value: "found 2 extenders implementing bind": only one extender can implement bind',
            id="two that bind",
        ),
        pytest.param(
            ("gpus", "more-gpus"),
            'spec.extenders: Invalid value: "example.com/gpu": duplicate extender managed resource name',
            id="two that manage one resource",
        ),
        pytest.param(("http://gpus",), "spec.extenders[0]: extender 'http://gpus' is not defined", id="a URL"),
    ],
)
def test_a_policy_whose_extenders_cannot_be_used_is_refused(names, problem):
    _, result = applied(*names)
    assert not result.accepted
    assert problem in result.message


def test_who_asks_no_extenders_accepts_all_names_and_those_that_are_defined_still_count():
    settings = PolicySettings(extenders=DEFINED, asks_extenders=False)
    policies, result = applied("nope", "gpus", settings=settings)
    assert result.accepted
    profile = policies.active_generation_of("p").profile
    assert profile.extenders == ("gpus",)
    assert profile.args["NodeResourcesFit"].ignored_resources == ("example.com/gpu",)


def test_a_configurations_extenders_are_for_its_profiles_and_can_be_named_by_their_url():
    text = (
        b"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{schedulerName: a}, {schedulerName: b}]\n"
        b"extenders: [{urlPrefix: 'http://x', filterVerb: filter}]\n"
    )
    configuration = load_configuration(text)
    settings = PolicySettings(configuration=configuration, extenders=configuration.extenders)
    policies, result = applied("http://x", settings=settings)
    assert result.accepted
    assert [policy.profile.extenders for policy in policies.built_in] == [("http://x",)] * 2
    assert policies.active_generation_of("p").profile.extenders == ("http://x",)


def test_extenders_with_the_same_url_have_names_of_their_own():
    text = (
        b"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        b"extenders: [{urlPrefix: 'http://x', filterVerb: f}, {urlPrefix: 'http://x', filterVerb: g}]\n"
    )
    assert list(load_configuration(text).extenders) == ["http://x", "http://x#2"]


def test_the_name_of_an_extender_does_not_have_its_password():
    text = (
        b"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        b"extenders: [{urlPrefix: 'http://u:one@x', filterVerb: f}, {urlPrefix: 'http://u:two@x', filterVerb: g}]\n"
    )
    extenders = load_configuration(text).extenders
    assert list(extenders) == ["http://u:***@x", "http://u:***@x#2"]
    assert [each.settings.url_prefix for each in extenders.values()] == ["http://u:one@x", "http://u:two@x"]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://host:1/a@b?c=@d", "http://host:1/a@b?c=@d"),
        ("https://user:p@ss@host:1/path", "https://user:***@host:1/path"),
        ("http://token@host", "http://***@host"),
        ("http://:pass@[::1]:80/x", "http://:***@[::1]:80/x"),
        ("http://user:pa/ss@host/x", "***@host/x"),
        ("http://user:pass@host:port", "***@host:port"),
        ("user:pass@host", "***@host"),
        ("//user:pass@host", "***@host"),
        ("http://[user:pass@host", "***@host"),
    ],
)
def test_shown_urls(url, shown):
    assert shown_url(url) == shown


def test_a_profile_without_extenders_stays_as_it_is():
    (built_in,) = PolicySettings().built_in(PLUGINS, Features())
    assert with_extenders(built_in.profile, (), PLUGINS) is built_in.profile


PEM = "-----BEGIN CERTIFICATE-----\n" + "c2VjcmV0" * 12 + "\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        pytest.param(
            {"httpTimeout": "fast"}, 'extenders[0]: httpTimeout: time: invalid duration "fast"', id="duration"
        ),
        pytest.param({"tlsConfig": {"caData": "!!"}}, "extenders[0].tlsConfig.caData: is not base64", id="no base64"),
        pytest.param({"tlsConfig": {"keyData": "YQ"}}, "extenders[0].tlsConfig.keyData: is not base64", id="cut"),
        pytest.param(
            {"tlsConfig": {"certData": "YQ=="}}, "extenders[0].tlsConfig.certData: has no PEM block", id="PEM"
        ),
        pytest.param({"tlsConfig": {"caData": base64.encodebytes(PEM.encode()).decode()}}, "", id="lines, as in Go"),
    ],
)
def test_problems_of_fields_name_them(settings, problem):
    content = {"extenders": [{"name": "gpus", "urlPrefix": "http://gpus", **settings}]}
    if not problem:
        assert decoded(load_extenders(json.dumps(content).encode())["gpus"].settings.tls_config.ca_data) == PEM.encode()
        return
    with pytest.raises(ArgsError) as caught:
        load_extenders(json.dumps(content).encode())
    assert problem in str(caught.value)
