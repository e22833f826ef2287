"""Functions in DuckDB: native ones with the same results as Gamay's, and Gamay's own as functions of Arrow arrays."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from gamay.base.errors import ErrorCode, QueryError
from gamay.base.guard import Guard, enter
from gamay.functions.aggregate.choose.ordering import order, values_of
from gamay.functions.aggregate.lookup import INTEGERS
from gamay.functions.aggregate.totals.totals import mask_of
from gamay.functions.convert import convert, to_vector
from gamay.functions.evaluate import evaluate
from gamay.functions.expression import Call, Column, Expression, Literal
from gamay.functions.registry import ValueType, aggregate_arguments, bind_aggregate
from gamay.functions.scalar.comparison import MIRRORED
from gamay.functions.vector import EncodedVector, Scalar, Vector, take_rows
from gamay.model.types import DataType
from gamay.query.bind.aggregates import is_null_of_nothing
from gamay.relational.bounds import Bound, Watch
from gamay.relational.leaf import array_of_vector, vector_of

Write: TypeAlias = Callable[[Expression], str]

_SQL_TYPES = {
    DataType.INT: "INTEGER",
    DataType.LONG: "BIGINT",
    DataType.TIMESTAMP: "BIGINT",
    DataType.FLOAT: "FLOAT",
    DataType.DOUBLE: "DOUBLE",
    DataType.BIG_DECIMAL: "DECIMAL(38, 10)",  # of a NULL; that of numbers is `decimal_type`
    DataType.BOOLEAN: "BOOLEAN",
    DataType.STRING: "VARCHAR",
    DataType.JSON: "VARCHAR",
    DataType.MAP: "VARCHAR",
    DataType.BYTES: "BLOB",
    DataType.UUID: "BLOB",
    DataType.UNKNOWN: "INTEGER",
    DataType.OBJECT: "VARCHAR",
}
COMPARED = {
    "equals": "=",
    "notequals": "<>",
    "lessthan": "<",
    "lessthanorequal": "<=",
    "greaterthan": ">",
    "greaterthanorequal": ">=",
}
_WHOLE = {"longplus": "+", "longminus": "-", "longtimes": "*", "longdivide": "//", "longmod": "%"}
_TESTS = {
    "isnull": "IS NULL",
    "isnotnull": "IS NOT NULL",
    "istrue": "IS TRUE",
    "isnottrue": "IS NOT TRUE",
    "isfalse": "IS FALSE",
    "isnotfalse": "IS NOT FALSE",
}
_DISTINCT_FROM = {"isdistinctfrom": "IS DISTINCT FROM", "isnotdistinctfrom": "IS NOT DISTINCT FROM"}
DECIMAL_DIGITS = 38
_MANY = 200
_SEPARATOR = "\x1f"
_PLACES_LEAST = 10
_NUMBERS = (DataType.INT, DataType.LONG, DataType.FLOAT, DataType.DOUBLE)
_WIDER = {
    DataType.INT: (DataType.LONG, DataType.FLOAT, DataType.DOUBLE),
    DataType.LONG: (DataType.DOUBLE, DataType.TIMESTAMP),
    DataType.FLOAT: (DataType.DOUBLE,),
    DataType.TIMESTAMP: (DataType.LONG,),
    DataType.STRING: (DataType.JSON,),
    DataType.JSON: (DataType.STRING,),
}


def decimal_type(columns: Iterable[pa.DataType], constants: Iterable[Decimal]) -> str:
    """Return DuckDB's name of the decimal type that holds all digits of some columns and constants; raises QueryError.

    It has decimal places for values computed from integers, if 38 digits allow.
    """
    whole, places = 0, 0
    for column in columns:
        numbers = column.value_type if pa.types.is_list(column) else column
        if pa.types.is_decimal(numbers):
            whole, places = max(whole, numbers.precision - numbers.scale), max(places, numbers.scale)
    for constant in constants:
        _, digits, exponent = constant.as_tuple()
        assert isinstance(exponent, int)
        whole, places = max(whole, len(digits) + exponent), max(places, -exponent)
    if whole + places > DECIMAL_DIGITS:
        raise QueryError(
            ErrorCode.QUERY_EXECUTION,
            f"BIG_DECIMALs of {whole} digits before the point and {places} after it cannot be joined or computed with: "
            f"at most {DECIMAL_DIGITS} digits are supported",
        )
    return f"DECIMAL({DECIMAL_DIGITS}, {max(places, min(_PLACES_LEAST, DECIMAL_DIGITS - whole))})"


def literal_sql(literal: Literal, decimals: str) -> str:
    """Return a constant as SQL of exactly its type. decimals: the type of BIG_DECIMALs."""
    value = literal.value
    if value is None:
        return "NULL"
    if literal.type is DataType.BOOLEAN:
        return "TRUE" if value else "FALSE"
    if isinstance(value, bytes):
        return "'" + "".join(f"\\x{byte:02X}" for byte in value) + "'::BLOB"
    if isinstance(value, str):
        # DuckDB's parser treats NUL as the end of the text
        parts = ["'" + part.replace("'", "''") + "'" for part in value.split("\0")]
        return parts[0] if len(parts) == 1 else f"({' || chr(0) || '.join(parts)})"
    if isinstance(value, float) and literal.type in (DataType.DOUBLE, DataType.FLOAT):
        return f"'{value!r}'::{_SQL_TYPES[literal.type]}"
    if isinstance(value, Decimal):
        return f"'{value:f}'::{decimals}"
    return f"({value})::{_SQL_TYPES[literal.type]}" if literal.type is not DataType.INT or value < 0 else str(value)


def native(call: Call, types: Sequence[ValueType], write: Write, own: Callable[[], str]) -> str | None:
    """Return a call as native DuckDB SQL; None if DuckDB has no function with the same results.

    own: writes the call as a Gamay function, for values outside DuckDB's range.
    """
    name, args = call.name, call.args
    if name in ("case", "casewhen"):
        branches = " ".join(
            f"WHEN {write(args[place])} THEN {write(args[place + 1])}" for place in range(0, len(args) - 1, 2)
        )
        return f"(CASE {branches} ELSE {write(args[-1])} END)"
    if name in ("coalesce", "nullif"):
        return f"{name}({', '.join(write(arg) for arg in args)})"
    if any(multi_value for _, multi_value in types):
        return _of_lists(call, types, write)
    if name in COMPARED:
        return f"({write(args[0])} {COMPARED[name]} {write(args[1])})"
    if name in _DISTINCT_FROM:
        return f"({write(args[0])} {_DISTINCT_FROM[name]} {write(args[1])})"
    if name in ("and", "or"):
        return "(" + f" {name.upper()} ".join(write(arg) for arg in args) + ")"
    if name == "not":
        return f"(NOT {write(args[0])})"
    if name in _TESTS:
        return f"({write(args[0])} {_TESTS[name]})"
    if name in ("in", "notin"):
        word = "IN" if name == "in" else "NOT IN"
        return f"({write(args[0])} {word} ({_many(args[1:]) or ', '.join(write(arg) for arg in args[1:])}))"
    if name == "between":
        return f"({write(args[0])} BETWEEN {write(args[1])} AND {write(args[2])})"
    if name == "cast":
        return _cast(call, types, write)
    if name == "longtoint":
        return f"CAST({write(args[0])} AS INTEGER)"
    return _part_of_moment(call, types, write, own) or _length(call, types, write, own) or _computed(call, types, write)


def _many(constants: Sequence[Expression]) -> str | None:
    """Return many integers or texts as a subquery, since DuckDB binds an IN of thousands slowly; None for other
    constants."""
    values = [each.value for each in constants if isinstance(each, Literal)]
    if len(values) < max(len(constants), _MANY):
        return None
    if all(type(value) is int for value in values):
        return f"SELECT unnest(CAST(string_split('{','.join(map(str, values))}', ',') AS BIGINT[]))"
    texts = [value for value in values if isinstance(value, str) and _SEPARATOR not in value]
    if len(texts) < len(values):
        return None
    return (
        f"SELECT unnest(string_split({literal_sql(Literal(_SEPARATOR.join(texts), DataType.STRING), '')}, '{_SEPARATOR}'))"
    )


def _computed(call: Call, types: Sequence[ValueType], write: Write) -> str | None:
    """Return arithmetic, and the few text functions with the same results in DuckDB."""
    name, args = call.name, call.args
    kinds = [data_type for data_type, _ in types]
    if name in _WHOLE:
        operands = (f"CAST({write(arg)} AS BIGINT)" for arg in args)
        return "(" + f" {_WHOLE[name]} ".join(operands) + ")"
    is_binary = name in ("plus", "minus", "times") or (name == "divide" and len(args) == 2)
    if is_binary and all(
        kind in _NUMBERS or kind in (DataType.UNKNOWN, DataType.TIMESTAMP, DataType.BIG_DECIMAL) for kind in kinds
    ):
        is_float = all(kind in (DataType.INT, DataType.FLOAT) for kind in kinds) and DataType.FLOAT in kinds
        to = "FLOAT" if is_float else "DOUBLE"
        sign = {"plus": "+", "minus": "-", "times": "*", "divide": "/"}[name]
        return "(" + f" {sign} ".join(f"CAST({write(arg)} AS {to})" for arg in args) + ")"
    if name == "negate" and kinds[0] in _NUMBERS:
        return f"(-{write(args[0])})"
    if name == "abs" and kinds[0] in _NUMBERS:
        return f"abs({write(args[0])})"
    if name == "concat" and len(kinds) == 2 and all(kind.is_text for kind in kinds):
        return "(" + " || ".join(write(arg) for arg in args) + ")"
    return None


def _length(call: Call, types: Sequence[ValueType], write: Write, own: Callable[[], str]) -> str | None:
    """Return the characters of a text, or its units of UTF-16, which are more than those of a text that is not ASCII."""
    if call.name not in ("length", "charlength", "characterlength") or not types[0][0].is_text:
        return None
    text = write(call.args[0])
    characters = f"CAST(length({text}) AS INTEGER)"
    if call.name != "length":
        return characters
    return f"(CASE WHEN length({text}) = strlen({text}) THEN {characters} ELSE {own()} END)"


_PARTS = {"year": "year", "quarter": "quarter", "month": "month", "monthofyear": "month", "day": "day", "dayofmonth": "day"}
_PARTS |= {"hour": "hour", "minute": "minute", "second": "second"}


_YEARS_1_TO_9999 = "BETWEEN -62135596800000 AND 253402300799999"


def _part_of_moment(call: Call, types: Sequence[ValueType], write: Write, own: Callable[[], str]) -> str | None:
    """Return a part of a timestamp in UTC: `year(ts)`, `EXTRACT(MONTH FROM ts)`.

    DuckDB's timestamps are microseconds, so it rejects milliseconds out of their range, such as the default null value of
    LONG.
    """
    name, args = call.name, call.args
    if name == "extract" and isinstance(args[0], Literal):
        name, args, types = str(args[0].value).lower(), args[1:], types[1:]
    if name not in _PARTS or len(args) != 1 or types[0][0] not in (DataType.TIMESTAMP, DataType.LONG):
        return None
    moment = write(args[0])
    part = f"CAST({_PARTS[name]}(make_timestamp_ms({moment})) AS INTEGER)"
    return f"(CASE WHEN {moment} {_YEARS_1_TO_9999} THEN {part} ELSE {own()} END)"


def _cast(call: Call, types: Sequence[ValueType], write: Write) -> str | None:
    """Return a CAST to a wider type."""
    target = call.args[1]
    assert isinstance(target, Literal)
    to = DataType(str(target.value)) if str(target.value) in DataType.__members__ else None
    source = types[0][0]
    if source is to:
        return write(call.args[0])
    inner = call.args[0]
    if to is not None and (source is DataType.UNKNOWN or to in _WIDER.get(source, ())):
        return f"CAST({write(inner)} AS {_SQL_TYPES[to]})"
    return None


def _of_lists(call: Call, types: Sequence[ValueType], write: Write) -> str | None:
    """Return a condition on a list: it holds if it holds for any value; `<>` and NOT IN if for all."""
    name, args = call.name, call.args
    if name in COMPARED and not types[0][1]:
        mirrored = Call(MIRRORED.get(name, name), args[::-1])
        return _of_lists(mirrored, types[::-1], write)
    if name in _TESTS and name.endswith("null"):
        return f"({write(args[0])} {_TESTS[name]})"
    if name in ("in", "notin", "between", *COMPARED) and types[0][1] and not any(multi for _, multi in types[1:]):
        if name in ("notequals", "notin"):
            return f"(NOT {_of_lists(Call('in', args), types, write)})"
        if name == "between":
            test = f"x BETWEEN {write(args[1])} AND {write(args[2])}"
        elif name in COMPARED:
            test = f"x {COMPARED[name]} {write(args[1])}"
        else:
            test = f"x IN ({', '.join(write(arg) for arg in args[1:])})"
        values = write(args[0])
        if all(isinstance(arg, Literal) for arg in args[1:]):
            return f"(len(list_filter({values}, lambda x: {test})) > 0)"
        unknown = "CASE WHEN count(*) = 0 THEN FALSE END"
        any_holds = f"SELECT coalesce(bool_or({test}), {unknown}) FROM (SELECT unnest({values}) AS x)"
        return f"(CASE WHEN {values} IS NULL THEN NULL ELSE ({any_holds}) END)"
    return None


def _plain(name: str) -> Callable[[Sequence[str], str], str]:
    return lambda args, order: f"{name}({', '.join(args)}{order})"


def _distinct(name: str) -> Callable[[Sequence[str], str], str]:
    return lambda args, order: f"{name}(DISTINCT {', '.join(args)}{order})"


def _listed(args: Sequence[str], order: str) -> str:
    distinct = "DISTINCT " if len(args) > 2 and args[2] == "TRUE" else ""
    return f"string_agg({distinct}{args[0]}, {args[1] if len(args) > 1 else repr(',')}{order})"


# those with the same results, independent of the order of rows, or dependent only on the order written
AGGREGATES: dict[str, Callable[[Sequence[str], str], str]] = {
    "count": _plain("count"),
    "sum": _plain("sum"),
    "min": _plain("min"),
    "max": _plain("max"),
    "avg": _plain("avg"),
    "distinctcount": _distinct("count"),
    "distinctsum": _distinct("sum"),
    "distinctavg": _distinct("avg"),
    "anyvalue": _plain("min"),  # the smallest, as everywhere
    "booland": _plain("bool_and"),
    "boolor": _plain("bool_or"),
    "stddevpop": _plain("stddev_pop"),
    "varpop": _plain("var_pop"),
    "covarpop": _plain("covar_pop"),
    "listagg": _listed,
}


_OF_WHOLE = {"percentile": "percentilelong", "mode": "modelong"}


def whole_form(call: Call, data_type: DataType) -> Call:
    """Return PERCENTILE and MODE of whole numbers as what gives them whole: a DOUBLE holds no more than 2^53."""
    averages = call.name == "mode" and len(call.args) > 1 and str(getattr(call.args[1], "value", "")).upper() == "AVG"
    if call.name not in _OF_WHOLE or data_type not in INTEGERS or averages:
        return call
    return Call(_OF_WHOLE[call.name], call.args)


@dataclass(frozen=True, slots=True)
class ArrowFunction:
    """A function to register in DuckDB, from Arrow arrays of equal length to one array."""

    name: str
    arg_types: tuple[str, ...]
    result_type: str
    compute: Callable[..., pa.Array]


_numbers = itertools.count()


class Calls:
    """The Gamay functions that a query calls in DuckDB.

    watch: enforces limits on rows. decimals: see `decimal_type`. guard: for the threads that evaluate them.
    """

    def __init__(self, watch: Watch, decimals: str, guard: Guard) -> None:
        self.functions: dict[object, ArrowFunction] = {}
        self.decimals = decimals
        self._watch = watch
        self._guard = guard

    def sql_type(self, value_type: ValueType) -> str:
        """Return DuckDB's name of a type."""
        data_type, multi_value = value_type
        name = self.decimals if data_type is DataType.BIG_DECIMAL else _SQL_TYPES[data_type]
        return name + ("[]" if multi_value else "")

    def bounded(self, kind: str, bound: Bound) -> str:
        """Return the name of a function that checks the number of a row against a limit."""
        key = (kind, bound)
        if key not in self.functions:
            self._add(key, ["BIGINT"], (DataType.BOOLEAN, False), partial(self._watch.kept, kind, bound))
        return self.functions[key].name

    def written(self, call: Call, types: Sequence[ValueType], result: ValueType, write: Write) -> str:
        """Return a call of a Gamay function as SQL; constant arguments become part of the function."""
        sent = [place for place, arg in enumerate(call.args) if not isinstance(arg, Literal)]
        args = [arg if isinstance(arg, Literal) else Column(f"a{place}") for place, arg in enumerate(call.args)]
        pattern = Call(call.name, tuple(args))
        of_types = [types[place] for place in sent]
        key = (pattern, tuple(of_types))
        function = self.functions.get(key)
        if function is None:
            names = [f"a{place}" for place in sent]
            compute = _scalar_computer(pattern, names, of_types, result, self._guard)
            function = self._add(key, [self.sql_type(one) for one in of_types], result, compute)
        written = ", ".join(f"CAST({write(call.args[place])} AS {self.sql_type(types[place])})" for place in sent)
        return f"{function.name}({written})" if sent else f"{function.name}(TRUE)"

    def aggregate(
        self,
        call: Call,
        types: Sequence[tuple[Expression, ValueType]],
        result: ValueType,
        write: Write,
        condition: str,
        over: str,
    ) -> str:
        """Return a Gamay aggregate as SQL: DuckDB collects the values of each group in lists, Gamay aggregates the lists."""
        by_arg = dict(types)
        args = aggregate_arguments(call)
        of_types = [by_arg[arg] for arg in args]
        key = (call, tuple(of_types), "aggregate")
        function = self.functions.get(key)
        if function is None:
            names = [f"{self.sql_type(one)}[]" for one in of_types]
            function = self._add(key, names, result, _aggregate_computer(call, of_types, result))
        written = ", ".join(
            f"coalesce(list(CAST({write(arg)} AS {self.sql_type(one)})){condition}{over}, [])"
            for arg, one in zip(args, of_types, strict=True)
        )
        return f"{function.name}({written})"

    def decimal_average(self, total: str, count: str) -> str:
        """Return the average of BIG_DECIMALs as SQL; what DuckDB divides becomes a DOUBLE."""
        key = "decimal average"
        function = self.functions.get(key)
        if function is None:
            function = self._add(key, [self.decimals, "BIGINT"], (DataType.BIG_DECIMAL, False), _decimal_averages)
        return f"{function.name}(CAST({total} AS {self.decimals}), {count})"

    def _add(
        self, key: object, arg_types: Sequence[str], result: ValueType, compute: Callable[..., pa.Array]
    ) -> ArrowFunction:
        made = ArrowFunction(f"gamay_f{next(_numbers)}", tuple(arg_types) or ("BOOLEAN",), self.sql_type(result), compute)
        self.functions[key] = made
        return made


