"""Plugins in commands and tests: what they do not come back from is stopped there as in the operator, also the import of their files."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import inf
from pathlib import Path

from podwright.api.compile import Classes
from podwright.engine.metrics.metrics import Metrics
from podwright.engine.plugin_changes.reload import LOAD_SECONDS
from podwright.engine.plugins.guard import PluginGuard, ThreadTimes
from podwright.engine.plugins.loading import load_plugins
from podwright.kube.plugin_alarm import PluginAlarm


@contextmanager
def guarded_plugins() -> Iterator[PluginGuard]:
    """A guard for plugins that run within, in the main thread. It sets no budget: how fast they are, this machine does not say."""
    guard = PluginGuard(ThreadTimes(clock=time.monotonic, cpu=time.thread_time), Metrics(time.monotonic), budget=inf)
    alarm = PluginAlarm(guard)
    alarm.start()
    try:
        yield guard
    finally:
        alarm.stop()


def load_in_time(plugin_dirs: Sequence[Path] = ()) -> Classes:
    """`load_plugins`, where the import of a file is stopped after LOAD_SECONDS. Raises RegistryError, then too."""
    with guarded_plugins() as guard, guard.building(LOAD_SECONDS):
        return load_plugins(plugin_dirs)
