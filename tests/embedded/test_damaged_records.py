"""With any damaged record the cluster starts, serves other tables, and reports the damage.

`GAMAY_RECORD_MUTANTS=all` tries every single-field mutation of every record.
"""

import os
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from benchmarks.attack.records import mutants, nodes, overwrite
from tests.seeds import FIRST

import gamay
from gamay.base.clock import SYSTEM_CLOCK
from gamay.cluster.store.embedded_store import EmbeddedStore
from gamay.controller.health.cluster_status import cluster_status

_WANTED = os.environ.get("GAMAY_RECORD_MUTANTS", "60")
_ROWS = pa.table({"id": [1, 2, 3], "city": ["a", "b", "c"], "ts": [1700000000000, 1700000000001, 1700000000002]})


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a database with two tables."""
    folder = tmp_path_factory.mktemp("stored") / "db"
    with gamay.connect(folder) as db:
        for name in ("first", "second"):
            db.create_table(name, _ROWS)
    return folder


def _mutants(folder: Path) -> list[tuple[str, str, bytes]]:
    """Return (path, description, bytes) of every mutation of every record."""
    store = EmbeddedStore.open(folder / "metadata.db", SYSTEM_CLOCK)
    found = [(path, what, new) for path, value in nodes(store) for what, new in mutants(value)]
    store.close()
    return found


def _asked(db: gamay.Database, sql: str) -> tuple[Any, str]:
    """Return the result of a query, or None and the error if it fails."""
    try:
        return db.sql(sql).to_numpy(), ""
    except gamay.GamayError as error:
        return None, str(error)


def test_a_database_opens_whatever_a_record_holds(stored: Path, tmp_path: Path) -> None:
    mutants = _mutants(stored)
    random.Random(FIRST).shuffle(mutants)
    for number, (path, what, value) in enumerate(mutants if _WANTED == "all" else mutants[: int(_WANTED)]):
        folder = tmp_path / str(number)
        shutil.copytree(stored, folder)
        overwrite(folder / "metadata.db", path, value)
        with gamay.connect(folder) as db:
            for table in ("first", "second"):
                result, told = _asked(db, f"SELECT count(*), sum(id) FROM {table} WHERE ts > 5")
                if result is None:
                    assert table in path, (path, what, told)
                    continue
                counted = int(result["count(*)"][0])
                # an ideal state without segments is sound: records that it does not name were never acknowledged
                assert counted == 3 or (counted == 0 and "IDEALSTATES" in path), (path, what, counted)
                if counted:
                    assert np.asarray(result["sum(id)"])[0] == 6
        shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("PROPERTYSTORE/CONFIGS/TABLE/first_OFFLINE", "PROPERTYSTORE/CONFIGS/TABLE/first_OFFLINE is damaged"),
        ("PROPERTYSTORE/SCHEMAS/first", "PROPERTYSTORE/SCHEMAS/first is damaged"),
        ("IDEALSTATES/first_OFFLINE", "not a ZNRecord"),
    ],
)
def test_damage_is_told(stored: Path, tmp_path: Path, path: str, found: str) -> None:
    shutil.copytree(stored, tmp_path / "db")
    overwrite(tmp_path / "db" / "metadata.db", f"/PinotCluster/{path}", b"{}")
    with gamay.connect(tmp_path / "db") as db:
        with pytest.raises(gamay.GamayError, match=f"Table 'first' cannot be queried: .*{found}"):
            db.sql("SELECT count(*) FROM first")
        assert db.sql("SELECT count(*) FROM second").to_numpy()["count(*)"][0] == 3
        told = cluster_status(db._cluster.context)["problems"]
    assert [one["subject"] for one in told if found in one["problem"]] == ["first_OFFLINE"], told
