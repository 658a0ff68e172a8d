"""Running Kubernetes' [sig-scheduling] specs, and what came of each.

The specs are upstream's, compiled with `scheduling_test.go`; each ends with a line of JSON there, which is read here
while the run goes on. Read `cluster` next: what they run on; then `specs`: which are left out.
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

from podwright.testing import Binaries, ControlPlane, Process, ProcessError
from podwright.testing.build import build_test

MAIN = Path(__file__).with_name("scheduling_test.go")
_PREFIX = "SPEC "
_LONGEST = "30m"


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a spec: `state` is Ginkgo's (passed, failed, skipped, timedout, …), `message` says why."""

    name: str
    state: str
    seconds: float
    message: str

    @property
    def passed(self) -> bool:
        return self.state == "passed"

    @property
    def ran(self) -> bool:
        """Whether it was chosen at all; one that skipped itself says why."""
        return self.state not in {"skipped", "pending"} or bool(self.message)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether each spec that passes with kube-scheduler passes with Podwright; without kube-scheduler, whether each does.

    `fewest`: with fewer specs to pass than that, but with none in any case, it is not good whatever passes.
    """

    passed: int
    wanted: int
    missing: tuple[str, ...]
    compared: bool
    fewest: int = 1

    @classmethod
    def of(cls, results: Mapping[str, Sequence[Result]], fewest: int = 1) -> Self:
        """The verdict on results by scheduler."""
        ours = results.get("podwright", ())
        reference = results.get("kube-scheduler")
        chosen = ours if reference is None else [result for result in reference if result.passed]
        wanted = {result.name for result in chosen}
        missing = wanted - {result.name for result in ours if result.passed}
        return cls(len(wanted - missing), len(wanted), tuple(sorted(missing)), reference is not None, max(1, fewest))

    @property
    def good(self) -> bool:
        return not self.missing and self.wanted >= self.fewest

    def __str__(self) -> str:
        which = "specs that pass with kube-scheduler" if self.compared else "specs"
        return f"Podwright passes {self.passed} of {self.wanted} {which}"


def interrupted(status: int, results: Sequence[Result]) -> str:
    """What is wrong with the end of a run, by the exit status of the specs, empty if nothing is.

    Ginkgo ends with 1 if a spec has failed, but also if anything around the specs has, or if its time was over.
    """
    if not results:
        return f"no spec ran (exit status {status})"
    failed = sum(not result.passed and result.state != "skipped" for result in results)
    if status == 0 or (status == 1 and failed):
        return ""
    return f"the specs ended with exit status {status}; {failed} of {len(results)} failed"


def build(binaries: Binaries) -> Path:
    """The compiled specs; built with Go the first time, in some minutes. Raises BuildError."""
    return build_test(MAIN, binaries.versions, binaries.report)


def run(
    scheduler: str,
    binaries: Binaries,
    focus: Iterable[str] = (),
    without: Iterable[str] = LEFT_OUT,
    tell: Callable[[Result], None] = lambda _: None,
    *,
    pod_groups: bool = True,
) -> list[Result]:
    """Run the specs on a new cluster with this default scheduler.

    `focus` are parts of the names of those to run, all if empty, `without` of those not to run. `tell` is called with each
    result at once. Without `pod_groups` the cluster has none, and their specs are not run. Raises ProcessError.
    """
    program = build(binaries)
    with cluster(scheduler, binaries, pod_groups=pod_groups) as control_plane:
        process = control_plane.start_process("specs", [program, *_flags(control_plane, focus, without, pod_groups)])
        results = []
        for result in _results(process):
            if result.ran:
                tell(result)
                results.append(result)
        if problem := interrupted(process.wait(10), results):
            message = f"{problem}\n{process.log_tail()}"
            raise ProcessError(message)
        return results


def _flags(control_plane: ControlPlane, focus: Iterable[str], without: Iterable[str], pod_groups: bool) -> list[str]:
    flags = [
        f"-kubeconfig={control_plane.kubeconfig}",
        "-provider=skeleton",
        f"-num-nodes={NODES}",
        f"-ginkgo.label-filter={'' if pod_groups else f'!{POD_GROUPS}'}",
        f"-ginkgo.timeout={_LONGEST}",
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
            alive = process.alive  # asked first: what it wrote last is read after its end
            for line in log:
                unfinished += line
                if unfinished.endswith("\n"):
                    if unfinished.startswith(_PREFIX):
                        yield Result(**json.loads(unfinished.removeprefix(_PREFIX)))
                    unfinished = ""
            if alive:
                time.sleep(0.2)
