"""Groups that do not fit in a query's memory are spilled: the answer is the same, and no file remains."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.query.many_groups import MEMORY, NO_LIMIT, SCHEMA, Run, comparable
from tests.query.many_groups import segments as segments

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.vector import EncodedVector, Vector
from gamay.model.types import DataType
from gamay.query.bind.binder import bind
from gamay.query.execute import distinct, spilling
from gamay.query.execute.executor import execute
from gamay.query.groupby import growing
from gamay.query.groupby import segment as group_segments
from gamay.query.limits.budget import Budget, ProcessBudget
from gamay.query.limits.deadline import CancellableDeadline, Deadline
from gamay.query.limits.spill_files import SpillFile, SpillSpace
from gamay.query.partitioned import groups
from gamay.query.partitioned.groups import PartitionedGroups
from gamay.query.partitioned.hashing import LEVELS, NUM_PARTITIONS, partitions_of
from gamay.query.pool import WorkPool
from gamay.query.reduce.merge import reduce
from gamay.query.wire.result import encode_result, receive
from gamay.sql.parser import parse_query


@pytest.fixture(autouse=True)
def spill_early() -> Iterator[None]:
    """Spill if a thread holds more than tens of kilobytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spilling, "_GROWING_SHARE", 400)
        patch.setattr(spilling, "_KEPT_SHARE", 400)
        patch.setattr(growing, "_COUNTED_GROUPS", 200)
        patch.setattr(group_segments, "_FIRST_ROWS", 1000)
        yield


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "spill"


def assert_nothing_left(run: Run, folder: Path) -> None:
    assert (run.process.held, run.process.space.used) == (0, 0)
    assert not folder.exists() or list(folder.iterdir()) == []


NUMBERS = "COUNT(*), SUM(g), MIN(d), MAX(k), AVG(g)"
WIDE = [
    "DISTINCTCOUNT(raw)", "DISTINCTCOUNTHLL(s)", "PERCENTILE(g, 90)", "PERCENTILETDIGEST(d, 50)", "MODE(g)", "VARPOP(d)",
    "FIRSTWITHTIME(raw, k, 'STRING')", "DISTINCTCOUNTTHETASKETCH(g)", "DISTINCTSUM(g)", "MINMAXRANGE(d)", "ANYVALUE(raw)",
    "COUNT(*) FILTER (WHERE g > 20), SUM(g) FILTER (WHERE g < 3)", "SUMMV(mv)", "DISTINCTCOUNTBITMAP(g)",
    "SUMPRECISION(g)", "HISTOGRAM(g, 0, 40, 4)", "DISTINCTCOUNTCPCSKETCH(g)", "PERCENTILEKLL(g, 50)",
]  # fmt: skip


@pytest.mark.parametrize("aggregates", [NUMBERS, *WIDE])
def test_every_kind_of_partial_survives_the_disk(
    segments: Any, folder: Path, aggregates: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spilling, "_KEPT_SHARE", 1 << 20)
    asked = f"SELECT s, {aggregates} FROM many WHERE k <> 5 GROUP BY s ORDER BY s LIMIT 100000"
    for sql in (asked, f"SET enableNullHandling = true; {asked}"):
        run = Run(segments, folder, MEMORY)
        assert run.rows(sql) == Run(segments, folder, NO_LIMIT).rows(sql)
        assert run.spilled > 0
        assert_nothing_left(run, folder)


KEYS = ["k", "s", "raw", "d", "g", "mv", "k % 1000", "upper(raw)"]


