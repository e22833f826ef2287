"""Consuming segments: rows appended in batches, immediately visible to queries, sealed to immutable segments by column.

A consumer of a stream partition has a `MutableSegment`; `SizingHistory` estimates its initial sizes.
"""

from gamay.segment.mutable.buffers import MemoryUse
from gamay.segment.mutable.segment import MutableSegment
from gamay.segment.mutable.sizing import ColumnSizing, Sizing, SizingHistory
from gamay.segment.mutable.view import SegmentView

__all__ = ["ColumnSizing", "MemoryUse", "MutableSegment", "SegmentView", "Sizing", "SizingHistory"]
