"""`podwright queues --shares` on 400 cases with the answers of an exact reference: one queue to 300, up to 12
levels.
"""

import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from podwright.cli.commands.queues import queues

CASES = Path(__file__).parent / "cases" / "queues" / "shares.jsonl.gz"


def answers_of(*arguments, lines=None):
    result = CliRunner().invoke(queues, ["--shares", *arguments], input=lines)
    return result.exit_code, [json.loads(line) for line in result.stdout.splitlines()]


def test_all_shares_are_the_expected_ones():
    with gzip.open(CASES, "rt") as file:
        expected = {case["id"]: case["expect"] for case in map(json.loads, file)}
    status, answers = answers_of(str(CASES))
    assert status == 0
    assert {answer["id"]: answer["shares"] for answer in answers} == expected
    assert len(expected) == 400


@pytest.mark.parametrize(
    ("case", "error"),
    [
        pytest.param({"queues": {}}, "queues: expected a list, got an object", id="queues that are no list"),
        pytest.param(
            {"queues": [{"name": "a", "resources": {"cpu": {"limit": -2}}}]},
            "queues[0].resources.cpu.limit: -2 is less than -1",
            id="a limit below -1",
        ),
        pytest.param({"demand": {"q": {"cpu": 1}}}, "demand.q: there is no such queue", id="demand of no queue"),
        pytest.param(
            {"queues": [{"name": "a"}], "demand": {"a": {"cpu": -1}}},
            "demand.a.cpu: expected at least 0",
            id="a negative demand",
        ),
        pytest.param({"queues": [{"name": "a", "parent": "a"}]}, "Queue a: parent: queue 'a' is below", id="a cycle"),
    ],
)
def test_a_case_that_is_invalid_gets_an_error_and_the_next_one_is_answered(case, error):
    good = {"id": "good", "capacity": {"cpu": 1}, "queues": [{"name": "a"}], "demand": {"a": {"cpu": 2}}}
    status, (bad, answer) = answers_of("-", lines=f"{json.dumps({'id': 'bad', **case})}\n{json.dumps(good)}\n")
    assert status == 1
    assert bad["id"] == "bad"
    assert bad["error"].startswith(f"case bad: {error}")
    assert answer == {"id": "good", "shares": {"a": {"cpu": 1}}}
