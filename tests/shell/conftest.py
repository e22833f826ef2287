import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gamay
from gamay.embedded import EmbeddedCluster
from gamay.shell.answer import Answer
from gamay.shell.main import Request, run

ROWS = pa.table(
    {
        "city": ["Oslo", "Lima", "Oslo", None],
        "fare": [12.5, 7.0, None, 3.25],
        "rides": pa.array([1, 20_000, 3, None], pa.int64()),
        "tags": [["rain", "night"], ["a,b"], [], None],
        "day": [20240501, 20240502, 20240502, 20240503],
        "started": pa.array([1714552200000, 1714555800500, 1714638600000, None], pa.timestamp("ms")),
    }
)
SCHEMA = {
    "dimensionFieldSpecs": [
        {"name": "city", "dataType": "STRING"},
        {"name": "tags", "dataType": "STRING", "singleValueField": False},
    ],
    "metricFieldSpecs": [{"name": "fare", "dataType": "DOUBLE"}, {"name": "rides", "dataType": "LONG"}],
    "dateTimeFieldSpecs": [
        {"name": "day", "dataType": "INT", "format": "SIMPLE_DATE_FORMAT|yyyyMMdd", "granularity": "1:DAYS"},
        {"name": "started", "dataType": "TIMESTAMP", "format": "TIMESTAMP", "granularity": "1:MILLISECONDS"},
    ],
    "enableColumnBasedNullHandling": True,
}


@pytest.fixture(autouse=True)
def no_settings_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep tests apart from the config, history and environment of whoever runs them."""
    for name in [name for name in os.environ if name.startswith("GAMAY_") and name not in ("GAMAY_CACHE_DIR",)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with the table `trips`; it is not open."""
    path = tmp_path_factory.mktemp("shell") / "data"
    with gamay.connect(path, threads=1) as db:
        db.create_table("trips", ROWS, SCHEMA)
        db.create_table("numbers", {"n": list(range(20_000))})
    return path


@pytest.fixture(scope="session")
def cluster_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the cluster keeps its data."""
    return tmp_path_factory.mktemp("shell-cluster")


@pytest.fixture(scope="session")
def cluster(cluster_folder: Path) -> Iterator[EmbeddedCluster]:
    """A running cluster with the same table."""
    path = cluster_folder
    with gamay.connect(path, threads=1) as db:
        db.create_table("trips", ROWS, SCHEMA)
        db.create_table("numbers", {"n": list(range(20_000))})
    with EmbeddedCluster(path, 0, 0, 0, threads=1, warm_up=False) as running:
        yield running


@pytest.fixture
def sql(folder: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs statements as `gamay sql` does: exit status, standard output, standard error."""

    def ask(*texts: str, **more: Any) -> tuple[int, str, str]:
        status = run(Request(**{"place": str(folder), "texts": texts, **more}))
        out, err = capfdbinary.readouterr()
        return status, out.decode(errors="replace"), err.decode()

    return ask


class Given:
    """Rows of a test, as answers hold them."""

    def __init__(self, columns: tuple[str, ...], types: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
        self.columns, self.types, self._rows = columns, types, rows

    def rows(self) -> list[tuple[Any, ...]]:
        return self._rows

    def to_arrow(self) -> pa.Table:
        return pa.table({name: [row[i] for row in self._rows] for i, name in enumerate(self.columns)})


@pytest.fixture
def answer() -> Callable[..., Answer]:
    """Return a function that builds an answer from columns, types and rows."""

    def make(columns: tuple[str, ...], types: tuple[str, ...], rows: list[tuple[Any, ...]]) -> Answer:
        return Answer("SELECT", Given(columns, types, rows), lambda: rows, "")

    return make
