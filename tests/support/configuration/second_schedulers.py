"""Configuration files of schedulers that run beside the default one, as their authors write them: nothing in them is
for Podwright.
"""

from typing import Final

_GROUP: Final = "kubescheduler.config.k8s.io"

CUSTOM_SCHEDULER: Final = f"""
apiVersion: {_GROUP}/v1beta2
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: custom-scheduler
leaderElection:
  leaderElect: false
"""
COMPILED_SCHEDULER: Final = f"""
apiVersion: {_GROUP}/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: compiled-scheduler
leaderElection:
  leaderElect: false
"""
WITH_EXTENDER: Final = f"""
apiVersion: {_GROUP}/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: scheduler-with-extender
leaderElection:
  leaderElect: false
extenders:
- urlPrefix: "http://extender.kube-system.svc:8080"
  enableHTTPS: false
  filterVerb: "filter"
  prioritizeVerb: "prioritize"
  bindVerb: "bind"
  weight: 1
  nodeCacheCapable: false
"""
SAMPLE_SCHEDULER: Final = f"""
apiVersion: {_GROUP}/v1alpha1
kind: KubeSchedulerConfiguration
schedulerName: sample-scheduler
leaderElection: {{leaderElect: true, lockObjectName: sample-scheduler, lockObjectNamespace: kube-system}}
plugins:
  preFilter: {{enabled: [{{name: sample-plugin}}]}}
  filter: {{enabled: [{{name: sample-plugin}}]}}
  preBind: {{enabled: [{{name: sample-plugin}}]}}
pluginConfig:
- name: sample-plugin
  args: {{favorite_color: "#326CE5", favorite_number: 7, thanks_to: everybody}}
"""
