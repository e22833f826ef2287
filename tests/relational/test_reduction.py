"""Conditions derived from one table exclude rows of others before they are read, and never a row that is needed."""

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.relational.conftest import Twins
from tests.stages import leaves

from gamay.embedded.database import connect
from gamay.functions.evaluate import evaluate
from gamay.functions.expression import Call, Column, Expression, Literal
from gamay.functions.vector import Scalar, Vector
from gamay.model.types import DataType
from gamay.query.answer.response import to_json
from gamay.query.filter.entries import sorted_docs
from gamay.query.view.docset import doc_mask
from gamay.relational.keys import KeySet
from gamay.relational.plan import Field, Scan
from gamay.relational.reduction import Edge, Reducer

INT = (DataType.INT, False)


def test_an_or_of_two_tables_filters_each(twins: Twins) -> None:
    sql = (
        "SELECT s.id FROM sales s, items i WHERE (s.item = i.item AND s.qty = 1 AND i.kind = 'food' AND s.paid) "
        "OR (i.kind = 'drink' AND s.item = i.item AND s.qty BETWEEN 2 AND 4 AND s.paid)"
    )
    assert twins.check(sql)
    plan = twins.plan(sql)
    assert "Join(type=[inner], condition=[equals(sales.item,items.item)" in plan
    assert "where=[sales.paid AND or(equals(sales.qty,'1'),between(sales.qty,'2','4'))]" in plan
    assert "where=[or(equals(items.kind,'food'),equals(items.kind,'drink'))]" in plan


def disjunction(rng: random.Random) -> str:
    conditions = ("s.item = i.item", "s.qty > 3", "s.shop = 's1'", "i.kind = 'food'", "i.item < 4", "s.shop = p.shop")
    conditions += ("p.city = 'Lyon'", "p.area > s.qty * 20", "NOT s.paid", "i.kind IS NULL", "(p.area > 90 OR s.qty = 1)")
    branches = [" AND ".join(rng.sample(conditions, rng.randint(1, 4))) for _ in range(rng.randint(2, 3))]
    return " OR ".join(branches)


@pytest.mark.parametrize("seed", range(12))
def test_generated_disjunctions(twins: Twins, seed: int) -> None:
    rng = random.Random(seed)
    for join in ("JOIN items i ON", "LEFT JOIN items i ON s.item = i.item WHERE"):
        twins.check(f"SELECT s.id, i.item, p.shop FROM shops p JOIN sales s ON s.id < 60 {join} {disjunction(rng)}")


@pytest.mark.parametrize("negation", ["", "NOT "])
def test_exists_reads_the_columns_that_it_compares(twins: Twins, negation: str) -> None:
    sql = f"SELECT item FROM items i WHERE {negation}EXISTS (SELECT * FROM sales s WHERE s.item = i.item AND s.qty < 2)"
    assert twins.check(sql)
    assert "Scan(table=[sales], columns=[item], where=" in twins.plan(sql)


@pytest.mark.parametrize(
    "condition", ["SUM(qty) > 90", "COUNT(*) <= 25", "MAX(price) < 10.0", "AVG(qty) >= 4.5 AND MIN(id) < 9"]
)
def test_having_is_asked_of_the_table(twins: Twins, condition: str) -> None:
    sql = f"SELECT p.city FROM shops p WHERE p.shop IN (SELECT shop FROM sales GROUP BY shop HAVING {condition})"
    twins.check(sql)
    assert "having=[" in twins.plan(sql)


def test_the_same_rows_are_read_once(twins: Twins) -> None:
    sql = "SELECT a.item, b.item FROM items a JOIN items b ON a.item < b.item"
    twins.check(sql)
    asked = leaves(to_json(twins.db._cluster.runner.run(sql, {}))["stageStats"])
    assert [leaf["table"] for leaf in asked if "totalDocs" in leaf] == ["items"]
    assert [leaf["table"] for leaf in asked] == ["items", "items"]


