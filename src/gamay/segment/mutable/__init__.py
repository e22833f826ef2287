"""Consuming segments: rows appended by batch, seen by queries at once, sealed to immutable segments column by column.

`MutableSegment` is what a consumer of a stream partition holds; `SizingHistory` tells it how large to begin.
"""

from gamay.segment.mutable.buffers import MemoryUse
from gamay.segment.mutable.segment import MutableSegment
from gamay.segment.mutable.sizing import ColumnSizing, Sizing, SizingHistory
from gamay.segment.mutable.view import SegmentView

__all__ = ["ColumnSizing", "MemoryUse", "MutableSegment", "SegmentView", "Sizing", "SizingHistory"]
