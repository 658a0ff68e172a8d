"""The answers of `kubectl_complete-podwright` to kubectl."""

import pytest

from podwright.cli.completion import complete


@pytest.mark.parametrize(
    ("words", "lines", "directive"),
    [
        pytest.param(["ex"], ["explain\tExplain why a pod waits, and what would help.", "extender\t"], ":4", id="a command"),
        pytest.param(["policy", "l"], ["lint\t"], ":4", id="a command of a group"),
        pytest.param(["explain", "dep"], ["deploy", "deployment", "deployments"], ":4", id="a kind"),
        pytest.param(["explain", "--all"], ["--all-namespaces\t", "--allow"], ":4", id="a flag"),
        pytest.param(["replay", ""], [], ":0", id="a file"),
        pytest.param(["snapshot", "--kubeconfig", ""], [], ":0", id="the value of a flag that is a file"),
    ],
)  # fmt: skip
def test_words_are_completed(words, lines, directive, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["kubectl_complete-podwright", *words])
    complete()
    *found, last = capsys.readouterr().out.splitlines()
    assert last == directive
    for line in lines:
        assert any(each.startswith(line) for each in found)
    assert bool(found) == bool(lines)
