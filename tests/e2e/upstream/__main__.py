"""`python -m tests.e2e.upstream`: runs Kubernetes' scheduling specs with kube-scheduler, then with Podwright."""

import sys
from collections.abc import Iterable

import click
from tests.e2e.upstream.cluster import SCHEDULERS
from tests.e2e.upstream.specs import LEFT_OUT, MINIMUM, SLOW
from tests.e2e.upstream.suite import Result, Verdict, build, run

from podwright.testing import Binaries, BinariesMissingError, BuildError, ProcessError, VersionError


@click.command()
@click.option(
    "--scheduler",
    "schedulers",
    multiple=True,
    type=click.Choice(SCHEDULERS),
    help="Run only with this scheduler; repeatable.",
)
@click.option("--focus", multiple=True, help="Run only specs with this text in their name; repeatable.")
@click.option("--quick", is_flag=True, help="Leave out the slowest specs.")
@click.option("--all", "without_exception", is_flag=True, help="Also run the specs that are left out by default.")
@click.option(
    "--pod-groups/--no-pod-groups",
    default=True,
    help="Whether to enable pod groups in the cluster and run their specs.",
)
@click.option("--build", "only_build", is_flag=True, help="Only compile the specs, and print the path of the program.")
def main(
    schedulers: tuple[str, ...],
    focus: tuple[str, ...],
    quick: bool,
    without_exception: bool,
    pod_groups: bool,
    only_build: bool,
) -> None:
    """Run Kubernetes' [sig-scheduling] specs. Each spec that passes with kube-scheduler must pass with Podwright."""
    binaries = Binaries()
    if only_build:
        click.echo(build(binaries))
        return
    left_out = {
        **({} if without_exception else LEFT_OUT),
        **(dict.fromkeys(SLOW, "slow, and --quick was given") if quick else {}),
    }
    results = {name: _run(name, binaries, focus, left_out, pod_groups) for name in schedulers or SCHEDULERS}
    for part, reason in left_out.items():
        click.echo(f"left out: {part}: {reason}")
    if "podwright" in results:
        conclude(Verdict.of(results, minimum=1 if focus else MINIMUM))


def _run(
    scheduler: str, binaries: Binaries, focus: Iterable[str], left_out: Iterable[str], pod_groups: bool
) -> list[Result]:
    click.echo(f"=== {scheduler} on Kubernetes {binaries.versions.kubernetes}")
    results = run(scheduler, binaries, focus, left_out, _print_result, pod_groups=pod_groups)
    seconds = sum(result.seconds for result in results)
    click.echo(f"{scheduler}: {sum(result.passed for result in results)} of {len(results)} passed in {seconds:.0f} s")
    return results


def conclude(verdict: Verdict) -> None:
    """Prints the verdict and exits, with status 0 if it is good."""
    for name in verdict.missing:
        click.echo(f"fails with Podwright: {name}")
    if verdict.missing:
        click.echo("(PODWRIGHT_KEEP_LOGS=1 keeps all logs; specs.log is the log of the specs)")
    if verdict.required < verdict.minimum:
        click.echo(f"too few specs: at least {verdict.minimum} must count")
    click.echo(verdict)
    sys.exit(not verdict.good)


def _print_result(result: Result) -> None:
    click.echo(f"{result.state:8} {result.seconds:6.1f} s  {result.name}")
    if not result.passed:
        click.echo("\n".join(f"    {line}" for line in result.message.splitlines()[:12]))


if __name__ == "__main__":
    try:
        main()
    except (BinariesMissingError, BuildError, ProcessError, VersionError) as error:
        sys.exit(f"error: {error}")
