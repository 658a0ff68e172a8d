"""The start and the stop of a runtime, on an API server in memory that can hold back its answers."""

from __future__ import annotations

import asyncio
import hashlib
import json
import socket
from collections import Counter

import pytest

from podwright.kube import background
from podwright.kube.client import access
from podwright.kube.client.errors import AccessError
from podwright.kube.runtime import binding_seconds
from podwright.kube.serve.server import Server
from podwright.kube.watch import pending_audit
from support.engine.kit import settle
from support.http.kit import without_pauses
from support.objects.builders import make_policy
from support.runtime.server import OURS, PENDING, Request, api_server, lists, running
from support.serve.kit import get
from support.waiting import patience, until


@pytest.fixture
async def server(tmp_path, monkeypatch):
    async with api_server(tmp_path, monkeypatch) as found:
        yield found


async def test_in_a_quiet_time_nothing_that_the_watches_receive_reaches_the_engine(server):
    async with running(server, pod_intake="watch") as runtime:
        engine = runtime.engine
        quiet, version = engine.planning.quiet, engine.cache.version
        quiet.begin()
        server.node("late")
        server.pod("waiting")
        await asyncio.sleep(0.2)
        assert engine.cache.version == version
        assert engine.queue.counts()["active"] == 0
        quiet.end()
        await until(lambda: server.bound == ["waiting"])


class TestStart:
    async def test_what_it_must_know_is_asked_at_the_same_time(self, server):
        """The start takes as many round trips as answers depend on each other, however many questions there are."""
        questions = {"/version", "/api/v1", "/apis/apps/v1", "/apis/apiextensions.k8s.io/v1"}
        server.hold(lambda request: request[1] in questions)
        runtime = server.runtime()
        starting = asyncio.create_task(runtime.start())
        await until(lambda: {path for _, path, _ in server.asked} >= questions)
        server.release()
        await starting
        await runtime.stop()

    async def test_a_port_that_is_in_use_ends_the_start_though_the_api_server_does_not_answer(self, server):
        server.hold(lambda request: request[1] == "/version")
        with socket.create_server(("127.0.0.1", 0)) as taken:
            runtime = server.runtime(health_address=taken.getsockname())
            with pytest.raises(OSError, match="--health-address"):
                await runtime.start()
        await runtime.stop()

    async def test_no_port_is_opened_any_more_once_the_api_server_has_forbidden_the_start(self, server, monkeypatch):
        under_way, ended = asyncio.Event(), []

        async def open_ports(_server):
            under_way.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("server")

        def forbid(_kinds, _problems):
            raise AccessError("nodes cannot be listed")

        monkeypatch.setattr(Server, "start", open_ports)
        monkeypatch.setattr(access, "require_of", forbid)
        server.hold(lambda request: request[1] == "/version")
        runtime = server.runtime()
        starting = asyncio.create_task(runtime.start())
        await under_way.wait()
        server.release()
        with pytest.raises(AccessError, match="nodes"):
            await starting
        assert ended == ["server"]
        await runtime.stop()

    async def test_policies_and_pod_groups_are_asked_for_at_the_same_time(self, server):
        server.install_policies()
        both = {"/apis/podwright.dev/v1alpha1/schedulerpolicies", "/apis/scheduling.k8s.io/v1beta1"}
        server.hold(lambda request: request[1] in both)
        runtime = server.runtime()
        starting = asyncio.create_task(runtime.start())
        await until(lambda: {path for _, path, _ in server.asked} >= both)
        server.release()
        await starting
        await runtime.stop()

    @pytest.mark.parametrize(
        ("intake", "held", "missing"),
        [
            pytest.param("watch", lists("nodes"), "nodes", id="nodes"),
            pytest.param("watch", lists("pods", "spec.nodeName!="), "assigned pods", id="assigned pods"),
            pytest.param("watch", lists("pods", PENDING), "pending pods", id="pending pods, through a reflector"),
            pytest.param("kopf", lists("pods", PENDING), "pending pods", id="pending pods, through Kopf"),
            pytest.param("kopf", lists("persistentvolumes"), "persistentvolumes", id="volumes"),
        ],
    )
    async def test_nothing_is_decided_before_the_first_lists_are_complete(self, server, intake, held, missing):
        server.node("a")
        raw = server.pod("web")
        server.hold(held)
        async with running(server, started=False, pod_intake=intake) as runtime:
            await server.holds()
            await until(lambda: runtime.missing() == [missing])
            runtime.pending.put(raw)
            await settle()
            assert not runtime.engine.first_idle.is_set()
            assert server.bound == []
            server.release()
            await until(lambda: server.bound == ["web"])
            assert runtime.missing() == []

    async def test_pending_pods_are_listed_while_the_watches_still_list(self, server):
        server.hold(lists("nodes"))
        async with running(server, started=False, pod_intake="kopf"):
            await server.holds()
            await until(server.lists_of_pending)

    async def test_crds_are_watched_only_once_the_caches_are_complete(self, server):
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        server.hold(lists("nodes"))
        async with running(server, started=False, pod_intake="watch") as runtime:
            await server.holds()
            await until(lambda: runtime.missing() == ["nodes"])
            await settle()
            assert crds not in {path for _, path, _ in server.asked}
            server.release()
            await until(lambda: crds in {path for _, path, _ in server.asked})

    async def test_a_new_leader_lists_pending_pods_while_its_watches_become_current(self, server):
        async with (
            running(server, pod_intake="watch", leader_elect=True) as leader,
            running(server, pod_intake="kopf", leader_elect=True),
        ):
            before = server.lists_of_pending()
            server.hold(lists("nodes"))
            await leader.stop()
            await server.holds()
            await until(lambda: server.lists_of_pending() > before)

    async def test_the_most_important_pod_is_bound_first_though_kopf_shows_it_last(self, server):
        server.node("a", pods=1)
        server.create("priorityclasses.scheduling.k8s.io", "high", value=1000)
        low = server.pod("low")
        server.pod("high", priorityClassName="high")
        async with running(server, started=False, pod_intake="kopf") as runtime:
            runtime.pending.put(low)
            await until(lambda: server.bound)
            await until(runtime.engine.first_idle.is_set)
            assert server.bound == ["high"]
            assert server.pod_names() == {"low", "high"}

    async def test_the_list_of_pending_pods_is_retried_until_it_succeeds(self, server, monkeypatch):
        monkeypatch.setattr(pending_audit, "START_RETRY", without_pauses(pending_audit.START_RETRY))
        monkeypatch.setattr(background, "RESTART_SECONDS", 3600)
        server.node("a")
        server.pod("web")
        failures = Counter[str]()

        def fail(request):
            if request.query.get("fieldSelector", "").startswith(PENDING) and failures["500"] < 12:
                failures["500"] += 1
                return request.clone(rel_url="/no/such/path")
            return request

        server.change = fail
        async with running(server, pod_intake="kopf"):
            await until(lambda: server.bound == ["web"])
            assert failures["500"] == 12


