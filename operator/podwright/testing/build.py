"""Builds the control plane's programs with Go, from the modules that their projects publish.

Other modules cannot simply require `k8s.io/kubernetes`: its `go.mod` replaces the staging modules (`k8s.io/api` and so
on) with folders that the published module lacks. The build replaces them with their published releases instead, v0.37.2
for v1.37.2. A finished program is renamed into place, so that the cache holds only complete programs. A lock file
prevents concurrent builds. `binaries` calls this module.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from podwright.testing.versions import Executable, Family, Versions

_GO_MODULES: dict[Family, str] = {
    "kubernetes": "k8s.io/kubernetes",
    "etcd": "go.etcd.io/etcd/server/v3",
    "kwok": "sigs.k8s.io/kwok",
    "helm": "helm.sh/helm/v3",
}
_STAGED = re.compile(r"^\s*(\S+) => \./staging/", re.MULTILINE)
_KWOK_STAGES = ("pod/fast", "node/fast", "node/heartbeat-with-lease")
_ETCD_MAIN = """package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
"""
_PROGRESS_EVERY_S = 15.0

Report = Callable[[str], None]


class BuildError(RuntimeError):
    """A program could not be built. The message gives the reason and the path of the log."""


def cache_folder() -> Path:
    """The folder of built programs: `PODWRIGHT_CACHE`, or `podwright` in the user's cache folder."""
    if chosen := os.environ.get("PODWRIGHT_CACHE"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "podwright"


def family_folder(family: Family, versions: Versions) -> Path:
    """The folder in the cache for the programs of this family, in the version that `versions` has of it. It may not
    exist.
    """
    return cache_folder() / f"{family}-{versions.of(family)}"


def complete(path: Path, program: Executable) -> bool:
    """True if `path` is executable and the program's companion files are in its folder."""
    return os.access(path, os.X_OK) and all((path.parent / file).exists() for file in program.companions)


def go_command() -> str | None:
    """The path of `go`, None if it is not installed."""
    return shutil.which("go")


def report_to_stderr(message: str) -> None:
    """Prints a message of a build to stderr."""
    print(message, file=sys.stderr, flush=True)


def build(program: Executable, versions: Versions, report: Report = report_to_stderr) -> Path:
    """Builds `program` into the cache unless it is there, and returns its path. Raises BuildError."""
    folder = family_folder(program.family, versions)
    target = folder / program.name
    if complete(target, program):
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with _lock(cache_folder() / "build.lock", report):
        if not complete(target, program):
            go = go_command()
            if go is None:
                raise BuildError(
                    f"{program.name} {versions.of(program.family)} is missing, and there is no Go to build it"
                )
            _Build(go, program, versions=versions, folder=folder, report=report).run(target)
    return target


def build_source(source: Path, versions: Versions, report: Report = report_to_stderr) -> Path:
    """Builds Go code that imports packages of `k8s.io/kubernetes`. Raises BuildError.

    `source` is a folder with a main package, or a test main, which may also import test packages and whose name must
    end in `_test.go`. The program is cached by the content of `source`.
    """
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in _go_files(source))).hexdigest()[:12]
    return build(Executable(f"{source.stem}-{digest}", "kubernetes", ".", source=source), versions, report)


def _go_files(source: Path) -> list[Path]:
    return sorted(source.glob("*.go")) if source.is_dir() else [source]


