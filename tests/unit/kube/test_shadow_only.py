"""With --shadow-only, only policies in shadow mode decide, and nothing is written but their status."""

from __future__ import annotations

import pytest

from podwright.core.objects.pod import parse_pod
from podwright.core.queues.queues import QUEUE_LABEL, queues_of
from podwright.engine.shadow.comparison import ComparisonOutcome
from podwright.kube.options.options import Options
from podwright.kube.rights import ForbiddenWriteError, refuse_writes
from podwright.kube.watch.selectors import MANY_NAMES, PENDING_PODS, pending_pods_of
from podwright.sandbox.pod_subresources import bind
from support.objects.builders import make_pod, make_policy
from support.objects.policies import QUEUE_CRD
from support.runtime.server import OURS, api_server, lists, running
from support.waiting import until

OTHER = "default-scheduler"
POLICY_STATUS = "/apis/podwright.dev/v1alpha1/schedulerpolicies/eye/status"


@pytest.fixture
async def server(tmp_path, monkeypatch):
    async with api_server(tmp_path, monkeypatch) as found:
        yield found


def policy(name="eye", **spec):
    return make_policy(name, 1, name, **{"schedulerName": OTHER, "mode": "Shadow", **spec})


def writes(server):
    """The paths of requests that write, without questions about access."""
    asked = [(method, path) for method, path, _ in server.asked if method != "GET"]
    return [each for each in asked if "accessreviews" not in each[1]]


async def test_pods_of_another_scheduler_are_compared_and_none_is_touched(server):
    server.install_policies()
    server.create("schedulerpolicies.podwright.dev", "eye", spec=policy()["spec"])
    server.node("a")
    async with running(server, shadow_only=True) as runtime:
        shadow = runtime.engine.shadow
        await until(lambda: any(OTHER in name for name in runtime.watches.names))
        server.pod("ours", OURS)
        server.pod("web", OTHER)
        await until(lambda: len(shadow.pods) == 1)
        bind(server.sandbox.cluster, "default", "web", {"target": {"name": "a"}})
        await until(lambda: shadow.tallies.of("eye").outcomes == {ComparisonOutcome.AGREED: 1})
        await until(lambda: writes(server))
        assert not runtime.engine.queue.uids()
    assert {path for _, path in writes(server)} == {POLICY_STATUS}


def in_queue(server, name, queue):
    raw = make_pod(name, labels={QUEUE_LABEL: queue}, requests={"cpu": "1"}, spec={"schedulerName": OTHER})
    kind = server.sandbox.cluster.kinds.named("pods")
    server.sandbox.cluster.create(kind, "default", raw)


async def test_limits_of_queues_bind_its_decisions_and_nothing_is_done_for_queues(server):
    """Not even for those that gather room or are drained."""
    server.install_policies(QUEUE_CRD)
    for name, more in (("team", {"gatherAfter": "1s"}), ("left", {"state": "Drain"})):
        spec = {"resources": {"cpu": {"limit": 1}}, **more}
        server.create("schedulingqueues.podwright.dev", name, spec=spec)
    server.create("schedulerpolicies.podwright.dev", "eye", spec=policy()["spec"])
    server.node("a")
    async with running(server, shadow_only=True) as runtime:
        engine = runtime.engine
        await until(lambda: any(OTHER in name for name in runtime.watches.names))
        await until(lambda: queues_of(engine.cache).get("team") is not None)
        for name, queue in (("first", "team"), ("second", "team"), ("third", "left")):
            in_queue(server, name, queue)
            await until(lambda: len(engine.shadow.pods) == 1)
            bind(server.sandbox.cluster, "default", name, {"target": {"name": "a"}})
            await until(lambda: not engine.shadow.pods)
        tally = engine.shadow.tallies.of("eye")
        await until(lambda: tally.outcomes == {ComparisonOutcome.AGREED: 1, ComparisonOutcome.UNPLACED: 2})
        assert "team holds 1 of 1 cpu" in str([*tally.disagreements])
        await until(lambda: engine.shadow.worlds.of(tally).counts.waiting == 2)
        engine.gathering.begin()
        await until(lambda: writes(server))
    assert {path for _, path in writes(server)} == {POLICY_STATUS}


async def test_policies_that_enforce_take_no_pods_and_get_no_status(server):
    server.install_policies()
    server.create("schedulerpolicies.podwright.dev", "mine", spec={"schedulerName": OURS})
    server.create("schedulerpolicies.podwright.dev", "eye", spec=policy()["spec"])
    async with running(server, shadow_only=True) as runtime:
        assert not runtime.engine.policies.serves(OURS)
        assert not runtime.kopf_watches_pods
        await until(lambda: writes(server))
    assert {path for _, path in writes(server)} == {POLICY_STATUS}


