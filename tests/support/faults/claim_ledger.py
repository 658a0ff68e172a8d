"""Records from a watch of its own which claims had more of something than there was, however short, and which of them
got it later.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Self

from podwright.testing import ControlPlane
from support.control_plane import device_driver as dra
from support.faults.ledger import watched

PATH = f"{dra.GROUP}/resourceclaims"


class ClaimLedger:
    """Follows all claims while it is entered. The slices must not change meanwhile."""

    def __init__(self, cluster: ControlPlane) -> None:
        self._cluster = cluster
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="ledger of claims", daemon=True)
        self._slices = cluster.client.items(f"{dra.GROUP}/resourceslices")
        listed = cluster.client.request("GET", PATH)
        self._version = listed["metadata"]["resourceVersion"]
        self._claims: dict[str, dict[str, Any]] = {raw["metadata"]["uid"]: raw for raw in listed["items"]}
        self.later: dict[str, list[dra.Excess]] = {}
        """By uid of each claim that got something which was taken: what it was."""
        self.names: dict[str, str] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(5)

    def _follow(self) -> None:
        while not self._stop.is_set():
            with suppress(OSError, http.client.HTTPException, json.JSONDecodeError):
                for event in watched(self._cluster, PATH, self._version):
                    assert event["type"] != "ERROR", event
                    raw = event["object"]
                    self._version = raw["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        self._record(event["type"], raw)

    def _record(self, kind: str, raw: Mapping[str, Any]) -> None:
        uid = raw["metadata"]["uid"]
        before = self._claims.pop(uid, {})
        if kind == "DELETED":
            return
        self._claims[uid] = dict(raw)
        self.names[uid] = raw["metadata"]["name"]
        if dra.results_of(raw) and dra.results_of(raw) != dra.results_of(before):
            found = dra.excesses(self._claims.values(), self._slices)
            if taken := [what for what, uids in found.items() if uid in uids]:
                self.later.setdefault(uid, []).extend(taken)
