"""Preparation: compiles the expressions of a changed policy in a thread, one after the other, before the policy is
applied.

To compile a long expression takes tenths of a second, in which the loop must go on deciding. The library that checks
types holds Python's interpreter for a part of that, some milliseconds for each 1,000 characters; the rest gives way to
the loop.
"""

from __future__ import annotations

import asyncio
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from podwright.api.compiled_rules import uncompiled
from podwright.core.cel.errors import Issue
from podwright.core.objects.raw import Raw
from podwright.core.plugins.rules.known_expressions import Signals, compiled, remember

if TYPE_CHECKING:
    from podwright.core.plugins.rules.expression import Expression

_worker: Final = ThreadPoolExecutor(1, "podwright expressions")
"""One thread for both kinds of policies: two could not compile at the same time anyway."""
_GIVE_WAY_SECONDS: Final = 0.0005
"""For so long the loop waits for the interpreter while the thread compiles."""


def is_prepared(raw: Raw, signals: Signals) -> bool:
    """True if the policy can be applied without compiling anything. `signals`: all that are defined."""
    return next(uncompiled(raw.get("spec"), signals), None) is None


async def prepare(raw: Raw, signals: Signals, pause_factor: float) -> None:
    """Compiles the rest. After each expression it waits for `pause_factor` times as long as that took."""
    found = []
    for text, score in list(uncompiled(raw.get("spec"), signals)):
        outcome, seconds = await asyncio.get_running_loop().run_in_executor(_worker, _compile, text, score, signals)
        found.append((text, outcome, score))
        await asyncio.sleep(pause_factor * seconds)
    for text, outcome, score in found:
        remember(text, outcome, score=score, signals=signals)


def _compile(text: str, score: bool, signals: Signals) -> tuple[Expression | tuple[Issue, ...], float]:
    """The outcome, and the CPU time in seconds that it took."""
    interval, started = sys.getswitchinterval(), time.thread_time()
    sys.setswitchinterval(_GIVE_WAY_SECONDS)
    try:
        return compiled(text, score=score, signals=signals), time.thread_time() - started
    finally:
        sys.setswitchinterval(interval)
