"""A query never exceeds its memory budget, releases everything, and reports what held the memory."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest

from gamay.base import guard
from gamay.base.clock import SYSTEM_CLOCK, ManualClock
from gamay.base.errors import ErrorCode, QueryError
from gamay.base.machine import usable_memory
from gamay.functions.expression import Star
from gamay.functions.vector import EncodedVector, Vector
from gamay.model.index.indexing import IndexingConfig
from gamay.model.schema.schema import FieldSpec, Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType
from gamay.query.answer.response import BrokerResponse, ResultTable, encode, to_json
from gamay.query.bind.binder import bind
from gamay.query.execute.executor import execute
from gamay.query.limits.budget import Budget, ProcessBudget, ScanLimits, shares_of
from gamay.query.limits.deadline import Deadline
from gamay.query.limits.memory_size import held_bytes
from gamay.query.limits.memory_watch import MemoryWatch
from gamay.query.pool import WorkPool
from gamay.query.reduce.merge import reduce
from gamay.query.view.matches import DocScan, max_block_rows
from gamay.segment.read.reader import open_segment
from gamay.segment.write.builder import SegmentBuilder
from gamay.sql.parser import parse_query

ROWS = 60_000
SCHEMA = Schema("many", (FieldSpec("k", DataType.LONG), FieldSpec("s", DataType.STRING), FieldSpec("g", DataType.INT)))


@pytest.fixture(scope="module")
def segments(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Two segments of distinct keys, `k` without a dictionary."""
    folder = tmp_path_factory.mktemp("many")
    config = TableConfig.offline("many", indexing=IndexingConfig(no_dictionary_columns=("k",)))
    built = []
    for number in range(2):
        builder = SegmentBuilder(SCHEMA, config, f"many_{number}", folder)
        rows = range(number * ROWS, (number + 1) * ROWS)
        columns = [
            pa.array(rows, pa.int64()),
            pa.array([f"user-{i}" for i in rows]),
            pa.array([i % 9 for i in rows], pa.int32()),
        ]
        builder.append(pa.RecordBatch.from_arrays(columns, names=["k", "s", "g"]))
        built.append(open_segment(builder.build()))
    return built


def run(segments: Any, sql: str, budget: Budget, threads: int = 2) -> bytes:
    """Answer a query to the last byte under a budget."""
    deadline = Deadline.after_ms(60_000, SYSTEM_CLOCK, budget)
    before = guard.enter(deadline)
    try:
        with WorkPool(threads) as pool:
            bound = bind(parse_query(sql), SCHEMA)
            answer = reduce(bound, [execute(bound, segments, pool, deadline)])
        return encode(BrokerResponse(table=answer.table, stats=answer.stats))
    finally:
        guard.enter(before)


LARGE = [
    ("SET numGroupsLimit = 10000000; SELECT k, COUNT(*) FROM many GROUP BY k LIMIT 10", "groups|distinct values"),
    ("SET numGroupsLimit = 10000000; SELECT s, g, SUM(k) FROM many GROUP BY s, g LIMIT 10", "groups|distinct values"),
    ("SELECT k, DISTINCTCOUNTHLL(s) FROM many GROUP BY k LIMIT 10", "states of aggregates|groups"),
    ("SELECT DISTINCT k, s FROM many LIMIT 1000000", "distinct"),
    ("SELECT DISTINCT k FROM many ORDER BY k LIMIT 1000000", "distinct"),
    ("SELECT * FROM many LIMIT 100000000", "rows"),
    ("SELECT * FROM many ORDER BY g, k LIMIT 100000000", "rows"),
    ("SELECT ARRAYAGG(s, 'STRING') FROM many", "states of aggregates"),
    ("SELECT ARRAYAGG(k, 'LONG', true) FROM many", "states of aggregates"),
    ("SELECT LISTAGG(s, ',') FROM many", "states of aggregates"),
    ("SELECT DISTINCTCOUNT(k) FROM many WHERE g < 8", "states of aggregates|distinct values"),
    ("SELECT g, DISTINCTCOUNT(s) FROM many GROUP BY g", "states of aggregates|distinct values|groups"),
    ("SELECT DISTINCTCOUNT(s) FROM many", "states of aggregates|distinct values"),
    ("SELECT PERCENTILE(k, 50) FROM many", "states of aggregates"),
    ("SELECT UPPER(s), COUNT(*) FROM many GROUP BY UPPER(s) LIMIT 10", "distinct values|groups"),
    ("SELECT s, g, COUNT(*) FROM many GROUP BY ROLLUP(s, g) LIMIT 10", "groups|distinct values"),
]


