"""A plugin that hangs in native code until the process is killed is remembered, by its file's content."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from textwrap import dedent

import pytest

from podwright.kube.plugins import hangs as plugin_hangs
from podwright.kube.plugins.hangs import PluginHangs

PROGRAM = """
    import sys, time
    from pathlib import Path

    from podwright.engine.plugins.files import PluginDirectories
    from podwright.engine.plugins.loading import load
    from podwright.kube.plugins import hangs as plugin_hangs
    from podwright.kube.plugins.hangs import PluginHangs

    plugin_hangs.HANG_SECONDS = 0.3
    hangs = PluginHangs(Path(sys.argv[2]))
    directories = PluginDirectories([Path(sys.argv[1])])

    def skip(texts):
        hangs.watch(texts)
        return ()

    loaded = load(directories, skip=skip)
    hangs.watch(loaded.texts)
    print("loaded", flush=True)
    loaded.classes["Hanging"].filter(None, None, None, None)
"""

PLUGIN = """
    import itertools

    from podwright.core.framework.interface import FilterPlugin, Plugin

    class Hanging(Plugin, FilterPlugin):
        name = "Hanging"

        def filter(self, state, pod, node):
            helper()

    def helper():
        {body}

    {last}
"""
NATIVE = "sum(itertools.repeat(1))"
"""It holds the interpreter's lock, and looks for no signals."""


@pytest.fixture
def state(tmp_path):
    (tmp_path / "state").mkdir()
    return tmp_path / "state"


@pytest.fixture
def plugins(tmp_path):
    (tmp_path / "plugins").mkdir()
    return tmp_path / "plugins"


def hang(plugins, state, body, last="", where="helper"):
    """Runs a process that hangs, and kills it when it has said that it is in the function `where`.

    On a busy machine it may say before that it is in the import of the file.
    """
    (plugins / "hanging.py").write_text(dedent(PLUGIN).format(body=body, last=last))
    process = subprocess.Popen(
        [sys.executable, "-c", dedent(PROGRAM), str(plugins), str(state)], stdout=subprocess.PIPE, text=True
    )
    try:
        while not re.search(rf'hanging\.py", line [0-9]+ in {where}\n', read(state / "hang.txt")):
            assert process.poll() is None, "it has ended"
            time.sleep(0.02)
    finally:
        process.kill()
        process.communicate()


def read(path):
    return path.read_text() if path.exists() else ""


def found(plugins, state):
    path = plugins / "hanging.py"
    return PluginHangs(state).of(path, path.read_bytes())


def test_native_code_that_never_comes_back_is_remembered_after_a_restart(plugins, state, caplog):
    hang(plugins, state, NATIVE)
    hung = found(plugins, state)
    assert (hung.where, hung.at_import) == ("line 13, in helper", False)
    assert "the former process hung, or was stopped for long, with these stacks:" in caplog.text
    assert "hanging.py" in caplog.text
    assert found(plugins, state) == hung, "also after the next restart"
    (plugins / "hanging.py").write_text("# mended")
    assert found(plugins, state) is None


def test_python_code_that_is_never_stopped_is_remembered_too(plugins, state):
    hang(plugins, state, "while True: pass")
    assert found(plugins, state).where == "line 13, in helper"


def test_a_file_that_hung_at_its_import_is_remembered_as_such(plugins, state):
    hang(plugins, state, "pass", last=NATIVE, where="<module>")
    hung = found(plugins, state)
    assert (hung.where, hung.at_import) == ("line 15, in <module>", True)


def dump(state, stacks, thread=0x7F01, files=None):
    header = {"thread": thread, "files": files or {"/plugins/a.py": "digest"}}
    (state / "hang.txt").write_text(json.dumps(header) + "\n" + dedent(stacks))


def remembered(state):
    PluginHangs(state)
    content = read(state / "hung-plugins.json")
    return [(each["path"], each["where"], each["atImport"]) for each in json.loads(content or "[]")]


