"""The registry: all plugin classes by name, in-tree and third-party ones.

A third-party class that breaks the rules of `interface` is refused here, at start, with a message for its author.
Finding classes (entry points, files) is I/O and outside the core: see podwright/engine/plugins/loading.py.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from podwright.core.framework.args import json_schema_of
from podwright.core.framework.interface import (
    DomainPlugin,
    EnqueueExtensions,
    FilterPlugin,
    Plugin,
    PreFilterExtensions,
    PreFilterPlugin,
    Scope,
    ScorePlugin,
)
from podwright.core.framework.joint_rules import JointFilter
from podwright.core.framework.methods import AWAITED, WHEN_BUILT, WITH_STATE, WITHOUT_INSTANCE, WITHOUT_STATE
from podwright.core.framework.profile import Point
from podwright.core.objects.control_flow import passes_through
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import described

_CONTRACTS: Final = (
    Plugin,
    DomainPlugin,
    JointFilter,
    EnqueueExtensions,
    PreFilterExtensions,
    *(point.value[1] for point in Point),
)
"""The classes that declare the methods of plugins."""
OPTIONAL_METHODS: Final[Mapping[type[Any], Mapping[str, tuple[str, ...]]]] = {
    DomainPlugin: {"reaches_beyond_node": ("self", "placed")},
    PreFilterPlugin: {"pre_filter_disabled": ("pod", "cache")},
    FilterPlugin: {"filter_all": ("self", "state", "pod", "table")},
    ScorePlugin: {
        "score_all": ("self", "state", "pod", "feasible"),
        "normalize": ("self", "state", "pod", "scores", "feasible"),
    },
}
"""The parameters of methods whose default is None, by the class that declares them."""


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
        if found_problems := _problems_of(item):
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


def _problems_of(item: Found) -> Sequence[str]:
    """Returns the problems of the class. The check may run code of the plugin, such as the default of a field."""
    try:
        return [f"{item.source}: {problem}" for problem in _class_problems(item.plugin)]
    except BaseException as error:
        if passes_through(error):
            raise
        return [f"{item.source}: cannot be checked: {described(error)}"]


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
    yield from (f"{title}: {problem}" for problem in _statement_problems(plugin))
    yield from (f"{title}: {problem}" for problem in _async_problems(plugin))
    yield from (f"{title}: {problem}" for problem in _parameter_problems(plugin))


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


def _statement_problems(plugin: type[Plugin]) -> Iterator[str]:
    """Problems of what the plugin says about itself."""
    optional: object = plugin.optional
    unsafe: object = plugin.unsafe_args
    if not isinstance(optional, bool):
        yield "optional must be True or False"
    if not isinstance(unsafe, Mapping) or not all(isinstance(each, str) for each in (*unsafe, *unsafe.values())):
        yield "unsafe_args must give a text for each name of an arg"
    if isinstance(plugin.scoring_args, str) or not all(isinstance(each, str) for each in plugin.scoring_args):
        yield "scoring_args must be names of args, in a tuple"


def _async_problems(plugin: type[Plugin]) -> Iterator[str]:
    """Plain methods that the engine awaits, and coroutines that it calls without awaiting."""
    for method in AWAITED:
        if hasattr(plugin, method) and not inspect.iscoroutinefunction(getattr(plugin, method)):
            yield f"{method} must be `async def`"
    for method in (*WITH_STATE, *WITHOUT_STATE, *WHEN_BUILT, *WITHOUT_INSTANCE):
        if inspect.iscoroutinefunction(getattr(plugin, method, None)):
            yield f"{method} must not be `async`: only PreBind, Bind and PostBind may wait"


def _parameter_problems(plugin: type[Plugin]) -> Iterator[str]:
    """Methods that cannot be called with the arguments that the scheduler passes."""
    for method, expected in _expected_parameters(plugin).items():
        found = inspect.getattr_static(plugin, method, None)
        if found is None or getattr(found, "__isabstractmethod__", False):
            continue
        function = getattr(plugin, method)
        if expected[0] == "self" and (inspect.ismethod(function) or isinstance(found, staticmethod)):
            expected = expected[1:]  # noqa: PLW2901 -- the class is bound already, or not passed
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):
            continue  # such as a method written in C
        try:
            signature.bind(*expected)
        except TypeError:
            shown = inspect.Signature(
                [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
            )
            yield f"{method} has the parameters {shown}, expected ({', '.join(expected)}){_source_line(function)}"


def _expected_parameters(plugin: type[Plugin]) -> Mapping[str, tuple[str, ...]]:
    """The names of the arguments that each method of the class receives. Only methods of its extension points count."""
    expected: dict[str, tuple[str, ...]] = {}
    for contract in _CONTRACTS:
        if issubclass(plugin, contract):
            for name, method in vars(contract).items():
                if inspect.isfunction(method):
                    expected[name] = tuple(inspect.signature(method).parameters)
            expected |= OPTIONAL_METHODS.get(contract, {})
    return expected


def _source_line(function: Any) -> str:
    """` (file PATH, line N)`, or nothing for a function that was not written in Python."""
    code = getattr(inspect.unwrap(getattr(function, "__func__", function)), "__code__", None)
    return "" if code is None else f" (file {code.co_filename}, line {code.co_firstlineno})"