@pytest.mark.parametrize(("sql", "what"), LARGE)
def test_a_query_that_holds_too_much_is_ended_and_says_what_it_held(segments: Any, sql: str, what: str) -> None:
    process = ProcessBudget(1 << 40, 1 << 40)
    budget = Budget(1_000_000, process)
    with pytest.raises(QueryError, match=rf"1,000,000 bytes \(maxQueryMemoryBytes\).* of it are ({what})") as raised:
        run(segments, sql, budget)
    assert raised.value.code is ErrorCode.SERVER_RESOURCE_LIMIT_EXCEEDED
    assert "filter more" in str(raised.value) or "select fewer" in str(raised.value)
    budget.close()
    assert (process.held, len(process.holding)) == (0, 0)


@pytest.mark.parametrize(("sql", "_"), LARGE)
def test_with_enough_memory_the_answer_is_the_same_as_without_a_budget(segments: Any, sql: str, _: str) -> None:
    process = ProcessBudget(1 << 40, 1 << 40)
    budget = Budget(1 << 38, process)
    free = Deadline.after_ms(60_000, SYSTEM_CLOCK)
    with WorkPool(2) as pool:
        bound = bind(parse_query(sql), SCHEMA)
        answer = reduce(bound, [execute(bound, segments, pool, free)])
    expected = encode(BrokerResponse(table=answer.table))
    assert run(segments, sql, budget).partition(b',"numRowsResultSet"')[0] == expected.partition(b',"numRowsResultSet"')[0]
    budget.close()
    assert process.held == 0


def test_small_queries_hold_nothing_worth_counting(segments: Any) -> None:
    budget = Budget(1000, ProcessBudget(1 << 40, 1 << 40))
    run(segments, "SELECT g, COUNT(*), SUM(k), MAX(k) FROM many GROUP BY g", budget)
    run(segments, "SELECT COUNT(*) FROM many WHERE s LIKE '%7'", budget)
    run(segments, "SELECT * FROM many LIMIT 10", budget)
    assert budget.held == 0


def test_when_all_queries_hold_too_much_the_one_that_holds_most_is_ended() -> None:
    process = ProcessBudget(100, 80)
    large, small = Budget(80, process), Budget(80, process)
    large.change("rows", 70)
    with closing(large):
        small.change("rows", 40)  # waits, for another one holds more, and goes on
    assert large.ended is not None
    assert small.ended is None
    deadline = Deadline.after_ms(1000, SYSTEM_CLOCK, large)
    with pytest.raises(QueryError, match=r"gamay\.query\.memory\.total\.bytes") as raised:
        deadline.check()
    assert raised.value.code is ErrorCode.SERVER_RESOURCE_LIMIT_EXCEEDED
    assert process.held == 40
    small.change("rows", 30)
    with pytest.raises(QueryError, match=r"101 bytes of 80 bytes"):
        small.change("rows", 31)


@contextmanager
def closing(budget: Budget) -> Iterator[None]:
    """Let another thread close a budget a moment later; in the end it is done."""
    gone = threading.Timer(0.05, budget.close)
    gone.start()
    yield
    gone.join()


def test_a_query_that_waits_for_memory_in_vain_is_ended() -> None:
    process = ProcessBudget(100, 80)
    large, small = Budget(80, process), Budget(80, process)
    large.change("rows", 70)
    with pytest.raises(QueryError, match=r"gamay\.query\.memory\.total\.bytes.* this one held 40 bytes"):
        small.change("rows", 40)
    small.close()
    assert (process.held, process.holding) == (70, {large})


def test_answers_that_wait_to_be_read_count_for_all_queries_together() -> None:
    process = ProcessBudget(100, 80)
    process.count_unsent(90)
    budget = Budget(80, process)
    with pytest.raises(QueryError, match=r"gamay\.query\.memory\.total\.bytes"):
        budget.change("rows", 20)
    budget.close()
    process.count_unsent(-50)
    Budget(80, process).change("rows", 20)
    assert process.held == 60


def test_the_query_that_asks_is_ended_when_it_holds_most() -> None:
    process = ProcessBudget(100, 100)
    Budget(100, process).change("rows", 45)
    with pytest.raises(QueryError, match="this one held 60 bytes"):
        Budget(100, process).change("rows", 60)


def test_what_threads_need_for_a_moment_counts_for_all_queries_together() -> None:
    process = ProcessBudget(100, 90)
    one, other = Budget(90, process), Budget(90, process)
    one.reserve("groups", 60)
    other.change("rows", 30)
    with pytest.raises(QueryError, match=r"gamay\.query\.memory\.total\.bytes.* this one held 75 bytes"):
        one.reserve("groups", 75)
    one.close()
    other.reserve("groups", 50)
    other.settle()
    other.close()
    assert (process.held, process.reserved, len(process.holding)) == (0, 0, 0)