@pytest.mark.parametrize(
    ("stacks", "expected"),
    [
        pytest.param("", [], id="no stack"),
        pytest.param(
            """\
            Timeout (0:00:20)!
            Thread 0x0000000000007f02 (most recent call first):
              File "/usr/lib/python3.13/threading.py", line 1 in wait

            Thread 0x0000000000007f01 (most recent call first):
              File "/usr/lib/python3.13/site-packages/numpy/x.py", line 3 in solve
              File "/plugins/a.py", line 7 in filter
              File "/plugins/a.py", line 9 in other
            """,
            [("/plugins/a.py", "line 7, in filter", False)],
            id="the innermost plugin of the main thread",
        ),
        pytest.param(
            """\
            Timeout (0:00:20)!
            Thread 0x0000000000007f01 (most recent call first):
              File "/usr/lib/podwright/engine.py", line 7 in run
            Thread 0x0000000000007f02 (most recent call first):
              File "/plugins/a.py", line 7 in background
            """,
            [],
            id="a thread of a plugin is not what hung",
        ),
        pytest.param(
            """\
            Timeout (0:00:20)!
            Thread 0x0000000000007f01 [MainThread] (most recent call first):
              File "/usr/lib/podwright/engine.py", line 7 in run
            Thread 0x0000000000007f02 [podwright plugin loa] (most recent call first):
              File "/plugins/a.py", line 7 in <module>
            """,
            [("/plugins/a.py", "line 7, in <module>", True)],
            id="a file that is being imported",
        ),
    ],
)
def test_the_plugin_in_which_the_process_hung_is_found_in_its_stacks(state, stacks, expected):
    dump(state, stacks)
    assert remembered(state) == expected


@pytest.mark.parametrize("content", ["", "{", "[]\n  File", "\0" * 100, '{"thread": "x", "files": 1}\nThread 0x1'])
def test_files_that_make_no_sense_are_ignored(state, content):
    (state / "hang.txt").write_text(content)
    (state / "hung-plugins.json").write_text(content)
    assert PluginHangs(state).of(state / "a.py", b"") is None


def test_a_process_that_goes_on_is_not_taken_for_hung(state, plugins, monkeypatch):
    monkeypatch.setattr(plugin_hangs, "HANG_SECONDS", 0.02)
    hangs = PluginHangs(state)
    hangs.watch({plugins / "a.py": b"text"})
    while "Timeout" not in read(state / "hang.txt"):
        time.sleep(0.01)
    time.sleep(0.05)
    monkeypatch.setattr(plugin_hangs, "HANG_SECONDS", 3600)
    hangs.alive()
    assert "Timeout" not in read(state / "hang.txt")
    hangs.stop()


def test_a_bounded_number_of_hangs_is_remembered(state, monkeypatch):
    monkeypatch.setattr(plugin_hangs, "MOST", 2)
    for i in range(3):
        dump(state, 'Thread 0x7f01\n  File "/plugins/a.py", line 7 in f', files={"/plugins/a.py": str(i)})
        PluginHangs(state)
    assert len(json.loads(read(state / "hung-plugins.json"))) == 2


def test_a_directory_that_cannot_be_written_costs_only_the_memory(state, plugins, caplog):
    hangs = PluginHangs(state / "gone")
    hangs.watch({plugins / "a.py": b"text"})
    hangs.alive()
    hangs.stop()
    assert "a plugin that hangs will not be remembered" in caplog.text


FULL = """
    import resource, signal, sys
    from pathlib import Path

    from podwright.kube.plugins.hangs import PluginHangs

    hangs = PluginHangs(Path(sys.argv[1]))
    texts = {Path("/plugins/a.py"): b"text"}
    if sys.argv[2] == "later":
        hangs.watch(texts)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    hangs.watch(texts)
    hangs.alive()
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    hangs.watch(texts)
    hangs.alive()
    hangs.stop()
    print("the end")
"""


@pytest.mark.parametrize("when", ["from the start", "later"])
def test_a_full_disk_costs_only_the_memory_until_there_is_room(state, when):
    """In a process of its own, because a limit of the process takes the place of the full disk."""
    command = [sys.executable, "-c", dedent(FULL), str(state), when]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ended.stdout == "the end\n", ended.stderr
    assert ended.stderr.count("a plugin that hangs will not be remembered: ") == 1
    assert json.loads(read(state / "hang.txt"))["files"], "watched again"


def test_a_file_that_others_closed_costs_only_the_memory(state, plugins, monkeypatch, caplog):
    hangs = PluginHangs(state)
    hangs.watch({plugins / "a.py": b"text"})

    def dump_traceback_later(_seconds, *, file):
        file.close()
        raise ValueError("I/O operation on closed file")

    monkeypatch.setattr(plugin_hangs.faulthandler, "dump_traceback_later", dump_traceback_later)
    hangs.alive()
    hangs.alive()
    assert caplog.text.count("a plugin that hangs will not be remembered") == 1
