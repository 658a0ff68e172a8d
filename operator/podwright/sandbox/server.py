"""HTTP: maps paths to kinds, verbs to methods of `SandboxCluster`, and errors to Status objects.

To be fast enough for load tests, it uses aiohttp's low-level server without router and middlewares, and encodes each
object only once.
"""

from collections import OrderedDict
from typing import Any

import orjson
import yaml
from aiohttp import web

from podwright.core.objects.dataclass import dataclass
from podwright.sandbox import discovery, patches, pod_subresources, tables
from podwright.sandbox.cluster import SandboxCluster, WriteOptions
from podwright.sandbox.errors import StatusError, bad_request, unsupported_media
from podwright.sandbox.kinds import Kind, Obj
from podwright.sandbox.selectors import ListSelection, selection
from podwright.sandbox.store import Key, Revision
from podwright.sandbox.watch_stream import Watch

BODY_LIMIT = 3 * 1024 * 1024
SNAPSHOTS = 64  # paged lists that can be continued
HEALTH = ("/healthz", "/livez", "/readyz")
NO_SUCH_PATH = StatusError(404, "NotFound", "the server could not find the requested resource")
NOT_ALLOWED = StatusError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
SUCCESS: Obj = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """The target of a request. `name` is empty for a collection; `options` come from the query string."""

    kind: Kind
    namespace: str
    name: str
    sub: str
    options: WriteOptions

    @property
    def key(self) -> Key:
        return self.namespace, self.name


