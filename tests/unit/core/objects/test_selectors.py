import pytest

from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.selectors import parse_label_selector, parse_node_selector

LABELS = {"app": "web", "tier": "front", "cores": "8"}


def expression(key, operator, *values):
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


@pytest.mark.parametrize(
    "raw, matches",
    [
        pytest.param(None, False, id="a nil selector matches nothing"),
        pytest.param({}, True, id="an empty selector matches everything"),
        pytest.param({"matchLabels": {"app": "web"}}, True, id="a label that the object has"),
        pytest.param({"matchLabels": {"app": "db"}}, False, id="a label with another value"),
        pytest.param({"matchExpressions": [expression("app", "In", "db", "web")]}, True, id="In"),
        pytest.param({"matchExpressions": [expression("app", "NotIn", "web")]}, False, id="NotIn"),
        pytest.param({"matchExpressions": [expression("gpu", "NotIn", "a")]}, True, id="NotIn matches without the key"),
        pytest.param({"matchExpressions": [expression("gpu", "Exists")]}, False, id="Exists"),
        pytest.param({"matchExpressions": [expression("gpu", "DoesNotExist")]}, True, id="DoesNotExist"),
        pytest.param(
            {"matchLabels": {"app": "web"}, "matchExpressions": [expression("gpu", "Exists")]},
            False,
            id="all requirements must hold",
        ),
    ],
)
def test_label_selectors(raw, matches):
    assert parse_label_selector(raw, "spec.selector").matches(LABELS) is matches


@pytest.mark.parametrize(
    "raw, field",
    [
        pytest.param(
            {"matchExpressions": [expression("a", "Gt", "1")]},
            r"matchExpressions\[0\].operator",
            id="an operator of node selectors",
        ),
        pytest.param({"matchExpressions": [expression("a", "Near")]}, "operator", id="an unknown operator"),
        pytest.param({"matchExpressions": [expression("a", "In")]}, "values", id="In without values"),
        pytest.param({"matchExpressions": [expression("a", "Exists", "x")]}, "values", id="Exists with values"),
        pytest.param({"matchExpressions": [{"operator": "Exists"}]}, "key", id="no key"),
        pytest.param({"matchExpressions": [7]}, r"matchExpressions\[0\]", id="a number instead of an expression"),
        pytest.param({"matchLabels": {"a": 1}}, r"matchLabels\[a\]", id="a number as a label value"),
        pytest.param([], "selector", id="a list instead of a selector"),
    ],
)
def test_an_invalid_label_selector_raises_an_error_with_the_field(raw, field):
    with pytest.raises(InvalidObjectError, match=field):
        parse_label_selector(raw, "spec.selector")


@pytest.mark.parametrize(
    "terms, matches",
    [
        pytest.param([{}], False, id="an empty term matches nothing"),
        pytest.param([], False, id="no terms match nothing"),
        pytest.param([{"matchExpressions": [expression("cores", "Gt", "7")]}], True, id="Gt"),
        pytest.param([{"matchExpressions": [expression("cores", "Lt", "8")]}], False, id="Lt"),
        pytest.param([{"matchExpressions": [expression("app", "Gt", "1")]}], False, id="Gt with a word"),
        pytest.param([{"matchExpressions": [expression("none", "Gt", "1")]}], False, id="Gt with an absent label"),
        pytest.param([{"matchFields": [expression("metadata.name", "In", "n1")]}], True, id="the node's name"),
        pytest.param([{"matchFields": [expression("metadata.name", "NotIn", "n1")]}], False, id="another name"),
        pytest.param([{}, {"matchExpressions": [expression("app", "Exists")]}], True, id="one of two terms matches"),
    ],
)
def test_node_selectors(terms, matches):
    assert parse_node_selector({"nodeSelectorTerms": terms}, "required").matches(LABELS, "n1") is matches


@pytest.mark.parametrize(
    "term, field",
    [
        pytest.param(
            {"matchFields": [expression("metadata.uid", "In", "x")]}, r"matchFields\[0\].key", id="another field"
        ),
        pytest.param({"matchExpressions": [expression("a", "Gt", "x")]}, "values", id="Gt with a word"),
        pytest.param({"matchExpressions": [expression("a", "Lt", "1", "2")]}, "values", id="Lt with two values"),
    ],
)
def test_an_invalid_node_selector_raises_an_error_with_the_field(term, field):
    with pytest.raises(InvalidObjectError, match=field):
        parse_node_selector({"nodeSelectorTerms": [term]}, "required")
