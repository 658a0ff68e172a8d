"""A thousand policies, most of which match no pod: each pod is decided under its own, and one that is invalid changes
nothing for the others.
"""

from __future__ import annotations

import pytest

from support.engine.kit import Rig, deciding, ours, settle
from support.policies.policy_sets import policy


def selecting(name, value, **spec):
    match = {"podSelector": {"matchLabels": {"team": value}}}
    return policy(name, {"schedulerName": "podwright", "match": match, "precedence": 1, **spec}, uid=f"u-{name}")


@pytest.mark.slow
async def test_a_pod_is_decided_under_its_own_of_a_thousand_policies_and_others_as_without_them():
    rig = Rig()
    rig.node("a", allocatable={"cpu": "10", "pods": "100"})
    apply = rig.engine.policies.apply
    rules = {"filters": [{"name": "red", "expression": "node.name == 'b'", "message": "node(s) were not b"}]}
    for number in range(1_000):
        assert apply(selecting(f"p{number}", f"t{number}", **({"rules": rules} if number == 777 else {}))).accepted
    refused = apply(
        selecting("broken", "t5", precedence=2, rules={"filters": [{"name": "x", "expression": "pod.nope"}]})
    )
    assert "spec.rules.filters[0].expression: line 1, column 4: undefined field 'nope'" in refused.message
    async with deciding(rig):
        for name, team in (("own", "t42"), ("bounded", "t777"), ("broken", "t5"), ("free", "nobody")):
            rig.engine.pending.put(ours(name, labels={"team": team}))
        await settle()
        assert sorted(name for name, _ in rig.cluster.bound) == ["free", "own"]
        decided = {name: text for (name, _), text in zip(rig.cluster.bound, rig.cluster.annotations, strict=True)}
        assert '"policy":"p42"' in decided["own"]["podwright.dev/decision"].replace(" ", "")
        assert "built-in-default" in decided["free"]["podwright.dev/decision"]
        notes = {name: note for name, reason, note in rig.recorder.events if reason == "FailedScheduling"}
        assert "node(s) were not b" in notes["bounded"]
        assert "policy broken, generation 1, was not accepted" in notes["broken"]
        for number in range(1_000):
            rig.engine.policies.remove(f"p{number}")
        rig.engine.policies.remove("broken")
        rig.engine.policies_changed()
        await settle()
        assert len(rig.cluster.bound) == 4
        assert len(rig.engine.policies.built) == 1, "nothing is kept of them"
