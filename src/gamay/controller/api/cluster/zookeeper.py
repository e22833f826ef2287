"""REST: the metadata store, for inspection and for changes by administrators, in ZooKeeper's terms."""

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from fastapi import Query, Request

from gamay.base.errors import InvalidConfigError, NotFoundError
from gamay.cluster.access.principals import ForbiddenError
from gamay.cluster.records.registry import Registry
from gamay.cluster.store import buckets, paths
from gamay.cluster.store.store import Node, check_path
from gamay.cluster.store.znrecord import ZNRecord, decode, encode
from gamay.cluster.store.zookeeper_session import Names
from gamay.controller.api.guarded_router import GuardedRouter
from gamay.controller.api.services import Services, principal_of, status
from gamay.model.parse import load_json

_PERSISTENT = 1
_ANY_VERSION = -1
# readable by every principal that may read at all: consoles show the live instances from it
_OF_INSTANCES = (paths.LIVE_INSTANCES, paths.PARTICIPANT_CONFIGS)
_PathParam: TypeAlias = Annotated[str, Query(alias="path")]
_Data: TypeAlias = Annotated[str | None, Query(description="A record as JSON; else the request's body")]
_Version: TypeAlias = Annotated[int, Query(alias="expectedVersion", description="-1: any")]
_Access: TypeAlias = Annotated[int, Query(alias="accessOption", description="1, persistent, is the only one")]


def zookeeper_router(services: Services) -> GuardedRouter:
    """Return the routes."""
    router = GuardedRouter(tags=["Zookeeper"])
    browser = _Browser(services.context.registry)

    @router.get("/zk/get", summary="Show a node of the metadata store")
    def get(request: Request, path: _PathParam) -> dict[str, Any] | None:
        return browser.record(browser.readable(request, path))

    @router.get("/zk/ls", summary="List the children of a node")
    def ls(request: Request, path: _PathParam) -> list[str]:
        return browser.children(browser.readable(request, path))

    @router.get("/zk/lsl", summary="List the children of a node with their statistics")
    def lsl(request: Request, path: _PathParam) -> dict[str, Any]:
        return {name: _stat(node) for name, node in browser.nodes(browser.readable(request, path)).items()}

    @router.get("/zk/stat", summary="Show the statistics of a node")
    def stat(request: Request, path: _PathParam) -> dict[str, int]:
        return _stat(browser.must_get(browser.readable(request, path)))

    @router.get("/zk/getChildren", summary="Show the children of a node")
    def get_children(request: Request, path: _PathParam) -> list[dict[str, Any]]:
        found = browser.nodes(browser.readable(request, path))
        return [decode(node.value).to_json() for node in found.values() if node.value]

    _change_routes(router, browser)
    return router


def _change_routes(router: GuardedRouter, browser: "_Browser") -> None:
    @router.put("/zk/put", summary="Replace the record of a node")
    async def put(
        request: Request,
        path: _PathParam,
        data: _Data = None,
        version: _Version = _ANY_VERSION,
        option: _Access = _PERSISTENT,
    ) -> dict[str, Any]:
        browser.check_settable(path, option)
        browser.put(path, await _given(request, data), version)
        return status(f"Successfully updated path: {path}")

    @router.put("/zk/putChildren", summary="Replace the records of a node's children, each by its id")
    async def put_children(
        request: Request,
        path: _PathParam,
        data: _Data = None,
        version: _Version = _ANY_VERSION,
        option: _Access = _PERSISTENT,
    ) -> dict[str, Any]:
        browser.check_writable(path, option)
        given = await _given(request, data)
        if not isinstance(given, list):
            raise InvalidConfigError("the data must be a JSON list of records")
        documents = [_record(document).to_json() for document in given]
        for document in documents:
            browser.check_settable(f"{path}/{document['id']}", option)
        for document in documents:  # all are checked before the first is written
            browser.put(f"{path}/{document['id']}", document, version)
        return status(f"Successfully updated path: {path}")

    @router.post("/zk/create", summary="Create a node")
    async def create(
        request: Request, path: _PathParam, data: _Data = None, ttl: int = -1, option: _Access = _PERSISTENT
    ) -> dict[str, Any]:
        browser.check_settable(path, option)
        if ttl != -1:
            raise InvalidConfigError("ttl: nodes that expire are not supported, leave it out")
        browser.create(path, await _given(request, data))
        return status(f"Successfully created node at path: {path}")

    @router.delete("/zk/delete", summary="Delete a node, and all below it")
    def delete(path: _PathParam) -> dict[str, Any]:
        browser.check_writable(path, _PERSISTENT)
        browser.delete(path)
        return status(f"Successfully deleted path: {path}")


