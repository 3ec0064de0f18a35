"""The HTTP face: paths, bodies, answers."""

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from modules.demo.apiserver import builtin, call, cells, discovery, openapi, render, selectors, status
from modules.demo.apiserver.admission import Options
from modules.demo.apiserver.call import Query
from modules.demo.apiserver.cel import Rules
from modules.demo.apiserver.history import Stored
from modules.demo.apiserver.kinds import Kind
from modules.demo.apiserver.listing import Listing, Page, parse_version
from modules.demo.apiserver.patching import APPLY_PATCH, patch_types
from modules.demo.apiserver.resources import Resources
from modules.demo.apiserver.selectors import Selection
from modules.demo.apiserver.status import Refusal
from modules.demo.apiserver.store import Store, Target
from modules.demo.apiserver.watching import Watch, Watcher

BODY_LIMIT: Final = 3 * 1024 * 1024
"""Bytes of a request's body, as upstream."""
_LONGEST_WATCH: Final = 3600
_OPEN_PATHS: Final = frozenset({"/healthz", "/livez", "/readyz", "/version"})
_AGGREGATED: Final = "as=APIGroupDiscoveryList"


class Application:
    """The server without its sockets."""

    def __init__(
        self, kinds: list[Kind], history: int, bookmark_every: float, token: str, now: Callable[[], datetime]
    ) -> None:
        for kind in kinds:
            cells.check(kind.columns)
        self.store = Store(kinds, history)
        self.listing = Listing(self.store)
        self.closing = asyncio.Event()
        self._kinds = kinds
        self._now = now
        self._token = token
        self._bookmark_every = bookmark_every
        self._resources = Resources(self.store, Rules(*(kind.whole for kind in kinds)), now)

    def close(self) -> None:
        """End all watches."""
        self.closing.set()
        for table in self.store.tables.values():
            table.history.wake()

    def forget(self) -> None:
        """Forget all history: watches and continue tokens from before get 410."""
        self.store.compact()
        self.listing.forget()

    def make_namespace(self, name: str) -> None:
        """A namespace that is there from the start."""
        spaces = self.store.tables[builtin.NAMESPACES.prefix, builtin.NAMESPACES.plural]
        self._resources.create(Target(spaces), {"metadata": {"name": name}}, Options())

    def asgi(self) -> Starlette:
        """The ASGI application."""
        fixed: Mapping[str, Callable[[Request], Response]] = {
            "/healthz": lambda _: PlainTextResponse("ok"),
            "/livez": lambda _: PlainTextResponse("ok"),
            "/readyz": lambda _: PlainTextResponse("ok"),
            "/version": lambda _: _json(discovery.VERSION),
            "/api": self._api,
            "/apis": self._apis,
            "/openapi/v3": lambda _: _json(openapi.index(self._kinds)),
            "/openapi/v3/{prefix:path}": self._openapi,
        }
        routes = [Route(path, self._guarded(answer), methods=["GET"]) for path, answer in fixed.items()]
        every = ["GET", "POST", "PUT", "PATCH", "DELETE"]
        routes += [
            Route(path, self._guarded(self._resource), methods=every)
            for path in ("/api/{rest:path}", "/apis/{rest:path}")
        ]
        routes.append(Route("/{rest:path}", self._guarded(_nothing), methods=every))
        return Starlette(routes=routes, exception_handlers={Refusal: _refused, Exception: _failed})

    def _guarded(self, answer: Callable[[Request], Any]) -> Callable[[Request], Awaitable[Response]]:
        """``answer``, for callers that have the token."""

        async def guarded(request: Request) -> Response:
            given = request.headers.get("authorization", "").encode()
            known = not self._token or hmac.compare_digest(given, f"Bearer {self._token}".encode())
            if not known and request.url.path not in _OPEN_PATHS:
                raise status.unauthorized()
            try:
                answered = answer(request)
                return await answered if isinstance(answered, Awaitable) else answered  # type: ignore[no-any-return]
            except RecursionError as error:
                raise status.bad_request("the object provided is nested too deep") from error

        return guarded

    def _api(self, request: Request) -> Response:
        if _AGGREGATED in request.headers.get("accept", ""):
            return _aggregated(discovery.aggregated(self._kinds, core=True))
        return _json(discovery.core_versions(request.url.netloc))

    def _apis(self, request: Request) -> Response:
        if _AGGREGATED in request.headers.get("accept", ""):
            return _aggregated(discovery.aggregated(self._kinds, core=False))
        return _json(discovery.groups(self._kinds))

    def _openapi(self, request: Request) -> Response:
        found = openapi.document(request.path_params["prefix"], self._kinds)
        if found is None:
            raise status.no_such_path()
        return _json(found)

    async def _resource(self, request: Request) -> Response:
        path = request.url.path.strip("/")
        about = discovery.resources(path, self._kinds) or discovery.group(path.removeprefix("apis/"), self._kinds)
        if about is not None and request.method == "GET":
            return _json(about)
        target, query = call.target(path, self.store.tables), Query(request.query_params)
        form = render.form(request.headers.get("accept", ""), query.text("includeObject"))
        match request.method, bool(target.name):
            case "GET", True:
                stored = self._resources.get(target)
                return self._one(target, stored, form)
            case "GET", False:
                return self._watch(target, query, form) if query.flag("watch") else self._list(target, query, form)
            case "POST", False:
                return await self._create(request, target, query, form)
            case "PUT", True:
                return await self._replace(request, target, query, form)
            case "PATCH", True:
                return await self._patch(request, target, query, form)
            case "DELETE", True if not target.sub:
                return await self._delete(request, target, query, form)
            case "DELETE", False:
                return self._delete_all(target, query, form)
        raise status.method_not_allowed()

    def _selection(self, target: Target, query: Query) -> Selection:
        known = target.table.kind.field_selectors
        return selectors.parse(query.text("labelSelector"), query.text("fieldSelector"), known)

    def _list(self, target: Target, query: Query, form: render.Form) -> Response:
        selection, limit = self._selection(target, query), query.number("limit")
        version, match = query.text("resourceVersion"), query.text("resourceVersionMatch")
        if token := query.text("continue"):
            page = self.listing.next(target.table, token, limit)
        else:
            page = self.listing.first(target.table, target.namespace, selection, version, match, limit)
        return _bytes(render.many(target.table.kind, page.items, form, self._now(), page.metadata))

    def _watch(self, target: Target, query: Query, form: render.Form) -> Response:
        version = parse_version(query.text("resourceVersion"))
        initial = query.flag("sendInitialEvents")
        if not initial and query.text("sendInitialEvents") and not version:
            version = self.store.version
        since = None if initial or not version else version
        watch = Watch(
            table=target.table,
            namespace=target.namespace,
            selection=self._selection(target, query),
            form=form,
            since=since,
            bookmarks=query.flag("allowWatchBookmarks"),
            initial_bookmark=initial,
            seconds=query.number("timeoutSeconds") or _LONGEST_WATCH,
        )
        watcher = Watcher(watch, self.store, self._now, self._bookmark_every, self.closing)
        return StreamingResponse(watcher.lines(), media_type="application/json")

    async def _create(self, request: Request, target: Target, query: Query, form: render.Form) -> Response:
        if target.table.kind.namespaced and not target.namespace:
            raise status.bad_request("an empty namespace may not be set during creation")
        options = query.options()
        body = call.decoded(await _body(request), _media(request), call.JSON_TYPES)
        stored = self._resources.create(target, body, options)
        return self._one(target, stored, form, 201, options)

    async def _replace(self, request: Request, target: Target, query: Query, form: render.Form) -> Response:
        options = query.options()
        body = call.decoded(await _body(request), _media(request), call.JSON_TYPES)
        stored, made = self._resources.replace(target, body, options)
        return self._one(target, stored, form, 201 if made else 200, options)

    async def _patch(self, request: Request, target: Target, query: Query, form: render.Form) -> Response:
        options, media = query.options(), _media(request)
        accepted = patch_types(target.table.kind)
        if media not in accepted:
            raise status.unsupported_media_type(accepted)
        if media == APPLY_PATCH and not query.text("fieldManager"):
            told = 'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'
            raise Refusal(422, "Invalid", told, {})
        patch = call.decoded(await _body(request), media, accepted)
        stored, made = self._resources.patch(target, media, patch, options)
        return self._one(target, stored, form, 201 if made else 200, options)

    async def _delete(self, request: Request, target: Target, query: Query, form: render.Form) -> Response:
        body = await _body(request)
        wanted = call.decoded(body, _media(request), call.JSON_TYPES) if body.strip() else {}
        options = query.options()
        options.dry_run = options.dry_run or wanted.get("dryRun") == ["All"]
        stored, gone = self._resources.delete(target, wanted, options)
        kind = target.table.kind
        if not gone or kind.returns_deleted:
            return self._one(target, stored, form)
        details = {**status.named(kind, target.name), "uid": stored.value["metadata"]["uid"]}
        return _json({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})

    def _delete_all(self, target: Target, query: Query, form: render.Form) -> Response:
        items = self._resources.delete_all(target, self._selection(target, query), query.options())
        page = Page(items, {"resourceVersion": str(self.store.version)})
        return _bytes(render.many(target.table.kind, page.items, form, self._now(), page.metadata))

    def _one(
        self, target: Target, stored: Stored, form: render.Form, code: int = 200, options: Options | None = None
    ) -> Response:
        response = _bytes(render.one(target.table.kind, stored, form, self._now()), code)
        for warning in options.warnings if options else ():
            quoted = warning.replace("\\", "\\\\").replace('"', '\\"')
            response.headers.append("Warning", f'299 - "{quoted}"')
        return response


async def _body(request: Request) -> bytes:
    """The body; 413 when it is too long."""
    parts, length = [], 0
    async for part in request.stream():
        parts.append(part)
        length += len(part)
        if length > BODY_LIMIT:
            raise status.too_large(BODY_LIMIT)
    return b"".join(parts)


def _media(request: Request) -> str:
    return render.media_type(request.headers.get("content-type", ""))


def _bytes(body: bytes, code: int = 200) -> Response:
    return Response(body, code, media_type="application/json")


def _json(value: Any, code: int = 200) -> Response:
    return _bytes(msgspec.json.encode(value), code)


def _aggregated(value: Any) -> Response:
    media = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    return Response(msgspec.json.encode(value), media_type=media)


def _nothing(_: Request) -> Response:
    raise status.no_such_path()


def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return Response(msgspec.json.encode(error.body()), error.code, dict(error.headers), "application/json")


def _failed(_: Request, error: Exception) -> Response:
    """A bug spoils one request; Starlette then hands it on to uvicorn, which logs it."""
    told = f"Internal error occurred: {type(error).__name__}"
    return Response(msgspec.json.encode(Refusal(500, "InternalError", told, {}).body()), 500, None, "application/json")
