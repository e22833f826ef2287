"""The registry of scalar and aggregate functions, by canonical name.

A name is canonical when it is lower case without underscores and dollar signs: `DATE_TRUNC`, `dateTrunc` and `datetrunc`
are one function. Functions register themselves when their module is imported. The first look-up imports the families that
most queries use; an unknown name imports those that many queries use, then all others, and finally the modules that
users' packages declare in the entry-point group `gamay.functions`. So a process starts fast, and no name is listed twice.
"""

import importlib
import logging
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TypeAlias

from gamay.base.errors import ErrorCode, QueryError, nearest
from gamay.functions.aggregate_spi import Aggregate
from gamay.functions.expression import FILTERED, SYNTAX, Call, Expression, Literal, Star
from gamay.functions.vector import Operand
from gamay.model.types import DataType

ValueType: TypeAlias = tuple[DataType, bool]
"""The type of an expression, and whether it is multi-value."""

AggregateFactory: TypeAlias = Callable[[Call, Sequence[ValueType]], Aggregate]
ArgumentSelector: TypeAlias = Callable[[Call], tuple[Expression, ...]]

# modules by level; a level is imported only if no earlier one has the name
LEVELS = (
    ("gamay.functions.scalar", "gamay.functions.aggregate.builtin"),
    ("gamay.functions.scalar.common", "gamay.functions.aggregate.common"),
    ("gamay.functions.scalar.extended", "gamay.functions.aggregate.extended"),
)
ENTRY_POINT_GROUP = "gamay.functions"
_log = logging.getLogger(__name__)
_SUFFIXED = re.compile(r"(.*?[a-z])(\d{1,3})(mv)?")


def canonical_name(name: str) -> str:
    """Return the name under which a function is registered.

    >>> canonical_name("DISTINCT_COUNT_HLL")
    'distinctcounthll'
    """
    return name.replace("_", "").replace("$", "").lower()


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """A function of single rows, computed for whole batches.

    result_type: raises QueryError if the arguments are invalid.
    compute: takes the arguments of a batch and its number of rows; a result equal for all rows may be a Scalar.
    is_deterministic: equal arguments give equal results, so calls may be computed once for each distinct value.
    can_fold: a call with constant arguments is a constant; false for functions of array results, which no literal holds.
    accepts_nulls: a null argument does not make the result null.
    repeats_lists: a constant list is passed as one row that stands for all, rather than copied for each row.
    not_of_rows: why the result does not depend on the row alone, if so; such calls are refused where rows are ingested.
    """

    name: str
    min_args: int
    max_args: int | None
    result_type: Callable[[Call, Sequence[ValueType]], ValueType]
    compute: Callable[[Call, Sequence[Operand], int], Operand]
    is_deterministic: bool = True
    can_fold: bool = True
    accepts_nulls: bool = False
    repeats_lists: bool = False
    not_of_rows: str = ""


@dataclass(frozen=True, slots=True)
class _AggregateEntry:
    factory: AggregateFactory
    arguments: ArgumentSelector
    suffixed: bool
    conditions: slice | None


_scalars: dict[str, ScalarFunction] = {}
_aggregates: dict[str, _AggregateEntry] = {}
_display_names: dict[str, str] = {}
_not_loaded: list[str] = []  # users' packages, each with its error
_loading = threading.RLock()
_loaded = 0  # the number of LEVELS imported
_all_are_loaded = False


def _load(level: int) -> None:
    """Import the packages up to a level."""
    global _loaded
    if _loaded < level:
        with _loading:
            for done in range(_loaded, level):
                for package in LEVELS[done]:
                    importlib.import_module(package)
                _loaded = max(_loaded, done + 1)  # a module may look up functions, and so call this, while it is imported


def _load_all() -> None:
    """Import all functions; a user's package that fails to import is logged, and named in errors."""
    global _all_are_loaded
    if not _all_are_loaded:
        with _loading:
            _load(len(LEVELS))
            for entry in entry_points(group=ENTRY_POINT_GROUP):
                try:
                    entry.load()
                except Exception as error:  # noqa: BLE001 - a user's package may fail in any way
                    _log.exception("the functions of '%s' (entry point '%s') could not be loaded", entry.value, entry.name)
                    _not_loaded.append(f"{entry.value} ({error!r})")
            _all_are_loaded = True


