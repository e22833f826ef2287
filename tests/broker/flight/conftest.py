"""Embedded clusters with Flight SQL: one without and one with login."""

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import gamay
from gamay.embedded import EmbeddedCluster
from gamay.roles.settings import read_access

TRIPS = pa.table(
    {
        "city": ["Oslo", "Bern", None, "Lima"],
        "n": [1, 2, 3, None],
        "small": pa.array([1, 2, 3, 4], pa.int32()),
        "real": pa.array([0.5, 1.5, 2.5, 3.5], pa.float32()),
        "x": [1.5, None, 3.0, -0.0],
        "good": [True, False, True, None],
        "at": pa.array([datetime(2024, 1, day) for day in (1, 2, 3, 4)], pa.timestamp("ms")),
        "raw": [b"\x00\xff", b"2", None, b""],
        "price": [Decimal("1.10"), Decimal("12345678901234567890.5"), None, Decimal("-2")],
        "tags": [["a", "b"], ["c"], [], ["d"]],
        "counts": pa.array([[1, 2], [3], [], [4]], pa.list_(pa.int64())),
    }
)
ACCESS = """
pinot.broker.enable.row.column.level.auth=true
pinot.broker.access.control.class=BasicAuthAccessControlFactory
pinot.broker.access.control.principals=admin,guest,part
pinot.broker.access.control.principals.admin.password=verysecret
pinot.broker.access.control.principals.guest.password=secret
pinot.broker.access.control.principals.guest.tables=trips
pinot.broker.access.control.principals.part.password=some
pinot.broker.access.control.principals.part.tables=trips
pinot.broker.access.control.principals.part.trips.rls=city = 'Oslo'
"""


def fill(folder: Path) -> None:
    with gamay.connect(folder) as db:
        db.create_table("trips", TRIPS)
        db.create_table("pay", pa.table({"n": [4, 5]}))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    folder = tmp_path_factory.mktemp("flight") / "data"
    fill(folder)
    with EmbeddedCluster(folder, 0, 0, 0, flight_port=0, threads=1, warm_up=False) as found:
        yield found


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    folder = tmp_path_factory.mktemp("flight-access")
    fill(folder / "data")
    (folder / "access.properties").write_text(ACCESS)
    access = read_access(folder / "access.properties")
    with EmbeddedCluster(folder / "data", 0, 0, 0, flight_port=0, threads=1, warm_up=False, access=access) as found:
        yield found
