"""Pods of one template share what their spec says; what makes pods differ is never shared."""

from __future__ import annotations

import copy

import pytest

from podwright.core.objects import pod as pods
from podwright.core.objects.pod import parse_pod
from support.objects.builders import make_pod


def told(parsed):
    """All fields of a PodInfo that the spec decides."""
    return [getattr(parsed, name) for name in pods._Spec.__slots__]


SPEC = {
    "schedulerName": "podwright",
    "containers": [{"name": "a", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
    "tolerations": [{"operator": "Exists"}],
    "nodeSelector": {"disk": "ssd"},
}


def spec(**changes):
    return copy.deepcopy(SPEC) | changes


def test_pods_of_one_template_share_all_that_the_spec_says():
    one, other = (parse_pod(make_pod(name, spec=spec(nodeName=f"node-of-{name}"))) for name in "ab")
    assert all(mine is theirs for mine, theirs in zip(told(one), told(other), strict=True))
    assert (one.node_name, other.node_name) == ("node-of-a", "node-of-b")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        pytest.param({"priority": 7}, "priority", id="another priority"),
        pytest.param({"schedulerName": "other"}, "scheduler_name", id="another scheduler"),
        pytest.param({"tolerations": []}, "tolerations", id="other tolerations"),
        pytest.param({"nodeSelector": {"disk": "hdd"}}, "node_affinity", id="another node selector"),
        pytest.param({"schedulingGates": [{"name": "g"}]}, "gates", id="a gate"),
        pytest.param(
            {"containers": [{"name": "a", "image": "i", "resources": {"requests": {"cpu": "2"}}}]},
            "requests",
            id="other requests",
        ),
    ],
)
def test_another_spec_is_parsed_anew(changes, field):
    before, after = parse_pod(make_pod("p", spec=spec())), parse_pod(make_pod("p", spec=spec(**changes)))
    assert getattr(before, field) != getattr(after, field)


def test_affinity_counts_in_the_pods_own_namespace():
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    one, other = (parse_pod(make_pod("p", namespace=name, spec=spec(affinity=affinity))) for name in ("here", "there"))
    assert one.pod_affinity is not other.pod_affinity


def with_token(suffix, *more):
    mount = {"name": f"kube-api-access-{suffix}", "mountPath": "/var/run/secrets"}
    volume = {"name": f"kube-api-access-{suffix}", "projected": {"sources": []}}
    return spec(containers=[{"name": "a", "image": "i", "volumeMounts": [mount]}], volumes=[volume, *more], priority=3)


def test_the_volume_of_the_service_accounts_token_makes_no_difference():
    one, other = (parse_pod(make_pod("p", spec=with_token(suffix))) for suffix in ("ab1cd", "x2y3z"))
    assert all(mine is theirs for mine, theirs in zip(told(one), told(other), strict=True))


def test_names_of_volumes_that_matter_are_kept_apart():
    def claiming(name):
        return {"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}

    one, other = (
        parse_pod(make_pod("p", spec=with_token("ab1cd", claiming(name))))
        for name in ("kube-api-access-aaaaa", "kube-api-access-bbbbb")
    )
    assert [v["name"] for v in one.volumes] != [v["name"] for v in other.volumes]


def test_a_resized_pod_asks_for_what_its_status_says():
    status = {"containerStatuses": [{"name": "a", "allocatedResources": {"cpu": "3"}}]}
    resized = parse_pod(make_pod("p", spec=spec(), status=status))
    assert resized.requests.amounts["cpu"] == 3000
    assert parse_pod(make_pod("p", spec=spec())).requests.amounts["cpu"] == 1000


def test_few_specs_are_kept():
    for number in range(3 * pods._KEPT_SPECS):
        parse_pod(make_pod("p", spec=spec(priority=number)))
    assert len(pods._kept_specs) <= pods._KEPT_SPECS
