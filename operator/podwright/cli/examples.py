"""The examples at the end of each command's help. A test parses each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

EXAMPLES: Final[Mapping[str, Sequence[str]]] = {
    "admission-check": ("admission-check --leader-elect --hold 5m",),
    "convert": ("convert kube-scheduler.yaml | kubectl apply -f -",),
    "convert-manifest": ("convert-manifest kube-scheduler.yaml --image registry.example/podwright:0.1.0",),
    "demo": ("demo", "demo --plain"),
    "evaluate": ("evaluate --pod pod.yaml cluster.json", "evaluate --check cases.jsonl.gz"),
    "explain": (
        "explain pod/web-0 -n shop",
        "explain deploy web",
        "explain pods -A -l app=web",
        "explain pod web-0 cluster.json.gz",
    ),
    "extender": ("extender --address 127.0.0.1:8888",),
    "kube-scheduler": ("kube-scheduler --kubeconfig scheduler.conf --v=2",),
    "plugin new": ("plugin new TeamNodes", "plugin new TeamNodes --filter --score --vector"),
    "plugin test": ("plugin test team-nodes",),
    "policy diff": ("policy diff --new policy.yaml", "policy diff --new policy.yaml cluster.json.gz -o json"),
    "policy lint": ("policy lint policy.yaml", "policy lint policy.yaml -o sarif"),
    "policy test": ("policy test test_policies.yaml",),
    "queues": ("queues", "queues cluster.json.gz --resource nvidia.com/gpu"),
    "rebalance plan": ("rebalance plan", "rebalance plan --policy rebalance.yaml cluster.json.gz"),
    "rebalance stop": ("rebalance stop",),
    "record": ("record -o day.jsonl.gz --seconds 86400",),
    "replay": ("replay day.jsonl.gz --policy built-in --policy pack.yaml",),
    "run": ("run --kubeconfig scheduler.conf", "run --scheduler-name team-scheduler --plugin-dir plugins"),
    "shadow report": ("shadow report --operator https://10.0.0.7:10259",),
    "simulate": (
        "simulate --drain node-3",
        "simulate cluster.json.gz --add-nodes 10 --like node-3 --scale deploy/web=50",
        "simulate cluster.json.gz --each-node drain",
    ),
    "snapshot": ("snapshot -o cluster.json.gz",),
}
"""By command: what follows `podwright` on the command line."""
