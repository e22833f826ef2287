"""The arguments of window funnels: which are constants, which are read for each row, and the options in the texts."""

import math
from dataclasses import dataclass

from gamay.base.errors import ErrorCode, QueryError, nearest
from gamay.functions.expression import Call, Expression, Literal

_MODES = ("STRICT_DEDUPLICATION", "STRICT_ORDER", "STRICT_INCREASE", "KEEP_ALL")
_FUNCTIONS = ("AVG", "MEDIAN", "MIN", "MAX", "COUNT", "PERCENTILE95")
_STEPS_MAX = 1000
_FIRST_STEP = 3
_PERCENTILES = {"MIN": 0.0, "MEDIAN": 50.0, "MAX": 100.0}


@dataclass(frozen=True, slots=True)
class FunnelOptions:
    """The constant arguments of a call.

    window: the length of a walk, exclusive, in units of the times. gap_max: the maximum time between consecutive steps, 0
    for any. strict: deduplication, order, increase. keeps_all: rows without a step are events too. functions: of
    FUNNELSTEPDURATIONSTATS.
    """

    window: int
    num_steps: int
    num_fields: int
    gap_max: int
    strict: tuple[bool, bool, bool]
    keeps_all: bool
    functions: tuple[str, ...]


def percentile_of(function: str) -> float:
    """Return the percentile that a function computes: 0 for MIN, 50 for MEDIAN; raises ValueError for other functions."""
    if function in _PERCENTILES:
        return _PERCENTILES[function]
    prefix, name, number = function.rpartition("PERCENTILE")
    percentile = float(number) if name and not prefix else math.nan
    if not 0 <= percentile <= 100:
        raise ValueError(f"{percentile} is not between 0 and 100")
    return percentile


def funnel_arguments(call: Call) -> tuple[Expression, ...]:
    """Return the expressions to evaluate for each row: the time, the steps, and the fields. Raises QueryError."""
    steps, fields = _parts(call)
    return (call.args[0], *steps, *fields)


def funnel_options(name: str, call: Call) -> FunnelOptions:
    """Return the options of a call. Raises QueryError, which names the wrong argument."""
    steps, fields = _parts(call)
    modes: set[str] = set()
    gap_max = 0
    functions: tuple[str, ...] = ()
    has_fields = call.name == "funneleventsfunctioneval"
    for arg in call.args[_FIRST_STEP + len(steps) + (1 + len(fields) if has_fields else 0) :]:
        text = arg.value if isinstance(arg, Literal) else None
        if not isinstance(text, str):
            raise _wrong(call, "the steps are followed by texts such as 'STRICT_ORDER' or 'maxStepDuration=1000'")
        key, equals, value = (part.strip().upper() for part in text.partition("="))
        if not equals or key == "MODE":
            modes |= {_mode(call, part.strip()) for part in (value if equals else key).split(",")}
        elif key == "MAXSTEPDURATION":
            gap_max = _whole(call, "maxStepDuration", value)
        elif key == "DURATIONFUNCTIONS" and call.name == "funnelstepdurationstats":
            functions = tuple(_function(call, part.strip()) for part in value.split(","))
        else:
            raise _wrong(call, f"unknown option '{text}'; there are maxStepDuration=n and the modes {', '.join(_MODES)}")
    if call.name == "funnelstepdurationstats" and not functions:
        raise _wrong(call, "the functions are missing, as in 'durationFunctions=avg,max,percentile95'")
    return FunnelOptions(
        window=_whole(call, "the window", _constant(call, 1)),
        num_steps=len(steps),
        num_fields=len(fields),
        gap_max=gap_max,
        strict=("STRICT_DEDUPLICATION" in modes, "STRICT_ORDER" in modes, "STRICT_INCREASE" in modes),
        keeps_all="KEEP_ALL" in modes,
        functions=functions,
    )


def _parts(call: Call) -> tuple[tuple[Expression, ...], tuple[Expression, ...]]:
    """Return the steps and the fields of a call."""
    if len(call.args) <= _FIRST_STEP:
        raise _wrong(call, "the arguments are a time, the window, the number of steps, and the condition of each step")
    count = _whole(call, "the number of steps", _constant(call, 2))
    steps = call.args[_FIRST_STEP : _FIRST_STEP + count]
    if len(steps) < count or count > _STEPS_MAX:
        raise _wrong(call, f"the number of steps is {count}, but {len(steps)} follow; at most {_STEPS_MAX} are allowed")
    if call.name != "funneleventsfunctioneval":
        return steps, ()
    place = _FIRST_STEP + count
    if place >= len(call.args):
        raise _wrong(call, "the steps are followed by the number of fields and the fields")
    num_fields = _whole(call, "the number of fields", _constant(call, place))
    fields = call.args[place + 1 : place + 1 + num_fields]
    if len(fields) < num_fields:
        raise _wrong(call, f"the number of fields is {num_fields}, but {len(fields)} follow")
    return steps, fields


def _constant(call: Call, position: int) -> object:
    argument = call.args[position]
    return argument.value if isinstance(argument, Literal) else None


def _whole(call: Call, what: str, value: object) -> int:
    if isinstance(value, int | str) and not isinstance(value, bool):
        try:
            number = int(value)
        except ValueError:
            number = 0
        if 0 < number < 1 << 63:
            return number
    raise _wrong(call, f"{what} must be a positive whole number" + ("" if value is None else f", not {value!r}"))


def _mode(call: Call, name: str) -> str:
    if name not in _MODES:
        raise _wrong(call, f"unknown mode '{name}'.{nearest(name, _MODES) or ' Modes are ' + ', '.join(_MODES)}")
    return name


def _function(call: Call, name: str) -> str:
    if name not in ("AVG", "COUNT"):
        try:
            percentile_of(name)
        except ValueError:
            raise _wrong(call, f"unknown function '{name}'; there are {', '.join(_FUNCTIONS)} and the like") from None
    return name


def _wrong(call: Call, detail: str) -> QueryError:
    return QueryError(ErrorCode.QUERY_VALIDATION, f"Aggregate '{call.name}': {detail}")
