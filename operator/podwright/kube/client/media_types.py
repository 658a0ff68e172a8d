"""The media types of requests and responses."""

from __future__ import annotations

from typing import Final

JSON: Final = "application/json"
JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
"""For objects as JSON, too, which is YAML."""
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
METADATA_LIST: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
"""The Accept header for a list of which only the objects' metadata is needed."""
METADATA: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
"""The Accept header for the metadata of one object."""
