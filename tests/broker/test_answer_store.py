"""Answers stored for cursors: pages against the whole answer, expiry, access."""

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest

from gamay.base.clock import ManualClock
from gamay.base.errors import ErrorCode, NotFoundError, QueryError
from gamay.broker.answer.answer_store import AnswerStore, OffsetError
from gamay.cluster.access.principals import ANYONE, Principal
from gamay.functions.vector import Vector
from gamay.model.types import DataType
from gamay.query.answer.response import BrokerResponse, ResultTable, encode

HOUR_MS = 3_600_000


def a_store(clock: ManualClock) -> AnswerStore:
    return AnswerStore(clock, lambda: ("b1", 8099))


def answer(num_rows: int, request_id: str = "7") -> BrokerResponse:
    """An answer of as many rows; a value is NaN, some texts have quotes and commas, numbers need all digits."""
    numbers = np.arange(num_rows) / 3
    numbers[:1] = np.nan
    table = ResultTable(
        ("d", "s", "l"),
        ("DOUBLE", "STRING", "LONG_ARRAY"),
        (
            Vector(DataType.DOUBLE, numbers),
            Vector(DataType.STRING, pa.array([f'"{i}",[é' for i in range(num_rows)])),
            Vector(DataType.LONG, np.full(2 * num_rows, 2**63 - 1), np.arange(0, 2 * num_rows + 1, 2)),
        ),
    )
    return BrokerResponse(table=table, request_id=request_id, tables_queried=["trips"])


def keep(store: AnswerStore, response: BrokerResponse, num_rows: int = 0, owner: Principal = ANYONE) -> Any:
    assert response.table is not None
    return orjson.loads(store.keep(response, response.table, num_rows, owner))


@pytest.mark.parametrize("num_rows", [1, 999, 1000, 1001, 4321])
def test_pages_have_the_rows_of_the_answer(num_rows: int) -> None:
    store, response = a_store(ManualClock()), answer(num_rows)
    whole = orjson.loads(encode(response))
    first = keep(store, response, 10)
    assert first["resultTable"]["rows"] == whole["resultTable"]["rows"][:10]
    assert (first["offset"], first["numRows"], first["numRowsResultSet"]) == (0, min(10, num_rows), num_rows)
    for offset in (0, num_rows // 3, num_rows // 2, num_rows - 1):
        for size in (1, 7, 1000, 2500, num_rows + 5):
            page = orjson.loads(store.page("7", offset, size, ANYONE))
            assert page["resultTable"]["rows"] == whole["resultTable"]["rows"][offset : offset + size]
            assert (page["offset"], page["numRows"]) == (offset, len(page["resultTable"]["rows"]))
            assert page["resultTable"]["dataSchema"] == whole["resultTable"]["dataSchema"]
            assert page["numRowsResultSet"] == num_rows
    with pytest.raises(OffsetError, match=f"Offset {num_rows} should be lesser than totalRecords {num_rows}"):
        store.page("7", num_rows, 1, ANYONE)


def test_what_a_page_tells_beside_its_rows() -> None:
    clock = ManualClock(5_000)
    page = keep(a_store(clock), answer(2))
    assert list(page) == [
        *orjson.loads(encode(answer(2))),
        *("offset", "numRows", "cursorResultWriteTimeMs", "cursorFetchTimeMs", "submissionTimeMs", "expirationTimeMs"),
        *("brokerHost", "brokerPort", "bytesWritten"),
    ]
    assert (page["submissionTimeMs"], page["expirationTimeMs"]) == (5_000, 5_000 + HOUR_MS)
    assert (page["brokerHost"], page["brokerPort"]) == ("b1", 8099)
    assert page["bytesWritten"] > 0


def test_an_answer_without_rows_has_its_columns() -> None:
    store = a_store(ManualClock())
    for page in (keep(store, answer(0)), orjson.loads(store.page("7", 0, 5, ANYONE))):
        assert page["resultTable"]["rows"] == []
        assert page["resultTable"]["dataSchema"]["columnNames"] == ["d", "s", "l"]


def test_settings_say_how_many_rows_a_page_has_and_how_long_answers_are_kept() -> None:
    clock = ManualClock()
    store = a_store(clock)
    assert keep(store, answer(10_001))["numRows"] == 10_000
    store.apply({"pinot.broker.cursor.fetch.rows": "3", "pinot.broker.cursor.response.store.expiration": "1m"})
    assert keep(store, answer(5, "8"))["numRows"] == 3
    clock.advance(59.999)
    assert [one["requestId"] for one in store.all_described(ANYONE)] == ["7", "8"]
    assert "resultTable" not in store.described("8", ANYONE)
    clock.advance(0.001)
    assert [one["requestId"] for one in store.all_described(ANYONE)] == ["7"]
    with pytest.raises(NotFoundError, match="Query results for 8 not found"):
        store.page("8", 0, 1, ANYONE)
    assert store.delete_expired(clock.now_ms() + HOUR_MS, ANYONE) == 1
    assert store.all_described(ANYONE) == []


def test_files_go_with_their_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    store = a_store(ManualClock())
    keep(store, answer(3))
    keep(store, answer(3, "8"))
    assert sorted(path.name for path in tmp_path.glob("*/*")) == ["7", "8"]
    store.delete("7", ANYONE)
    assert [path.name for path in tmp_path.glob("*/*")] == ["8"]
    next(tmp_path.glob("*/8")).unlink()
    with pytest.raises(NotFoundError):
        store.page("8", 0, 1, ANYONE)
    del store
    assert list(tmp_path.iterdir()) == []


def test_rows_that_cannot_be_written_are_an_error_of_the_query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = a_store(ManualClock())
    keep(store, answer(1))
    monkeypatch.setattr(store, "_folder", tmp_path / "unmounted")
    with pytest.raises(QueryError, match="cannot be stored for a cursor: No such file") as caught:
        keep(store, answer(1, "8"))
    assert caught.value.code is ErrorCode.QUERY_EXECUTION
    assert len(store.all_described(ANYONE)) == 1


def test_answers_are_seen_by_those_who_asked_and_by_administrators() -> None:
    store = a_store(ManualClock())
    driver, clerk = (Principal(name, "", frozenset({"trips"})) for name in ("driver", "clerk"))
    keep(store, answer(3), owner=driver)
    assert orjson.loads(store.page("7", 0, 1, driver))["numRows"] == 1
    assert [len(store.all_described(principal)) for principal in (driver, clerk, ANYONE)] == [1, 0, 1]
    assert store.delete_expired(2**60, clerk) == 0
    for forbidden in (lambda: store.page("7", 0, 1, clerk), lambda: store.delete("7", clerk)):
        with pytest.raises(NotFoundError):
            forbidden()
    store.delete("7", driver)
