"""The space that the wide table of `benchmarks.flat` takes: mapped, by form, and in the deep store.

    python -m benchmarks.flat_size [--scale 0.34] [--write-docs]

Prints the bytes of a row in one segment that is created without a config, and the size of its archive over the same rows in
Parquet with Zstandard.
"""

import argparse
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import gamay
from benchmarks import report
from benchmarks.flat import flat
from gamay.segment.encode.format import COLUMNS_FILE
from gamay.segment.encode.metadata import read_metadata
from gamay.storage.archive import pack

_MAPPED, _ARCHIVE = "mapped", "archive over the same rows in Parquet with Zstandard"
_TEXTS, _IDS, _NUMBERS, _RAW = _FORMS = ("dictionaries of texts", "ids", "dictionaries of numbers", "raw numbers")
SHAPES = {"flat_size": report.Shape(("bytes a row", "value"), (_MAPPED, *_FORMS, _ARCHIVE))}


def measure(table: pa.Table, folder: Path) -> report.Report:
    """Return the table of the sizes of the rows."""
    found = report.Report("flat_size", SHAPES["flat_size"])
    with gamay.connect(folder / "gamay") as db:
        db.create_table("flat", table)
    (columns,) = folder.rglob(COLUMNS_FILE)
    sizes = dict.fromkeys(_FORMS, 0)
    for column in read_metadata(columns.parent).columns.values():
        parts = column.index_sizes()
        sizes[_RAW if column.id_bits is None else _IDS] += parts["forward"]
        sizes[_TEXTS if column.data_type.is_text else _NUMBERS] += parts.get("dictionary", 0)
    for case, size in ((_MAPPED, columns.stat().st_size), *sizes.items()):
        found.add(case, f"{size / table.num_rows:.1f}")
    archive, parquet = folder / "flat.tar.zst", folder / "flat.parquet"
    pack(columns.parent, archive)
    pq.write_table(table, parquet, compression="zstd")
    found.add(_ARCHIVE, f"{archive.stat().st_size / parquet.stat().st_size:.2f}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=0.34)
    arguments = report.arguments_of(parser)
    ((_, table),) = flat(arguments.scale)
    with tempfile.TemporaryDirectory() as folder:
        measure(table, Path(folder)).finish(writes=arguments.write_docs)


if __name__ == "__main__":
    main()
