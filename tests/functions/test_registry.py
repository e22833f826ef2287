"""The registry: names, suffixes, suggestions for misspelt names."""

import re
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from gamay.base.errors import QueryError
from gamay.functions import registry
from gamay.functions.aggregate_spi import AggregateTraits
from gamay.functions.expression import Call, Column, Literal, Star
from gamay.functions.registry import (
    aggregate_arguments,
    bind_aggregate,
    canonical_name,
    function_names,
    is_aggregate,
    must_get_scalar,
    register_aggregate,
    register_scalar,
    scalar_function,
)
from gamay.model.types import DataType
from gamay.sql.parser import parse_query

X = Column("x")
NINETY_FIVE = Literal(95, DataType.INT)

TOUR = """
plus minus times divide mod negate abs ceil floor exp ln log2 log10 sqrt power sign roundDecimal truncate least
greatest equals notEquals lessThan lessThanOrEqual greaterThan greaterThanOrEqual and or not case coalesce nullIf
in notIn between like regexpLike cast upper lower reverse trim ltrim rtrim length substr substring concat replace
lpad rpad strpos startsWith endsWith contains split splitPart left right repeat regexpExtract regexpReplace
dateTrunc toEpochSeconds toEpochDaysRounded toEpochHoursBucket fromEpochMinutes fromEpochDaysBucket toDateTime
fromDateTime year quarter month week dayOfYear dayOfMonth dayOfWeek hour minute second millisecond timeConvert
dateTimeConvert now ago extract timestampAdd timestampDiff jsonExtractScalar jsonFormat arrayLength arrayMin
arrayMax arraySum arrayAverage valueIn md5 sha256 bitAnd bitOr bitXor bitNot bitShiftLeft isNaN isNull isNotNull
isTrue isDistinctFrom
"""


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    """An empty registry with one aggregate, and the calls that its factory was given."""
    for name in ("_scalars", "_aggregates", "_display_names"):
        monkeypatch.setattr(registry, name, {})
    monkeypatch.setattr(registry, "_loaded", len(registry.LEVELS))
    monkeypatch.setattr(registry, "_all_are_loaded", True)
    calls: list[Call] = []

    def factory(call: Call, arg_types: object) -> object:
        calls.append(call)
        return SimpleNamespace(traits=AggregateTraits(DataType.INT))

    register_aggregate(["percentile"], factory, suffixed=True)  # type: ignore[arg-type]
    register_aggregate(["percentileMV"], factory, suffixed=True)  # type: ignore[arg-type]
    register_aggregate(["sum", "total"], factory)  # type: ignore[arg-type]
    return calls


@pytest.mark.parametrize("name", ["dateTrunc", "DATE_TRUNC", "datetrunc", "date_trunc"])
def test_names_in_any_spelling_are_one_function(name: str) -> None:
    assert scalar_function(name) is must_get_scalar("datetrunc")


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)


@pytest.mark.parametrize("respell", [str.upper, str.lower, _snake, lambda name: _snake(name).upper(), "_".join])
def test_every_function_is_found_in_any_spelling(respell: Callable[[str], str]) -> None:
    names = function_names()
    assert len(names) > 400
    for name in names:
        spelled = respell(name)
        assert is_aggregate(spelled) == is_aggregate(name)
        assert scalar_function(spelled) is scalar_function(name)
        assert is_aggregate(spelled) or scalar_function(spelled) is not None, spelled


def test_the_names_of_a_query_are_canonical() -> None:
    for written in ("DISTINCT_COUNT_HLL", "distinctCountHll", "Distinct_CountHLL", "D_ISTINCTCOUNTHLL"):
        item = parse_query(f"SELECT {written}(a) FROM t").select[0]
        assert item.expression == Call("distinctcounthll", (Column("a"),))
    for written in ("json_extract_scalar", "JSONEXTRACTSCALAR", "Json_ExtractScalar"):
        where = parse_query(f"SELECT a FROM t WHERE {written}(b, '$.c', 'INT') > 1").where
        assert isinstance(where, Call)
        assert isinstance(where.args[0], Call)
        assert where.args[0].name == "jsonextractscalar"


def test_canonical_name() -> None:
    assert canonical_name("$SUM0") == "sum0"


def test_suffixed_aggregates(fresh: list[Call]) -> None:
    assert is_aggregate("PERCENTILE95")
    assert is_aggregate("percentile_95_mv")
    assert not is_aggregate("sum95")
    assert not is_aggregate("percentile1234")
    bind_aggregate(Call("percentile95", (X,)), [(DataType.INT, False)])
    bind_aggregate(Call("percentile99mv", (X,)), [(DataType.INT, True)])
    assert fresh == [Call("percentile", (X, NINETY_FIVE)), Call("percentilemv", (X, Literal(99, DataType.INT)))]
    with pytest.raises(QueryError, match="takes 1 argument"):
        bind_aggregate(Call("percentile95", (X, NINETY_FIVE)), [])


def test_an_aggregate_without_traits_is_refused(fresh: list[Call]) -> None:
    register_aggregate(["old_Total"], lambda call, types: object())  # type: ignore[arg-type, return-value]
    with pytest.raises(QueryError, match=r"'old_Total' has no traits: builtins\.object must declare its result type"):
        bind_aggregate(Call("oldTotal", (X,)), [(DataType.INT, False)])


def test_arguments_for_each_row(fresh: list[Call]) -> None:
    assert aggregate_arguments(Call("percentile", (X, NINETY_FIVE))) == (X,)
    assert aggregate_arguments(Call("sum", (NINETY_FIVE,))) == (NINETY_FIVE,)
    assert aggregate_arguments(Call("total", (X, Column("y")))) == (X, Column("y"))
    assert aggregate_arguments(Call("sum", (Star(),))) == ()


def test_a_name_is_given_once(fresh: list[Call]) -> None:
    with pytest.raises(ValueError, match="taken"):
        register_aggregate(["S_U_M"], lambda call, types: None)  # type: ignore[arg-type, return-value]


def test_a_scalar_cannot_take_the_name_of_an_aggregate(fresh: list[Call]) -> None:
    with pytest.raises(ValueError, match="taken"):
        register_scalar(["Sum"], None)  # type: ignore[arg-type]


def test_unknown_names_say_what_is_near() -> None:
    with pytest.raises(QueryError, match="Did you mean 'regexpExtract'"):
        must_get_scalar("regexp_extrct")
    with pytest.raises(QueryError, match="Unknown function"):
        bind_aggregate(Call("nosuchthing", (X,)), [])
    assert scalar_function("nosuchthing") is None


def test_every_function_of_the_tour_is_there() -> None:
    wanted = TOUR.split()
    assert [name for name in wanted if scalar_function(name) is None] == []
    assert len(function_names()) > 200
