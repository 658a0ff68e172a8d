"""Plugin directories are read whole; files of installed plugins that are not what runs are logged, once for each
change.
"""

import asyncio
import importlib
import os
from itertools import count
from textwrap import dedent

import pytest

from podwright.core.plugins import PLUGINS
from podwright.engine.plugins import files as module
from podwright.engine.plugins.files import MAX_BYTES, InstalledFiles, PluginDirectories, PluginFilesError
from support.waiting import patience

numbers = count()

PLUGIN = """
    from podwright.core.framework.interface import FilterPlugin, Plugin

    class Good(Plugin, FilterPlugin):
        name = "Good"

        def filter(self, state, pod, node):
            return None
"""


@pytest.fixture
def path(tmp_path, monkeypatch):
    """The file of an installed plugin."""
    path = tmp_path / f"installed_plugin_{next(numbers)}.py"
    path.write_text(dedent(PLUGIN))
    monkeypatch.syspath_prepend(tmp_path)
    return path


def files_of(path):
    return InstalledFiles([importlib.import_module(path.stem).Good, *PLUGINS.values()])


class TestDirectories:
    def test_a_change_of_the_same_length_and_time_is_seen(self, tmp_path):
        path = tmp_path / "good.py"
        directories = PluginDirectories([tmp_path])
        path.write_text("1")
        assert directories.read() == {path: b"1"}
        stat = path.stat()
        path.write_text("2")
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        assert directories.read() == {path: b"2"}

    def test_a_file_that_has_not_changed_for_a_while_is_read_once(self, tmp_path):
        path = tmp_path / "good.py"
        path.write_text("1")
        directories = PluginDirectories([tmp_path], wall=lambda: path.stat().st_mtime + 10.0)
        assert directories.read()[path] is directories.read()[path]

    def test_only_files_that_are_loaded_are_read(self, tmp_path):
        for name in ("a.py", "_b.py", ".c.py", "d.txt", "e.py.swp"):
            (tmp_path / name).write_text(name)
        (tmp_path / "folder.py").mkdir()
        (tmp_path / "folder.py").rmdir()
        assert PluginDirectories([tmp_path, tmp_path]).read() == {tmp_path / "a.py": b"a.py"}

    def test_what_cannot_be_read_is_named(self, tmp_path):
        (tmp_path / "folder.py").mkdir()
        (tmp_path / "gone.py").symlink_to("..data/gone.py")
        (tmp_path / "large.py").write_bytes(b"#" * (MAX_BYTES + 1))
        os.mkfifo(tmp_path / "pipe.py")
        with pytest.raises(PluginFilesError) as error:
            PluginDirectories([tmp_path, tmp_path / "none"]).read()
        assert error.value.problems == (
            f"plugin directory {tmp_path / 'none'}: is not a directory",
            f"file {tmp_path / 'folder.py'}: cannot be read: Is a directory",
            f"file {tmp_path / 'gone.py'}: is a link to a file that does not exist",
            f"file {tmp_path / 'large.py'}: is larger than 1 MiB",
            f"file {tmp_path / 'pipe.py'}: is not a regular file",
        )

    def test_too_many_files_are_refused(self, tmp_path, monkeypatch):
        monkeypatch.setattr(module, "MAX_FILES", 2)
        for i in range(3):
            (tmp_path / f"{i}.py").touch()
        with pytest.raises(PluginFilesError, match="3 plugin files are too many: at most 2 are loaded"):
            PluginDirectories([tmp_path]).read()

    def test_at_the_start_two_readings_must_agree(self, tmp_path):
        path = tmp_path / "good.py"
        path.write_text("0")
        pauses = []

        def change(seconds):
            pauses.append(seconds)
            if len(pauses) < 3:
                path.write_text(str(len(pauses)))

        assert PluginDirectories([tmp_path]).settled(change) == {path: b"2"}
        assert len(pauses) == 3


def changed(path):
    return f"plugin file {path} has changed, but the version from the operator's start runs until it restarts"


def test_a_file_that_stays_the_same_is_not_reported(path):
    files = files_of(path)
    assert files.differences() == []
    os.utime(path, (1, 1))
    assert files.differences() == [], "its content is the same"


def test_each_change_is_reported_once(path):
    files = files_of(path)
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


def test_a_deleted_file_is_reported(path):
    files = files_of(path)
    path.unlink()
    assert files.differences() == [f"plugin file {path} was deleted, but its plugins run until the operator restarts"]


def test_podwrights_own_files_are_left_out(path):
    assert [*files_of(path).paths] == [path]
    assert not InstalledFiles(PLUGINS.values()).paths


def test_a_file_that_cannot_be_read_for_now_is_not_reported(path, monkeypatch):
    files = files_of(path)
    path.write_text("changed")

    def refuse(_path):
        raise PermissionError

    with monkeypatch.context() as patch:
        patch.setattr(module.Path, "read_bytes", refuse)
        assert files.differences() == []
    assert files.differences() == [changed(path)]


async def test_differences_are_logged_while_the_operator_runs(path, monkeypatch, caplog):
    monkeypatch.setattr(module, "CHECK_SECONDS", 0.001)
    files = files_of(path)
    task = asyncio.create_task(files.run())
    path.write_text("changed")
    async with patience():
        while not caplog.records:
            await asyncio.sleep(0.005)
    await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [("WARNING", changed(path))]
