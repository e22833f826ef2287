"""`gamay quickstart upsert`, `partial-upsert`: flights of 2013 as events that replace the row of their plane, or add to
it."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from gamay.base.errors import GamayError
from gamay.cli.output import print_heading
from gamay.cli.quickstart import ask, ask_one
from gamay.cli.quickstart_realtime import add_table, tour

if TYPE_CHECKING:
    from gamay.cli.replay import Replay
    from gamay.client import Connection

SAMPLES = Path(__file__).parent / "samples"
LATEST = "planes"
TOTALS = "plane_totals"
ROWS_PER_S = 20_000
LAST_MONTH = 2
PLANE = "N14228"
RETIRED_AT = "2013-12-31T00:00:00Z"
REVIVED_AT = "2013-12-31T12:00:00Z"
_KEY = "tailnum"
_REFRESH_S = 0.5
_LATE_S = 120
_EVERY_ROW = "SET skipUpsert = true; "


def run_upsert(exit_after: bool, data_dir: Path | None, controller_port: int, broker_port: int, server_port: int) -> None:
    """Run the tour of a table that keeps the latest row of each key; see `run_realtime`.

    Raises GamayError if the table does not reach the expected state.
    """
    from gamay.cli.replay import Replay
    from gamay.client import Connection

    with tour(exit_after, data_dir, (controller_port, broker_port, server_port)) as (cluster, folder):
        flights = flights_of_planes()
        print_heading(
            "2. Make a topic, whose messages have the plane as their key, and a table that keeps the latest of each"
        )
        replay = Replay(folder, flights, ROWS_PER_S, name=LATEST, key=_KEY)
        add_table(cluster, SAMPLES / LATEST / "schema.json", SAMPLES / LATEST / "table.json")
        print_heading(f"3. Replay {replay.num_rows:,} flights at {ROWS_PER_S:,} a second: rows come, planes stay")
        with Connection.from_host_list(cluster.broker_url) as connection:
            watch(connection, replay, LATEST, _num_planes(flights))
            ask(cluster.broker_url, 4, SAMPLES / LATEST)
            print_heading("5. Delete a plane, and let it come back")
            _delete_and_revive(connection, folder)


def run_partial_upsert(
    exit_after: bool, data_dir: Path | None, controller_port: int, broker_port: int, server_port: int
) -> None:
    """Run the tour of a table that merges each row into that of its key; see `run_upsert`."""
    from gamay.cli.replay import Replay
    from gamay.client import Connection

    with tour(exit_after, data_dir, (controller_port, broker_port, server_port)) as (cluster, folder):
        flights = flights_of_planes()
        print_heading("2. Make a topic, whose messages have the plane as their key, and a table that adds them up")
        replay = Replay(folder, flights, ROWS_PER_S, name=TOTALS, key=_KEY)
        add_table(cluster, SAMPLES / TOTALS / "schema.json", SAMPLES / TOTALS / "table.json")
        print_heading(
            f"3. Replay {replay.num_rows:,} flights at {ROWS_PER_S:,} a second: each is merged into its plane's row"
        )
        with Connection.from_host_list(cluster.broker_url) as connection:
            watch(connection, replay, TOTALS, _num_planes(flights))
        ask(cluster.broker_url, 4, SAMPLES / TOTALS)


def flights_of_planes() -> pa.Table:
    """Return the flights of January and February whose plane is known, in the order of their departure."""
    from gamay.cli.replay import flights_by_departure

    flights = flights_by_departure()
    known = pc.and_(pc.less_equal(flights.column("month"), LAST_MONTH), pc.is_valid(flights.column(_KEY)))
    return flights.filter(known).combine_chunks()


def _num_planes(flights: pa.Table) -> int:
    return int(pc.count_distinct(flights.column(_KEY)).as_py())


def watch(connection: "Connection", replay: "Replay", table: str, planes: int) -> None:
    """Print the numbers of valid rows and of all rows until all are there. Raises GamayError if they never are."""
    began = time.monotonic()

    def done() -> bool:
        counting = _count(connection, f"SELECT COUNT(*) FROM {table}")
        rows = _count(connection, f"{_EVERY_ROW}SELECT COUNT(*) FROM {table}")
        print(
            f"{time.monotonic() - began:5.1f} s  sent {replay.sent:>7,}  "
            f"COUNT(*) {counting:>6,}  with skipUpsert {rows:>7,}",
            flush=True,
        )
        return (counting, rows) == (planes, replay.num_rows)

    _replay_until(done, replay, f"{planes:,} rows of {replay.num_rows:,} should count in '{table}'")


def _delete_and_revive(connection: "Connection", folder: Path) -> None:
    flight = {"carrier": "UA", "flight": 1, "origin": "EWR", "dest": "IAH", "dep_delay": 0}
    one_plane = f"FROM {LATEST} WHERE tailnum = '{PLANE}'"
    latest = f"SELECT time_hour, origin, dest, retired {one_plane}"
    ask_one(connection, f"The latest flight of {PLANE}", latest)
    gone = dict.fromkeys(flight) | {"retired": True, "time_hour": RETIRED_AT}
    _send(folder, gone, lambda: _count(connection, f"SELECT COUNT(*) {one_plane}") == 0)
    ask_one(connection, "A message came whose deleteRecordColumn, retired, is true: the plane is gone", latest)
    ask_one(connection, "Its key is remembered", f"SET skipUpsertDelete = true; {latest}")
    back = flight | {"retired": False, "time_hour": REVIVED_AT}
    _send(folder, back, lambda: _count(connection, f"SELECT COUNT(*) {one_plane}") == 1)
    ask_one(connection, "A later flight came: the plane is there again", latest)
    everything = f"{_EVERY_ROW}{latest} ORDER BY time_hour DESC LIMIT 4"
    ask_one(connection, "All rows of it, the newest ones first", everything)


def _send(folder: Path, message: dict[str, object], arrived: Callable[[], bool]) -> None:
    from gamay.cli.replay import Replay

    row = pa.Table.from_pylist([{_KEY: PLANE} | message])
    _replay_until(
        arrived, Replay(folder, row, ROWS_PER_S, name=LATEST, key=_KEY, resume=False), f"a message about {PLANE} should show"
    )


def _count(connection: "Connection", sql: str) -> int:
    return int(next(iter(connection.execute(sql))).wire_rows[0][0])


def _replay_until(done: Callable[[], bool], replay: "Replay", wanted: str) -> None:
    """Replay rows until `done`. Raises GamayError, with the expectation `wanted`, if it is not met after all were sent."""
    late_s = 0.0
    with replay:
        while True:
            sent = replay.done
            if done() and sent:
                return
            if replay.failure is not None:
                raise replay.failure
            late_s = late_s + _REFRESH_S if sent else 0.0
            if late_s > _LATE_S:
                raise GamayError(f"{wanted}, and it is not so after {_LATE_S} s")
            threading.Event().wait(_REFRESH_S)
