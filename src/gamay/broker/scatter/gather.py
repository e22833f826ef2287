"""Concurrent requests to servers: by calls in this process, over their query ports elsewhere."""

from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from gamay.base import spans
from gamay.base.clock import Clock
from gamay.base.errors import ErrorCode, QueryError, forget_traceback
from gamay.broker.routes.selection import Turn
from gamay.broker.scatter.connection import Connections, UnreachableServerError
from gamay.broker.scatter.routed_query import RoutedQuery
from gamay.broker.scatter.server_stats import ServerStats
from gamay.broker.scatter.state import Ask, GatheredAnswers, Part, Scatter
from gamay.query.answer.response import BrokerResponse
from gamay.query.execute.server_result import ServerResult
from gamay.query.limits.deadline import CancellableDeadline
from gamay.query.wire.result import Received

if TYPE_CHECKING:
    from gamay.broker.scatter.remote import QueryConnections

T = TypeVar("T")
Result: TypeAlias = ServerResult | Received
_Outcome: TypeAlias = tuple[Result, Sequence[str]] | QueryError

_SCATTER_THREADS = 16
_NO_SPAN: AbstractContextManager[None] = nullcontext()


class Gatherer:
    """Sends the parts of queries to servers. stats: statistics of the servers, if a setting enables them."""

    def __init__(self, connections: Connections, clock: Clock, stats: ServerStats) -> None:
        self._connections = connections
        self._clock = clock
        self._stats = stats
        self.remote = _remote(connections)
        self._threads = ThreadPoolExecutor(_SCATTER_THREADS, thread_name_prefix="broker-scatter")

    def close(self) -> None:
        """Stop the threads and close the connections."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        if self.remote is not None:
            self.remote.close()

    @property
    def down(self) -> frozenset[str]:
        """The servers that do not respond."""
        return frozenset() if self.remote is None else self.remote.failures.down

    def gather(self, parts: Sequence[Part], turn: Turn, deadline: CancellableDeadline) -> GatheredAnswers[Result]:
        """Send the requests, and block until the answers are there."""
        if len(parts) == 1 and len(parts[0].asked) == 1:
            ((server, segments),) = parts[0].asked.items()
            outcome = self._ask(ask := Ask(parts[0], server, segments), deadline)
            if type(outcome) is tuple and not outcome[1]:
                return GatheredAnswers([(parts[0], server, outcome[0])], responded={(parts[0].route.table, server)})
            return self._go_on(parts, turn, deadline, (ask, outcome))
        return self._go_on(parts, turn, deadline, None)

    def _go_on(
        self, parts: Sequence[Part], turn: Turn, deadline: CancellableDeadline, first: "tuple[Ask, _Outcome] | None"
    ) -> GatheredAnswers[Result]:
        """Ask several servers, or another one than the first."""
        scatter: Scatter[Result] = Scatter(parts, turn)
        asks = scatter.begin() if first is None else self._note(scatter, *first)
        while len(asks) == 1:  # without another thread
            asks = self._note(scatter, asks[0], self._ask(asks[0], deadline))
        if not asks:
            return scatter.gathered
        waiting: dict[Future[_Outcome], Ask] = {}
        while asks or waiting:
            waiting |= {self._threads.submit(copy_context().run, self._ask, ask, deadline): ask for ask in asks}
            asks = []
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                asks += self._note(scatter, waiting.pop(future), future.result())
        return scatter.gathered

    async def gather_remote(
        self, parts: Sequence[Part], turn: Turn, deadline: CancellableDeadline, query_id: str
    ) -> GatheredAnswers[Result]:
        """Ask remote servers from an event loop. Raises QueryError 503 if the query is cancelled."""
        return await self._cancellable(self._gather_remote(parts, turn, deadline, query_id), deadline)

    async def answer_remote(
        self, routed: RoutedQuery, turn: Turn, deadline: CancellableDeadline, query_id: str
    ) -> BrokerResponse | None:
        """Send a query on the fast path to a remote server, from an event loop.

        None to leave it to `gather_remote`: if several servers are to be asked, or the only one does not answer. Raises
        QueryError 503 if the query is cancelled.
        """
        asked = routed.route.by_server(turn, routed.kept)
        if len(asked) != 1:
            return None
        ((name, segments),) = asked.items()
        server = None if self.remote is None else self.remote.known(name)
        if server is None:
            return None
        return await self._cancellable(server.answer(routed, segments, deadline, query_id), deadline)

    async def _cancellable(self, work: Coroutine[Any, Any, T], deadline: CancellableDeadline) -> T:
        """Run work on the loop of the connections, and abort it if its query is cancelled, with QueryError 503."""
        import asyncio

        assert self.remote is not None
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        asking = True

        def cancel() -> None:
            if asking and task is not None:
                task.cancel()

        deadline.on_cancel = lambda: loop.call_soon_threadsafe(cancel)
        try:
            return await self.remote.loop.run(work)
        except asyncio.CancelledError:
            if deadline.is_cancelled and task is not None:
                task.uncancel()
                deadline.check()
            raise
        finally:
            asking = False
            deadline.on_cancel = None

    async def _gather_remote(
        self, parts: Sequence[Part], turn: Turn, deadline: CancellableDeadline, query_id: str
    ) -> GatheredAnswers[Result]:
        import asyncio

        scatter: Scatter[Result] = Scatter(parts, turn)
        asks = scatter.begin()
        while len(asks) == 1:  # without another task
            asks = self._note(scatter, asks[0], await self._ask_remote(asks[0], deadline, query_id))
        waiting: dict[asyncio.Task[_Outcome], Ask] = {}
        try:
            while asks or waiting:
                waiting |= {asyncio.ensure_future(self._ask_remote(ask, deadline, query_id)): ask for ask in asks}
                asks = []
                done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for ended in done:
                    asks += self._note(scatter, waiting.pop(ended), ended.result())
        finally:
            for unfinished in waiting:
                unfinished.cancel()
        return scatter.gathered

    def _ask(self, ask: Ask, deadline: CancellableDeadline) -> _Outcome:
        connection = self._connections.get(ask.server)
        if connection is None:
            return _unknown(ask.server)
        ended = self._begun(ask.server)
        try:
            with _span_of(ask):
                route = ask.part.route
                return connection.execute(route.table, ask.part.bound, ask.segments, deadline, route.latest)
        except QueryError as error:
            forget_traceback(error)
            return error
        finally:
            ended()

    async def _ask_remote(self, ask: Ask, deadline: CancellableDeadline, query_id: str) -> _Outcome:
        assert self.remote is not None
        server = await self.remote.find(ask.server)
        if server is None:
            return _unknown(ask.server)
        ended = self._begun(ask.server)
        try:
            with _span_of(ask):
                route = ask.part.route
                received = await server.ask(route.table, ask.part.bound, ask.segments, deadline, route.latest, query_id)
        except QueryError as error:
            return error
        finally:
            ended()
        return received, received.missing

    def _begun(self, server: str) -> Callable[[], None]:
        if not self._stats.collects:
            return _nothing
        begun_s = self._clock.monotonic_s()
        self._stats.sent(server, begun_s * 1000)

        def ended() -> None:
            now_s = self._clock.monotonic_s()
            self._stats.ended(server, (now_s - begun_s) * 1000, now_s * 1000)

        return ended

    def _note(self, scatter: "Scatter[Result]", ask: Ask, outcome: _Outcome) -> list[Ask]:
        if not isinstance(outcome, QueryError):
            return scatter.answered(ask, *outcome)
        is_down = isinstance(outcome, UnreachableServerError) and outcome.is_down
        if is_down and self.remote is not None and self.remote.failures.failed(ask.server):
            self.remote.probe_until_up(ask.server)
        return scatter.failed(ask, outcome)


def _span_of(ask: Ask) -> AbstractContextManager[None]:
    if not spans.is_on():
        return _NO_SPAN
    return spans.span("gamay.server_call", server=ask.server, table=ask.part.route.table, segments=len(ask.segments))


def _nothing() -> None:
    return


def _unknown(server: str) -> QueryError:
    return UnreachableServerError(
        ErrorCode.BROKER_REQUEST_SEND, f"There is no connection to server '{server}'", is_down=False
    )


def _remote(connections: Connections) -> "QueryConnections | None":
    """Return the connections if they lead to other processes; their module is imported only then."""
    if isinstance(connections, dict):
        return None
    from gamay.broker.scatter.remote import QueryConnections

    return connections if isinstance(connections, QueryConnections) else None
