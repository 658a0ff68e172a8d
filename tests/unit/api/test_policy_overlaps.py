"""Which policies of equal precedence may match the same pods."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podwright.api.compile import compile_policy
from podwright.api.policy_overlaps import KEPT, Overlaps, may_take_the_same_pods, takes_all_pods_of
from podwright.api.scheduler_policy import parse_policy
from podwright.api.spec.match import Subject
from podwright.core.framework.features import Features
from support.costs.call_counts import calls_of
from support.engine.stand_ins import STAND_INS
from support.properties import examples

FEATURES = Features()


def policy(name, match=None, **spec):
    raw = {"metadata": {"name": name, "generation": 1}, "spec": {"match": match or {}, **spec}}
    return compile_policy(parse_policy(raw), STAND_INS, FEATURES)


def overlap(first, second):
    found = Overlaps()
    found.add(first)
    found.add(second)
    names = [[other.name for other in found.of(each)[0]] for each in (first, second)]
    assert names in ([[], []], [[second.name], [first.name]]), "both know of each other"
    return bool(names[0])


def pods(*expressions, **labels):
    return {"podSelector": {"matchLabels": labels, "matchExpressions": list(expressions)}}


def expression(key, operator, *values):
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        pytest.param({}, {}, True, id="both match everything"),
        pytest.param(pods(x="1"), {}, True, id="one matches everything"),
        pytest.param(pods(x="1"), pods(x="2"), False, id="different values of one label"),
        pytest.param(pods(x="1"), pods(y="2"), True, id="different labels"),
        pytest.param(pods(expression("x", "In", "1", "2")), pods(expression("x", "In", "2", "3")), True, id="a common value"),
        pytest.param(pods(expression("x", "In", "1", "2")), pods(expression("x", "NotIn", "1", "2")), False, id="values that the other leaves out"),
        pytest.param(pods(expression("x", "NotIn", "1")), pods(expression("x", "NotIn", "2")), True, id="any other value"),
        pytest.param(pods(expression("x", "Exists")), pods(expression("x", "DoesNotExist")), False, id="present and absent"),
        pytest.param(pods(expression("x", "NotIn", "1")), pods(expression("x", "DoesNotExist")), True, id="absent, which is not the value"),
        pytest.param(pods(expression("x", "NotIn", "1")), pods(expression("x", "Exists")), True, id="another value"),
        pytest.param({"namespaces": ["a", "b"]}, {"namespaces": ["b"]}, True, id="a common namespace"),
        pytest.param({"namespaces": ["a"]}, {"namespaces": ["b"]}, False, id="different namespaces"),
        pytest.param({"namespaces": ["a"]}, {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "b"}}}, False, id="a namespace by name and by label"),
        pytest.param({"namespaceSelector": {"matchLabels": {"x": "1"}}}, pods(x="2"), True, id="labels of the namespace and of the pod"),
        pytest.param({"priorityClasses": ["a"]}, {"priorityClasses": ["b"]}, False, id="different priority classes"),
        pytest.param({"priorityClasses": ["a"]}, {}, True, id="any priority class"),
    ],
)  # fmt: skip
def test_whether_two_policies_may_match_one_pod(first, second, expected):
    assert overlap(policy("a", first), policy("b", second)) is expected
    assert overlap(policy("b", second), policy("a", first)) is expected


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"precedence": 1}, id="another precedence"),
        pytest.param({"schedulerName": "other"}, id="another scheduler name"),
        pytest.param({"byName": "Required"}, id="only for pods that name it"),
        pytest.param(
            {"match": pods(expression("x", "Exists"), expression("x", "DoesNotExist"))}, id="one that matches nothing"
        ),
    ],
)
def test_policies_that_never_meet(other):
    assert not overlap(policy("a"), policy("b", **other))


VALUES = ["1", "2"]
requirements = st.one_of(
    st.builds(expression, st.sampled_from("ab"), st.sampled_from(["Exists", "DoesNotExist"])),
    st.builds(expression, st.sampled_from("ab"), st.sampled_from(["In", "NotIn"]), st.sampled_from(VALUES)),
)
matches = st.builds(lambda own: pods(*own), st.lists(requirements, max_size=3))
POSSIBLE = [
    Subject({key: value for key, value in (("a", a), ("b", b)) if value}, {})
    for a in ("", *VALUES, "another")
    for b in ("", *VALUES, "another")
]


@settings(deadline=None, max_examples=examples(150))
@given(matches, matches)
def test_two_policies_overlap_exactly_if_a_pod_can_match_both(first, second):
    one, two = policy("a", first), policy("b", second)
    both = any(one.matches(subject) and two.matches(subject) for subject in POSSIBLE)
    assert overlap(one, two) is both
    assert may_take_the_same_pods(one.match, two.match) is both
    if takes_all_pods_of(one.match, two.match):
        assert all(one.matches(subject) for subject in POSSIBLE if two.matches(subject))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        pytest.param({}, pods(x="1"), True, id="everything"),
        pytest.param(pods(x="1"), {}, False, id="not everything"),
        pytest.param(pods(x="1"), pods(x="1", y="2"), True, id="fewer requirements"),
        pytest.param(pods(expression("x", "Exists")), pods(x="1"), True, id="any value"),
        pytest.param(pods(expression("x", "NotIn", "2")), pods(x="1"), True, id="not that value"),
        pytest.param(pods(expression("x", "NotIn", "1")), pods(expression("x", "NotIn", "1", "2")), True, id="fewer are left out"),
        pytest.param({"priorityClasses": ["a", "b"]}, {"priorityClasses": ["a"]}, True, id="more priority classes"),
        pytest.param({"priorityClasses": ["a"]}, {"priorityClasses": ["a", "b"]}, False, id="fewer priority classes"),
    ],
)  # fmt: skip
def test_whether_a_policy_takes_all_pods_of_another(first, second, expected):
    assert takes_all_pods_of(policy("a", first).match, policy("b", second).match) is expected


def test_after_any_changes_each_policy_knows_some_of_its_overlaps_and_no_others():
    rng = random.Random(5)
    found, present = Overlaps(), {}
    for step in range(400):
        name = f"p{rng.randrange(40)}"
        if name in present:
            found.remove(present.pop(name))
        else:
            present[name] = policy(name, pods(x=str(rng.randrange(3))) if rng.random() < 0.8 else {})
            found.add(present[name])
        for one in present.values():
            real = (
                {two.name for two in present.values() if two is not one and overlap(one, two)}
                if step % 40 == 0
                else None
            )
            known, count = found.of(one)
            assert len(known) <= KEPT
            if real is not None:
                assert {other.name for other in known} <= real
                assert bool(known) == bool(real)
                assert count == len(real)


def test_a_policy_is_compared_once_with_each_other_one():
    def calls(count):
        found = Overlaps()
        for number in range(count):
            found.add(policy(f"p{number}", pods(x=str(number))))
        added = policy("new", pods(x="new"))
        return calls_of(lambda: found.add(added))

    assert calls(400) <= 4.5 * calls(100)
