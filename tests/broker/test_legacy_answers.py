"""PQL over HTTP: response shapes as documented, values against DuckDB."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from starlette.testclient import TestClient

from gamay.broker.http.app import BrokerApp
from gamay.embedded.core import LocalCluster
from gamay.embedded.database import connect
from gamay.query.limits.queue import QueryQueue

_FIRST_MEMBERS = ["traceInfo", "numDocsScanned", "aggregationResults", "timeUsedMs", "segmentStatistics", "exceptions"]
_ROWS = 4000


class Flights:
    """A table of two segments, behind the HTTP interface of a broker, and the same rows in DuckDB."""

    def __init__(self, folder: Path) -> None:
        rng = random.Random(5)
        self.table = pa.table(
            {
                "Carrier": [rng.choice(["AA", "VX", "WN", "ua", "Ünï"]) for _ in range(_ROWS)],
                "DaysSinceEpoch": pa.array([16_130 + rng.randrange(60) for _ in range(_ROWS)], pa.int32()),
                "Delay": [rng.randrange(-20, 400) / 4 for _ in range(_ROWS)],
                "Distance": pa.array([rng.randrange(3000) for _ in range(_ROWS)], pa.int64()),
                "DivAirports": [[f"D{rng.randrange(4)}" for _ in range(rng.randrange(1, 4))] for _ in range(_ROWS)],
                "seconds": pa.array([1_393_632_000 + 977 * i for i in range(_ROWS)], pa.int64()),
            }
        )
        with connect(folder) as database:
            database.create_table("flights", self.table.slice(0, 1500))
            database.append("flights", self.table.slice(1500))
        self.cluster = LocalCluster(folder)
        self.cluster.prepare()
        self.cluster.start()
        self.executor = QueryQueue(2)
        self.http = TestClient(BrokerApp(self.cluster.runner, self.executor, lambda: True).asgi())
        self.duck = duckdb.connect(config={"threads": 1})
        self.duck.register("flights", self.table)

    def close(self) -> None:
        self.http.close()
        self.executor.shutdown()
        self.cluster.stop()
        self.duck.close()

    def ask(self, pql: str, **fields: Any) -> dict[str, Any]:
        response = self.http.post("/query", json={"pql": pql, **fields})
        assert response.status_code == 200
        answer: dict[str, Any] = response.json()
        return answer

    def results(self, pql: str, **fields: Any) -> list[dict[str, Any]]:
        answer = self.ask(pql, **fields)
        assert answer["exceptions"] == []
        found: list[dict[str, Any]] = answer["aggregationResults"]
        return found

    def duck_row(self, sql: str) -> tuple[Any, ...]:
        row = self.duck.execute(sql).fetchone()
        assert row is not None
        return tuple(row)


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flights]:
    made = Flights(tmp_path_factory.mktemp("flights"))
    yield made
    made.close()


def test_shape_of_an_aggregation(flights: Flights) -> None:
    answer = flights.ask("select count(*) from flights")
    assert list(answer)[:7] == [*_FIRST_MEMBERS, "totalDocs"]
    assert answer["aggregationResults"] == [{"function": "count_star", "value": str(_ROWS)}]
    assert (answer["traceInfo"], answer["segmentStatistics"], answer["exceptions"]) == ({}, [], [])
    assert answer["totalDocs"] == answer["numDocsScanned"] == _ROWS
    assert answer["numSegmentsQueried"] == answer["numSegmentsMatched"] == 2
    assert "selectionResults" not in answer
    assert "resultTable" not in answer


def test_shape_of_groups(flights: Flights) -> None:
    answer = flights.ask("select count(*) from flights group by Carrier")
    assert list(answer)[:7] == [*_FIRST_MEMBERS, "totalDocs"]
    [result] = answer["aggregationResults"]
    assert list(result) == ["groupByResult", "function", "groupByColumns"]
    assert (result["function"], result["groupByColumns"]) == ("count_star", ["Carrier"])
    wanted = flights.duck.execute("SELECT count(*), Carrier FROM flights GROUP BY 2 ORDER BY 1 DESC").fetchall()
    assert [(list(g), g["value"], g["group"]) for g in result["groupByResult"]] == [
        (["value", "group"], str(n), [carrier]) for n, carrier in wanted
    ]


def test_shape_of_a_selection(flights: Flights) -> None:
    answer = flights.ask("select * from flights limit 3")
    assert list(answer)[:8] == ["selectionResults", *_FIRST_MEMBERS, "totalDocs"]
    assert answer["aggregationResults"] == []
    assert list(answer["selectionResults"]) == ["columns", "results"]
    assert answer["selectionResults"]["columns"] == sorted(flights.table.column_names)
    for row, wanted in zip(answer["selectionResults"]["results"], flights.table.to_pylist(), strict=False):
        carrier, days, delay, distance, airports, seconds = (wanted[name] for name in sorted(wanted))
        assert row == [carrier, str(days), str(delay), str(distance), airports, str(seconds)]


@pytest.mark.parametrize("where", ["", "WHERE Delay < 20", "WHERE Distance > 100000"])
def test_aggregates_agree_with_duckdb(flights: Flights, where: str) -> None:
    pql = (
        "SELECT sum(Distance), min(Delay), max('Delay'), avg(Delay), minmaxrange(Distance), distinctcount(Carrier), "
        f"countmv(DivAirports), sum(add(Delay, Distance)), sum(Delay + Distance * 2) FROM flights {where}"
    )
    *found, infix = flights.results(pql)
    count, *wanted = flights.duck_row(
        "SELECT count(*), sum(Distance), min(Delay), max(Delay), avg(Delay), max(Distance) - min(Distance), "
        "count(DISTINCT Carrier), sum(len(DivAirports)), sum(Delay + Distance), sum((Delay + Distance) * 2) "
        f"FROM flights {where}"
    )
    if count:
        assert [float(result["value"]) for result in found] == pytest.approx([float(v) for v in wanted[:-1]], abs=5e-6)
        assert float(infix["value"]) == wanted[-1]
    else:
        # what PQL answers when no row matches
        assert [result["value"] for result in found] == [
            "0.00000", "Infinity", "-Infinity", "-Infinity", "-Infinity", "0", "0", "0.00000",
        ]  # fmt: skip
    assert [result["function"] for result in found][:3] == ["sum_Distance", "min_Delay", "max_Delay"]


def test_each_aggregate_has_its_own_groups_in_descending_order(flights: Flights) -> None:
    functions = {"min(Delay)": "min(Delay)", "max(Distance)": "max(Distance)", "avg(Delay)": "avg(Delay)"}
    keys = "Carrier, TIMECONVERT(DaysSinceEpoch, 'DAYS', 'HOURS')"
    together = flights.results(f"SELECT {', '.join(functions)} FROM flights GROUP BY {keys} TOP 7")
    for (pql, sql), result in zip(functions.items(), together, strict=True):
        [alone] = flights.results(f"SELECT {pql} FROM flights GROUP BY {keys} TOP 7")
        assert alone == result
        assert result["groupByColumns"] == ["Carrier", "timeconvert(DaysSinceEpoch,'DAYS','HOURS')"]
        groups = flights.duck.execute(f"SELECT Carrier, DaysSinceEpoch * 24, {sql} FROM flights GROUP BY 1, 2").fetchall()
        best = sorted((value for _, _, value in groups), reverse=True)[:7]
        shown = [float(group["value"]) for group in result["groupByResult"]]
        assert shown == pytest.approx(best, abs=5e-6)
        by_key = {(carrier, str(hours)): value for carrier, hours, value in groups}
        for group in result["groupByResult"]:
            assert float(group["value"]) == pytest.approx(by_key[tuple(group["group"])], abs=5e-6)


@pytest.mark.parametrize(
    ("pql", "sql"),
    [
        ("regexp_like(Carrier, '^A') OR regexp_like(Carrier, 'UA$')", "Carrier IN ('AA', 'ua')"),
        ('Carrier = "AA" AND Distance BETWEEN 100 AND 500', "Carrier = 'AA' AND Distance BETWEEN 100 AND 500"),
        ("Carrier NOT IN ('AA', 'Ünï') AND 10 > Delay", "Carrier NOT IN ('AA', 'Ünï') AND Delay < 10"),
        ("DivAirports = 'D1'", "list_contains(DivAirports, 'D1')"),
        ("DivAirports <> 'D1'", "NOT list_contains(DivAirports, 'D1')"),
        ("Distance = '17' OR Distance >= 2990", "Distance = 17 OR Distance >= 2990"),
        ("div(Distance, 2) > 1400", "Distance / 2 > 1400"),
    ],
)
def test_filters_agree_with_duckdb(flights: Flights, pql: str, sql: str) -> None:
    [result] = flights.results(f"SELECT count(*) FROM flights WHERE {pql}")
    assert result["value"] == str(flights.duck_row(f"SELECT count(*) FROM flights WHERE {sql}")[0])


def test_having_comes_before_top(flights: Flights) -> None:
    [result] = flights.results(
        "SELECT sum(Distance) FROM flights GROUP BY DaysSinceEpoch "
        "HAVING count(*) < 60 AND max(Delay) BETWEEN 90 AND 99 TOP 5"
    )
    wanted = flights.duck.execute(
        "SELECT sum(Distance), DaysSinceEpoch FROM flights GROUP BY 2 HAVING count(*) < 60 AND max(Delay) BETWEEN 90 AND 99 "
        "ORDER BY 1 DESC LIMIT 5"
    ).fetchall()
    shown = [(group["value"], group["group"]) for group in result["groupByResult"]]
    assert shown == [(f"{total}.00000", [str(day)]) for total, day in wanted]


def test_multi_value_keys(flights: Flights) -> None:
    pql = "SELECT count(*) FROM flights WHERE DivAirports = 'D2' GROUP BY VALUEIN(DivAirports, 'D2', 'D3')"
    [result] = flights.results(pql)
    wanted = flights.duck.execute(
        "SELECT count(*) AS n, airport FROM (SELECT unnest(DivAirports) AS airport FROM flights "
        "WHERE list_contains(DivAirports, 'D2')) WHERE airport IN ('D2', 'D3') GROUP BY 2 ORDER BY 1 DESC"
    ).fetchall()
    assert [(g["value"], g["group"]) for g in result["groupByResult"]] == [(str(n), [airport]) for n, airport in wanted]


def test_pages_of_a_selection(flights: Flights) -> None:
    answer = flights.ask(
        "SELECT Carrier, seconds FROM flights WHERE Delay > 50 ORDER BY Distance DESC, seconds LIMIT 50, 20"
    )
    wanted = flights.duck.execute(
        "SELECT Carrier, seconds FROM flights WHERE Delay > 50 ORDER BY Distance DESC, seconds LIMIT 20 OFFSET 50"
    ).fetchall()
    assert answer["selectionResults"]["results"] == [[carrier, str(seconds)] for carrier, seconds in wanted]


def test_nothing_found(flights: Flights) -> None:
    [result] = flights.results("SELECT max(Delay) FROM flights WHERE Distance < 0 GROUP BY Carrier")
    assert result == {"groupByResult": [], "function": "max_Delay", "groupByColumns": ["Carrier"]}
    answer = flights.ask("SELECT Carrier FROM flights WHERE Distance < 0")
    assert answer["selectionResults"] == {"columns": ["Carrier"], "results": []}
    assert flights.ask("SELECT Carrier FROM flights LIMIT 0")["selectionResults"]["results"] == []


def test_preserve_type(flights: Flights) -> None:
    for fields in ({"queryOptions": "preserveType=true"}, {"debugOptions": "preserveType=true"}):
        [total] = flights.results("SELECT sum(Distance) FROM flights", **fields)
        assert total["value"] == float(flights.duck_row("SELECT sum(Distance) FROM flights")[0])
    answer = flights.ask("SELECT Delay, Distance, DivAirports FROM flights LIMIT 1 OPTION(preserveType=true)")
    first = flights.table.to_pylist()[0]
    assert answer["selectionResults"]["results"] == [[first["Delay"], first["Distance"], first["DivAirports"]]]
    [groups] = flights.results("SELECT sum(Delay) FROM flights GROUP BY DaysSinceEpoch OPTION(preserveType=true)")
    assert isinstance(groups["groupByResult"][0]["value"], float)
    assert isinstance(groups["groupByResult"][0]["group"][0], str)


def test_sql_shape(flights: Flights) -> None:
    options = "groupByMode=sql;responseFormat=sql"
    answer = flights.ask(
        "SELECT count(*), max(Delay) FROM flights GROUP BY Carrier ORDER BY Carrier TOP 2", queryOptions=options
    )
    wanted = flights.duck.execute(
        "SELECT Carrier, count(*), max(Delay) FROM flights GROUP BY 1 ORDER BY 1 LIMIT 2"
    ).fetchall()
    assert answer["resultTable"]["dataSchema"]["columnNames"] == ["Carrier", "count(*)", "max(Delay)"]
    assert [tuple(row) for row in answer["resultTable"]["rows"]] == wanted
    assert "aggregationResults" not in answer


def test_groups_in_one_order(flights: Flights) -> None:
    results = flights.results("SELECT count(*), min(Delay) FROM flights GROUP BY Carrier", queryOptions="groupByMode=sql")
    orders = [[group["group"] for group in result["groupByResult"]] for result in results]
    assert orders[0] == orders[1]
    counts = [int(group["value"]) for group in results[0]["groupByResult"]]
    assert counts == sorted(counts, reverse=True)


def test_text_in_the_url(flights: Flights) -> None:
    wanted = [{"function": "count_star", "value": str(_ROWS)}]
    for name in ("pql", "bql"):
        answer = flights.http.get("/query", params={name: "select count(*) from flights"})
        assert answer.json()["aggregationResults"] == wanted


def test_sql_is_still_answered_there(flights: Flights) -> None:
    answer = flights.http.post("/query", json={"sql": "SELECT count(*) FROM flights"}).json()
    assert answer["resultTable"]["rows"] == [[_ROWS]]
    assert flights.http.post("/query/sql", json={"pql": "select count(*) from flights"}).status_code == 400
    assert flights.http.post("/query", json={"pql": 5}).status_code == 400


@pytest.mark.parametrize(
    ("sql", "options", "rows"),
    [
        ("SELECT Carrier FROM flights", "", _ROWS),
        ("SELECT Carrier FROM flights", ";timeoutMs=5000", _ROWS),
        ("SELECT Carrier FROM flights LIMIT 3", "", 3),
        ("SET useMultistageEngine = false; SELECT Carrier FROM flights", "", 10),
        ("SELECT Carrier FROM flights OPTION(useMultistageEngine=false)", "", 10),
        ("SELECT Carrier FROM flights", "timeoutMs=5000; USEMULTISTAGEENGINE = false", 10),
    ],
)
def test_sql_has_no_limit_there_but_its_own(flights: Flights, sql: str, options: str, rows: int) -> None:
    """Clients that ask /query ask Pinot's other engine, which has no default LIMIT, and must not lose rows here."""
    answer = flights.http.post("/query", json={"sql": sql, "queryOptions": options}).json()
    assert (answer["exceptions"], answer["numRowsResultSet"]) == ([], rows)
    if not options:
        assert flights.http.get("/query", params={"sql": sql}).json()["numRowsResultSet"] == rows
    assert flights.http.post("/query/sql", json={"sql": sql, "queryOptions": options}).json()["numRowsResultSet"] == min(
        rows, 10
    )


