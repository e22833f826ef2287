"""OFFLINE upsert tables: segments pushed, replaced, dropped, reloaded, and after a restart."""

from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

import gamay
from gamay.base.errors import InvalidConfigError
from gamay.cluster.access.principals import ANYONE
from gamay.embedded.database import Database
from gamay.model.schema.schema import Schema
from gamay.server.http.key_counts import instance_keys, upsert_keys
from gamay.upsert.partitions.views import ViewOptions, Views
from gamay.upsert.rows.segment_registry import Install
from gamay.upsert.rows.valid_docs import SegmentDocs
from gamay.upsert.spi import SegmentSource
from gamay.upsert.tables.table import TableUpsert

SCHEMA = Schema.from_json(
    {
        "schemaName": "orders",
        "dimensionFieldSpecs": [
            {"name": "id", "dataType": "STRING"},
            {"name": "status", "dataType": "STRING"},
            {"name": "gone", "dataType": "BOOLEAN"},
        ],
        "metricFieldSpecs": [{"name": "total", "dataType": "LONG"}],
        "dateTimeFieldSpecs": [
            {"name": "at", "dataType": "LONG", "format": "1:MILLISECONDS:EPOCH", "granularity": "1:MILLISECONDS"}
        ],
        "primaryKeyColumns": ["id"],
    }
).value


def config(**upsert: Any) -> dict[str, Any]:
    return {
        "tableName": "orders",
        "tableType": "OFFLINE",
        "segmentsConfig": {"timeColumnName": "at", "replication": "1"},
        "tenants": {},
        "routing": {"instanceSelectorType": "strictReplicaGroup"},
        "tableIndexConfig": {
            "segmentPartitionConfig": {"columnPartitionMap": {"id": {"functionName": "Murmur", "numPartitions": 1}}}
        },
        "upsertConfig": {"mode": "FULL", "hashFunction": "MURMUR3", **upsert},
    }


def rows(*given: tuple[str, str, bool, int, int]) -> pa.Table:
    names = ["id", "status", "gone", "total", "at"]
    return pa.table({name: [row[k] for row in given] for k, name in enumerate(names)})


def state(db: Database, options: str = "") -> list[tuple[Any, ...]]:
    return [tuple(row) for row in db.sql(f"{options}SELECT id, status, total FROM orders ORDER BY id, at LIMIT 100").rows()]


@pytest.mark.parametrize("mode", ["NONE", "SYNC", "SNAPSHOT"])
def test_latest_rows_count_before_and_after_a_restart(tmp_path: Path, mode: str) -> None:
    with gamay.connect(tmp_path / "data") as db:
        db.create_table(
            "orders",
            rows(("a", "new", False, 1, 10), ("b", "new", False, 2, 10), ("a", "paid", False, 3, 20)),
            schema=SCHEMA,
            config=config(consistencyMode=mode, deleteRecordColumn="gone"),
        )
        assert state(db) == [("a", "paid", 3), ("b", "new", 2)]
        db.append("orders", rows(("b", "late", False, 9, 5), ("c", "new", False, 4, 30), ("a", "sent", False, 5, 40)))
        expected = [("a", "sent", 5), ("b", "new", 2), ("c", "new", 4)]
        assert state(db) == expected
        assert [tuple(r) for r in db.sql("SELECT COUNT(*), SUM(total), MAX(total) FROM orders").rows()] == [(3, 11.0, 5.0)]
        assert len(state(db, "SET skipUpsert = true; ")) == 6
        db.append("orders", rows(("c", "dropped", True, 0, 50)))
        expected = [("a", "sent", 5), ("b", "new", 2)]
        assert state(db) == expected
        assert len(state(db, "SET skipUpsertDelete = true; ")) == 3
        assert len(state(db, "SET skipUpsertView = true; ")) == 2
        assert len(state(db, "SET upsertViewFreshnessMs = 0; ")) == 2
    snapshots = list((tmp_path / "data").rglob("validdocids.bitmap.snapshot"))
    assert len(snapshots) == 3
    with gamay.connect(tmp_path / "data") as db:
        assert state(db) == expected
        assert len(state(db, "SET skipUpsertDelete = true; ")) == 3
        db.append("orders", rows(("c", "again", False, 7, 60), ("b", "late", False, 9, 9)))
        assert state(db) == [*expected, ("c", "again", 7)]
    for path in snapshots:
        path.unlink()
    with gamay.connect(tmp_path / "data") as db:
        assert state(db) == [*expected, ("c", "again", 7)]