class _Build:
    """One build: writes a Go module that requires the program's module, then compiles."""

    def __init__(self, go: str, program: Executable, versions: Versions, folder: Path, report: Report) -> None:
        self._go = go
        self._program = program
        self._version = versions.of(program.family)
        self._folder = folder
        self._source = folder / (program.source.stem if program.source else "source")
        self._report = report
        self._environ = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}

    def run(self, target: Path) -> None:
        started = time.monotonic()
        self._report(f"{self._program.name} {self._version}: building with Go into the cache {self._folder}")
        self._write_module()
        if self._program.source:
            for old in self._source.glob("*.go"):
                old.unlink()
            for file in _go_files(self._program.source):
                shutil.copy(file, self._source)
        if self._program.family == "kwok":
            self._copy_stages()
        unfinished = target.with_suffix(".unfinished")
        log = self._folder / f"{self._program.name}.build.log"
        self._compile(unfinished, log)
        unfinished.chmod(0o755)
        unfinished.replace(target)
        self._report(f"{self._program.name} {self._version}: built in {time.monotonic() - started:.0f} s")

    def _write_module(self) -> None:
        self._source.mkdir(exist_ok=True)
        if (self._source / "go.mod").exists():
            return
        module = _GO_MODULES[self._program.family]
        lines = ["module podwright.dev/control-plane", "", "go 1.24.0", "", f"require {module} v{self._version}"]
        unfinished = self._source / "go.mod.unfinished"
        unfinished.write_text("\n".join(lines) + "\n")
        if self._program.family == "kubernetes":
            staged_version = "v0." + self._version.split(".", 1)[1]
            lines += [f"replace {name} => {name} {staged_version}" for name in self._staging_modules(module)]
        if self._program.family == "etcd":
            (self._source / "main.go").write_text(_ETCD_MAIN)
        unfinished.write_text("\n".join(lines) + "\n")
        unfinished.replace(self._source / "go.mod")

    def _staging_modules(self, module: str) -> list[str]:
        go_mod = Path(self._download(module)["GoMod"]).read_text()
        return _STAGED.findall(go_mod)

    def _download(self, module: str) -> dict[str, str]:
        """Downloads a module into Go's cache, and returns Go's output, with `Dir` and `GoMod`."""
        done = subprocess.run(
            [self._go, "mod", "download", "-json", f"{module}@v{self._version}"],
            cwd=self._folder,
            env=self._environ,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise BuildError(f"Go cannot download {module}@v{self._version}: {(done.stdout + done.stderr).strip()}")
        answer: dict[str, str] = json.loads(done.stdout)
        return answer

    def _copy_stages(self) -> None:
        """Writes KWOK's own Stages, which simulate a kubelet, to one file next to the program."""
        stages = Path(self._download(_GO_MODULES["kwok"])["Dir"]) / "kustomize" / "stage"
        files = [file for folder in _KWOK_STAGES for file in sorted((stages / folder).glob("*.yaml"))]
        documents = [file.read_text() for file in files if file.name != "kustomization.yaml"]
        (self._folder / "stages.yaml").write_text("---\n".join(documents))

    def _compile(self, output: Path, log: Path) -> None:
        command = [
            *(self._go, *self._verb(), "-mod=mod", "-buildvcs=false", "-trimpath", "-v"),
            *("-ldflags", self._linker_flags(), "-o", str(output), self._program.package),
        ]
        with log.open("w") as lines:
            process = subprocess.Popen(
                command, cwd=self._source, env=self._environ, stdout=lines, stderr=subprocess.STDOUT
            )
            try:
                self._watch(process, log)
            finally:
                if process.poll() is None:
                    process.terminate()
                    process.wait()
        if process.returncode:
            last = "\n".join(log.read_text().splitlines()[-8:])
            raise BuildError(f"Go cannot build {self._program.name} {self._version}; the log is {log}:\n{last}")

    def _verb(self) -> tuple[str, ...]:
        source = self._program.source
        return ("test", "-c") if source and source.is_file() else ("build",)

    def _watch(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        started = reported = time.monotonic()
        while process.poll() is None:
            time.sleep(0.2)
            now = time.monotonic()
            if now - reported >= _PROGRESS_EVERY_S:
                reported = now
                compiled = sum(not line.startswith("go: ") for line in log.read_text().splitlines())
                self._report(f"{self._program.name}: {compiled} packages compiled in {now - started:.0f} s …")

    def _linker_flags(self) -> str:
        flags = ["-s", "-w"]
        if self._program.family == "kubernetes":
            major, minor, *_ = self._version.split(".")
            info = {"gitVersion": f"v{self._version}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
            flags += [f"-X k8s.io/component-base/version.{name}={value}" for name, value in info.items()]
        if self._program.family == "kwok":
            flags.append(f"-X sigs.k8s.io/kwok/pkg/consts.Version=v{self._version}")
        if self._program.family == "helm":
            flags.append(f"-X helm.sh/helm/v3/internal/version.version=v{self._version}")
        return " ".join(flags)


@contextlib.contextmanager
def _lock(path: Path, report: Report) -> Iterator[IO[str]]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("waiting for another process to build the control plane …")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock
