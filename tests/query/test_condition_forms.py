"""Conditions find the same rows for a column in any storage, with any indexes, and for an expression with its values."""

import math
import operator
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gamay
from gamay.base.errors import QueryError
from gamay.embedded import Database

NAMES = ("i", "l", "f", "d", "n", "z")
FORMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "raw": {"noDictionaryColumns": list(NAMES)},
    "indexed": {
        "invertedIndexColumns": list(NAMES),
        "rangeIndexColumns": list(NAMES),
        "bloomFilterColumns": list(NAMES),
    },
    "ranges": {"noDictionaryColumns": ["i", "l", "f", "d"], "rangeIndexColumns": ["i", "l", "f", "d"]},
}
SCHEMA: dict[str, Any] = {
    "dimensionFieldSpecs": [
        {"name": "id", "dataType": "INT"},
        {"name": "i", "dataType": "INT"},
        {"name": "l", "dataType": "LONG"},
        {"name": "f", "dataType": "FLOAT"},
        {"name": "d", "dataType": "DOUBLE"},
        {"name": "n", "dataType": "BIG_DECIMAL"},
        {"name": "z", "dataType": "DOUBLE", "defaultNullValue": "-0.0"},
        {"name": "s", "dataType": "STRING"},
        {"name": "by", "dataType": "BYTES"},
        {"name": "u", "dataType": "UUID"},
    ]
}
_F = float(np.float32(1.1))
VALUES: dict[str, list[Any]] = {
    "i": [0, -1, 5, 16777217, 2**31 - 1, -(2**31) + 1],
    "l": [0, -1, 2**53 + 1, 2**53, 2**63 - 1, -(2**63) + 1],
    "f": [0.0, _F, 16777216.0, math.inf, -math.inf, 3.4028234663852886e38],
    "d": [0.0, 1.1, 2.0**53, math.inf, -math.inf, 2.0**63],
    "n": [Decimal(0), Decimal("1.1"), Decimal(2**53 + 1), Decimal("1e-20"), Decimal(-5), Decimal("9.5e30")],
}
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
CONSTANTS = (
    "0",
    "-0.0",
    "'-0.0'",
    "5.5",
    "1.1",
    "'1.1'",
    "16777217",
    "9007199254740993",
    "'9007199254740993'",
    "3000000000",
    "9223372036854775807",
    "'9223372036854775808'",
    "1e39",
    "-1e39",
    "1e300",
    "'NaN'",
    "'Infinity'",
    "'-Infinity'",
    "CAST('1.1' AS FLOAT)",
)


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A table for each form, of two segments."""
    folder: Path = tmp_path_factory.mktemp("forms")
    rows = [
        {
            "id": row,
            **{name: values[row] for name, values in VALUES.items()},
            "n": format(VALUES["n"][row], "f"),
            "z": None if row % 2 else 0.0,
            "s": ("3000000000", "-3000000000", "9223372036854775808", "1e30", "12", "-3.9")[row],
            "by": bytes(15) + bytes([row]),
            "u": bytes(15) + bytes([2 * row]),
        }
        for row in range(6)
    ]
    with gamay.connect(folder, threads=1) as opened:
        for form, indexing in FORMS.items():
            opened.create_table(form, None, schema=SCHEMA, config={"tableIndexConfig": indexing})
            for part in (rows[:4], rows[4:]):
                opened.append(form, pa.Table.from_pylist(part))
        yield opened


def _ids(db: Database, form: str, condition: str) -> list[int]:
    return sorted(row[0] for row in db.sql(f"SELECT id FROM {form} WHERE {condition} LIMIT 100").rows())


def _constant(text: str, column: str) -> Any:
    """Return the exact value of a constant beside a column; a fraction beside a double is parsed as a double."""
    plain = text.removeprefix("CAST(").removesuffix(" AS FLOAT)").strip("'")
    if plain.lstrip("-").isdigit():
        return int(plain) if column != "f" else float(np.float32(int(plain)))
    number = float(plain)
    if column == "f" and math.isfinite(number) and abs(number) < 3.5e38:
        return float(np.float32(number))
    return Decimal(plain) if column == "n" and math.isfinite(number) else number


def _holds(comparison: str, value: Any, constant: Any) -> bool:
    if constant != constant:  # NaN is greater than every number
        return comparison in ("<", "<=", "<>")
    return COMPARISONS[comparison](value, constant)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("column", VALUES)
def test_numbers_are_compared_exactly_by_columns_and_by_expressions(db: Database, form: str, column: str) -> None:
    expression = f"CASE WHEN id >= 0 THEN {column} END"
    for text in CONSTANTS:
        constant = _constant(text, column)
        for comparison in COMPARISONS:
            expected = [row for row, value in enumerate(VALUES[column]) if _holds(comparison, value, constant)]
            for operand in (column, expression, f"NOT NOT {column}", f"1 = 1 AND {column}"):
                assert _ids(db, form, f"{operand} {comparison} {text}") == expected, (operand, comparison, text)
        equal = [row for row, value in enumerate(VALUES[column]) if _holds("=", value, constant)]
        for operand in (column, expression):
            assert _ids(db, form, f"{operand} IN ({text}, 77)") == equal, (operand, text)


@pytest.mark.parametrize(("left", "right"), [("l", "d"), ("l", "f"), ("i", "f"), ("i", "d"), ("f", "d"), ("i", "l")])
def test_columns_of_numbers_are_compared_exactly(db: Database, left: str, right: str) -> None:
    for comparison, compare in COMPARISONS.items():
        pairs = list(zip(VALUES[left], VALUES[right], strict=True))
        expected = [row for row, (one, other) in enumerate(pairs) if compare(one, other)]
        mirrored = [row for row, (one, other) in enumerate(pairs) if compare(other, one)]
        assert _ids(db, "raw", f"{left} {comparison} {right}") == expected, comparison
        assert _ids(db, "plain", f"{right} {comparison} {left}") == mirrored, comparison


def test_a_column_that_is_no_double_equals_none(db: Database) -> None:
    # 2**53 + 1 and 2**53 are one double
    assert _ids(db, "plain", "l = CASE WHEN id >= 0 THEN 9007199254740992.0 END") == [3]
    assert _ids(db, "plain", "i = CASE WHEN id >= 0 THEN CAST('16777216' AS FLOAT) END") == []


@pytest.mark.parametrize("form", FORMS)
def test_there_is_one_zero(db: Database, form: str) -> None:
    for text in ("0", "0.0", "-0.0", "'-0.0'"):
        assert _ids(db, form, f"z = {text}") == [*range(6)], text
        assert _ids(db, form, f"z < {text}") == [], text
    assert db.sql(f"SELECT z, COUNT(*) FROM {form} GROUP BY z").rows() == [(0.0, 6)]
    assert {math.copysign(1, row[0]) for row in db.sql(f"SELECT z FROM {form}").rows()} == {1.0}
    for query in ("SELECT id * -0.0, COUNT(*) FROM {} GROUP BY id * -0.0", "SELECT DISTINCT id * -0.0 FROM {}"):
        rows = db.sql(query.format(form)).rows()
        assert [math.copysign(1, row[0]) for row in rows] == [1.0]


@pytest.mark.parametrize("form", FORMS)
def test_bytes_and_uuids_are_compared_by_their_bytes(db: Database, form: str) -> None:
    uuid = "CAST('00000000-0000-0000-0000-000000000004' AS UUID)"
    for operand in ("by", "CASE WHEN id >= 0 THEN by END"):
        assert _ids(db, form, f"{operand} = {uuid}") == [4]
        assert _ids(db, form, f"{operand} < '00000000000000000000000000000002'") == [0, 1]
    assert _ids(db, form, "by = u") == [0]
    assert _ids(db, form, "by < u") == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("nulls", ["", "SET enableNullHandling=true; "])
@pytest.mark.parametrize(
    "condition", ["i = NULL", "i + 1 = NULL", "NULL <> i * 2", "i + 1 IN (1, NULL)", "i + 1 BETWEEN NULL AND 3"]
)
def test_what_is_compared_with_null_is_refused(db: Database, nulls: str, condition: str) -> None:
    with pytest.raises(QueryError, match="is compared with NULL, which matches nothing; write IS NULL"):
        db.sql(f"{nulls}SELECT id FROM plain WHERE {condition}")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["INT", "LONG"])
def test_texts_beyond_a_whole_number_are_cast_alike_everywhere(db: Database, form: str, name: str) -> None:
    least, most = (-(2**31), 2**31 - 1) if name == "INT" else (-(2**63), 2**63 - 1)
    for row, text in db.sql(f"SELECT id, s FROM {form} ORDER BY id LIMIT 10").rows():
        expected = [(min(max(int(Decimal(text)), least), most),)]
        for argument in ("s", "CASE WHEN id >= 0 THEN s END", f"'{text}'"):
            assert db.sql(f"SELECT CAST({argument} AS {name}) FROM {form} WHERE id = {row}").rows() == expected, argument


def test_what_is_no_number_is_no_decimal(db: Database) -> None:
    for text in ("NaN", "Infinity", "-Infinity"):
        with pytest.raises(QueryError, match=f"'{text}' cannot be read as BIG_DECIMAL"):
            db.sql(f"SELECT CAST('{text}' AS BIG_DECIMAL)")


def test_constants_without_a_table_have_the_names_of_their_values(db: Database) -> None:
    uuid = "00000000-0000-0000-0000-000000000005"
    found = db.sql(f"SELECT CAST(1.1 AS FLOAT), CAST('{uuid}' AS UUID), CAST('NaN' AS FLOAT)")
    assert found.columns == ("1.1", uuid, "NaN")


@pytest.mark.parametrize("form", FORMS)
def test_letters_beyond_ascii_are_the_same_in_any_case(db: Database, form: str) -> None:
    written = "CASE WHEN id = 1 THEN 'Äpfel' WHEN id = 2 THEN 'äpfel' WHEN id = 3 THEN 'STRAẞE' ELSE s END"
    for pattern, rows in (("^ÄPF", [1, 2]), ("[ä-ü]p", [1, 2]), ("^ä.*l$", [1, 2]), ("straße", [3])):
        assert _ids(db, form, f"REGEXP_LIKE({written}, '{pattern}', 'i')") == rows, pattern
    assert _ids(db, form, f"REGEXP_LIKE({written}, '^ä')") == [2]
    assert _ids(db, form, f"{written} LIKE 'äp%'") == [1, 2]
