"""Secondary indexes pushed with a segment: valid checksums, invalid structure."""

import random
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.attack.segments import EXTREMES, WRONG_FIELDS, leaves
from gamay.base.clock import SYSTEM_CLOCK
from gamay.model.schema.schema import FieldSpec, Schema
from gamay.model.table.secondary_indexes import IndexDeclaration
from gamay.model.table.table_config import TableConfig
from gamay.model.types import DataType, FieldRole
from gamay.query.bind.binder import bind
from gamay.query.execute.executor import execute
from gamay.query.limits.deadline import Deadline
from gamay.query.pool import WorkPool
from gamay.query.reduce.merge import reduce
from gamay.segment.encode.format import read_metadata_file, write_metadata_file
from gamay.segment.read.reader import open_segment
from gamay.segment.secondary.files import INDEXES_FILE, index_folder
from gamay.segment.write.builder import SegmentBuilder
from gamay.segment.write.secondary_indexes import add_indexes
from gamay.sql.parser import parse_query

ROWS = 600
SCHEMA = Schema(
    "t",
    (
        FieldSpec("id", DataType.INT),
        FieldSpec("s", DataType.STRING),
        FieldSpec("j", DataType.JSON),
        FieldSpec("text", DataType.STRING),
        FieldSpec("lon", DataType.DOUBLE, FieldRole.METRIC),
        FieldSpec("lat", DataType.DOUBLE, FieldRole.METRIC),
    ),
)
DECLARED = (
    IndexDeclaration("fst", ("s",), {}),
    IndexDeclaration("json", ("j",), {}),
    IndexDeclaration("text", ("text",), {}),
    IndexDeclaration("h3", ("lon", "lat"), {"resolutions": [5]}),
)
QUERIES = (
    "SELECT COUNT(*), SUM(id) FROM t WHERE s LIKE '%ord 1%'",
    "SELECT COUNT(*), SUM(id) FROM t WHERE REGEXP_LIKE(s, 'word [23]')",
    """SELECT COUNT(*), SUM(id) FROM t WHERE JSON_MATCH(j, '"$.a" = 3 AND "$.b[0]" = ''x1''')""",
    """SELECT COUNT(*), SUM(id) FROM t WHERE JSON_MATCH(j, '"$.a" > 4 OR "$.b[*]" = ''x2''')""",
    "SELECT COUNT(*), SUM(id) FROM t WHERE TEXT_MATCH(text, 'red AND (fox1 OR blue*)')",
    """SELECT COUNT(*), SUM(id) FROM t WHERE TEXT_MATCH(text, '"red fox1" -dog2')""",
    "SELECT COUNT(*), SUM(id) FROM t WHERE ST_DISTANCE(ST_POINT(lon, lat, 1), ST_POINT(10, 50, 1)) < 300000",
)
_CONTENT_SHARE = 0.3


class IndexedSegment:
    """A segment whose indexes are damaged repeatedly, and its answers before the damage.

    num_used: how many of its indexes were used for the last answers.
    """

    def __init__(self, folder: Path) -> None:
        builder = SegmentBuilder(SCHEMA, TableConfig.offline("t"), "t_0", folder)
        builder.append(_rows())
        self.folder = builder.build()
        add_indexes(self.folder, DECLARED, SYSTEM_CLOCK)
        self._document = read_metadata_file(self.folder, INDEXES_FILE)
        self._files = {
            (number, name): (index_folder(self.folder, number) / name).read_bytes()
            for number, entry in enumerate(self._document["indexes"])
            for name in entry["files"]
        }
        self._pool = WorkPool(1)
        self.answers = self.ask()

    def close(self) -> None:
        """End its threads."""
        self._pool.close()

    def ask(self) -> list[Any]:
        """Return the answers to all queries of the segment with the indexes of its folder, as of one that was pushed."""
        segment = open_segment(self.folder, own_indexes=False)
        self.num_used = len(segment.indexes)
        try:
            return [self._asked(sql, [segment]) for sql in QUERIES]
        finally:
            segment.close()

    def damage(self, rng: random.Random) -> str:
        """Damage one index in one place, with the checksums that belong to it; return what is different."""
        self.restore()
        document = read_metadata_file(self.folder, INDEXES_FILE)
        number = rng.randrange(len(document["indexes"]))
        entry = document["indexes"][number]
        if rng.random() < _CONTENT_SHARE:
            *above, last = rng.choice(list(leaves(entry["content"])))
            node: Any = entry["content"]
            for key in above:
                node = node[key]
            node[last] = rng.choice([*WRONG_FIELDS, *([node[last] + 1, node[last] * 2] if type(node[last]) is int else [])])
            what = f"{entry['kind']} {[*above, last]} = {node[last]!r}"
        else:
            what = f"{entry['kind']} {self._damage_file(number, entry, rng)}"
        document.pop("checksum", None)
        write_metadata_file(self.folder, document, INDEXES_FILE)
        return what

    def restore(self) -> None:
        """Write the indexes as they were built."""
        for (number, name), content in self._files.items():
            (index_folder(self.folder, number) / name).write_bytes(content)
        document = {key: value for key, value in self._document.items() if key != "checksum"}
        write_metadata_file(self.folder, document, INDEXES_FILE)

    def _damage_file(self, number: int, entry: dict[str, Any], rng: random.Random) -> str:
        name = rng.choice(sorted(entry["files"]))
        data = bytearray(self._files[number, name])
        kind, offset, size, _ = buffer = rng.choice([one for one in entry["content"]["buffers"] if one[2]])
        width = rng.choice([w for w in EXTREMES if w <= size])
        place = offset + rng.randrange(size // width) * width
        near = int.from_bytes(data[place : place + width], "little") ^ 1 << rng.randrange(8 * width)
        value = rng.choice([*EXTREMES[width], near])
        data[place : place + width] = value.to_bytes(width, "little")
        buffer[3] = zlib.crc32(data[offset : offset + size])
        entry["files"][name] = [len(data), zlib.crc32(data)]
        (index_folder(self.folder, number) / name).write_bytes(data)
        return f"{kind} at {place - offset} of {size}: {value} in {width} bytes"

    def _asked(self, sql: str, segments: Sequence[Any]) -> Any:
        bound = bind(parse_query(sql), SCHEMA)
        result = execute(bound, segments, self._pool, Deadline.after_ms(20_000, SYSTEM_CLOCK), "host")
        table = reduce(bound, [result]).table
        return None if table is None else table.rows()


def _rows() -> pa.RecordBatch:
    rng = random.Random(3)
    words = ("red", "blue", "bluer", "dog2", "fox1", "fox12")
    return pa.RecordBatch.from_pydict(
        {
            "id": pa.array(range(ROWS), pa.int32()),
            "s": [f"word {rng.randrange(200)}" for _ in range(ROWS)],
            "j": [f'{{"a": {rng.randrange(9)}, "b": ["x{rng.randrange(4)}", "y"], "c": null}}' for _ in range(ROWS)],
            "text": [" ".join(rng.choices(words, k=4)) for _ in range(ROWS)],
            "lon": [rng.uniform(0, 20) for _ in range(ROWS)],
            "lat": [rng.uniform(45, 55) for _ in range(ROWS)],
        }
    )
