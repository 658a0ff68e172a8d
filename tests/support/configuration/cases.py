"""Some 200 KubeSchedulerConfiguration files of v1: each is the smallest file, changed in one place, or a few of these
together.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator, Mapping
from typing import Any, Final

V1: Final = "kubescheduler.config.k8s.io/v1"
HEADER: Final = f"apiVersion: {V1}\nkind: KubeSchedulerConfiguration\n"

Case = tuple[str, str]
"""(id, file)"""


_TOP: Final[Mapping[str, tuple[Any, ...]]] = {
    "parallelism": (1, 16, 0, -1, 2**31, "16", 1.5, None, True),
    "percentageOfNodesToScore": (0, 1, 100, 101, -1, "50", None),
    "podInitialBackoffSeconds": (1, 10, 11, 0, -1, "1", 2**63, None),
    "podMaxBackoffSeconds": (10, 1, 0, -5, 1.0, 2**63 - 1, None),
    "enableProfiling": (True, False, "true", 1, None),
    "enableContentionProfiling": (False, 0),
    "delayCacheUntilActive": (True, "yes", 1),
    "unknown": (1, None),
    "Parallelism": (4,),
    "healthzBindAddress": ("", "0.0.0.0:10251"),
    "schedulerName": ("mine",),
    "profiles": ([], None, {}, "x", [None], [{}], [[]], [{}, {}], [{"schedulerName": ""}], [{"schedulerName": 5}]),
    "extenders": ([], None, [{}], {}, [None]),
}
_LEADER_ELECTION: Final[Mapping[str, tuple[Any, ...]]] = {
    "leaderElect": (True, False, "true", None),
    "leaseDuration": ("15s", "1m", "10s", "9s", "0s", "-1s", "", "15", 15, "1.5h", "abc", "15 s"),
    "renewDeadline": ("14s", "15s", "0s", "-1s", "1h"),
    "retryPeriod": ("1s", "0", "-2s", "20s"),
    "resourceLock": ("leases", "", "endpoints", "endpointsleases", 1),
    "resourceName": ("x", "", None),
    "resourceNamespace": ("y", "", 7),
    "lockObjectName": ("z",),
}
_CLIENT_CONNECTION: Final[Mapping[str, tuple[Any, ...]]] = {
    "kubeconfig": ("", 5),
    "qps": (50, 0, -1, 12.5, "50"),
    "burst": (100, 0, -1, 1.5, 2**31),
    "contentType": ("application/json", ""),
    "acceptContentTypes": ("application/json", []),
    "timeout": ("1s",),
}
_EXTENDER: Final[Mapping[str, tuple[Any, ...]]] = {
    "urlPrefix": ("http://127.0.0.1:8888/", "", 1),
    "filterVerb": ("filter", 1),
    "prioritizeVerb": ("prioritize", ""),
    "weight": (1, 0, -1, "1"),
    "bindVerb": ("bind",),
    "preemptVerb": ("preempt",),
    "enableHTTPS": (True, "true"),
    "httpTimeout": ("100ms", "5", 5, "-1s"),
    "nodeCacheCapable": (True,),
    "ignorable": (True, None),
    "tlsConfig": (
        {"insecure": True},
        {"caData": "!!"},
        {"caData": "YQ=="},
        {"x": 1},
        {"insecure": True, "caFile": "ca"},
    ),
    "managedResources": (
        [{"name": "example.com/gpu"}],
        [{"name": "example.com/gpu", "ignoredByScheduler": True}],
        [{"name": "gpu"}],
        [{"name": "kubernetes.io/gpu"}],
        [{"name": "requests.example.com/gpu"}],
        [{"name": "example.com/gpu"}, {"name": "example.com/gpu"}],
        [{"name": "-bad-/x"}],
        [{}],
    ),
}
_PLUGINS: Final[tuple[Any, ...]] = (
    {},
    None,
    {"score": {"enabled": [{"name": "NodeResourcesFit", "weight": 5}]}},
    {"score": {"enabled": [{"name": "NodeResourcesFit", "weight": 0}]}},
    {"score": {"enabled": [{"name": "NodeResourcesFit", "weight": -1}]}},
    {"score": {"enabled": [{"name": "NodeResourcesFit", "weight": 2**31}]}},
    {"score": {"enabled": [{"name": "NodeResourcesFit", "weight": 2**31 - 1}]}},
    {"score": {"enabled": [{"name": "NodeResourcesFit", "weight": "5"}]}},
    {"score": {"disabled": [{"name": "*"}]}},
    {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "ImageLocality"}]}},
    {"score": {"disabled": [{"name": "Nobody"}]}},
    {"score": {"enabled": [{"name": "Nobody"}]}},
    {"score": {"enabled": [{"name": "NodeName"}]}},
    {"score": {"enabled": [{"name": "ImageLocality"}, {"name": "ImageLocality"}]}},
    {"score": {"enabled": [{"weight": 5}]}},
    {"score": {"enabled": [{"name": "ImageLocality", "wait": 5}]}},
    {"score": {"enabled": {}}},
    {"score": []},
    {"Score": {}},
    {"scores": {}},
    {"filter": {"disabled": [{"name": "*"}]}},
    {"filter": {"enabled": [{"name": "AzureDiskLimits"}]}},
    {"multiPoint": {"disabled": [{"name": "*"}]}},
    {"multiPoint": {"disabled": [{"name": "ImageLocality"}]}},
    {"multiPoint": {"enabled": [{"name": "ImageLocality", "weight": 9}]}},
    {"multiPoint": {"enabled": [{"name": "ImageLocality"}, {"name": "ImageLocality"}]}},
    {"multiPoint": {"enabled": [{"name": "Nobody"}]}},
    {
        "multiPoint": {
            "disabled": [{"name": "*"}],
            "enabled": [{"name": "PrioritySort"}, {"name": "DefaultBinder"}, {"name": "NodeResourcesFit"}],
        }
    },
    {"multiPoint": {"disabled": [{"name": "*"}], "enabled": [{"name": "PrioritySort"}]}},
    {"multiPoint": {"disabled": [{"name": "*"}], "enabled": [{"name": "DefaultBinder"}]}},
    {"bind": {"disabled": [{"name": "*"}]}},
    {"bind": {"disabled": [{"name": "DefaultBinder"}], "enabled": [{"name": "DefaultBinder"}]}},
    {"queueSort": {"disabled": [{"name": "*"}]}},
    {"queueSort": {"enabled": [{"name": "PrioritySort"}]}},
    {"queueSort": {"enabled": [{"name": "PrioritySort"}, {"name": "PrioritySort"}]}},
    {"queueSort": {"enabled": [{"name": "NodeName"}]}},
    {"preFilter": {"enabled": [{"name": "NodeName"}]}},
    {"permit": {"enabled": [{"name": "DefaultBinder"}]}},
    {"preEnqueue": {"disabled": [{"name": "SchedulingGates"}]}},
)
_ARGS: Final[tuple[tuple[str, Any], ...]] = (
    ("NodeResourcesFit", {}),
    ("NodeResourcesFit", None),
    ("NodeResourcesFit", {"scoringStrategy": {"type": "MostAllocated"}}),
    ("NodeResourcesFit", {"scoringStrategy": {"type": "Wrong"}}),
    ("NodeResourcesFit", {"scoringStrategy": {"resources": [{"name": "cpu", "weight": 100}]}}),
    (
        "NodeResourcesFit",
        {"scoringStrategy": {"resources": [{"name": "cpu", "weight": 101}], "type": "LeastAllocated"}},
    ),
    ("NodeResourcesFit", {"scoringStrategy": {"type": "RequestedToCapacityRatio"}}),
    (
        "NodeResourcesFit",
        {
            "scoringStrategy": {
                "type": "RequestedToCapacityRatio",
                "requestedToCapacityRatio": {
                    "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
                },
            }
        },
    ),
    (
        "NodeResourcesFit",
        {
            "scoringStrategy": {
                "type": "RequestedToCapacityRatio",
                "requestedToCapacityRatio": {
                    "shape": [{"utilization": 50, "score": 0}, {"utilization": 10, "score": 11}]
                },
            }
        },
    ),
    ("NodeResourcesFit", {"ignoredResources": ["example.com/gpu"], "ignoredResourceGroups": ["example.com"]}),
    ("NodeResourcesFit", {"ignoredResources": ["bad name"]}),
    ("NodeResourcesFit", {"ignoredResourceGroups": ["example.com/x"]}),
    ("NodeResourcesFit", {"unknown": 1}),
    ("NodeResourcesFit", {"kind": "NodeResourcesFitArgs", "apiVersion": V1}),
    ("NodeResourcesFit", {"kind": "InterPodAffinityArgs", "apiVersion": V1}),
    ("NodeResourcesBalancedAllocation", {"resources": [{"name": "cpu", "weight": 1}, {"name": "example.com/x"}]}),
    ("NodeResourcesBalancedAllocation", {"resources": [{"name": "cpu", "weight": 2}]}),
    ("InterPodAffinity", {"hardPodAffinityWeight": 100}),
    ("InterPodAffinity", {"hardPodAffinityWeight": 101}),
    ("InterPodAffinity", {"hardPodAffinityWeight": -1}),
    ("InterPodAffinity", {"hardPodAffinityWeight": "1"}),
    ("InterPodAffinity", {"ignorePreferredTermsOfExistingPods": True}),
    ("DefaultPreemption", {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 1}),
    ("DefaultPreemption", {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0}),
    ("DefaultPreemption", {"minCandidateNodesPercentage": 101}),
    ("DefaultPreemption", {"minCandidateNodesAbsolute": -1}),
    ("PodTopologySpread", {"defaultingType": "List"}),
    ("PodTopologySpread", {"defaultingType": "Wrong"}),
    (
        "PodTopologySpread",
        {"defaultConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]},
    ),
    (
        "PodTopologySpread",
        {
            "defaultingType": "List",
            "defaultConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}],
        },
    ),
    (
        "PodTopologySpread",
        {
            "defaultingType": "List",
            "defaultConstraints": [{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "Never"}],
        },
    ),
    ("VolumeBinding", {"bindTimeoutSeconds": 30}),
    ("VolumeBinding", {"bindTimeoutSeconds": 0}),
    ("VolumeBinding", {"bindTimeoutSeconds": -1}),
    ("VolumeBinding", {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}),
    ("VolumeBinding", {"shape": [{"utilization": 0, "score": 0}, {"utilization": 0, "score": 10}]}),
    ("NodeAffinity", {}),
    (
        "NodeAffinity",
        {
            "addedAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
                }
            }
        },
    ),
    (
        "NodeAffinity",
        {
            "addedAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Foo"}]}]
                }
            }
        },
    ),
    ("NodeAffinity", {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}),
    ("DynamicResources", {"filterTimeout": "10s"}),
    ("DynamicResources", {"filterTimeout": "-1s"}),
    ("DynamicResources", {"filterTimeout": "x"}),
    ("NodeName", {"anything": 1}),
    ("Nobody", {"anything": 1}),
    ("EBSLimits", {}),
    ("", {}),
)
_JSON: Final = f'{{"apiVersion": "{V1}", "kind": "KubeSchedulerConfiguration"'
_RAW: Final[Mapping[str, str]] = {
    "an empty file": "",
    "a list": "- 1\n",
    "a word": "word\n",
    "no kind": f"apiVersion: {V1}\n",
    "no apiVersion": "kind: KubeSchedulerConfiguration\n",
    "another kind": f"apiVersion: {V1}\nkind: Pod\n",
    "another group": "apiVersion: v1\nkind: KubeSchedulerConfiguration\n",
    "a version to come": "apiVersion: kubescheduler.config.k8s.io/v2\nkind: KubeSchedulerConfiguration\n",
    "JSON": json.dumps({"apiVersion": V1, "kind": "KubeSchedulerConfiguration", "parallelism": 3}),
    "broken YAML": HEADER + "profiles: [\n",
    "a key given twice": HEADER + "parallelism: 1\nparallelism: 1\n",
    "a key given twice, deep": HEADER + "profiles:\n- schedulerName: a\n  schedulerName: b\n",
    "an alias": HEADER + "profiles:\n- &p {schedulerName: a}\n- *p\n",
    "a second document": HEADER + "---\nfoo: bar\n",
    "a trailing separator": HEADER + "---\n",
    "a leading separator": "---\n" + HEADER,
    "a tab": HEADER + "\tparallelism: 1\n",
    "a date as a name": HEADER + "profiles:\n- schedulerName: 2020-01-01\n",
    "version 1.2": f"%YAML 1.2\n---\n{HEADER}",
    "a negative weight": f"{HEADER}profiles: [{{plugins: {{multiPoint: {{enabled: [{{name: NodeAffinity, weight: -1}}]}}}}}}]\n",
    "a disabled plugin without a name": f"{HEADER}profiles: [{{plugins: {{score: {{disabled: [{{}}]}}}}}}]\n",
    "60 levels": f"{HEADER}profiles: [{{pluginConfig: [{{name: Nobody, args: {{a: {'[' * 60}{']' * 60}}}}}]}}]\n",
    "version 1.1": f"%YAML 1.1\n---\n{HEADER}",
    "JSON with a comma at the end": f"{_JSON}, }}",
    "JSON, and a second document": f"{_JSON}}}\n{_JSON}}}",
    "JSON, and a word": f"{_JSON}}} word",
    "JSON with a key given twice": f'{_JSON}, "parallelism": 1, "parallelism": 1}}',
    "JSON after a tab": f"\t{_JSON}}}",
    "JSON with an exponent": f'{_JSON}, "parallelism": 1e1}}',
    "braces without quotes": f"{{apiVersion: {V1}, kind: KubeSchedulerConfiguration}}",
    **{
        f"leaderElection {text}": f"{HEADER}leaderElection: {{{text}}}\n"
        for text in (
            "<<: {leaderElect: true}",
            "<<: {leaderElect: true}, leaderElect: false",
            "leaderElect: false, <<: {leaderElect: true}",
            "<<: [{leaderElect: true}, {leaderElect: false}]",
            "<<: [{leaderElect: true}, {resourceName: x}]",
            "<<: 1",
            "resourceName: 1:30",
            "resourceName: 1e3",
            "resourceName: 08",
            "resourceName: y",
            "resourceName: nUll",
            "resourceName: !!binary aGVsbG8=",
            "resourceName: !!binary '!!'",
            "resourceName: !!str 5",
            "leaderElect: !!bool y",
            "leaderElect: !!bool x",
        )
    },
    **{
        f"{key}: {value}": f"{HEADER}{key}: {value}\n"
        for key, values in (
            ("enableProfiling", ("yes", "y", "N", "on", "OFF", "tRUE", "~")),
            ("parallelism", ("1:30", "1e3", "1.5e1", "-1e3", "0o10", "010", "08", "0x10", "0b11", "+3", "1_000", "5.")),
            ("parallelism", ("!!int '5'", "!!int x", "!!float 5", "!!binary MTY=")),
            ("clientConnection", ("{qps: 1e-1}", "{qps: +.5}", "{qps: .inf}")),
        )
        for value in values
    },
}
_PROFILES: Final[Mapping[str, list[Any]]] = {
    "two profiles": [{"schedulerName": "a"}, {"schedulerName": "b"}],
    "two profiles of one name": [{"schedulerName": "a"}, {"schedulerName": "a"}],
    "one of two without a name": [{"schedulerName": "a"}, {}],
    "a name with a comma": [{"schedulerName": "a,b"}],
    "a percentage": [{"schedulerName": "a", "percentageOfNodesToScore": 30}],
    "a percentage out of range": [{"schedulerName": "a", "percentageOfNodesToScore": 130}],
    "an unknown field": [{"schedulerName": "a", "nope": 30}],
    "two queue sorts": [
        {"schedulerName": "a", "plugins": {"queueSort": {"enabled": [{"name": "PrioritySort"}]}}},
        {"schedulerName": "b"},
    ],
    "one queue sort, twice": [
        {"schedulerName": "a", "plugins": {"queueSort": {"enabled": [{"name": "PrioritySort"}]}}},
        {"schedulerName": "b", "plugins": {"queueSort": {"enabled": [{"name": "PrioritySort"}]}}},
    ],
    "args of no plugin": [{"pluginConfig": [{"args": {}}]}],
    "args of no plugin, twice": [{"pluginConfig": [{"args": {}}, {}]}],
    "args of an unknown plugin that are a word": [{"pluginConfig": [{"name": "Nobody", "args": "word"}]}],
    "args that are a word": [{"pluginConfig": [{"name": "NodeAffinity", "args": "word"}]}],
    "a queue sort with args in one profile": [
        {"schedulerName": "a", "pluginConfig": [{"name": "PrioritySort", "args": {"a": 1}}]},
        {"schedulerName": "b"},
    ],
    "a queue sort with the same args": [
        {"schedulerName": "a", "pluginConfig": [{"name": "PrioritySort", "args": {"a": 1}}]},
        {"schedulerName": "b", "pluginConfig": [{"name": "PrioritySort", "args": {"a": 1}}]},
    ],
    "args given twice": [{"pluginConfig": [{"name": "NodeAffinity"}, {"name": "NodeAffinity"}]}],
}


def _file(fields: Mapping[str, Any]) -> str:
    return json.dumps({"apiVersion": V1, "kind": "KubeSchedulerConfiguration", **fields}, indent=1)


def _singles() -> Iterator[tuple[str, Mapping[str, Any]]]:
    for key, values in _TOP.items():
        yield from ((f"{key} {json.dumps(value)}", {key: value}) for value in values)
    for group, table in (("leaderElection", _LEADER_ELECTION), ("clientConnection", _CLIENT_CONNECTION)):
        for key, values in table.items():
            yield from ((f"{group}.{key} {json.dumps(value)}", {group: {key: value}}) for value in values)
    for key, values in _EXTENDER.items():
        for value in values:
            yield f"an extender with {key} {json.dumps(value)}", {"extenders": [{"urlPrefix": "http://x/", key: value}]}
    weighed = {"urlPrefix": "http://x/", "prioritizeVerb": "p", "weight": 2, "bindVerb": "b"}
    yield "an extender with a weight", {"extenders": [weighed]}
    yield "two extenders that bind", {"extenders": [weighed, weighed]}
    for plugins in _PLUGINS:
        yield f"plugins {json.dumps(plugins)}", {"profiles": [{"plugins": plugins}]}
    for name, args in _ARGS:
        yield f"args of {name} {json.dumps(args)}", {"profiles": [{"pluginConfig": [{"name": name, "args": args}]}]}
    for title, profiles in _PROFILES.items():
        yield title, {"profiles": profiles}


def cases() -> Iterator[Case]:
    """All files that differ in one place."""
    yield from _RAW.items()
    yield from ((title, _file(fields)) for title, fields in _singles())


def combined(count: int, seed: int) -> Iterator[Case]:
    """Files in which three places differ."""
    draw = random.Random(seed)
    singles = list(_singles())
    for number in itertools.count() if count < 0 else range(count):
        fields: dict[str, Any] = {}
        for _, single in draw.sample(singles, 3):
            fields |= single
        yield f"three changes, number {number}", _file(fields)
