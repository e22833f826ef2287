"""Groups that hardly repeat are set aside by partition, in memory: the same answers as with one table."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.query.many_groups import MEMORY, NO_LIMIT, SCHEMA, Run
from tests.query.many_groups import segments as segments

from gamay.functions.expression import column_names
from gamay.functions.vector import EncodedVector, Vector
from gamay.model.types import DataType
from gamay.query.bind.binder import bind
from gamay.query.buffers.columns import num_buffers
from gamay.query.execute import spilling
from gamay.query.groupby import growing
from gamay.query.groupby import segment as group_segments
from gamay.query.groupby.rows import RowGroups
from gamay.query.groupby.states import plan_states
from gamay.query.groupby.table import GroupTable
from gamay.query.limits.spill_files import SpillFile, SpillSpace
from gamay.query.partitioned import groups as partitioned_groups
from gamay.query.partitioned.dictionaries import CommonDictionaries
from gamay.query.partitioned.groups import PartitionedGroups
from gamay.query.pool import WorkPool
from gamay.sql.parser import parse_query

NEVER = 1 << 62


@pytest.fixture(autouse=True)
def small_tables() -> Iterator[None]:
    """Check a thread's memory after a few hundred rows, and divide segments among threads."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growing, "_COUNTED_GROUPS", 64)
        patch.setattr(group_segments, "_FIRST_ROWS", 256)
        patch.setattr(group_segments, "BLOCK_ROWS", 256)
        patch.setattr(group_segments, "_ROWS_PER_THREAD", 1_000)
        patch.setattr(spilling, "_SCATTERED_BYTES", 8_000)
        patch.setattr(partitioned_groups, "_MERGED_GROUPS", 1_000)
        yield


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "spill"


def of_one_table(segments: Any, folder: Path, sql: str) -> list[tuple[Any, ...]]:
    """Return the answer of tables that are never divided."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spilling, "_SCATTERED_BYTES", NEVER)
        return Run(segments, folder, NO_LIMIT).rows(sql)


KEYS = ["k", "s", "raw", "d", "g", "mv", "k % 1000", "upper(raw)", "CASE WHEN g > 20 THEN s ELSE 'none' END"]
AGGREGATES = ["COUNT(*), SUM(g), MIN(d), MAX(k), AVG(g)", "COUNT(*) FILTER (WHERE g > 5), MAX(d)", "COUNT(d)", "SUMMV(mv)"]


@given(
    keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=3, unique=True),
    aggregates=st.sampled_from(AGGREGATES),
    order=st.sampled_from(["", "ORDER BY COUNT(*) DESC", "ORDER BY SUM(g)", "ORDER BY MAX(d) DESC"]),
    having=st.sampled_from(["", "HAVING COUNT(*) > 2", "HAVING SUM(g) < 30 AND MAX(d) > 10"]),
    where=st.sampled_from(["", "WHERE g > 3", "WHERE d IS NOT NULL OR g = 7"]),
    limit=st.sampled_from([10, 100_000]),
    nulls=st.booleans(),
    servers=st.sampled_from([1, 2]),
    on_wire=st.booleans(),
    memory=st.sampled_from([NO_LIMIT, MEMORY]),
)
@settings(max_examples=30, deadline=None)
def test_answers_are_those_of_one_table(
    segments: Any, tmp_path_factory: pytest.TempPathFactory, keys: list[str], aggregates: str, order: str, having: str,
    where: str, limit: int, nulls: bool, servers: int, on_wire: bool, memory: int,
) -> None:  # fmt: skip
    listed = ", ".join(keys)
    sql = (
        f"SET enableNullHandling = {str(nulls).lower()}; SELECT {listed}, {aggregates} FROM many {where} GROUP BY {listed} "
        f"{having} {order + ', ' if order else 'ORDER BY '}{listed} LIMIT {limit}"
    )
    folder = tmp_path_factory.mktemp("spill")
    run = Run(segments, folder, memory)
    assert run.rows(sql, servers=servers, on_wire=on_wire) == of_one_table(segments, folder, sql)
    assert (run.process.held, run.process.space.used) == (0, 0)


class Counted:
    """Tables that were put aside, how many of them held rows as they are."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tables = self.as_rows = 0
        put, table = spilling.FoundGroups._put_aside, RowGroups.table

        def counted_put(found: Any, place: Any, groups: GroupTable) -> None:
            self.tables += 1
            put(found, place, groups)

        def counted_table(rows: RowGroups) -> GroupTable:
            self.as_rows += 1
            return table(rows)

        monkeypatch.setattr(spilling.FoundGroups, "_put_aside", counted_put)
        monkeypatch.setattr(RowGroups, "table", counted_table)


