"""Plugins in commands and tests: a call or an import that does not return is stopped, as in the operator."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import inf
from pathlib import Path

from podwright.core.framework.profile import Classes
from podwright.engine.plugins.guard import PluginGuard
from podwright.engine.plugins.loading import load_plugins
from podwright.engine.policies.plugin_reload import LOAD_SECONDS
from podwright.engine.records.metrics import Metrics
from podwright.kube.plugins.alarm import PluginAlarm


@contextmanager
def guarded_plugins() -> Iterator[PluginGuard]:
    """A context with a guard for plugins that run in the main thread. It sets no time budget, because the speed of this
    machine says nothing about the operator's.
    """
    guard = PluginGuard(Metrics(time.monotonic), clock=time.monotonic, cpu=time.thread_time, budget=inf)
    alarm = PluginAlarm(guard)
    alarm.start()
    try:
        yield guard
    finally:
        alarm.stop()


def load_in_time(plugin_dirs: Sequence[Path] = ()) -> Classes:
    """As `load_plugins`, but stops the import of a file after LOAD_SECONDS, and then also raises RegistryError."""
    with guarded_plugins() as guard, guard.building(LOAD_SECONDS):
        return load_plugins(plugin_dirs)
