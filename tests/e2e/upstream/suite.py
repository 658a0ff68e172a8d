"""Runs Kubernetes' [sig-scheduling] specs, and collects their results.

`scheduling_test.go` compiles upstream's specs, and prints a line of JSON when each spec ends. This module reads these
lines during the run. Read `cluster` next, which starts the cluster, then `specs`, which lists what is left out.
"""

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.e2e.upstream.cluster import NODES, cluster
from tests.e2e.upstream.specs import LEFT_OUT, POD_GROUPS

from podwright.testing import Binaries, ControlPlane, Process, ProcessError, workload_api
from podwright.testing.build import build_source

MAIN = Path(__file__).with_name("scheduling_test.go")
_PREFIX = "SPEC "
_TIMEOUT = "30m"


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a spec. `state` is Ginkgo's (passed, failed, skipped, timedout, …); `message` is the failure, or
    the reason for the skip.
    """

    name: str
    state: str
    seconds: float
    message: str

    @property
    def passed(self) -> bool:
        return self.state == "passed"

    @property
    def ran(self) -> bool:
        """True if the spec was selected. A selected spec that skips itself has a message."""
        return self.state not in {"skipped", "pending"} or bool(self.message)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Good if each spec that passes with kube-scheduler also passes with Podwright; without kube-scheduler, if all
    pass.

    With fewer than `minimum` required specs, which is at least 1, the verdict is not good even if all pass.
    """

    passed: int
    required: int
    missing: tuple[str, ...]
    compared: bool
    minimum: int = 1

    @classmethod
    def of(cls, results: Mapping[str, Sequence[Result]], minimum: int = 1) -> Self:
        """The verdict on results by scheduler."""
        podwright = results.get("podwright", ())
        reference = results.get("kube-scheduler")
        chosen = podwright if reference is None else [result for result in reference if result.passed]
        required = {result.name for result in chosen}
        missing = required - {result.name for result in podwright if result.passed}
        return cls(
            len(required - missing), len(required), tuple(sorted(missing)), reference is not None, max(1, minimum)
        )

    @property
    def good(self) -> bool:
        return not self.missing and self.required >= self.minimum

    def __str__(self) -> str:
        which = "specs that pass with kube-scheduler" if self.compared else "specs"
        return f"Podwright passes {self.passed} of {self.required} {which}"


def abnormal_end(status: int, results: Sequence[Result]) -> str:
    """The problem with the end of a run, by the exit status of the specs; empty if the run ended normally.

    Ginkgo exits with 1 if a spec fails, but also after a failure outside the specs and after its timeout.
    """
    if not results:
        return f"no spec ran (exit status {status})"
    failed = sum(not result.passed and result.state != "skipped" for result in results)
    if status == 0 or (status == 1 and failed):
        return ""
    return f"the specs ended with exit status {status}; {failed} of {len(results)} failed"


def build(binaries: Binaries) -> Path:
    """The path of the compiled specs. The first build takes some minutes. Raises BuildError."""
    return build_source(MAIN, binaries.versions, binaries.report)


def run(
    scheduler: str,
    binaries: Binaries,
    focus: Iterable[str] = (),
    without: Iterable[str] = LEFT_OUT,
    report: Callable[[Result], None] = lambda _: None,
    *,
    pod_groups: bool = True,
) -> list[Result]:
    """Runs the specs on a new cluster with this default scheduler.

    `focus` and `without` are parts of the names of specs to run (by default all) and to leave out. `report` is called
    as each spec ends. Without `pod_groups`, or if this version of Kubernetes has none, the cluster has no pod groups,
    and their specs do not run. Raises ProcessError.
    """
    program = build(binaries)
    pod_groups = pod_groups and workload_api(binaries.versions.kubernetes_minor) is not None
    with cluster(scheduler, binaries, pod_groups=pod_groups) as control_plane:
        process = control_plane.start_process("specs", [program, *_flags(control_plane, focus, without, pod_groups)])
        results = []
        for result in _results(process):
            if result.ran:
                report(result)
                results.append(result)
        if problem := abnormal_end(process.wait(10), results):
            message = f"{problem}\n{process.log_tail()}"
            raise ProcessError(message)
        return results


def _flags(control_plane: ControlPlane, focus: Iterable[str], without: Iterable[str], pod_groups: bool) -> list[str]:
    flags = [
        f"-kubeconfig={control_plane.kubeconfig}",
        "-provider=skeleton",
        f"-num-nodes={NODES}",
        f"-ginkgo.label-filter={'' if pod_groups else f'!{POD_GROUPS}'}",
        f"-ginkgo.timeout={_TIMEOUT}",
        "-ginkgo.seed=1",
        "-ginkgo.v",
        "-ginkgo.no-color",
        "-test.timeout=0",
    ]
    flags += [f"-ginkgo.skip={re.escape(name)}" for name in without]
    return [*flags, *(f"-ginkgo.focus={re.escape(name)}" for name in focus)]


def _results(process: Process) -> Iterator[Result]:
    with process.log.open() as log:
        unfinished = ""
        alive = True
        while alive:
            alive = process.alive  # checked before reading, so that the last output is read after the end
            for line in log:
                unfinished += line
                if unfinished.endswith("\n"):
                    if unfinished.startswith(_PREFIX):
                        yield Result(**json.loads(unfinished.removeprefix(_PREFIX)))
                    unfinished = ""
            if alive:
                time.sleep(0.2)
