import inspect
from dataclasses import dataclass, field

import pytest

from podwright.core.framework import interface
from podwright.core.framework.interface import (
    DomainPlugin,
    EnqueueExtensions,
    FilterPlugin,
    PermitPlugin,
    Plugin,
    PreBindPlugin,
    PreFilterPlugin,
    Scope,
    ScorePlugin,
)
from podwright.core.framework.profile import (
    MULTI_POINT,
    Enabled,
    NotSupportedError,
    PluginSet,
    Point,
    expand,
)
from podwright.core.framework.registry import OPTIONAL_METHODS, Found, RegistryError, merge_plugins
from podwright.core.plugins import PLUGINS


class Good(Plugin, FilterPlugin):
    name = "Good"

    def filter(self, state, pod, node):
        return None


class Other(Good):
    name = "Other"


class Nameless(Plugin, FilterPlugin):
    def filter(self, state, pod, node):
        return None


class EmptyName(Good):
    name = ""


class WithoutPoint(Plugin):
    name = "WithoutPoint"


class Unfinished(Plugin, ScorePlugin):
    name = "Unfinished"


class NotAPlugin:
    name = "NotAPlugin"


class PlainPreBind(Plugin, PreBindPlugin):
    name = "PlainPreBind"

    def pre_bind(self, state, pod, node_name):
        return None


class AsyncFilter(Plugin, FilterPlugin):
    name = "AsyncFilter"

    async def filter(self, state, pod, node):
        return None


@dataclass(frozen=True)
class ArgsWithoutDefault:
    color: str


class WithoutDefault(Good):
    name = "WithoutDefault"
    args_type = ArgsWithoutDefault


@dataclass(frozen=True)
class ComplexArgs:
    moment: complex = 0j


class WithComplexArgs(Good):
    name = "WithComplexArgs"
    args_type = ComplexArgs


class WithDictArgs(Good):
    name = "WithDictArgs"
    args_type = dict


class ScopedByWord(Good):
    name = "ScopedByWord"
    scope = "node"


class DomainInNameOnly(Good):
    name = "DomainInNameOnly"
    scope = Scope.DOMAIN


class CachedTooWidely(Good):
    name = "CachedTooWidely"

    def verdict_key(self, pod):
        return ()


class DomainByInheritanceOnly(Good, DomainPlugin):
    name = "DomainByInheritanceOnly"

    def looks_beyond_node(self, pod):
        return True

    def influence(self, pod, other):
        return None

    def influence_key(self, pod):
        return ()


def test_third_party_plugins_are_added_to_the_in_tree_ones():
    merged = merge_plugins({"Good": Good}, [Found(Other, "file other.py")])
    assert merged == {"Good": Good, "Other": Other}


@pytest.mark.parametrize(
    "plugin, problem",
    [
        pytest.param(
            Good, "the name 'Good' is taken by a plugin of Podwright itself", id="the name of an in-tree plugin"
        ),
        pytest.param(Nameless, "class Nameless has no `name`", id="no name"),
        pytest.param(EmptyName, "class EmptyName has no `name`", id="an empty name"),
        pytest.param(WithoutPoint, "class WithoutPoint has no extension point", id="no extension point"),
        pytest.param(Unfinished, "class Unfinished lacks score", id="a method missing"),
        pytest.param(NotAPlugin, "class NotAPlugin does not inherit podwright", id="not a plugin"),
        pytest.param("text", "expected a plugin class, got str", id="not even a class"),
        pytest.param(
            PlainPreBind, "class PlainPreBind: pre_bind must be `async def`", id="a plain method that the engine awaits"
        ),
        pytest.param(
            AsyncFilter,
            "class AsyncFilter: filter must not be `async`",
            id="a coroutine that the framework does not await",
        ),
        pytest.param(
            WithoutDefault,
            "class WithoutDefault: the field color of ArgsWithoutDefault needs a default",
            id="args without a default",
        ),
        pytest.param(WithComplexArgs, "args cannot have fields of type", id="args of a type that YAML does not have"),
        pytest.param(
            WithDictArgs, "class WithDictArgs: args_type must be a dataclass", id="args that are not a dataclass"
        ),
        *(
            pytest.param(
                type("Said", (Good,), {"name": "Said", name: wrong}),
                f"class Said: {name} must",
                id=f"{name} of a wrong type",
            )
            for name, wrong in {"optional": "yes", "unsafe_args": {"a": 1}, "scoring_args": "curve"}.items()
        ),
        pytest.param(ScopedByWord, "class ScopedByWord: scope must be a Scope", id="a scope that is a string"),
        pytest.param(
            DomainInNameOnly,
            "class DomainInNameOnly: a plugin of Scope.DOMAIN inherits DomainPlugin",
            id="scope DOMAIN without a DomainPlugin",
        ),
        pytest.param(
            DomainByInheritanceOnly,
            "class DomainByInheritanceOnly: a plugin of Scope.DOMAIN inherits DomainPlugin",
            id="a DomainPlugin of another scope",
        ),
        pytest.param(
            CachedTooWidely,
            "class CachedTooWidely: verdict_key is only for plugins of Scope.NODE",
            id="a verdict key of a plugin that looks beyond the node",
        ),
    ],
)
def test_an_invalid_plugin_is_refused_with_its_source(plugin, problem):
    with pytest.raises(RegistryError) as error:
        merge_plugins({"Good": Good}, [Found(plugin, "file bad.py"), Found(Other, "file other.py")])
    (only,) = error.value.problems
    assert only.startswith("file bad.py: ")
    assert problem in only


