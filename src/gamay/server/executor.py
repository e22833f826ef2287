"""Running queries on the segments of this server."""

from collections.abc import Sequence

from gamay.base.errors import CorruptSegmentError, ErrorCode, QueryError
from gamay.query.bind import BoundQuery
from gamay.query.deadline import Deadline
from gamay.query.execute import ServerResult, execute
from gamay.query.pool import WorkPool
from gamay.segment.defaults import with_defaults
from gamay.segment.spi import Segment
from gamay.server.instance import ServerInstance


class QueryExecutor:
    """What a broker in the same process is connected to. threads: how many work on one query."""

    def __init__(self, instance: ServerInstance, threads: int) -> None:
        self._instance = instance
        self._pool = WorkPool(threads)

    def close(self) -> None:
        """End the threads, once their work is done."""
        self._pool.close()

    def num_docs(self, table: str, segments: Sequence[str]) -> int:
        """Return how many rows the named segments have; those that consume, and those that are not here, count nothing."""
        data = self._instance.table(table)
        loaded = {} if data is None else data.snapshot()
        return sum(loaded[name].segment.num_docs for name in segments if name in loaded)

    def execute(
        self, table: str, query: BoundQuery, segments: Sequence[str], deadline: Deadline
    ) -> tuple[ServerResult, Sequence[str]]:
        """Run a query on the named segments of a typed table; return the result and the segments that are not here.

        All segments come from one snapshot of the table; those that consume are read as they are at this moment.
        Raises QueryError.
        """
        data = self._instance.table(table)
        if data is None:
            raise QueryError(ErrorCode.SERVER_TABLE_MISSING, f"Server {self._instance.id} does not host table {table}")
        contents = data.contents()
        found: list[Segment] = []
        missing: list[str] = []
        consuming: dict[str, int] = {}
        for name in segments:
            if name in contents.loaded:
                found.append(contents.loaded[name].segment)
            elif name in contents.consuming:
                view, consuming[name] = contents.consuming[name].freeze()
                found.append(view)
            else:
                missing.append(name)
        try:
            complete = self._complete(table, query, found)
            return execute(query, complete, self._pool, deadline, consuming=consuming), missing
        except CorruptSegmentError as error:
            self._instance.recheck(table)
            raise QueryError(
                ErrorCode.QUERY_EXECUTION, f"A segment of {table} is damaged, it is made again if possible: {error}"
            ) from error

    def _complete(self, table: str, query: BoundQuery, segments: Sequence[Segment]) -> Sequence[Segment]:
        """Give segments that are older than a column of the query its default value in every row."""
        if all(name in segment.column_names for segment in segments for name in query.fields):
            return segments
        layout = self._instance.layout_of(table)
        return segments if layout is None else [with_defaults(s, layout.schema, layout.config) for s in segments]
