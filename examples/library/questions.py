"""Questions about a cluster, asked with the library. Run it in a checkout."""

import podwright

PACK = """
apiVersion: podwright.dev/v1alpha1
kind: SchedulerPolicy
metadata: {name: pack}
spec: {schedulerName: podwright, strategy: {type: MostAllocated}}
"""

cluster = podwright.Cluster.read("examples/explain/cluster.yaml")
print(cluster.nodes, cluster.pending)

found = podwright.explain(cluster, "pod/web-0", namespace="shop")
print(found.cause.text)
for change in found.changes:
    print(f"{change.of}: {change.text} -> {change.node}")

result = podwright.simulate(cluster, add_nodes={"node-1": 2}, drain=["node-2"])
for landing in result.landed:
    print(landing.pod, landing.node)

policy = podwright.Policy.parse(PACK)
print(policy.problem(cluster) or f"{policy.name} would be accepted")
packed = podwright.simulate(cluster.with_policies(policy), add_nodes={"node-1": 1})
print(packed.landed[0].policy)
