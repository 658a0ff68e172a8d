"""A Lease of coordination.k8s.io/v1, as leader election uses it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final

import orjson

from podwright.core.objects.dataclass import dataclass
from podwright.kube.client.errors import ApiError, is_not_found
from podwright.kube.client.http import Http
from podwright.kube.client.object_metadata import resource_version

API_VERSION: Final = "coordination.k8s.io/v1"
_COLLECTION: Final = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """The content of a Lease. An empty holder means that the last one released it. `raw` is the whole object."""

    holder: str
    seconds: float
    transitions: int
    version: int
    raw: Mapping[str, Any]

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> LeaseRecord:
        """Raises KeyError, TypeError or ValueError for an object that is not a Lease."""
        spec = raw.get("spec") or {}
        return cls(
            str(spec.get("holderIdentity") or ""),
            float(spec.get("leaseDurationSeconds") or 0),
            int(spec.get("leaseTransitions") or 0),
            resource_version(raw),
            raw,
        )


class Lease:
    """Reads and writes one Lease. All methods raise ApiError and UnreachableError."""

    def __init__(self, http: Http, namespace: str, name: str) -> None:
        self.namespace, self.name = namespace, name
        self._http = http
        self._collection = _COLLECTION.format(namespace)
        self._path = f"{self._collection}/{name}"

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    async def read(self) -> LeaseRecord | None:
        """Returns None if the Lease does not exist."""
        try:
            return _parse(await self._http.call("GET", self._path))
        except ApiError as error:
            if is_not_found(error):
                return None
            raise

    async def write(self, spec: Mapping[str, Any], earlier: LeaseRecord | None) -> LeaseRecord:
        """Creates the Lease, or replaces the spec of `earlier`. Fails with 409 if someone else has written
        meanwhile.
        """
        if earlier is None:
            metadata = {"name": self.name, "namespace": self.namespace}
            raw = {"apiVersion": API_VERSION, "kind": "Lease", "metadata": metadata, "spec": dict(spec)}
            return _parse(await self._http.call("POST", self._collection, raw))
        raw = {**earlier.raw, "spec": {**(earlier.raw.get("spec") or {}), **spec}}
        return _parse(await self._http.call("PUT", self._path, raw))

    async def changes(self, since: LeaseRecord | None, seconds: float) -> AsyncGenerator[LeaseRecord | None]:
        """Yields each state after `since`, for about this many seconds; None when the Lease is deleted."""
        params = {
            "watch": "1",
            "fieldSelector": f"metadata.name={self.name}",
            "timeoutSeconds": str(max(1, int(seconds + 1))),
        }
        if since is not None:
            params["resourceVersion"] = str(since.version)
        async with self._http.stream(self._collection, params) as response:
            async for line in response.content:
                event = orjson.loads(line)
                if event.get("type") == "ERROR":
                    status = event.get("object") or {}
                    raise ApiError(
                        int(status.get("code") or 500), str(status.get("reason")), str(status.get("message"))
                    )
                yield None if event.get("type") == "DELETED" else _parse(event["object"])


def _parse(raw: object) -> LeaseRecord:
    try:
        return LeaseRecord.of(raw)  # type: ignore[arg-type]  # anything else is an error below
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ApiError(500, "InvalidLease", f"the Lease cannot be read: {error!r}") from error
