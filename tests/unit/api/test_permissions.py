"""What the operator's options allow policies to do, and that a policy that does more is rejected."""

from __future__ import annotations

import pytest

from podwright.api.permissions import PolicySettings
from podwright.api.policy_set import PolicySet
from podwright.core.framework.features import Features
from support.engine.stand_ins import STAND_INS


def policy(spec, generation=1):
    return {"metadata": {"name": "a", "generation": generation, "uid": "u"}, "spec": spec}


def applied(spec, **settings):
    return PolicySet(STAND_INS, Features(), settings=PolicySettings(**settings)).apply(policy(spec))


@pytest.mark.parametrize(
    ("name", "allowed", "expected"),
    [
        pytest.param("podwright", ("*",), True, id="the name of the built-in policy"),
        pytest.param("podwright", (), True, id="the name of the built-in policy, even if no other is allowed"),
        pytest.param("ml", ("*",), True, id="any other name, by default"),
        pytest.param("default-scheduler", ("*",), False, id="the default scheduler's name is not any other name"),
        pytest.param("default-scheduler", ("default-*", "*-scheduler"), False, id="no pattern matches the default scheduler's name"),
        pytest.param("default-scheduler", ("*", "default-scheduler"), True, id="the default scheduler's name is listed"),
        pytest.param("ml-training", ("web", "ml-*"), True, id="a pattern matches"),
        pytest.param("html-training", ("ml-*",), False, id="a pattern matches whole names only"),
        pytest.param("ml", ("ml-*",), False, id="no pattern matches"),
        pytest.param("ml", (), False, id="no name is allowed"),
    ],
)  # fmt: skip
def test_a_policy_serves_only_allowed_scheduler_names(name, allowed, expected):
    result = applied({"schedulerName": name}, allowed_scheduler_names=allowed)
    assert (result.accepted, result.reason) == (expected, "Accepted" if expected else "NotAllowed")


def test_policies_may_serve_the_default_scheduler_if_the_built_in_policy_does():
    assert applied({"schedulerName": "default-scheduler"}, scheduler_name="default-scheduler").accepted


def test_the_message_says_which_flag_allows_the_default_scheduler():
    assert applied({"schedulerName": "default-scheduler"}).message == (
        "spec.schedulerName: 'default-scheduler' is only allowed if the operator runs with --scheduler-name=default-scheduler "
        "or lists it in --allowed-scheduler-names, because two schedulers must not serve the same pods. "
        "No generation of this policy is in force."
    )


def test_the_message_says_which_flag_bounds_the_scheduler_names():
    assert applied({"schedulerName": "web"}, allowed_scheduler_names=("ml", "ml-*")).message.startswith(
        "spec.schedulerName: 'web' is not allowed by the operator's flag --allowed-scheduler-names=ml,ml-*. "
    )


def test_a_refused_scheduler_name_is_not_served():
    policies = PolicySet(STAND_INS, Features())
    policies.apply(policy({"schedulerName": "default-scheduler"}))
    assert policies.scheduler_names == {"podwright"}


def test_a_name_that_was_allowed_before_a_restart_is_not_served_after_it():
    last = {"generation": 1, "spec": {"schedulerName": "default-scheduler"}}
    policies = PolicySet(STAND_INS, Features())
    result = policies.apply(policy({"precedence": "x"}, generation=2) | {"status": {"lastAccepted": last}})
    assert result.active_generation is None
    assert (
        "the generation in status.lastAccepted is not acceptable: spec.schedulerName: 'default-scheduler'"
        in result.message
    )
    assert policies.scheduler_names == {"podwright"}
