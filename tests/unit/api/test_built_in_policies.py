"""The built-in policies: the profiles of a configuration file, and the SchedulerPolicies above them."""

from __future__ import annotations

import pytest

from podwright.api.configuration.load import load_configuration
from podwright.api.permissions import PolicySettings
from podwright.core.framework.profile import expand
from support.engine.stand_ins import STAND_INS
from support.policies.policy_sets import (
    NO_LABELS,
    build,
    chosen,
    pod,
    policy,
    select_pods,
)


class TestProfilesOfAConfiguration:
    """The profiles of a configuration file are the built-in policies."""

    FILE = b"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: first
- schedulerName: second
  plugins: {multiPoint: {disabled: [{name: NodePorts}]}}
"""

    @pytest.fixture
    def policies(self):
        return build(settings=PolicySettings(configuration=load_configuration(self.FILE)))

    @staticmethod
    def profile_of(policies, scheduler):
        return expand(policies.select(pod(scheduler=scheduler), NO_LABELS).profile.plugins, STAND_INS)

    def test_each_serves_its_own_scheduler_name(self, policies):
        assert policies.scheduler_names == {"first", "second"}
        assert "NodePorts" in self.profile_of(policies, "first").names
        assert "NodePorts" not in self.profile_of(policies, "second").names
        assert chosen(policies, pod(scheduler="podwright")) is None

    def test_a_policy_stands_above_the_profile_of_its_scheduler_name(self, policies):
        policies.apply(policy("a", {"schedulerName": "second", "match": select_pods(x="1")}))
        assert chosen(policies, pod({"x": "1"}, scheduler="second")) == "a"
        assert chosen(policies, pod({"x": "2"}, scheduler="second")) == "profile/second"
        assert "NodePorts" not in self.profile_of(policies, "second").names

    def test_the_first_is_also_for_other_names_that_policies_serve(self, policies):
        policies.apply(policy("a", {"schedulerName": "third", "match": select_pods(x="1")}))
        assert chosen(policies, pod({"x": "1"}, scheduler="third")) == "a"
        assert chosen(policies, pod({"x": "2"}, scheduler="third")) == "profile/first"
        assert self.profile_of(policies, "third") == self.profile_of(policies, "first")

    def test_a_name_stays_served_when_its_policy_goes(self, policies):
        policies.apply(policy("a", {"schedulerName": "second"}))
        policies.remove("a")
        assert policies.scheduler_names == {"first", "second"}
        assert "NodePorts" not in self.profile_of(policies, "second").names

    def test_a_policy_may_lack_the_filters_that_the_profile_of_its_name_lacks(self, policies):
        lacking = {"strategy": {"type": "Custom"}, "plugins": {"multiPoint": {"disabled": [{"name": "NodePorts"}]}}}
        assert policies.apply(policy("a", {"schedulerName": "second", **lacking})).accepted
        assert policies.apply(policy("b", {"schedulerName": "first", **lacking})).reason == "NotAllowed"

    def test_policies_may_serve_the_names_of_all_profiles(self):
        settings = PolicySettings(configuration=load_configuration(self.FILE), allowed_scheduler_names=("other",))
        policies = build(settings=settings)
        assert policies.apply(policy("a", {"schedulerName": "second"})).accepted
        assert policies.apply(policy("b", {"schedulerName": "third"})).reason == "NotAllowed"
