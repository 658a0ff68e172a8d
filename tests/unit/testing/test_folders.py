"""The folders of killed control planes are removed, no matter when the process was killed."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from podwright.testing.folders import WorkFolder

OWNER = """
import time
from podwright.testing.folders import WorkFolder
folder = WorkFolder()
print(folder.path, flush=True)
time.sleep(60)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def unlocked_folder(name):
    """The folder of an owner that was killed before it took the lock, or during the removal."""
    folder = Path(tempfile.mkdtemp(prefix="podwright-control-plane-"))
    (folder / name).mkdir()
    return folder


def test_the_folder_of_a_killed_owner_is_removed_and_that_of_a_living_one_kept(temporary):
    owners = [subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    living, killed = (owner.stdout.readline().strip() for owner in owners)
    owners[1].kill()
    owners[1].wait()
    mine = WorkFolder()
    there = {str(path) for path in temporary.iterdir()}
    owners[0].kill()
    for owner in owners:
        owner.communicate()
    assert there == {living, str(mine.path)}
    assert killed != living
    mine.remove()


def test_a_folder_without_lock_file_is_removed_when_it_is_old():
    new, old = unlocked_folder("logs"), unlocked_folder("logs")
    long_ago = time.time() - 3600
    os.utime(old, (long_ago, long_ago))
    WorkFolder().remove()
    assert new.is_dir()
    assert not old.exists()


def test_kept_logs_are_not_removed():
    folder = WorkFolder()
    logs = folder.keep()
    WorkFolder().remove()
    assert logs.is_dir()
