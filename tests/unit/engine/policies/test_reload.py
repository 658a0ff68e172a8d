"""Plugin files that change while the scheduler decides: they are loaded again, whole or not at all."""

from __future__ import annotations

import gc
import logging
import sys
import weakref
from textwrap import dedent

import pytest

from podwright.api.permissions import PolicySettings
from podwright.engine.plugins.files import PluginDirectories
from podwright.engine.plugins.loading import FILE_MODULE
from support.engine.kit import deciding, settle
from support.plugins.reloading import ARGS, Reloading, policy, starting, text


@pytest.fixture
def start(tmp_path):
    with starting(tmp_path) as make:
        yield make


async def test_a_changed_file_decides_about_the_next_pod(start, caplog):
    it = start()
    caplog.set_level(logging.INFO)
    assert it.apply(policy("Only")).accepted
    async with deciding(it.rig):
        it.rig.pod("first")
        await settle()
        it.write(text(node="b"))
        await it.settle()
        it.rig.pod("second")
        await settle()
    assert (it.rig.placed_on("first"), it.rig.placed_on("second")) == ("a", "b")
    assert it.counts == (1, 0)
    assert f"Plugins were loaded again: {it.folder / 'only.py'}; 1 policies use them" in caplog.text
    assert it.rig.recorder.notes("PluginsReloaded") == [f"Plugins were loaded again: {it.folder / 'only.py'}"]


async def test_a_waiting_pod_is_tried_again_with_the_new_code(start):
    it = start(("only", text(node="c")))
    it.apply(policy("Only"))
    async with deciding(it.rig):
        it.rig.pod("web")
        await settle()
        assert it.rig.counts == {"unschedulable": 1}
        it.write(text(node="b"))
        await it.settle()
    assert it.rig.placed_on("web") == "b"


async def test_a_file_that_is_still_changing_is_not_loaded(start):
    it = start()
    it.apply(policy("Only"))
    for i in range(5):
        it.write(text(node="b") + f"# {i}")
        await it.reload.poll()
    assert it.counts == (0, 0)
    await it.reload.poll()
    assert it.counts == (1, 0)


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        pytest.param(
            "def half(", "file {path}: cannot be imported: SyntaxError: '(' was never closed", id="half a file"
        ),
        pytest.param(
            "import numpy\n\nnumpy.nothing()",
            "file {path}: cannot be imported: AttributeError: module 'numpy' has no attribute 'nothing' (line 3)",
            id="an exception at import",
        ),
        pytest.param("", "file {path}: has no class that inherits", id="an empty file"),
        pytest.param("raise SystemExit", "file {path}: cannot be imported: SystemExit:  (line 1)", id="an exit"),
        pytest.param(
            "import asyncio\n\nraise asyncio.CancelledError('no')",
            "file {path}: cannot be imported: CancelledError: no (line 3)",
            id="a cancellation at import",
        ),
        pytest.param(
            text() + "    def __init__(self, args, handle):\n        raise GeneratorExit('no')\n",
            'policy custom: initializing plugin "Only": GeneratorExit: no (only.py, line 11, in __init__)',
            id="a constructor that raises what is no Exception",
        ),
        pytest.param(
            ARGS + text() + "    args_type = Args\n",
            'policy custom: initializing plugin "Only": GeneratorExit: no (',
            id="args that raise what is no Exception",
        ),
        pytest.param(
            text(name="Other"),
            "policy custom: spec.plugins.filter.enabled[0].name: plugin 'Only' does not exist",
            id="a plugin that a policy uses is gone",
        ),
        pytest.param(
            text() + "    def __init__(self, args, handle):\n        raise ValueError('no')\n",
            'policy custom: initializing plugin "Only": ValueError: no (only.py, line 11, in __init__)',
            id="a constructor that raises",
        ),
        pytest.param(
            text().replace("state, pod, node", "state, pod"),
            "filter has the parameters (self, state, pod), expected (self, state, pod, node) (file {path}, line 8)",
            id="a method with other parameters",
        ),
    ],
)
async def test_what_cannot_be_used_changes_nothing_and_is_said(start, caplog, broken, problem):
    it = start()
    it.apply(policy("Only"))
    loaded = {name for name in sys.modules if name.startswith(FILE_MODULE)}
    it.write(broken)
    await it.settle()
    await it.settle()
    expected = problem.format(path=it.folder / "only.py")
    for said in (it.problem(), caplog.text, *it.rig.recorder.notes("PluginsNotReloaded")):
        assert expected in said
    assert len(it.rig.recorder.notes("PluginsNotReloaded")) == 1, "it is said once"
    assert it.counts == (0, 1)
    assert {name for name in sys.modules if name.startswith(FILE_MODULE)} == loaded, "nothing is left of it"
    async with deciding(it.rig):
        it.rig.pod("web")
        await settle()
    assert it.rig.placed_on("web") == "a"
    it.write(text())
    await it.settle()
    assert not it.problem()