class _Browser:
    """The metadata store under the path names that users know, which differ from the stored ones."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._store = registry.store
        self._names = Names("", registry.cluster)

    def must_get(self, path: str) -> Node:
        node = self._store.get(self._here(path))
        if node is None:
            raise NotFoundError(f"ZKPath {path} does not exist!")
        return node

    def record(self, path: str) -> dict[str, Any] | None:
        found = buckets.get(self._store, self._here(path)) if self.must_get(path).value else None
        return None if found is None else found.to_json()

    def children(self, path: str) -> list[str]:
        if path == "/":
            return [self._registry.cluster]
        self.must_get(path)
        here = self._here(path)
        return [self._names.there(f"{here}/{name}").rpartition("/")[2] for name in self._store.children(here)]

    def nodes(self, path: str) -> dict[str, Node]:
        below = self.children(path)
        here = [self._here(f"{path.rstrip('/')}/{name}") for name in below]
        found = zip(below, here, self._store.get_many(here), strict=True)
        return {name: node for name, place, node in found if node is not None and place != paths.CLUSTER_SECRET}

    def put(self, path: str, document: Any, version: int) -> None:
        here, record = self._here(path), _record(document)
        node = self.must_get(path)
        if version != _ANY_VERSION or not node.value:
            self._store.set(here, encode(record), None if version == _ANY_VERSION else version)
            return
        # a large record is split over several nodes, which are replaced together
        buckets.update(self._store, here, lambda _: record)

    def create(self, path: str, document: Any) -> None:
        self._store.create(self._here(path), encode(_record(document)))

    def delete(self, path: str) -> None:
        self.must_get(path)
        self._store.delete(self._here(path), recursive=True)

    def readable(self, request: Request, path: str) -> str:
        """Return the path. Raises ForbiddenError if its record may reveal what the sender is not allowed to know."""
        principal, here = principal_of(request), self._here(path) + "/"
        if here == f"{paths.CLUSTER_SECRET}/":
            raise ForbiddenError("Permission denied.Reason: the secret of the cluster is never shown")
        if here.startswith(f"{paths.USERS}/"):
            principal.check_admin("read the records of users")
        is_of_instances = any(here.startswith(f"{folder}/") for folder in _OF_INSTANCES)
        if not principal.sees_all_tables and not is_of_instances:
            raise ForbiddenError(
                f"Permission denied.Reason: {principal.name} may not use all of the tables that {path} may reveal"
            )
        return path

    def check_writable(self, path: str, option: int) -> None:
        """Raise InvalidConfigError for a path or an option that cannot be written through this interface."""
        if option != _PERSISTENT:
            raise InvalidConfigError(f"accessOption: {option} is not possible, only {_PERSISTENT} is: a persistent node")
        if path.count("/") < 2:
            raise InvalidConfigError(
                f"path: '{path}' is not one node of the cluster, like /{self._registry.cluster}/CONFIGS/…"
            )

    def check_settable(self, path: str, option: int) -> None:
        """Do what `check_writable` does, and reject the secret of the cluster, which may be deleted but not set."""
        self.check_writable(path, option)
        if self._here(path) == paths.CLUSTER_SECRET:
            raise ForbiddenError(
                "Permission denied.Reason: the processes generate the secret of the cluster; delete it and restart them"
            )

    def _here(self, path: str) -> str:
        if path != "/":
            check_path(path)
        return self._names.here(path)


async def _given(request: Request, data: str | None) -> Any:
    text = data.encode() if data is not None else await request.body()
    return load_json(text, "data")


def _record(document: Any) -> ZNRecord:
    """Return the record of a JSON document. Raises InvalidConfigError."""
    given = document if isinstance(document, dict) else {}
    simple, maps, lists = (given.get(key) or {} for key in ("simpleFields", "mapFields", "listFields"))
    name = given.get("id")
    if (
        not (isinstance(name, str) and name and "/" not in name)
        or not _is_map_of(simple, str)
        or not (isinstance(maps, dict) and all(_is_map_of(entry, str) for entry in maps.values()))
        or not (_is_map_of(lists, list) and all(isinstance(x, str) for entry in lists.values() for x in entry))
    ):
        shape = '{"id": …, "simpleFields": {name: text}, "mapFields": {name: {name: text}}, "listFields": {name: [text]}}'
        raise InvalidConfigError(f"the data must be a record: {shape}")
    return ZNRecord(name, simple, maps, lists)


def _is_map_of(value: Any, kind: type) -> bool:
    return isinstance(value, Mapping) and all(isinstance(entry, kind) for entry in value.values())


def _stat(node: Node) -> dict[str, int]:
    return {
        "czxid": 0,
        "mzxid": 0,
        "ctime": node.created_ms,
        "mtime": node.modified_ms,
        "version": node.version,
        "cversion": 0,
        "aversion": 0,
        "ephemeralOwner": node.ephemeral_owner,
        "dataLength": len(node.value),
        "numChildren": node.num_children,
        "pzxid": 0,
    }
