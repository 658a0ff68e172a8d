"""The index gives the same policy as asking each policy in turn, and asks few of them."""

from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podwright.api.compile import CompiledPolicy, compile_policy
from podwright.api.policy_index import FEW, PolicyIndex
from podwright.api.scheduler_policy import parse_policy
from podwright.api.spec.match import Subject
from podwright.core.framework.features import Features
from support.engine.stand_ins import STAND_INS
from support.properties import examples

MANY = 1000


def compiled(name, match):
    raw = {"metadata": {"name": name, "generation": 1, "uid": name}, "spec": {"match": match}}
    return compile_policy(parse_policy(raw), STAND_INS, Features(), "PrioritySort")


def expression(key, operator, *values):
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def pods(*expressions, **labels):
    return {"podSelector": {"matchLabels": labels, "matchExpressions": list(expressions)}}


def namespaces(*expressions, **labels):
    return {"namespaceSelector": {"matchLabels": labels, "matchExpressions": list(expressions)}}


KEYS, VALUES = ["a", "b", "c"], ["1", "2", "3"]
labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
expressions = st.one_of(
    st.builds(expression, st.sampled_from(KEYS), st.sampled_from(["Exists", "DoesNotExist"])),
    st.builds(
        lambda key, operator, values: expression(key, operator, *values),
        st.sampled_from(KEYS),
        st.sampled_from(["In", "NotIn"]),
        st.lists(st.sampled_from(VALUES), min_size=1, max_size=2, unique=True),
    ),
)
selectors = st.none() | st.builds(
    lambda own, more: {"matchLabels": own, "matchExpressions": more}, labels, st.lists(expressions, max_size=2)
)
names = st.lists(st.sampled_from(VALUES), max_size=2, unique=True)
matches = st.builds(
    lambda of_pods, of_namespaces, namespaces, classes: {
        **({} if of_pods is None else {"podSelector": of_pods}),
        **({} if of_namespaces is None else {"namespaceSelector": of_namespaces}),
        "namespaces": namespaces,
        "priorityClasses": classes,
    },
    selectors,
    selectors,
    names,
    names,
)
subjects = st.builds(Subject, labels, labels, st.sampled_from(VALUES), st.sampled_from(["", *VALUES]))


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(matches, min_size=FEW + 1, max_size=FEW + 8), subjects)
def test_the_first_policy_that_matches_is_found(wanted, subject):
    policies = [compiled(f"p{number}", match) for number, match in enumerate(wanted)]
    first = next((policy for policy in policies if policy.matches(subject)), None)
    assert PolicyIndex(policies).first(subject) is first


@pytest.mark.parametrize(
    "match, own, of_namespace, found",
    [
        pytest.param(lambda i: pods(team=f"t{i}"), {"team": "t700"}, {}, 700, id="a label of the pod"),
        pytest.param(lambda i: namespaces(team=f"t{i}"), {}, {"team": "t700"}, 700, id="a label of the namespace"),
        pytest.param(
            lambda i: pods(app="web", team=f"t{i}"),
            {"app": "web", "team": "t700"},
            {},
            700,
            id="a common label and a rare one",
        ),
        pytest.param(
            lambda i: {**pods(app="web"), **namespaces(team=f"t{i}")},
            {"app": "web"},
            {"team": "t700"},
            700,
            id="labels of both",
        ),
        pytest.param(lambda i: pods(expression(f"t{i}", "Exists")), {"t700": ""}, {}, 700, id="a label with any value"),
        pytest.param(
            lambda i: pods(expression("team", "In", f"t{i}", f"u{i}")),
            {"team": "u700"},
            {},
            700,
            id="one of several values",
        ),
        pytest.param(lambda i: pods(team=f"t{i}"), {"team": "none"}, {}, None, id="a label that no policy requires"),
        pytest.param(
            lambda i: {"namespaces": ["default"] if i == 700 else [f"n{i}"], **pods(app="web")},
            {"app": "web"},
            {},
            700,
            id="the name of a namespace",
        ),
        pytest.param(
            lambda i: {"priorityClasses": [f"c{i}", f"d{i}"]}, {}, {}, None, id="a priority class that no policy names"
        ),
        pytest.param(lambda i: {} if i else pods(x="y"), {}, {}, 1, id="policies that match every pod"),
    ],
)
def test_few_of_many_policies_are_asked(match, own, of_namespace, found):
    policies = [compiled(f"p{number}", match(number)) for number in range(MANY)]
    index = PolicyIndex(policies)
    with mock.patch.object(CompiledPolicy, "matches", autospec=True, side_effect=CompiledPolicy.matches) as asked:
        policy = index.first(Subject(own, of_namespace))
    assert policy is (None if found is None else policies[found])
    assert asked.call_count <= 2