def test_two_third_party_plugins_with_one_name_are_reported_with_both_sources():
    with pytest.raises(RegistryError, match=r"file b\.py: the name 'Other' is taken by a plugin of file a\.py"):
        merge_plugins({}, [Found(Other, "file a.py"), Found(Other, "file b.py")])


def test_all_problems_are_reported_together():
    with pytest.raises(RegistryError) as error:
        merge_plugins({}, [Found(WithoutPoint, "file a.py"), Found(Nameless, "file b.py")])
    assert len(error.value.problems) == 2


def test_the_table_of_in_tree_plugins_is_by_their_names():
    assert all(plugin.name == name for name, plugin in PLUGINS.items())


def test_in_tree_plugins_that_a_profile_can_enable_obey_the_rules_of_third_party_plugins():
    enabled = [plugin for plugin in PLUGINS.values() if any(point.of(plugin) for point in Point)]
    merge_plugins({}, [Found(plugin, plugin.name) for plugin in enabled])


@pytest.mark.parametrize("name", ["DeferredPodScheduling"])
@pytest.mark.parametrize("point", [MULTI_POINT, "filter", "permit"])
def test_plugins_that_are_only_known_by_name_cannot_be_enabled(name, point):
    sets = {point: PluginSet((Enabled(name),))}
    with pytest.raises(NotSupportedError) as error:
        expand(sets, PLUGINS)
    assert error.value.where == f"plugins.{point}.enabled"
    assert error.value.problem.startswith(f"plugin '{name}' is not supported: ")


class ShortFilter(Plugin, FilterPlugin):
    name = "ShortFilter"

    def filter(self, state, pod):
        return None


class LongFilterAll(Good):
    name = "LongFilterAll"

    def filter_all(self, state, pod, table, nodes):
        return None


class ShortConstructor(Good):
    name = "ShortConstructor"

    def __init__(self, args):
        self.args = args


class ScoreWithKeyword(Plugin, ScorePlugin):
    name = "ScoreWithKeyword"

    def score(self, state, pod, node, *, weight):
        return weight


class NormalizeWithoutNodes(Plugin, ScorePlugin):
    name = "NormalizeWithoutNodes"

    def score(self, state, pod, node):
        return 1

    def normalize(self, state, pod, scores):
        return scores


class ShortPreBind(Plugin, PreBindPlugin):
    name = "ShortPreBind"

    async def pre_bind(self, pod, node_name):
        return None


class HintsOfAPod(Good, EnqueueExtensions):
    name = "HintsOfAPod"

    def hints(self, pod):
        return []


class DisabledCheckOfAPod(Plugin, PreFilterPlugin):
    name = "DisabledCheckOfAPod"

    def pre_filter(self, state, pod):
        return None

    @staticmethod
    def pre_filter_disabled(pod):
        return None


