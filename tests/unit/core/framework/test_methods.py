"""core/framework/methods.py: the names are those of the interface, so no method of a plugin is forgotten by those that
use the names.
"""

import inspect

import pytest

from podwright.core.framework import interface
from podwright.core.framework.joint_rules import JointFilter
from podwright.core.framework.methods import AWAITED, WHEN_BUILT, WITH_STATE, WITHOUT_INSTANCE, WITHOUT_STATE
from podwright.core.framework.profile import Point
from podwright.core.framework.registry import OPTIONAL_METHODS

CONTRACTS = (
    interface.Plugin,
    interface.DomainPlugin,
    JointFilter,
    interface.EnqueueExtensions,
    interface.PreFilterExtensions,
    *(point.value[1] for point in Point),
)
OF_ONE_PLUGIN = {"checked_requests"}
"""Only NodeResourcesFit has these, and a plugin that inherits it."""


def methods():
    """The methods of all contracts by name; None for those that a plugin may leave out."""
    found = {name: None for optional in OPTIONAL_METHODS.values() for name in optional}
    for contract in CONTRACTS:
        found |= {name: method for name, method in vars(contract).items() if inspect.isfunction(method)}
    del found["__init__"]
    return found


def parameters(name, method):
    optional = next((each[name] for each in OPTIONAL_METHODS.values() if name in each), ())
    return optional if method is None else tuple(inspect.signature(method).parameters)


def test_every_method_of_the_interface_has_one_place():
    listed = [*WITH_STATE, *WITHOUT_STATE, *AWAITED, *WHEN_BUILT, *WITHOUT_INSTANCE]
    assert len(listed) == len(set(listed))
    assert set(listed) - OF_ONE_PLUGIN == methods().keys()


@pytest.mark.parametrize(("name", "method"), methods().items())
def test_the_place_says_how_a_method_is_called(name, method):
    assert (name in (*WITH_STATE, *AWAITED)) is (parameters(name, method)[1:2] == ("state",))
    assert (name in AWAITED) is inspect.iscoroutinefunction(method)