class _Machine:
    """Memory of a process of 1,000 bytes: what it has taken, of which some is free and can be given back."""

    def __init__(self) -> None:
        self.taken, self.free = 0, 0
        self.clock = ManualClock()
        self.watch = MemoryWatch(1000, lambda: self.taken, self.trim, self.clock)

    def trim(self) -> None:
        self.taken, self.free = self.taken - self.free, 0


def test_a_process_that_has_nearly_all_memory_ends_the_query_that_holds_most() -> None:
    machine = _Machine()
    process = ProcessBudget(1 << 40, 1 << 40, watch=machine.watch)
    large, small = Budget(1000, process), Budget(1000, process)
    large.change("rows", 200)
    small.change("rows", 100)
    machine.taken, machine.free = 900, 400  # enough is free
    machine.clock.advance(1)
    small.change("rows", 1)
    assert (machine.taken, large.ended) == (500, None)
    machine.taken = 900
    machine.clock.advance(1)
    with closing(large):
        small.change("rows", 1)  # returns when the other one has given back what it held
    assert process.held == 102
    with pytest.raises(QueryError, match=r"nearly all the memory that it may use \(900 bytes of 1,000 bytes\)") as raised:
        Deadline.after_ms(1000, SYSTEM_CLOCK, large).check()
    assert raised.value.code is ErrorCode.SERVER_RESOURCE_LIMIT_EXCEEDED


def test_queries_that_hold_little_are_not_to_blame_for_what_the_process_has() -> None:
    machine = _Machine()
    process = ProcessBudget(1 << 40, 1 << 40, watch=machine.watch)
    machine.taken = 999
    budget = Budget(1000, process)
    budget.change("rows", 10)
    assert budget.ended is None
    with pytest.raises(QueryError, match="nearly all the memory"):
        budget.change("rows", 10)