class TestHealth:
    async def test_readiness_names_what_is_missing_until_the_caches_are_complete(self, server):
        server.hold(lists("nodes"))
        async with running(server, started=False, pod_intake="watch", health_address=("127.0.0.1", 0)) as runtime:
            await server.holds()
            assert (await get(runtime.server, "/livez"))[0] == 200
            await until(lambda: runtime.missing() == ["nodes"])
            status, _, body = await get(runtime.server, "/readyz")
            assert status == 500
            assert b"[-]informer-sync failed: not complete: nodes\n" in body
            server.release()
            async with patience():
                while (await get(runtime.server, "/readyz"))[2] != b"ok":
                    pass

    async def test_the_api_server_is_asked_for_a_sign_of_life(self, server):
        async with running(server, pod_intake="watch", health_address=("127.0.0.1", 0)) as runtime:
            await until(lambda: ("GET", "/version", "*") in server.asked)
            passed = (
                b"[+]api-server ok\n[+]credentials ok\n[+]watches ok\n[+]background-tasks ok\n[+]other-instances ok\n"
                b"[+]scheduler-names ok\n[+]leader-election ok\n[+]permissions ok\nreadyz check passed\n"
            )
            async with patience():
                while passed not in (await get(runtime.server, "/readyz?verbose"))[2]:
                    pass

    async def test_restarts_of_background_tasks_are_counted(self, server, monkeypatch):
        monkeypatch.setattr(background, "RESTART_SECONDS", 0.0)
        monkeypatch.setattr("podwright.kube.serve.answers.readiness.ASK_SECONDS", 0.0)

        async def fails(_contact):
            raise RuntimeError("broken")

        monkeypatch.setattr("podwright.kube.serve.answers.readiness.ApiServerContact.ask", fails)
        async with running(server, pod_intake="watch", health_address=("127.0.0.1", 0)) as runtime:
            _, _, body = await get(runtime.server, "/metrics")
        assert b'podwright_background_task_restarts_total{task="API server contact"}' in body


DEFAULT = {"type": "Default"}


def policy(scheduler: str, strategy=DEFAULT, **spec) -> dict:
    return make_policy("more", 1, f"more-{scheduler}", schedulerName=scheduler, strategy=strategy, **spec)


