"""Random histories of a partition: the engine on two replicas against the plain model of `tests.naive.upsert`."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap
from tests.naive.upsert import Options, Row, UpsertModel

from gamay.functions.arrow import arrow_type
from gamay.functions.vector import Vector
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.table.upsert_defaults import ServerDefaults
from gamay.segment.encode.storage_form import from_arrow, to_values
from gamay.storage.local_store import LocalStore
from gamay.upsert.config.settings import UpsertSettings
from gamay.upsert.persist.host import Host
from gamay.upsert.persist.shared_snapshots import SharedSnapshots
from gamay.upsert.persist.snapshots import SnapshotFolder
from gamay.upsert.spi import SegmentSource
from gamay.upsert.tables.table import TableUpsert

STRATEGIES = {
    "rid": "OVERWRITE", "n": "INCREMENT", "m": "MAX", "w": "MIN", "s": "IGNORE", "f": "FORCE_OVERWRITE", "l": "APPEND",
    "u": "UNION", "t": "MAX", "o": "FORCE_OVERWRITE",
}  # fmt: skip
COLUMNS = {
    "d": "BOOLEAN", "o": "BOOLEAN", "rid": "LONG", "n": "INT", "m": "DOUBLE", "w": "LONG", "s": "STRING", "f": "STRING",
    "l": "STRING", "u": "INT", "t": "STRING",
}  # fmt: skip
VALUES = {
    "n": [None, 1, 5], "m": [None, 0.5, 2.5, -1.0], "w": [None, 3, 7], "s": [None, "a", "b"], "f": [None, "x", "y"],
    "l": [None, ["p"], ["q", "r"]], "u": [None, [1], [3, -2], [3], [2, 2, -5]], "t": [None, "abc", "b", ""],
}  # fmt: skip
MERGED = 2  # of these columns each history has so many, which keeps it short


class MemoryColumn:
    """One column over an Arrow array."""

    dictionary = None

    def __init__(self, spec: Any, array: pa.Array) -> None:
        self.data_type, self._array, self._spec = spec.data_type, array, spec
        nulls = np.flatnonzero(pc.is_null(array).to_numpy(zero_copy_only=False))
        self.null_docs = BitMap(nulls.astype(np.uint32)) if len(nulls) else None
        self.stats = SimpleNamespace(
            maximum=pc.max(array).as_py() if spec.single_value and len(array) else None, partition=None
        )

    def values_at(self, docs: Any) -> Vector:
        array = self._array.take(pa.array(docs))
        offsets = None
        if not self._spec.single_value:
            lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
            offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
            array = array.flatten()
        default = "" if self.data_type.is_text else False if self.data_type.value == "BOOLEAN" else 0
        stored = from_arrow(pc.fill_null(array, pa.scalar(default, array.type)), self.data_type)
        return Vector(self.data_type, to_values(stored, self.data_type), offsets)

    def values(self, start: int, stop: int) -> Vector:
        return self.values_at(np.arange(start, stop))


class MemorySegment:
    """A segment over an Arrow batch."""

    def __init__(self, name: str, schema: Schema, batch: pa.RecordBatch) -> None:
        self.name, self.batch, self.num_docs = name, batch, batch.num_rows
        self.column_names = tuple(batch.schema.names)
        self._schema = schema
        self._columns: dict[str, MemoryColumn] = {}

    def column(self, name: str) -> Any:
        if name not in self._columns:
            self._columns[name] = MemoryColumn(self._schema.field(name), self.batch.column(name))
        return self._columns[name]


def conformed(schema: Schema, rows: Sequence[Row]) -> pa.RecordBatch:
    arrays = [pa.array([row[s.name] for row in rows], arrow_type(s.data_type, s.single_value)) for s in schema.stored_fields]
    return pa.RecordBatch.from_arrays(arrays, names=[s.name for s in schema.stored_fields])


class Replica:
    """The engine over segments in memory. reorders: sealed segments are sorted by a column."""

    def __init__(self, settings: UpsertSettings, folder: Path, rng: random.Random, reorders: bool) -> None:
        self.settings, self.folder, self.rng, self.reorders = settings, SnapshotFolder(folder / "own"), rng, reorders
        store = LocalStore(folder / "store")
        store.prepare()
        shared = SharedSnapshots(store, "t_REALTIME", folder / "scratch")
        self.host = Host(shared=shared, first_unsealed=lambda _: self.sequence)
        self.sealed: dict[str, MemorySegment] = {}
        self.sequence = 0
        self.log: list[Row] = []
        self.counts = dict.fromkeys(("late", "rejected", "skipped"), 0)
        self._open()

    def _open(self) -> None:
        clock: Any = SimpleNamespace(monotonic_s=lambda: 0.0)
        self.table = TableUpsert(self.settings, self.folder, clock, host=self.host)
        self.docs: dict[str, Any] = {}

    def _source(self, segment: MemorySegment) -> SegmentSource:
        return SegmentSource(segment, segment.num_docs, 1)  # type: ignore[arg-type]

    def _begin(self) -> None:
        self.name = f"t__0__{self.sequence}__20260101T0000Z"
        self.rows = conformed(self.settings.schema, [])
        self.consuming = self.table.consume(
            0,
            self.name,
            1,
            lambda: MemorySegment(self.name, self.settings.schema, self.rows),  # type: ignore[arg-type,return-value]
        )
        self.docs[self.name] = self.consuming.docs

    def add(self, rows: Sequence[Row]) -> None:
        self.log += rows
        start, size = 0, max(self.rng.choice([1, 4, 12, 40]), len(rows) // 4)
        while start < len(rows):
            stop = start + size
            prepared = self.consuming.prepare(conformed(self.settings.schema, rows[start:stop]))
            # rows that cannot be appended are taken again, here at once; late ones have raised the watermark already
            if self.settings.ttl <= 0 and self.settings.deleted_ttl <= 0 and self.rng.random() < 0.1:
                self.consuming.undo(prepared)
                continue
            assert prepared.first_doc == self.rows.num_rows
            self.rows = pa.concat_batches([self.rows, prepared.batch])
            self.consuming.publish(prepared)
            self.counts["late"] += prepared.num_out_of_order
            self.counts["rejected"] += len(prepared.rejected)
            start = stop

    def commit(self, *, begins: bool = True) -> None:
        order, doc_map = np.arange(self.rows.num_rows), None
        if self.reorders:
            order = np.argsort(self.rows.column("rid").to_numpy() * 7 % 5, kind="stable")
        if self.reorders or self.rng.random() < 0.5:
            doc_map = np.empty(len(order), np.int64)
            doc_map[order] = np.arange(len(order))
        segment = MemorySegment(self.name, self.settings.schema, self.rows.take(pa.array(order)))
        self.sealed[self.name] = segment
        self.docs[self.name] = self.table.commit(self._source(segment), lambda _: None, doc_map)
        self.sequence += 1
        self.log = []
        if begins:
            self._begin()

    def take_copy(self, other: "Replica") -> None:
        """Take the sealed copy of a replica that has committed the segment with fewer rows."""
        name = self.name
        self.sealed[name] = other.sealed[name]
        self.docs[name] = self.table.load(self._source(self.sealed[name]), lambda _: None)
        self.sequence += 1
        self.log = []
        self._begin()

    def restart(self, *, keeps_snapshots: bool) -> None:
        log = self.log
        is_new = self.rng.random() < 0.5  # it finds the snapshots in the deep store only
        if not keeps_snapshots or is_new:
            self.folder.remove_all()
        self.host = replace(self.host, shared=self.host.shared if keeps_snapshots else None)
        self._open()
        order = list(self.sealed.values())
        if self.settings.ttl <= 0:
            self.rng.shuffle(order)
        self.table.expect([self._source(segment) for segment in order])
        order.sort(key=lambda segment: not self.table.has_snapshot(self._source(segment)))
        for segment in order:
            self.docs[segment.name] = self.table.load(self._source(segment), lambda _: None)
        self._begin()
        self.log = []
        self.add(log)

    def reload(self, number: int, *, compacts: bool) -> None:
        name = list(self.sealed)[number]
        segment = self.sealed[name]
        if compacts:
            docs = self.docs[name].snapshot(with_deleted=True).docs
            segment = MemorySegment(name, self.settings.schema, segment.batch.take(pa.array(docs)))
        self.sealed[name] = segment
        self.docs[name] = self.table.load(self._source(segment), lambda _: None)

    def drop_oldest(self) -> None:
        name = next(iter(self.sealed))
        del self.sealed[name], self.docs[name]
        self.table.remove(name, lambda: None)

    def visible(self) -> pa.Table:
        found = [conformed(self.settings.schema, [])]
        for name, docs in self.docs.items():
            batch = self.rows if name == self.name else self.sealed[name].batch
            found.append(batch.take(pa.array(docs.snapshot().upto(batch.num_rows).docs)))
        return pa.Table.from_batches(found)


@dataclass
class History:
    """One random history. protects: now and then commits are forced, and a replica that was ahead gives rows back."""

    seed: int
    protects: bool = False

    def run(self, folder: Path) -> None:
        rng = random.Random(self.seed)
        options, config, schema = self._table(rng)
        settings = UpsertSettings.of(config, schema, ServerDefaults(snapshot=True, preload=True, preload_threads=1))
        assert settings is not None
        model = UpsertModel(options)
        keeps = options.ttl > 0 or rng.random() < 0.6
        replicas = [
            Replica(settings, folder / str(i), random.Random(self.seed + i), reorders=i == 1 and keeps and not self.protects)
            for i in range(2)
        ]
        for replica in replicas:
            replica._begin()
        forcing = random.Random(f"{self.seed} forced")  # separate draws, so that histories stay the same without them
        for replica in replicas if self.protects else ():
            replica.host = replace(replica.host, protects=lambda: True)
            replica._open()
            replica._begin()
        clock, steps = 0, rng.randint(3, 12)
        for step in range(steps):
            action = rng.random()
            if action < 0.55 or step == 0:
                rows = []
                for _ in range(rng.choice([1, 3, 8, 20])):
                    clock += rng.choice([0, 1, 1, 3])
                    rows.append(self._row(rng, options, clock))
                if self.protects and forcing.random() < 0.5:
                    self._force_commit(rows, model, replicas, forcing)
                    rows = []
                for row in rows:
                    model.add(row)
                for replica in replicas:
                    replica.add([{**row} for row in rows])
            elif action < 0.72:
                model.commit()
                for replica in replicas:
                    replica.commit()
            elif action < 0.86:
                if not keeps:
                    model.forget()
                for replica in replicas:
                    replica.restart(keeps_snapshots=keeps)
            elif model.sealed and action < 0.92:  # after a commit: rows that are consumed again find what they found before
                model.commit()
                model.drop_oldest()
                for replica in replicas:
                    replica.commit()
                    replica.drop_oldest()
            elif model.sealed:
                number, compacts = rng.randrange(len(model.sealed)), options.ttl <= 0 and rng.random() < 0.5
                if compacts:  # by what counted at a commit: rows that replace others may have to be consumed again
                    model.commit()
                    for replica in replicas:
                        replica.commit()
                    model.compact(number)
                for replica in replicas:
                    replica.reload(number, compacts=compacts)
            expected = model.visible()
            is_whole = step == steps - 1 or rng.random() < 0.3
            for replica in replicas:
                found = replica.visible()
                assert sorted(found.column("rid").to_pylist()) == sorted(row["rid"] for row in expected), (self.seed, step)
                if is_whole:
                    rows = sorted(map(repr, map(self._plain, found.to_pylist())))
                    assert rows == sorted(map(repr, map(self._plain, expected))), (self.seed, step)

    def _force_commit(
        self, rows: Sequence[Row], model: UpsertModel, replicas: Sequence[Replica], forcing: random.Random
    ) -> None:
        """Let one replica commit after some of the rows; the other one has all of them, and takes that copy."""
        cut = forcing.randint(0, len(rows))
        behind, ahead = forcing.sample(list(replicas), 2)
        ahead.add([{**row} for row in rows])
        behind.add([{**row} for row in rows[:cut]])
        behind.commit()
        ahead.take_copy(behind)
        for row in rows[:cut]:
            model.add(row)
        model.commit()
        for row in rows[cut:]:
            model.add(row)
        for replica in replicas:
            replica.add([{**row} for row in rows[cut:]])

    def _plain(self, row: Row) -> list[Any]:
        return sorted(
            (name, float(value) if name in ("c", "e") and value is not None else value) for name, value in row.items()
        )

    def _table(self, rng: random.Random) -> tuple[Options, TableConfig, Schema]:
        several = rng.random() < 0.25
        key_type = rng.choice(["LONG", "STRING"])
        number = rng.choice(["LONG", "DOUBLE", "INT"])
        partial = rng.random() < 0.5
        ttl = rng.choice([0, 0, 20]) if not several else 0
        deletes = rng.random() < 0.5
        drop = rng.random() < 0.3
        self._merged = sorted(rng.sample(sorted(VALUES), MERGED))
        strategies = {name: STRATEGIES[name] for name in ("rid", "o", *self._merged)}
        options = Options(
            comparisons=("c", "e") if several else ("c",),
            strategies=strategies if partial else None,
            deletes="d" if deletes else None,
            marks="o" if not drop and rng.random() < 0.4 else None,
            drop=drop,
            ttl=ttl,
            deleted_ttl=rng.choice([0, 10]) if deletes and not several else 0,
            skip_late=ttl > 0 and rng.random() < 0.4,
        )
        specs = [{"name": "k", "dataType": key_type}, {"name": "c", "dataType": number}, {"name": "e", "dataType": number}]
        specs += [
            {"name": n, "dataType": COLUMNS[n], "singleValueField": n not in ("l", "u")}
            for n in ("d", "o", "rid", *self._merged)
        ]
        schema = Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": specs, "primaryKeyColumns": ["k"]}).value
        upsert: dict[str, Any] = {
            "mode": "PARTIAL" if partial else "FULL",
            "comparisonColumns": list(options.comparisons),
            "hashFunction": rng.choice(["NONE", "MURMUR3", "MD5", "UUID", "XXHASH"]),
            "dropOutOfOrderRecord": drop,
            "metadataTTL": ttl,
            "deletedKeysTTL": options.deleted_ttl,
            "isSkipLateEvent": options.skip_late,
            "snapshot": "ENABLE",
        }
        if ttl and rng.random() < 0.5:
            upsert["metadataManagerConfigs"] = {"ttlRemoval": "GENERATIONS"}
        if partial:
            upsert["partialUpsertStrategies"] = strategies
        if deletes:
            upsert["deleteRecordColumn"] = "d"
        if options.marks:
            upsert["outOfOrderRecordColumn"] = "o"
        document = {
            "tableName": "t",
            "tableType": "REALTIME",
            "tenants": {},
            "tableIndexConfig": {},
            "segmentsConfig": {"timeColumnName": "c"},
            "upsertConfig": upsert,
        }
        self._text_keys, self._rid = key_type == "STRING", 0
        return options, TableConfig.from_json(document).value, schema

    def _row(self, rng: random.Random, options: Options, clock: int) -> Row:
        self._rid += 1
        key = rng.randrange(8)
        at = max(0, clock - rng.choice([0, 0, 0, 0, 1, 4, 15, 40]))
        row: Row = {
            "k": f"key-{key}" if self._text_keys else key, "c": at, "e": None, "d": rng.random() < 0.15, "o": None,
            "rid": self._rid, **{name: rng.choice(VALUES[name]) for name in self._merged},
        }  # fmt: skip
        if len(options.comparisons) > 1 and rng.random() < 0.5:
            row["c"], row["e"] = (None, at) if rng.random() < 0.9 else rng.choice([(None, None), (at, at)])
        return row
