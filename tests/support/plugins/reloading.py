"""An engine with plugin files that a test changes."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from textwrap import dedent

from podwright.core.plugins import PLUGINS
from podwright.engine.plugins.files import PluginDirectories
from podwright.engine.plugins.loading import FILE_MODULE, load
from podwright.engine.policies.plugin_reload import PluginReload
from podwright.engine.policies.policy_events import PolicyEvents
from podwright.engine.records.metrics import PLUGIN_RELOADS
from support.engine.kit import Rig, settle
from support.objects.builders import make_policy

FILTER = """
    from podwright.core.framework.interface import FilterPlugin, Plugin
    from podwright.core.framework.status import unresolvable

    class {name}(Plugin, FilterPlugin):
        name = "{name}"

        def filter(self, state, pod, node):
            return None if node.name == "{node}" else unresolvable("node(s) were not {node}")
"""


ARGS = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Args:
    def __post_init__(self):
        raise GeneratorExit("no")

"""


def text(name="Only", node="a"):
    return dedent(FILTER.format(name=name, node=node))


def policy(*plugins, name="custom", generation=1, **spec):
    points = {"filter": {"enabled": [{"name": plugin} for plugin in plugins]}}
    return make_policy(name, generation, name, **{"strategy": {"type": "Custom"}, "plugins": points, **spec})


class Reloading:
    """An engine with plugin files, and two nodes."""

    def __init__(self, folder, options=None, watch=lambda _texts: None):
        self.folder = folder
        self.directories = PluginDirectories([folder])
        self.loaded = load(self.directories)
        own = {name: each for name, each in self.loaded.classes.items() if name not in PLUGINS}
        self.rig = Rig(plugins=own, **(options or {}))
        self.engine = self.rig.engine
        events = PolicyEvents(self.engine.policies, self.rig.recorder, scheduler_name="podwright", own=lambda: None)
        self.reload = PluginReload(
            self.directories,
            loaded=self.loaded,
            policies=self.engine.policies,
            policies_changed=self.engine.policies_changed,
            cache=self.engine.cache,
            metrics=self.rig.ports.metrics,
            events=events,
            watch=watch,
        )
        for name in "ab":
            self.rig.node(name)

    def write(self, text, file="only"):
        (self.folder / f"{file}.py").write_text(text)

    async def settle(self):
        """Reads the directory as often as a change needs."""
        for _ in range(3):
            await self.reload.poll()
        await settle()

    def apply(self, raw):
        result = self.engine.policies.apply(raw)
        self.engine.policies_changed()
        return result

    def problem(self, name="custom"):
        return self.engine.policies.work_of(name).outdated_plugins

    @property
    def counts(self):
        counter = self.rig.ports.metrics.counter(PLUGIN_RELOADS)
        return tuple(counter.of(result)[0] for result in ("success", "error"))


@contextmanager
def starting(tmp_path):
    """A function that starts an engine with these texts of plugin files in the folder."""

    def make(*texts, watch=lambda _texts: None, **options):
        for file, written in texts or (("only", text()),):
            (tmp_path / f"{file}.py").write_text(written)
        return Reloading(tmp_path, options, watch)

    yield make
    for name in [name for name in sys.modules if name.startswith(FILE_MODULE)]:
        del sys.modules[name]