def test_memory_of_a_process_is_seen() -> None:
    """In a separate process, as others release memory in this one."""
    program = (
        "from gamay.query.limits.memory_watch import anonymous_bytes\n"
        "before = anonymous_bytes()\nheld = bytearray(b'x') * 50_000_000\nprint(anonymous_bytes() - before)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert 49_000_000 < int(done.stdout) < 60_000_000


def test_once_a_part_of_a_query_needed_too_much_no_other_goes_on() -> None:
    budget = Budget(1000, ProcessBudget(10_000, 10_000))
    deadline = Deadline.after_ms(60_000, SYSTEM_CLOCK, budget)
    other = deadline.holder("rows")
    other.hold(400)
    deadline.check()
    with pytest.raises(QueryError, match="1,100 bytes of 1,000 bytes"):
        deadline.reserve("groups", 700)
    for go_on in (deadline.check, lambda: deadline.reserve("groups", 1), lambda: other.hold(401)):
        with pytest.raises(QueryError) as raised:
            go_on()
        assert raised.value.code is ErrorCode.SERVER_RESOURCE_LIMIT_EXCEEDED
    other.release()  # giving back is no going on
    budget.close()
    assert budget.process.held == 0


def test_a_query_never_has_more_than_the_process(segments: Any) -> None:
    with pytest.raises(QueryError, match="maxQueryMemoryBytes"):
        run(segments, "SELECT * FROM many LIMIT 1000000", Budget(1 << 40, ProcessBudget(500_000, 1 << 40)))


@pytest.mark.parametrize(
    ("limits", "sql", "name"),
    [
        (ScanLimits(docs=100), "SELECT g, COUNT(*) FROM many GROUP BY g", "maxDocsScanned"),
        (ScanLimits(entries_in_filter=10), "SELECT COUNT(*) FROM many WHERE g <> 3", "maxEntriesScannedInFilter"),
        (ScanLimits(entries_post_filter=10), "SELECT SUM(k), SUM(g) FROM many WHERE g = 3", "maxEntriesScannedPostFilter"),
    ],
)
def test_a_query_that_reads_too_much_is_ended(segments: Any, limits: ScanLimits, sql: str, name: str) -> None:
    process = ProcessBudget(1 << 40, 1 << 40)
    with pytest.raises(QueryError, match=name) as raised:
        run(segments, sql, Budget(1 << 38, process, limits))
    assert raised.value.code is ErrorCode.QUERY_SCAN_LIMIT_EXCEEDED
    run(segments, sql, Budget(1 << 38, process, ScanLimits(10**6, 10**6, 10**6)))


def test_scan_limits_can_be_logged_only(segments: Any, caplog: pytest.LogCaptureFixture) -> None:
    limits = ScanLimits(docs=100, is_enforced=False)
    run(segments, "SELECT g, COUNT(*) FROM many GROUP BY g", Budget(1 << 38, ProcessBudget(1 << 40, 1 << 40), limits))
    assert "maxDocsScanned" in caplog.text


def test_settings_of_the_cluster_give_the_budgets() -> None:
    budget = ProcessBudget(1000, 400)

    def applied(settings: dict[str, str]) -> tuple[int, int, int | None]:
        budget.apply(settings)
        return budget.total_bytes, budget.query_bytes, budget.space.max_bytes

    assert applied({}) == (1000, 400, None)
    assert applied({"gamay.query.memory.total.bytes": "300"}) == (300, 300, None)
    assert applied({"gamay.query.memory.max.bytes": "50", "gamay.query.spill.max.bytes": "0"}) == (1000, 50, 0)
    assert applied({"gamay.query.memory.max.bytes": "lots", "gamay.query.spill.max.bytes": "9"}) == (1000, 400, 9)
    assert applied({}) == (1000, 400, None)
    assert 1 << 26 < usable_memory() < 1 << 50
    machine = ProcessBudget.of_machine()
    assert machine.query_bytes < machine.total_bytes < usable_memory()


def test_bytes_of_arrays_are_exact_and_those_of_objects_close() -> None:
    assert held_bytes(np.zeros(1000)) == 8000
    assert held_bytes(Vector(DataType.LONG, np.zeros(1000, np.int64))) == 8000
    text = pa.array(["x" * 100] * 1000)
    assert held_bytes(text) == text.nbytes
    dictionary = Vector(DataType.STRING, text)
    assert held_bytes(EncodedVector(np.zeros(10, np.uint8), dictionary)) == 10  # the dictionary is the segment's
    mapped = np.frombuffer(memoryview(bytes(4096)), np.uint8)
    assert held_bytes(mapped[10:]) == 0  # so are mapped buffers
    assert held_bytes([Star()] * 3) == held_bytes([None] * 3)  # what has no attributes at all
    assert 100_000 < held_bytes(["y" * 50 for _ in range(1000)]) < 120_000
    assert 50_000 < held_bytes({str(i): i for i in range(1000)}) < 200_000
    objects = np.empty(1000, object)
    objects[:] = ["z" * 50] * 1000
    assert 90_000 < held_bytes(objects) < 120_000


def test_a_long_answer_is_the_same_text_as_a_short_one() -> None:
    rng = np.random.default_rng(1)
    count = 50_000
    lists = np.concatenate([[0], np.cumsum(rng.integers(0, 4, count))]).astype(np.int64)
    columns = (
        Vector(DataType.LONG, rng.integers(-9, 9, count)),
        Vector(DataType.STRING, pa.array([f"ü{i}" for i in range(count)]), None, rng.random(count) < 0.1),
        Vector(DataType.DOUBLE, rng.random(int(lists[-1])), lists),
        Vector(DataType.BOOLEAN, rng.random(count) < 0.5),
    )
    table = ResultTable(("a", "b", "c", "d"), ("LONG", "STRING", "DOUBLE_ARRAY", "BOOLEAN"), columns)
    response = BrokerResponse(table=table)
    assert response.is_long
    assert encode(response) == orjson.dumps(to_json(response))


@pytest.mark.parametrize(
    "limits", [ScanLimits(docs=5000), ScanLimits(entries_in_filter=5000), ScanLimits(entries_post_filter=9000)]
)
def test_a_scan_is_ended_within_its_segment(segments: Any, monkeypatch: pytest.MonkeyPatch, limits: ScanLimits) -> None:
    monkeypatch.setattr(DocScan.blocks, "__defaults__", (1000, 0))
    budget = Budget(1 << 38, ProcessBudget(1 << 40, 1 << 40), limits)
    with pytest.raises(QueryError, match="more than the") as raised:
        run(segments[:1], "SELECT k, g FROM many WHERE g <> 3 ORDER BY g DESC LIMIT 5", budget, threads=1)
    assert raised.value.code is ErrorCode.QUERY_SCAN_LIMIT_EXCEEDED
    done = budget.stats()
    assert 3000 <= done.num_docs_scanned <= done.num_entries_scanned_in_filter <= 7000
    assert (done.total_docs, done.num_segments_queried) == (ROWS, 1)


@pytest.mark.parametrize(("limit", "rows"), [(None, 1 << 20), (100_000_000, 48_828), (1_000, 1 << 14), (1 << 40, 1 << 20)])
def test_blocks_are_smaller_for_queries_that_may_hold_little(limit: int | None, rows: int) -> None:
    budget = None if limit is None else Budget(limit, ProcessBudget(1 << 40, 1 << 40))
    before = guard.enter(Deadline.after_ms(1000, SYSTEM_CLOCK, budget))
    try:
        assert max_block_rows() == rows
    finally:
        guard.enter(before)


@pytest.mark.parametrize(("memory", "total", "query"), [(8192, 4096, 2048), (600, 300, 150), (400, 100, 100), (256, 32, 32)])
def test_small_machines_keep_memory_for_the_process_itself(memory: int, total: int, query: int) -> None:
    assert shares_of(memory << 20) == (total << 20, query << 20)
