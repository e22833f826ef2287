"""Embedded DuckDB: sandboxed instances, each used by one query at a time."""

import inspect
import logging
import re
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa

from gamay.base.errors import ErrorCode, QueryError
from gamay.query.limits.budget import ON_SPARK
from gamay.query.limits.spill_files import SPILL_SETTING, SpillSpace
from gamay.relational.deadline_watch import Deadline, DeadlineWatch
from gamay.relational.functions import ArrowFunction

if TYPE_CHECKING:
    import duckdb

_log = logging.getLogger(__name__)
_IDLE_MAX = 4
# rows up to which an instance with one thread takes half of the time: there is nothing to parallelize
_SMALL_ROWS = 1 << 11
_BATCH_ROWS = 122_880  # size of a row group in DuckDB's own tables
_EXACT_BITS = 4


# messages for DuckDB's errors, which name its expressions, with columns by their ids
_FAILURES = tuple(
    (re.compile(pattern), message)
    for pattern, message in (
        ("Division by zero", "a whole number is divided by zero; NULLIF(x, 0) as the divisor gives NULL"),
        (
            "More than one row returned by a subquery",
            "a scalar subquery returned more than one row; add LIMIT 1, or an aggregate",
        ),
        (
            r"Type INT64 with value (\S+) can't be cast .* destination type INT32",
            r"\1 does not fit INT; cast an argument to LONG",
        ),
        (
            r"Overflow in \w+ of INT64 \((.*)\)",
            r"the LONG \1 does not fit 64 bits; cast an argument to DOUBLE or BIG_DECIMAL",
        ),
    )
)
_KIND = re.compile(r"^[A-Z][A-Za-z ]* Error: ")


class Engine:
    """Pool of DuckDB instances, reused between queries; thread-safe.

    threads: per query. space: where queries spill what does not fit into memory, in a folder that exists until `close`.
    """

    def __init__(self, threads: int, space: SpillSpace) -> None:
        self._threads = threads
        self._space = space
        self._folder: str | None = None  # set once an instance is opened
        self._idle: dict[int, list[duckdb.DuckDBPyConnection]] = {1: [], threads: []}  # by number of threads
        self._lock = threading.Lock()
        self._limits: weakref.WeakKeyDictionary[duckdb.DuckDBPyConnection, tuple[int, int]] = weakref.WeakKeyDictionary()
        self._is_closed = False
        self._watch = DeadlineWatch()
        # also at exit without `close`: live instances are reported as leaks on stderr
        weakref.finalize(self, _close, self._idle)

    def close(self) -> None:
        """Close the instances that no query uses; those in use are closed when their queries end."""
        with self._lock:
            self._is_closed = True
            _close(self._idle)
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)  # running queries may write to it

    def run(
        self,
        sql: str,
        tables: Mapping[str, pa.Table],
        functions: Iterable[ArrowFunction],
        memory_bytes: int,
        deadline: Deadline,
    ) -> tuple[pa.Table, Sequence[Mapping[str, Any]]]:
        """Run a statement over tables; return its rows and the operators of DuckDB's profile. Raises QueryError."""
        import duckdb  # imported lazily: takes 0.1 s

        functions = list(functions)
        is_small = sum(table.num_rows for table in tables.values()) <= _SMALL_ROWS
        with self._connection(1 if is_small else self._threads, memory_bytes) as connection:
            try:
                with self._watch.over(connection, deadline):  # not the clean-up below, which must complete
                    for function in functions:
                        connection.create_function(
                            function.name,
                            _with_arity(function.compute, len(function.arg_types)),
                            [duckdb.sqltype(each) for each in function.arg_types],
                            duckdb.sqltype(function.result_type),
                            type="arrow",
                            null_handling="special",
                        )
                    for name, table in tables.items():
                        connection.register(name, _in_batches(table))
                    rows = connection.sql(sql).to_arrow_table()
                    return rows, _operators(connection.get_profiling_information("json"))
            except duckdb.InterruptException:
                deadline.check()
                raise
            except duckdb.Error as error:
                deadline.check()
                raise _translated(error, sql) from error
            finally:
                for name in tables:
                    connection.unregister(name)
                for function in functions:
                    with suppress(duckdb.Error):  # it is not registered if an earlier one failed
                        connection.remove_function(function.name)

    @contextmanager
    def _connection(self, threads: int, memory_bytes: int) -> Any:
        idle = self._idle[threads]
        with self._lock:
            connection = idle.pop() if idle else None
        if connection is None:
            connection = self._opened(threads)
        self._limit(connection, max(memory_bytes >> 20, 16), self._space.free_bytes)
        try:
            yield connection
        finally:
            with self._lock:
                keeps = not self._is_closed and len(idle) < _IDLE_MAX
                if keeps:
                    idle.append(connection)
            if not keeps:
                connection.close()

    def _limit(self, connection: "duckdb.DuckDBPyConnection", memory_mib: int, disk_bytes: int) -> None:
        """Set the limits of an instance; the disk limit is rounded, so that few queries have to set it."""
        inexact = max(disk_bytes.bit_length() - _EXACT_BITS, 0)
        limits = memory_mib, disk_bytes >> inexact << inexact
        if self._limits.get(connection) != limits:
            connection.execute(f"SET memory_limit = '{limits[0]}MiB'")
            connection.execute(f"SET max_temp_directory_size = '{limits[1]}B'")
            self._limits[connection] = limits

    def _opened(self, threads: int) -> "duckdb.DuckDBPyConnection":
        import duckdb

        config: dict[str, Any] = {
            "threads": threads,
            "enable_external_access": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "python_enable_replacements": "false",
            "temp_directory": self._spill_folder(),
        }
        connection = duckdb.connect(":memory:", config=config)
        connection.execute("SET enable_profiling = 'no_output'")
        return connection

    def _spill_folder(self) -> str:
        with self._lock:
            if self._folder is None:
                if self._space.folder is not None:
                    self._space.folder.mkdir(parents=True, exist_ok=True)
                self._folder = tempfile.mkdtemp(prefix="gamay-joins-", dir=self._space.folder)
                weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
            return self._folder


