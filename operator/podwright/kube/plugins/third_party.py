"""Third-party plugins in a process that decides: they are loaded, watched, loaded again when their files change, and
switched off if they hung.

load ─► the engine is built ─► start: the alarm rings, the directories are read again and again ─► stop
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from podwright.core.framework.profile import Classes
from podwright.engine.engine import Engine
from podwright.engine.plugins.files import InstalledFiles, PluginDirectories, Texts
from podwright.engine.plugins.loading import load
from podwright.engine.policies.plugin_reload import PluginReload
from podwright.engine.policies.policy_events import PolicyEvents
from podwright.engine.records.metrics import Metrics
from podwright.kube.background import BackgroundTasks
from podwright.kube.plugins.alarm import PluginAlarm
from podwright.kube.plugins.hangs import PluginHangs

log = logging.getLogger(__name__)


class ThirdPartyPlugins:
    """See the module."""

    def __init__(self, directories: Iterable[str], state: str | None) -> None:
        """`state`: the directory that keeps which plugins hung. Raises RegistryError for plugins that cannot be
        loaded.
        """
        self._directories = PluginDirectories(map(Path, directories))
        self._hangs = PluginHangs(None if state is None else Path(state))
        self._installed_texts: dict[Path, bytes] = {}
        self._loaded = load(self._directories, skip=self._hung_at_import)
        self._installed = InstalledFiles(self._loaded.installed_classes)
        for path in self._installed.paths:
            with suppress(OSError):  # it comes from a zip file, or only as bytecode
                self._installed_texts[path] = path.read_bytes()
        self._watch(self._loaded.texts)
        self._alarm: PluginAlarm | None = None

    @property
    def classes(self) -> Classes:
        """All plugins, Podwright's own among them."""
        return self._loaded.classes

    def disabled(self) -> Mapping[str, str]:
        """The plugins that start switched off, and why."""
        texts = {**self._installed_texts, **self._loaded.texts}
        found: dict[str, str] = {}
        for path, names in self._loaded.names_by_file().items():
            hang = self._hangs.of(path, texts.get(path, b""))
            if hang is not None:
                why = f"{path} did not return from {hang.where}, until the process was restarted"
                found.update(dict.fromkeys(names, why))
        return found

    def start(self, tasks: BackgroundTasks, engine: Engine, *, metrics: Metrics, events: PolicyEvents) -> None:
        """Starts to watch calls of plugins, and to load changed files. Call it in the thread of the event loop."""
        if self._directories.empty and not self._loaded.are_third_party:
            return
        self._alarm = PluginAlarm(engine.plugin_guard)
        self._alarm.start()
        tasks.start("memory of plugins that hang", self._hangs.run)
        if self._installed.paths:
            tasks.start("files of installed plugins", self._installed.run)
        if not self._directories.empty:
            reload = PluginReload(
                self._directories,
                loaded=self._loaded,
                policies=engine.policies,
                policies_changed=engine.policies_changed,
                cache=engine.cache,
                metrics=metrics,
                events=events,
                watch=self._watch,
            )
            tasks.start("plugin directories", reload.run)

    def stop(self) -> None:
        if self._alarm is not None:
            self._alarm.stop()
        self._hangs.stop()

    def _hung_at_import(self, texts: Texts) -> Collection[Path]:
        """The files that must not be loaded, because the process hung while it imported them."""
        self._watch(texts)
        found = {path: hang for path, text in texts.items() if (hang := self._hangs.of(path, text)) and hang.at_import}
        for path, hang in found.items():
            log.error(
                "plugin file %s is not loaded: its import did not return from %s, until the process was restarted",
                path,
                hang.where,
            )
        return found.keys()

    def _watch(self, texts: Texts) -> None:
        self._hangs.watch({**self._installed_texts, **texts})
