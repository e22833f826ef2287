"""Settings of tables act, as a user sees it."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import gamay

DAY = {"dateTimeFieldSpecs": [{"name": "day", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"}]}
SCHEMA = {
    "schemaName": "t",
    "dimensionFieldSpecs": [{"name": "k", "dataType": "INT"}],
    "metricFieldSpecs": [{"name": "n", "dataType": "INT"}],
    **DAY,
}


def _config(**parts: Any) -> dict[str, Any]:
    partitioned = {"columnPartitionMap": {"k": {"functionName": "Modulo", "numPartitions": 2}}}
    return {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"timeColumnName": "day", "replication": "1"},
        "tenants": {},
        "tableIndexConfig": {"segmentPartitionConfig": partitioned},
        **parts,
    }


# by pruners: how many of the two segments remain for a day, for a partition of k, and for a value of another column
@pytest.mark.parametrize(
    ("pruners", "left"),
    [
        (None, (1, 1, 1)),
        ([], (2, 2, 2)),
        (["time"], (1, 2, 2)),
        (["partition"], (2, 1, 2)),
        (["time", "partition", "empty"], (1, 1, 2)),
    ],
)
def test_segments_are_pruned_by_the_pruners_that_a_table_names(
    tmp_path: Path, pruners: list[str] | None, left: tuple[int, ...]
) -> None:
    routing = {} if pruners is None else {"segmentPrunerTypes": pruners}
    with gamay.connect(tmp_path) as db:
        first = pd.DataFrame({"k": [0, 2], "n": [1, 2], "day": [16_000, 16_001]})
        db.create_table("t", first, schema=SCHEMA, config=_config(routing=routing))
        db.append("t", pd.DataFrame({"k": [1, 3], "n": [11, 12], "day": [16_010, 16_011]}))
        for where, expected, rows in zip(("day = 16000", "k = 1", "n = 12"), left, (1, 1, 1), strict=True):
            answer = db.sql(f"SELECT COUNT(*) FROM t WHERE {where}")
            assert [tuple(row) for row in answer.rows()] == [(rows,)]
            assert 2 - answer.stats.num_segments_pruned_by_broker == expected, where