@pytest.mark.parametrize("intake", ["kopf", "watch"])
@pytest.mark.parametrize("name", ["another-name", "default-scheduler"])
async def test_pods_of_newly_served_names_are_listed(server, name, intake):
    server.node("a")
    async with running(server, pod_intake=intake, allowed_scheduler_names=(name,)) as runtime:
        server.pod("first", name)
        runtime.policies.apply(policy(name))
        await until(lambda: server.bound == ["first"])
        runtime.policies.remove("more")
        uid = server.pod("between", name)["metadata"]["uid"]
        if intake == "watch" or name == "default-scheduler":  # else only Kopf would see it
            await until(lambda: runtime.watches.knows(uid))
        assert not runtime.pending.knows(uid)
        runtime.policies.apply(policy(name))
        await until(lambda: server.bound == ["first", "between"])


def refusing(status: int, selector: str):
    """Refuses lists and watches of pods with this field selector, as `Server.change` does."""

    def change(request):
        if request.query.get("fieldSelector") != selector:
            return request
        paths = {404: "/no/such/path", 400: "/api/v1/pods?fieldSelector=no.such.field=x"}
        return request.clone(rel_url=paths[status])

    return change


@pytest.mark.parametrize("intake", ["kopf", "watch"])
@pytest.mark.parametrize("status", [400, 404])
@pytest.mark.parametrize("when", ["at the start", "later"])
@pytest.mark.parametrize("name", ["refused", "default-scheduler"])
async def test_a_name_whose_pods_cannot_be_listed_holds_up_nothing(server, monkeypatch, *, intake, status, when, name):
    monkeypatch.setattr(pending_audit, "START_SECONDS", 0.1)
    monkeypatch.setattr(pending_audit, "AUDIT_SECONDS", 0.05)
    server.node("a")
    server.pod("ours")
    for scheduler in (name, "other"):
        server.pod(f"of-{scheduler}", scheduler)
    names = ("other", "default-scheduler", "refused")
    server.change = refusing(status, f"spec.nodeName=,spec.schedulerName={name}")
    server.install_policies()
    policies = [policy(scheduler) | {"metadata": {"name": scheduler}} for scheduler in (name, "other")]
    if when == "at the start":
        for raw in policies:
            server.create("schedulerpolicies.podwright.dev", raw["metadata"]["name"], spec=raw["spec"])
    options = {"pod_intake": intake, "allowed_scheduler_names": names, "health_address": ("127.0.0.1", 0)}
    async with running(server, **options) as runtime:
        if when == "later":
            await until(lambda: server.bound == ["ours"])
            for raw in policies:
                runtime.policies.apply(raw)
        await until(lambda: {"ours", "of-other"} <= set(server.bound))
        # With --pod-intake=watch, one list of the pods of all schedulers is the first; later, each name has a list of
        # its own.
        seen = when == "at the start" and intake == "watch"
        assert (f"of-{name}" in server.bound) == seen
        await until(runtime.parts.unseen_names.problem)
        code, _, body = await get(runtime.server, "/readyz")
        assert code == 200
        assert f"pods of scheduler {name} not listed for ".encode() in body
        server.change = lambda request: request
        await until(lambda: f"of-{name}" in server.bound)
        await until(lambda: not runtime.parts.unseen_names.problem())


def is_binding(request: Request) -> bool:
    return request[0] == "POST" and request[1].endswith("/binding")