class SandboxServer:
    """Answers requests on a `SandboxCluster`; `close` ends all watches."""

    def __init__(self, cluster: SandboxCluster) -> None:
        self.cluster = cluster
        self._snapshots: OrderedDict[str, tuple[int, list[Revision]]] = OrderedDict()
        self._watches: set[Watch] = set()
        self._verbs = {"POST": self._post, "PUT": self._put, "PATCH": self._patch, "DELETE": self._delete}

    def close(self) -> None:
        for watch in tuple(self._watches):
            watch.end()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._answer(request)
        except StatusError as error:
            return _json(error.status(), error.code, {"Retry-After": "1"} if error.code == 429 else None)
        except web.HTTPRequestEntityTooLarge:
            return _json(StatusError(413, "RequestEntityTooLarge", f"limit is {BODY_LIMIT}").status(), 413)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            # Built-in kinds have no schema here, so objects of the wrong shape fail only during processing.
            return _json(bad_request(f"cannot be handled: {error!r}").status(), 400)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path.startswith(HEALTH):
            return web.Response(text="ok")
        parts = request.path.strip("/").split("/")
        if (found := discovery.answer(self.cluster.kinds, parts)) is not None:
            return _json(found)
        target = self._target(request, parts)
        if request.method == "GET":
            if target.name:
                return self._entry(request, target, self.cluster.get(target.kind, *target.key))
            watching = request.query.get("watch") in ("true", "1")
            return await self._watch(request, target) if watching else self._list(request, target)
        body = await request.read()
        if request.method not in self._verbs or (not target.name and request.method in ("PUT", "PATCH")):
            raise NOT_ALLOWED
        return self._verbs[request.method](request, target, body)

    def _target(self, request: web.BaseRequest, parts: list[str]) -> RequestTarget:
        if len(parts) < 3 or parts[0] not in ("api", "apis"):
            raise NO_SUCH_PATH
        group, version, *rest = parts[1:] if parts[0] == "apis" else ["", *parts[1:]]
        namespace = ""
        if rest[:1] == ["namespaces"] and len(rest) > 2 and rest[2] not in ("status", "finalize"):
            namespace, rest = rest[1], rest[2:]
        kind = self.cluster.kinds.find(group, version, rest[0]) if 1 <= len(rest) <= 3 else None
        if kind is None or (namespace and not kind.namespaced):
            raise NO_SUCH_PATH
        name, sub, *_ = [*rest[1:], "", ""]
        if sub and sub not in kind.subresources:
            raise NO_SUCH_PATH
        query = request.query
        options = WriteOptions(query.get("dryRun") == "All", query.get("fieldValidation") == "Strict")
        return RequestTarget(kind=kind, namespace=namespace, name=name, sub=sub, options=options)

    def _entry(self, request: web.BaseRequest, target: RequestTarget, entry: Revision, code: int = 200) -> web.Response:
        if target.sub == "scale":
            return _json(_scale(entry), code)
        if "as=Table" in request.headers.get("Accept", ""):
            metadata, include = {"resourceVersion": str(entry.rv)}, request.query.get("includeObject", "")
            return _json(tables.table(target.kind, [entry], metadata, include), code)
        return _bytes(target.kind.encode(entry.obj, entry.data), code)

    def _list(self, request: web.BaseRequest, target: RequestTarget) -> web.Response:
        query, kind, store = request.query, target.kind, self.cluster.store
        chosen = _selection(request, target)
        token, _, start = query.get("continue", "").partition("-")
        if token and token not in self._snapshots:
            message = "The provided continue parameter is too old to display a consistent list result."
            raise StatusError(410, "Expired", message)
        rv, entries = self._snapshots[token] if token else (store.rv, store[kind.stored].select(chosen))
        limit, offset = int(query.get("limit") or 0), int(start or 0)
        page = entries[offset : offset + limit] if limit else entries[offset:]
        left = len(entries) - offset - len(page)
        metadata: Obj = {"resourceVersion": str(rv)}
        if left:
            metadata["continue"] = f"{token or self._keep_snapshot(rv, entries)}-{offset + len(page)}"
            if not query.get("labelSelector") and not query.get("fieldSelector"):
                metadata["remainingItemCount"] = left
        if "as=Table" in request.headers.get("Accept", ""):
            return _json(tables.table(kind, page, metadata, query.get("includeObject", "")))
        # Items of built-in lists carry no kind and apiVersion.
        raw = not kind.crd and not kind.renamed
        items = [entry.data if raw else kind.encode(entry.obj, entry.data) for entry in page]
        head = orjson.dumps({"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": metadata})
        return _bytes(b'%b,"items":[%b]}' % (head[:-1], b",".join(items)))

    def _keep_snapshot(self, rv: int, entries: list[Revision]) -> str:
        """Keeps a list for its further pages, and returns its token. Entries are immutable, so the list is a
        snapshot.
        """
        token = f"{rv}x{id(entries):x}"
        self._snapshots[token] = rv, entries
        if len(self._snapshots) > SNAPSHOTS:
            self._snapshots.popitem(last=False)
        return token

    async def _watch(self, request: web.BaseRequest, target: RequestTarget) -> web.StreamResponse:
        watch = Watch(self.cluster.store, target.kind, _selection(request, target), request)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        self._watches.add(watch)
        try:
            await response.prepare(request)
            await watch.pump(response)
            await response.write_eof()
        except ConnectionError:
            pass  # the client has disconnected
        finally:
            self._watches.discard(watch)
            watch.end()
        return response

    def _post(self, request: web.BaseRequest, target: RequestTarget, data: bytes) -> web.Response:
        cluster, kind, body = self.cluster, target.kind, _document(request, data)
        if target.sub in ("binding", "eviction") or kind.kind == "Binding":
            act = pod_subresources.evict if target.sub == "eviction" else pod_subresources.bind
            if not target.options.dry_run:
                act(cluster, target.namespace, target.name or (body.get("metadata") or {}).get("name", ""), body)
            return _json(SUCCESS | {"code": 201}, 201)
        if kind.post_only:
            return _json(body | {"status": {"allowed": True, "reason": "the sandbox has no RBAC"}}, 201)
        if target.name:
            raise NOT_ALLOWED
        entry = cluster.create(kind, target.namespace, _inward(kind, body), target.options)
        return self._entry(request, target, entry, 201)

    def _put(self, request: web.BaseRequest, target: RequestTarget, data: bytes) -> web.Response:
        kind, body = target.kind, _document(request, data)
        code = 200 if target.key in self.cluster.store[kind.stored].entries else 201
        obj = self._scaled(target, body) if target.sub == "scale" else _inward(kind, body)
        return self._entry(request, target, self._update(target, obj), code)

    def _patch(self, request: web.BaseRequest, target: RequestTarget, data: bytes) -> web.Response:
        kind, how = target.kind, request.content_type
        entry = self.cluster.get(kind, *target.key)
        current = _scale(entry) if target.sub == "scale" else kind.outward(entry.copy())
        if how == "application/merge-patch+json":
            patched = patches.merge(current, _document(request, data))
        elif how == "application/json-patch+json":
            patched = patches.json_patch(current, _loads(data))
        elif how == "application/strategic-merge-patch+json" and not kind.crd:
            patched = patches.strategic(current, _document(request, data), kind.kind)
        else:
            raise unsupported_media(f"the sandbox does not support patches of type {how} for {kind.resource}")
        obj = self._scaled(target, patched) if target.sub == "scale" else _inward(kind, patched)
        return self._entry(request, target, self._update(target, obj))

    def _update(self, target: RequestTarget, obj: Obj) -> Revision:
        sub = target.sub if target.sub == "status" else ""
        return self.cluster.update(target.kind, target.key, obj, sub, target.options)

    def _scaled(self, target: RequestTarget, scale: Obj) -> Obj:
        obj: Obj = self.cluster.get(target.kind, *target.key).copy()
        return obj | {"spec": obj["spec"] | {"replicas": (scale.get("spec") or {}).get("replicas", 0)}}

    def _delete(self, request: web.BaseRequest, target: RequestTarget, data: bytes) -> web.Response:
        cluster, kind = self.cluster, target.kind
        body: Obj = _document(request, data) if data else {}
        if grace := request.query.get("gracePeriodSeconds"):
            body["gracePeriodSeconds"] = int(grace)
        if not target.name:
            chosen = cluster.store[kind.stored].select(_selection(request, target))
            for entry in chosen:
                cluster.delete(kind, *entry.key, body, target.options)
            head = {"kind": f"{kind.kind}List", "apiVersion": kind.api_version}
            items = [kind.outward(entry.obj) for entry in chosen]
            return _json(head | {"metadata": {"resourceVersion": str(cluster.store.rv)}, "items": items})
        entry = cluster.delete(kind, *target.key, body, target.options)
        if kind.stored == "pods" or target.key in cluster.store[kind.stored].entries:
            return self._entry(request, target, entry)
        return _json(SUCCESS | {"details": kind.details(target.name) | {"uid": entry.obj["metadata"]["uid"]}})


