"""Reads pods that have a node from their JSON text, without parsing the specs of known templates.

The pods of one template have equal specs, except for the node and for the suffix of the token's volume. So the text of
a spec, without these, is looked up among the specs that were parsed before, and only metadata and status are parsed.
Managed fields are skipped. That takes a third of the time of parsing the whole.

The API server writes the name first, and then metadata, spec and status in this order. A text is cut only between
values of which each is complete: those that are parsed, and the spec, which equals a parsed one. Of any other text,
such as one in another order, nothing is assumed: it is parsed as a whole.
"""

from __future__ import annotations

import re
from typing import Final

import orjson

from podwright.core.objects.pod import SPEC_CACHE, ParsedSpec, PodText, spec_key, spec_of

START: Final = b'{"metadata":{"name":"'
"""How the text of a pod in a list begins."""
_METADATA: Final = len(b'{"metadata":')
_SPEC: Final = b',"spec":{'
_STATUS: Final = b'},"status":{'
_MANAGED: Final = b',"managedFields":['
_NODE: Final = re.compile(rb',"nodeName":"([^"\\]+)"')


def read_pod(text: bytes) -> PodText | None:
    """The pod; None if its text is not in the expected order, or something in it is wrong. `text` begins with START."""
    spec_at = text.find(_SPEC)
    status_at = text.find(_STATUS, spec_at)
    node = _NODE.search(text, spec_at, status_at)
    if spec_at < 0 or node is None:
        return None
    managed_at = text.find(_MANAGED, 0, spec_at)
    if managed_at < 0:
        metadata_text = text[_METADATA:spec_at]
    elif text.endswith(b"]}", managed_at, spec_at) and text.find(b'],"', managed_at, spec_at) < 0:
        metadata_text = text[_METADATA:managed_at] + b"}"
    else:
        return None  # something follows the managed fields
    own = text[spec_at + len(_SPEC) - 1 : node.start()] + text[node.end() : status_at + 1]
    try:
        metadata = orjson.loads(metadata_text)
        status = orjson.loads(text[status_at + len(_STATUS) - 1 : -1])
        spec = _known_spec(own, metadata["namespace"])
    except Exception:  # noqa: BLE001 -- whoever parses the whole says what is wrong
        return None
    return PodText(text, metadata, status, spec, node[1].decode())


def _known_spec(text: bytes, namespace: str) -> ParsedSpec:
    """Also by the server's own text, which differs from ours where it escapes a character that need not be."""
    key = spec_key(text, namespace)
    spec = SPEC_CACHE.get(key)
    if spec is None:
        spec = spec_of(orjson.loads(text), namespace)
        if not spec.volumes and SPEC_CACHE.get(key) is None:
            SPEC_CACHE.put(key, spec, len(key))
    return spec
