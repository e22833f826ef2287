"""Name resolution within one table: the schema's columns, ignoring case, and the virtual columns."""

from collections.abc import Iterable, Iterator, Mapping

from gamay.base.errors import ErrorCode, QueryError, nearest
from gamay.functions.evaluate import result_type
from gamay.functions.expression import FILTERED, ITEM, TEXT_SCORE, Call, Column, Expression, Literal, column_names, walk
from gamay.functions.items import or_null, typed_item
from gamay.functions.registry import moment_hint
from gamay.functions.scalar.text.text_match import Searched
from gamay.functions.scalar.text.text_score import score_of
from gamay.functions.scalar.time.time_units import start_of_unit
from gamay.functions.text import to_text
from gamay.model.index.timestamp_index import TimestampColumn, has_timestamps, timestamp_column
from gamay.model.schema.schema import BUILT_IN_COLUMNS, FieldSpec, Schema
from gamay.model.types import DataType

ValueType = tuple[DataType, bool]
"""A data type, and whether it is multi-value."""

VIRTUAL_COLUMNS: Mapping[str, ValueType] = {
    name: (spec.data_type, not spec.single_value) for name, spec in BUILT_IN_COLUMNS.items()
}
NULL_FLAG_PREFIX = "$isNull:"
FILTER_PREFIX = "$filter:"
_NULL_TESTS = ("isnull", "isnotnull")
_NULL_TEXT = Literal("null", DataType.STRING)
_VIRTUAL_BY_FOLDED = {name.lower(): name for name in VIRTUAL_COLUMNS}


class Scope:
    """Resolver of the columns of one table.

    scores: the searches of the bound calls of textScore, by the names of their columns.
    """

    def __init__(self, schema: Schema, table: str | None) -> None:
        self._schema = schema
        self._table = table or schema.name
        self._names = {name.lower(): name for name in schema.column_names}
        self.scores: dict[str, Searched] = {}

    def resolve(self, name: str) -> str:
        """Return the column's name as spelled in the schema, without a prefix `table.`. Raises QueryError 710."""
        if name in VIRTUAL_COLUMNS:
            return name
        folded = self._folded(name)
        found = self._names.get(folded) or _VIRTUAL_BY_FOLDED.get(folded)
        if found is None and (derived := self.timestamp_column(folded)) is not None:
            return derived.name
        if found is None:
            hint = (
                moment_hint(name)
                or nearest(name, self.star())
                or f" Columns of {self._table}: {', '.join(self.star()[:20])}"
            )
            raise QueryError(ErrorCode.UNKNOWN_COLUMN, f"Unknown columnName '{name}' found in the query.{hint}")
        return found

    def _folded(self, name: str) -> str:
        folded = name.lower()
        for prefix in (self._table, self._schema.name):
            if prefix and folded not in self._names and folded.startswith(f"{prefix.lower()}."):
                folded = folded[len(prefix) + 1 :]
        return folded

    def timestamp_column(self, name: str) -> TimestampColumn | None:
        """Return the column of a timestamp index, such as `$ts$DAY`; None for the schema's own columns and other names.

        Every time column has them: if a segment lacks one, or the table has no such index, it is computed.
        """
        folded = self._folded(name)
        derived = None if folded in self._names else timestamp_column(folded)
        base = None if derived is None else self._names.get(derived.base)
        if derived is None or base is None or not has_timestamps(self._schema.field(base)):
            return None
        return TimestampColumn(base, derived.granularity)

    def knows(self, name: str) -> bool:
        """Whether a column of this name exists."""
        is_own = name in VIRTUAL_COLUMNS or name.lower() in self._names or name.lower() in _VIRTUAL_BY_FOLDED
        return is_own or self.timestamp_column(name) is not None

    def _check_texts(self, comparison: Call) -> None:
        """Check names on the right of a comparison, with a hint to quote texts."""
        for arg in comparison.args[1:]:
            if isinstance(arg, Column):
                try:
                    self.resolve(arg.name)
                except QueryError as error:
                    message = f"{str(error).rstrip('.')}. Write strings in single quotes: '{arg.name}'"
                    raise QueryError(ErrorCode.UNKNOWN_COLUMN, message) from None

    def type_of(self, name: str) -> ValueType:
        """Return the type of a resolved column."""
        if name in VIRTUAL_COLUMNS:
            return VIRTUAL_COLUMNS[name]
        if name.startswith(NULL_FLAG_PREFIX):
            return DataType.BOOLEAN, False
        if name in self.scores:
            return DataType.DOUBLE, False
        spec = self._schema.field(name)
        return spec.data_type, not spec.single_value

    def fields(self, names: Iterable[str]) -> dict[str, FieldSpec]:
        """Return the schema's fields of resolved columns, without virtual ones; for `$ts$DAY` that of `ts`.

        For a score it is that of its text column.
        """
        plain = dict.fromkeys(
            text
            for name in _read(names)
            for text in (column_names(self.scores[name].text) if name in self.scores else (name,))
        )
        stored = [name for name in plain if name not in VIRTUAL_COLUMNS]
        bases = {name: derived.base for name in stored if (derived := self.timestamp_column(name)) is not None}
        return {name: self._schema.field(name) for name in dict.fromkeys(bases.get(name, name) for name in stored)}

    def scores_in(self, names: Iterable[str]) -> dict[str, Searched]:
        """Return the searches of the scores among resolved columns."""
        return {name: self.scores[name] for name in _read(names) if name in self.scores}

    def star(self) -> list[str]:
        """Return the columns of `*`: all in alphabetical order, without virtual ones."""
        return sorted(name for name in self._schema.column_names if not name.startswith("$"))

    def bind(self, expression: Expression) -> Expression:
        """Resolve every column of an expression; `$ts$DAY` becomes its expression, a score a column."""
        if isinstance(expression, Column):
            name = self.resolve(expression.name)
            if name.startswith("$") and (derived := self.timestamp_column(name)) is not None:
                return start_of_unit(derived.granularity, Column(derived.base))
            return expression if name == expression.name else Column(name)
        if isinstance(expression, Call):
            if expression.name in COMPARISONS:
                self._check_texts(expression)
            args = tuple(self.bind(arg) for arg in expression.args)
            if expression.name in _NULL_TESTS and isinstance(expression.args[0], Column):
                args = (Column(column_names(args[0])[0]),)  # `$ts$DAY` is null where `ts` is
            if expression.name == "item":
                return typed_item(args, self._spec)
            if expression.name in ("textscore", TEXT_SCORE):
                return self._score(Call(expression.name, args))
            return expression if args == expression.args else Call(expression.name, args)
        return expression

    def _score(self, call: Call) -> Column:
        searched = score_of(call, result_type(call.args[0], self.type_of) if call.args else (DataType.UNKNOWN, False))
        self.scores[name := to_text(call)] = searched
        return Column(name)

    def _spec(self, name: str) -> FieldSpec | None:
        return None if name in VIRTUAL_COLUMNS else self._schema.field(name)


