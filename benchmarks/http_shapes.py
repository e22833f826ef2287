"""How many small queries of six shapes one process answers over HTTP, and the processor time of each.

    python -m benchmarks.http_shapes [--scale 0.17] [--segments 3] [--seconds 5] [--connections 16] [--usual-way]

TPC-H joined to one wide table (`benchmarks.flat`), about a million rows of it, in segments sorted by the ship date, with
inverted indexes of its keys and a star-tree, loaded by `benchmarks.wrk`.
"""

import argparse
from pathlib import Path
from typing import Any

import gamay
from benchmarks import report
from benchmarks.flat import flat
from benchmarks.wrk import loaded_cluster, script

FOLDER = Path(__file__).resolve().parent.parent / "build" / "bench" / "http_shapes"
# of dbgen: ship dates lie from 1992-01-02 on, every third customer has no order, order keys use 8 numbers of 32
_FIRST_DAY_MS = 694_310_400_000
_DAY_MS = 86_400_000
_DAYS = 2_500
_CUSTOMERS, _ORDERS, _PARTS = 150_000, 1_500_000, 200_000

TREE = {
    "dimensionsSplitOrder": ["region", "nation", "c_mktsegment", "l_shipmode"],
    "functionColumnPairs": ["COUNT__*", "SUM__l_extendedprice"],
    "maxLeafRecords": 1,
}
CONFIG: dict[str, Any] = {
    "segmentsConfig": {"timeColumnName": "l_shipdate", "replication": "1"},
    "tableIndexConfig": {
        "sortedColumn": ["l_shipdate"],
        "invertedIndexColumns": ["o_custkey", "l_orderkey", "l_partkey"],
        "starTreeIndexConfigs": [TREE],
    },
}

QUERIES = {
    "`COUNT`, `SUM` of one part": "SELECT COUNT(*), SUM(l_extendedprice) FROM flat WHERE l_partkey = {part}",
    "rows of one order": "SELECT l_linenumber, l_partkey, l_quantity, l_extendedprice, l_shipmode FROM flat "
    "WHERE l_orderkey = {order}",
    "latest 10 rows of one customer": "SELECT l_shipdate, l_orderkey, l_extendedprice FROM flat "
    "WHERE o_custkey = {customer} ORDER BY l_shipdate DESC, l_orderkey LIMIT 10",
    "`COUNT`, `SUM` by mode of one customer": "SELECT l_shipmode, COUNT(*), SUM(l_extendedprice) FROM flat "
    "WHERE o_custkey = {customer} GROUP BY l_shipmode ORDER BY l_shipmode",
    "`COUNT`, `SUM` by flag of 7 days": "SELECT l_returnflag, COUNT(*), SUM(l_quantity) FROM flat "
    "WHERE l_shipdate >= {day} AND l_shipdate < {day7} GROUP BY l_returnflag ORDER BY l_returnflag",
    "`COUNT`, `SUM` by nation, of a star-tree": "SELECT nation, COUNT(*), SUM(l_extendedprice) FROM flat "
    "WHERE c_mktsegment = '{market}' AND region = '{region}' GROUP BY nation ORDER BY nation",
}
SHAPES = {"http_shapes": report.Shape(("query", "queries/s", "p50", "p99", "µs of processor"), tuple(QUERIES))}
_VALUES = """
  local regions = {{"AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"}}
  local markets = {{"AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY"}}
  local day = {first} + {day} * math.random(0, {days})
  local order = math.random(0, {orders} - 1)
  local values = {{
    day = string.format("%d", day), day7 = string.format("%d", day + 7 * {day}), part = math.random(1, {parts}),
    customer = math.random(1, {customers}), order = 32 * math.floor(order / 8) + order % 8,
    region = regions[math.random(5)], market = markets[math.random(5)],
  }}
"""
_PAST_THE_RAW_PARSER = 'wrk.headers["Database"] = "default"'


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--scale", type=float, default=0.17)
    parser.add_argument("--segments", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument(
        "--usual-way", action="store_true", help="send a header that the raw parser leaves to the web framework"
    )
    arguments = report.arguments_of(parser)
    folder = FOLDER / f"{arguments.scale}-{arguments.segments}"
    if not folder.exists():
        make_table(folder, arguments.scale, arguments.segments)
    values = values_of(arguments.scale)
    found = report.Report("http_shapes", SHAPES["http_shapes"])
    with loaded_cluster(folder, arguments.seconds, arguments.connections) as cluster:
        for name, sql in QUERIES.items():
            text = script(sql, values, _PAST_THE_RAW_PARSER if arguments.usual_way else "")
            found.add(name, *cluster.measure(text).cells())
    found.finish(writes=arguments.write_docs)


def make_table(folder: Path, scale: float, segments: int) -> None:
    """Create the table, its rows in the order of the ship date, so that each segment covers a separate period."""
    ((_, rows),) = flat(scale)
    size = -(-rows.num_rows // segments)
    with gamay.connect(folder) as db:
        db.create_table("flat", rows.slice(0, size), config=CONFIG)
        for first in range(size, rows.num_rows, size):
            db.append("flat", rows.slice(first, size))


def values_of(scale: float) -> str:
    """Return the Lua code that draws the literals of queries."""
    return _VALUES.format(
        first=_FIRST_DAY_MS,
        day=_DAY_MS,
        days=_DAYS,
        parts=int(_PARTS * scale),
        customers=int(_CUSTOMERS * scale),
        orders=int(_ORDERS * scale),
    )


if __name__ == "__main__":
    main()
