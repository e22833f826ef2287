"""A value that cannot be computed fails a query only if no AND, OR, CASE, WHERE or FILTER excludes its row."""

import ipaddress
import itertools
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import gamay
from gamay.base.errors import ErrorCode, QueryError
from gamay.embedded import Database

ROWS = 3000
KINDS = [("v4" if i % 3 else "other") for i in range(ROWS)]
ADDRESSES = [f"10.0.{i % 150}.{i % 7}" if kind == "v4" else "no address" for i, kind in enumerate(KINDS)]
DOCUMENTS = [f'{{"n": {i % 9}}}' if kind == "v4" else "{}" for i, kind in enumerate(KINDS)]
NUMBERS = [i % 11 for i in range(ROWS)]
LONGS = [int(ipaddress.IPv4Address(text)) if kind == "v4" else None for text, kind in zip(ADDRESSES, KINDS, strict=True)]
MIDDLE = int(ipaddress.IPv4Address("10.0.75.0"))
FORMS = {
    "encoded": {},
    "raw": {"noDictionaryColumns": ["kind", "address", "document", "number"]},
    "inverted": {"invertedIndexColumns": ["kind", "number"]},
    "range": {"noDictionaryColumns": ["address", "number"], "rangeIndexColumns": ["number"]},
}


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    columns = {"kind": KINDS, "address": ADDRESSES, "document": DOCUMENTS, "number": pa.array(NUMBERS, pa.int32())}
    fields = [{"name": name, "dataType": "INT" if name == "number" else "STRING"} for name in columns]
    with gamay.connect(tmp_path_factory.mktemp("guarded") / "data") as database:
        for name, indexing in FORMS.items():
            database.create_table(name, schema={"dimensionFieldSpecs": fields}, config={"tableIndexConfig": indexing})
            rows = pa.table(columns)
            database.append(name, rows.slice(0, 1300))
            database.append(name, rows.slice(1300))
        yield database


def is_high(row: int) -> bool:
    number = LONGS[row]
    return number is not None and number > MIDDLE


HIGH = f"ipv4ToLong(address) > {MIDDLE}"
CONDITIONS: dict[str, Any] = {
    f"kind = 'v4' AND {HIGH}": is_high,
    f"{HIGH} AND kind = 'v4'": is_high,
    f"isIPv4String(address) AND {HIGH} AND number < 5": lambda row: is_high(row) and NUMBERS[row] < 5,
    f"kind = 'other' OR {HIGH}": lambda row: LONGS[row] is None or is_high(row),
    f"NOT (kind = 'other' OR {HIGH})": lambda row: LONGS[row] is not None and not is_high(row),
    f"kind = 'v4' AND (number = 3 OR {HIGH})": lambda row: LONGS[row] is not None and (NUMBERS[row] == 3 or is_high(row)),
    f"number = 4 AND kind = 'v4' AND {HIGH}": lambda row: is_high(row) and NUMBERS[row] == 4,
    f"jsonExtractScalar(document, '$.n', 'INT') = 4 AND {HIGH} AND kind = 'v4'": lambda row: is_high(row) and row % 9 == 4,
    "jsonPathExists(document, '$.n') AND jsonExtractScalar(document, '$.n', 'INT') < 2": lambda row: row % 3 and row % 9 < 2,
    f"CASE WHEN kind = 'v4' THEN {HIGH} ELSE number = 3 END": lambda row: (
        is_high(row) if LONGS[row] is not None else NUMBERS[row] == 3
    ),
    f"(kind = 'v4' AND {HIGH}) = TRUE": is_high,
    f"(number + 0 < 20 AND kind = 'v4' AND {HIGH}) = TRUE": is_high,
}


@pytest.mark.parametrize(("form", "nulls"), list(itertools.product(FORMS, (False, True))))
def test_conditions_keep_others_from_rows(db: Database, form: str, nulls: bool) -> None:
    for condition, holds in CONDITIONS.items():
        expected = sum(1 for row in range(ROWS) if holds(row))
        for query in (
            f"SELECT COUNT(*) FROM {form} WHERE {condition}",
            f"SELECT COUNT(*) FILTER(WHERE {condition}) FROM {form}",
            f"SELECT SUM(CASE WHEN {condition} THEN 1 ELSE 0 END) FROM {form}",
            f"SELECT COUNT(number) FROM {form} WHERE {condition} GROUP BY number + number * 0 = number",
        ):
            assert db.sql(query, enableNullHandling=nulls).rows() == [(expected,)], query


@pytest.mark.parametrize("form", FORMS)
def test_clauses_are_computed_for_the_rows_of_where(db: Database, form: str) -> None:
    expected = sum(map(is_high, range(ROWS)))
    query = f"SELECT COUNT(*) FILTER(WHERE {HIGH}), SUM(number) FILTER(WHERE number > 9) FROM {form} WHERE kind = 'v4'"
    tens = sum(10 for row in range(ROWS) if NUMBERS[row] == 10 and LONGS[row] is not None)
    assert db.sql(query).rows() == [(expected, tens)]


@pytest.mark.parametrize("form", FORMS)
def test_values_of_case_are_computed_where_they_are_chosen(db: Database, form: str) -> None:
    chosen = [
        ("CASE WHEN isIPv4String(address) THEN ipv4ToLong(address) ELSE 0 END", [number or 0 for number in LONGS]),
        ("CASE WHEN kind = 'other' THEN -1 WHEN number < 0 THEN ipv4ToLong(kind) ELSE ipv4ToLong(address) END",
         [-1 if number is None else number for number in LONGS]),
        ("CASE WHEN kind = 'other' THEN kind WHEN number > 5 THEN ipPrefix(address, 16) ELSE ipSubnetMin(address) END",
         [kind if kind == "other" else "10.0.0.0/16" if number > 5 else address
          for kind, number, address in zip(KINDS, NUMBERS, ADDRESSES, strict=True)]),
    ]  # fmt: skip
    for expression, expected in chosen:
        rows = db.sql(f"SELECT {expression} FROM {form} ORDER BY $segmentName, $docId LIMIT {ROWS}").rows()
        assert [row[0] for row in rows] == expected


@pytest.mark.parametrize("form", FORMS)
def test_what_nothing_keeps_away_is_an_error(db: Database, form: str) -> None:
    for condition in (
        HIGH,
        f"number < 5 AND {HIGH}",
        f"kind = 'v4' OR {HIGH}",
        f"CASE WHEN number < 5 THEN {HIGH} ELSE FALSE END",
        f"{HIGH} AND jsonExtractScalar(document, '$.n', 'INT') = 4",
    ):
        with pytest.raises(QueryError) as caught:
            db.sql(f"SELECT COUNT(*) FROM {form} WHERE {condition}")
        assert caught.value.code is ErrorCode.QUERY_EXECUTION
