"""A pytest plugin: `pytest` runs the tests of files named `test_policies.yaml` or `test_*.policies.yaml`, each as a
test of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from podwright.policies.suite_names import PATTERNS

if TYPE_CHECKING:
    from podwright.policies.cases import Case
    from podwright.simulator.loaded import LoadOptions


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        "podwright_plugin_dirs", "Directories of plugin files (*.py) that policies use.", type="paths", default=[]
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if any(fnmatch(file_path.name, pattern) for pattern in PATTERNS):
        return PolicyFile.from_parent(parent, path=file_path)
    return None


class PolicyFile(pytest.File):
    """A file of tests of policies."""

    def collect(self) -> Iterator[pytest.Item]:
        from podwright.core.framework.registry import RegistryError  # noqa: PLC0415 -- pytest always loads this
        from podwright.kube.plugins.guarded import load_in_time  # noqa: PLC0415 -- likewise
        from podwright.policies.cases import SuiteError, read_suite  # noqa: PLC0415 -- likewise
        from podwright.simulator.loaded import LoadOptions  # noqa: PLC0415 -- likewise

        try:
            options = LoadOptions(classes=load_in_time(self.config.getini("podwright_plugin_dirs")))
            cases = read_suite(self.path)
        except (RegistryError, SuiteError) as error:
            raise self.CollectError(str(error)) from error
        for case in cases:
            yield PolicyItem.from_parent(self, name=case.name, case=case, options=options)


class PolicyItem(pytest.Item):
    """One test of a file."""

    def __init__(self, *, case: Case, options: LoadOptions, **extra: Any) -> None:
        super().__init__(**extra)
        self._case = case
        self._options = options

    def runtest(self) -> None:
        from podwright.kube.plugins.guarded import guarded_plugins  # noqa: PLC0415 -- likewise
        from podwright.policies.cases import run_case  # noqa: PLC0415 -- likewise

        with guarded_plugins() as guard:
            wrong = run_case(self._case, replace(self._options, guard=guard))
        if wrong:
            raise UnexpectedPlacementError("\n".join(wrong))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, UnexpectedPlacementError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, self.name


class UnexpectedPlacementError(AssertionError):
    """A pod is not where the test expects it."""
