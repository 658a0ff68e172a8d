"""Podwright's dependencies: no version with a known hole, every package pinned, and base images by digest."""

from __future__ import annotations

import re
import subprocess
import tomllib
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
REQUIREMENTS = {
    found.name: found
    for found in map(Requirement, [*PROJECT["project"]["dependencies"], *PROJECT["dependency-groups"]["dev"]])
}
LOCKS = [ROOT / "requirements.lock", ROOT / "requirements-dev.lock"]
DIGEST = "sha256:" + "0123456789abcdef" * 4


def pins(lock):
    return re.findall(r"^([\w.-]+)==([\w.]+)", lock.read_text(), re.MULTILINE)


@pytest.mark.parametrize(
    ("package", "hole", "last_affected"),
    [
        ("aiohttp", "CVE-2026-69244", "3.14.2"),
        ("aiohttp", "CVE-2026-54273", "3.14.0"),
        ("certifi", "CVE-2024-39689", "2024.6.2"),
        ("click", "CVE-2026-7246", "8.3.2"),
        ("idna", "CVE-2026-45409", "3.14"),
        ("orjson", "CVE-2025-67221", "3.11.5"),
        ("pygments", "CVE-2026-4539", "2.19.2"),
        ("pytest", "CVE-2025-71176", "9.0.2"),
        ("python-json-logger", "CVE-2025-27607", "3.2.1"),
        ("pyyaml", "CVE-2020-14343", "5.3.1"),
        ("requests", "CVE-2026-25645", "2.32.5"),
        ("urllib3", "CVE-2026-44432", "2.6.3"),
    ],
)
def test_a_version_with_a_known_hole_is_refused(package, hole, last_affected):
    assert last_affected not in REQUIREMENTS[package].specifier, hole


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_the_pinned_versions_are_allowed(lock):
    pinned = pins(lock)
    assert len(pinned) > 30
    for name, version in pinned:
        if name in REQUIREMENTS:
            assert Version(version) in REQUIREMENTS[name].specifier, name


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_what_a_pinned_package_requires_is_pinned_too(lock):
    pinned = {canonicalize_name(name) for name, _ in pins(lock)}
    installed = {canonicalize_name(found.name): found for found in distributions()}
    missing = {
        f"{name} requires {required.name}"
        for name in pinned & installed.keys()
        for required in map(Requirement, installed[name].requires or ())
        if required.marker is None or required.marker.evaluate({"extra": ""})
        if canonicalize_name(required.name) not in pinned
    }
    assert not missing


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_every_pinned_package_has_hashes(lock):
    packages = re.split(r"\n(?=[\w.-]+==)", lock.read_text())
    assert [package.split(" ")[0] for package in packages if "--hash=sha256:" not in package] == []


def test_every_requirement_of_the_project_is_pinned():
    names = {Requirement(text).name for text in PROJECT["project"]["dependencies"]}
    assert names <= {name for name, _ in pins(LOCKS[0])}


def test_both_stages_of_the_image_begin_with_the_base_image_that_the_build_names():
    lines = (ROOT / "Containerfile").read_text().splitlines()
    assert [line.split()[1] for line in lines if line.startswith("FROM ")] == ["${BUILDER}", "${BASE}"]
    assert "ARG BUILDER=${BASE}" in lines


@pytest.mark.parametrize(
    ("base", "accepted"),
    [
        pytest.param(f"docker.io/library/python@{DIGEST}", True, id="a digest"),
        pytest.param(f"registry.example.com:5000/python:3.13-slim@{DIGEST}", True, id="a tag and a digest"),
        pytest.param("docker.io/library/python:3.13-slim", False, id="a tag"),
        pytest.param("", False, id="nothing"),
        pytest.param(f"docker.io/library/python@{DIGEST[:-1]}", False, id="a part of a digest"),
        pytest.param(f"@{DIGEST}", False, id="no image"),
        pytest.param(f"python@{DIGEST} --privileged", False, id="more than an image"),
    ],
)
def test_a_release_is_built_only_from_a_base_image_with_a_digest(base, accepted):
    done = subprocess.run([ROOT / ".ci" / "check-base-image", base], capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == accepted
    assert accepted or "podman image inspect" in done.stderr


def test_make_image_asks_for_a_digest_before_it_builds():
    done = subprocess.run(
        ["make", "--no-print-directory", "image", "BASE=python:3.13", "CONTAINERS=false"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "by its digest" in done.stderr
    assert "build -f Containerfile" not in done.stdout
