"""Pruning: selection of the segments that may have matching rows, at the broker by their records, at the server by open
segments."""
