"""A controller of pods on the real API server, as a ReplicaSet's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from podwright.testing import ControlPlane, pod
from support.control_plane import operator_process as kit


class Controller:
    """Creates a pod for each one that is missing, as a ReplicaSet does."""

    def __init__(self, cluster: ControlPlane, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.wanted: dict[str, int] = {}
        self.made = 0
        self.cpu = "1"
        """The CPU that its pods request."""

    def create(self, app: str, on: str = "") -> None:
        self.made += 1
        spec = {"nodeName": on} if on else {}
        raw = pod(
            f"{app}-{self.made}", self.namespace, scheduler="podwright", cpu=self.cpu, labels={"app": app},
            terminationGracePeriodSeconds=0, **spec,
        )  # fmt: skip
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": f"uid-{app}", "controller": True}
        raw["metadata"]["ownerReferences"] = [owner]
        self.cluster.client.create(raw)

    def runs(self, app: str, on: str) -> None:
        self.wanted[app] = self.wanted.get(app, 0) + 1
        self.create(app, on)

    def reconcile(self) -> None:
        there = [each["metadata"] for each in kit.pods(self.cluster, self.namespace)]
        for app, wanted in self.wanted.items():
            count = sum(
                each.get("labels", {}).get("app") == app and not each.get("deletionTimestamp") for each in there
            )
            for _ in range(wanted - count):
                self.create(app)

    @contextmanager
    def working(self) -> Iterator[None]:
        ended = threading.Event()

        def work() -> None:
            while not ended.wait(0.2):
                self.reconcile()
            self.cluster.client.close()  # the connection of this thread

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def nodes_of(self, app: str) -> list[str]:
        found = [
            each
            for each in kit.pods(self.cluster, self.namespace)
            if each["metadata"].get("labels", {}).get("app") == app
        ]
        return sorted(each["spec"].get("nodeName", "") for each in found)