def _load_until_known(key: str) -> None:
    """Import modules until it is certain whether a function of this canonical name exists."""
    for level in range(1, len(LEVELS)):
        _load(level)
        if key in _scalars or key in _aggregates or key in SYNTAX or _unsuffixed(key) is not None:
            return
    _load_all()


def _claim(name: str) -> str:
    key = canonical_name(name)
    if key in _scalars or key in _aggregates:
        raise ValueError(f"the function name '{name}' is already taken")
    _display_names[key] = name
    return key


# -- scalar functions


def register_scalar(names: Iterable[str], function: ScalarFunction) -> None:
    """Register a scalar function under each of `names`; raises ValueError if one is taken."""
    for name in names:
        _scalars[_claim(name)] = function


def scalar_function(name: str) -> ScalarFunction | None:
    """Return the scalar function of this name, in any spelling, or None."""
    key = canonical_name(name)
    _load_until_known(key)
    return _scalars.get(key)


def must_get_scalar(name: str) -> ScalarFunction:
    """Return the scalar function of this name; raises QueryError that suggests the nearest name."""
    function = scalar_function(name)
    if function is None:
        raise unknown_function(name)
    return function


# -- aggregates


def per_row_arguments(call: Call) -> tuple[Expression, ...]:
    """Return the arguments that are evaluated for each row: the first one, and later ones that are not constants.

    `*` is not an argument: `count(*)` has none, `percentile(x, 95)` has x.
    """
    return tuple(
        arg for i, arg in enumerate(call.args) if not isinstance(arg, Star) and (i == 0 or not isinstance(arg, Literal))
    )


def register_aggregate(
    names: Iterable[str],
    factory: AggregateFactory,
    *,
    arguments: ArgumentSelector = per_row_arguments,
    suffixed: bool = False,
    conditions: slice | None = None,
) -> None:
    """Register an aggregate under each of `names`; raises ValueError if one is taken.

    factory: binds a call to the types of its per-row arguments; raises QueryError if they are invalid.
    arguments: selects the call's arguments that are evaluated for each row (aggregates are passed only these).
    suffixed: the name may carry its parameter, `percentile95(x)` or `percentile95mv(x)`; the factory is then passed the
    call `percentile(x, 95)` or `percentilemv(x, 95)`.
    conditions: the positions of arguments that are texts of WHERE conditions; the factory is passed them parsed.
    """
    for name in names:
        _aggregates[_claim(name)] = _AggregateEntry(factory, arguments, suffixed, conditions)


def is_aggregate(name: str) -> bool:
    """Whether a function of this name, in any spelling, is an aggregate; one with a FILTER clause is."""
    if name == FILTERED:
        return True
    key = canonical_name(name)
    _load_until_known(key)
    return key in _aggregates or _unsuffixed(key) is not None


def bind_aggregate(call: Call, arg_types: Sequence[ValueType]) -> Aggregate:
    """Return the aggregate for a call; `arg_types` are those of `aggregate_arguments(call)`. Raises QueryError."""
    call, entry = _resolve(call)
    aggregate = entry.factory(call, arg_types)
    if not hasattr(aggregate, "traits"):
        kind = f"{type(aggregate).__module__}.{type(aggregate).__qualname__}"
        raise QueryError(
            ErrorCode.QUERY_VALIDATION,
            f"Aggregate '{_display_names[call.name]}' has no traits: {kind} must declare its result type and other "
            "facts in `traits`, a gamay.functions.aggregate_spi.AggregateTraits",
        )
    return aggregate


def aggregate_arguments(call: Call) -> tuple[Expression, ...]:
    """Return the expressions that are evaluated for each row: only x of `percentile(x, 95)`, none of `count(*)`."""
    call, entry = _resolve(call)
    return entry.arguments(call)


def condition_positions(call: Call) -> range:
    """Return the positions of the arguments that are texts of conditions; empty for all other functions."""
    key = canonical_name(call.name)
    _load_until_known(key)
    entry = _aggregates.get(key)
    conditions = None if entry is None else entry.conditions
    return range(0) if conditions is None else range(*conditions.indices(len(call.args)))


