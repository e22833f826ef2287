"""Requests to brokers, on behalf of the client of the controller."""

import asyncio
import itertools
from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar

import httpx
from fastapi import Request

from gamay.base.errors import ErrorCode, GamayError, NotFoundError, QueryError, nearest
from gamay.cluster.records.broker_resource import BrokerResource, answering_instances
from gamay.cluster.records.records import Instance, Role
from gamay.cluster.records.registry import Registry
from gamay.controller.api.clients import role_client
from gamay.controller.api.services import Services
from gamay.model.table.table_name import raw_table_name
from gamay.sql.catalog_statements import is_definition
from gamay.sql.parser import parse_query

_TIMEOUT_S = 600.0
_Answer = TypeVar("_Answer")


class BrokerError(GamayError):
    """A broker that does not answer in time."""

    http_status = 503


class HungUpError(GamayError):
    """A client that disconnected before its query was answered, so that no client sees this error."""

    http_status = 499


class Brokers:
    """The brokers of the cluster, asked over HTTP."""

    def __init__(self, services: Services) -> None:
        self._registry = services.context.registry
        self._client = role_client(services.context.tls, _TIMEOUT_S)
        self._turns = itertools.count()

    def live(self) -> list[Instance]:
        """Return the brokers that are alive."""
        names = [name for name in self._registry.live_instance_ids() if name.startswith(Role.BROKER.value)]
        return [broker for name in names if (broker := self._registry.get_instance(name)) is not None]

    def must_get(self, name: str) -> Instance:
        """Return a broker that is alive. Raises NotFoundError."""
        brokers = {broker.id: broker for broker in self.live()}
        if name not in brokers:
            raise NotFoundError(f"There is no live broker {name}.{nearest(name, brokers)}")
        return brokers[name]

    async def answer(self, request: Request, body: Mapping[str, Any]) -> httpx.Response:
        """Forward a query to one of the brokers of its tables; it is cancelled when its client disconnects.

        body: a broker's request document, with `sql`. Raises QueryError if no broker answers, or no broker takes the
        statement.
        """
        if not isinstance(body.get("sql"), str) or not body["sql"].strip():
            raise QueryError(ErrorCode.JSON_PARSING, "the request has no 'sql'")
        brokers = _brokers_for(self._registry, body["sql"], request.headers.get("database"))
        if not brokers:
            raise QueryError(ErrorCode.BROKER_INSTANCE_MISSING, "there is no live broker for the query")
        broker = brokers[next(self._turns) % len(brokers)]
        headers = _passed_on(request, "authorization", "database")
        try:
            return await _unless_gone(
                request, self._client.post(f"{broker.url}/query/sql", json=dict(body), headers=headers)
            )
        except httpx.HTTPError as error:
            raise QueryError(ErrorCode.BROKER_INSTANCE_MISSING, f"broker {broker.id} failed: {error!r}") from error

    async def ask(
        self, request: Request, method: str, broker: Instance, path: str, params: Mapping[str, str], timeout_ms: int
    ) -> httpx.Response:
        """Send a broker a request other than a query. Raises BrokerError."""
        headers = _passed_on(request, "authorization")
        url = f"{broker.url}{path}"
        try:
            return await self._client.request(method, url, params=dict(params), headers=headers, timeout=timeout_ms / 1000)
        except httpx.TimeoutException as error:
            raise BrokerError(f"broker {broker.id} does not answer within {timeout_ms} ms") from error
        except httpx.HTTPError as error:
            raise BrokerError(f"broker {broker.id} does not answer: {error!r}") from error


def _passed_on(request: Request, *names: str) -> dict[str, str]:
    return {name: request.headers[name] for name in names if name in request.headers}


async def _unless_gone(request: Request, asked: Awaitable[_Answer]) -> _Answer:
    """Wait for an answer, and cancel the request when the client disconnects. Raises HungUpError."""
    answer = asyncio.ensure_future(asked)
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait((answer, gone), return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise HungUpError("the client hung up")
        return answer.result()
    finally:
        answer.cancel()
        gone.cancel()


async def _disconnected(request: Request) -> None:
    """Wait until the client of a request disconnects; the request's body must have been read to its end."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _brokers_for(registry: Registry, sql: str, database: str | None) -> list[Instance]:
    """Return the live brokers that serve all tables of a query, or all live brokers if its tables are unknown.

    Raises QueryError 700 for a statement that defines a table.
    """
    brokers = answering_instances(registry)
    try:
        tables = parse_query(sql).tables
    except QueryError as error:
        if is_definition(sql):
            raise QueryError(ErrorCode.QUERY_VALIDATION, str(error)) from None
        tables = ()  # the broker reports the error
    names = {name.lower() for table in tables for name in (table, f"{database}.{table}")}
    ideal = BrokerResource(registry).ideal() or {}
    own = [ids for table, ids in ideal.items() if {table.lower(), raw_table_name(table).lower()} & names]
    return [broker for broker in brokers if all(broker.id in ids for ids in own)]
