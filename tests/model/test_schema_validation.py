"""Which schemas are refused, and why."""

from collections.abc import Collection
from typing import Any

import pytest

from gamay.base.errors import ErrorCode, InvalidConfigError, QueryError
from gamay.model.rules.validation import validate_schema
from gamay.model.schema.datetime_format import DateTimeFormat, Granularity
from gamay.model.schema.schema import BUILT_IN_COLUMNS, FieldSpec, Schema
from gamay.model.types import DataType, FieldRole


def refusal(schema: Schema, **options: Any) -> str:
    with pytest.raises(InvalidConfigError) as caught:
        validate_schema(schema, **options)
    return str(caught.value)


def one(spec: FieldSpec) -> Schema:
    return Schema("t", (spec,))


def day(text: str, **options: Any) -> FieldSpec:
    return FieldSpec(
        "d",
        DataType.STRING,
        FieldRole.DATE_TIME,
        format=DateTimeFormat.parse(text),
        granularity=Granularity.parse("1:DAYS"),
        **options,
    )


def test_a_sensible_schema_passes() -> None:
    validate_schema(
        Schema(
            "rides",
            (
                FieldSpec("id", DataType.STRING),
                FieldSpec("tags", DataType.STRING, single_value=False),
                FieldSpec("fare", DataType.DOUBLE, FieldRole.METRIC),
                FieldSpec("ts", DataType.TIMESTAMP, FieldRole.DATE_TIME),
                day("1:DAYS:SIMPLE_DATE_FORMAT:yyyy-MM-dd", sample_value="2013-01-31"),
            ),
            ("id",),
        )
    )


@pytest.mark.parametrize("name", list(BUILT_IN_COLUMNS))
def test_built_in_names_are_taken(name: str) -> None:
    assert "built-in" in refusal(one(FieldSpec(name, DataType.INT)))


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (Schema("t", ()), "no columns"),
        (Schema("a__b", (FieldSpec("a", DataType.INT),)), "'__'"),
        (Schema("a b", (FieldSpec("a", DataType.INT),)), "white space"),
        (Schema("t", (FieldSpec("a", DataType.INT), FieldSpec("a", DataType.INT))), "'a' is declared more than once"),
        (one(FieldSpec("a b", DataType.INT)), "white space"),
        (one(FieldSpec("", DataType.INT)), "is empty"),
        *(
            (one(FieldSpec("m", t, FieldRole.METRIC)), "metrics are INT")
            for t in (DataType.STRING, DataType.BOOLEAN, DataType.TIMESTAMP, DataType.JSON, DataType.UUID)
        ),
        (one(FieldSpec("m", DataType.INT, FieldRole.METRIC, single_value=False)), "only dimensions can be multi-value"),
        (one(FieldSpec("j", DataType.JSON, single_value=False)), "JSON column"),
        (one(FieldSpec("s", DataType.STRING, max_length=0)), "maxLength"),
        (one(FieldSpec("s", DataType.DOUBLE, default_null_value=float("nan"))), "NaN"),
        (one(FieldSpec("d", DataType.LONG, FieldRole.DATE_TIME)), "no format"),
        (one(day("1:DAYS:SIMPLE_DATE_FORMAT:dd-MM-yyyy")), "does not sort like time"),
        (one(day("1:DAYS:SIMPLE_DATE_FORMAT:yyyy-MM-dd", sample_value="31.1.2013")), "does not fit its format"),
        (one(day("1:DAYS:EPOCH", sample_value="1700000000")), "is the unit right"),
        (Schema("t", (FieldSpec("name", DataType.INT),), ("nam",)), "Did you mean 'name'"),
        (Schema("t", (FieldSpec("a", DataType.INT),), ("a", "a")), "more than once"),
        (Schema("t", (FieldSpec("a", DataType.INT, virtual_column_provider="x"),), ("a",)), "virtual column 'a'"),
        (Schema("t", (FieldSpec("a", DataType.INT, virtual_column_provider="x"),)), "only the built-in virtual columns"),
    ],
)
def test_refusals(schema: Schema, reason: str) -> None:
    assert reason in refusal(schema)


def test_all_problems_are_named_at_once() -> None:
    text = refusal(
        Schema("a b", (FieldSpec("$crc", DataType.INT), FieldSpec("m", DataType.STRING, FieldRole.METRIC)), ("x",))
    )
    assert text.count("\n- ") == 4


def columns_of(text: str) -> Collection[str]:
    """Enough of a parser for these tests."""
    if not text.endswith(")"):
        raise QueryError(ErrorCode.SQL_PARSING, f"cannot parse {text}")
    return text.partition("(")[2][:-1].split(", ")


def test_transforms_are_looked_into_with_a_parser() -> None:
    good = Schema(
        "t",
        (FieldSpec("a", DataType.INT, transform_function="f(x)"), FieldSpec("b", DataType.INT, transform_function="f(x)")),
    )
    validate_schema(good, columns_of=columns_of)
    chained = Schema(
        "t",
        (FieldSpec("a", DataType.INT, transform_function="f(b)"), FieldSpec("b", DataType.INT, transform_function="f(x)")),
    )
    validate_schema(chained)
    assert "itself computed" in refusal(chained, columns_of=columns_of)
    assert "reads the column itself" in refusal(
        one(FieldSpec("a", DataType.INT, transform_function="f(a)")), columns_of=columns_of
    )
    assert "not an expression: cannot parse f(" in refusal(
        one(FieldSpec("a", DataType.INT, transform_function="f(")), columns_of=columns_of
    )
