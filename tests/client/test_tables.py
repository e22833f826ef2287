"""Queries composed in Python, and profiles of columns, in process and on a cluster."""

import datetime as dt
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gamay
from gamay.client import Connection
from gamay.client.tables import Expression, Table, call, col, count, raw
from gamay.client.tables.profile import profile
from gamay.embedded import Database, EmbeddedCluster

FRAME = pd.DataFrame(
    {
        "city": ["Oslo", "Lima", "Oslo", None, "O'Fallon"] * 20,
        "fare": np.linspace(-5, 20, 100),
        "rides": np.arange(100) % 7,
        "order": np.arange(100) // 50,
    }
)


@pytest.fixture(scope="module")
def db() -> Iterator[Database]:
    with gamay.connect(":memory:", threads=1) as opened:
        opened.create_table("trips", FRAME)
        yield opened


@pytest.fixture(scope="module")
def trips(db: Database) -> Table:
    return db.table("trips")


def test_a_chain_is_one_flat_query(trips: Table) -> None:
    query = trips.filter(trips.fare > 5, trips.city.isin(["Oslo", "x' OR 1=1 --"])).group_by("city")
    query = query.agg(n=count(), fares=trips.fare.sum()).filter(count() > 1).order_by("-n", trips.city).limit(3, 0)
    assert query.sql == (
        'SELECT "city" AS "city", COUNT(*) AS "n", SUM("fare") AS "fares" FROM "trips" '
        "WHERE (\"fare\" > 5) AND (\"city\" IN ('Oslo', 'x'' OR 1=1 --')) GROUP BY \"city\" HAVING (COUNT(*) > 1) "
        'ORDER BY "n" DESC, "city" LIMIT 3'
    )
    expected = FRAME[(FRAME.fare > 5) & (FRAME.city == "Oslo")]
    assert query.rows() == [("Oslo", len(expected), pytest.approx(expected.fare.sum()))]


CONDITIONS: list[tuple[Callable[[Table], Expression], Callable[[pd.DataFrame], Any]]] = [
    (lambda t: t.fare * 2 - 1 >= 3, lambda f: f.fare * 2 - 1 >= 3),
    (lambda t: 10 - t.fare < t.rides, lambda f: 10 - f.fare < f.rides),
    (lambda t: t.city == "O'Fallon", lambda f: f.city == "O'Fallon"),
    (lambda t: t.city.is_null(), lambda f: f.city.isna()),
    (lambda t: t.city != None, lambda f: f.city.notna()),  # noqa: E711 - as SQL's IS NOT NULL
    (lambda t: t["order"].between(1, 2), lambda f: f["order"].between(1, 2)),
    (lambda t: t.city.like("%l%"), lambda f: f.city.str.contains("l", case=False, na=False)),
    (lambda t: t.rides.isin([1, 3]), lambda f: f.rides.isin([1, 3])),
    (lambda t: t.rides.isin([]), lambda f: f.rides < 0),
    (lambda t: (-t.rides + 2) / 2 <= 0, lambda f: (-f.rides + 2) / 2 <= 0),
]


_OF_NULLS = (2, 6)  # with a null they are neither true nor false, nor is their NOT


@given(st.lists(st.tuples(st.integers(0, len(CONDITIONS) - 1), st.sampled_from("&|~")), min_size=1, max_size=4))
def test_conditions_are_those_of_pandas(trips: Table, parts: list[tuple[int, str]]) -> None:
    ours, theirs = trips.fare == trips.fare, FRAME.fare == FRAME.fare
    for number, operator in parts:
        make, expect = CONDITIONS[number]
        if operator == "&":
            ours, theirs = ours & make(trips), theirs & expect(FRAME)
        elif operator == "|":
            ours, theirs = ours | make(trips), theirs | expect(FRAME)
        elif number not in _OF_NULLS:
            ours, theirs = ours & ~make(trips), theirs & ~expect(FRAME)
    assert trips.filter(ours).count() == int(theirs.sum())