@pytest.mark.parametrize(
    ("sql", "is_joined"),
    [
        ("SELECT s.id FROM sales s JOIN items i ON s.item = i.item AND i.kind = 'food'", False),
        (
            "SELECT COUNT(*), s.shop FROM items i JOIN sales s ON s.item = i.item WHERE i.kind = 'food' GROUP BY s.shop",
            False,
        ),
        ("SELECT DISTINCT s.id FROM (SELECT s.id, s.item FROM sales s) s JOIN items i ON s.item = i.item", True),
        # two rows of a key, a column that is read, an outer join, a row around the query, a second condition
        ("SELECT i.name FROM items i JOIN sales s ON s.item = i.item AND s.id < 30", True),
        ("SELECT s.id, i.item FROM sales s JOIN items i ON s.item = i.item", True),
        ("SELECT s.id FROM sales s LEFT JOIN items i ON s.item = i.item AND i.kind = 'food'", True),
        ("SELECT (SELECT COUNT(*) FROM sales s JOIN items i ON s.item = i.item AND s.qty = p.area) FROM shops p", True),
        ("SELECT s.id FROM sales s JOIN items i ON s.item = i.item AND s.qty < i.item", True),
        ("SELECT s.id FROM shops p LEFT JOIN sales s ON s.shop = p.shop JOIN items i ON s.item = i.item", True),
    ],
)
def test_a_table_that_only_leaves_out_rows_is_not_joined(twins: Twins, sql: str, is_joined: bool) -> None:
    twins.check(sql)
    above = str(twins.db.sql(f"EXPLAIN ANALYZE {sql}").rows()[0][1]).partition("Leaves\n")[0]
    assert ("Join" in above) == is_joined, above


@pytest.mark.parametrize("seed", range(20))
def test_generated_chains(twins: Twins, seed: int) -> None:
    rng = random.Random(seed)
    unique = "(SELECT shop, MIN(item) item FROM sales WHERE shop < 's4' GROUP BY shop)"
    others = [("shops p", "p.shop = s.shop"), ("items i", "i.item = s.item"), (f"{unique} q", "q.shop = s.shop")]
    others += [("sales o", "o.id = s.qty"), ("items j", "j.item = o.qty"), ("shops z", "z.shop = o.shop")]
    chosen = others[: rng.randint(1, 3)] + (others[3 : rng.randint(4, 6)] if rng.random() < 0.6 else [])
    joins = "".join(f" {'LEFT ' if rng.random() < 0.15 else ''}JOIN {name} ON {condition}" for name, condition in chosen)
    limits = {"p": "p.city <> 'Nice'", "i": "i.kind = 'food'", "j": "j.item > 2", "z": "z.area > 90", "o": "o.paid"}
    read = {"p": "p.city", "i": "i.name", "q": "q.item", "o": "o.shop", "j": "j.kind", "z": "z.area"}
    names = [name.split()[-1] for name, _ in chosen]
    wanted = [limits[name] for name in names if name in limits and rng.random() < 0.6] or ["s.qty > 2"]
    for items in ("s.id", "COUNT(*), SUM(s.qty)", f"s.qty, {read[rng.choice(names)]}"):
        twins.check(f"SELECT {items} FROM sales s{joins} WHERE {' AND '.join(wanted)}")


def scan(name: str, *columns: str, where: tuple[Expression, ...] = ()) -> Scan:
    return Scan(name, tuple(Field(each, each, INT) for each in columns), where)


def test_keys_reach_all_tables_that_equal_them_and_small_tables_come_first() -> None:
    condition = Call("lessthan", (Column("p"), Literal(9, DataType.INT)))
    leaves = {
        0: scan("big", "b", "c"),
        1: scan("part", "p", where=(condition,)),
        2: scan("middle", "m"),
        3: scan("other", "o"),
    }
    sizes = {"big": 9000.0, "part": 1000.0, "middle": 500.0, "other": 2000.0}
    reducer = Reducer([Edge("b", "p"), Edge("m", "b"), Edge("o", "c")], leaves, lambda node: sizes[node.table])  # type: ignore[union-attr]
    read = []
    rows: dict[str, Callable[[], pa.Table]] = {
        "part": lambda: pa.table({"p": pa.array([3, 5, None, 3], pa.int32())}),
        "middle": lambda: pa.table({"m": pa.array([3], pa.int32())}),
        "big": lambda: pa.table({"b": pa.array([3, 5], pa.int32()), "c": pa.array([8, 9], pa.int32())}),
        "other": lambda: pa.table({"o": pa.array([8], pa.int32())}),
    }
    while (found := reducer.next()) is not None:
        leaf = found[1]
        assert isinstance(leaf, Scan)
        read.append((leaf.table, [each.name for each in leaf.where if isinstance(each, Call)]))
        reducer.read(leaf, rows[leaf.table]())
    # the one that has a condition, then those that its keys left fewer rows of; keys go on from there
    assert read == [("part", ["lessthan"]), ("middle", ["in"]), ("big", ["in"]), ("other", ["in"])]


