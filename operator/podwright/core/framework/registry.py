"""The registry: all plugin classes by name, in-tree and third-party ones.

A third-party class that breaks the rules of `interface` is refused here, at start, with a message for its author. Finding classes (entry
points, files) is I/O and outside the core: see podwright/engine/plugin_loading.py.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from podwright.core.framework.args import json_schema_of
from podwright.core.framework.interface import DomainPlugin, FilterPlugin, Plugin, Scope
from podwright.core.framework.profile import Point


class RegistryError(Exception):
    """Plugins that cannot be used. Each entry of `problems` begins with the source of the plugin."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class Found:
    """An object that an entry point or a file provides as a plugin. `source` describes where."""

    plugin: object
    source: str


def merge_plugins(in_tree: Mapping[str, type[Plugin]], found: Iterable[Found]) -> Mapping[str, type[Plugin]]:
    """All plugin classes by name. Raises RegistryError with every problem of every object in `found`."""
    classes = dict(in_tree)
    sources = dict.fromkeys(in_tree, "Podwright itself")
    problems: list[str] = []
    for item in found:
        found_problems = [f"{item.source}: {problem}" for problem in _class_problems(item.plugin)]
        if found_problems:
            problems += found_problems
            continue
        plugin: Any = item.plugin
        if plugin.name in classes:
            problems.append(f"{item.source}: the name {plugin.name!r} is taken by a plugin of {sources[plugin.name]}")
            continue
        classes[plugin.name] = plugin
        sources[plugin.name] = item.source
    if problems:
        raise RegistryError(problems)
    return classes


def _class_problems(plugin: object) -> Iterator[str]:
    if not isinstance(plugin, type):
        yield f"expected a plugin class, got {type(plugin).__name__}"
        return
    title = f"class {plugin.__name__}"
    if not issubclass(plugin, Plugin):
        yield f"{title} does not inherit podwright.core.framework.interface.Plugin"
        return
    name = getattr(plugin, "name", None)
    if not isinstance(name, str) or not name:
        yield f"{title} has no `name`"
    if not any(point.of(plugin) for point in Point):
        yield f"{title} has no extension point: inherit FilterPlugin, ScorePlugin or another besides Plugin"
    missing = sorted(getattr(plugin, "__abstractmethods__", ()))
    if missing:
        yield f"{title} lacks {', '.join(missing)}"
    yield from (f"{title}: {problem}" for problem in _args_problems(plugin.args_type))
    yield from (f"{title}: {problem}" for problem in _scope_problems(plugin))
    yield from (f"{title}: {problem}" for problem in _async_problems(plugin))


def _args_problems(args_type: Any) -> Iterator[str]:
    if args_type is None:
        return
    if not isinstance(args_type, type) or not dataclasses.is_dataclass(args_type):
        yield "args_type must be a dataclass"
        return
    nothing = dataclasses.MISSING
    for field in dataclasses.fields(args_type):
        if field.init and field.default is nothing and field.default_factory is nothing:
            yield f"the field {field.name} of {args_type.__name__} needs a default"
    try:
        json_schema_of(args_type)
    except (TypeError, NameError) as error:
        yield f"{args_type.__name__}: {error}"


def _scope_problems(plugin: type[Plugin]) -> Iterator[str]:
    scope: object = plugin.scope
    if not isinstance(scope, Scope):
        yield "scope must be a Scope"
        return
    if (scope is Scope.DOMAIN) is not issubclass(plugin, DomainPlugin):
        yield "a plugin of Scope.DOMAIN inherits DomainPlugin, and others do not"
    caches = issubclass(plugin, FilterPlugin) and plugin.verdict_key is not FilterPlugin.verdict_key
    if caches and scope > Scope.NODE_PODS:
        yield "verdict_key is only for plugins of Scope.NODE or Scope.NODE_PODS"


def _async_problems(plugin: type[Plugin]) -> Iterator[str]:
    """Plain methods that the engine awaits, and coroutines that it calls without awaiting."""
    for method in ("pre_bind", "bind", "post_bind"):
        if hasattr(plugin, method) and not inspect.iscoroutinefunction(getattr(plugin, method)):
            yield f"{method} must be `async def`"
    for method in _PLAIN:
        if inspect.iscoroutinefunction(getattr(plugin, method, None)):
            yield f"{method} must not be `async`: only PreBind, Bind and PostBind may wait"


_PLAIN = (
    "pre_enqueue",
    "sort_key",
    "hints",
    "pre_filter",
    "filter",
    "filter_all",
    "verdict_key",
    "post_filter",
    "pre_score",
    "score",
    "score_all",
    "normalize",
    "reserve",
    "unreserve",
    "permit",
    "pre_bind_pre_flight",
)
