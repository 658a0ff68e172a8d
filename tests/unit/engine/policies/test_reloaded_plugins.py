"""The users of plugin files that change: policies, attempts that are paused, Bindings that have begun."""

from __future__ import annotations

import asyncio
import time
from textwrap import dedent

import pytest

from podwright.api.configuration.load import load_configuration
from podwright.api.permissions import PolicySettings
from podwright.core.framework.interface import FilterPlugin, Plugin
from podwright.core.framework.status import unresolvable
from podwright.core.plugins import PLUGINS
from podwright.engine.policies import plugin_reload
from podwright.engine.policies.recompilation import Recompilation
from podwright.engine.process.side_thread import NoAnswerError
from support.engine.kit import Rig, custom_policy, deciding, ours, settle
from support.engine.long_work import Clock, FakeChildren, a_preemptor, full_nodes
from support.plugins.reloading import policy, starting, text
from support.policies.local import delegating, local_policy
from support.waiting import patience


@pytest.fixture
def start(tmp_path):
    with starting(tmp_path) as make:
        yield make


async def test_a_policy_that_changes_while_others_are_compiled_is_compiled_too(start):
    it = start()
    for i in range(3):
        it.apply(policy("Only", name=f"p{i}", precedence=i))
    it.write(text(node="b"))
    await it.reload.poll()
    reloading = asyncio.create_task(it.reload.poll())
    while not reloading.done():
        before = it.engine.policies.named("p2")
        if before.compiled.generation == 1:
            it.apply(policy("Only", name="p2", precedence=2, generation=2))
            it.engine.policies.remove("p0")
        await asyncio.sleep(0)
    assert it.counts == (1, 0)
    async with deciding(it.rig):
        it.rig.pod("web")
        await settle()
    assert it.rig.placed_on("web") == "b"


PROFILES = b"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: podwright
  plugins: {filter: {enabled: [{name: Only}]}}