def _unsuffixed(key: str) -> tuple[str, int] | None:
    """Split `percentile95mv` into (`percentilemv`, 95) if such an aggregate takes a suffix; else None."""
    match = _SUFFIXED.fullmatch(key)
    if match is None:
        return None
    base = match[1] + (match[3] or "")
    entry = _aggregates.get(base)
    return (base, int(match[2])) if entry is not None and entry.suffixed else None


def _resolve(call: Call) -> tuple[Call, _AggregateEntry]:
    key = canonical_name(call.name)
    _load_until_known(key)
    if key in _aggregates:
        return (call if call.name == key else Call(key, call.args)), _aggregates[key]
    split = _unsuffixed(key)
    if split is None:
        raise unknown_function(call.name)
    base, parameter = split
    if len(call.args) != 1:
        raise QueryError(
            ErrorCode.QUERY_VALIDATION,
            f"Function '{call.name}' takes 1 argument, not {len(call.args)}; write {base}(x, {parameter}, ...) instead",
        )
    return Call(base, (*call.args, Literal(parameter, DataType.INT))), _aggregates[base]


# -- both


# written without parentheses elsewhere
_MOMENTS = {
    "currenttimestamp": "NOW()",
    "currentdate": "CAST(DATETRUNC('DAY', NOW()) AS TIMESTAMP)",
    "localtimestamp": "NOW()",
}
# functions of other databases, and their equivalents here
_ELSEWHERE = _MOMENTS | {
    "if": "CASE WHEN condition THEN x ELSE y END",
    "iif": "CASE WHEN condition THEN x ELSE y END",
    "decode": "CASE x WHEN a THEN b ELSE c END",
    "ifnull": "COALESCE(x, y)",
    "nvl": "COALESCE(x, y)",
    "getdate": "NOW()",
    "sysdate": "NOW()",
    "len": "LENGTH(x)",
    "charindex": "STRPOS(x, 'part')",
    "instr": "STRPOS(x, 'part')",
    "dateformat": "TODATETIME(x, 'yyyy-MM-dd')",
    "tochar": "TODATETIME(x, 'yyyy-MM-dd')",
    "strftime": "TODATETIME(x, 'yyyy-MM-dd')",
    "strtodate": "FROMDATETIME(x, 'yyyy-MM-dd')",
    "stringagg": "LISTAGG(x, ',')",
    "groupconcat": "LISTAGG(x, ',')",
    "median": "PERCENTILE(x, 50)",
    "percentilecont": "PERCENTILE(x, 50)",
    "stddev": "STDDEVSAMP(x)",
    "variance": "VARSAMP(x)",
    "corr": "COVARPOP(x, y) / (STDDEVPOP(x) * STDDEVPOP(y))",
    "argmin": "EXPRMIN(x, measure)",
    "argmax": "EXPRMAX(x, measure)",
    "minby": "EXPRMIN(x, measure)",
    "maxby": "EXPRMAX(x, measure)",
    "every": "BOOLAND(condition)",
    "countdistinct": "COUNT(DISTINCT x)",
    "countif": "COUNT(*) FILTER (WHERE condition)",
    "sumif": "SUM(x) FILTER (WHERE condition)",
    "approxcountdistinct": "DISTINCTCOUNTHLL(x)",
    "any": "x IN (…)",
    "some": "x IN (…)",
}


def unknown_function(name: str) -> QueryError:
    """Return the error for an unknown function name."""
    _load_all()
    missing = f" Some functions could not be loaded: {'; '.join(_not_loaded)}." if _not_loaded else ""
    elsewhere = _ELSEWHERE.get(canonical_name(name))
    hint = f" Write {elsewhere}." if elsewhere else nearest(name, _display_names.values())
    return QueryError(ErrorCode.QUERY_VALIDATION, f"Unknown function '{name}'.{hint}{missing}")


def moment_hint(name: str) -> str:
    """Return a hint at Gamay's equivalent of CURRENT_TIMESTAMP etc., which are parsed as columns; empty for other names."""
    moment = _MOMENTS.get(canonical_name(name))
    return f" Write {moment}." if moment else ""


def function_names() -> list[str]:
    """Return the names of all functions as declared, sorted; without those that queries cannot name."""
    _load_all()
    return sorted((name for name in _display_names.values() if "(" not in name), key=str.lower)
