"""Selectors of devices, as kube-scheduler has them."""

import pytest

from podwright.core.cel import types
from podwright.core.cel.devices import compile_selector, device_variables, matches
from podwright.core.cel.errors import CelError, EvaluationError

DEVICE = device_variables(
    "gpu.example.com",
    {
        "model": {"string": "a100"},
        "other.io/cores": {"int": 8},
        "version": {"version": "1.2.3"},
        "links": {"strings": ["a", "b"]},
    },
    {"memory": "40Gi"},
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("device.driver == 'gpu.example.com'", True, id="the driver"),
        pytest.param("device.attributes['gpu.example.com'].model == 'a100'", True, id="an attribute without a domain"),
        pytest.param("device.attributes['other.io'].cores > 4", True, id="an attribute of a domain"),
        pytest.param("device.attributes['gpu.example.com'].version.major() == 1", True, id="a version"),
        pytest.param(
            "device.capacity['gpu.example.com'].memory.isGreaterThan(quantity('32Gi'))", True, id="a capacity"
        ),
        pytest.param("has(device.attributes['none'].model)", False, id="a domain that the device does not have"),
        pytest.param("has(device.attributes) && true", True, id="attributes as a whole"),
        pytest.param("[{'capacity': 1}].all(device, device.capacity > 0)", True, id="another thing with that name"),
        pytest.param("'none' in device.attributes", False, id="a domain that is not in the map"),
        pytest.param("device.attributes['gpu.example.com'].links.includes('b')", True, id="a list of strings"),
        pytest.param("device.allowMultipleAllocations", False, id="devices for one claim"),
        pytest.param("cel.bind(dra, device.attributes['gpu.example.com'], dra.model == 'a100')", True, id="a binding"),
        pytest.param("device.capacity['gpu.example.com'].?none.hasValue()", False, id="an optional capacity"),
    ],
)
def test_a_selector_takes_a_device_or_not(text, expected):
    assert matches(compile_selector(text), DEVICE) is expected


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param(
            "device.attributes['gpu.example.com'].none == 1", "no such key: none", id="an attribute that is missing"
        ),
        pytest.param(
            "device.attributes['other.io'].cores",
            "CEL result of type int could not be converted to bool: unsupported type conversion from 'int' to bool",
            id="another result than a bool",
        ),
    ],
)
def test_a_selector_fails_with_the_text_of_kube_scheduler(text, error):
    with pytest.raises(EvaluationError) as raised:
        matches(compile_selector(text), DEVICE)
    assert str(raised.value) == error


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("device.model", "undefined field 'model'", id="a field that devices do not have"),
        pytest.param("1 + 1", "must evaluate to bool or the unknown type, not int", id="a number"),
        pytest.param(
            "device.capacity['a'].b",
            "must evaluate to bool or the unknown type, not kubernetes.Quantity",
            id="a quantity",
        ),
        pytest.param(
            "device.driver == 1", "found no matching overload for '_==_' applied to '(string, int)'", id="types"
        ),
        pytest.param(
            "has(device.attributes['a'].b) && device.capacity['a'].b <= 1",
            "found no matching overload for '_<=_' applied to '(kubernetes.Quantity, int)'",
            id="types, beside a presence test",
        ),
    ],
)
def test_a_selector_is_refused(text, message):
    with pytest.raises(CelError) as raised:
        compile_selector(text)
    assert raised.value.message == message


def test_a_version_that_is_none_fails_every_selector():
    with pytest.raises(EvaluationError, match="attribute v: parse semantic version: No Major"):
        device_variables("d", {"v": {"version": "1"}}, {})


def test_attributes_may_have_any_type():
    assert compile_selector("device.attributes['a'].b").result_type == types.DYN
