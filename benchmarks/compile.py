"""How long parsing and binding a query takes: new, known, and with a megabyte of IN list.

    python -m benchmarks.compile [--runs 200]

"new" parses, checks and rewrites a text of a shape that was not seen before; "known" is one of a cached shape with other
literals; binding to a schema is not part of either. Beside them sqlglot (Gamay uses its parser, not its lexer), and
`json_serialize_sql` of DuckDB, which parses and writes the tree as JSON. Processor time, the least of the runs.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial

import duckdb
import sqlglot

from benchmarks import report
from gamay.sql.parser import PlanCache, parse_query

QUERIES = {
    "point look-up": "SELECT country, page FROM visits WHERE memberId = {}",
    "filtered groups": "SELECT country, COUNT(*), SUM(page) FROM visits WHERE day >= {} AND page IN (3, 5, 8) "
    "GROUP BY country HAVING COUNT(*) > 10 ORDER BY COUNT(*) DESC LIMIT 20",
    "expressions": "SELECT CASE WHEN page > 5 THEN 'a' ELSE country END AS k, AVG(ms / 1000.0), MAX(ms) FROM visits "
    "WHERE (country = 'no' OR country LIKE 'd%') AND NOT page BETWEEN 3 AND {} GROUP BY k ORDER BY k",
}
LONG_LIST = "1 MB of IN list (86,000 numbers)"
SHAPES = {"compile": report.Shape(("query", "new", "known", "sqlglot", "DuckDB"), (*QUERIES, LONG_LIST))}


def _least_s(run: Callable[[int], object], runs: int) -> float:
    times = []
    for number in range(runs):
        started = time.process_time_ns()
        run(number)
        times.append(time.process_time_ns() - started)
    return min(times) / 1e9


def _texts(query: str) -> Callable[[int], str]:
    return lambda number: query.format(number + 1000)


def _long_list(number: int) -> str:
    return f"SELECT country FROM visits WHERE memberId IN ({', '.join(str(10**9 + i) for i in range(number, 87_000))})"


def _new(text: Callable[[int], str], number: int) -> object:
    return parse_query(text(number), plans=PlanCache())


def _known(plans: PlanCache, text: Callable[[int], str], number: int) -> object:
    return parse_query(text(number), plans=plans)


def _sqlglot(text: Callable[[int], str], number: int) -> object:
    return sqlglot.parse_one(text(number))


def _duckdb(connection: duckdb.DuckDBPyConnection, text: Callable[[int], str], number: int) -> object:
    return connection.execute("SELECT length(json_serialize_sql(?))", [text(number)]).fetchall()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    arguments = report.arguments_of(parser)
    runs: int = arguments.runs
    connection = duckdb.connect(config={"threads": 1})
    found = report.Report("compile", SHAPES["compile"])
    cases = [(name, _texts(query), runs) for name, query in QUERIES.items()]
    for name, text, times in [*cases, (LONG_LIST, _long_list, 5)]:
        subjects = (
            partial(_new, text),
            partial(_known, PlanCache(), text),
            partial(_sqlglot, text),
            partial(_duckdb, connection, text),
        )
        found.add(name, *(f"{_least_s(subject, times) * 1000:.3f}" for subject in subjects))
    found.finish(writes=arguments.write_docs)


if __name__ == "__main__":
    main()