def test_keys_of_partitions_are_counted(tmp_path: Path) -> None:
    with gamay.connect(tmp_path / "data") as db:
        db.create_table("orders", rows(("a", "new", False, 1, 1), ("b", "new", False, 2, 1)), schema=SCHEMA, config=config())
        server = db._cluster.server
        assert upsert_keys(server, "orders_OFFLINE") == {"0": 2}
        assert upsert_keys(server, "nope_OFFLINE") == {}
        held = {"instanceId": server.id, "numPrimaryKeys": 2, "upsertAndDedupTables": ["orders_OFFLINE"]}
        assert instance_keys(server, 7) == {**held, "lastUpdatedTimeInEpochMs": 7}


def test_snapshots_are_in_the_deep_store_while_the_table_is(tmp_path: Path) -> None:
    with gamay.connect(tmp_path / "data") as db:
        db.create_table("orders", rows(("a", "new", False, 1, 1)), schema=SCHEMA, config=config())
    stored = list((tmp_path / "data").rglob("Upsert_Snapshots/orders_OFFLINE/*.zip"))
    assert [path.name for path in stored] == ["0.zip"]
    with gamay.connect(tmp_path / "data") as db:
        db.drop_table("orders")
    assert not stored[0].exists()


def test_segments_of_several_partitions_are_refused(tmp_path: Path) -> None:
    document = config()
    document["tableIndexConfig"]["segmentPartitionConfig"]["columnPartitionMap"]["id"]["numPartitions"] = 4
    with gamay.connect(tmp_path) as db, pytest.raises(gamay.base.errors.GamayError, match="must hold one partition"):
        db.create_table("orders", rows(*((f"k{i}", "x", False, i, i) for i in range(50))), schema=SCHEMA, config=document)


def test_what_chose_the_rows_may_not_change(tmp_path: Path) -> None:
    with gamay.connect(tmp_path) as db:
        db.create_table("orders", rows(("a", "new", False, 1, 10)), schema=SCHEMA, config=config())
        tables = db._cluster.tables
        changed = config()
        changed["upsertConfig"] |= {"hashFunction": "MD5", "comparisonColumns": ["total"]}
        with pytest.raises(InvalidConfigError) as caught:
            tables.replace("orders_OFFLINE", changed, by=ANYONE)
        assert str(caught.value) == (
            "Failed to update table 'orders_OFFLINE': Cannot modify [hashFunction, comparisonColumns] as it may lead to "
            "data inconsistencies. Please create a new table instead. With force=true it changes for new rows."
        )
        tables.replace("orders_OFFLINE", changed, force=True, by=ANYONE)
        tables.replace(
            "orders_OFFLINE", {**changed, "upsertConfig": {**changed["upsertConfig"], "snapshot": "DISABLE"}}, by=ANYONE
        )


def test_a_negative_freshness_leaves_it_to_the_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted: list[int | None] = []
    read = Views.read

    def watched(views: Views, contents: Any, docs_in: Any, options: ViewOptions) -> Any:
        wanted.append(options.freshness_ms)
        return read(views, contents, docs_in, options)

    monkeypatch.setattr(Views, "read", watched)
    with gamay.connect(tmp_path) as db:
        db.create_table("orders", rows(("a", "new", False, 1, 10)), schema=SCHEMA, config=config(consistencyMode="SNAPSHOT"))
        for options in ("", "SET upsertViewFreshnessMs = -1; ", "SET upsertViewFreshnessMs = 0; "):
            assert state(db, options) == [("a", "new", 1)]
    assert wanted == [None, None, 0]


class Watched(TableUpsert):
    """Keys of a table that record the requested segments."""

    loaded: ClassVar[list[str]] = []

    def load(self, source: SegmentSource, install: Install) -> SegmentDocs:
        self.loaded.append(f"{source.segment.name} {self.settings.config.metadata_manager_configs['mark']}")
        return super().load(source, install)


def test_a_class_of_the_user_keeps_the_keys(tmp_path: Path) -> None:
    named = {"metadataManagerClass": f"{Watched.__module__}.Watched", "metadataManagerConfigs": {"mark": "x"}}
    with gamay.connect(tmp_path) as db:
        db.create_table("orders", rows(("a", "new", False, 1, 10)), schema=SCHEMA, config=config(**named))
        db.append("orders", rows(("a", "sent", False, 5, 40)))
        assert state(db) == [("a", "sent", 5)]
        assert len(Watched.loaded) == 2
        assert all(entry.endswith(" x") for entry in Watched.loaded)


@pytest.mark.parametrize(
    ("path", "reason"),
    [("no.such.Class", "cannot be imported"), ("pathlib.Path", "is no subclass of"), ("json.dumps", "no sub")],
)
def test_a_class_that_keeps_no_keys_is_refused(tmp_path: Path, path: str, reason: str) -> None:
    with gamay.connect(tmp_path) as db, pytest.raises(gamay.base.errors.GamayError, match=reason):
        db.create_table("orders", rows(("a", "n", False, 1, 1)), schema=SCHEMA, config=config(metadataManagerClass=path))
