"""Conversion of a condition on points to the region where it holds."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gamay.functions.evaluate import evaluate
from gamay.functions.expression import Call, Column, Expression, Literal, replaced
from gamay.functions.geometry import GEOGRAPHY, deserialize, geo_library, point_of
from gamay.functions.scalar.comparison import MIRRORED
from gamay.functions.vector import Scalar
from gamay.model.types import DataType
from gamay.segment.secondary.h3.regions import Area, Bounds, Outside, PlaneRing, Region, SphereRing

POINT = Column("point")
"""The name of the column of serialised points in a rewritten condition."""

_BOUNDS = {"lessthan": "upper", "lessthanorequal": "upper", "greaterthan": "lower", "greaterthanorequal": "lower"}
_RELATIONS = ("stcontains", "stwithin", "stequals")
# (relation, argument position of the point) for which all interior points of the shape satisfy the relation
_FILLED = (("stwithin", 0), ("stcontains", 1))
_FROM_TEXT = {"stgeomfromtext": False, "stgeogfromtext": True}


@dataclass(frozen=True)
class Asked:
    """A condition on points. condition: rewritten to use `POINT`; region: the points for which it holds."""

    condition: Expression
    is_geography: bool
    region: Region


def asked(condition: Expression, columns: Sequence[str], is_geography: bool | None) -> Asked | None:
    """Return a condition as one on the points of columns; None if an index cannot answer it.

    is_geography: whether the columns have geographies; None if they have texts, or longitude and latitude.
    """
    if isinstance(condition, Call) and condition.name == "not":
        inner = asked(condition.args[0], columns, is_geography)
        return inner and Asked(Call("not", (inner.condition,)), inner.is_geography, Outside(inner.region))
    for measure, place, other in _measures(condition):
        point, constant = measure.args[place], measure.args[1 - place]
        kind = is_geography if point == Column(columns[0]) else _kind_of(point, columns)
        if kind is None or not isinstance(constant, Literal) or not isinstance(constant.value, bytes):
            continue
        assert isinstance(condition, Call)
        region = _region(condition, measure, place, constant.value, other, kind)
        return None if region is None else Asked(replaced(condition, {point: POINT}), kind, region)
    return None


def _measures(condition: Expression) -> Iterator[tuple[Call, int, int]]:
    """Yield each call on two geometries in a condition, the argument position of the point, and the call's own position."""
    if isinstance(condition, Call):
        for number, part in enumerate(condition.args):
            if isinstance(part, Call) and part.name in ("stdistance", *_RELATIONS) and len(part.args) == 2:
                yield part, 0, number
                yield part, 1, number


def _kind_of(point: Expression, columns: Sequence[str]) -> bool | None:
    """Return whether an expression creates geographies from columns; None if it does not create points from them."""
    if not isinstance(point, Call):
        return None
    names = tuple(arg.name for arg in point.args[:2] if isinstance(arg, Column))
    if point.name in _FROM_TEXT and len(point.args) == len(columns) == 1 and names == tuple(columns):
        return _FROM_TEXT[point.name]
    if point.name == "stpoint" and names == tuple(columns) and len(columns) == 2:
        flag = point.args[2] if len(point.args) == 3 else Literal(False, DataType.BOOLEAN)
        if isinstance(flag, Literal) and isinstance(flag.value, bool | int):
            return bool(flag.value)
    return None


def _region(condition: Call, measure: Call, place: int, constant: bytes, number: int, is_geography: bool) -> Region | None:
    """Return the region where a condition holds; None if unknown, or if the function does not accept the constant."""
    if not constant or bool(constant[0] & GEOGRAPHY) != is_geography:
        return None
    try:
        if measure.name in _RELATIONS:
            return _area(condition, measure, place, constant)
        bounds = _bounds(condition, number)
        if bounds is None:
            return None
        if not is_geography:
            shape = deserialize(constant).shape
            return None if shape.is_empty else PlaneRing(shape, bounds)
        longitude, latitude = point_of(constant)
    except ValueError:  # the function reports it for each row
        return None
    is_on_globe = abs(longitude) <= 180 and abs(latitude) <= 90
    return SphereRing(longitude, latitude, bounds) if is_on_globe else None


def _bounds(condition: Call, place: int) -> Bounds | None:
    """Return the distances for which a comparison holds. place: the argument position of the distance."""
    name, args = condition.name, condition.args
    if name == "between" and place == 0:
        lower, upper = (_number(arg) for arg in args[1:])
        return None if lower is None or upper is None else Bounds(lower, upper)
    if len(args) != 2:
        return None
    side = _BOUNDS.get(name if place == 0 else MIRRORED.get(name, name))
    limit = _number(args[1 - place])
    if side is None or limit is None:
        return None
    return Bounds(limit, math.inf) if side == "lower" else Bounds(-math.inf, limit)


def _number(expression: Expression) -> float | None:
    value = expression.value if isinstance(expression, Literal) else None
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal) or math.isnan(value):
        return None
    return float(value)


def _area(condition: Call, measure: Call, place: int, constant: bytes) -> Region | None:
    holds = [_holds(condition, measure, answer) for answer in (0, 1)]
    shape: Any = deserialize(constant).shape
    # the parts of an invalid shape may overlap, and then implementations differ about its interior
    if holds[0] == holds[1] or shape.is_empty or shape.geom_type == "GeometryCollection" or not shape.is_valid:
        return None
    is_filled = (measure.name, place) in _FILLED and geo_library("shapely").get_dimensions(shape) == 2
    area = Area(shape, is_filled=is_filled)
    return area if holds[1] else Outside(area)


def _holds(condition: Call, measure: Call, answer: int) -> bool | None:
    """Return whether a condition holds given the result of its relation; None if it depends on more than that."""
    known = replaced(condition, {measure: Literal(answer, DataType.INT)})
    assert isinstance(known, Call)
    if not all(isinstance(arg, Literal) for arg in known.args):
        return None
    found = evaluate(known, _no_column, 1)
    return bool(found.value) if isinstance(found, Scalar) else None


def _no_column(name: str) -> Any:
    raise KeyError(name)
