"""The table of rights: the roles of the manifests grant exactly these, and missing ones are named."""

from __future__ import annotations

import asyncio
import logging
import re
from itertools import product
from pathlib import Path

import pytest
import yaml

from podwright.core.framework.features import AUTOMATIC, Features
from podwright.core.objects.watched_kinds import WATCHED_KINDS
from podwright.kube.client.errors import UnreachableError
from podwright.kube.kinds import BY_KIND, LOCAL_POLICY, PLUGINS_POD_GROUPS, POD_GROUPS, POLICY
from podwright.kube.options.options import Options
from podwright.kube.rights import (
    AUTHORITIES,
    NODE_LOADS,
    REVIEWS,
    SCHEDULING,
    SHADOWING,
    TOKENS,
    RightsCheck,
    election,
    params,
    reviews,
)
from support.waiting import until

MANIFESTS = Path(__file__).parents[3] / "manifests"
LEASE = ("podwright-system", "podwright")
READ = ("list", "watch")
ALWAYS = [kind for kind in WATCHED_KINDS if not kind.on_demand]


def granted(file):
    """The rights in all roles of a file, each as namespace, group, resource, name and verb."""
    found = []
    for role in yaml.safe_load_all((MANIFESTS / file).read_text(encoding="utf-8")):
        namespace = role["metadata"].get("namespace", "")
        for rule in role.get("rules", ()):
            names = rule.get("resourceNames", [""])
            found += product([namespace], rule["apiGroups"], rule["resources"], names, rule["verbs"])
    return found


def used(rights):
    return [(right.namespace, right.resource.group, right.plural, right.name, right.verb) for right in rights]


@pytest.mark.parametrize(
    ("file", "rights"),
    [
        pytest.param("base/cluster-role.yaml", SCHEDULING, id="the cluster role grants what every instance uses"),
        pytest.param("overlays/shadow/cluster-role.yaml", SHADOWING, id="that of the overlay what --shadow-only uses"),
        pytest.param("base/params-role.yaml", params(LEASE[0]), id="the other role in the namespace grants params"),
        pytest.param("overlays/signals/role.yaml", NODE_LOADS, id="the role of the overlay grants what signals use"),
        pytest.param("base/lease-role.yaml", election(*LEASE), id="the role in the namespace grants the Lease"),
    ],
)
def test_a_role_grants_exactly_what_the_scheduler_uses(file, rights):
    assert sorted(granted(file)) == sorted(used(rights))


def test_the_role_of_the_extender_only_lets_it_read_and_bind():
    kinds = [(kind.group, kind.plural) for kind in (*ALWAYS, POLICY, LOCAL_POLICY, POD_GROUPS[0], *PLUGINS_POD_GROUPS)]
    expected = {("", group, plural, "", verb) for group, plural in kinds for verb in READ}
    expected |= {("", "", "pods", "", "get"), ("", "", "pods/binding", "", "create")}
    expected |= {("scheduler-extender", "", "configmaps", "", verb) for verb in READ}
    assert set(granted("examples/extender/server.yaml")) == expected


def test_an_instance_for_policies_in_shadow_mode_writes_their_status_alone():
    assert {str(right) for right in SHADOWING if right.verb not in READ} == {
        "patch schedulerpolicies.podwright.dev/status"
    }
    assert {right.resource.kind for right in SHADOWING} >= {kind.kind for kind in ALWAYS}


def test_every_watched_kind_is_read_and_every_right_says_what_is_lost_without_it():
    reads = {(right.resource.kind, right.verb) for right in SCHEDULING}
    assert {(kind.kind, verb) for kind in WATCHED_KINDS for verb in READ} <= reads
    everything = [*SCHEDULING, *params(LEASE[0]), *election(*LEASE), TOKENS, AUTHORITIES, REVIEWS]
    assert len({str(right) for right in everything}) == len(everything)
    assert all(right.without for right in everything)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param({}, ((), ()), id="no secure port, no reviews"),
        pytest.param({"secure_port": 1}, ((TOKENS, AUTHORITIES), (REVIEWS,)), id="a secure port needs all"),
        pytest.param(
            {"secure_port": 1, "authentication_skip_lookup": True},
            ((TOKENS,), (REVIEWS,)),
            id="the cluster's client authorities are not looked up",
        ),
    ],
)
def test_reviews_are_needed_only_by_a_secure_port(options, expected):
    assert reviews(Options(**options)) == expected


class Reviewer:
    """An API server that grants all rights but `refused`, and serves all groups but `unserved`."""

    def __init__(self):
        self.refused = set()
        self.unserved = set()
        self.asked = []
        self.answers = True
        self.refused_write = asyncio.Event()

    async def call_with_retries(self, method, path, body=None):
        if not self.answers:
            raise UnreachableError("no answer")
        if method == "GET":
            group = path.split("/")[2]
            names = {"podwright.dev": [kind.plural for kind in BY_KIND.values() if kind.group == "podwright.dev"]}
            names |= dict.fromkeys(("scheduling.run.ai", "scheduling.volcano.sh"), ("queues", "podgroups"))
            served = [
                {"name": name}
                for name in names.get(
                    group, ("podgroups", "compositepodgroups", "podgangs", "topologies", "hypernodes")
                )
            ]
            return {"resources": [] if group in self.unserved else served}
        asked = body["spec"]["resourceAttributes"]
        plural = "/".join(filter(None, (asked["resource"], asked.get("subresource"))))
        self.asked.append((asked.get("namespace", ""), asked["group"], plural, asked.get("name", ""), asked["verb"]))
        return {"status": {"allowed": (plural, asked["verb"]) not in self.refused}}


