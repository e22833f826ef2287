"""TPC-H joined to one wide table without index or config, and 18 queries that the engine was not tuned for.

    python -m benchmarks.flat [--scale 1] [--threads 2] [--write-docs]

Answers are compared with DuckDB's, then the times of each side by side. Rows lie in the order of the ship date; decimals are
doubles and dates milliseconds on both sides.
"""

import argparse
from collections.abc import Iterator

import duckdb
import pyarrow as pa

from benchmarks import report
from benchmarks.joins import compare, shape
from benchmarks.tpch import tables

SHAPES = {"flat": shape("flat.sql", in_cpu_time=False)}
_SQL = """
SELECT l_orderkey, l_partkey, l_suppkey, l_linenumber, l_quantity, l_extendedprice, l_discount, l_tax, l_returnflag,
    l_linestatus, epoch_ms(l_shipdate::TIMESTAMP) AS l_shipdate, l_shipmode, l_comment, o_custkey, o_orderstatus,
    o_totalprice, o_orderpriority, o_clerk, c_mktsegment, n_name AS nation, r_name AS region, p_brand, p_type, p_size,
    p_container
FROM lineitem JOIN orders ON l_orderkey = o_orderkey JOIN customer ON o_custkey = c_custkey
    JOIN nation ON c_nationkey = n_nationkey JOIN region ON n_regionkey = r_regionkey JOIN part ON l_partkey = p_partkey
ORDER BY l_shipdate, l_orderkey, l_linenumber
"""


def flat(scale: float) -> Iterator[tuple[str, pa.Table]]:
    """Yield the wide table."""
    with duckdb.connect(":memory:") as duck:
        for name, rows in tables(scale):
            duck.register(name, rows)
        yield "flat", duck.sql(_SQL).to_arrow_table()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--threads", type=int, default=2)
    arguments = report.arguments_of(parser)
    compare("flat", SHAPES["flat"], "flat.sql", flat(arguments.scale), arguments.threads).finish(writes=arguments.write_docs)


if __name__ == "__main__":
    main()
