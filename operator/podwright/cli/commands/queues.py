"""`podwright queues`: answers cases of fair shares. It contacts no API server."""

from __future__ import annotations

import sys

import click
import orjson

from podwright.simulator.evaluations.cases import CaseError, read_cases
from podwright.simulator.evaluations.queue_shares import answer


@click.command()
@click.option(
    "--shares",
    "files",
    required=True,
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    metavar="FILE",
    help="JSON lines, one case each. `.gz` is unpacked, `-` is standard input. Can be repeated.",
)
def queues(files: tuple[str, ...]) -> None:
    """Answer cases of fair shares: prints one JSON line for each case, with the share of each queue.

    A case that is invalid gets a line with an error, and the exit status is 1.
    """
    failed = False
    for path in files:
        for case in read_cases(path):
            try:
                if isinstance(case, CaseError):
                    raise case
                line = answer(case)
            except CaseError as error:
                failed = True
                line = {"id": error.id, "error": str(error)}
            sys.stdout.buffer.write(orjson.dumps(line) + b"\n")
    sys.exit(failed)
