"""The responses of /version, /api, /apis and /openapi/v3: the served kinds in the format of API discovery.

The OpenAPI documents contain only what kubectl needs: the parameter `fieldValidation`, which makes it leave validation
to the server, and the schemas of custom kinds for `kubectl explain`.
"""

from podwright.sandbox.kinds import Kind, Kinds, Obj

VERSION: Obj = {"major": "1", "minor": "37", "gitVersion": "v1.37.2+sandbox", "platform": "linux/amd64"}
VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
SUBRESOURCES = {  # name -> (kind, group, version, verbs)
    "binding": ("Binding", "", "v1", ["create"]),
    "eviction": ("Eviction", "policy", "v1", ["create"]),
    "scale": ("Scale", "autoscaling", "v1", ["get", "patch", "update"]),
}


def answer(kinds: Kinds, parts: list[str]) -> Obj | None:
    """The document at a path, or None."""
    match parts:
        case ["version"]:
            return VERSION
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["apis"]:
            names = dict.fromkeys(kind.group for kind in kinds if kind.group)
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(kinds, name) for name in names]}
        case ["apis", name] if any(kind.group == name for kind in kinds):
            return {"kind": "APIGroup", "apiVersion": "v1"} | _group(kinds, name)
        case ["api", _] | ["apis", _, _]:
            found = [kind for kind in kinds if kind.api_version == "/".join(parts[1:])]
            resources = [resource for kind in found for resource in _resources(kind)]
            head = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "/".join(parts[1:])}
            return head | {"resources": resources} if found else None
        case ["openapi", "v3"]:
            paths = dict.fromkeys(_root(kind) for kind in kinds)
            return {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}"} for path in paths}}
        case ["openapi", "v3", *rest]:
            return _openapi([kind for kind in kinds if _root(kind) == "/".join(rest)])
    return None


def _root(kind: Kind) -> str:
    return f"apis/{kind.api_version}" if kind.group else "api/v1"


def _group(kinds: Kinds, name: str) -> Obj:
    versions = dict.fromkeys(kind.version for kind in kinds if kind.group == name)
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _resources(kind: Kind) -> list[Obj]:
    base: Obj = {"name": kind.plural, "singularName": kind.kind.lower(), "namespaced": kind.namespaced}
    base |= {"kind": kind.kind, "verbs": ["create"] if kind.post_only else VERBS}
    base |= {"shortNames": list(kind.short_names)} if kind.short_names else {}
    found = [base | ({"categories": list(kind.categories)} if kind.categories else {})]
    for name in sorted(kind.subresources):
        sub, group, version, verbs = SUBRESOURCES.get(name, (kind.kind, "", "", ["get", "patch", "update"]))
        entry = {"name": f"{kind.plural}/{name}", "singularName": "", "namespaced": kind.namespaced, "kind": sub}
        found.append(entry | {"verbs": verbs} | ({"group": group, "version": version} if version else {}))
    return found


def _openapi(kinds: list[Kind]) -> Obj:
    paths: Obj = {}
    schemas: Obj = {}
    for kind in kinds:
        gvk = {"group": kind.group, "version": kind.version, "kind": kind.kind}
        path = f"/{_root(kind)}{'/namespaces/{namespace}' if kind.namespaced else ''}/{kind.plural}"
        write = {"parameters": [{"name": "fieldValidation", "in": "query"}], "x-kubernetes-group-version-kind": gvk}
        paths |= {path: {"post": write, "get": write}, f"{path}/{{name}}": {"patch": write, "put": write}}
        schema = (kind.crd or {}).get("schema", {}).get("openAPIV3Schema", {"type": "object"})
        schemas[f"{kind.version}.{kind.kind}"] = schema | {"x-kubernetes-group-version-kind": [gvk]}
    info = {"title": "podwright sandbox", "version": VERSION["gitVersion"]}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}}
