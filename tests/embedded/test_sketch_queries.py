"""Sketches in queries: filters inside aggregates, set operations on results, and tables of serialised sketches."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gamay
from gamay.base.errors import QueryError
from gamay.embedded import Database

_USERS = np.random.default_rng(5).integers(0, 400, 3000)
_DAYS = np.arange(3000) % 3


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    folder: Path = tmp_path_factory.mktemp("sketches")
    with gamay.connect(folder / "data") as database:
        rows = pa.table({"user": _USERS, "day": _DAYS, "tags": [[f"t{i % 7}", f"t{i % 5}"] for i in range(3000)]})
        database.create_table("visits", rows.slice(0, 1700))
        database.append("visits", rows.slice(1700))
        yield database


def one(db: Database, sql: str) -> Any:
    return db.sql(sql).rows()[0][0]


def users(*days: int) -> set[int]:
    return set(_USERS[np.isin(_DAYS, days)].tolist())


@pytest.mark.parametrize(
    ("filters", "post", "expected"),
    [
        ("'day = 1'", "$1", len(users(1))),
        ("'day = 0', 'day = 2'", "SET_INTERSECT($1, $2)", len(users(0) & users(2))),
        ("'day = 0', 'day IN (1, 2)'", "set_union($1, $2)", len(users(0, 1, 2))),
        ("'day = 0'", "SET_DIFF($0, $1)", len(users(0, 1, 2) - users(0))),
        ("'day = 0', 'day = 1', 'user < 100'", "SETDIFF(SETINTERSECT($1,$2), $3)",
         len({user for user in users(0) & users(1) if user >= 100})),
        ("'user >= 100 AND NOT (day = 1 OR user > 300)'", "$1", len({u for u in users(0, 2) if 100 <= u <= 300})),
    ],
)  # fmt: skip
def test_theta_sketches_of_filters(db: Database, filters: str, post: str, expected: int) -> None:
    call = "DISTINCTCOUNTTHETASKETCH(user, '', " + ", ".join(
        "'" + part.strip("' ").replace("'", "''") + "'" for part in filters.split("', '")
    )
    assert one(db, f"SELECT {call}, '{post}') FROM visits") == expected


def test_theta_sketches_of_filters_in_groups(db: Database) -> None:
    rows = db.sql(
        "SELECT day, DISTINCTCOUNTTHETASKETCH(user, '', 'user < 50 AND tags = ''t1''', 'SET_DIFF($0, $1)') FROM visits "
        "GROUP BY day ORDER BY day"
    ).rows()
    tagged = np.array([i % 7 == 1 or i % 5 == 1 for i in range(3000)])
    for day, found in rows:
        today = day == _DAYS
        assert found == len(set(_USERS[today].tolist()) - set(_USERS[today & tagged & (_USERS < 50)].tolist()))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("DISTINCTCOUNTTHETASKETCH(user, '', 'day =', '$1')", "is not a condition"),
        ("DISTINCTCOUNTTHETASKETCH(user, '', 'day', '$1')", "filter 1 is not a condition"),
        ("DISTINCTCOUNTTHETASKETCH(user, '', 'nosuch = 1', '$1')", "Unknown columnName 'nosuch'"),
        ("DISTINCTCOUNTTHETASKETCH(user, '', 'day = 1', '$2')", "no filter 2"),
        ("DISTINCTCOUNTTHETASKETCH(user, '', 'day = 1', 'SET_DIFF($1)')", "takes two sketches"),
        ("DISTINCTCOUNTTHETASKETCH(user, '', 'day = 1', 'SET_DIFF($1, $0')", r"'\)' is missing"),
        ("DISTINCTCOUNTTHETASKETCH(user, '', 'day = 1', 'MINUS($1, $0)')", "is not SET_UNION, SET_INTERSECT or SET_DIFF"),
        ("DISTINCTCOUNTTHETASKETCH(user, '', 'SUM(day) = 1', '$1')", "cannot contain another one"),
        ("toThetaSketch()", "argument"),
        ("toHLL(user, 99)", "from 2 to 16"),
        ("toIntegerSumTupleSketch(user, 'x')", "whole number"),
        ("intSumTupleSketchUnion(user, day)", "argument 1 must be a sketch"),
        ("intSumTupleSketchUnion(64, toIntegerSumTupleSketch(user, 1), day)", "argument 3 must be a sketch, .* not LONG"),
        ("thetaSketchDiff(toThetaSketch(user), tags)", "argument 2 must be single-value"),
        ("getThetaSketchEstimate('no sketch')", "'no sketch' is not a sketch in hexadecimal or base64"),
        ("getCpcSketchEstimate('é')", "'é' is not a sketch in hexadecimal or base64"),
        ("thetaSketchUnion(toThetaSketch(user))", "2 to 5"),
        ("fromULL('abcd')", "not a serialised UltraLogLog"),
        ("getCpcSketchEstimate('abcd')", "not a serialised CPC"),
    ],
)
def test_errors_say_what_is_wrong(db: Database, call: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        db.sql(f"SELECT {call} FROM visits")


def test_set_operations_row_by_row(db: Database) -> None:
    a, b = "toThetaSketch(user)", "toThetaSketch(day)"
    tuples = "toIntegerSumTupleSketch(user, 2)", "toIntegerSumTupleSketch(day, 3)"
    row = db.sql(
        f"SELECT getThetaSketchEstimate(thetaSketchUnion({a}, {b}, {a})), "
        f"getThetaSketchEstimate(thetaSketchIntersect({a}, {b})), getThetaSketchEstimate(thetaSketchDiff({a}, {b})), "
        "getCpcSketchEstimate(cpcSketchUnion(toCpcSketch(user), toCpcSketch(day))), fromULL(toULL(user)), "
        f"getIntTupleSketchEstimate(intMaxTupleSketchUnion(64, {tuples[0]}, {tuples[1]})), "
        f"getIntTupleSketchEstimate(intMinTupleSketchIntersect({tuples[0]}, {tuples[1]})), "
        f"getIntTupleSketchEstimate(intSumTupleSketchDiff({tuples[0]}, {tuples[1]})), "
        "getThetaSketchEstimate(toThetaSketch(NULL)) FROM visits WHERE user > 2 LIMIT 1"
    ).rows()[0]
    assert row == (2, 0, 1, 2, 1, 2, 0, 1, 0)
    assert "retained entries" in one(db, f"SELECT thetaSketchToString({a}) FROM visits")
    assert "CPC sketch" in one(db, "SELECT cpcSketchToString(toCpcSketch(user)) FROM visits")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("getThetaSketchEstimate(%theta)", len(users(0))),
        ("getThetaSketchEstimate(thetaSketchUnion(%theta, %theta1, %theta2))", len(users(0, 1, 2))),
        ("getThetaSketchEstimate(thetaSketchIntersect(%theta, %theta1))", len(users(0) & users(1))),
        ("GET_THETA_SKETCH_ESTIMATE(THETA_SKETCH_DIFF(%theta, %theta1))", len(users(0) - users(1))),
        ("getIntTupleSketchEstimate(intSumTupleSketchUnion(%tuple, %tuple1))", len(users(0, 1))),
        ("getIntTupleSketchEstimate(intMaxTupleSketchIntersect(%tuple, %tuple1))", len(users(0) & users(1))),
        ("getIntTupleSketchEstimate(intSumTupleSketchDiff(%tuple, %tuple1))", len(users(0) - users(1))),
        ("getCpcSketchEstimate(cpcSketchUnion(%cpc, %cpc1))", pytest.approx(len(users(0, 1)), rel=0.05)),
        ("fromULL(%ull)", pytest.approx(len(users(0)), rel=0.05)),
        ("fromULL(%ull) - getThetaSketchEstimate(%theta)", pytest.approx(0, abs=20)),
    ],
)
def test_set_operations_on_aggregates(db: Database, expression: str, expected: Any) -> None:
    calls = {
        "theta": "DISTINCTCOUNTRAWTHETASKETCH(user, '')",
        "tuple": "DISTINCTCOUNTRAWINTEGERSUMTUPLESKETCH(toIntegerSumTupleSketch(user, 1))",
        "cpc": "DISTINCTCOUNTRAWCPCSKETCH(user)",
        "ull": "DISTINCTCOUNTRAWULL(user)",
    }
    for name, call in calls.items():
        for day in ("1", "2", ""):
            expression = expression.replace(f"%{name}{day}", f"{call} FILTER(WHERE day = {day or 0})")
    assert one(db, f"SELECT {expression} FROM visits") == expected
    assert one(db, f"SELECT {expression} AS e FROM visits GROUP BY day * 0 HAVING e >= -20 ORDER BY e") == expected


def test_text_of_a_sketch_is_read_as_the_sketch(db: Database) -> None:
    raw = one(db, "SELECT DISTINCTCOUNTRAWTHETASKETCH(user) FROM visits")
    for text in (raw, base64.b64decode(raw).hex()):
        assert one(db, f"SELECT getThetaSketchEstimate('{text}')") == len(users(0, 1, 2))


def test_counts_agree_with_and_without_filters(db: Database) -> None:
    exact = one(db, "SELECT DISTINCTCOUNT(user) FROM visits")
    for name in ("HLLPLUS", "ULL", "THETASKETCH", "CPCSKETCH", "SMARTHLL", "SMARTULL", "SMARTHLLPLUS", "BITMAP", "OFFHEAP"):
        whole = one(db, f"SELECT DISTINCTCOUNT{name}(user) FROM visits")
        scanned = one(db, f"SELECT DISTINCTCOUNT{name}(user) FROM visits WHERE day >= 0 AND user + 0 > -1")
        assert whole == scanned
        assert abs(whole - exact) <= 0.05 * exact
        assert one(db, f"SELECT DISTINCTCOUNT{name}(tags) FROM visits") == 7
    assert one(db, "SELECT SEGMENTPARTITIONEDDISTINCTCOUNT(user) FROM visits") >= exact


@pytest.mark.parametrize("name", ["HLL", "HLLPLUS", "ULL"])
def test_smart_counts_of_groups_are_exact(db: Database, name: str) -> None:
    call = f"DISTINCTCOUNTSMART{name}(user, 'threshold=10;{'log2m' if name == 'HLL' else 'p'}=4')"
    for nulls in ("", "SET enableNullHandling = true; "):
        assert one(db, f"{nulls}SELECT {call} FROM visits") != len(users(0, 1, 2))
        groups = db.sql(f"{nulls}SELECT day, {call} FROM visits GROUP BY day ORDER BY day").rows()
        assert groups == [(day, len(users(day))) for day in range(3)]


def test_raw_sketches_can_be_stored_and_merged(db: Database) -> None:
    names = ("THETASKETCH", "CPCSKETCH", "ULL", "HLL", "HLLPLUS")
    raw = db.sql(
        "SELECT day, " + ", ".join(f"DISTINCTCOUNTRAW{name}(user)" for name in names) + " FROM visits GROUP BY day"
    ).rows()
    columns: dict[str, Any] = {"day": [row[0] for row in raw]}
    for place, name in enumerate(names, 1):
        read = bytes.fromhex if name.startswith("HLL") else base64.b64decode
        columns[name.lower()] = pa.array([read(row[place]) for row in raw], pa.binary())
    db.create_table("rollup", pa.table(columns))
    for name in names:
        merged = one(db, f"SELECT DISTINCTCOUNT{name}({name}) FROM rollup")
        assert merged == one(db, f"SELECT DISTINCTCOUNT{name}(user) FROM visits")
    common = one(
        db, "SELECT DISTINCTCOUNTTHETASKETCH(thetasketch, '', 'day = 0', 'day = 1', 'SET_INTERSECT($1, $2)') FROM rollup"
    )
    assert common == len(users(0) & users(1))


def test_sums_over_segments_do_not_depend_on_indexes(db: Database) -> None:
    """Few rows of several segments, which an index finds, are read together, but not for these."""
    rows = [pa.table({"user": [1, 2, 3, 3], "day": [1, 1, 1, 2]}), pa.table({"user": [2, 3, 4], "day": [1, 1, 2]})]
    for name, config in (("scanned", {}), ("indexed", {"tableIndexConfig": {"invertedIndexColumns": ["day"]}})):
        db.create_table(name, rows[0], config=config)
        db.append(name, rows[1])
        funnel = "FUNNELCOUNT(STEPS(day = 1, user > 2), CORRELATEBY(user), SETTINGS('partitioned'))"
        for nulls in ("", "SET enableNullHandling = true; "):
            sql = f"SELECT SEGMENTPARTITIONEDDISTINCTCOUNT(user), {funnel} FROM {name} WHERE day = 1"
            assert db.sql(nulls + sql).rows() == [(5, [5, 2])]
            assert db.sql(f"{nulls}{sql} GROUP BY day").rows() == [(5, [5, 2])]


def test_tuple_sketches_take_entries_in_place_of_lg_k(db: Database) -> None:
    sketch = "toIntegerSumTupleSketch(user, 1)"
    parameters = ("14", "'nominalEntries=16384;accumulatorThreshold=2'", "'nominalentries=9000'", "'nominalEntries=32'")
    whole, entries, rounded, few = (
        one(db, f"SELECT DISTINCTCOUNTRAWINTEGERSUMTUPLESKETCH({sketch}, {more}) FROM visits") for more in parameters
    )
    assert whole == entries == rounded
    assert int.from_bytes(base64.b64decode(few)[8:12], "little") == 32


def test_id_sets_select_rows(db: Database) -> None:
    ids = one(db, "SELECT IDSET(user) FROM visits WHERE day = 1 AND user < 40")
    expected = sum(1 for user in _USERS.tolist() if user in {user for user in users(1) if user < 40})
    for condition in (f"inIdSet(user, '{ids}')", f"IN_ID_SET(user, '{ids}') = 1", f"NOT (inIdSet(user, '{ids}') = 0)"):
        assert one(db, f"SELECT COUNT(*) FROM visits WHERE {condition}") == expected
    assert one(db, f"SELECT COUNT(*) FROM visits WHERE NOT inIdSet(user, '{ids}')") == 3000 - expected


def test_log2m_of_hyperloglog_can_be_a_setting_of_the_cluster(db: Database) -> None:
    registry, routing = db._cluster.registry, db._cluster.runner.routing
    setting = "default.hyperloglog.log2m"
    asked = (
        "SELECT DISTINCTCOUNTRAWHLL(user) FROM visits",
        "SELECT day, DISTINCTCOUNTRAWHLL(user) FILTER (WHERE day > 0) AS h FROM visits GROUP BY day HAVING h <> ''",
        "SELECT DISTINCTCOUNTHLLMV(tags), DISTINCTCOUNTRAWHLLMV(tags) FROM visits WHERE day = 1",
        "SELECT DISTINCTCOUNTRAWHLL(user, 5) FROM visits",
    )
    try:
        for log2m in (None, 11, 12, None):
            if log2m is None:
                registry.update_cluster_config({}, frozenset({setting}))
            else:
                registry.update_cluster_config({setting: str(log2m)})
            assert routing.wait_until(lambda wanted=log2m: routing.log2m == wanted, 60)  # type: ignore[misc]
            for _ in range(3):  # the later ones are answered in fewer steps
                found = [int(db.sql(sql).rows()[0][-1][:8], 16) for sql in asked]
                assert found == [log2m or 8, log2m or 8, log2m or 8, 5]
        assert db.sql(asked[2]).columns == ("distinctcounthllmv(tags)", "distinctcountrawhllmv(tags)")
    finally:
        registry.update_cluster_config({}, frozenset({setting}))
