"""Plugin files that are not what runs are logged, once for each change."""

import asyncio
import importlib
import os
from textwrap import dedent

import pytest

from podwright.core.plugins import PLUGINS
from podwright.engine import plugin_files as module
from podwright.engine.plugin_files import PluginFiles
from podwright.engine.plugin_loading import load_plugins

PLUGIN = """
    from podwright.core.framework.interface import FilterPlugin, Plugin

    class Good(Plugin, FilterPlugin):
        name = "Good"

        def filter(self, state, pod, node):
            return None
"""


@pytest.fixture
def path(tmp_path):
    (tmp_path / "good.py").write_text(dedent(PLUGIN))
    return tmp_path / "good.py"


def changed(path):
    return f"plugin file {path} has changed, but the version from the operator's start runs until it restarts"


def test_a_file_that_stays_the_same_is_not_reported(path):
    files = PluginFiles([path.parent])
    files.add(load_plugins([path.parent]).values())
    assert files.differences() == []
    os.utime(path, (1, 1))
    assert files.differences() == [], "its content is the same"


def test_each_change_is_reported_once(path):
    files = PluginFiles([path.parent])
    files.add(load_plugins([path.parent]).values())
    original = path.read_text()
    path.write_text(original + "# a comment")
    assert files.differences() == [changed(path)]
    assert files.differences() == []
    path.write_text(original + "# another one")
    assert files.differences() == [changed(path)]
    path.write_text(original)
    assert files.differences() == [], "it is what runs again"
    path.write_text(original + "# another one")
    assert files.differences() == [changed(path)]


def test_new_and_deleted_files_are_reported(path):
    files = PluginFiles([path.parent])
    other, ignored = path.with_name("other.py"), path.with_name("_helper.py")
    other.write_text("")
    ignored.write_text("")
    assert files.differences() == [f"plugin file {other} is new, and not loaded until the operator restarts"]
    path.unlink()
    assert files.differences() == [f"plugin file {path} was deleted, but its plugins run until the operator restarts"]
    other.unlink()
    assert files.differences() == []


def test_a_directory_that_is_replaced_by_a_link_to_another_one_is_compared_by_content(tmp_path):
    """Kubernetes updates the files of a ConfigMap that way."""
    for version in ("1", "2", "3"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "good.py").write_text(dedent(PLUGIN) + ("# changed" if version == "3" else ""))
    plugins = tmp_path / "plugins"
    plugins.symlink_to("1")
    files = PluginFiles([plugins])
    for version, expected in (("2", []), ("3", [changed(plugins / "good.py")])):
        plugins.unlink()
        plugins.symlink_to(version)
        assert files.differences() == expected


def test_a_file_that_cannot_be_read_for_now_is_not_reported(path, monkeypatch):
    files = PluginFiles([path.parent])
    path.write_text("changed")

    def refuse(_path):
        raise PermissionError

    with monkeypatch.context() as patch:
        patch.setattr(module.Path, "read_bytes", refuse)
        assert files.differences() == []
    assert files.differences() == [changed(path)]


def test_the_files_of_installed_packages_are_compared(tmp_path, monkeypatch):
    path = tmp_path / "installed_plugin_of_a_test.py"
    path.write_text(dedent(PLUGIN))
    monkeypatch.syspath_prepend(tmp_path)
    plugin = importlib.import_module("installed_plugin_of_a_test").Good
    files = PluginFiles(())
    assert files.empty
    files.add(PLUGINS.values())
    assert files.empty, "Podwright's own plugins are left out"
    files.add([plugin])
    assert not files.empty
    path.write_text("")
    assert files.differences() == [changed(path)]


async def test_differences_are_logged_while_the_operator_runs(path, monkeypatch, caplog):
    monkeypatch.setattr(module, "CHECK_SECONDS", 0.001)
    files = PluginFiles([path.parent])
    task = asyncio.create_task(files.run())
    path.write_text("changed")
    async with asyncio.timeout(5):
        while not caplog.records:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [("WARNING", changed(path))]
