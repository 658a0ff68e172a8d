"""Loads third-party plugins from entry points of the group `podwright.plugins`, and from files in plugin directories.

Code comes from the operator's image or command line only, never from a custom resource. An error in any plugin stops
the start, and names the file or entry point: an operator that silently lacked a plugin would not place pods as its
profiles say. The rules for plugin classes are in podwright/core/framework/registry.py.

Files can be loaded again while the plugins of the former ones run: each version of a file is a module of its own. Entry
points are loaded once.
"""

from __future__ import annotations

import importlib.abc
import inspect
import itertools
import linecache
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from importlib import metadata
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

from podwright.core.framework.interface import Plugin
from podwright.core.framework.registry import Found, RegistryError, merge_plugins
from podwright.core.objects.control_flow import passes_through
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import described
from podwright.core.plugins import PLUGINS
from podwright.engine.plugins.files import PluginDirectories, PluginFilesError, Texts

ENTRY_POINTS: Final = "podwright.plugins"
FILE_MODULE: Final = "podwright_plugin_file_"
"""The prefix of the names of modules that are loaded from files."""
_numbers = itertools.count()


@dataclass(frozen=True, slots=True, eq=False)
class PluginModule:
    """A file that was loaded."""

    text: bytes
    name: str
    plugins: tuple[Found, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadedPlugins:
    """All plugin classes by name, and where they come from. `installed`: the classes from entry points; `skipped`:
    files that must not be loaded.
    """

    classes: Mapping[str, type[Plugin]]
    in_tree: Mapping[str, type[Plugin]]
    installed: Sequence[Found]
    modules: Mapping[Path, PluginModule]
    skipped: Texts = field(default_factory=dict)

    @property
    def texts(self) -> Texts:
        """The contents of the files that were loaded or skipped."""
        return {path: module.text for path, module in self.modules.items()} | dict(self.skipped)

    def names_by_file(self) -> Mapping[Path, Collection[str]]:
        """The names of the plugins that each file defines, including files of entry points."""
        found: dict[Path, set[str]] = {}
        for path, module in self.modules.items():
            found[path] = {name for each in module.plugins if (name := getattr(each.plugin, "name", ""))}
        for plugin in self.installed_classes:
            file = getattr(sys.modules.get(plugin.__module__), "__file__", None)
            if file is not None:
                found.setdefault(Path(file), set()).add(plugin.name)
        return found

    @property
    def of_files(self) -> frozenset[str]:
        """The names of the plugins that come from plugin directories."""
        found = (each.plugin for module in self.modules.values() for each in module.plugins)
        return frozenset(plugin.name for plugin in found if isinstance(plugin, type) and issubclass(plugin, Plugin))

    @property
    def are_third_party(self) -> bool:
        """True if any of these plugins is not one of Podwright's own."""
        return bool(self.installed or self.modules)

    @property
    def installed_classes(self) -> Sequence[type[Any]]:
        """The plugin classes from entry points."""
        return [each.plugin for each in self.installed if isinstance(each.plugin, type)]

    def changed_since(self, before: LoadedPlugins) -> frozenset[str]:
        """The names of the plugins that were added, removed or replaced since `before`."""
        names = self.classes.keys() | before.classes.keys()
        return frozenset(name for name in names if self.classes.get(name) is not before.classes.get(name))

    def unload(self, kept: LoadedPlugins | None = None) -> None:
        """Removes the modules of these files from `sys.modules`, except those of `kept`. Classes that are in use keep
        working.
        """
        used = {module.name for module in kept.modules.values()} if kept is not None else set()
        for path, module in self.modules.items():
            if module.name not in used:
                _forget(path, module.name)
        for path, module in ({} if kept is None else kept.modules).items():
            _show_lines_of(path, module.text)


def load_plugins(
    plugin_dirs: Sequence[Path] = (), in_tree: Mapping[str, type[Plugin]] = PLUGINS
) -> Mapping[str, type[Plugin]]:
    """All plugin classes by name: in-tree, from entry points, then from the files of the directories.

    Raises RegistryError with all problems found.
    """
    return load(PluginDirectories(plugin_dirs), in_tree).classes


def load(
    directories: PluginDirectories,
    in_tree: Mapping[str, type[Plugin]] = PLUGINS,
    skip: Callable[[Texts], Collection[Path]] = lambda _texts: (),
) -> LoadedPlugins:
    """As `load_plugins`, with the sources of the classes. `skip`: called before the files are loaded; returns the files
    not to load.
    """
    found: list[Found] = []
    problems: list[str] = []
    for item in _from_entry_points():
        _sort(item, found, problems)
    texts: Texts = {}
    try:
        texts = directories.settled()
    except PluginFilesError as error:
        problems += error.problems
    skipped = {path: texts[path] for path in skip(texts)}
    before = LoadedPlugins(classes={}, in_tree=in_tree, installed=found, modules={}, skipped=skipped)
    return load_files(texts, before, problems)


def load_files(texts: Texts, before: LoadedPlugins, problems: Iterable[str] = ()) -> LoadedPlugins:
    """The plugins of these files, and all others of `before`. Files that have not changed are not loaded again. Raises
    RegistryError with all problems found, including `problems`; then none of the new modules stays loaded.
    """
    problems = [*problems]
    modules: dict[Path, PluginModule] = {}
    skipped: dict[Path, bytes] = {}
    for path, text in texts.items():
        if before.skipped.get(path) == text:
            skipped[path] = text
            continue
        known = before.modules.get(path)
        if known is not None and known.text == text:
            modules[path] = known
            continue
        try:
            modules[path] = _load_file(path, text)
        except RegistryError as error:
            problems += error.problems
    found = [*before.installed, *(each for module in modules.values() for each in module.plugins)]
    classes: Mapping[str, type[Plugin]] = {}
    try:
        classes = merge_plugins(before.in_tree, found)
    except RegistryError as error:
        problems += error.problems
    result = LoadedPlugins(
        classes=classes, in_tree=before.in_tree, installed=before.installed, modules=modules, skipped=skipped
    )
    if problems:
        result.unload(before)
        raise RegistryError(problems)
    return result


def _sort(item: Found | str, found: list[Found], problems: list[str]) -> None:
    if isinstance(item, Found):
        found.append(item)
    else:
        problems.append(item)


def _from_entry_points() -> Iterator[Found | str]:
    for entry in sorted(metadata.entry_points(group=ENTRY_POINTS), key=lambda entry: entry.name):
        package = f" of {entry.dist.name}" if entry.dist is not None else ""
        source = f"entry point {entry.name} = {entry.value}{package}"
        try:
            yield Found(entry.load(), source)
        except BaseException as error:
            if passes_through(error):
                raise
            yield f"{source}: cannot be imported: {described(error)}"


def _load_file(path: Path, text: bytes) -> PluginModule:
    """Raises RegistryError."""
    source = f"file {path}"
    try:
        module = _import(path, text)
    except BaseException as error:
        if passes_through(error):
            raise
        problem = f"{source}: cannot be imported: {described(error)}{_line_of(error, path)}"
        raise RegistryError([problem]) from error
    plugins = [
        value
        for name, value in vars(module).items()
        if inspect.isclass(value)
        and issubclass(value, Plugin)
        and value.__module__ == module.__name__
        and not name.startswith("_")
    ]
    if not plugins:
        _forget(path, module.__name__)
        raise RegistryError([f"{source}: has no class that inherits podwright.core.framework.interface.Plugin"])
    return PluginModule(text, module.__name__, tuple(Found(plugin, source) for plugin in plugins))


class _TextLoader(importlib.abc.InspectLoader):
    """Executes the text that was read before, because the file may have changed since. Never uses bytecode files."""

    def __init__(self, path: Path, text: bytes) -> None:
        self._path = path
        self._text = text

    def get_source(self, fullname: str) -> str:
        return importlib.util.decode_source(self._text)

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._text, str(self._path), "exec", dont_inherit=True)


def _import(path: Path, text: bytes) -> ModuleType:
    name = f"{FILE_MODULE}{next(_numbers)}_{path.stem}"
    spec = ModuleSpec(name, _TextLoader(path, text), origin=str(path))
    spec.has_location = True
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look up the names in their annotations here
    _show_lines_of(path, text)
    try:
        assert spec.loader is not None
        spec.loader.exec_module(module)
    except BaseException:
        _forget(path, name)
        raise
    return module


def _show_lines_of(path: Path, text: bytes) -> None:
    """Makes tracebacks show the lines of the executed text."""
    try:
        lines = importlib.util.decode_source(text).splitlines(keepends=True)
    except (SyntaxError, UnicodeDecodeError):
        return
    linecache.cache[str(path)] = (len(text), None, lines, str(path))


def _forget(path: Path, name: str) -> None:
    sys.modules.pop(name, None)
    linecache.cache.pop(str(path), None)


def _line_of(error: BaseException, path: Path) -> str:
    """`, line N`: the last line of the file itself that the error passed through."""
    lines = [error.lineno] if isinstance(error, SyntaxError) else []
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    return f" (line {lines[-1]})" if lines else ""
