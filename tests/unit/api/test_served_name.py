"""The policies of one scheduler name: their order, and that they are prepared only when that is needed."""

from __future__ import annotations

import pytest

from podwright.api.compile import compile_policy, refused_policy
from podwright.api.permissions import DEFAULT_SETTINGS
from podwright.api.scheduler_policy import parse_policy
from podwright.api.served_name import ServedName
from podwright.api.spec.match import Subject
from podwright.core.framework.features import Features
from support.costs.call_counts import calls_of
from support.engine.stand_ins import STAND_INS

FEATURES = Features()
(BUILT_IN,) = DEFAULT_SETTINGS.built_in(STAND_INS, FEATURES)


def policy(name, precedence=0, labels=None, *, refused=False):
    match = {"podSelector": {"matchLabels": labels}} if labels else {}
    raw = {"metadata": {"name": name, "generation": 1}, "spec": {"precedence": precedence, "match": match}}
    if refused:
        return refused_policy(parse_policy(raw), BUILT_IN.profile, "no")
    return compile_policy(parse_policy(raw), STAND_INS, FEATURES)


def served(*policies, always=False, waits=True):
    found = ServedName(BUILT_IN, always=always, waits=waits)
    for each in policies:
        found.add(each)
    return found


def test_the_greatest_precedence_goes_first_then_the_first_name():
    names = [("c", 1), ("a", 0), ("d", 2), ("b", 1)]
    found = served(*(policy(name, precedence, {"x": "1"}) for name, precedence in names))
    order = []
    while (first := found.first(Subject({"x": "1"}, {}))) is not BUILT_IN:
        order.append(first.name)
        found.remove(first)
    assert order == ["d", "b", "c", "a"]
    assert not found.served


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        pytest.param([], BUILT_IN.name, id="no policy"),
        pytest.param([policy("a")], "a", id="one for all pods"),
        pytest.param([policy("a", 1, {"x": "1"}), policy("b")], None, id="the first one is for some pods"),
        pytest.param([policy("a", 1), policy("b", 0, {"x": "1"})], "a", id="the first one is for all pods"),
        pytest.param([policy("a", refused=True)], "a", id="a refused one for all pods"),
    ],
)
def test_whether_the_labels_of_a_pod_matter(policies, expected):
    only = served(*policies, always=True).only
    assert (None if only is None else only.name) == expected


@pytest.mark.parametrize(
    ("always", "waits", "first", "passed_over"),
    [
        pytest.param(False, True, "a", None, id="the pods of a name that only refused policies serve wait"),
        pytest.param(True, True, BUILT_IN.name, None, id="the built-in policy serves the name anyway"),
        pytest.param(False, False, BUILT_IN.name, "a", id="no pods wait"),
        pytest.param(True, False, BUILT_IN.name, None, id="no pods wait, and the name is served anyway"),
    ],
)
def test_pods_that_no_policy_matches(always, waits, first, passed_over):
    found = served(policy("a", 0, {"x": "1"}, refused=True), always=always, waits=waits)
    assert found.first(Subject({}, {})).name == first
    over = found.passed_over(Subject({}, {}))
    assert (None if over is None else over.name) == passed_over


def test_policies_are_not_prepared_again_for_each_that_is_added():
    def calls(count):
        found = served(*(policy(f"p{index:05}", 0, {"x": str(index)}) for index in range(count)), always=True)
        found.first(Subject({}, {}))
        added = policy("new", 0, {"x": "new"})
        return calls_of(lambda: found.add(added))

    assert calls(400) <= calls(50) + 20