class TestStop:
    @pytest.mark.parametrize(
        ("grace", "seconds"),
        [
            pytest.param(60, 57, id="three seconds are kept for events and statuses"),
            pytest.param(20, 17, id="of any longer grace period"),
            pytest.param(6, 3, id="but at most half"),
            pytest.param(1, 0.5, id="of a short one"),
            pytest.param(0, 0, id="no grace period"),
        ],
    )
    async def test_bindings_get_most_of_the_grace_period(self, server, monkeypatch, grace, seconds):
        given = {}
        async with running(server, pod_intake="watch", grace=grace) as runtime:
            for name, part in (("bindings", runtime.engine), ("evictions", runtime.parts.evictor)):
                real = part.stop if name == "bindings" else part.finish

                async def spy(seconds, name=name, real=real):
                    given[name] = seconds
                    await real(seconds)

                monkeypatch.setattr(part, "stop" if name == "bindings" else "finish", spy)
        assert given == {"bindings": seconds, "evictions": seconds}
        assert binding_seconds(grace) == seconds

    async def test_bindings_under_way_finish_and_nothing_more_is_decided(self, server):
        server.node("a")
        async with running(server, pod_intake="watch", grace=60) as runtime:
            server.hold(is_binding)
            server.pod("first")
            await server.holds()
            stopping = asyncio.create_task(runtime.stop())
            await settle()
            later = server.pod("later")
            await until(lambda: runtime.pending.knows(later["metadata"]["uid"]))
            await settle()
            server.release()
            await stopping
        assert server.bound == ["first"]
        events = [entry.obj for entry in server.sandbox.cluster.store["events"].entries.values()]
        assert [(event["reason"], event["message"]) for event in events] == [
            ("Scheduled", "Successfully assigned default/first to a")
        ]

    async def test_the_lease_is_released_before_the_last_events_are_written(self, server):
        server.node("a")
        async with running(server, pod_intake="watch", grace=60, leader_elect=True) as runtime:
            server.hold(lambda request: request[0] == "POST" and request[1].endswith("/events"))
            server.pod("web")
            await server.holds()
            stopping = asyncio.create_task(runtime.stop())
            leases = server.sandbox.cluster.store["leases.coordination.k8s.io"].entries
            await until(lambda: [lease.obj["spec"]["holderIdentity"] for lease in leases.values()] == [""])
            assert not stopping.done()
            server.release()
            await stopping
        reasons = [entry.obj["reason"] for entry in server.sandbox.cluster.store["events"].entries.values()]
        assert reasons == ["Scheduled"]

    async def test_an_eviction_under_way_finishes(self, server):
        server.node("a", pods=1)
        server.create("priorityclasses.scheduling.k8s.io", "high", value=1000)
        async with running(server, pod_intake="watch", grace=60) as runtime:
            low = server.pod("low")
            await until(lambda: server.bound == ["low"])
            await until(lambda: not runtime.engine.cache.is_assumed(low["metadata"]["uid"]))
            server.hold(lambda request: request[:2] == ("PATCH", "/api/v1/namespaces/default/pods/low/status"))
            server.pod("high", priorityClassName="high")
            await server.holds()
            stopping = asyncio.create_task(runtime.stop())
            await settle()
            server.release()
            await stopping
            asked = [(method, path) for method, path, _ in server.asked]
            assert ("DELETE", "/api/v1/namespaces/default/pods/low") in asked

    async def test_pods_waiting_in_permit_are_rejected_at_once_and_lose_their_nomination(self, server, tmp_path):
        plugins = tmp_path / "plugins"
        plugins.mkdir()
        (plugins / "waiter.py").write_text(WAITER)
        server.node("a")
        async with running(server, pod_intake="watch", grace=600, plugin_dirs=(str(plugins),)) as runtime:
            points = {"permit": {"enabled": [{"name": "Waiter"}]}}
            runtime.policies.apply(policy(OURS, {"type": "Custom"}, plugins=points))
            server.pod("web")
            await until(lambda: server.read("web")["status"].get("nominatedNodeName") == "a")
            async with patience():
                await runtime.stop()
        assert "nominatedNodeName" not in server.read("web")["status"]
        assert server.bound == []


async def test_a_plugin_file_that_changes_while_the_operator_runs_is_loaded_again(server, tmp_path, caplog):
    caplog.set_level("INFO")
    path = tmp_path / "waiter.py"
    path.write_text(WAITER)
    server.node("a")
    async with running(server, pod_intake="watch", plugin_dirs=(str(tmp_path),)) as runtime:
        points = {"permit": {"enabled": [{"name": "Waiter"}]}}
        runtime.policies.apply(policy(OURS, {"type": "Custom"}, plugins=points))
        path.write_text(WAITER.replace("Status(Code.WAIT), 600.0", "None, 0.0"))
        await until(lambda: f"Plugins were loaded again: {path}; 1 policies use them" in caplog.text)
        server.pod("web")
        await until(lambda: server.bound == ["web"])


async def test_a_plugin_that_hung_before_the_restart_starts_switched_off(server, tmp_path):
    plugins, state = tmp_path / "plugins", tmp_path / "state"
    plugins.mkdir()
    state.mkdir()
    path = plugins / "waiter.py"
    path.write_text(WAITER)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    hung = {"path": str(path), "digest": digest, "where": "line 9, in permit", "atImport": False}
    (state / "hung-plugins.json").write_text(json.dumps([hung]))
    server.node("a")
    options = {"plugin_dirs": (str(plugins),), "plugin_state_dir": str(state)}
    async with running(server, pod_intake="watch", **options) as runtime:
        points = {"permit": {"enabled": [{"name": "Waiter"}]}}
        runtime.policies.apply(policy(OURS, {"type": "Custom"}, plugins=points))
        server.pod("web")
        await until(lambda: "did not return from line 9, in permit, until the process was restarted" in waits(server))
        path.write_text(WAITER.replace("Status(Code.WAIT), 600.0", "None, 0.0"))
        await until(lambda: server.bound == ["web"])


def waits(server):
    """Why the pod waits, as its status says."""
    conditions = server.read("web").get("status", {}).get("conditions", [])
    return "".join(each["message"] for each in conditions)


WAITER = """
from podwright.core.framework.interface import PermitPlugin, Plugin
from podwright.core.framework.status import Code, Status


class Waiter(Plugin, PermitPlugin):
    name = "Waiter"

    def permit(self, state, pod, node_name):
        return Status(Code.WAIT), 600.0
"""
