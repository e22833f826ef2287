"""The 22 queries of TPC-H on eight joined tables, against DuckDB: answers compared, then the times of each side by side.

    python -m benchmarks.tpch [--scale 1] [--threads 2] [--write-docs]

Decimals are doubles on both sides.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import report
from benchmarks.joins import compare, shape

TABLES = ("region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem")

SHAPES = {"tpch": shape("tpch.sql")}


def tables(scale: float) -> Iterator[tuple[str, pa.Table]]:
    """Generate the tables, with doubles for decimals and plain texts."""
    with tempfile.TemporaryDirectory() as folder:
        generator = Path(sys.executable).with_name("tpchgen-cli")
        subprocess.run([generator, "parquet", "-s", str(scale), "--output-dir", folder], check=True, capture_output=True)
        for name in TABLES:
            yield name, _plain(pq.read_table(f"{folder}/{name}.parquet"))


def _plain(table: pa.Table) -> pa.Table:
    fields = []
    for field in table.schema:
        kind = pa.float64() if pa.types.is_decimal(field.type) else field.type
        fields.append(pa.field(field.name, pa.string() if pa.types.is_string_view(kind) else kind))
    return table.cast(pa.schema(fields))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--threads", type=int, default=2)
    arguments = report.arguments_of(parser)
    found = compare("tpch", SHAPES["tpch"], "tpch.sql", tables(arguments.scale), arguments.threads)
    found.finish(writes=arguments.write_docs)


if __name__ == "__main__":
    main()
