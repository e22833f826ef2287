"""The arguments that each function of the registry accepts, found by random calls that can be bound.

So that generated queries do not only find out that arguments do not fit.
"""

from collections.abc import Sequence
from random import Random

from tests.fuzz.fuzz_world import LISTS, TYPES

from gamay.base.errors import QueryError
from gamay.functions.evaluate import result_type
from gamay.functions.expression import Call, Column, Expression, Literal
from gamay.functions.registry import (
    aggregate_arguments,
    bind_aggregate,
    canonical_name,
    function_names,
    is_aggregate,
    scalar_function,
)
from gamay.model.types import DataType as D

_TRIES = 40
_MOST_ARGUMENTS = 6
_CONSTANTS: tuple[tuple[str, D], ...] = (
    *((text, D.INT) for text in ("0", "1", "2", "3", "50", "95", "2147483647")),
    *((text, D.LONG) for text in ("1700000000000", "9223372036854775807")),
    *((text, D.DOUBLE) for text in ("0.5", "1.5", "99.9", "1e300")),
    *(
        (f"'{text}'", D.STRING)
        for text in (
            "",
            "a",
            "Oslo",
            "DAY",
            "MONTH",
            "MILLISECONDS",
            "DAYS",
            "UTC",
            "Europe/Berlin",
            "1:DAYS",
            "1:MILLISECONDS:EPOCH",
            "1:DAYS:SIMPLE_DATE_FORMAT:yyyy-MM-dd",
            "yyyy-MM-dd HH:mm",
            "P1D",
            "$.a",
            "$.a.b[0]",
            "STRING",
            "INT",
            "LONG",
            "DOUBLE",
            "LONG_ARRAY",
            "(.*)",
            "[a-z]+",
            "ff00",
            "i > 2",
            "2024-05-01 10:30:00",
            "POINT (1 2)",
            "FILL_PREVIOUS_VALUE",
        )
    ),
)

Part = tuple[str, Expression]


def _parts() -> list[Part]:
    columns: list[Part] = [(name, Column(name)) for name in (*TYPES, *LISTS)]
    for text, data_type in _CONSTANTS:
        value: int | float | str = text[1:-1]
        if data_type in (D.INT, D.LONG):
            value = int(text)
        elif data_type is D.DOUBLE:
            value = float(text)
        columns.append((text, Literal(value, data_type)))
    return columns


def _type_of(name: str) -> tuple[D, bool]:
    return (TYPES[name], False) if name in TYPES else (LISTS[name], True)


def _argument_type(expression: Expression) -> tuple[D, bool]:
    return _type_of(expression.name) if isinstance(expression, Column) else result_type(expression, _type_of)


def kind_of(data_type: D, multi_value: bool = False) -> str:
    """Return the kind of values that may replace those of a type."""
    if multi_value:
        return "list"
    if data_type is D.BOOLEAN or data_type is D.TIMESTAMP:
        return data_type.value
    return "number" if data_type.is_numeric else "text" if data_type in (D.STRING, D.JSON) else "other"


COLUMN_KINDS = {name: kind_of(*_type_of(name)) for name in (*TYPES, *LISTS)}
VALUE_KINDS = {name: kind_of(_type_of(name)[0]) for name in COLUMN_KINDS}


def _kind_of_result(call: Call) -> str | None:
    """Return the kind of a call's result, `aggregate` for aggregates; None when its arguments do not fit."""
    try:
        if is_aggregate(call.name):
            bind_aggregate(call, [_argument_type(arg) for arg in aggregate_arguments(call)])
            return "aggregate"
        return kind_of(*result_type(call, _type_of))
    except QueryError:
        return None
    except Exception:  # noqa: BLE001 - a defect: let the query that has it show
        return "aggregate" if is_aggregate(call.name) else "other"


def working_calls(rng: Random) -> dict[str, list[str]]:
    """Return, by the kind of their results, the texts of calls that can be bound, some of each function if possible."""
    parts = _parts()
    calls: dict[str, list[str]] = {}
    for name in function_names():
        for texts, kind in _found(canonical_name(name), parts, rng).items():
            calls.setdefault(kind, []).append(f"{name}({', '.join(texts)})")
    return calls


def _found(key: str, parts: Sequence[Part], rng: Random) -> dict[tuple[str, ...], str]:
    function = scalar_function(key)
    least, most = (1, 3) if function is None else (function.min_args, function.max_args)
    most = min(least + 3 if most is None else most, _MOST_ARGUMENTS)
    found: dict[tuple[str, ...], str] = {}
    for _ in range(_TRIES * max(1, least) ** 2):
        chosen = [rng.choice(parts) for _ in range(rng.randint(least, max(least, most)))]
        if chosen and rng.random() < 0.8:  # calls of constants alone are computed when the query is compiled
            chosen[0] = rng.choice(parts[: len(COLUMN_KINDS)])
        kind = _kind_of_result(Call(key, tuple(expression for _, expression in chosen)))
        if kind is not None:
            found[tuple(text for text, _ in chosen)] = kind
            if len(found) >= 6:
                break
    return found
