"""What /version, /api and /apis answer: the kinds table in the words of API discovery."""

from podwright.sandbox.kinds import Kind, Kinds, Obj

VERSION: Obj = {
    "major": "1",
    "minor": "37",
    "gitVersion": "v1.37.0+sandbox",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "none",
    "platform": "linux/amd64",
}
VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
SUBRESOURCE_KINDS = {  # name -> (kind, group, version, verbs)
    "binding": ("Binding", "", "v1", ["create"]),
    "eviction": ("Eviction", "policy", "v1", ["create"]),
    "scale": ("Scale", "autoscaling", "v1", ["get", "patch", "update"]),
}


def answer(kinds: Kinds, parts: list[str]) -> Obj | None:
    """The document for a path of up to three parts, or None where there is none."""
    match parts:
        case ["version"]:
            return VERSION
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["api", "v1"]:
            return _resources([kind for kind in kinds if not kind.group], "v1")
        case ["apis"]:
            groups = list(dict.fromkeys(kind.group for kind in kinds if kind.group))
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(kinds, name) for name in groups]}
        case ["apis", name] if any(kind.group == name for kind in kinds):
            return {"kind": "APIGroup", "apiVersion": "v1"} | _group(kinds, name)
        case ["apis", name, version]:
            found = [kind for kind in kinds if kind.group == name and kind.version == version]
            return _resources(found, f"{name}/{version}") if found else None
    return None


def _group(kinds: Kinds, name: str) -> Obj:
    versions = list(dict.fromkeys(kind.version for kind in kinds if kind.group == name))
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _resources(kinds: list[Kind], group_version: str) -> Obj:
    found = [resource for kind in kinds for resource in _of_kind(kind)]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": found}


def _of_kind(kind: Kind) -> list[Obj]:
    base: Obj = {"name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced, "kind": kind.kind}
    base["verbs"] = ["create"] if kind.post_only else VERBS
    if kind.short_names:
        base["shortNames"] = list(kind.short_names)
    if kind.categories:
        base["categories"] = list(kind.categories)
    found = [base]
    for name in sorted(kind.subresources):
        sub, group, version, verbs = SUBRESOURCE_KINDS.get(name, (kind.kind, "", "", ["get", "patch", "update"]))
        entry: Obj = {"name": f"{kind.plural}/{name}", "singularName": "", "namespaced": kind.namespaced, "kind": sub}
        found.append(entry | {"verbs": verbs} | ({"group": group, "version": version} if version else {}))
    return found
