"""The documents are correct: links lead to files, commands exist, snippets are part of the files that they name."""

import re
import shlex
from pathlib import Path

import click
import pytest
import yaml

from podwright.api.compile import compile_policy
from podwright.api.scheduler_policy import parse_policy
from podwright.api.spec.strategy import StrategyType
from podwright.cli.main import main
from podwright.core.framework.features import Features
from podwright.core.plugins import PLUGINS
from podwright.testing.versions import RELEASES

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    path
    for path in ROOT.rglob("*.md")
    if not any(part.startswith(".") or part == "node_modules" for part in path.relative_to(ROOT).parts)
)
SNIPPET = re.compile(r"^\[`(?P<file>\S+)`\]\((?P=file)\)\n```\w*\n(?P<text>.*?)```", re.DOTALL | re.MULTILINE)
"""A snippet below a link to its file."""
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
README = (ROOT / "README.md").read_text()

CONTEXT = click.Context(main)


def code_of(text):
    """The code in backticks and indented blocks."""
    inline = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    return [*inline, *(line.strip() for line in text.splitlines() if line.startswith("    "))]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files(path):
    targets = [target.split("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text())]
    local = [target for target in targets if target and not target.startswith("https://")]
    assert [target for target in local if not (path.parent / target).exists()] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_exist(path):
    code = code_of(path.read_text())
    made = {word for text in code for word in re.findall(r"\bmake ([a-z0-9-]+)", text)}
    assert made - TARGETS == set()
    run = {word for text in code for word in re.findall(r"(?:^|/)podwright ([a-z][a-z-]*)", text)}
    assert run - set(main.list_commands(CONTEXT)) == set()


def test_the_options_in_the_readme_exist():
    for text in code_of(README):
        words = shlex.split(text.split("#")[0]) if text.startswith("podwright ") else []
        if len(words) > 1:
            known = {option for parameter in main.get_command(CONTEXT, words[1]).params for option in parameter.opts}
            assert {word.split("=")[0] for word in words if word.startswith("--")} <= known


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_there_is_one_way_to_call_podwright(path):
    """As `podwright`, from an environment that is active."""
    others = re.compile(r"bin/(?:podwright|kopf|python)\b|\bpython3? -m podwright(?! ?\.)")
    assert [text for text in code_of(path.read_text()) if others.search(text)] == []


def test_templates_are_rendered_for_the_kubernetes_that_is_tested():
    named = [each for path in DOCUMENTS for each in re.findall(r"--kube-version[ =]([\d.]+)", path.read_text())]
    assert {*named} == {RELEASES[-1]}


@pytest.mark.parametrize("name", ["evaluate.md", "simulate.md"])
def test_dumps_contain_all_kinds(name):
    dumped = re.findall(r"kubectl get (.*) -A -o json", (ROOT / "docs" / name).read_text())
    assert dumped == ['"$(kubectl api-resources -o name | podwright evaluate --kinds -)"']


def test_snippets_of_the_readme_are_part_of_their_files():
    snippets = SNIPPET.findall(README)
    assert len(snippets) == README.count("```") // 2
    for file, text in snippets:
        assert text in (ROOT / file).read_text()


def test_the_policy_in_the_readme_compiles():
    (text,) = [text for file, text in SNIPPET.findall(README) if file.endswith(".yaml")]
    assert (
        compile_policy(parse_policy(yaml.safe_load(text)), PLUGINS, Features()).spec.strategy.type == "LeastAllocated"
    )


def test_the_readme_has_every_strategy():
    assert re.findall(r"^\| `(\w+)` \|", README, re.MULTILINE) == list(StrategyType.__args__)


def test_the_index_lists_every_adr():
    index = (ROOT / "docs" / "adr" / "README.md").read_text()
    names = sorted(path.name for path in (ROOT / "docs" / "adr").glob("0*.md"))
    assert re.findall(r"\]\((0[\w-]+\.md)\)", index) == names
