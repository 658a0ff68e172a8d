"""Prometheus and promtool, from PATH or from Debian's package, and what they read of manifests/overlays/monitoring.

`prometheus` is the folder of the programs. The package is unpacked into the cache, not installed. Without it, tests are
skipped; in CI (`CI=true`) they fail.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from podwright.testing import build
from support.control_plane.operator_process import BASE

OVERLAY = BASE.parent / "overlays" / "monitoring"
PROGRAMS = ("prometheus", "promtool")
PANEL_INTERVAL = "1m"
"""The value of Grafana's variable $__rate_interval in tests."""


@pytest.fixture(scope="session")
def prometheus() -> Path:
    """The folder of the programs."""
    found = shutil.which("promtool")
    if found is not None and shutil.which("prometheus", path=str(Path(found).parent)):
        return Path(found).parent
    try:
        return _unpacked()
    except (OSError, subprocess.SubprocessError) as error:
        problem = f"no Prometheus: {error}"
    if os.environ.get("CI", "").lower() in {"true", "1"}:
        pytest.fail(problem, pytrace=False)
    pytest.skip(problem)


def _unpacked() -> Path:
    """The programs of Debian's package, in the cache."""
    folder = build.cache_folder() / "prometheus"
    programs = folder / "usr" / "bin"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "prometheus.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if all((programs / name).exists() for name in PROGRAMS):
            return programs
        with tempfile.TemporaryDirectory(dir=folder.parent) as work:
            try:
                _run("apt-get", "download", "prometheus", cwd=work)
            except subprocess.CalledProcessError:  # no lists of packages yet
                _run("apt-get", "update", cwd=work)
                _run("apt-get", "download", "prometheus", cwd=work)
            (package,) = Path(work).glob("prometheus_*.deb")
            _run("dpkg", "-x", str(package), f"{work}/unpacked", cwd=work)
            shutil.rmtree(folder, ignore_errors=True)
            Path(work, "unpacked").rename(folder)
    return programs


def _run(*command: str, cwd: str) -> None:
    subprocess.run(command, cwd=cwd, check=True, capture_output=True, timeout=300)


def groups() -> list[dict[str, Any]]:
    """The groups of the shipped PrometheusRule."""
    found: list[dict[str, Any]] = yaml.safe_load((OVERLAY / "prometheus-rule.yaml").read_text())["spec"]["groups"]
    return found


def alerts() -> dict[str, dict[str, Any]]:
    """The shipped alerts by name."""
    return {rule["alert"]: rule for group in groups() for rule in group["rules"]}


def panels() -> dict[str, list[str]]:
    """The queries of each panel of the shipped dashboard, by its title. Grafana's variables are filled in."""
    dashboard = json.loads((OVERLAY / "dashboard.json").read_text())
    variables = {each["name"]: each["current"]["value"] for each in dashboard["templating"]["list"]}
    found = {}
    for panel in dashboard["panels"]:
        queries = [target["expr"] for target in panel.get("targets", ())]
        if queries:
            found[panel["title"]] = [_filled(query, variables) for query in queries]
    return found


def _filled(query: str, variables: dict[str, str]) -> str:
    known = {**variables, "__rate_interval": PANEL_INTERVAL}
    return re.sub(r"\$(\w+)", lambda match: known[match[1]], query)