def _scalar_computer(
    pattern: Call, names: Sequence[str], types: Sequence[ValueType], result: ValueType, guard: Guard
) -> Callable[..., pa.Array]:
    def compute(*arrays: Any) -> pa.Array:
        num_rows = len(arrays[0])
        vectors = {
            name: vector_of(array, *value_type) for name, array, value_type in zip(names, arrays, types, strict=False)
        }
        before = enter(guard)
        try:
            found = evaluate(pattern, vectors.__getitem__, num_rows)
        finally:
            enter(before)
        if isinstance(found, Scalar):
            vector = to_vector(found, num_rows)
        else:
            vector = found.decode() if isinstance(found, EncodedVector) else found
        return _as_arrow(vector, result)

    return compute


def _aggregate_computer(call: Call, types: Sequence[ValueType], result: ValueType) -> Callable[..., pa.Array]:
    is_decimal = list(types) == [(DataType.BIG_DECIMAL, False)]
    whole = whole_form(call, DataType.LONG if is_decimal else types[0][0]) if types else call
    of_ranks = is_decimal and whole is not call  # what is one of the values is found among their places in their order
    aggregate = bind_aggregate(whole, [(DataType.LONG, False)] if of_ranks else types)

    def compute(*arrays: Any) -> pa.Array:
        lists = [_lists(array) for array in arrays]
        num_groups = len(lists[0])
        groups = np.repeat(np.arange(num_groups, dtype=np.int32), np.diff(np.asarray(lists[0].offsets)))
        args = [vector_of(each.flatten(), *one) for each, one in zip(lists, types, strict=True)]
        # rows with a null argument are skipped, as in a query of one table with null handling; unknown conditions are false
        known = np.ones(len(groups), np.bool_)
        traits = aggregate.traits
        for place, arg in enumerate(args):
            if place in traits.conditions:
                args[place] = Vector(DataType.BOOLEAN, mask_of(convert(arg, DataType.BOOLEAN), len(groups)))
            elif arg.nulls is not None and (traits.required_arguments is None or place < traits.required_arguments):
                known &= ~arg.nulls
        if not known.all():
            rows = np.flatnonzero(known)
            groups = groups[rows]
            args = [_without_nulls(take_rows(arg, rows)) for arg in args]
        ranks = order(args[0]) if of_ranks else None
        if ranks is not None:
            args = [Vector(DataType.LONG, ranks.keys)]
        state = aggregate.allocate(num_groups)
        aggregate.update(state, groups, args, len(groups))
        found = aggregate.finish(aggregate.seal(state))
        if ranks is not None and len(groups):
            found = values_of(result[0], np.maximum(found.values, 0), ranks.entries)
        vector = to_vector(convert(found, result[0]), num_groups)
        empty = np.bincount(groups, minlength=num_groups) == 0
        if empty.any() and is_null_of_nothing(call.name):
            nulls = empty if vector.nulls is None else vector.nulls | empty
            vector = Vector(vector.type, vector.values, vector.offsets, nulls)
        return _as_arrow(vector, result)

    return compute


def _decimal_averages(totals: Any, counts: Any) -> pa.Array:
    """Return totals by counts, with as many places as the totals have."""
    place = Decimal(1).scaleb(-totals.type.scale)
    pairs = zip(totals.to_pylist(), counts.to_pylist(), strict=True)
    with localcontext(Context(prec=2 * DECIMAL_DIGITS, rounding=ROUND_HALF_EVEN)):
        averages = [None if total is None else (total / count).quantize(place) for total, count in pairs]
    return pa.array(averages, totals.type)


def _lists(array: pa.Array | pa.ChunkedArray) -> pa.ListArray:
    """Return the values of each group, in one chunk."""
    chunk = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    return chunk.chunk(0) if isinstance(chunk, pa.ChunkedArray) else chunk


def _without_nulls(operand: Any) -> Vector:
    return Vector(operand.type, operand.values, operand.offsets)


def _as_arrow(vector: Vector, result: ValueType) -> pa.Array:
    return array_of_vector(vector, result[0])
