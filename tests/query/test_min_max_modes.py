"""Answers do not depend on which columns have bounds; segments are pruned by those that do."""

from typing import Any

import pyarrow as pa
import pytest

import gamay

MODES = ("ALL", "NONE", "TIME", "NON_METRIC")
ASKED = (
    "SELECT min(m), max(m), minmaxrange(m), min(r), max(r) FROM {}",
    "SELECT count(*) FROM {} WHERE m < 15 AND c > 'v2'",
    "SELECT count(*) FROM {} WHERE r BETWEEN 7 AND 12.5",
    "SELECT c, max(m) FROM {} GROUP BY c ORDER BY c LIMIT 20",
    "SELECT m FROM {} ORDER BY m DESC LIMIT 3",
    "SELECT count(*) FROM {} WHERE m > 100000",
)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Any:
    schema = {
        "dimensionFieldSpecs": [{"name": "c", "dataType": "STRING"}],
        "metricFieldSpecs": [{"name": "m", "dataType": "LONG"}, {"name": "r", "dataType": "DOUBLE"}],
    }
    with gamay.connect(tmp_path_factory.mktemp("modes")) as db:
        for mode in MODES:
            config = {"tableIndexConfig": {"columnMinMaxValueGeneratorMode": mode, "noDictionaryColumns": ["r"]}}
            rows = pa.table(
                {
                    "c": [f"v{i % 5}" for i in range(60)],
                    "m": [i * 7 % 61 for i in range(60)],
                    "r": [i / 4 for i in range(60)],
                }
            )
            db.create_table(mode, rows, {**schema, "schemaName": mode}, config)
        yield db


@pytest.mark.parametrize("asked", ASKED)
def test_answers_do_not_depend_on_the_mode(database: Any, asked: str) -> None:
    expected = database.sql(asked.format("ALL")).rows()
    for mode in MODES[1:]:
        assert database.sql(asked.format(mode)).rows() == expected, mode


def test_bounds_prune_where_they_are_kept(database: Any) -> None:
    def pruned(mode: str, condition: str) -> bool:
        stats = database.sql(f"SELECT count(*) FROM {mode} WHERE {condition}").stats
        return bool(stats.num_segments_processed == 0)

    assert [pruned(mode, "m BETWEEN 1000 AND 2000") for mode in MODES] == [True, False, False, False]
    assert [pruned(mode, "c BETWEEN 'x' AND 'y'") for mode in MODES] == [True, False, False, True]