def holds(condition: Expression, values: list[int]) -> list[bool]:
    vector = Vector(DataType.LONG, np.array(values, np.int64))
    found = evaluate(condition, {"k": vector}.__getitem__, len(values))
    return [bool(found.value)] * len(values) if isinstance(found, Scalar) else [bool(each) for each in found.values]


@given(
    st.lists(st.integers(-(2**40), 2**40), max_size=100) | st.lists(st.integers(-300, 300), max_size=900),
    st.lists(st.integers(-400, 400) | st.integers(-(2**63), 2**63 - 1), max_size=30),
)
def test_values_are_among_keys(keys: list[int], values: list[int]) -> None:
    asked = [*values, *keys]
    found = KeySet.of(pa.array(keys, pa.int64()), DataType.LONG)
    assert found.number == len(set(keys))
    wanted = [each in keys for each in asked]
    assert holds(found.holds(Column("k")), asked) == wanted
    perhaps = holds(found.may_hold(Column("k")), asked)
    assert all(one or not other for one, other in zip(perhaps, wanted, strict=True))


@given(st.lists(st.integers(0, 4), min_size=1, max_size=300), st.data())
def test_docs_of_a_sorted_column(counts: list[int], data: st.DataObject) -> None:
    starts = np.append(0, np.cumsum(counts)).astype(np.int32)
    ids = sorted(data.draw(st.sets(st.integers(0, len(counts) - 1))))
    found = sorted_docs(starts, np.array(ids, np.int32))
    docs = {doc for each in ids for doc in range(starts[each], starts[each + 1])}
    assert set(np.flatnonzero(doc_mask(found, int(starts[-1])))) == docs
    assert len(found) == len(docs)


@pytest.mark.parametrize("shown", ["COUNT(*)", "MAX(i.name)"])
def test_an_aggregate_gives_a_row_whatever_it_reads(twins: Twins, shown: str) -> None:
    twins.check(f"SELECT o.id FROM sales o WHERE EXISTS (SELECT {shown} FROM items i WHERE i.item = o.qty AND i.name < 'c')")


def test_a_subquery_reads_the_rows_that_the_query_around_it_looks_at(twins: Twins) -> None:
    sql = (
        "SELECT p.shop FROM shops p WHERE p.city = 'Nice' "
        "AND p.area > (SELECT MIN(s.qty) FROM sales s JOIN items i ON s.item = i.item WHERE s.shop = p.shop)"
    )
    assert twins.check(sql)
    told = "\n".join(str(row[-1]) for row in twins.db.sql(f"EXPLAIN ANALYZE {sql}").rows())
    assert "Scan(table=[sales], columns=[item, qty, shop], where=[in(sales.shop,'s2')])" in told, told


def test_whole_numbers_meet_doubles_as_doubles_whatever_is_read_before(tmp_path: Path) -> None:
    whole = pa.table({"n": pa.array([2**53, 2**53 + 1, 3] * 50, pa.int64())})
    wide = pa.table({"x": [2.0**53, 3.0, 4.0] * 50, "kind": ["a", "b", "c"] * 50})
    with connect(tmp_path) as db:
        db.create_table("whole", whole)
        db.create_table("wide", wide)
        for condition in ("kind = 'a'", "kind < 'b'", "kind <> 'c' AND kind <> 'b'"):
            sql = f"SELECT COUNT(*), COUNT(DISTINCT n) FROM whole JOIN wide ON n = x AND {condition}"
            assert db.sql(sql).rows() == [(5000, 2)]
