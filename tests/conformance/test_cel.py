"""Generated expressions have the same value, refusal, error and cost as with cel-go and Kubernetes'
libraries.

PODWRIGHT_CEL_CASES is the number of expressions, PODWRIGHT_CEL_SEED changes them. docs/cel.md has what differs.
"""

import os
from collections import Counter

import pytest

from podwright.core.cel.environment import Environment
from support.cel.generator import Generator
from support.cel.oracle import LIMIT, answer, ask, declared, differences, is_fault, known_difference
from support.cel.tables import VARIABLES
from support.properties import case_count

COUNT = case_count("PODWRIGHT_CEL_CASES", 600)
BATCH = 5_000
SEED = int(os.environ.get("PODWRIGHT_CEL_SEED") or 1)

pytestmark = [
    pytest.mark.usefixtures("binaries"),
    pytest.mark.kubernetes(37, "the CEL libraries that are compared"),
]


@pytest.fixture(scope="module")
def environment():
    return Environment({name: declared(kind) for name, kind in VARIABLES.items()})


def _batches(count):
    """The sizes of the parts, each of which fits into memory."""
    return (min(BATCH, count - start) for start in range(0, count, BATCH))


def _shown(found):
    return "\n".join(
        f"{question['expression']}\n  cel-go: {theirs}\n  ours:   {ours}" for question, theirs, ours in found
    )


def test_expressions_have_the_answers_of_cel_go(environment):
    generator, outcomes, faults, different = Generator(SEED), Counter(), [], []
    for size in _batches(COUNT):
        questions = [
            {"expression": generator.expression(), "variables": generator.variables(), "limit": LIMIT}
            for _ in range(size)
        ]
        answers = [answer(environment, question) for question in questions]
        outcomes.update(name for found in answers for name in ("value", "error", "refusal") if name in found)
        faults += [each for each in zip(questions, answers, strict=True) if is_fault(each[1])]
        different += [case for case in differences(VARIABLES, environment, questions) if not known_difference(*case)]
    assert not faults
    assert not different, _shown(different)
    assert outcomes["value"] > COUNT / 2
    assert outcomes["error"] > COUNT / 20
    assert outcomes["refusal"] > COUNT / 40
    print(
        f"{COUNT} expressions: {outcomes['value']} values, {outcomes['error']} errors, {outcomes['refusal']} refusals"
    )


def test_selectors_of_devices_have_the_answers_of_kube_scheduler(environment):
    generator, different = Generator(SEED, devices=True), []
    for size in _batches(COUNT // 2):
        questions = [
            {"expression": generator.expression(), "device": generator.device(), "limit": LIMIT} for _ in range(size)
        ]
        different += differences(VARIABLES, environment, questions)
    assert not different, _shown(different)


@pytest.mark.parametrize("limit", [0, 5, 20])
def test_the_same_evaluations_exceed_a_limit(environment, limit):
    generator, different, exceeded = Generator(SEED), [], 0
    for size in _batches(COUNT // 6):
        questions = [
            {"expression": generator.expression(), "variables": generator.variables(), "limit": limit}
            for _ in range(size)
        ]
        answers = zip(*(ask(VARIABLES, questions) for _ in range(4)), strict=True)
        for question, several in zip(questions, answers, strict=True):
            theirs = {each.get("error") == CANCELLED for each in several}
            found = answer(environment, question)
            ours = found.get("error") == CANCELLED
            exceeded += ours
            if ours not in theirs and not known_difference(question, several[0], found):
                different.append(question["expression"])
    assert not different
    assert exceeded


CANCELLED = "operation cancelled: actual cost limit exceeded"