INDEX = """
class Index:
    def node_set(self, slot, before, after):
        print("node_set", node_of(before, after))

    namespace_set = pod_added = pod_removed = lambda *_: None


def node_of(before, after):
    return (before or after).name

"""
BUILT = """
    def __init__(self, args, handle):
        super().__init__(args, handle)
        handle.cache.observer(Index)
        raise ValueError("not yet")
"""


async def test_a_refused_version_learns_of_nothing_afterwards(start, capsys):
    it = start()
    it.apply(policy("Only"))
    it.write(INDEX + text(node="b") + BUILT)
    await it.settle()
    assert "not yet" in it.problem()
    assert "node_set a" in capsys.readouterr().out, "it was built"
    it.rig.node("c")
    assert capsys.readouterr().out == ""
    it.write(INDEX + text(node="b") + BUILT.replace("raise ValueError", "print"))
    await it.settle()
    assert not it.problem()
    capsys.readouterr()
    it.rig.node("d")
    assert capsys.readouterr().out == "node_set d\n"


async def test_the_files_that_run_are_watched_again_after_a_refusal(start):
    watched = []
    it = start(watch=watched.append)
    it.apply(policy("Only"))
    running = it.loaded.texts
    (path,) = running
    for refused in ("raise ValueError", text(name="Other")):
        it.write(refused)
        await it.settle()
        assert watched == [{path: refused.encode()}, running]
        watched.clear()
    it.write(text(node="b"))
    await it.settle()
    assert watched[-1] == {path: text(node="b").encode()}


async def test_one_bad_file_keeps_the_other_one_from_being_loaded(start):
    it = start(("only", text()), ("other", text(name="Other")))
    it.apply(policy("Only"))
    it.write(text(node="b"))
    it.write("import nothing_of_this_name", file="other")
    await it.settle()
    assert "No module named 'nothing_of_this_name' (line 1)" in it.problem()
    it.write(text(name="Other"), file="other")
    await it.settle()
    assert not it.problem()
    async with deciding(it.rig):
        it.rig.pod("web")
        await settle()
    assert it.rig.placed_on("web") == "b"


async def test_files_that_stay_the_same_keep_their_instances(start):
    it = start(("only", text()), ("other", text(name="Other", node="b")))
    it.apply(policy("Other", name="other"))
    it.apply(policy("Only", name="only"))
    before = {name: it.engine.policies.named(name).framework for name in ("other", "only")}
    it.write(text(node="b"))
    await it.settle()
    after = {name: it.engine.policies.named(name).framework for name in ("other", "only")}
    assert after["other"] is before["other"]
    assert after["only"] is not before["only"]


async def test_the_memory_of_replaced_code_comes_back(start):
    it = start(("only", text() + KEEPING))
    it.apply(policy("Only"))
    it.apply(policy("Only", name="refused", plugins={"filter": {"enabled": [{"name": "None"}]}}))
    replaced = weakref.ref(it.loaded.classes["Only"])
    it.engine.cache.derived.get("key", lambda _node: 1, int)
    async with deciding(it.rig):
        it.rig.pod("web")
        await settle()
    del it.loaded
    for i in range(3):
        it.write(text(node="b") + KEEPING + f"# {i}")
        await it.settle()
    assert it.counts == (3, 0)
    it.engine.compact()
    gc.collect()
    assert replaced() is None
    assert len([name for name in sys.modules if name.startswith(FILE_MODULE)]) == 1


