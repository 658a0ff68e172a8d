import sys
from textwrap import dedent

import pytest

from podwright.core.framework.registry import RegistryError
from podwright.engine.plugins.loading import load_plugins

GOOD = """
    from podwright.core.framework.interface import FilterPlugin, Plugin

    class Good(Plugin, FilterPlugin):
        name = "Good"

        def filter(self, state, pod, node):
            return None
"""


@pytest.fixture
def directory(tmp_path):
    def write(**files):
        for name, text in files.items():
            (tmp_path / f"{name}.py").write_text(dedent(text))
        return tmp_path

    return write


def test_plugins_are_loaded_from_the_files_of_a_directory(directory):
    found = load_plugins([directory(good=GOOD, _helper="raise RuntimeError('not to be imported')")], {})
    assert set(found) == {"Good"}


@pytest.mark.parametrize("exception", ["KeyboardInterrupt", "SystemExit(3)", "GeneratorExit"])
def test_a_file_that_raises_at_its_top_is_refused_by_its_line_and_ends_nothing(directory, exception):
    with pytest.raises(RegistryError, match=r"bad\.py: cannot be imported: .*\(line 2\)"):
        load_plugins([directory(bad=f"VALUE = 1\nraise {exception}\n", good=GOOD)], {})


def test_imported_plugins_and_classes_with_a_leading_underscore_are_ignored(directory):
    text = """
        from podwright.core.framework.interface import FilterPlugin, Plugin
        from podwright.core.plugins.node_name import NodeName

        class _Base(Plugin, FilterPlugin):
            def filter(self, state, pod, node):
                return None

        class One(_Base):
            name = "One"

        class Two(_Base):
            name = "Two"
    """
    assert set(load_plugins([directory(several=text)], {})) == {"One", "Two"}


def test_args_with_postponed_annotations_can_be_decoded(directory):
    text = """
        from __future__ import annotations

        from dataclasses import dataclass
        from podwright.core.framework.interface import FilterPlugin, Plugin

        @dataclass(frozen=True)
        class Args:
            color: str = "blue"

        class Painted(Plugin, FilterPlugin):
            name = "Painted"
            args_type = Args

            def filter(self, state, pod, node):
                return None
    """
    found = load_plugins([directory(painted=text)], {})
    assert found["Painted"].args_type().color == "blue"


def test_files_of_the_same_name_in_two_directories_do_not_clash(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "plugin.py").write_text(dedent(GOOD).replace("Good", name.upper()))
    assert set(load_plugins([tmp_path / "a", tmp_path / "b"], {})) == {"A", "B"}


@pytest.mark.parametrize(
    "text, problem",
    [
        pytest.param(
            "import nothing_of_that_name", "cannot be imported: ModuleNotFoundError", id="an import that fails"
        ),
        pytest.param("x = 1\nprint(y)\n", "NameError: name 'y' is not defined (line 2)", id="an error names its line"),
        pytest.param("def broken(:\n", "SyntaxError", id="a syntax error"),
        pytest.param("raise GeneratorExit('bye')", "GeneratorExit: bye", id="a file that raises what is no Exception"),
        pytest.param("raise SystemExit('bye')", "SystemExit: bye", id="a file that tries to exit"),
        pytest.param("x = 1", "has no class that inherits", id="a file without a plugin"),
        pytest.param(
            "from podwright.core.framework.interface import Plugin\nclass Empty(Plugin): name = 'Empty'",
            "class Empty has no extension point",
            id="a plugin without extension points",
        ),
    ],
)
def test_an_error_names_the_file(directory, text, problem):
    path = directory(bad=text, good=GOOD)
    before = set(sys.modules)
    with pytest.raises(RegistryError) as error:
        load_plugins([path], {})
    (only,) = error.value.problems
    assert only.startswith(f"file {path / 'bad.py'}: ")
    assert problem in only
    assert not any(name.endswith("_bad") for name in set(sys.modules) - before) or "class" in problem


def test_an_error_names_a_missing_directory(tmp_path):
    with pytest.raises(RegistryError, match="is not a directory"):
        load_plugins([tmp_path / "none"], {})
