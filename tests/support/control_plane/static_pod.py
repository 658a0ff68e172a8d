"""The static pod of kube-scheduler that kubeadm writes."""

from typing import Final

STATIC_POD: Final = """
apiVersion: v1
kind: Pod
metadata:
  labels: {component: kube-scheduler, tier: control-plane}
  name: kube-scheduler
  namespace: kube-system
spec:
  containers:
  - command:
    - kube-scheduler
    - --authentication-kubeconfig=/etc/kubernetes/scheduler.conf
    - --authorization-kubeconfig=/etc/kubernetes/scheduler.conf
    - --bind-address=127.0.0.1
    - --kubeconfig=/etc/kubernetes/scheduler.conf
    - --leader-elect=true
    image: registry.k8s.io/kube-scheduler:v1.37.2
    imagePullPolicy: IfNotPresent
    livenessProbe:
      failureThreshold: 8
      httpGet: {host: 127.0.0.1, path: /livez, port: probe-port, scheme: HTTPS}
      initialDelaySeconds: 10
      periodSeconds: 10
      timeoutSeconds: 15
    name: kube-scheduler
    ports:
    - {containerPort: 10259, name: probe-port, protocol: TCP}
    readinessProbe:
      failureThreshold: 3
      httpGet: {host: 127.0.0.1, path: /readyz, port: probe-port, scheme: HTTPS}
      periodSeconds: 1
      timeoutSeconds: 15
    resources: {requests: {cpu: 100m}}
    startupProbe:
      failureThreshold: 24
      httpGet: {host: 127.0.0.1, path: /livez, port: probe-port, scheme: HTTPS}
      initialDelaySeconds: 10
      periodSeconds: 10
      timeoutSeconds: 15
    volumeMounts:
    - {mountPath: /etc/kubernetes/scheduler.conf, name: kubeconfig, readOnly: true}
  hostNetwork: true
  priority: 2000001000
  priorityClassName: system-node-critical
  securityContext: {seccompProfile: {type: RuntimeDefault}}
  volumes:
  - hostPath: {path: /etc/kubernetes/scheduler.conf, type: FileOrCreate}
    name: kubeconfig
"""
"""As kubeadm 1.37 writes /etc/kubernetes/manifests/kube-scheduler.yaml without extra arguments."""
