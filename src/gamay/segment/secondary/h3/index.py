"""H3 index: the rows with a point within some distance of another, or in an area."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pyroaring import BitMap

from gamay.base.errors import CorruptSegmentError, InvalidConfigError
from gamay.functions.evaluate import evaluate_entries
from gamay.functions.expression import Expression
from gamay.functions.geometry import points_array
from gamay.functions.vector import EncodedVector, Scalar, Vector
from gamay.model.types import DataType
from gamay.segment.encode.checks import BufferChecker
from gamay.segment.index.bitmaps import bitmap_of
from gamay.segment.secondary.files import read_buffers, write_buffers
from gamay.segment.secondary.h3.cells import Grouped, check_groups, group, open_groups, write_groups
from gamay.segment.secondary.h3.conditions import asked
from gamay.segment.secondary.h3.points import read_points
from gamay.segment.spi import Found, Ids, IndexSource, SecondaryIndex

# marking flags of all rows is cheaper than sorting docs if at least one doc in this number is selected
_SPARSE = 8


class H3IndexType:
    """Implements `IndexType` for a column of serialised points or well-known text, or for a longitude and a latitude."""

    kind = "h3"
    needs = "h3"
    extra = "geo"
    of_blocks = True
    is_portable = True

    def build(self, columns: Sequence[IndexSource], settings: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
        types = {column.data_type for column in columns}
        numbers = {DataType.FLOAT, DataType.DOUBLE}
        is_of_one = len(columns) == 1 and types <= {DataType.BYTES, DataType.STRING}
        if not (is_of_one or (len(columns) == 2 and types <= numbers)) or not all(c.single_value for c in columns):
            named = ", ".join(f"'{column.name}'" for column in columns)
            raise InvalidConfigError(f"the h3 index of {named} needs single values of BYTES or STRING, or two of DOUBLE")
        points = read_points(columns)
        grouped = group(points, settings["resolutions"], columns[0].num_docs)
        buffers = write_buffers(folder, lambda writer: write_groups(writer, grouped))
        return {
            "buffers": buffers,
            "isGeography": points.is_geography,
            "levels": [len(level.starts) - 1 for level in grouped.levels],
            "points": len(points.docs),
        }

    def open(
        self, folder: Path, content: Mapping[str, Any], columns: Sequence[IndexSource], settings: Mapping[str, Any]
    ) -> "H3Index":
        file, buffers = read_buffers(folder, content["buffers"])
        grouped = open_groups(file, buffers, len(content["levels"]))
        return H3Index([column.name for column in columns], grouped, content["isGeography"], columns[0].num_docs)

    def check(self, folder: Path, content: Mapping[str, Any], columns: Sequence[IndexSource]) -> None:
        file, buffers = read_buffers(folder, content["buffers"])
        checker = BufferChecker(file, buffers, f"h3 index of '{columns[0].name}'")
        if content["isGeography"] not in (True, False, None):
            raise CorruptSegmentError(f"{folder}: isGeography is {content['isGeography']!r}")
        check_groups(checker, len(content["levels"]), columns[0].num_docs)


class H3Index(SecondaryIndex):
    """The points of one column or two. is_geography: of serialised points; None if conditions determine it."""

    kind = "h3"

    def __init__(self, columns: Sequence[str], grouped: Grouped, is_geography: bool | None, num_docs: int) -> None:
        self._columns = columns
        self._grouped = grouped
        self._is_geography = is_geography
        self._num_docs = num_docs

    def find(self, condition: Expression) -> Found | None:
        """Return the rows found; those without a point, and those with a point of the other kind, remain to be tested."""
        question = asked(condition, self._columns, self._is_geography)
        if question is None or len(self._grouped.docs) == 0:
            return None
        certain, unknown = self._grouped.search(question.region)
        if len(unknown):
            x, y = self._grouped.x[unknown], self._grouped.y[unknown]
            points = Vector(DataType.BYTES, points_array(x, y, question.is_geography))
            certain = np.concatenate([certain, unknown[_holds(question.condition, points)]])
        docs, others = self._docs(certain), self._grouped.others
        return Found(docs) if not others else Found(docs | others, is_exact=False, unsure=others)

    def _docs(self, positions: Ids) -> BitMap:
        docs = self._grouped.docs[positions]
        if len(docs) * _SPARSE < self._num_docs:
            return bitmap_of(np.sort(docs))
        marks = np.zeros(self._num_docs, np.bool_)
        marks[docs] = True
        return bitmap_of(np.flatnonzero(marks))


def _holds(condition: Expression, points: Vector) -> Ids:
    found = evaluate_entries(condition, points)
    if isinstance(found, Scalar):
        return np.full(len(points), bool(found.value), np.bool_)
    vector = found.decode() if isinstance(found, EncodedVector) else found
    return np.asarray(vector.values if vector.nulls is None else vector.values & ~vector.nulls, np.bool_)


H3 = H3IndexType()
