"""A question about a running cluster, asked with the kubernetes package: its client, and its types. Run it where
kubectl works.
"""

from kubernetes import client, config

import podwright

cluster = podwright.Cluster.read(config.new_client_from_config())

resources = client.V1ResourceRequirements(requests={"cpu": "1"})
pod = client.V1Pod(
    metadata=client.V1ObjectMeta(name="one-more"),
    spec=client.V1PodSpec(containers=[client.V1Container(name="c", resources=resources)]),
)
for landing in podwright.simulate(cluster, pods=[pod]).landed:
    print(landing.pod, landing.node)
