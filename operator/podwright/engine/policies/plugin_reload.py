"""Loads the plugins of plugin directories again when files change: either all changes take effect, or none.

    read the directories ─► two readings agree ─► load changed files in a thread
        ─► compile the policies that use them, step by step
                                                                                    └─► swap, between two decisions
    anything fails ─► the plugins that were loaded before stay in use; log, event and the status of the policies say why

Attempts and binding cycles that have begun keep the plugins with which they began. Each version of a plugin has its own
instances. Next: recompilation.py, ../plugins/files.py, ../plugins/loading.py.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, Literal

from podwright.core.framework.registry import RegistryError
from podwright.core.objects.wording import counted, listed
from podwright.core.state.cache import Cache
from podwright.engine.plugins.files import PluginDirectories, PluginFilesError, Texts
from podwright.engine.plugins.loading import LoadedPlugins, load_files
from podwright.engine.policies.active_policies import ActivePolicies
from podwright.engine.policies.policy_events import PolicyEvents
from podwright.engine.policies.recompilation import Recompilation, RecompilationError
from podwright.engine.process.file_reload import FileReload
from podwright.engine.process.side_thread import NoAnswerError, SideThread
from podwright.engine.process.steps import in_slices
from podwright.engine.records.metrics import PLUGIN_RELOADS, Metrics

log = logging.getLogger(__name__)

POLL_SECONDS: Final = 0.25
"""How often the directories are read."""
READ_SECONDS: Final = 10.0
"""How long one reading of the directories may take: a network file system may hang."""
LOAD_SECONDS: Final = 10.0
"""How long it may take to load the files."""
_SHOWN: Final = 5

Problems = tuple[str, ...]
"""Why the directories cannot be read."""


class PluginReload(FileReload):
    """See the module."""

    poll_seconds = POLL_SECONDS
    what = "the plugin files are"

    def __init__(
        self,
        directories: PluginDirectories,
        *,
        loaded: LoadedPlugins,
        policies: ActivePolicies,
        policies_changed: Callable[[], None],
        cache: Cache,
        metrics: Metrics,
        events: PolicyEvents,
        watch: Callable[[Texts], None] = lambda _texts: None,
    ) -> None:
        """`loaded`: the plugins that were loaded from the directories at the start. `watch`: called with what is about
        to be loaded.
        """
        super().__init__()
        self._directories = directories
        self._loaded = loaded
        self._policies = policies
        self._policies_changed = policies_changed
        self._cache = cache
        self._metrics = metrics
        self._events = events
        self._watch = watch
        self._reader = SideThread("podwright plugin files")
        self._loader = SideThread("podwright plugin loading")
        self._policies_tried = 0
        policies.plugins_are(loaded.of_files, "")

    @property
    def running(self) -> Texts:
        return self._loaded.texts

    async def read(self) -> Texts | Problems | None:
        try:
            return await self._reader.call(self._directories.read, READ_SECONDS)
        except PluginFilesError as error:
            return error.problems
        except NoAnswerError as error:
            problems = (f"reading the plugin directories: {error}",)
            self._report(problems, problems)
            return None

    def is_due(self) -> bool:
        return super().is_due() and self._policies.policy_set.version != self._policies_tried

    async def take(self, found: Texts | Problems) -> None:
        if isinstance(found, tuple):
            self._report(found, found)
            return
        self._watch(found)
        try:
            await self._load(found)
        finally:
            self._watch(self._loaded.texts)

    async def _load(self, found: Texts) -> None:
        before = self._loaded
        try:
            loaded = await self._loader.call(
                lambda: load_files(found, before), LOAD_SECONDS, dispose=lambda late: late.unload(before)
            )
        except RegistryError as error:
            self._report(error.problems, found)
            return
        except NoAnswerError as error:
            self._report([f"files {_names(found, before)}: {error}"], found)
            return
        try:
            count = await self._swap(loaded)
        except RecompilationError as error:
            self._report([f"files {_names(found, before)}: {error}"], found, retry=True)
            return
        finally:
            if self._loaded is not loaded:
                self._forget(loaded)
        self._metrics.count(PLUGIN_RELOADS, "success")
        note = f"Plugins were loaded again: {_names(found, before)}"
        log.info("%s; %d policies use them", note, count)
        self.succeed()
        self._record("Normal", "PluginsReloaded", note)

    async def _swap(self, loaded: LoadedPlugins) -> int:
        """Replaces the plugins of all policies. Raises RecompilationError."""
        before = self._loaded
        changed = loaded.changed_since(before)
        queue_sort = self._policies.policy_set.queue_sort
        if queue_sort in changed:
            raise RecompilationError(
                f"plugin {queue_sort} orders the queue: it can only change when the operator restarts"
            )
        recompilation = Recompilation(self._policies, classes=loaded.classes, changed=changed)
        await in_slices(recompilation.steps())
        used = {module.name for module in loaded.modules.values()}
        count = recompilation.finish({module.name for module in before.modules.values()} - used)
        self._loaded = loaded
        before.unload(kept=loaded)
        self._policies_changed()
        return count

    def _forget(self, refused: LoadedPlugins) -> None:
        """Drops the indexes that the refused plugins have registered while they were built."""
        refused.unload(self._loaded)
        kept = {module.name for module in self._loaded.modules.values()}
        names = {module.name for module in refused.modules.values()} - kept
        self._cache.forget_kinds_of(names)

    def succeed(self) -> None:
        super().succeed()
        self._policies.plugins_are(self._loaded.of_files, "")

    def _report(self, problems: Sequence[str], found: Texts | Problems, *, retry: bool = False) -> None:
        """Reports that the files cannot be used. `retry`: try them again later, because the policies may have changed
        by then.
        """
        self._policies_tried = self._policies.policy_set.version
        more = len(problems) - _SHOWN
        text = "; ".join([*problems[:_SHOWN], *([f"and {counted(more, 'more problem')}"] if more > 0 else ())])
        text = f"Plugins were not loaded again, and those that were loaded before go on: {text}"
        self._policies.plugins_are(self._loaded.of_files, text)
        if self.fail(found, retry=retry):
            self._metrics.count(PLUGIN_RELOADS, "error")
            log.error("%s", text)
            self._record("Warning", "PluginsNotReloaded", text)

    def _record(self, kind: Literal["Normal", "Warning"], reason: str, note: str) -> None:
        names = {policy.name for policy in self._policies.with_plugins_of_files()}
        self._events.record(names, kind, reason, note)


def _names(found: Texts, before: LoadedPlugins) -> str:
    """The names of the files that differ, shortened if there are many."""
    running = before.texts
    names = sorted(str(path) for path in found.keys() | running.keys() if found.get(path) != running.get(path))
    return listed(names, _SHOWN)
