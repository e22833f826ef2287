"""The parameters of a sketch, given as one text: 'nominalEntries=4096;samplingProbability=1.0'."""

from collections.abc import Mapping
from dataclasses import dataclass

from gamay.base.errors import ErrorCode, QueryError, nearest
from gamay.functions.expression import Call, Literal
from gamay.model.types import DataType


@dataclass(frozen=True, slots=True)
class Number:
    """A parameter: its default (an int default allows integers only), its range, and an older name."""

    default: float
    least: float
    most: float
    synonym: str | None = None


def text_parameters(call: Call, position: int, known: Mapping[str, Number]) -> dict[str, float]:
    """Return all known parameters, from the text at this argument of the call or by default.

    Names are case-insensitive. Raises QueryError for an unknown name or a value out of range.
    """
    values = {name: number.default for name, number in known.items()}
    argument = call.args[position] if len(call.args) > position else Literal("", DataType.STRING)
    if not isinstance(argument, Literal) or not isinstance(argument.value, str):
        raise _wrong(call, f"argument {position + 1} must be a text of parameters such as {_example(known)}")
    names = {name: name for name in known} | {number.synonym: name for name, number in known.items() if number.synonym}
    by_folded = {written.lower(): name for written, name in names.items()}
    for part in argument.value.split(";"):
        if not part.strip():
            continue
        key, equals, text = part.partition("=")
        name = by_folded.get(key.strip().lower())
        if name is None or not equals:
            hint = nearest(key.strip(), names) if equals else ""
            raise _wrong(call, f"unknown parameter '{part.strip()}'; write parameters as {_example(known)}.{hint}")
        values[name] = checked(call, name, text.strip(), known[name])
    return values


def checked(call: Call, name: str, value: object, number: Number) -> float:
    """Return one parameter as a number; raises QueryError if it is not one or out of range."""
    whole = isinstance(number.default, int)
    try:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError
        parsed = int(value) if whole else float(value)
        if parsed != float(value) or not number.least <= parsed <= number.most:
            raise ValueError
    except (ValueError, OverflowError):
        kind, shown = "a whole number" if whole else "a number", "NULL" if value is None else repr(value)
        raise _wrong(call, f"{name} must be {kind} from {number.least} to {number.most}, not {shown}") from None
    return parsed


def number_parameter(call: Call, position: int, name: str, number: Number) -> int:
    """Return the integer at this argument of the call, or the default; raises QueryError."""
    if len(call.args) <= position:
        return int(number.default)
    argument = call.args[position]
    value = argument.value if isinstance(argument, Literal) else None
    if value is None:
        raise _wrong(call, f"argument {position + 1} must be {name}, a whole number from {number.least} to {number.most}")
    return int(checked(call, name, value, number))


def lg_k_parameter(call: Call, lg_k: Number) -> int:
    """Return lgK, the second argument of the call, given as a number or as a text such as 'nominalEntries=4096'.

    The number of entries is rounded up to a power of two. Raises QueryError.
    """
    argument = call.args[1] if len(call.args) > 1 else None
    if not isinstance(argument, Literal) or not isinstance(argument.value, str):
        return number_parameter(call, 1, "lgK", lg_k)
    entries = Number(1 << int(lg_k.default), 9, 1 << int(lg_k.most))
    known = {"nominalEntries": entries, "accumulatorThreshold": Number(2, 1, (1 << 31) - 1)}
    return (int(text_parameters(call, 1, known)["nominalEntries"]) - 1).bit_length()


def _wrong(call: Call, detail: str) -> QueryError:
    return QueryError(ErrorCode.QUERY_VALIDATION, f"Aggregate '{call.name}': {detail}")


def _example(known: Mapping[str, Number]) -> str:
    return "'" + ";".join(f"{name}={number.default}" for name, number in known.items()) + "'"
