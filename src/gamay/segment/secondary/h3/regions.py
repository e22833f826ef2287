"""Regions of the plane, which classify boxes: all points inside, all outside, or unknown.

Bounds come from the formulas of `gamay.functions.scalar.geo.geometries` in interval arithmetic. If rounding could
matter, the result is unknown, and the function itself is evaluated; so an index gives exactly the answers of a scan.
"""

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from gamay.functions.geometry import geo_library
from gamay.functions.scalar.geo.geometries import EARTH_RADIUS_M
from gamay.segment.spi import Ids

# Rounding errors of haversines and distances are some 1e-15 of their values and of their square roots.
_ROUNDING = 1e-13
_LEAST_HAVERSINE = 1e-26
# degrees by which boxes are widened for Shapely, to avoid boxes without area and mere contacts
_MARGIN = 1e-9


class Region(Protocol):
    """A set of points of the plane."""

    def classify(self, x0: Ids, x1: Ids, y0: Ids, y1: Ids) -> tuple[Ids, Ids]:
        """Return which boxes [x0, x1] x [y0, y1] are entirely in the region, and for which that is unknown.

        Both bool [n]; the remaining boxes are disjoint from it. Coordinates are degrees on the globe. Points are passed as
        boxes with the same arrays for both ends.
        """
        ...


@dataclass(frozen=True)
class Outside:
    """The complement of a region."""

    region: Region

    def classify(self, x0: Ids, x1: Ids, y0: Ids, y1: Ids) -> tuple[Ids, Ids]:
        inside, unknown = self.region.classify(x0, x1, y0, y1)
        return ~(inside | unknown), unknown


@dataclass(frozen=True)
class Bounds:
    """Interval of distances from `lower` to `upper`; whether the ends belong to it does not matter."""

    lower: float
    upper: float

    def classify(self, least: Ids, greatest: Ids, slack: float) -> tuple[Ids, Ids]:
        """Return which intervals of distances are certainly within the bounds, and for which that is unknown."""
        inside = (least > self.lower + slack) & (greatest < self.upper - slack)
        outside = (greatest < self.lower - slack) | (least > self.upper + slack)
        return inside, ~(inside | outside)


class SphereRing:
    """The points of the globe whose distance in metres from a point is within bounds."""

    def __init__(self, longitude: float, latitude: float, bounds: Bounds) -> None:
        self._longitude = longitude
        self._latitude = math.radians(latitude)
        lower, upper = _haversine(bounds.lower), _haversine(bounds.upper)
        self._bounds = Bounds(lower, upper)
        largest = max((h for h in (lower, upper) if 0 <= h <= 1), default=0.0)
        self._slack = _ROUNDING * (largest + math.sqrt(largest)) + _LEAST_HAVERSINE

    def classify(self, x0: Ids, x1: Ids, y0: Ids, y1: Ids) -> tuple[Ids, Ids]:
        """Bound each part of a distance's haversine: hav(lat2 - lat1) + cos(lat1) cos(lat2) hav(lon2 - lon1)."""
        south, north = np.radians(y0), np.radians(y1)
        near_y, far_y = _haversines(south - self._latitude, north - self._latitude)
        near_x, far_x = _haversines(np.radians(x0 - self._longitude), np.radians(x1 - self._longitude))
        cosines = np.cos(south), np.cos(north)
        widest = np.where((y0 <= 0) & (y1 >= 0), 1.0, np.maximum(*cosines))
        own = math.cos(self._latitude)
        least = near_y + own * np.minimum(*cosines) * near_x
        greatest = far_y + own * widest * far_x
        return self._bounds.classify(least, greatest, self._slack)


def _haversine(distance_m: float) -> float:
    """Return the haversine of a distance; -1 for a negative one, 2 beyond half the globe's circumference."""
    half_angle = distance_m / (2 * EARTH_RADIUS_M)
    if half_angle < 0:
        return -1.0
    return 2.0 if half_angle > math.pi / 2 * (1 + _ROUNDING) else math.sin(min(half_angle, math.pi / 2)) ** 2


def _haversines(low: Ids, high: Ids) -> tuple[Ids, Ids]:
    """Return the least and the greatest haversine of the angles of intervals [low, high] between -2 pi and 2 pi."""
    ends = np.sin(low / 2) ** 2, np.sin(high / 2) ** 2
    has_least = (low <= 0) & (high >= 0)
    has_greatest = ((low <= math.pi) & (high >= math.pi)) | ((low <= -math.pi) & (high >= -math.pi))
    return np.where(has_least, 0.0, np.minimum(*ends)), np.where(has_greatest, 1.0, np.maximum(*ends))


class PlaneRing:
    """The points whose distance from a geometry in the plane is within bounds, in the unit of the coordinates."""

    def __init__(self, shape: Any, bounds: Bounds) -> None:
        self._shape = shape
        self._bounds = bounds
        finite = [abs(b) for b in (bounds.lower, bounds.upper) if math.isfinite(b)]
        extent = max(map(abs, shape.bounds))
        self._slack = _ROUNDING * (max(finite, default=0.0) + extent + 360)

    def classify(self, x0: Ids, x1: Ids, y0: Ids, y1: Ids) -> tuple[Ids, Ids]:
        """Bound distances: within a box, they differ from that of its centre by at most half its diagonal."""
        shapely = geo_library("shapely")
        middles = shapely.points((x0 + x1) / 2, (y0 + y1) / 2)
        distance, reach = shapely.distance(middles, self._shape), np.hypot(x1 - x0, y1 - y0) / 2
        return self._bounds.classify(distance - reach, distance + reach, self._slack)


class Area:
    """The points related to a valid shape: those inside it if `is_filled`, else an unknown subset of those on or in it."""

    def __init__(self, shape: Any, *, is_filled: bool) -> None:
        self._shape = shape
        self._is_filled = is_filled
        geo_library("shapely").prepare(shape)

    def classify(self, x0: Ids, x1: Ids, y0: Ids, y1: Ids) -> tuple[Ids, Ids]:
        shapely = geo_library("shapely")
        west, south, east, north = self._shape.bounds
        near = np.flatnonzero((x1 >= west) & (x0 <= east) & (y1 >= south) & (y0 <= north))
        inside, unknown = np.zeros((2, len(x0)), np.bool_)
        if x0 is x1:
            # the functions also use prepared or plain shapes, whichever is faster: both are exact
            marks, test = (inside, shapely.contains_xy) if self._is_filled else (unknown, shapely.intersects_xy)
            marks[near] = test(self._shape, x0[near], y0[near])
            return inside, unknown
        boxes = shapely.box(x0[near] - _MARGIN, y0[near] - _MARGIN, x1[near] + _MARGIN, y1[near] + _MARGIN)
        if self._is_filled:
            inside[near] = shapely.contains_properly(self._shape, boxes)
        unknown[near] = shapely.intersects(self._shape, boxes) & ~inside[near]
        return inside, unknown
