"""Loads third-party plugins from entry points of the group `podwright.plugins`, and from files in plugin directories.

Code comes from the operator's image or command line only, never from a custom resource. An error in any plugin stops the start,
and names the file or entry point: an operator that silently lacked a plugin would not place pods as its profiles say. The rules
for plugin classes are in podwright/core/framework/registry.py.
"""

from __future__ import annotations

import importlib.util
import inspect
import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Final

from podwright.core.framework.interface import Plugin
from podwright.core.framework.registry import Found, RegistryError, merge_plugins
from podwright.core.plugins import PLUGINS
from podwright.engine.plugin_files import plugin_paths

ENTRY_POINTS: Final = "podwright.plugins"
_numbers = itertools.count()


def load_plugins(
    plugin_dirs: Sequence[Path] = (), in_tree: Mapping[str, type[Plugin]] = PLUGINS
) -> Mapping[str, type[Plugin]]:
    """All plugin classes by name: in-tree, from entry points, then from the files of the directories.

    Raises RegistryError with all problems found.
    """
    found: list[Found] = []
    problems: list[str] = []
    for item in itertools.chain(_from_entry_points(), _from_directories(plugin_dirs)):
        if isinstance(item, Found):
            found.append(item)
        else:
            problems.append(item)
    try:
        classes = merge_plugins(in_tree, found)
    except RegistryError as error:
        problems += error.problems
    if problems:
        raise RegistryError(problems)
    return classes


def _from_entry_points() -> Iterator[Found | str]:
    for entry in sorted(metadata.entry_points(group=ENTRY_POINTS), key=lambda entry: entry.name):
        package = f" of {entry.dist.name}" if entry.dist is not None else ""
        source = f"entry point {entry.name} = {entry.value}{package}"
        try:
            yield Found(entry.load(), source)
        except Exception as error:  # noqa: BLE001 -- third-party code may raise anything
            yield f"{source}: cannot be imported: {type(error).__name__}: {error}"


def _from_directories(plugin_dirs: Iterable[Path]) -> Iterator[Found | str]:
    for directory in plugin_dirs:
        if not directory.is_dir():
            yield f"plugin directory {directory}: is not a directory"
            continue
        for path in plugin_paths(directory):
            yield from _from_file(path)


def _from_file(path: Path) -> Iterator[Found | str]:
    source = f"file {path}"
    try:
        module = _import(path)
    except (Exception, SystemExit) as error:  # noqa: BLE001 -- third-party code may raise anything
        yield f"{source}: cannot be imported: {type(error).__name__}: {error}{_line_of(error, path)}"
        return
    plugins = [
        value
        for name, value in vars(module).items()
        if inspect.isclass(value)
        and issubclass(value, Plugin)
        and value.__module__ == module.__name__
        and not name.startswith("_")
    ]
    if not plugins:
        yield f"{source}: has no class that inherits podwright.core.framework.interface.Plugin"
    for plugin in plugins:
        yield Found(plugin, source)


def _import(path: Path) -> ModuleType:
    name = f"podwright_plugin_file_{next(_numbers)}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError("is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look up the names in their annotations here
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _line_of(error: BaseException, path: Path) -> str:
    """`, line N`: the last line of the file itself that the error passed through."""
    lines = [error.lineno] if isinstance(error, SyntaxError) else []
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    return f" (line {lines[-1]})" if lines else ""