@given(
    keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=3, unique=True),
    aggregates=st.sampled_from([NUMBERS, "DISTINCTCOUNT(g), COUNT(*)", "COUNT(*) FILTER (WHERE g > 5), MAX(d)", "COUNT(d)"]),
    order=st.sampled_from(["", "ORDER BY COUNT(*) DESC", "ORDER BY SUM(g)", "ORDER BY {last} DESC", "ORDER BY MAX(d) DESC"]),
    having=st.sampled_from(["", "HAVING COUNT(*) > 2", "HAVING SUM(g) < 30 AND MAX(d) > 10"]),
    where=st.sampled_from(["", "WHERE g > 3", "WHERE d IS NOT NULL OR g = 7"]),
    window=st.sampled_from([(10, 0), (1000, 7), (100_000, 0)]),
    nulls=st.booleans(),
    servers=st.sampled_from([1, 2]),
    on_wire=st.booleans(),
)
@settings(max_examples=10, deadline=None)
def test_tiny_budgets_give_the_answers_of_no_budget(
    segments: Any, tmp_path_factory: pytest.TempPathFactory, keys: list[str], aggregates: str, order: str, having: str,
    where: str, window: tuple[int, int], nulls: bool, servers: int, on_wire: bool,
) -> None:  # fmt: skip
    listed = ", ".join(keys)
    ordered = f"{order.format(last=keys[-1])}, {listed}" if order else f"ORDER BY {listed}"
    limit, offset = window
    sql = (
        f"SET enableNullHandling = {str(nulls).lower()}; SELECT {listed}, {aggregates} FROM many {where} GROUP BY {listed} "
        f"{having} {ordered} LIMIT {limit} OFFSET {offset}"
    )
    folder = tmp_path_factory.mktemp("spill")
    run = Run(segments, folder, MEMORY)
    assert run.rows(sql, servers=servers, on_wire=on_wire) == Run(segments, folder, NO_LIMIT).rows(sql)
    assert_nothing_left(run, folder)


def test_without_order_the_groups_are_whole(segments: Any, folder: Path) -> None:
    sql = "SELECT k, COUNT(*), SUM(g) FROM many GROUP BY k {} LIMIT {}"
    every = {row[0]: row for row in Run(segments, folder, NO_LIMIT).rows(sql.format("", 100_000))}
    run = Run(segments, folder, MEMORY)
    for having, wanted in (("", 10), ("HAVING COUNT(*) > 3", 50), ("HAVING COUNT(*) > 1000", 0)):
        found = run.rows(sql.format(having, wanted or 10))
        assert len(found) == wanted
        assert all(every[row[0]] == row for row in found)
    assert run.spilled > 0


@pytest.mark.parametrize("having", ["", "HAVING g > 30", "HAVING mv BETWEEN 2 AND 3 AND s <> 'user-7'"])
def test_keys_without_aggregates(segments: Any, folder: Path, having: str) -> None:
    sql = f"SELECT s FROM many GROUP BY s, g, mv {having} ORDER BY s, g, mv LIMIT 100000"
    counted = sql.replace("SELECT s", "SELECT s, COUNT(*)")
    expected = [row[:1] for row in Run(segments, folder, NO_LIMIT).rows(counted)]
    assert len(expected) > 100
    for servers, on_wire in ((1, False), (2, True)):
        run = Run(segments, folder, MEMORY)
        assert run.rows(sql, servers=servers, on_wire=on_wire) == expected
        assert run.spilled > 0
        assert_nothing_left(run, folder)
        assert Run(segments, folder, NO_LIMIT).rows(sql, servers=servers, on_wire=on_wire) == expected