# functions whose second and later arguments are often strings
COMPARISONS = frozenset(
    {"equals", "notequals", "lessthan", "lessthanorequal", "greaterthan", "greaterthanorequal", "in", "notin", "like"}
)


def _read(names: Iterable[str]) -> Iterator[str]:
    """Yield column names, without the prefix of null flags."""
    return (name.removeprefix(NULL_FLAG_PREFIX) for name in names)


def with_null_defaults(expression: Expression) -> Expression:
    """Adapt an expression to null handling: missing keys of maps are NULL.

    So is the default 'null' of jsonExtractScalar.
    """
    if not isinstance(expression, Call):
        return expression
    args = tuple(with_null_defaults(arg) for arg in expression.args)
    if expression.name == "jsonextractscalar" and len(args) == 4 and args[3] == _NULL_TEXT:
        args = (*args[:3], Literal(None, DataType.UNKNOWN))
    if expression.name == ITEM:
        return or_null(expression)
    return expression if args == expression.args else Call(expression.name, args)


def with_null_flags(expression: Expression) -> Expression:
    """Replace `column IS NULL` in an expression with the column's null flags.

    Without null handling null rows hold the column's default, so the values do not show nulls.
    """
    if not isinstance(expression, Call):
        return expression
    if expression.name in _NULL_TESTS and isinstance(expression.args[0], Column):
        flag = Column(NULL_FLAG_PREFIX + expression.args[0].name)
        return flag if expression.name == "isnull" else Call("not", (flag,))
    if expression.name == FILTERED:  # its condition becomes a filter, which handles nulls itself
        return Call(FILTERED, (with_null_flags(expression.args[0]), expression.args[1]))
    args = tuple(with_null_flags(arg) for arg in expression.args)
    if expression.name == "case":
        conditions = range(0, len(args) - 1, 2)
        args = tuple(with_null_items(arg) if place in conditions else arg for place, arg in enumerate(args))
    return expression if args == expression.args else Call(expression.name, args)


def with_null_items(condition: Expression) -> Expression:
    """Make missing keys of maps NULL in a condition, regardless of null handling."""
    if not isinstance(condition, Call):
        return condition
    if condition.name == ITEM:
        return or_null(condition)
    args = tuple(with_null_items(arg) for arg in condition.args)
    return condition if args == condition.args else Call(condition.name, args)


def reads_keys(expression: Expression) -> bool:
    """Whether an expression reads values of maps by key."""
    return any(isinstance(part, Call) and part.name in (ITEM, "mapvalue") for part in walk(expression))