"""


async def test_the_profiles_of_a_configuration_file_use_the_new_code(start):
    it = start(policies=PolicySettings(configuration=load_configuration(PROFILES)))
    assert not it.apply(policy("Nothing", match={"namespaces": ["elsewhere"]})).accepted
    it.write(text(node="b"))
    await it.settle()
    async with deciding(it.rig):
        it.rig.pod("web")
        it.rig.pod("waits", namespace="elsewhere")
        misnamed = ours("misnamed")
        misnamed["metadata"]["annotations"] = {"podwright.dev/policy": "none"}
        it.engine.pending.put(misnamed)
        await settle()
    assert it.rig.placed_on("web") == "b"
    assert not it.rig.placed_on("misnamed")
    assert it.rig.counts == {"unschedulable": 2}


class TestLocalPolicies:
    @pytest.fixture
    def it(self, start):
        it = start()
        assert it.apply(delegating(delegation={"plugins": ["Only"]})).accepted
        points = {"filter": {"enabled": [{"name": "Only"}]}}
        result = it.engine.policies.apply_local(local_policy(strategy={"type": "Custom"}, plugins=points))
        assert result.accepted, result.message
        return it

    async def place(self, it, name):
        async with deciding(it.rig):
            it.rig.pod(name, namespace="team-a")
            for _ in range(20):
                await settle()
        return dict(it.rig.cluster.bound).get(name)

    async def test_they_use_the_new_code(self, it):
        assert await self.place(it, "first") == "a"
        it.write(text(node="b"))
        await it.settle()
        assert it.counts == (1, 0)
        assert await self.place(it, "second") == "b"

    async def test_one_that_cannot_be_compiled_keeps_all_from_changing(self, it):
        it.write(text(node="b").replace("FilterPlugin", "ScorePlugin").replace("def filter", "def score"))
        await it.settle()
        assert "policy team-a/ours: spec.plugins.filter" in it.problem("team-a/ours")
        assert it.counts == (0, 1)
        assert await self.place(it, "first") == "a"


class TestDecisionsOfChildProcesses:
    """Code that is loaded meanwhile decides: the attempt starts over with it."""

    @pytest.fixture
    def rig(self):
        class Anywhere(Plugin, FilterPlugin):
            name = "Only"

            def filter(self, _state, _pod, _node):
                return None

        class Nowhere(Anywhere):
            def filter(self, _state, _pod, _node):
                return unresolvable("node(s) were none of ours")

        rig = Rig(plugins={"Only": Anywhere}, children=FakeChildren())
        rig.clock = rig.children.clock = Clock()
        assert rig.engine.policies.apply(custom_policy("filter", "Only")).accepted
        self.changed = {**PLUGINS, "Only": Nowhere}
        return rig

    @pytest.mark.parametrize(
        ("waiting", "why"),
        [
            pytest.param(a_preemptor, "12 node(s) were none of ours", id="a pod that preempts"),
            pytest.param(
                full_nodes, "pod group preemption: minCount (12) cannot be satisfied", id="a gang that preempts"
            ),
        ],
    )
    async def test_they_evict_nobody_that_the_new_code_would_not(self, rig, waiting, why):
        waiting(rig)

        def swap(child):
            if child == 1:
                recompilation = Recompilation(rig.engine.policies, classes=self.changed, changed={"Only"})
                assert len([*recompilation.steps()]) == 1
                assert recompilation.finish(()) == 1
                rig.engine.policies_changed()

        rig.children.meanwhile = swap
        async with deciding(rig), patience():
            while not rig.recorder.notes("FailedScheduling"):
                await asyncio.sleep(0.01)
        assert not rig.evictor.evicted
        notes = rig.recorder.notes("FailedScheduling")
        assert why in "".join(notes)


async def test_a_bind_that_has_begun_ends_with_the_old_instance(start):
    binding = dedent("""
        import asyncio

        from podwright.core.framework.interface import Plugin, PreBindPlugin
        from podwright.core.framework.status import Code, Status

        class Only(Plugin, PreBindPlugin):
            name = "Only"

            async def pre_bind(self, state, pod, node_name):
                await asyncio.sleep(0)
                while pod.name == "slow" and not self.handle.cache.present("go"):
                    await asyncio.sleep(0)
                return {answer}
        """)
    it = start(("only", binding.replace("{answer}", "None")))
    raw = policy()
    raw["spec"]["plugins"] = {"preBind": {"enabled": [{"name": "Only"}]}}
    assert it.apply(raw).accepted
    async with deciding(it.rig):
        it.rig.pod("slow")
        await settle()
        it.write(binding.replace("{answer}", "Status(Code.ERROR, ('new',))"))
        await it.settle()
        assert it.counts == (1, 0)
        it.rig.pod("next")
        await settle()
        it.rig.node("go")
        await settle()
        await settle()
    assert [name for name, _ in it.rig.cluster.bound] == ["slow"]


@pytest.mark.parametrize("on_failure", ["Reject", "Ignore"])
async def test_a_plugin_that_is_off_is_on_again_when_its_file_changes_and_not_before(start, on_failure):
    it = start(("only", text()), ("other", text(name="Other")))
    it.apply(policy("Only", "Other", onPluginFailure=on_failure))
    policies = it.engine.policies
    assert policies.switch_off(policies.named("custom").compiled, "Only", "it was slow")
    it.write(text(name="Other") + "#", file="other")
    await it.settle()
    assert "plugin Only is switched off" in policies.work_of("custom").switched_off
    it.write(text() + "#")
    await it.settle()
    assert not policies.work_of("custom").switched_off
    async with deciding(it.rig):
        it.rig.pod("web")
        await settle()
    assert it.rig.placed_on("web") == "a"


async def test_a_directory_that_does_not_answer_is_said_once_until_it_does(start, monkeypatch, caplog):
    it = start()
    it.apply(policy("Only"))
    monkeypatch.setattr(plugin_reload, "READ_SECONDS", 0.02)

    def hang():
        while True:
            time.sleep(0.001)

    with monkeypatch.context() as patch:
        patch.setattr(it.directories, "read", hang)
        await it.reload.poll()
        assert "reading the plugin directories: did not return within 0.02 s, and was stopped" in it.problem()
    monkeypatch.setattr(plugin_reload, "READ_SECONDS", 60.0)

    def no_answer():
        raise NoAnswerError("3 earlier ones have not ended")

    with monkeypatch.context() as patch:
        patch.setattr(it.directories, "read", no_answer)
        await it.settle()
    assert it.counts == (0, 2)
    assert caplog.text.count("3 earlier ones have not ended") == 1
    await it.settle()
    assert not it.problem()
    it.write(text(node="b"))
    await it.settle()
    assert it.counts == (1, 2)