def _json(body: Any, code: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(body=orjson.dumps(body), status=code, content_type="application/json", headers=headers)


def _bytes(body: bytes, code: int = 200) -> web.Response:
    return web.Response(body=body, status=code, content_type="application/json")


def _selection(request: web.BaseRequest, target: RequestTarget) -> ListSelection:
    labels, fields = request.query.get("labelSelector", ""), request.query.get("fieldSelector", "")
    return selection(target.kind, target.namespace, labels, fields)


def _loads(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except ValueError as error:
        raise bad_request(f"the object provided is unrecognized: {error}") from error


def _document(request: web.BaseRequest, data: bytes) -> Obj:
    """The body as an object. Raises ApiError 400 if it is not an object, and 415 for an unknown format."""
    how = request.content_type
    if how == "application/yaml":
        found = yaml.safe_load(data)
    elif how.endswith("json") or how in ("application/octet-stream", "text/plain"):
        found = _loads(data)
    else:
        raise unsupported_media(
            f"the body of the request was in an unknown format ({how}): the sandbox reads JSON; with kubectl, use "
            "create -f"
        )
    if not isinstance(found, dict):
        raise bad_request("the object provided is unrecognized: not an object")
    return found


def _inward(kind: Kind, body: Obj) -> Obj:
    """The body in stored form. Raises ApiError 400 unless its kind and version match the path."""
    given = (body.get("apiVersion") or kind.api_version, body.get("kind") or kind.kind)
    if given != (kind.api_version, kind.kind):
        raise bad_request(
            f"{given[1]} in version {given[0]!r} cannot be handled as a {kind.kind} of {kind.api_version}"
        )
    for field in {"metadata", "spec", "status"} & body.keys():
        if not isinstance(body[field], dict | None) and not kind.crd:
            raise bad_request(f"{kind.kind} in version {kind.version!r} cannot be handled: {field} is not an object")
    return kind.inward(body)


def _scale(entry: Revision) -> Obj:
    spec, metadata = entry.obj["spec"], entry.obj["metadata"]
    kept = {key: metadata[key] for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")}
    status = {"replicas": (entry.obj.get("status") or {}).get("replicas", 0)}
    head = {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": kept}
    return head | {"spec": {"replicas": spec.get("replicas", 1)}, "status": status}
