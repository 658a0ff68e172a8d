"""The three patches: JSON merge patch (RFC 7386), JSON patch (RFC 6902), strategic merge patch.

Each takes a target that it may change and returns the result. The strategic merge patch knows the merge keys of Pods
and what they contain, Nodes, Services and the workload kinds by field name; other lists are replaced, as lists without
a patch strategy are. Its directives: `$patch`, `$retainKeys`, `$setElementOrder/…`, `$deleteFromPrimitiveList/…`.
"""

from typing import Any

from podwright.sandbox.errors import ApiError, bad_request
from podwright.sandbox.kinds import Obj

MERGE_KEYS = {
    "addresses": "type",
    "conditions": "type",
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "env": "name",
    "hostAliases": "ip",
    "hostIPs": "ip",
    "imagePullSecrets": "name",
    "ownerReferences": "uid",
    "podIPs": "ip",
    "ports": "containerPort",
    "resourceClaims": "name",
    "resourceClaimStatuses": "name",
    "schedulingGates": "name",
    "secrets": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
    "volumesAttached": "name",
}
PRIMITIVE_LISTS = {"finalizers", "podCIDRs"}


def merge(target: Any, patch: Any) -> Any:
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
    """Raises ApiError 422 for an operation that does not apply, as the API server does; 400 for no list."""
    if not isinstance(operations, list):
        raise bad_request("a JSON patch is a list of operations")
    root = {"": target}
    for operation in operations:
        try:
            _apply(root, operation)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise ApiError(
                422, "Invalid", f"the JSON patch operation does not apply: {operation}: {error!r}"
            ) from error
    return root[""]


def _apply(root: Obj, operation: Obj) -> None:
    name, path = operation["op"], operation["path"]
    if name == "remove":
        _take(root, path)
    elif name == "test":
        if _get(root, path) != operation["value"]:
            raise ValueError("test failed")
    elif name == "replace":
        _get(root, path)
        _put(root, path, operation["value"], insert=False)
    elif name == "add":
        _put(root, path, operation["value"], insert=True)
    elif name in ("copy", "move"):
        value = _get(root, operation["from"]) if name == "copy" else _take(root, operation["from"])
        _put(root, path, value, insert=True)
    else:
        raise ValueError("unknown operation")


def _steps(path: str) -> list[str]:
    if path and not path.startswith("/"):
        raise ValueError("a path starts with /")
    return ["", *(step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:])]


def _get(root: Any, path: str) -> Any:
    for step in _steps(path):
        root = root[int(step) if isinstance(root, list) else step]
    return root


def _parent(root: Any, path: str) -> tuple[Any, str]:
    *head, last = _steps(path)
    for step in head:
        root = root[int(step) if isinstance(root, list) else step]
    return root, last


def _put(root: Obj, path: str, value: Any, *, insert: bool) -> None:
    parent, last = _parent(root, path)
    if not isinstance(parent, list):
        parent[last] = value
    elif last == "-":
        parent.append(value)
    elif not insert:
        parent[int(last)] = value
    elif int(last) > len(parent):
        raise IndexError(last)
    else:
        parent.insert(int(last), value)


def _take(root: Obj, path: str) -> Any:
    parent, last = _parent(root, path)
    return parent.pop(int(last) if isinstance(parent, list) else last)


def strategic(target: Any, patch: Any, kind: str = "") -> Any:
    """`kind` is the object's kind: a Service's ports merge by `port`, a container's by `containerPort`."""
    if not isinstance(patch, dict):
        return patch
    directive = patch.get("$patch")
    result = {} if directive in ("replace", "delete") or not isinstance(target, dict) else dict(target)
    if directive == "delete":
        return result
    if (retained := patch.get("$retainKeys")) is not None:
        result = {key: value for key, value in result.items() if key in retained}
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            name = key.partition("/")[2]
            result[name] = [item for item in result.get(name) or [] if item not in value]
        if key.startswith("$"):
            continue
        if value is None:
            result.pop(key, None)
        elif isinstance(value, list):
            result[key] = _merge_list(key, result.get(key) or [], value, kind)
        else:
            result[key] = strategic(result.get(key), value, kind)
    for key, order in patch.items():
        name = key.partition("/")[2]
        if key.startswith("$setElementOrder/") and name in result:
            result[name] = _in_order(result[name], order, _merge_key(name, kind))
    return result


def _merge_key(field: str, kind: str) -> str | None:
    return "port" if field == "ports" and kind == "Service" else MERGE_KEYS.get(field)


def _merge_list(field: str, current: list[Any], patch: list[Any], kind: str) -> list[Any]:
    if field in PRIMITIVE_LISTS:
        return [*current, *(item for item in patch if item not in current)]
    key = _merge_key(field, kind)
    items = [item for item in patch if not (isinstance(item, dict) and item.keys() == {"$patch"})]
    if key is None or len(items) < len(patch):
        return [strategic(None, item, kind) for item in items]
    result = list(current)
    for item in items:
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


def _in_order(items: list[Any], order: list[Any], key: str | None) -> list[Any]:
    """Those that `order` names take the places of those named, in its order; the others stay where they are."""
    wanted = [item[key] for item in order] if key else order

    def rank(item: Any) -> int | None:
        value = item.get(key) if key else item
        return wanted.index(value) if value in wanted else None

    named = iter(sorted((item for item in items if rank(item) is not None), key=lambda item: rank(item) or 0))
    return [item if rank(item) is None else next(named) for item in items]
