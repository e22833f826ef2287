"""How many dashboard joins per second one process answers over HTTP, and how long they take.

    python -m benchmarks.http_joins [--rows 1000000] [--seconds 5] [--connections 4]

The tables of the Star Schema Benchmark (`benchmarks.ssb`), loaded by `benchmarks.wrk`: every query has literals of its own.
"""

import argparse
from pathlib import Path

import gamay
from benchmarks import report, ssb
from benchmarks.wrk import loaded_cluster, script

FOLDER = Path(__file__).resolve().parent.parent / "build" / "bench" / "http_joins"
QUERIES = {
    "revenue by nation, one region and week": "SELECT c_nation, COUNT(*), SUM(lo_revenue) FROM lineorder "
    "JOIN customer ON lo_custkey = c_custkey WHERE lo_orderdate BETWEEN {day} AND {day} + 6 AND c_region = '{region}' "
    "GROUP BY c_nation ORDER BY c_nation",
    "revenue by year of one supplier": "SELECT d_year, SUM(lo_revenue) FROM lineorder "
    "JOIN date_dim ON lo_orderdate = d_datekey WHERE lo_suppkey = {supplier} GROUP BY d_year ORDER BY d_year",
    "orders by region of suppliers, one brand": "SELECT s_region, COUNT(*) FROM lineorder "
    "JOIN supplier ON lo_suppkey = s_suppkey JOIN part ON lo_partkey = p_partkey "
    "WHERE p_brand = 'MFGR#{maker}{category}{brand}' GROUP BY s_region ORDER BY s_region",
    "latest orders with their customers": "SELECT lo_orderdate, c_city, lo_revenue FROM lineorder "
    "JOIN customer ON lo_custkey = c_custkey WHERE lo_partkey = {part} ORDER BY lo_orderdate DESC, lo_revenue LIMIT 10",
}
SHAPES = {"http_joins": report.Shape(("query", "queries/s", "p50", "p99", "µs of processor"), tuple(QUERIES))}
_VALUES = """
  local regions = {{"AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"}}
  local values = {{
    day = 10000 * math.random(1992, 1998) + 100 * math.random(1, 12) + math.random(1, 22), region = regions[math.random(5)],
    supplier = math.random(1, {suppliers}), part = math.random(1, {parts}),
    maker = math.random(1, 5), category = math.random(1, 5), brand = math.random(1, 40),
  }}
"""


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=4)
    arguments = report.arguments_of(parser)
    folder = FOLDER / str(arguments.rows)
    if not folder.exists():
        with gamay.connect(folder) as db:
            for name, rows in ssb.tables(arguments.rows, 1):
                db.create_table(name, rows)
    values = _VALUES.format(suppliers=max(arguments.rows // 3000, 50), parts=max(arguments.rows // 30, 200))
    found = report.Report("http_joins", SHAPES["http_joins"])
    with loaded_cluster(folder, arguments.seconds, arguments.connections) as cluster:
        for name, sql in QUERIES.items():
            found.add(name, *cluster.measure(script(sql, values)).cells())
    found.finish(writes=arguments.write_docs)


if __name__ == "__main__":
    main()