class StaticFilterWithSelf(Plugin, FilterPlugin):
    name = "StaticFilterWithSelf"

    @staticmethod
    def filter(self, state, pod, node):  # noqa: PLW0211 -- the mistake that is tested
        return None


@pytest.mark.parametrize(
    "plugin, method, problem",
    [
        pytest.param(
            ShortFilter,
            "filter",
            "filter has the parameters (self, state, pod), expected (self, state, pod, node)",
            id="a parameter missing",
        ),
        pytest.param(
            LongFilterAll,
            "filter_all",
            "filter_all has the parameters (self, state, pod, table, nodes), expected (self, state, pod, table)",
            id="a parameter too many, in an optional method",
        ),
        pytest.param(
            ShortConstructor,
            "__init__",
            "__init__ has the parameters (self, args), expected (self, args, handle)",
            id="a constructor without the handle",
        ),
        pytest.param(
            ScoreWithKeyword,
            "score",
            "score has the parameters (self, state, pod, node, *, weight), expected (self, state, pod, node)",
            id="a keyword that the scheduler does not pass",
        ),
        pytest.param(
            NormalizeWithoutNodes,
            "normalize",
            "normalize has the parameters (self, state, pod, scores), expected (self, state, pod, scores, feasible)",
            id="an optional method of a score plugin",
        ),
        pytest.param(
            ShortPreBind,
            "pre_bind",
            "pre_bind has the parameters (self, pod, node_name), expected (self, state, pod, node_name)",
            id="a coroutine",
        ),
        pytest.param(
            HintsOfAPod, "hints", "hints has the parameters (self, pod), expected (self)", id="hints for a pod"
        ),
        pytest.param(
            DisabledCheckOfAPod,
            "pre_filter_disabled",
            "pre_filter_disabled has the parameters (pod), expected (pod, cache)",
            id="a static method",
        ),
        pytest.param(
            StaticFilterWithSelf,
            "filter",
            "filter has the parameters (self, state, pod, node), expected (state, pod, node)",
            id="a static method in place of a method",
        ),
    ],
)
def test_a_method_with_the_wrong_parameters_is_refused_with_its_file_and_line(plugin, method, problem):
    with pytest.raises(RegistryError) as error:
        merge_plugins({}, [Found(plugin, "file bad.py")])
    line = inspect.unwrap(getattr(plugin, method)).__code__.co_firstlineno
    expected = f"file bad.py: class {plugin.__name__}: {problem} (file {__file__}, line {line})"
    assert error.value.problems == (expected,)


class Flexible(Plugin, FilterPlugin, PermitPlugin):
    """Other names, defaults, and `*args` are fine: the scheduler passes arguments by position."""

    name = "Flexible"

    def __init__(self, *given):
        super().__init__(*given)

    def filter(self, _state, _pod, info, strict=True):
        return None

    @classmethod
    def permit(cls, state, pod, node_name):
        return None, 0

    def score(self):
        """Not a method of an extension point of this class."""


def test_methods_that_can_be_called_as_the_scheduler_calls_them_are_accepted():
    assert merge_plugins({}, [Found(Flexible, "file good.py")]) == {"Flexible": Flexible}


def test_the_parameters_of_all_optional_methods_are_known():
    """Optional methods are None in the interface, so their parameters are listed in the registry."""
    optional = {
        (contract, name)
        for contract in vars(interface).values()
        if inspect.isclass(contract) and interface.ExtensionPoint in contract.__mro__[1:]
        for name, value in vars(contract).items()
        if value is None and not name.startswith("_")
    }
    assert optional == {(contract, name) for contract, methods in OPTIONAL_METHODS.items() for name in methods}


def _no_default():
    raise SystemExit(3)


@dataclass
class ArgsThatLeave:
    color: str = field(default_factory=_no_default)


class WithArgsThatLeave(Good):
    name = "WithArgsThatLeave"
    args_type = ArgsThatLeave


def test_a_class_whose_own_code_raises_while_it_is_checked_is_refused():
    with pytest.raises(RegistryError) as error:
        merge_plugins({}, [Found(WithArgsThatLeave, "file bad.py"), Found(NotAPlugin, "file other.py")])
    first, second = error.value.problems
    assert first == "file bad.py: cannot be checked: SystemExit: 3"
    assert second.startswith("file other.py: class NotAPlugin")
