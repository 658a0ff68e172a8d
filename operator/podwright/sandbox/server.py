"""The HTTP side: paths to kinds, verbs to `Cluster`, lists, watches, patches, and errors to Status objects.

aiohttp's low-level server is used, without router and middlewares, and bodies leave as bytes encoded once: that is
what makes it fast enough to stand in for a real API server in a load test.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import orjson
import yaml
from aiohttp import web

from podwright.sandbox import discovery, patches, pods, tables
from podwright.sandbox.cluster import Cluster
from podwright.sandbox.errors import ApiError, bad_request, expired, unsupported_media
from podwright.sandbox.kinds import Kind, Obj
from podwright.sandbox.selectors import selection
from podwright.sandbox.store import Change, Entry, event_line

BODY_LIMIT = 3 * 1024 * 1024
SNAPSHOTS = 64  # paged lists that can still be continued
BOOKMARK_SECONDS = 15.0
WATCH_SECONDS = 1800
HEALTH = ("healthz", "livez", "readyz")
NO_SUCH_PATH = ApiError(404, "NotFound", "the server could not find the requested resource")


@dataclass(frozen=True, slots=True)
class Target:
    """What a request's path means; `name` is empty for a collection."""

    kind: Kind
    namespace: str
    name: str
    sub: str


class Server:
    """Answers requests on a `Cluster`; `close` ends all watches."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._snapshots: OrderedDict[str, tuple[int, list[Entry]]] = OrderedDict()
        self._watches: set[Watch] = set()

    def close(self) -> None:
        for watch in tuple(self._watches):
            watch.end()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._answer(request)
        except ApiError as error:
            headers = {"Retry-After": "1"} if error.code == 429 else {}
            return _json(error.status(), error.code, headers)
        except web.HTTPRequestEntityTooLarge:
            return _json(ApiError(413, "RequestEntityTooLarge", f"limit is {BODY_LIMIT}").status(), 413)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        parts = request.path.strip("/").split("/")
        if parts[0] in HEALTH:
            return web.Response(text="ok")
        if len(parts) <= 3 and (found := discovery.answer(self.cluster.kinds, parts)) is not None:
            return _json(found)
        target = self._target(parts)
        method = request.method
        if target.sub not in target.kind.subresources and target.sub:
            raise NO_SUCH_PATH
        if method == "GET" and not target.name:
            if request.query.get("watch") in ("true", "1"):
                return await self._watch(request, target)
            return self._list(request, target)
        if method == "GET":
            return self._entry(request, target, self.cluster.get(target.kind, target.namespace, target.name))
        if method == "POST":
            return await self._post(request, target)
        if method == "PUT" and target.name:
            return await self._put(request, target)
        if method == "PATCH" and target.name:
            return await self._patch(request, target)
        if method == "DELETE":
            return await self._delete(request, target)
        raise ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")

    def _target(self, parts: list[str]) -> Target:
        if len(parts) < 3 or parts[0] not in ("api", "apis"):
            raise NO_SUCH_PATH
        group, version, *rest = parts[1:] if parts[0] == "apis" else ["", *parts[1:]]
        namespace = ""
        if rest[:1] == ["namespaces"] and len(rest) > 2 and rest[2] not in ("status", "finalize"):
            namespace, rest = rest[1], rest[2:]
        kind = self.cluster.kinds.find(group, version, rest[0]) if rest and len(rest) <= 3 else None
        if kind is None or (namespace and not kind.namespaced):
            raise NO_SUCH_PATH
        name, sub = [*rest[1:], "", ""][:2]
        return Target(kind, namespace, name, sub)

    def _entry(self, request: web.BaseRequest, target: Target, entry: Entry, code: int = 200) -> web.Response:
        kind = target.kind
        if target.sub == "scale":
            return _json(_scale(entry), code)
        if "as=Table" in request.headers.get("Accept", ""):
            metadata = {"resourceVersion": str(entry.rv)}
            return _json(tables.table(kind, [entry], metadata, request.query.get("includeObject", "")), code)
        return _bytes(kind.encode(entry.obj, entry.data), code)

    def _list(self, request: web.BaseRequest, target: Target) -> web.Response:
        query, kind = request.query, target.kind
        if token := query.get("continue"):
            identity, _, start = token.partition("-")
            if identity not in self._snapshots:
                raise expired("The provided continue parameter is too old to display a consistent list result.")
            (rv, entries), offset = self._snapshots[identity], int(start)
        else:
            chosen = self._selection(request, target)
            rv, entries, offset = self.cluster.store.rv, self.cluster.store[kind.stored].select(chosen), 0
            identity = ""
        metadata: Obj = {"resourceVersion": str(rv)}
        limit = int(query.get("limit") or 0)
        page = entries[offset : offset + limit] if limit else entries[offset:]
        left = len(entries) - offset - len(page)
        if left:
            identity = identity or self._keep(rv, entries)
            metadata["continue"] = f"{identity}-{offset + len(page)}"
            if not query.get("labelSelector") and not query.get("fieldSelector"):
                metadata["remainingItemCount"] = left
        if "as=Table" in request.headers.get("Accept", ""):
            return _json(tables.table(kind, page, metadata, query.get("includeObject", "")))
        if kind.crd or kind.renames:
            items = [kind.encode(entry.obj, entry.data) for entry in page]
        else:
            items = [entry.data for entry in page]  # items of built-in lists carry no kind and apiVersion
        head = orjson.dumps({"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": metadata})
        return _bytes(b'%b,"items":[%b]}' % (head[:-1], b",".join(items)))

    def _keep(self, rv: int, entries: list[Entry]) -> str:
        identity = f"{rv}x{len(self._snapshots)}x{id(entries):x}"
        self._snapshots[identity] = rv, entries
        while len(self._snapshots) > SNAPSHOTS:
            self._snapshots.popitem(last=False)
        return identity

    def _selection(self, request: web.BaseRequest, target: Target) -> Any:
        query = request.query
        return selection(target.kind, target.namespace, query.get("labelSelector", ""), query.get("fieldSelector", ""))

    async def _watch(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        chosen = self._selection(request, target)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        watch = Watch(self.cluster, target.kind, chosen, request)
        watch.start()
        self._watches.add(watch)
        try:
            await response.prepare(request)
            await watch.pump(response)
            await response.write_eof()
        except ConnectionError:
            pass
        finally:
            self._watches.discard(watch)
            watch.end()
        return response

    async def _post(self, request: web.BaseRequest, target: Target) -> web.Response:
        cluster, kind = self.cluster, target.kind
        body = _document(request, await request.read())
        dry = _dry(request)
        if target.sub in ("binding", "eviction") or kind.kind == "Binding":
            name = target.name or (body.get("metadata") or {}).get("name", "")
            act = pods.evict if target.sub == "eviction" else pods.bind
            if not dry:
                act(cluster, target.namespace, name, body)
            return _json({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201)
        if kind.post_only:
            return _json(body | {"status": {"allowed": True, "reason": "the sandbox has no RBAC"}}, 201)
        if target.name:
            raise ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        _same_type(kind, body)
        entry = cluster.create(kind, target.namespace, kind.inward(body), dry_run=dry, strict=_strict(request))
        return self._entry(request, target, entry, 201)

    async def _put(self, request: web.BaseRequest, target: Target) -> web.Response:
        body = _document(request, await request.read())
        if target.sub != "scale":
            _same_type(target.kind, body)
        return self._entry(request, target, self._update(request, target, target.kind.inward(body)))

    def _update(self, request: web.BaseRequest, target: Target, obj: Obj) -> Entry:
        kind, key = target.kind, (target.namespace, target.name)
        if target.sub == "scale":
            scaled = self.cluster.get(kind, *key).copy()
            scaled["spec"]["replicas"] = (obj.get("spec") or {}).get("replicas", 0)
            obj = scaled
        sub = target.sub if target.sub == "status" else ""
        return self.cluster.update(kind, key, obj, sub=sub, dry_run=_dry(request), strict=_strict(request))

    async def _patch(self, request: web.BaseRequest, target: Target) -> web.Response:
        body = await request.read()
        kind, how = target.kind, request.content_type
        entry = self.cluster.get(kind, target.namespace, target.name)
        current = _scale(entry) if target.sub == "scale" else kind.outward(entry.copy())
        if how == "application/merge-patch+json":
            patched = patches.merge(current, _document(request, body))
        elif how == "application/json-patch+json":
            patched = patches.json_patch(current, _loads(body))
        elif how == "application/strategic-merge-patch+json" and not kind.crd:
            patched = patches.strategic(current, _document(request, body), kind.kind)
        else:
            known = "application/json-patch+json, application/merge-patch+json"
            known += "" if kind.crd else ", application/strategic-merge-patch+json"
            raise unsupported_media(f"the body of the request was in an unknown format - accepted media types: {known}")
        return self._entry(request, target, self._update(request, target, kind.inward(patched)))

    async def _delete(self, request: web.BaseRequest, target: Target) -> web.Response:
        cluster, kind = self.cluster, target.kind
        body = await request.read()
        options: Obj = _document(request, body) if body else {}
        if grace := request.query.get("gracePeriodSeconds"):
            options["gracePeriodSeconds"] = int(grace)
        if not target.name:
            return self._delete_all(request, target, options)
        entry = cluster.delete(kind, target.namespace, target.name, options, dry_run=_dry(request))
        if kind.stored == "pods" or (target.namespace, target.name) in cluster.store[kind.stored].entries:
            return self._entry(request, target, entry)
        details = kind.details(target.name) | {"uid": entry.obj["metadata"]["uid"]}
        return _json({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})

    def _delete_all(self, request: web.BaseRequest, target: Target, options: Obj) -> web.Response:
        kind = target.kind
        chosen = self.cluster.store[kind.stored].select(self._selection(request, target))
        for entry in chosen:
            metadata = entry.obj["metadata"]
            namespace = metadata.get("namespace", "")
            self.cluster.delete(kind, namespace, metadata["name"], options, dry_run=_dry(request))
        head: Obj = {"kind": kind.list_kind, "apiVersion": kind.api_version}
        metadata = {"resourceVersion": str(self.cluster.store.rv)}
        return _json(head | {"metadata": metadata, "items": [kind.outward(entry.obj) for entry in chosen]})


class Watch:
    """One watch: changes come in at once, as bytes; `pump` writes what has gathered."""

    def __init__(self, cluster: Cluster, kind: Kind, chosen: Any, request: web.BaseRequest) -> None:
        query = request.query
        self._cluster = cluster
        self._collection = cluster.store[kind.stored]
        self._kind = kind
        self._selection = chosen
        self._rv = query.get("resourceVersion", "")
        self._initial = query.get("sendInitialEvents") == "true"
        self._bookmarks = query.get("allowWatchBookmarks") in ("true", "1")
        self._seconds = int(query.get("timeoutSeconds") or WATCH_SECONDS)
        self._table = "as=Table" in request.headers.get("Accept", "")
        self._include = query.get("includeObject", "")
        self._pending: list[bytes] = []
        self._wake = asyncio.Event()
        self._ended = False
        self._timers: list[asyncio.TimerHandle] = []

    def start(self) -> None:
        if self._rv and not self._rv.isdigit():
            problem = f'Invalid value: "{self._rv}": not a resource version'
            raise ApiError(400, "BadRequest", f"resourceVersion: {problem}")
        loop = asyncio.get_running_loop()
        try:
            self._begin()
        except ApiError as error:
            self._pending.append(event_line("ERROR", orjson.dumps(error.status())))
            self.end()
            return
        self._collection.watchers.add(self._offer)
        self._timers.append(loop.call_later(self._seconds, self._finish))
        self._timers.append(loop.call_later(BOOKMARK_SECONDS, self._tick))

    def _begin(self) -> None:
        if self._rv in ("", "0") or self._initial:
            for entry in self._collection.select(self._selection):
                self._add("ADDED", entry)
            if self._initial and self._bookmarks:
                self._bookmark({"annotations": {"k8s.io/initial-events-end": "true"}})
        else:
            for change in self._collection.since(int(self._rv)):
                self._offer(change)

    def _offer(self, change: Change) -> None:
        seen = change.seen(self._selection)
        if seen is None:
            return
        if self._table:
            self._add(*seen)
        else:
            self._pending.append(change.line(self._kind, *seen))
        self._wake.set()

    def _add(self, event: str, entry: Entry) -> None:
        if self._table:
            body = orjson.dumps(tables.table(self._kind, [entry], {"resourceVersion": str(entry.rv)}, self._include))
        else:
            body = self._kind.encode(entry.obj, entry.data)
        self._pending.append(event_line(event, body))

    def _bookmark(self, metadata: Obj) -> None:
        metadata = {"resourceVersion": str(self._cluster.store.rv), "creationTimestamp": None, **metadata}
        obj = {"kind": self._kind.kind, "apiVersion": self._kind.api_version, "metadata": metadata}
        self._pending.append(event_line("BOOKMARK", orjson.dumps(obj)))
        self._wake.set()

    def _tick(self) -> None:
        if self._bookmarks:
            self._bookmark({})
        self._timers[-1] = asyncio.get_running_loop().call_later(BOOKMARK_SECONDS, self._tick)

    def _finish(self) -> None:
        if self._bookmarks:
            self._bookmark({})
        self.end()

    def end(self) -> None:
        self._ended = True
        self._collection.watchers.discard(self._offer)
        for timer in self._timers:
            timer.cancel()
        self._wake.set()

    async def pump(self, response: web.StreamResponse) -> None:
        while True:
            if self._pending:
                chunk = b"".join(self._pending)
                self._pending.clear()
                await response.write(chunk)
            elif self._ended:
                return
            else:
                self._wake.clear()
                await self._wake.wait()


def _json(body: Any, code: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(body=orjson.dumps(body), status=code, content_type="application/json", headers=headers)


def _bytes(body: bytes, code: int = 200) -> web.Response:
    return web.Response(body=body, status=code, content_type="application/json")


def _loads(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except ValueError as error:
        raise bad_request(f"the object provided is unrecognized: {error}") from error


def _document(request: web.BaseRequest, body: bytes) -> Obj:
    """The body as an object; 400 for anything else, 415 for a format that is not spoken here."""
    how = request.content_type
    if how in ("application/yaml", "application/x-yaml"):
        found = yaml.safe_load(body)
    elif how.endswith("json") or how in ("application/octet-stream", "text/plain", "*/*"):
        found = _loads(body)
    else:
        raise unsupported_media(f"the body of the request was in an unknown format ({how}); the sandbox reads JSON")
    if not isinstance(found, dict):
        raise bad_request("the body is not an object")
    return found


def _same_type(kind: Kind, body: Obj) -> None:
    given = (body.get("apiVersion") or kind.api_version, body.get("kind") or kind.kind)
    if given != (kind.api_version, kind.kind):
        raise bad_request(
            f"{given[1]} in version {given[0]!r} cannot be handled as a {kind.kind} of {kind.api_version}"
        )
    if not isinstance(body.get("metadata", {}), dict):
        raise bad_request("metadata is not an object")


def _dry(request: web.BaseRequest) -> bool:
    return request.query.get("dryRun") == "All"


def _strict(request: web.BaseRequest) -> bool:
    return request.query.get("fieldValidation") == "Strict"


def _scale(entry: Entry) -> Obj:
    spec, metadata = entry.obj.get("spec") or {}, entry.obj["metadata"]
    kept = {key: metadata[key] for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")}
    replicas = {"replicas": spec.get("replicas", 1)}
    status = {"replicas": (entry.obj.get("status") or {}).get("replicas", 0)}
    return {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": kept, "spec": replicas, "status": status}
