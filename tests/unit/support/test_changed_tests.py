import subprocess

import pytest

from support.changed_tests import affected_by, changed_files

FILES = {
    "operator/podwright/__init__.py": "",
    "operator/podwright/core/__init__.py": "",
    "operator/podwright/core/pod.py": "",
    "operator/podwright/core/node.py": "from podwright.core import pod",
    "operator/podwright/commands.py": "ALL = {'run': 'podwright.core.node'}",
    "operator/podwright/alone.py": "import json",
    "tests/support/kit.py": "from podwright.core.pod import Pod",
    "tests/unit/conftest.py": "",
    "tests/unit/test_kit.py": "import support.kit",
    "tests/unit/test_commands.py": "from podwright.commands import ALL",
    "tests/unit/test_alone.py": "from podwright import alone",
    "tests/examples/test_docs.py": "PAGE = ROOT / 'docs' / 'page.md'",
    "docs/page.md": "",
}


@pytest.fixture
def root(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        pytest.param("tests/unit/test_kit.py", ["unit/test_kit.py"], id="a test"),
        pytest.param("operator/podwright/core/pod.py", ["unit/test_commands.py", "unit/test_kit.py"], id="a module, through others, one of them imported by name"),
        pytest.param("operator/podwright/alone.py", ["unit/test_alone.py"], id="a module that one test imports"),
        pytest.param("operator/podwright/core/__init__.py", ["unit/test_commands.py", "unit/test_kit.py"], id="a package"),
        pytest.param("tests/unit/conftest.py", ["unit/test_alone.py", "unit/test_commands.py", "unit/test_kit.py"], id="fixtures"),
        pytest.param("docs/page.md", ["examples/test_docs.py"], id="a page"),
        pytest.param("LICENSE", [], id="what no test names"),
    ],
)  # fmt: skip
def test_what_a_change_can_affect_is_tested(root, changed, tests):
    assert affected_by(root, [changed]) == [f"tests/{name}" for name in tests]


def test_changes_are_those_since_the_branch_began_and_what_is_not_committed(root):
    def git(*args):
        subprocess.run(["git", "-C", root, "-c", "user.name=n", "-c", "user.email=e", *args], check=True, capture_output=True)  # fmt: skip

    git("init", "-b", "main")
    git("add", ".")
    git("commit", "-m", "first")
    git("checkout", "-b", "branch")
    (root / "docs/page.md").write_text("changed")
    git("commit", "-am", "second")
    (root / "operator/podwright/alone.py").write_text("import re")
    (root / "new.txt").write_text("")
    assert changed_files(root, "main") == {"docs/page.md", "operator/podwright/alone.py", "new.txt"}