KEEPING = dedent("""
    from dataclasses import dataclass

    @dataclass(frozen=True)
    class Args:
        label: str = "team"

    class Index:
        def node_set(self, *args): pass
        pod_added = pod_removed = namespace_set = node_set

    def _init(self, args, handle):
        self.index = handle.cache.observer(Index)

    Only.args_type = Args
    Only.__init__ = _init
    """)


async def test_a_refused_policy_is_outdated_once_its_plugin_appears(start):
    it = start()
    assert not it.apply(policy("Later")).accepted
    it.write(text(name="Later", node="b"), file="later")
    await it.settle()
    policies = it.engine.policies.policy_set
    assert policies.outdated == {"custom"}
    assert it.apply(policy("Later")).accepted
    assert not policies.outdated
    async with deciding(it.rig):
        it.rig.pod("web")
        await settle()
    assert it.rig.placed_on("web") == "b"


async def test_a_policy_that_stops_using_a_plugin_lets_its_file_go(start, monkeypatch):
    monkeypatch.setattr("podwright.engine.process.file_reload.RETRY_SECONDS", 0.0)
    it = start(("only", text()), ("other", text(name="Other")))
    it.apply(policy("Only"))
    (it.folder / "only.py").unlink()
    await it.settle()
    assert "plugin 'Only' does not exist" in it.problem()
    it.apply(policy("Other", generation=2))
    await it.settle()
    assert it.counts == (1, 1)
    assert not it.problem()
    assert "plugin 'Only' does not exist" in it.apply(policy("Only", generation=3)).message


async def test_a_swapped_link_to_all_files_is_seen_whole(tmp_path):
    """The kubelet updates the files of a ConfigMap that way."""
    for version, node in (("1", "a"), ("2", "b")):
        (tmp_path / version).mkdir()
        for name in ("One", "Two"):
            (tmp_path / version / f"{name}.py").write_text(text(name=name, node=node))
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "..data").symlink_to("../1")
    for name in ("One", "Two"):
        (folder / f"{name}.py").symlink_to(f"..data/{name}.py")
    it = Reloading(folder)
    it.apply(policy("One", "Two"))
    read = PluginDirectories.read

    def swap_in_the_middle(directories):
        found = dict(read(directories))
        if not (folder / "..new").is_symlink() and (folder / "..data").readlink().name == "1":
            (folder / "..new").symlink_to("../2")
            (folder / "..new").replace(folder / "..data")
            found[folder / "Two.py"] = (folder / "Two.py").read_bytes()
        return found

    it.directories.read = lambda: swap_in_the_middle(it.directories)
    await it.settle()
    assert it.counts == (1, 0)
    async with deciding(it.rig):
        it.rig.pod("web")
        await settle()
    assert it.rig.placed_on("web") == "b"


async def test_the_plugin_that_orders_the_queue_waits_for_a_restart(tmp_path):
    sorting = dedent("""
        from podwright.core.framework.interface import Plugin, QueueSortPlugin

        class Sorting(Plugin, QueueSortPlugin):
            name = "PrioritySort2"

            def sort_key(self, pod, queued_at):
                return pod.name
        """)
    (tmp_path / "sorting.py").write_text(sorting)
    it = Reloading(tmp_path, {"policies": PolicySettings(queue_sort="PrioritySort2")})
    it.write(sorting + "#", file="sorting")
    await it.settle()
    assert it.counts == (0, 1)
    assert it.engine.policies.policy_set.queue_sort == "PrioritySort2"


async def test_code_that_hangs_at_import_is_stopped_and_named(start, monkeypatch, caplog):
    monkeypatch.setattr("podwright.engine.policies.plugin_reload.LOAD_SECONDS", 0.5)
    it = start()
    it.apply(policy("Only"))
    it.write(text() + "while True:\n    pass\n")
    await it.settle()
    assert f"files {it.folder / 'only.py'}: did not return within 0.5 s, and was stopped at line" in it.problem()
    (record,) = (record for record in caplog.records if "no answer for 0.5 s" in record.getMessage())
    assert "only.py" in record.getMessage()
    monkeypatch.undo()
    it.write(text(node="b"))
    await it.settle()
    assert not it.problem()
    assert it.counts == (1, 1)
