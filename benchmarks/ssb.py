"""The 13 queries of the Star Schema Benchmark as joins of five tables, against DuckDB, without star-trees.

    python -m benchmarks.ssb

The rows are drawn here, in the shape of the benchmark: one of lineorder in 200 has a customer, one in 3,000 a supplier, one
in 30 a part of its own.
"""

import argparse
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import report
from benchmarks.joins import compare, shape

_NATIONS = {
    "AFRICA": ("ALGERIA", "ETHIOPIA", "KENYA", "MOROCCO", "MOZAMBIQUE"),
    "AMERICA": ("ARGENTINA", "BRAZIL", "CANADA", "PERU", "UNITED STATES"),
    "ASIA": ("CHINA", "INDIA", "INDONESIA", "JAPAN", "VIETNAM"),
    "EUROPE": ("FRANCE", "GERMANY", "ROMANIA", "RUSSIA", "UNITED KINGDOM"),
    "MIDDLE EAST": ("EGYPT", "IRAN", "IRAQ", "JORDAN", "SAUDI ARABIA"),
}
_PLACES = [
    (f"{nation[:9]:9}{city}", nation, region) for region, own in _NATIONS.items() for nation in own for city in range(10)
]
_FIRST_DAY, _DAYS = date(1992, 1, 1), 2557

SHAPES = {"ssb": shape("ssb.sql", in_cpu_time=False)}


def tables(num_rows: int, seed: int) -> Iterator[tuple[str, pa.Table]]:
    """Generate the tables; the keys of lineorder are uniformly distributed."""
    rng = np.random.default_rng(seed)
    sizes = {"customer": max(num_rows // 200, 100), "supplier": max(num_rows // 3000, 50), "part": max(num_rows // 30, 200)}
    days = [_FIRST_DAY + timedelta(day) for day in range(_DAYS)]
    keys = np.array([int(f"{day:%Y%m%d}") for day in days], np.int32)
    yield (
        "date_dim",
        pa.table(
            {
                "d_datekey": keys,
                "d_year": pa.array([day.year for day in days], pa.int32()),
                "d_yearmonthnum": pa.array([day.year * 100 + day.month for day in days], pa.int32()),
                "d_yearmonth": [f"{day:%b%Y}" for day in days],
                "d_weeknuminyear": pa.array([(day.timetuple().tm_yday - 1) // 7 + 1 for day in days], pa.int32()),
            }
        ),
    )
    for name, letter in (("customer", "c"), ("supplier", "s")):
        yield name, pa.table(_people(rng, letter, f"{letter}_{name[:4]}key", sizes[name]))
    kinds = rng.integers(0, 1000, sizes["part"])
    yield (
        "part",
        pa.table(
            {
                "p_partkey": np.arange(1, sizes["part"] + 1, dtype=np.int32),
                "p_mfgr": [f"MFGR#{kind // 200 + 1}" for kind in kinds],
                "p_category": [f"MFGR#{kind // 200 + 1}{kind // 40 % 5 + 1}" for kind in kinds],
                "p_brand": [f"MFGR#{kind // 200 + 1}{kind // 40 % 5 + 1}{kind % 40 + 1}" for kind in kinds],
            }
        ),
    )
    price, discount = rng.integers(90_000, 10_500_000, num_rows), rng.integers(0, 11, num_rows)
    yield (
        "lineorder",
        pa.table(
            {
                "lo_orderdate": np.sort(rng.choice(keys, num_rows)),
                "lo_custkey": rng.integers(1, sizes["customer"] + 1, num_rows, np.int32),
                "lo_suppkey": rng.integers(1, sizes["supplier"] + 1, num_rows, np.int32),
                "lo_partkey": rng.integers(1, sizes["part"] + 1, num_rows, np.int32),
                "lo_quantity": rng.integers(1, 51, num_rows, np.int32),
                "lo_discount": discount.astype(np.int32),
                "lo_extendedprice": price,
                "lo_revenue": price * (100 - discount) // 100,
                "lo_supplycost": rng.integers(50_000, 130_000, num_rows),
            }
        ),
    )


def _people(rng: np.random.Generator, letter: str, key: str, num_rows: int) -> dict[str, Any]:
    chosen = [_PLACES[place] for place in rng.integers(0, len(_PLACES), num_rows)]
    columns = {f"{letter}_{name}": [place[i] for place in chosen] for i, name in enumerate(("city", "nation", "region"))}
    return {key: np.arange(1, num_rows + 1, dtype=np.int32), **columns}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=8_000_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    arguments = report.arguments_of(parser)
    found = compare("ssb", SHAPES["ssb"], "ssb.sql", tables(arguments.rows, arguments.seed), arguments.threads)
    found.finish(writes=arguments.write_docs)


if __name__ == "__main__":
    main()