@pytest.mark.parametrize("shadow_only", [True, False])
async def test_no_part_can_write_on_a_pod_even_if_rbac_let_it(server, shadow_only, caplog):
    async with running(server, shadow_only=shadow_only, pod_intake="watch") as runtime:
        victim, preemptor = (parse_pod(server.pod(name, OTHER)) for name in ("victim", "preemptor"))
        ended = []
        runtime.parts.evictor.evict(victim, preemptor, "a", ended.append)
        await until(lambda: ended)
        assert ended == [not shadow_only]
    assert ("victim" in server.pod_names()) is shadow_only
    assert any("/pods/" in path for _, path in writes(server)) is not shadow_only
    assert ("cannot preempt a pod" in caplog.text) is shadow_only


@pytest.mark.parametrize("intake", ["kopf", "watch"])
async def test_pods_that_are_to_be_scheduled_are_neither_listed_nor_watched(server, intake):
    async with running(server, shadow_only=True, pod_intake=intake) as runtime:
        assert "pending pods" not in runtime.watches.names
    assert not [each for each in server.asked if lists("pods", PENDING_PODS + ",")(each)]


async def test_the_watches_follow_the_names_of_policies(server):
    async with running(server, pod_intake="watch") as runtime:
        watched = [name for name in runtime.watches.names if "shadow" in name]
        assert watched == []
        runtime.policies.apply(policy())
        await until(lambda: "pending pods of default-scheduler for shadow" in runtime.watches.names)
        server.pod("web", OTHER)
        await until(lambda: len(runtime.engine.shadow.pods) == 1)
        runtime.policies.apply(policy("more", schedulerName="other"))
        await until(lambda: "pending pods of other for shadow" in runtime.watches.names)
        runtime.policies.remove("eye")
        await until(lambda: "pending pods of default-scheduler for shadow" not in runtime.watches.names)
        await until(lambda: len(runtime.engine.shadow.pods) == 0)


async def test_the_pods_are_listed_again_when_the_only_policy_is_replaced_at_once(server):
    async with running(server, pod_intake="watch") as runtime:
        runtime.policies.apply(policy())
        server.pod("web", OTHER)
        await until(lambda: len(runtime.engine.shadow.pods) == 1)
        runtime.policies.remove("eye")
        assert len(runtime.engine.shadow.pods) == 0
        runtime.policies.apply(policy())
        await until(lambda: len(runtime.engine.shadow.pods) == 1)


async def test_many_names_share_one_watch(server):
    async with running(server, pod_intake="watch") as runtime:
        server.pod("web", "name-0")
        for number in range(MANY_NAMES + 1):
            runtime.policies.apply(policy(f"p-{number}", schedulerName=f"name-{number}"))
        await until(lambda: [name for name in runtime.watches.names if "shadow" in name] == ["pending pods for shadow"])
        await until(lambda: len(runtime.engine.shadow.pods) == 1)
        for number in range(1, MANY_NAMES + 1):
            runtime.policies.remove(f"p-{number}")
        await until(lambda: "pending pods of name-0 for shadow" in runtime.watches.names)
        await until(lambda: len(runtime.engine.shadow.pods) == 1)
    assert any(lists("pods", pending_pods_of("name-0"))(each) for each in server.asked)


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/default/pods/web/binding",
        "/api/v1/namespaces/default/pods/web/status",
        "/api/v1/namespaces/default/pods/web",
        "/api/v1/namespaces/default/persistentvolumeclaims/data",
        "/apis/events.k8s.io/v1/namespaces/default/events",
        "/apis/podwright.dev/v1alpha1/schedulerpolicies/eye",
        "/apis/podwright.dev/v1alpha1/namespaces/team/localschedulerpolicies/eye/status",
    ],
)
def test_other_writes_are_refused_before_they_are_sent(path):
    asked = []
    with pytest.raises(ForbiddenWriteError, match="with --shadow-only, nothing is written but the status of policies"):
        refuse_writes(asked.append)(path)
    assert asked == []


@pytest.mark.parametrize(
    "path",
    [
        POLICY_STATUS,
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        "/apis/authentication.k8s.io/v1/tokenreviews",
        "/apis/coordination.k8s.io/v1/namespaces/podwright-system/leases/podwright",
    ],
)
def test_its_own_writes_pass_to_the_next_check(path):
    asked = []
    refuse_writes(asked.append)(path)
    refuse_writes(None)(path)
    assert asked == [path]


def test_the_option_reaches_the_policies():
    assert Options(shadow_only=True).policies.shadow_only
    assert not Options().policies.shadow_only
