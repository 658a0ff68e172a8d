"""Workloads with quota, as objects."""

from __future__ import annotations

from podwright.kueue.workload import Workload


def workload(*pod_sets, assignments=None, checks=(), **spec):
    given = [{"name": each["name"], **((assignments or {}).get(each["name"], {}))} for each in pod_sets]
    return Workload(
        {
            "metadata": {"namespace": "team", "name": "train", "uid": "u", "resourceVersion": "7"},
            "spec": {"queueName": "local", "podSets": [*pod_sets], **spec},
            "status": {
                "admission": {"clusterQueue": "queue", "podSetAssignments": given},
                "admissionChecks": [*checks],
            },
        }
    )
