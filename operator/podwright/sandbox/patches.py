"""JSON merge patch (RFC 7386), JSON patch (RFC 6902) and strategic merge patch. None of them changes its target.

Strategic merge patch has the merge keys of Pods, Nodes, Services and the workload kinds, by field name. It replaces
all other lists, as the API server does for lists without a patch strategy. It supports the directives `$patch`,
`$retainKeys`, `$setElementOrder/…` and `$deleteFromPrimitiveList/…`.
"""

from typing import Any

import jsonpatch

from podwright.sandbox.errors import StatusError, bad_request

BY_NAME = (
    "containers initContainers ephemeralContainers env imagePullSecrets resourceClaims resourceClaimStatuses"
    " schedulingGates secrets volumes volumesAttached"
)
MERGE_KEYS = dict.fromkeys(BY_NAME.split(), "name") | dict.fromkeys(("addresses", "conditions"), "type")
MERGE_KEYS |= {"hostAliases": "ip", "hostIPs": "ip", "podIPs": "ip", "ownerReferences": "uid", "ports": "containerPort"}
MERGE_KEYS |= {"topologySpreadConstraints": "topologyKey", "volumeDevices": "devicePath", "volumeMounts": "mountPath"}
PRIMITIVE_LISTS = ("finalizers", "podCIDRs")


def merge(target: Any, patch: Any) -> Any:
    """Applies a JSON merge patch (RFC 7386), and returns the result."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def json_patch(target: Any, operations: Any) -> Any:
    """Raises ApiError 422 for an operation that cannot be applied, as the API server does."""
    try:
        return jsonpatch.apply_patch(target, operations)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError, ValueError) as error:
        raise StatusError(422, "Invalid", f"the server rejected our request: {error}") from error


def strategic(target: Any, patch: Any, kind: str = "") -> Any:
    """Merges `patch` into `target`. `kind` is the object's kind: a Service's ports merge by `port`, a container's by
    `containerPort`.
    """
    if not isinstance(patch, dict):
        return patch
    directive = patch.get("$patch")
    result = {} if directive in ("replace", "delete") or not isinstance(target, dict) else dict(target)
    if directive == "delete":
        return result
    if (retained := patch.get("$retainKeys")) is not None:
        result = {key: value for key, value in result.items() if key in retained}
    for key, value in patch.items():
        verb, _, name = key.partition("/")
        if verb == "$deleteFromPrimitiveList":
            result[name] = [item for item in result.get(name) or [] if item not in value]
        elif key.startswith("$"):
            continue
        elif value is None:
            result.pop(key, None)
        elif isinstance(value, list):
            merged = _merge_list(key, result.get(key) or [], value, kind)
            result[key] = _in_order(merged, patch.get(f"$setElementOrder/{key}"), _merge_key(key, kind))
        else:
            result[key] = strategic(result.get(key), value, kind)
    return result


def _merge_key(field: str, kind: str) -> str | None:
    return "port" if field == "ports" and kind == "Service" else MERGE_KEYS.get(field)


def _merge_list(field: str, current: list[Any], patch: list[Any], kind: str) -> list[Any]:
    if field in PRIMITIVE_LISTS:
        return [*current, *(item for item in patch if item not in current)]
    key = _merge_key(field, kind)
    if key is None or {"$patch": "replace"} in patch:
        return [strategic(None, item, kind) for item in patch if item != {"$patch": "replace"}]
    result = list(current)
    for item in patch:
        if key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {key}")
        found = next((index for index, old in enumerate(result) if old.get(key) == item[key]), None)
        if item.get("$patch") == "delete":
            result = [old for old in result if old.get(key) != item[key]]
        elif found is None:
            result.append(strategic(None, item, kind))
        else:
            result[found] = strategic(result[found], item, kind)
    return result


def _in_order(items: list[Any], order: list[Any] | None, key: str | None) -> list[Any]:
    """The items with the listed items first, in the order of `order`."""
    wanted = [item[key] for item in order or ()] if key else order or []
    values = [item.get(key) if key else item for item in items]
    ranks = [wanted.index(value) if value in wanted else len(wanted) for value in values]
    return [item for _, item in sorted(zip(ranks, items, strict=True), key=lambda pair: pair[0])]