def test_what_ends_a_query_leaves_nothing(segments: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = "SELECT k, s, COUNT(*), SUM(g) FROM many GROUP BY k, s ORDER BY 3 DESC LIMIT 10"
    bound = bind(parse_query(sql), SCHEMA)
    write = SpillFile.append
    for end in ("cancel", "fail"):
        run = Run(segments, folder, MEMORY)
        budget = Budget(run.memory, run.process)
        deadline = CancellableDeadline(SYSTEM_CLOCK, SYSTEM_CLOCK.monotonic_s() + 100, 100_000, budget)
        calls = []

        def append(file: SpillFile, buffers: Any, end: str = end, deadline: Any = deadline, calls: Any = calls) -> int:
            calls.append(1)
            if len(calls) > 20 and end == "fail":
                raise OSError(28, "No space left on device")
            if len(calls) > 20:
                deadline.cancel()
            return write(file, buffers)

        monkeypatch.setattr(SpillFile, "append", append)
        with WorkPool(2) as pool, pytest.raises((QueryError, OSError)):
            execute(bound, segments, pool, deadline)
        assert len(calls) > 20
        budget.close()
        assert_nothing_left(run, folder)


def test_a_full_disk_and_no_disk_are_errors_that_name_the_settings(segments: Any, folder: Path) -> None:
    sql = "SELECT k, s, COUNT(*) FROM many GROUP BY k, s ORDER BY 3 DESC LIMIT 10"
    full = Run(segments, folder, MEMORY, disk=10_000)
    with pytest.raises(QueryError, match=r"maxQueryMemoryBytes.*gamay\.query\.spill\.max\.bytes") as raised:
        full.rows(sql)
    assert raised.value.code is ErrorCode.SERVER_RESOURCE_LIMIT_EXCEEDED
    assert_nothing_left(full, folder)
    off = Run(segments, folder, 100_000, disk=0)
    with pytest.raises(QueryError, match="maxQueryMemoryBytes"):
        off.rows(sql)
    assert off.spilled == 0


def test_a_killed_process_leaves_no_file(tmp_path: Path) -> None:
    program = (
        "import sys, time\nfrom pathlib import Path\n"
        "from gamay.query.limits.spill_files import SpillFile, SpillSpace\n"
        "file = SpillFile(SpillSpace(Path(sys.argv[1])))\nfile.append([b'x' * 100_000])\nprint('written', flush=True)\n"
        "time.sleep(60)\n"
    )
    folder = tmp_path / "spill"
    with subprocess.Popen([sys.executable, "-c", program, str(folder)], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "written\n"
        child.kill()
    assert list(folder.iterdir()) == []


def test_equal_keys_fall_into_one_partition_however_they_are_stored() -> None:
    texts = pa.array([f"t{i % 50}" for i in range(400)])
    numbers = np.arange(400) % 50 / 2
    nulls = np.arange(400) % 7 == 0
    plain = (Vector(DataType.STRING, texts, None, nulls), Vector(DataType.DOUBLE, numbers))
    entries = pa.array([f"t{i}" for i in range(49, -1, -1)])
    coded = EncodedVector((49 - np.arange(400) % 50).astype(np.uint8), Vector(DataType.STRING, entries), None, nulls)
    for level in range(LEVELS):
        found = partitions_of(plain, 400, level)
        assert found.tolist() == partitions_of((coded, plain[1]), 400, level).tolist()
        assert found.max() < NUM_PARTITIONS
        assert len(set(found.tolist())) > 20
    zeros = Vector(DataType.DOUBLE, np.array([0.0, -0.0, np.nan, -np.nan]))
    first, second, third, fourth = partitions_of((zeros,), 4, 0).tolist()
    assert (first, third) == (second, fourth)


def test_an_older_broker_is_sent_one_table(segments: Any, folder: Path) -> None:
    sql = "SELECT k, COUNT(*) FROM many GROUP BY k ORDER BY 2 DESC, k LIMIT 10"
    bound = bind(parse_query(sql), SCHEMA)
    budget = Budget(MEMORY, ProcessBudget(NO_LIMIT, NO_LIMIT, SpillSpace(folder)))
    with WorkPool(2) as pool:
        result = execute(bound, segments, pool, Deadline.after_ms(60_000, SYSTEM_CLOCK, budget))
    assert isinstance(result.groups, PartitionedGroups)
    kinds = []
    for takes_parts in (True, False):
        sent = [memoryview(bytearray(b)) for b in encode_result(bound, result, (), takes_parts=takes_parts)]
        received = receive(sent)
        kinds.append(received.header.kind)
        answer = reduce(bound, [received.result(bound, SYSTEM_CLOCK)])
        assert answer.table is not None
        assert comparable(answer.table.rows()) == Run(segments, folder, NO_LIMIT).rows(sql)
    budget.close()
    assert kinds == ["parts", "groups"]


@pytest.mark.parametrize(
    "asked", ["ARRAYAGG(g, 'INT')", "LISTAGG(raw, ',')", "ARRAYAGG(k, 'LONG'), LASTWITHTIME(g, k, 'INT')"]
)
def test_values_are_listed_in_the_order_of_rows_wherever_groups_lie(segments: Any, folder: Path, asked: str) -> None:
    sql = f"SELECT s, g % 3, {asked} FROM many GROUP BY s, g % 3 ORDER BY s, g % 3 LIMIT 100000"
    expected = Run(segments, folder, NO_LIMIT).rows(sql)
    for servers, on_wire in ((1, False), (1, True), (2, True)):
        run = Run(segments, folder, MEMORY)
        assert run.rows(sql, servers=servers, on_wire=on_wire) == expected
        assert run.spilled > 0


def test_partitions_that_are_too_large_are_divided_again(
    segments: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    levels = set()
    divide = groups.partitions_of

    def partitions(keys: Any, num_groups: int, level: int) -> Any:
        levels.add(level)
        return divide(keys, num_groups, level)

    monkeypatch.setattr(groups, "partitions_of", partitions)
    monkeypatch.setattr(groups, "_PARTITION_SHARE", 20_000)
    for sql in (
        "SELECT k, g, COUNT(*), SUM(d) FROM many GROUP BY k, g ORDER BY 3 DESC, k, g LIMIT 500",
        "SELECT s, g, DISTINCTCOUNT(raw) FROM many GROUP BY s, g ORDER BY s, g LIMIT 100000",
    ):
        for servers, on_wire in ((1, False), (2, True)):
            levels.clear()
            run = Run(segments, folder, MEMORY)
            assert run.rows(sql, servers=servers, on_wire=on_wire) == Run(segments, folder, NO_LIMIT).rows(sql)
            assert levels >= {0, 1}
            assert_nothing_left(run, folder)


def test_ordered_distinct_rows_need_no_more_memory_than_the_answer(segments: Any, folder: Path) -> None:
    sql = "SELECT DISTINCT s, g, d FROM many {} ORDER BY {} LIMIT 20 OFFSET 3"
    for where, order in (
        ("", "g DESC, s"),
        ("WHERE k > 5", "s"),
        ("", "d DESC NULLS LAST"),
        ("WHERE mv = 3", "g, d, s"),
    ):
        asked = sql.format(where, order)
        run = Run(segments, folder, 150_000, disk=0)
        expected = Run(segments, folder, NO_LIMIT).rows(asked)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(distinct, "_STEP_ROWS_MAX", 300)
            patch.setattr(distinct, "_UNTRIMMED_GROUPS", 100)
            assert run.rows(asked, servers=2, on_wire=True) == expected
        assert len(expected) == 20


DISTINCT = "DISTINCTCOUNT(raw), COUNT(*)"


@pytest.mark.parametrize(
    ("keys", "sets", "aggregates", "having"),
    [
        (("k", "g"), "ROLLUP(k, g)", NUMBERS, "HAVING GROUPING(g) = 1 OR k > 1000"),
        (("k", "g"), "ROLLUP(k, g)", DISTINCT, "HAVING COUNT(*) > 2 AND k IS NOT NULL"),
        (("s", "g"), "CUBE(s, g)", "MAX(d) FILTER (WHERE g > 5), COUNT(*)", ""),
        (("k", "s", "g", "mv"), "GROUPING SETS ((k, mv), (k), (s, g), (g, s), ())", NUMBERS, ""),
        (("s", "raw", "g"), "GROUPING SETS ((s), (raw, g), (s))", DISTINCT, "HAVING COUNT(*) > 1"),
    ],
)
def test_grouping_sets_spill(
    segments: Any, folder: Path, keys: tuple[str, ...], sets: str, aggregates: str, having: str
) -> None:
    order = ", ".join([*(f"GROUPING({key})" for key in keys), *keys])
    for limit in (60, 100_000):
        sql = f"SELECT {', '.join(keys)}, {aggregates} FROM many GROUP BY {sets} {having} ORDER BY {order} LIMIT {limit}"
        expected = Run(segments, folder, NO_LIMIT).rows(sql)
        assert len(expected) > 40
        for servers, on_wire in ((1, limit == 60), (2, limit != 60)):
            run = Run(segments, folder, MEMORY)
            assert run.rows(sql, servers=servers, on_wire=on_wire) == expected
            assert run.spilled > 0
            assert_nothing_left(run, folder)
