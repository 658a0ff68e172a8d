"""Counts the requests that the API server has answered, from its metrics."""

import re
from dataclasses import dataclass

from benchmarks.http_client import Api

_SAMPLE = re.compile(r"^apiserver_request_total\{(.*)\} ([0-9.e+]+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_RESOURCES = frozenset({"pods", "events", "podgroups", "resourceclaims"})


@dataclass(frozen=True, slots=True)
class RequestCounts:
    """Requests by verb and resource, with the subresource (`pods/binding`)."""

    counts: dict[tuple[str, str], float]

    def minus(self, earlier: "RequestCounts") -> "RequestCounts":
        return RequestCounts({key: count - earlier.counts.get(key, 0.0) for key, count in self.counts.items()})

    def of_schedulers(self) -> float:
        """The requests that schedulers make per pod: writes to pods, events and claims, and reads of single pods."""
        return sum(
            count
            for (verb, resource), count in self.counts.items()
            if (verb in _WRITES and resource.split("/")[0] in _RESOURCES) or (verb, resource) == ("GET", "pods")
        )


async def read_request_counts(api: Api) -> RequestCounts:
    counts: dict[tuple[str, str], float] = {}
    for labels, value in _SAMPLE.findall(await api.text("/metrics")):
        label = dict(_LABEL.findall(labels))
        resource = label.get("resource", "") + (f"/{label['subresource']}" if label.get("subresource") else "")
        key = (label.get("verb", ""), resource)
        counts[key] = counts.get(key, 0.0) + float(value)
    return RequestCounts(counts)
