"""Answers compared with kube-scheduler's."""

from podwright.simulator.evaluations.comparison import differences


def test_any_listed_message_node_and_alternative_agrees():
    candidates = {"n": {"victims": ["d/a"], "pdbViolations": 0, "alternatives": [["d/b"]]}}
    theirs = {
        "message": "x",
        "messages": ["x", "y"],
        "preemption": {"status": {"code": "Success"}, "nominatedNode": "n", "acceptable": ["m", "n"], "ambiguous": True, "candidates": candidates},
    }  # fmt: skip
    ours = {
        "message": "y",
        "preemption": {"status": {"code": "Success"}, "nominatedNode": "n", "victims": ["d/b"], "candidates": {"n": {"victims": ["d/b"], "pdbViolations": 0}}},
    }  # fmt: skip
    assert not list(differences({"expect": ours}, {"expect": theirs}))
    ours["preemption"]["victims"] = ["d/c"]
    assert list(differences({"expect": ours}, {"expect": theirs}))
