"""Asks kube-scheduler's own code for the answers of conformance cases, and compares them with Podwright's.

The program is built from `tests/conformance/oracle` with Go into the cache, like the control plane, against the
reference release of Kubernetes. `make conformance` runs this module.
"""

import random
import subprocess
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Final

import click
import orjson

from podwright.simulator.evaluations.cases import read_cases, run_case
from podwright.simulator.evaluations.comparison import differences
from podwright.testing.build import build_source
from podwright.testing.versions import RELEASES, Versions
from support.conformance.clusters import cluster_cases
from support.conformance.device_variations import varied
from support.conformance.devices import device_cases
from support.conformance.files import stored
from support.conformance.pod_resources import pod_resources_cases

SOURCE: Final = Path(__file__).parents[2] / "conformance" / "oracle"

Case = dict[str, Any]


def program() -> Path:
    """The path of the program, built if necessary. Raises BuildError."""
    return build_source(SOURCE, Versions())


def answered(cases: Iterable[Case]) -> list[Case]:
    """The cases with kube-scheduler's answers."""
    lines = b"".join(orjson.dumps(case) + b"\n" for case in cases)
    done = subprocess.run([program()], input=lines, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.decode())
    return [orjson.loads(line) for line in done.stdout.splitlines()]


def disagreements(cases: Iterable[Case]) -> tuple[int, dict[str, list[str]]]:
    """How many cases were compared, and by the ID of a case how Podwright's answer differs.

    Cases whose pod kube-scheduler cannot bind, and those whose answer is random, are not compared.
    """
    wrong, compared = {}, 0
    for case in answered(cases):
        expected = case.get("expect") or {}
        if (expected.get("allocation") or {}).get("error") or expected.get("unstable"):
            continue
        compared += 1
        if found := list(differences(run_case(case), case)):
            wrong[case["id"]] = found
    return compared, wrong


def varied_device_cases(seed: int, count: int) -> Iterator[Case]:
    """Variations of generated cases with devices, and of the stored ones."""
    return varied([*device_cases(seed, 100), *read_cases(str(stored("dra")))], seed, count)


GENERATORS: Final[dict[str, Callable[[int, int], Iterator[Case]]]] = {
    "clusters": cluster_cases,
    "pod-resources": pod_resources_cases,
    "devices": device_cases,
    "devices varied": varied_device_cases,
}
_SHARES: Final = {"clusters": 0.6, "pod-resources": 0.2, "devices": 0.1, "devices varied": 0.1}


@click.command()
@click.option("--cases", "count", default=1000, show_default=True, help="Number of random cases.")
@click.option("--seed", type=int, help="The seed of an earlier run, which repeats its cases.")
@click.option("--build", "only_build", is_flag=True, help="Only build the program, and print its path.")
def main(count: int, seed: int | None, only_build: bool) -> None:
    """Compare Podwright's answers to random cases with those of kube-scheduler's own code."""
    path = program()
    if only_build:
        click.echo(path)
        return
    seed = random.SystemRandom().randrange(10**9) if seed is None else seed
    click.echo(f"seed {seed}")
    cases = chain.from_iterable(GENERATORS[name](seed, round(count * share)) for name, share in _SHARES.items())
    compared, wrong = disagreements(cases)
    for name, found in wrong.items():
        click.echo(f"{name}: {'; '.join(found)}")
    click.echo(f"{compared - len(wrong)} of {compared} answers are those of kube-scheduler {RELEASES[-1]}")
    if wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