@pytest.mark.parametrize(
    ("keys", "are_put_aside"),
    [
        ("k", True),
        ("raw, d", True),
        ("k, s", True),
        ("s, g", False),
        ("s", False),
        ("g", False),
        ("k % 50", False),
        ("mv, k", True),
    ],
)
def test_what_is_put_aside(
    segments: Any, folder: Path, keys: str, are_put_aside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dictionary ids of one key are numbered by place, and few groups stay: neither gains by being divided."""
    counted = Counted(monkeypatch)
    sql = f"SELECT {keys}, COUNT(*) FROM many GROUP BY {keys} ORDER BY COUNT(*), {keys} LIMIT 100000"
    found = Run(segments, folder, NO_LIMIT).rows(sql)
    assert (counted.tables > 0, counted.as_rows > 0) == (are_put_aside, are_put_aside)
    assert found == of_one_table(segments, folder, sql)


@pytest.mark.parametrize(
    "options",
    ["numGroupsLimit = 100000", "numGroupsWarningLimit = 2000", "minSegmentGroupTrimSize = 5", "minServerGroupTrimSize = 5"],
)
def test_limits_look_at_whole_tables(segments: Any, folder: Path, options: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    Run(segments, folder, NO_LIMIT).rows(f"SET {options}; SELECT k, COUNT(*) FROM many GROUP BY k ORDER BY 2 DESC LIMIT 10")
    assert counted.tables == 0


def test_wide_states_are_not_put_aside(segments: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    Run(segments, folder, NO_LIMIT).rows("SELECT k, DISTINCTCOUNT(s) FROM many GROUP BY k ORDER BY 2 DESC LIMIT 10")
    assert counted.tables == 0


def test_ties_do_not_depend_on_which_thread_is_first(segments: Any, folder: Path) -> None:
    sql = "SELECT k, raw, COUNT(*) FROM many GROUP BY k, raw ORDER BY COUNT(*) DESC LIMIT 200"
    first = Run(segments, folder, NO_LIMIT).rows(sql)
    for _ in range(5):
        assert Run(segments, folder, NO_LIMIT).rows(sql) == first


@pytest.mark.parametrize("way", ["held", "settled", "stored"])
def test_rows_of_one_table_that_are_equal_become_one_group(tmp_path: Path, way: str) -> None:
    bound = bind(parse_query("SELECT k, COUNT(*), SUM(g) FROM many GROUP BY k"), SCHEMA)
    rows = RowGroups(bound.rows, plan_states(bound.aggregates, count_rows=False))
    numbers = np.arange(1_000)
    values = {"k": Vector(DataType.LONG, numbers % 300), "g": Vector(DataType.INT, numbers.astype(np.int32))}
    rows.add(lambda expression: values[column_names(expression)[0]], len(numbers))
    space = SpillSpace(tmp_path)
    groups = PartitionedGroups(bound.aggregates, SpillFile(space) if way == "stored" else None)
    (groups.store if way == "stored" else groups.hold)(rows.table())
    with WorkPool(2) as pool:
        whole = groups.settled(pool) if way == "settled" else groups
    found: list[tuple[int, ...]] = []
    for _, table in whole.partitions():
        (keys,) = table.keys
        assert isinstance(keys, Vector)
        finished = [call.aggregate.finish(p).values for call, p in zip(bound.aggregates, table.partials, strict=True)]
        found += [tuple(map(int, row)) for row in zip(keys.values, *finished, strict=True)]
    assert sorted(found) == [(k, len(numbers[k::300]), int(numbers[k::300].sum())) for k in range(300)]


@pytest.mark.parametrize("size", [100, 5_000])  # hashed, and merged in order
def test_keys_of_several_dictionaries_keep_their_values(size: int) -> None:
    numbers = np.arange(size)
    values = [numbers * 2, numbers * 3]
    keys = [EncodedVector(numbers[::-1].astype(np.uint16), Vector(DataType.LONG, one, ascends=True)) for one in values]
    tables = [GroupTable((key,), (), size) for key in keys]
    dictionaries = CommonDictionaries(tables)
    found = [key for table in tables if isinstance(key := dictionaries.recoded(table).keys[0], EncodedVector)]
    assert [key.decode().values.tolist() for key in found] == [one[::-1].tolist() for one in values]
    assert found[0].dictionary.values is found[1].dictionary.values


def _divided(numbers: "np.ndarray[Any, Any]") -> PartitionedGroups:
    bound = bind(parse_query("SELECT k, COUNT(*) FROM many GROUP BY k"), SCHEMA)
    rows = RowGroups(bound.rows, plan_states(bound.aggregates, count_rows=False))
    rows.add(lambda _: Vector(DataType.LONG, numbers), len(numbers))
    groups = PartitionedGroups(bound.aggregates)
    groups.hold(rows.table())
    return groups


def _counts(groups: PartitionedGroups) -> dict[int, int]:
    found: dict[int, int] = {}
    for _, table in groups.partitions():
        (keys,), (counts,) = table.keys, table.partials
        assert isinstance(keys, Vector)
        assert found.keys().isdisjoint(keys.values.tolist())
        found |= zip(keys.values.tolist(), counts.counts.tolist(), strict=True)
    return found


@given(
    sizes=st.tuples(st.integers(1, 400), st.integers(1, 400)),
    merged=st.tuples(st.sampled_from([1, 100, 1 << 16]), st.sampled_from([1, 100, 1 << 16])),
    is_sent=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_parts_merged_in_different_widths_fit_together(
    sizes: tuple[int, int], merged: tuple[int, int], is_sent: bool
) -> None:
    numbers = [np.arange(500) % size for size in sizes]
    parts = []
    with WorkPool(2) as pool, pytest.MonkeyPatch.context() as patch:
        for rows, groups in zip(numbers, merged, strict=True):
            patch.setattr(partitioned_groups, "_MERGED_GROUPS", groups)
            part = _divided(rows).settled(pool)
            if is_sent:
                shapes, buffers = part.encoded()
                part = PartitionedGroups.received(part._aggregates, _tables_of(shapes, buffers))
            parts.append(part)
    both = np.concatenate(numbers)
    values, counts = np.unique(both, return_counts=True)
    assert _counts(PartitionedGroups.joined(parts, parts[0]._aggregates)) == dict(
        zip(values.tolist(), counts.tolist(), strict=True)
    )


def _tables_of(shapes: Any, buffers: Any) -> Iterator[tuple[Any, Any]]:
    given = iter(buffers)
    for shape in shapes:
        yield shape, [next(given) for _ in range(num_buffers(shape.kinds))]