def _close(idle: "dict[int, list[duckdb.DuckDBPyConnection]]") -> None:
    for connections in idle.values():
        while connections:
            connections.pop().close()


def _in_batches(table: pa.Table) -> pa.Table:
    """Return the same rows in batches, which are the unit of work of a thread."""
    return table if table.num_rows <= _BATCH_ROWS else pa.Table.from_batches(table.to_batches(_BATCH_ROWS))


def _with_arity(compute: Callable[..., pa.Array], num_args: int) -> Callable[..., pa.Array]:
    """Give a variadic function the signature from which DuckDB derives the number of arguments."""

    def called(*arrays: Any) -> pa.Array:
        return compute(*arrays)

    kind = inspect.Parameter.POSITIONAL_ONLY
    parameters = [inspect.Parameter(f"a{place}", kind) for place in range(num_args)]
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return called


def _operators(profile: str) -> Sequence[Mapping[str, Any]]:
    """Return the operators of a profile; none for VALUES alone, or if it is nested too deeply to be parsed."""
    try:
        found: Sequence[Mapping[str, Any]] = orjson.loads(profile).get("operator", ())
    except orjson.JSONDecodeError:
        return ()
    return found


def _translated(error: "duckdb.Error", sql: str) -> QueryError:
    """Translate an error of DuckDB into one for the user."""
    import duckdb

    text = str(error).split("\n")[0]
    if isinstance(error, duckdb.OutOfMemoryException):
        return QueryError(
            ErrorCode.SERVER_RESOURCE_LIMIT_EXCEEDED,
            "The joins, groups and sorts of the query fit neither its memory (maxQueryMemoryBytes) nor the disk that "
            f"queries may take ({SPILL_SETTING}); filter more, select fewer columns, or {ON_SPARK}",
        )
    if isinstance(error, duckdb.OutOfRangeException | duckdb.ConversionException | duckdb.InvalidInputException):
        # an error raised in a Gamay function comes with a traceback and the name of its class
        *_, own = text.rpartition(f"{QueryError.__name__}: ")
        if own != text:
            return QueryError(ErrorCode.QUERY_EXECUTION, own)
        for pattern, message in _FAILURES:
            if (found := pattern.search(text)) is not None:
                return QueryError(ErrorCode.QUERY_EXECUTION, found.expand(message))
        text = text.split(". Use ")[0].split(" when casting from source column")[0]
        return QueryError(ErrorCode.QUERY_EXECUTION, _KIND.sub("", text))
    _log.error("DuckDB refused a plan: %s\n%s", error, sql)
    return QueryError(ErrorCode.INTERNAL, f"The query failed for a reason that is a defect of Gamay: {text}")
