"""Files that are converted: their policies compile to the same profiles, and the notes name everything else."""

from __future__ import annotations

import pytest

from podwright.api.compile import compile_policy, queue_sort_of
from podwright.api.configuration.load import load_configuration
from podwright.api.converted_policies import convert
from podwright.api.scheduler_policy import parse_policy
from podwright.core.framework.features import Features
from podwright.core.framework.interface import FilterPlugin, QueueSortPlugin
from podwright.core.framework.profile import ProfileError, expand
from podwright.core.plugins import PLUGINS
from support.configuration.cases import cases
from support.configuration.second_schedulers import (
    COMPILED_SCHEDULER,
    CUSTOM_SCHEDULER,
    SAMPLE_SCHEDULER,
    WITH_EXTENDER,
)

FEATURES = Features()
HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


class Smallest(QueueSortPlugin):
    name = "Smallest"

    def less(self, first, second):
        return first.pod.key < second.pod.key


class Own(FilterPlugin):
    name = "Own"

    def filter(self, state, pod, node):
        return None


CLASSES = {**PLUGINS, "Smallest": Smallest, "Own": Own}


def converted(text, classes=CLASSES):
    return convert(load_configuration(text.encode()), classes, FEATURES)


def assert_same_profiles(text, policies):
    """The policies compile to the profiles of the file."""
    profiles = load_configuration(text.encode()).profiles(CLASSES, FEATURES)
    queue_sort = queue_sort_of(profiles[0], CLASSES)
    assert len(profiles) == len(policies)
    for profile, policy in zip(profiles, policies, strict=True):
        compiled = compile_policy(parse_policy(policy), CLASSES, FEATURES, queue_sort).profile
        assert compiled.scheduler_name == profile.scheduler_name
        assert expand(compiled.plugins, CLASSES) == expand(profile.plugins, CLASSES)
        assert {name: args for name, args in compiled.args.items() if args is not None} == profile.args


RICH = f"""{HEADER}
profiles:
- schedulerName: first
  plugins:
    multiPoint: {{disabled: [{{name: ImageLocality}}], enabled: [{{name: Own}}, {{name: NodeAffinity, weight: 7}}]}}
    score: {{disabled: [{{name: "*"}}], enabled: [{{name: NodeResourcesFit, weight: 3}}]}}
    queueSort: {{disabled: [{{name: "*"}}], enabled: [{{name: Smallest}}]}}
  pluginConfig:
  - name: NodeResourcesFit
    args: {{scoringStrategy: {{type: MostAllocated, resources: [{{name: cpu, weight: 1}}]}}}}
  - name: PodTopologySpread
    args: {{defaultingType: List, defaultConstraints: [{{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}}]}}
- schedulerName: second
  plugins:
    multiPoint: {{disabled: [{{name: "*"}}], enabled: [{{name: DefaultBinder}}]}}
    queueSort: {{disabled: [{{name: "*"}}], enabled: [{{name: Smallest}}]}}
"""


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(HEADER, id="the smallest file"),
        pytest.param(RICH, id="plugins, args and a queue sort"),
        pytest.param(
            HEADER + "profiles: [{schedulerName: a, plugins: {score: {disabled: [{name: Nope}, {name: Nope}]}}}]",
            id="a plugin that does not exist is disabled",
        ),
    ],
)
def test_the_policies_compile_to_the_profiles_of_the_file(text):
    assert_same_profiles(text, converted(text).policies)


def test_every_acceptable_file_is_converted_or_says_what_cannot_be():
    done, refused = 0, []
    for title, text in cases():
        try:
            load_configuration(text.encode()).profiles(CLASSES, FEATURES)
        except ProfileError:
            continue
        try:
            policies = converted(text).policies
        except ProfileError as error:
            refused.append((title, str(error)))
        else:
            assert_same_profiles(text, policies)
            done += 1
    assert done > 80
    unexpected = [(title, text) for title, text in refused if "SchedulerPolic" not in text]
    assert unexpected == []


@pytest.mark.parametrize("text", [CUSTOM_SCHEDULER, COMPILED_SCHEDULER])
def test_files_of_second_schedulers_are_converted(text):
    assert_same_profiles(text, converted(text).policies)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(WITH_EXTENDER, "extenders: SchedulerPolicies cannot define extenders", id="an extender"),
        pytest.param(SAMPLE_SCHEDULER, "plugin 'sample-plugin' does not exist", id="a plugin of its own"),
    ],
)
def test_what_policies_cannot_define_is_named(text, problem):
    with pytest.raises(ProfileError, match=problem):
        converted(text)


def test_notes_name_the_options_for_what_policies_do_not_have():
    text = f"""{HEADER}
leaderElection: {{renewDeadline: 12s, resourceName: ours}}
clientConnection: {{kubeconfig: /etc/scheduler.conf, qps: 7}}
podInitialBackoffSeconds: 2
podMaxBackoffSeconds: 20
parallelism: 4
profiles:
- plugins: {{queueSort: {{disabled: [{{name: "*"}}], enabled: [{{name: Smallest}}]}}, filter: {{disabled: [{{name: NodePorts}}]}}}}
  pluginConfig: [{{name: Nope, args: {{}}}}]
"""
    notes = converted(text).notes
    assert list(notes[:-1]) == [
        "parallelism: has no effect; each decision looks at all nodes in one thread",
        "clientConnection.qps and burst: have no effect; the API server's answers set the pace",
        "profiles[0].pluginConfig[0]: plugin 'Nope' does not exist; its args are ignored",
        "leaderElection: give podwright run --leader-elect --leader-elect-renew-deadline=12s --leader-elect-resource-name=ours",
        "clientConnection.kubeconfig: give podwright run --kubeconfig=/etc/scheduler.conf",
        "podInitialBackoffSeconds: give podwright run --pod-initial-backoff-seconds=2",
        "podMaxBackoffSeconds: give podwright run --pod-max-backoff-seconds=20",
        "profiles[].plugins.queueSort: give podwright run --queue-sort=Smallest",
        "profiles[0]: start podwright kube-scheduler, or podwright run with --allowed-scheduler-names=*,default-scheduler",
        "profiles: podwright run also serves podwright, with the default profile; --scheduler-name names another one",
    ]
    assert notes[-1] == (
        "profiles[0]: start Podwright with --allow-unsafe-policies, because of spec.plugins.filter: without NodePorts at filter, "
        "pods could be bound to nodes where they cannot run"
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("profiles: [{schedulerName: Not_DNS}]", "profiles[0], as a SchedulerPolicy: spec.schedulerName", id="name"),
        pytest.param("extenders: [{urlPrefix: 'http://x/'}]", "extenders: SchedulerPolicies cannot define", id="extenders"),
        pytest.param("profiles: [{plugins: {score: {enabled: [{name: Nope}]}}}]", "plugin 'Nope' does not", id="plugin"),
    ],
)  # fmt: skip
def test_what_no_policy_can_say_is_an_error(text, problem):
    with pytest.raises(ProfileError) as caught:
        converted(HEADER + text)
    assert problem in str(caught.value)
