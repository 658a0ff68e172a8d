"""Chromium, from PATH or from Debian's packages, and Playwright's browser.

The packages are unpacked into the cache, not installed. Without them, tests are skipped; in CI (`CI=true`) they fail.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from podwright.testing import build

PACKAGES = ("chromium", "fonts-dejavu-core")
PROGRAM = Path("usr", "lib", "chromium", "chromium")
_NEW = re.compile(r"^Inst (\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Chromium:
    """The program, and what it needs in its environment."""

    program: Path
    environ: dict[str, str] = field(default_factory=dict)


def find() -> Chromium:
    """Raises OSError and SubprocessError."""
    found = shutil.which("chromium")
    if found is not None:
        return Chromium(Path(found))
    folder = build.cache_folder() / "chromium"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "chromium.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / PROGRAM).exists():
            _unpack(folder)
    libraries = sorted({str(path.parent) for path in folder.rglob("*.so*")})
    return Chromium(folder / PROGRAM, {"LD_LIBRARY_PATH": ":".join(libraries)})


def _unpack(folder: Path) -> None:
    """Downloads Chromium with the packages that it needs and this machine lacks, and unpacks them."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        try:
            needed = _missing()
            _run("apt-get", "download", *needed, cwd=work)
        except subprocess.CalledProcessError:  # no lists of packages yet
            _run("apt-get", "update", cwd=work)
            needed = _missing()
            _run("apt-get", "download", *needed, cwd=work)
        for package in Path(work).glob("*.deb"):
            _run("dpkg", "-x", str(package), f"{work}/unpacked", cwd=work)
        shutil.rmtree(folder, ignore_errors=True)
        Path(work, "unpacked").rename(folder)


def _missing() -> list[str]:
    return _NEW.findall(_run("apt-get", "install", "--simulate", "--no-install-recommends", *PACKAGES, cwd="/"))


def _run(*command: str, cwd: str) -> str:
    done = subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True, timeout=300)
    return done.stdout


@contextmanager
def launched(chromium: Chromium) -> Iterator[Browser]:
    """A browser without windows, which uses no network but loopback."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium.program,
            args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--disable-background-networking"],
            env={**os.environ, **chromium.environ},
        )
        try:
            yield browser
        finally:
            browser.close()
