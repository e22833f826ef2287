"""Tasks that merge segments in pieces: the same rows as in one piece, with few inputs for each."""

import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.cluster.records.records import SegmentRecord
from gamay.ingest.transform.pipeline import Pipeline
from gamay.minion import pieces as module
from gamay.minion.pieces import Packed, Piece, build_piece, pieces_of
from gamay.minion.side_by_side import side_by_side
from gamay.minion.stretches import stretches
from gamay.model.merge_task_settings import MergeRollupSettings
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.segment.process.spec import ProcessSpec
from gamay.segment.read.reader import open_segment
from gamay.segment.write.builder import SegmentBuilder
from gamay.spark.reading.segment_cache import SegmentCache
from gamay.storage.archive import pack, unpack

HOUR, DAY = 3_600_000, 86_400_000
START = 19_000 * DAY
TABLE = "t_OFFLINE"
SCHEMA = {
    "schemaName": "t",
    "dimensionFieldSpecs": [{"name": "city", "dataType": "STRING"}],
    "metricFieldSpecs": [{"name": "n", "dataType": "LONG"}],
    "dateTimeFieldSpecs": [{"name": "ts", "dataType": "LONG", "format": "EPOCH", "granularity": "1:MILLISECONDS"}],
}


class Store:
    """Archives of eight segments of 60 rows of three hours each, and how often each was downloaded."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        schema, document = Schema.from_json(SCHEMA).value, TableConfig.offline("t").to_json()
        document["segmentsConfig"]["timeColumnName"] = "ts"
        config = TableConfig.from_json(document).value
        self.downloads: Counter[str] = Counter()
        self.records, self.archives = [], {}
        for number in range(8):
            times = [START + number * 3 * HOUR + i * 3 * HOUR // 60 for i in range(60)]
            rows = pa.table({"city": [f"c{i % 3}" for i in range(60)], "n": list(range(60)), "ts": times})
            builder = SegmentBuilder(schema, config, f"s{number}", folder)
            for batch in rows.to_batches():
                builder.append(Pipeline(schema, config).apply(batch))
            built = builder.build()
            crc = open_segment(built).info.crc
            self.records.append(SegmentRecord(f"s{number}", crc, 60, times[0], times[-1]))
            self.archives[f"s{number}"] = pack(built, folder / f"s{number}.tar.zst")
        texts = [orjson.dumps(one.to_json()).decode() for one in (schema, config)]
        self.whole = Piece(TABLE, (), "m", ProcessSpec(), 1, *texts, "")
        monkeypatch.setattr(module, "download", self.download)

    def download(self, controller: str, token: str, table: str, name: str, folder: Path, tls: Any) -> Path:
        self.downloads[name] += 1
        return Path(shutil.copy(self.archives[name], folder))

    def pieces(self, merge_type: str, rounded: str, *, apart: bool) -> list[Piece]:
        told = {
            "bucketTimePeriod": "1d",
            "bufferTimePeriod": "0d",
            "mergeType": merge_type,
            "maxNumRecordsPerSegment": "100",
        }
        form = MergeRollupSettings.form_of("x", told | ({"roundBucketTimePeriod": rounded} if rounded else {}))
        return list(pieces_of(self.whole, self.records, form, (START, START + DAY), apart=apart))


def rows_of(packed: Sequence[Packed], folder: Path) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for one in packed:
        segment = open_segment(unpack(Path(one.archive), folder / one.name))
        columns = [segment.column(name).values(0, segment.num_docs).values.tolist() for name in ("city", "n", "ts")]
        found += zip(*columns, strict=True)
    return sorted(found)


@pytest.mark.parametrize(("merge_type", "rounded"), [("CONCAT", ""), ("ROLLUP", ""), ("ROLLUP", "2h"), ("DEDUP", "")])
def test_pieces_make_the_rows_that_one_makes_of_few_inputs(
    merge_type: str, rounded: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path, monkeypatch)
    pieces, (one,) = store.pieces(merge_type, rounded, apart=True), store.pieces(merge_type, rounded, apart=False)
    assert len(pieces) == 5
    assert max(len(piece.inputs) for piece in pieces) <= 3
    folders = [tmp_path / "apart", tmp_path / "whole"]
    for folder in folders:
        folder.mkdir()
    cache = SegmentCache(tmp_path / "cache", sys.maxsize)
    apart = [made for packs in side_by_side(lambda p: build_piece(p, folders[0], cache=cache), pieces, 4) for made in packs]
    assert store.downloads == dict.fromkeys(store.archives, 1)  # pieces at the same time, too
    whole = build_piece(replace(one, name="w"), folders[1])
    assert sum(made.rows_before for made in apart) == sum(made.rows_before for made in whole) == 480
    assert rows_of(apart, tmp_path / "a") == rows_of(whole, tmp_path / "w")


def test_times_that_are_one_are_divided_by_hashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path, monkeypatch)
    pieces = store.pieces("ROLLUP", "1d", apart=True)
    assert [(len(piece.inputs), piece.spec.part.count) for piece in pieces] == [(8, 5)] * 5


RECORDS = st.lists(st.tuples(st.integers(-50, 150), st.integers(0, 120), st.integers(1, 40)), min_size=1, max_size=8)


@given(RECORDS, st.integers(1, 60), st.sampled_from([0, 1, 7, 25]))
@settings(max_examples=60, deadline=None)
def test_stretches_cover_a_window_once(given: list[tuple[int, int, int]], rows_max: int, round_ms: int) -> None:
    records = [SegmentRecord(str(i), i, rows, start, start + length) for i, (start, length, rows) in enumerate(given)]
    found = stretches(records, (0, 100), rows_max, round_ms)
    assert [found[0].start_ms, *(one.end_ms for one in found)] == [*(one.start_ms for one in found), 100]
    assert found[0].start_ms == 0
    assert all(one.start_ms < one.end_ms and (not round_ms or one.start_ms % round_ms == 0) for one in found)
    inside = sum(rows * max(0, min(100, start + length + 1) - max(0, start)) / (length + 1) for start, length, rows in given)
    assert sum(one.rows for one in found) == pytest.approx(inside)
