"""LocalSchedulerPolicies in snapshots and dumps count as in the operator."""

from podwright.core.framework.features import Features
from podwright.core.plugins import PLUGINS
from podwright.simulator.evaluations.dump import evaluate_pod
from podwright.simulator.loaded import LoadOptions, load
from podwright.simulator.redaction import redacted
from podwright.simulator.snapshot import Snapshot
from podwright.simulator.trial import Trial
from support.engine.kit import ours
from support.objects.builders import make_node
from support.policies.local import delegating, local_policy

API = "podwright.dev/v1alpha1"
ONLY_B = {"filters": [{"name": "b", "expression": "node.labels.name == 'b'", "message": "node(s) are not b"}]}
RULES = {"rules": True}


def items(*, delegation=None):
    yield {"apiVersion": API, "kind": "LocalSchedulerPolicy", **local_policy(rules=ONLY_B)}
    yield {"apiVersion": API, "kind": "SchedulerPolicy", **delegating(delegation=delegation or RULES)}
    for name in "abc":
        yield {"apiVersion": "v1", "kind": "Node", **make_node(name, labels={"name": name})}


def test_a_dump_with_a_local_policy():
    options = LoadOptions(Features(), PLUGINS)
    answer = evaluate_pod(Snapshot(objects=[*items()]), ours("web", namespace="team-a"), options)
    assert answer["policy"] == {"name": "team-a/ours", "generation": 1}
    other = evaluate_pod(Snapshot(objects=[*items()]), ours("web", namespace="team-b"), options)
    assert other["policy"]["name"] == "gold"
    refused = evaluate_pod(
        Snapshot(objects=[*items(delegation={"maxRules": 5})]), ours("web", namespace="team-a"), options
    )
    assert refused["waitsForPolicy"] == {"name": "team-a/ours", "generation": 1}
    assert [each["name"] for each in refused["policiesNotAccepted"]] == ["team-a/ours"]


def test_a_snapshot_keeps_what_decides():
    kept = [redacted(raw["kind"], raw) for raw in items()]
    assert [raw["spec"] for raw in kept[:2]] == [raw["spec"] for raw in [*items()][:2]]
    assert load(Snapshot(objects=kept), LoadOptions()).refused == []


def test_a_snapshot_with_a_local_policy_and_another_delegation_in_a_trial():
    pod = {"apiVersion": "v1", "kind": "Pod", **ours("web", namespace="team-a")}
    cluster = load(Snapshot(objects=(*items(), pod), taken_at=1_700_000_000.0), LoadOptions())
    (waiting,) = cluster.pending.values()

    def decider():
        active = cluster.policy_for(waiting)
        return active.compiled.name, bool(active.refusal)

    assert decider() == ("team-a/ours", False)
    with Trial(cluster) as trial:
        trial.apply_policy(
            {"apiVersion": API, "kind": "SchedulerPolicy", **delegating(generation=2, delegation={"maxRules": 5})}
        )
        assert decider() == ("team-a/ours", True)
    assert decider() == ("team-a/ours", False)
