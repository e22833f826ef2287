"""gamay.connect: tables from data in one line, SQL, and a folder that outlives the process."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from tests.waiting import PATIENCE_S

import gamay
from gamay.base.errors import (
    ConflictError,
    GamayError,
    InUseError,
    InvalidConfigError,
    NotFoundError,
    QueryError,
    RecordError,
)
from gamay.embedded import Database, EmbeddedCluster

ROWS = pa.table({"city": ["Oslo", "Lima", "Oslo"], "n": [1, 2, 3], "x": [1.5, 2.5, 4.0]})
BY_CITY = "SELECT city, sum(n) FROM trips GROUP BY city ORDER BY city"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with gamay.connect(tmp_path / "data") as database:
        yield database


def as_files(folder: Path) -> dict[str, Path]:
    folder.mkdir()
    pq.write_table(ROWS, folder / "rows.parquet")
    pa.orc.write_table(ROWS, folder / "rows.orc")
    ROWS.to_pandas().to_csv(folder / "rows.csv", index=False)
    pl.from_arrow(ROWS).write_ndjson(folder / "rows.jsonl")  # type: ignore[union-attr]
    return {path.suffix: path for path in folder.iterdir()}


@pytest.mark.parametrize(
    "kind", ["table", "batch", "reader", "pandas", "polars", ".parquet", ".orc", ".csv", ".jsonl", "glob", "folder"]
)
def test_any_kind_of_data_makes_a_table(db: Database, tmp_path: Path, kind: str) -> None:
    files = as_files(tmp_path / "files")
    only = tmp_path / "only"
    only.mkdir()
    pq.write_table(ROWS, only / "a.parquet")
    data: dict[str, Any] = {
        "table": ROWS,
        "batch": ROWS.to_batches()[0],
        "reader": ROWS.to_reader(),
        "pandas": ROWS.to_pandas(),
        "polars": pl.from_arrow(ROWS),
        "glob": str(only / "*.parquet"),
        "folder": only,
        **files,
    }
    db.create_table("trips", data[kind])
    assert db.sql(BY_CITY).rows() == [("Lima", 2.0), ("Oslo", 4.0)]
    assert db.tables() == ["trips"]


def test_append_and_reopen(tmp_path: Path) -> None:
    with gamay.connect(tmp_path) as db:
        db.create_table("trips", ROWS)
        for _ in range(3):
            db.append("trips", ROWS)
        assert db.sql("SELECT count(*) FROM trips").rows() == [(12,)]
    with gamay.connect(tmp_path) as db:
        assert db.sql(BY_CITY).rows() == [("Lima", 8.0), ("Oslo", 16.0)]
        db.append("trips", ROWS.to_pandas())
        assert db.sql("SELECT count(*) FROM trips").rows() == [(15,)]


def test_results(db: Database) -> None:
    db.create_table("trips", ROWS)
    result = db.sql("SELECT city, n, x FROM trips ORDER BY n LIMIT 2")
    assert result.columns == ("city", "n", "x")
    assert result.types == ("STRING", "LONG", "DOUBLE")
    assert result.rows() == list(result) == [("Oslo", 1, 1.5), ("Lima", 2, 2.5)]
    assert len(result) == 2
    assert result.to_arrow().to_pydict() == {"city": ["Oslo", "Lima"], "n": [1, 2], "x": [1.5, 2.5]}
    assert result.to_pandas().shape == (2, 3)
    assert result.to_polars().rows() == result.rows()
    assert result.stats.total_docs == 3
    assert result.stats.num_servers_responded == 1
    assert not result.partial
    lines = repr(result).splitlines()
    assert lines[:4] == ["city  n    x", "----  -  ---", "Oslo  1  1.5", "Lima  2  2.5"]
    assert repr(db.sql("SELECT city FROM trips WHERE n > 100")).endswith("ms")


def test_a_result_that_a_limit_has_cut_says_so(db: Database) -> None:
    db.create_table("trips", ROWS)
    asked = "SELECT n, COUNT(*) FROM trips GROUP BY n"
    whole, cut = db.sql(asked), db.sql(asked, numGroupsLimit=2)
    assert (whole.partial, whole.reasons, "partial" in repr(whole) + whole._repr_html_()) == (False, (), False)
    assert (cut.partial, cut.reasons, len(cut)) == (True, ("groups beyond numGroupsLimit are left out",), 2)
    for shown in (repr(cut), cut._repr_html_()):
        assert "The answer is partial: groups beyond numGroupsLimit are left out." in shown


def test_long_results_are_shown_in_part(db: Database) -> None:
    db.create_table("many", pa.table({"n": list(range(100)), "s": ["x" * 100] * 100}))
    lines = repr(db.sql("SELECT n, s FROM many ORDER BY n LIMIT 50")).splitlines()
    assert len(lines) == 2 + 20 + 2
    assert lines[-2] == "…"
    assert lines[-1].startswith("50 rows")
    assert max(len(line) for line in lines) < 60


def test_types_travel_both_ways(db: Database) -> None:
    when = datetime(2024, 5, 1, 10, 0)
    db.create_table(
        "types",
        pa.table(
            {
                "flag": [True, False],
                "when": pa.array([when, when], pa.timestamp("us")),
                "tags": [["a", "b"], ["c"]],
                "blob": [b"\x00\xff", b""],
                "text": ["ü", "日本"],
            }
        ),
    )
    row = db.sql('SELECT flag, "when", tags, blob, text FROM types LIMIT 1').rows()[0]
    assert row[0] is True
    assert row[1].replace(tzinfo=None) == when
    assert list(row[2]) == ["a", "b"]
    assert row[3:] == (b"\x00\xff", "ü")


def test_a_failing_append_adds_nothing(db: Database, tmp_path: Path) -> None:
    db.create_table("trips", ROWS)
    bad = tmp_path / "bad.csv"
    bad.write_text("city,n,x\n" + "Oslo,1,1.0\n" * 70_000 + "Oslo,not a number,1.0\n")
    with pytest.raises(RecordError, match=r"bad\.csv"):
        db.append("trips", bad)
    assert db.sql("SELECT count(*) FROM trips").rows() == [(3,)]
    assert list((tmp_path / "data" / "tmp").iterdir()) == []


def test_a_failing_creation_leaves_no_table(db: Database, tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("city,n\nOslo,1\nLima,x\n")
    schema = {"dimensionFieldSpecs": [{"name": "city", "dataType": "STRING"}, {"name": "n", "dataType": "INT"}]}
    with pytest.raises(RecordError):
        db.create_table("trips", bad, schema=schema)
    assert db.tables() == []
    db.create_table("trips", ROWS)
    assert db.sql("SELECT count(*) FROM trips").rows() == [(3,)]


def test_mistakes_are_told(db: Database, tmp_path: Path) -> None:
    db.create_table("trips", ROWS)
    with pytest.raises(ConflictError, match="exists already"):
        db.create_table("trips", ROWS)
    with pytest.raises(NotFoundError, match="Did you mean 'trips'"):
        db.append("trip", ROWS)
    with pytest.raises(NotFoundError):
        db.append("trips", str(tmp_path / "no*.csv"))
    with pytest.raises(InvalidConfigError, match="cannot read rows from int"):
        db.append("trips", 5)
    with pytest.raises(InvalidConfigError, match="schema or data"):
        db.create_table("other")
    with pytest.raises(QueryError) as caught:
        db.sql("SELECT nothing FROM trips")
    assert caught.value.code.code == 710
    with pytest.raises(QueryError, match="trips") as caught:
        db.sql("SELECT * FROM trip")
    assert caught.value.code.code == 190
    with pytest.raises(NotFoundError):
        db.drop_table("other")


def test_drop_table_frees_the_space(db: Database, tmp_path: Path) -> None:
    db.create_table("trips", ROWS)
    db.drop_table("trips")
    assert db.tables() == []
    assert list((tmp_path / "data").rglob("columns.bin")) == []
    with pytest.raises(QueryError):
        db.sql("SELECT 1 FROM trips")
    db.create_table("trips", ROWS)
    assert db.sql("SELECT count(*) FROM trips").rows() == [(3,)]


def test_an_empty_table_answers(db: Database) -> None:
    db.create_table("empty", ROWS.slice(0, 0))
    assert db.sql("SELECT count(*), sum(n) FROM empty").rows() == [(0, None)]
    assert db.sql("SELECT * FROM empty").rows() == []
    db.append("empty", ROWS.slice(0, 0))
    db.append("empty", ROWS)
    assert db.sql("SELECT count(*) FROM empty").rows() == [(3,)]


def test_config_and_options(db: Database) -> None:
    config = {"tableIndexConfig": {"invertedIndexColumns": ["city"]}, "query": {"timeoutMs": 5000}}
    db.create_table("trips", ROWS, config=config)
    assert db.sql("SELECT n FROM trips WHERE city = 'Lima'", timeoutMs=60_000).rows() == [(2,)]
    with pytest.raises(QueryError, match="timeoutMs"):
        db.sql("SELECT n FROM trips", timeoutMs="soon")
    assert db.sql("SELECT n FROM trips", dropResults="true").rows() == []


def test_two_processes_cannot_share_a_folder(db: Database, tmp_path: Path) -> None:
    code = (
        "import gamay, gamay.base.errors\n"
        f"try:\n    gamay.connect({str(tmp_path / 'data')!r})\n"
        "except gamay.base.errors.InUseError as e:\n    print(e)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S)
    assert f"in use by process {os.getpid()}, which has no HTTP interface" in told.stdout


def test_the_folder_can_be_served_and_moved(tmp_path: Path) -> None:
    with gamay.connect(tmp_path / "data") as db:
        db.create_table("trips", ROWS)
    (tmp_path / "data").rename(tmp_path / "moved")
    import httpx

    with EmbeddedCluster(tmp_path / "moved", 0, 0, 0, threads=1) as cluster:
        answer = httpx.post(f"{cluster.broker_url}/query/sql", json={"sql": BY_CITY}).json()
        assert answer["resultTable"]["rows"] == [["Lima", 2.0], ["Oslo", 4.0]]
        download = httpx.get(f"{cluster.controller_url}/segments/trips").json()[0]["OFFLINE"][0]
        assert httpx.get(f"{cluster.controller_url}/segments/trips/{download}").content[:2] == b"\x1f\x8b"
        for _ in range(3000):
            left = list((tmp_path / "moved" / "tmp").iterdir())
            if not left:
                break
            time.sleep(0.01)
        assert left == []
    with gamay.connect(tmp_path / "moved") as db:
        assert db.sql("SELECT count(*) FROM trips").rows() == [(3,)]


def test_a_taken_port_is_told(tmp_path: Path) -> None:
    with EmbeddedCluster(tmp_path / "one", 0, 0, 0, threads=1) as cluster:
        port = int(cluster.controller_url.rpartition(":")[2])
        with pytest.raises(InUseError, match=str(port)):
            EmbeddedCluster(tmp_path / "two", port, 0, 0)
        EmbeddedCluster(tmp_path / "two", 0, 0, 0).stop()


def test_connect_needs_no_web_framework(tmp_path: Path) -> None:
    with gamay.connect(tmp_path / "data") as db:
        db.create_table("t", pa.table({"a": [1, 2], "s": ["x", "y"]}))
    code = (
        "import sys, gamay\n"
        f"db = gamay.connect({str(tmp_path / 'data')!r})\n"
        "assert db.sql('SELECT s, sum(a) FROM t GROUP BY s ORDER BY s').rows() == [('x', 1.0), ('y', 2.0)]\n"
        "heavy = ('fastapi', 'starlette', 'uvicorn', 'httpx', 'pyspark', 'polars', 'duckdb', 'pandas', 'scipy',\n"
        "    'datasketches', 'kazoo', 'gamay.client', 'gamay.controller.api', 'gamay.spark',\n"
        "    'asyncio', 'gamay.rpc', 'gamay.broker.scatter.remote', 'gamay.server.consuming',\n"
        "    'gamay.ingest.transform.pipeline', 'gamay.segment.mutable',\n"
        "    'gamay.server.loading.keyed_tables', 'gamay.upsert.tables.table',\n"
        "    'gamay.functions.scalar.common', 'gamay.functions.scalar.extended',\n"
        "    'gamay.functions.aggregate.common', 'gamay.functions.aggregate.extended')\n"
        "print([m for m in heavy if m in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S)
    assert told.stdout.strip() == "[]", told.stderr


def test_segments_of_limited_size_become_visible_together(db: Database) -> None:
    db.create_table("trips", ROWS)
    cluster = db._cluster
    many = pa.table({"city": ["Oslo"] * 1000, "n": list(range(1000)), "x": [0.0] * 1000})
    from gamay.embedded.sources import open_source

    source = open_source(many)
    records = db._folder.writer.write("trips_OFFLINE", source.rows, lambda n: f"part_{n}", rows_per_segment=300)
    cluster.wait_until_visible("trips_OFFLINE", [r.name for r in records])
    assert [record.total_docs for record in records] == [300, 300, 300, 100]
    assert db.sql("SELECT count(*) FROM trips").rows() == [(1003,)]
    with pytest.raises(ConflictError):
        db._folder.writer.write("trips_OFFLINE", open_source(many).rows, lambda n: f"part_{n + 3}", rows_per_segment=300)
    assert db.sql("SELECT count(*) FROM trips").rows() == [(1003,)]


def test_pandas_missing_values_are_nulls(db: Database) -> None:
    frame = pd.DataFrame({"s": ["a", None], "n": pd.array([1, None], dtype="Int64")})
    db.create_table("gaps", frame)
    assert db.sql("SELECT count(*) FROM gaps WHERE s IS NULL").rows() == [(1,)]
    assert db.sql("SELECT count(*) FROM gaps WHERE n IS NOT NULL").rows() == [(1,)]


def test_errors_are_gamay_errors() -> None:
    assert issubclass(InUseError, GamayError)


def test_segments_and_lists_of_files(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.csv").write_text(f"a,b\n{number},x\n")
    with gamay.connect(tmp_path / "data", threads=1) as database:
        database.create_table("t", [tmp_path / "0.csv", str(tmp_path / "1.csv")])
        database.append("t", (tmp_path / "2.csv",))
        assert sorted(database.segments("t").values()) == [1, 2]
        assert database.sql("SELECT a FROM t ORDER BY a").rows() == [(0,), (1,), (2,)]


def test_a_lazy_polars_frame_is_collected(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    with gamay.connect(tmp_path, threads=1) as database:
        database.create_table("t", polars.LazyFrame({"a": [1, 2]}))
        assert database.sql("SELECT SUM(a) FROM t").rows() == [(3.0,)]


@pytest.mark.parametrize("data", [[], [1, 2], 7, {"a": 1}])
def test_what_is_no_data_is_refused(tmp_path: Path, data: Any) -> None:
    with gamay.connect(tmp_path, threads=1) as database, pytest.raises(InvalidConfigError, match="cannot read rows from"):
        database.create_table("t", data)


def test_mistakes_are_told_with_what_would_be_right(tmp_path: Path) -> None:
    database = gamay.connect(tmp_path, threads=1)
    database.create_table("flights", pa.table({"a": [1]}))
    with pytest.raises(NotFoundError, match="flights"):
        database.segments("flihgts")
    with pytest.raises(NotFoundError, match="There are: flights"):
        database.append("zzz", pa.table({"a": [1]}))
    with pytest.raises(InvalidConfigError, match="a query is a text"):
        database.sql(7)  # type: ignore[arg-type]
    with pytest.raises(InvalidConfigError, match="threads"):
        gamay.connect(tmp_path / "other", threads=0)
    database.close()
    database.close()
    assert "closed" in repr(database)
    with pytest.raises(GamayError, match=r"open it again with gamay\.connect"):
        database.sql("SELECT 1")


def test_a_folder_with_a_running_cluster_tells_how_to_ask_it(tmp_path: Path) -> None:
    with (
        EmbeddedCluster(tmp_path, 0, 0, 0, threads=1, warm_up=False) as cluster,
        pytest.raises(InUseError, match=f"gamay sql {cluster.broker_url}"),
    ):
        gamay.connect(tmp_path)


def test_answers_show_themselves_in_notebooks(tmp_path: Path) -> None:
    with gamay.connect(tmp_path, threads=1) as database:
        database.create_table("t", pa.table({"name": ["<b>"] * 30, "n": range(30)}))
        shown = database.sql("SELECT name, n FROM t ORDER BY n LIMIT 25")._repr_html_()
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown
    assert shown.count("<tr>") == 21
    assert "25 rows, " in shown
    assert "The first 20 are shown." in shown


def test_a_damaged_segment_is_never_served(tmp_path: Path) -> None:
    with gamay.connect(tmp_path, threads=1) as database:
        database.create_table("t", pa.table({"n": range(1000)}))
    (file,) = tmp_path.glob("deepstore/*/*/columns.bin")
    content = bytearray(file.read_bytes())
    content[300] ^= 1
    file.write_bytes(content)
    with gamay.connect(tmp_path, threads=1) as database:
        for _ in range(3):
            with pytest.raises(GamayError, match=r"damaged|unavailable"):
                database.sql("SELECT SUM(n) FROM t WHERE n > 5")
    file.write_bytes(bytes([*content[:300], content[300] ^ 1, *content[301:]]))
    with gamay.connect(tmp_path, threads=1) as database:
        assert database.sql("SELECT COUNT(*) FROM t WHERE n > 5").rows() == [(994,)]


def test_a_damaged_metadata_store_is_told(tmp_path: Path) -> None:
    gamay.connect(tmp_path, threads=1).close()
    (tmp_path / "metadata.db").write_bytes(b"garbage" * 1000)
    for _ in range(2):
        with pytest.raises(GamayError, match="metadata store"):
            gamay.connect(tmp_path, threads=1)


def test_a_cluster_is_ready_once_its_kernels_are(tmp_path: Path) -> None:
    with EmbeddedCluster(tmp_path, 0, 0, 0, threads=1) as cluster:
        assert cluster.start() is cluster
        assert cluster.wait_until_ready(120)
        assert httpx.get(f"{cluster.server_url}/health").status_code == 200


def test_slips_are_told(db: Database) -> None:
    with pytest.warns(UserWarning, match=r"/tableIndexConfig/invertedIndexColums.*Did you mean 'invertedIndexColumns'"):
        db.create_table("trips", ROWS, config={"tableIndexConfig": {"invertedIndexColums": ["city"]}})
    with pytest.raises(RecordError, match=r"none of its columns \(town\) is a column of trips \(city, n, x\)"):
        db.append("trips", pa.table({"town": ["Rome"]}))
    db.append("trips", pa.table({"town": ["Rome"], "city": ["Roma"]}))
    assert db.sql("SELECT COUNT(*) FROM trips").rows() == [(4,)]


def test_a_file_of_another_shape_makes_no_rows(db: Database, tmp_path: Path) -> None:
    db.create_table("trips", ROWS)
    (tmp_path / "a.csv").write_text("city;n;x\nRome;1;2\n")
    with pytest.raises(RecordError, match=r"a.csv: none of its columns \(city;n;x\).*delimiter"):
        db.append("trips", tmp_path / "a.csv")
    assert db.sql("SELECT COUNT(*) FROM trips").rows() == [(3,)]


def test_files_are_read_as_the_reader_says(tmp_path):
    (tmp_path / "a.csv").write_text("k;n\nx;1;more\ny;2\n")
    with gamay.connect(tmp_path / "db") as db:
        with pytest.raises(gamay.GamayError, match="ignoreExtraValues"):
            db.create_table("t", tmp_path / "a.csv", reader={"delimiter": ";"})
        taken = {"delimiter": ";", "ignoreExtraValues": True}
        db.create_table("t", tmp_path / "a.csv", reader=taken)
        db.append("t", [tmp_path / "a.csv"], reader=taken)
        db.create_table("t", tmp_path / "a.csv", if_exists="append", reader=taken)
        assert db.sql("SELECT k, SUM(n) FROM t GROUP BY k ORDER BY k").rows() == [("x", 3.0), ("y", 6.0)]
        with pytest.raises(gamay.GamayError, match=r"unknown key .delimeter.*delimiter"):
            db.append("t", tmp_path / "a.csv", reader={"delimeter": ";"})
        with pytest.raises(gamay.GamayError, match="is how files are read; the data is a dict"):
            db.append("t", {"k": ["x"], "n": [1]}, reader=taken)
