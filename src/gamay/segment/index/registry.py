"""The indexes among a column's buffers, in the order in which they are written."""

from collections.abc import Mapping
from typing import Any

from gamay.segment.index.bloom import BloomType
from gamay.segment.index.inverted import InvertedType
from gamay.segment.index.null import NullType
from gamay.segment.index.range import RangeType
from gamay.segment.index.sorted import SortedType
from gamay.segment.index.spi import ColumnIndexType
from gamay.segment.spi import IndexKey

COLUMN_INDEXES: tuple[ColumnIndexType, ...] = (NullType(), SortedType(), InvertedType(), RangeType(), BloomType())
BY_KEY: Mapping[IndexKey[Any], ColumnIndexType] = {each.key: each for each in COLUMN_INDEXES}