@pytest.fixture
def server():
    return Reviewer()


@pytest.mark.parametrize(
    ("gates", "minor", "without"),
    [
        pytest.param({}, 37, set(), id="1.37 uses all"),
        pytest.param({}, 36, set(), id="1.36 uses all"),
        pytest.param({}, 35, {"create", "delete", "update binding", "patch binding"}, id="1.35 asks for fewer"),
        pytest.param({"DRAExtendedResource": True}, 35, {"update binding", "patch binding"}, id="a gate is turned on"),
        pytest.param({"DRAExtendedResource": False}, 37, {"create", "delete"}, id="a gate is turned off"),
    ],
)
def test_rights_that_a_version_or_a_gate_does_not_need_are_not_asked_for(gates, minor, without):
    features = Features({**AUTOMATIC, **gates}, minor)
    unused = [right for right in SCHEDULING if not right.used_with(features)]
    assert {f"{right.verb} {right.subresource}".strip() for right in unused} == without
    assert {right.resource.kind for right in unused} <= {"ResourceClaim"}


async def test_every_right_is_asked_for_as_the_roles_grant_it(server):
    rights = (*SCHEDULING, *params(LEASE[0]), *election(*LEASE))
    check = RightsCheck([(server, rights)])
    await check.check()
    assert sorted(server.asked) == sorted(used(rights))
    assert check.problem() == ""


async def test_a_missing_right_is_logged_once_and_named_until_it_is_granted(server, caplog):
    caplog.set_level(logging.INFO)
    server.refused = {("pods/binding", "create"), ("leases", "update"), ("csinodes", "list")}
    check = RightsCheck([(server, (*SCHEDULING, *election(*LEASE)))])
    await check.check()
    await check.check()
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "RBAC does not let us create pods/binding: no pod is bound",
        "RBAC does not let us update leases.coordination.k8s.io podwright-system/podwright: no instance can lead",
    ]
    assert check.problem().startswith("RBAC does not let us list csinodes.storage.k8s.io: pods are scheduled as if")
    server.refused = {("leases", "update")}
    await check.check()
    assert check.problem() == f"RBAC does not let us {election(*LEASE)[2]}: no instance can lead"
    assert "RBAC lets us create pods/binding now" in caplog.text


async def test_rights_that_roles_of_kube_scheduler_lack_are_no_warning(server, caplog):
    caplog.set_level(logging.INFO)
    server.refused = {
        ("customresourcedefinitions", "list"),
        ("schedulerpolicies/status", "patch"),
        ("pods/eviction", "create"),
    }
    await RightsCheck([(server, SCHEDULING)]).check()
    assert {record.levelname for record in caplog.records} == {"INFO"}
    assert "RBAC does not let us patch schedulerpolicies.podwright.dev/status: policies show no status" in caplog.text


async def test_nobody_needs_a_right_to_a_kind_that_the_cluster_lacks(server):
    lacking = {("schedulerpolicies", "watch"), ("pods/eviction", "create")}
    server.refused = {("podgroups", "list"), ("podgroups/status", "patch"), *lacking}
    server.unserved = {
        "podwright.dev",
        "scheduling.k8s.io",
        "scheduling.volcano.sh",
        "scheduling.run.ai",
        "scheduler.grove.io",
    }
    check = RightsCheck([(server, SCHEDULING)])
    await check.check()
    assert check.problem() == (
        "RBAC does not let us list podgroups.scheduling.x-k8s.io: the pods of groups are scheduled one by one; "
        "RBAC does not let us patch podgroups.scheduling.x-k8s.io/status: pod groups show no status"
    )


async def test_what_is_known_stays_known_while_the_api_server_does_not_answer(server):
    server.refused = {("events", "create")}
    check = RightsCheck([(server, SCHEDULING)])
    await check.check()
    server.answers = False
    with pytest.raises(UnreachableError):
        await check.check()
    assert "there are no events" in check.problem()


async def test_a_refused_write_starts_the_check(server, monkeypatch):
    for pause in ("FIRST_SECONDS", "REFUSED_SECONDS"):
        monkeypatch.setattr(f"podwright.kube.rights.{pause}", 0.001)
    check = RightsCheck([(server, SCHEDULING)])
    checking = asyncio.create_task(check.run())
    await until(lambda: len(server.asked) == len(SCHEDULING))
    server.refused = {("pods/binding", "create")}
    server.refused_write.set()
    await until(check.problem)  # long before the next regular check
    assert check.problem() == "RBAC does not let us create pods/binding: no pod is bound"
    checking.cancel()


def test_the_page_on_security_has_every_right_and_no_other():
    rows = re.findall(
        r"^\| ([a-z, ]+) \| ([a-z/, ]+) \|", (MANIFESTS.parent / "docs" / "security-model.md").read_text(), re.MULTILINE
    )
    assert rows.pop(0) == ("verbs", "resources")
    documented = [
        (verb, plural) for verbs, plurals in rows for verb in verbs.split(", ") for plural in plurals.split(", ")
    ]
    everything = [*SCHEDULING, *params(LEASE[0]), *election(*LEASE), TOKENS, AUTHORITIES, REVIEWS]
    assert set(documented) == {(right.verb, right.plural) for right in everything}, "the table and the page"
    assert len(set(documented)) == len(documented)