def test_steps(trips: Table) -> None:
    assert len(trips.rows()) == 100  # no LIMIT, no cut
    assert trips.select("rides", twice=trips.rides * 2).order_by("-twice").limit(1).rows() == [(6, 12)]
    assert sorted(trips.group_by("order").rows()) == [(0,), (1,)]
    assert trips.agg(trips.city.nunique().as_("n"), trips.fare.mean().as_("m")).rows() == [(3, pytest.approx(7.5))]
    by_upper = trips.group_by(up=call("upper", trips.city)).agg(n=count()).order_by(count().desc()).limit(1)
    assert by_upper.rows() == [("OSLO", 40)]
    assert trips.filter(raw("MOD(rides, 7) = 0")).count() == 15
    assert list(trips.limit(2).to_pandas().columns) == list(trips.limit(2).to_polars().columns) == sorted(FRAME.columns)
    assert "<table>" in trips._repr_html_()
    assert trips.columns["city"] == "STRING"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda t: t.filter("fare > 5"), "a condition is an expression"),
        (lambda t: t.agg(n=t.fare), "is no aggregate"),
        (lambda t: t.select("city").agg(n=count()), "are chosen already"),
        (lambda t: t.limit(-1), "a whole number from 0"),
        (lambda t: t.limit(3).filter(t.fare > 1), "filter must come before limit"),
        (lambda t: t.filter(t.fare > 1 and t.fare < 2), "with &, | and ~"),
        (lambda t: t["fair"], "Did you mean 'fare'?"),
        (lambda t: t.group_by("fair"), "Did you mean 'fare'?"),
        (lambda t: call("x) --", 1), "is called by its name"),
        (lambda t: col(""), "a column is named by a text"),
    ],
)
def test_what_is_wrong_is_told_at_once(trips: Table, wrong: Callable[[Table], object], message: str) -> None:
    with pytest.raises(gamay.GamayError, match=message.replace("|", r"\|").replace("?", r"\?")):
        wrong(trips)
    with pytest.raises(AttributeError, match="Did you mean 'fare'"):
        _ = trips.fair


def test_a_profile_tells_what_is_in_each_column() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "n": pd.array(np.where(np.arange(1000) % 10 == 0, None, rng.integers(0, 50, 1000)), "Int64"),
            "x": rng.normal(size=1000),
            "s": rng.choice(["a", "b", "c"], 1000, p=[0.6, 0.3, 0.1]),
            "same": 5,
        }
    )
    table = pa.Table.from_pandas(frame).append_column("at", pa.array(range(0, 10**9, 10**6), pa.timestamp("ms")))
    table = table.append_column("tags", pa.array([["p", "q"], []] * 500)).append_column("raw", pa.array([b"\x01"] * 1000))
    asked: list[str] = []
    with gamay.connect(":memory:", threads=1) as db:
        db.create_table("t", table)

        def ask(sql: str) -> Any:
            asked.append(sql)
            return db.sql(sql)

        found = profile(ask, "t")
        narrowed = db.profile("t", ["n"], where=col("s") == "a")
        assert narrowed.num_rows == int((frame.s == "a").sum())
        with pytest.raises(gamay.NotFoundError, match="Did you mean 'same'"):
            db.profile("t", ["sam"])
    assert found.num_rows == 1000
    n = found["n"]
    assert (n.nulls, n.least, n.most) == (100, frame.n.min(), frame.n.max())
    assert n.mean == pytest.approx(frame.n.mean())
    assert n.distinct == pytest.approx(frame.n.nunique(), rel=0.1)
    assert sum(n.histogram) == 900
    assert list(found["x"].histogram) == list(np.histogram(frame.x, bins=12)[0])
    assert dict(found["s"].top) == frame.s.value_counts().to_dict()
    assert (found["s"].least, found["s"].most) == ("a", "c")
    assert (found["same"].histogram, found["same"].top) == ((), ((5, 1000),))
    assert found["at"].least == dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    assert found["tags"].type == "STRING[]"
    assert found["raw"].distinct is None
    assert len(asked) <= 2 + 2 + len(found.columns)
    assert "n " in str(found)
    assert "<table>" in found._repr_html_()


def test_a_cluster_is_asked_alike(cluster: EmbeddedCluster) -> None:
    with Connection.from_controller(cluster.controller_url) as connection:
        every = connection.table("every")
        assert every.filter(every.c_int > 0).count() == 1
        assert every.select("c_int").order_by("c_int").rows() == [(-7,), (8,)]
        found = connection.profile("every", ["c_int", "c_big_decimal", "c_boolean", "mv_int", "c_uuid"])
        assert found["c_int"].nulls == 0
        assert found["c_big_decimal"].nulls == 1