@pytest.mark.parametrize(
    ("pql", "code", "message"),
    [
        ("SELECT count(*) FORM flights", 150, "expected FROM after the columns"),
        ("SELECT count(*) FROM nowhere", 190, "nowhere"),
        ("SELECT sum(Delays) FROM flights", 710, "Did you mean 'Delay'"),
        ("SELECT sum(Carrier) FROM flights", 700, "sum"),
        ("SELECT count(*) FROM flights WHERE Distance = 'x'", 700, "x"),
    ],
)
def test_errors(flights: Flights, pql: str, code: int, message: str) -> None:
    answer = flights.ask(pql)
    [problem] = answer["exceptions"]
    assert problem["errorCode"] == code
    assert message in problem["message"]
    assert "aggregationResults" not in answer
    assert answer["numDocsScanned"] == 0
    response = flights.http.post("/query", json={"pql": pql}, headers={"Pinot-Use-Http-Status-For-Errors": "true"})
    assert response.status_code in (400, 404)
    assert response.headers["X-Pinot-Error-Code"] == str(code)


def test_options_that_cannot_be(flights: Flights) -> None:
    for fields in ({"queryOptions": "nonsense"}, {"debugOptions": "nonsense"}, {"queryOptions": "timeoutMs=soon"}):
        assert flights.ask("SELECT count(*) FROM flights", **fields)["exceptions"][0]["errorCode"] == 150
