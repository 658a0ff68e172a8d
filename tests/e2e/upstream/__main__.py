"""`python -m tests.e2e.upstream`: Kubernetes' scheduling specs with kube-scheduler, then with Podwright."""

import sys
from collections.abc import Iterable

import click
from tests.e2e.upstream.cluster import SCHEDULERS
from tests.e2e.upstream.specs import FEWEST, LEFT_OUT, SLOW
from tests.e2e.upstream.suite import Result, Verdict, build, run

from podwright.testing import Binaries, BinariesMissingError, BuildError, ProcessError


@click.command()
@click.option("--scheduler", "schedulers", multiple=True, type=click.Choice(SCHEDULERS), help="Only with this one.")
@click.option("--focus", multiple=True, help="Only specs with this in their name; may be given again.")
@click.option("--quick", is_flag=True, help="Without the specs that take longest.")
@click.option("--all", "without_exception", is_flag=True, help="Also the specs that are left out for their length.")
@click.option("--pod-groups/--no-pod-groups", default=True, help="Whether the cluster has them; their specs need it.")
@click.option("--build", "only_build", is_flag=True, help="Only compile the specs.")
def main(
    schedulers: tuple[str, ...],
    focus: tuple[str, ...],
    quick: bool,
    without_exception: bool,
    pod_groups: bool,
    only_build: bool,
) -> None:
    """Run Kubernetes' [sig-scheduling] specs. Each that passes with kube-scheduler has to pass with Podwright."""
    binaries = Binaries()
    if only_build:
        click.echo(build(binaries))
        return
    left_out = {
        **({} if without_exception else LEFT_OUT),
        **(dict.fromkeys(SLOW, "it takes long, and not all were asked for") if quick else {}),
    }
    results = {name: _run(name, binaries, focus, left_out, pod_groups) for name in schedulers or SCHEDULERS}
    for part, why in left_out.items():
        click.echo(f"left out: {part}: {why}")
    if "podwright" in results:
        conclude(Verdict.of(results, fewest=1 if focus else FEWEST))


def _run(
    scheduler: str, binaries: Binaries, focus: Iterable[str], left_out: Iterable[str], pod_groups: bool
) -> list[Result]:
    click.echo(f"=== {scheduler}")
    results = run(scheduler, binaries, focus, left_out, _tell, pod_groups=pod_groups)
    seconds = sum(result.seconds for result in results)
    click.echo(f"{scheduler}: {sum(result.passed for result in results)} of {len(results)} passed in {seconds:.0f} s")
    return results


def conclude(verdict: Verdict) -> None:
    """Say it, and end with 0 if it is good."""
    for name in verdict.missing:
        click.echo(f"not with Podwright: {name}")
    if verdict.missing:
        click.echo("(with PODWRIGHT_KEEP_LOGS=1 all logs are kept; what the specs did is in specs.log)")
    if verdict.wanted < verdict.fewest:
        click.echo(f"too few to say anything: at least {verdict.fewest} were expected")
    click.echo(verdict)
    sys.exit(not verdict.good)


def _tell(result: Result) -> None:
    click.echo(f"{result.state:8} {result.seconds:6.1f} s  {result.name}")
    if not result.passed:
        click.echo("\n".join(f"    {line}" for line in result.message.splitlines()[:12]))


if __name__ == "__main__":
    try:
        main()
    except (BinariesMissingError, BuildError, ProcessError) as error:
        sys.exit(f"error: {error}")
