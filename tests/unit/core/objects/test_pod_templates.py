"""Pods of one template share the parsed parts of their specs, and pods that differ do not."""

from __future__ import annotations

import copy

import pytest

from podwright.core.objects.pod import MAX_CACHED_SPECS, SPEC_CACHE, ParsedSpec, parse_pod
from support.objects.builders import make_pod


def spec_fields(pod):
    """All fields of a PodInfo that depend only on the spec."""
    return [getattr(pod, name) for name in ParsedSpec.__slots__ if name != "brief"]


SPEC = {
    "schedulerName": "podwright",
    "containers": [{"name": "a", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
    "tolerations": [{"operator": "Exists"}],
    "nodeSelector": {"disk": "ssd"},
}


def spec(**changes):
    return copy.deepcopy(SPEC) | changes


def test_pods_of_one_template_share_the_parsed_spec():
    one, other = (parse_pod(make_pod(name, spec=spec(nodeName=f"node-of-{name}"))) for name in "ab")
    assert all(mine is theirs for mine, theirs in zip(spec_fields(one), spec_fields(other), strict=True))
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
def test_a_different_spec_is_parsed_again(changes, field):
    before, after = parse_pod(make_pod("p", spec=spec())), parse_pod(make_pod("p", spec=spec(**changes)))
    assert getattr(before, field) != getattr(after, field)


def test_affinity_terms_apply_to_the_namespace_of_the_pod():
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    one, other = (parse_pod(make_pod("p", namespace=name, spec=spec(affinity=affinity))) for name in ("here", "there"))
    assert one.pod_affinity is not other.pod_affinity


def with_token(suffix, *more):
    mount = {"name": f"kube-api-access-{suffix}", "mountPath": "/var/run/secrets"}
    volume = {"name": f"kube-api-access-{suffix}", "projected": {"sources": []}}
    return spec(containers=[{"name": "a", "image": "i", "volumeMounts": [mount]}], volumes=[volume, *more], priority=3)


def test_the_name_of_the_service_account_tokens_volume_is_ignored():
    one, other = (parse_pod(make_pod("p", spec=with_token(suffix))) for suffix in ("ab1cd", "x2y3z"))
    assert all(mine is theirs for mine, theirs in zip(spec_fields(one), spec_fields(other), strict=True))


def test_pods_with_different_ephemeral_volumes_do_not_share_them():
    def claiming(name):
        return {"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}

    one, other = (
        parse_pod(make_pod("p", spec=with_token("ab1cd", claiming(name))))
        for name in ("kube-api-access-aaaaa", "kube-api-access-bbbbb")
    )
    assert [v["name"] for v in one.volumes] != [v["name"] for v in other.volumes]


def test_the_requests_of_a_resized_pod_come_from_its_status():
    status = {"containerStatuses": [{"name": "a", "allocatedResources": {"cpu": "3"}}]}
    resized = parse_pod(make_pod("p", spec=spec(), status=status))
    assert resized.requests.amounts["cpu"] == 3000
    assert parse_pod(make_pod("p", spec=spec())).requests.amounts["cpu"] == 1000


def test_the_cache_of_specs_is_bounded():
    for number in range(3 * MAX_CACHED_SPECS):
        parse_pod(make_pod("p", spec=spec(priority=number)))
    assert len(SPEC_CACHE) <= MAX_CACHED_SPECS
